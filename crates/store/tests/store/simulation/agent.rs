//! One agent: it works, asks again under the same key until it is answered, stalls, crashes and comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use switchboard_core::agent::Doing;
use switchboard_core::task::{OnDependencyFailure, Phase, Priority};
use switchboard_core::verb::{
    Acknowledge, AcquireLease, CreateTasks, Heartbeat, NewTask, Receive, ReleaseLease, ReleaseTask,
    ReportProgress, ReportedTask,
};
use switchboard_core::{AgentId, Door, LeasePath, MessageId, TaskId, Timestamp};
use switchboard_store::conformance::{Random, claim, complete, fail, register, send};

use super::call::{Act, Call, Reply};
use super::coordinator::Told;

/// How often it says that it lives, whatever else it does.
const BEATS_EVERY: Duration = Duration::from_secs(30);
const PATHS: &[&str] = &["src", "src/a.rs", "docs", "docs/b.md"];

pub struct Agent {
    name: String,
    lives: u32,
    pub id: AgentId,
    is_registered: bool,
    held: Option<(TaskId, u64)>,
    lease: Option<(&'static str, u64)>,
    unacknowledged: Vec<MessageId>,
    /// Asked, and not answered yet.
    asked: Option<Call>,
    /// An answer that it has, and asks for again all the same.
    again: Option<(Call, Reply)>,
    beat_at: Timestamp,
    /// It does nothing before this.
    pub away_until: Timestamp,
}

/// What agents know for certain, because they were told.
#[derive(Debug, Default)]
pub struct Facts {
    pub created: BTreeSet<TaskId>,
    /// Task and epoch to whoever was given it.
    pub claimed: BTreeMap<(TaskId, u64), AgentId>,
    pub completed: BTreeMap<TaskId, (AgentId, u64)>,
    pub sent: BTreeSet<MessageId>,
    pub received: BTreeSet<(MessageId, AgentId)>,
    /// Fencing tokens that were handed out.
    pub leased: BTreeMap<u64, AgentId>,
    /// Claims that agents were told they had lost.
    pub lost: BTreeSet<(TaskId, u64, AgentId)>,
    pub repeated: u64,
}

impl Agent {
    pub fn new(name: &str) -> Agent {
        Agent {
            name: name.to_owned(),
            lives: 0,
            id: name.into(),
            is_registered: false,
            held: None,
            lease: None,
            unacknowledged: Vec::new(),
            asked: None,
            again: None,
            beat_at: Timestamp::ZERO,
            away_until: Timestamp::ZERO,
        }
    }

    /// Whether it has nothing in its hands, nor perhaps.
    pub fn is_done(&self) -> bool {
        self.held.is_none() && self.asked.is_none()
    }

    /// All that it knew is gone. Soon it comes back as somebody else, late under its name.
    pub fn crash(&mut self, now: Timestamp, random: &mut Random) {
        let is_late = random.percent(30);
        self.lives += 1;
        let id = match is_late {
            true => self.id.clone(),
            false => format!("{}-{}", self.name, self.lives).into(),
        };
        let away = if is_late {
            130_000 + random.below(60_000)
        } else {
            random.below(30_000)
        };
        *self = Agent {
            lives: self.lives,
            id,
            away_until: now + Duration::from_millis(away),
            ..Agent::new(&self.name)
        };
    }

    /// What it says next, if anything.
    pub fn act(
        &mut self,
        now: Timestamp,
        next: &mut u64,
        others: &[AgentId],
        random: &mut Random,
        chaos: bool,
    ) -> Option<Call> {
        if self.away_until > now {
            return None;
        }
        if let Some(asked) = &self.asked {
            return Some(asked.clone());
        }
        if let Some((call, _)) = &self.again {
            return Some(call.clone());
        }
        if !random.percent(50) {
            return None;
        }
        *next += 1;
        let act = self.choose(now, *next, others, random, chaos)?;
        let call = Call {
            by: self.id.clone(),
            key: *next,
            act,
        };
        self.asked = Some(call.clone());
        Some(call)
    }

    fn choose(
        &mut self,
        now: Timestamp,
        n: u64,
        others: &[AgentId],
        random: &mut Random,
        chaos: bool,
    ) -> Option<Act> {
        if !self.is_registered {
            return Some(Act::Register(register(self.id.as_str(), &[])));
        }
        if now.since(self.beat_at) >= BEATS_EVERY {
            return Some(self.beat(random));
        }
        if let Some((task, epoch)) = self.held.clone() {
            return Some(self.work(task, epoch, random, chaos));
        }
        match random.below(100) {
            0..50 => Some(Act::Claim(claim(self.id.as_str()))),
            50..70 if chaos => Some(self.create(n, random)),
            70..78 if chaos => {
                let to = random.pick(others).filter(|_| random.clone().percent(70));
                let mut message = send(&format!("m{n}"), self.id.as_str(), to.map(AgentId::as_str));
                message.expires_in = random.percent(30).then(|| Duration::from_secs(60));
                message.ack_required = true;
                message.priority = Priority::ALL[n as usize % 4];
                Some(Act::Send(message))
            }
            78..88 => Some(Act::Receive(Receive {
                agent: self.id.clone(),
                kinds: Vec::new(),
                limit: 3,
                via: Door::Jetpack,
            })),
            88..92 => self.unacknowledged.pop().map(|message| {
                let agent = self.id.clone();
                let via = Door::Jetpack;
                Act::Acknowledge(Acknowledge {
                    agent,
                    message,
                    via,
                })
            }),
            _ => Some(self.lease(random)),
        }
    }

    fn beat(&self, random: &mut Random) -> Act {
        let task = self.held.as_ref().map(|(task, _)| ReportedTask {
            id: task.clone(),
            percent: random.percent(50).then(|| random.below(100) as u8),
            phase: None,
            note: None,
        });
        Act::Beat(Heartbeat {
            agent: self.id.clone(),
            doing: if task.is_some() {
                Doing::Busy
            } else {
                Doing::Idle
            },
            task,
            metrics: None,
        })
    }

    fn work(&mut self, task: TaskId, epoch: u64, random: &mut Random, chaos: bool) -> Act {
        let (id, name) = (self.id.as_str(), task.to_string());
        match random.below(100) {
            0..35 => Act::Progress(ReportProgress {
                agent: self.id.clone(),
                task,
                epoch: Some(epoch),
                phase: Phase::Implementing,
                percent: random.below(100) as u8,
                note: "at it".to_owned(),
                files: Vec::new(),
            }),
            35..47 if chaos => {
                let mut failure = fail(id, &name);
                failure.epoch = Some(epoch);
                failure.recoverable = random.percent(80);
                Act::Fail(failure)
            }
            47..55 if chaos => Act::Release(ReleaseTask {
                task,
                agent: Some(self.id.clone()),
                epoch: Some(epoch),
            }),
            55..65 => self.lease(random),
            _ => {
                let mut completion = complete(id, &name);
                completion.epoch = Some(epoch);
                Act::Complete(completion)
            }
        }
    }

    fn create(&self, n: u64, random: &mut Random) -> Act {
        let mut tasks = vec![NewTask::plain(format!("t{n}"), "to do")];
        tasks[0].about.priority = random
            .pick(Priority::ALL)
            .copied()
            .unwrap_or(Priority::Medium);
        tasks[0].about.max_retries = random.below(4) as u32;
        if random.percent(30) {
            let mut second = NewTask::plain(format!("t{n}-then"), "afterwards");
            second.dependencies = vec![tasks[0].id.clone()];
            second.on_dependency_failure = OnDependencyFailure::Fail;
            tasks.push(second);
        }
        Act::Create(CreateTasks { tasks })
    }

    fn lease(&mut self, random: &mut Random) -> Act {
        if let Some((path, fencing)) = self.lease.take() {
            return Act::Unlease(ReleaseLease {
                agent: Some(self.id.clone()),
                path: LeasePath::stored(path),
                fencing: Some(fencing),
            });
        }
        Act::Acquire(AcquireLease {
            agent: self.id.clone(),
            task: self
                .held
                .as_ref()
                .map(|(task, _)| task.clone())
                .filter(|_| random.percent(50)),
            epoch: None,
            path: LeasePath::stored(random.pick(PATHS).copied().unwrap_or("src")),
            lasts_for: Duration::from_secs(1 + random.below(120)),
        })
    }

    /// It hears what became of its call, or does not.
    pub fn hear(
        &mut self,
        call: &Call,
        told: Told,
        now: Timestamp,
        facts: &mut Facts,
        random: &mut Random,
    ) {
        if call.by != self.id {
            // Said in an earlier life.
            return;
        }
        let Told::Answer(answer) = told else {
            return;
        };
        if let Some((_, first)) = self.again.take_if(|(again, _)| again.key == call.key) {
            let second = answer.expect("what was answered is answered again");
            assert!(second.is_replay, "it happened again: {call:?}");
            assert_eq!(
                second.reply, first,
                "told otherwise the second time: {call:?}"
            );
            facts.repeated += 1;
            return;
        }
        if self.asked.take_if(|asked| asked.key == call.key).is_none() {
            return;
        }
        match answer {
            Ok(answer) => {
                self.learn(call, &answer.reply, now, facts);
                if random.percent(10) {
                    self.again = Some((call.clone(), answer.reply));
                }
            }
            Err(_) => self.refused(call, facts),
        }
    }

    fn learn(&mut self, call: &Call, reply: &Reply, now: Timestamp, facts: &mut Facts) {
        match (&call.act, reply) {
            (Act::Register(_), _) => {
                self.is_registered = true;
                self.beat_at = now;
            }
            (Act::Beat(_), _) => self.beat_at = now,
            (Act::Create(create), _) => {
                facts
                    .created
                    .extend(create.tasks.iter().map(|task| task.id.clone()));
            }
            (Act::Claim(_), Reply::Task(task, epoch)) => {
                let before = facts
                    .claimed
                    .insert((task.clone(), *epoch), self.id.clone());
                assert_eq!(before, None, "{task} was given twice under epoch {epoch}");
                self.held = Some((task.clone(), *epoch));
            }
            (Act::Progress(_), Reply::NotYours) => self.loses(facts),
            (Act::Complete(done), _) => {
                let (_, epoch) = self.held.take().expect("it reported on what it holds");
                let before = facts
                    .completed
                    .insert(done.task.clone(), (self.id.clone(), epoch));
                assert_eq!(before, None, "{} was completed twice", done.task);
                self.lease = None;
            }
            (Act::Fail(_) | Act::Release(_), _) => {
                self.held = None;
                self.lease = None;
            }
            (Act::Send(message), _) => {
                facts.sent.insert(message.id.clone());
            }
            (Act::Receive(_), Reply::Messages(ids)) => {
                for id in ids {
                    let is_new = facts.received.insert((id.clone(), self.id.clone()));
                    assert!(is_new, "{} received {id} twice", self.id);
                }
                self.unacknowledged.extend(ids.iter().cloned());
            }
            (Act::Acquire(lease), Reply::Lease(fencing)) => {
                let holder = facts.leased.insert(*fencing, self.id.clone());
                assert!(
                    holder.is_none_or(|holder| holder == self.id),
                    "a fencing token of two"
                );
                self.lease = PATHS
                    .iter()
                    .find(|path| lease.path == LeasePath::stored(path))
                    .map(|path| (*path, *fencing));
            }
            _ => {}
        }
    }

    fn refused(&mut self, call: &Call, facts: &mut Facts) {
        match &call.act {
            // Somebody of this name is alive.
            Act::Register(_) => {
                self.lives += 1;
                self.id = format!("{}-{}", self.name, self.lives).into();
            }
            Act::Complete(_) | Act::Fail(_) | Act::Release(_) | Act::Progress(_) => {
                self.loses(facts)
            }
            Act::Acquire(_) | Act::Unlease(_) | Act::Acknowledge(_) => {}
            Act::Beat(_) | Act::Create(_) | Act::Claim(_) | Act::Send(_) | Act::Receive(_) => {
                panic!("refused: {call:?}")
            }
        }
    }

    fn loses(&mut self, facts: &mut Facts) {
        if let Some((task, epoch)) = self.held.take() {
            facts.lost.insert((task, epoch, self.id.clone()));
        }
        self.lease = None;
    }
}
