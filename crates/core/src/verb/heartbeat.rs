//! HEARTBEAT: an agent says that it lives, what it does, and hears what it is told.

use super::{Verb, awake, speaker};
use crate::agent::{Agent, AgentMetrics, Command, CommandKind, Current, Doing, Presence};
use crate::changes::{Changes, Pulse};
use crate::event::Event;
use crate::id::{AgentId, CommandId, TaskId};
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Phase, Progress, Task};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    pub agent: AgentId,
    pub doing: Doing,
    pub task: Option<ReportedTask>,
    /// Memory in MB, tasks completed in this session.
    pub metrics: Option<(f64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedTask {
    pub id: TaskId,
    pub percent: Option<u8>,
    pub phase: Option<Phase>,
    /// What it is doing, in its own words.
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatTaken {
    pub at: Timestamp,
    pub commands: Vec<Command>,
}

impl Verb for Heartbeat {
    type Reply = HeartbeatTaken;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        let Some(agent) = want.agent(&self.agent) else {
            return;
        };
        if let Some(reported) = self.held(agent)
            && let Some(task) = want.task(&reported.id)
        {
            want.lane_of(task);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(HeartbeatTaken, Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        let named = self.held(known).and_then(|task| slice.task(&task.id));
        let says_more = |task| self.task.as_ref().is_some_and(|said| said.says_more(task));
        let is_noted = named.is_none_or(|task| !leaves_trace(task, now) && !says_more(task));
        if is_noted && self.changes_nothing(known, now) {
            changes.pulses.push(Pulse {
                agent: known.id.clone(),
                at: now,
                heartbeat: true,
            });
            return Ok((
                HeartbeatTaken {
                    at: now,
                    commands: self.strays(known, now),
                },
                changes,
            ));
        }
        let mut agent = awake(known, &mut changes, now);
        agent.heartbeats += 1;
        self.report_status(&mut agent, &mut changes);
        if let Some((memory_used_mb, tasks_completed_session)) = self.metrics {
            agent.metrics = Some(AgentMetrics {
                memory_used_mb,
                tasks_completed_session,
                at: now,
            });
        }
        if let Some(reported) = self.held(known) {
            agent.current = Some(reported.seen_by(known, now));
            if let Some(task) = slice.task(&reported.id) {
                reported.advance(task, &mut changes, now);
            }
        }
        obey_pings(&mut agent, &mut changes);
        let mut commands = agent.commands.clone();
        commands.extend(self.strays(known, now));
        for command in &mut agent.commands {
            command.handed = true;
        }
        changes.put(agent);
        Ok((HeartbeatTaken { at: now, commands }, changes))
    }
}

impl Heartbeat {
    fn held(&self, agent: &Agent) -> Option<&ReportedTask> {
        self.task
            .as_ref()
            .filter(|task| agent.holds.contains(&task.id))
    }

    /// A task the agent names but does not hold: it is told to let go, and nothing changes.
    fn strays(&self, agent: &Agent, now: Timestamp) -> Vec<Command> {
        let stray = self
            .task
            .as_ref()
            .filter(|task| !agent.holds.contains(&task.id));
        let order = stray.map(|task| Command {
            id: CommandId::new(format!("reassigned:{}", task.id)),
            kind: CommandKind::ReleaseTask {
                task: task.id.clone(),
                reason: "reassigned".to_owned(),
            },
            at: now,
            handed: true,
        });
        order.into_iter().collect()
    }

    fn doing(&self, agent: &Agent) -> Doing {
        if agent.is_stopping() {
            Doing::Stopping
        } else {
            self.doing
        }
    }

    /// Most heartbeats only say "still here"; those cost no row.
    fn changes_nothing(&self, agent: &Agent, now: Timestamp) -> bool {
        let same_task = match self.held(agent) {
            None => true,
            Some(reported) => agent.current.as_ref() == Some(&reported.seen_by(agent, now)),
        };
        let same_metrics = self.metrics.is_none_or(|given| {
            agent.metrics.is_some_and(|kept| {
                (kept.memory_used_mb, kept.tasks_completed_session) == given
                    || now.since(kept.at) < limits::PULSE_EVERY
            })
        });
        agent.presence == Presence::Live(self.doing(agent))
            && agent.commands.is_empty()
            && same_task
            && same_metrics
    }

    fn report_status(&self, agent: &mut Agent, changes: &mut Changes) {
        let presence = Presence::Live(self.doing(agent));
        if agent.presence != presence {
            agent.presence = presence;
            changes.event(Event::AgentStatusChanged {
                agent: agent.id.clone(),
                status: agent.status().to_owned(),
                task: self.task.as_ref().map(|task| task.id.clone()),
            });
        }
    }
}

impl ReportedTask {
    /// Whether its note is another than the task has.
    fn says_more(&self, task: &Task) -> bool {
        let known = task.progress.as_ref().map(|known| &known.note);
        self.note.is_some() && known != self.note.as_ref()
    }

    fn seen_by(&self, agent: &Agent, now: Timestamp) -> Current {
        let before = agent
            .current
            .as_ref()
            .filter(|current| current.task == self.id);
        Current {
            task: self.id.clone(),
            since: before.map_or(now, |current| current.since),
            percent: self.percent.or(before.and_then(|current| current.percent)),
            phase: self.phase.or(before.and_then(|current| current.phase)),
        }
    }

    /// Moves the task's own progress along, if the heartbeat said anything new about it; else only when it was named.
    fn advance(&self, task: &Task, changes: &mut Changes, now: Timestamp) {
        if self.percent.is_none() && self.phase.is_none() && !self.says_more(task) {
            if leaves_trace(task, now) {
                let mut task = task.clone();
                task.updated_at = now;
                changes.put(task);
            }
            return;
        }
        let last = task.progress.as_ref();
        let progress = Progress {
            phase: self
                .phase
                .or(last.map(|last| last.phase))
                .unwrap_or(Phase::Analyzing),
            percent: self.percent.or(last.map(|last| last.percent)).unwrap_or(0),
            note: self
                .note
                .clone()
                .or_else(|| last.map(|last| last.note.clone()))
                .unwrap_or_default(),
            files: last.map(|last| last.files.clone()).unwrap_or_default(),
            told_at: now,
            told_percent: 0,
        };
        let (task, event) = task.clone().advance(progress, now);
        changes.put(task);
        changes.events.extend(event);
    }
}

/// Whether it is noted now and then that a task was named. One that is watched is judged by its progress alone.
fn leaves_trace(task: &Task, now: Timestamp) -> bool {
    task.watch.is_none() && now.since(task.updated_at) >= limits::NAMED_EVERY
}

/// A ping has done its work once the agent beats again after hearing it.
fn obey_pings(agent: &mut Agent, changes: &mut Changes) {
    let id = agent.id.clone();
    agent.commands.retain(|command| {
        let obeyed = command.kind == CommandKind::Ping && command.handed;
        if obeyed {
            changes.event(Event::CommandObeyed {
                agent: id.clone(),
                command: command.id.clone(),
            });
        }
        !obeyed
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{Standing, Swarm, complete, fail, order, send, word};
    use super::super::{Acknowledge, Cancel, Deregister, MarkSilent, ReleaseTask, Send};
    use super::*;
    use crate::doors::Door;
    use crate::message::Meaning;
    use crate::task::TaskStatus;

    fn beat(agent: &str, doing: Doing) -> Heartbeat {
        Heartbeat {
            agent: agent.into(),
            doing,
            task: None,
            metrics: None,
        }
    }

    fn beat_about(task: &str, percent: Option<u8>, phase: Option<Phase>) -> Heartbeat {
        Heartbeat {
            task: Some(ReportedTask {
                id: task.into(),
                percent,
                phase,
                note: None,
            }),
            ..beat("A", Doing::Busy)
        }
    }

    #[test]
    fn who_may_beat_by_standing() {
        // jetpack.heartbeat.response, jetpack.heartbeat.updates_last_heartbeat
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            swarm.wait(Duration::from_secs(1));
            let outcome = swarm.run(beat("A", Doing::Idle));
            let (expected, status) = match standing {
                Standing::Unknown | Standing::Gone => ("agent_not_registered", ""),
                Standing::Live | Standing::Silent => ("ok", "idle"),
                Standing::Stopping => ("ok", "shutting_down"),
            };
            assert_eq!(word(&outcome), expected, "{standing:?}");
            if let Ok(taken) = outcome {
                let agent = swarm.agent("A");
                assert_eq!((taken.at, agent.seen_at), (swarm.now, swarm.now));
                assert_eq!(
                    (agent.heartbeats, agent.status()),
                    (1, status),
                    "{standing:?}"
                );
            }
        }
    }

    #[test]
    fn a_heartbeat_that_says_nothing_new_writes_no_event() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        for beats in 1..4 {
            swarm.wait(Duration::from_secs(30));
            swarm.ok(beat("A", Doing::Idle));
            assert!(swarm.said().is_empty());
            assert_eq!(swarm.agent("A").heartbeats, beats);
        }
        swarm.ok(beat("A", Doing::Error));
        assert_eq!(swarm.said(), ["agent_status_changed"]);
    }

    #[test]
    fn a_silent_agent_returns_by_beating() {
        let mut swarm = Swarm::with_agent(Standing::Silent);
        swarm.ok(beat("A", Doing::Idle));
        assert_eq!(swarm.said(), ["agent_returned"]);
    }

    #[test]
    fn a_heartbeat_moves_the_progress_of_its_task() {
        // jetpack.heartbeat.current_task, jetpack.heartbeat.updates_task_progress
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        swarm.ok(beat_about("T", Some(30), Some(Phase::Testing)));
        let task = swarm.task("T");
        let seen = task
            .progress
            .as_ref()
            .map(|seen| (seen.percent, seen.phase));
        assert_eq!(seen, Some((30, Phase::Testing)));
        assert_eq!(task.status(), TaskStatus::InProgress);
        let current = swarm.agent("A").current.as_ref().expect("it works on T");
        assert_eq!(
            (current.percent, current.phase),
            (Some(30), Some(Phase::Testing))
        );
    }

    #[test]
    fn a_note_reaches_the_task_once_also_if_nothing_else_is_new() {
        // agentbus.heartbeat.progress
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let mut beat = beat_about("T", Some(30), Some(Phase::Testing));
        for (said, kept) in [
            (Some("writing"), "writing"),
            (None, "writing"),
            (Some("testing"), "testing"),
        ] {
            let named = beat.task.as_mut().expect("it names its task");
            named.note = said.map(str::to_owned);
            swarm.wait(Duration::from_secs(1));
            swarm.ok(beat.clone());
            let task = swarm.task("T").clone();
            let note = task.progress.as_ref().map(|progress| &*progress.note);
            assert_eq!(note, Some(kept));
            swarm.wait(Duration::from_secs(1));
            swarm.ok(beat.clone());
            assert_eq!(*swarm.task("T"), task, "said again, it is no progress");
        }
    }

    #[test]
    fn small_or_frequent_steps_of_progress_write_no_event() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let said = |swarm: &mut Swarm, after: Duration, percent, phase| {
            swarm.wait(after);
            swarm.ok(beat_about("T", Some(percent), Some(phase)));
            swarm.said().contains(&"task_progressed")
        };
        let (soon, later) = (Duration::from_secs(4), limits::PROGRESS_EVENT_EVERY);
        assert!(said(&mut swarm, soon, 10, Phase::Analyzing), "the first");
        assert!(!said(&mut swarm, soon, 50, Phase::Analyzing), "too soon");
        assert!(
            !said(&mut swarm, later, 14, Phase::Analyzing),
            "4 points since it was told"
        );
        assert!(said(&mut swarm, soon, 15, Phase::Analyzing), "5 points");
        assert!(
            said(&mut swarm, soon, 15, Phase::Testing),
            "another phase, at once"
        );
    }

    #[test]
    fn a_task_that_is_not_held_is_answered_with_release() {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        let before = swarm.task("T").clone();
        for _ in 0..2 {
            let commands = swarm.ok(beat_about("T", Some(30), None)).commands;
            let released = CommandKind::ReleaseTask {
                task: "T".into(),
                reason: "reassigned".to_owned(),
            };
            let kinds: Vec<_> = commands.into_iter().map(|command| command.kind).collect();
            assert_eq!(kinds, [released]);
        }
        assert_eq!(*swarm.task("T"), before);
    }

    #[test]
    fn the_last_metrics_are_kept() {
        // jetpack.heartbeat.metrics
        let mut swarm = Swarm::with_agent(Standing::Live);
        for (memory, tasks) in [(100.0, 1), (120.0, 2)] {
            swarm.wait(limits::PULSE_EVERY);
            swarm.ok(Heartbeat {
                metrics: Some((memory, tasks)),
                ..beat("A", Doing::Idle)
            });
            let kept = swarm.agent("A").metrics.expect("metrics were given");
            let kept = (kept.memory_used_mb, kept.tasks_completed_session);
            assert_eq!(kept, (memory, tasks));
        }
    }

    #[test]
    fn a_ping_is_repeated_until_the_next_heartbeat() {
        // jetpack.heartbeat.commands_optional, jetpack.heartbeat.command_enum
        let mut swarm = Swarm::with_agent(Standing::Live);
        assert!(swarm.ok(beat("A", Doing::Idle)).commands.is_empty());
        swarm.ok(order("A", CommandKind::Ping));
        let heard = swarm.ok(beat("A", Doing::Idle)).commands;
        assert_eq!((heard.len(), heard[0].id.as_str()), (1, "o1"));
        assert!(swarm.ok(beat("A", Doing::Idle)).commands.is_empty());
        assert_eq!(swarm.said(), ["command_obeyed"]);
    }

    fn let_go(swarm: &mut Swarm, how: &str) -> Vec<&'static str> {
        match how {
            "release" => drop(swarm.ok(ReleaseTask {
                task: "T".into(),
                agent: Some("A".into()),
                epoch: None,
            })),
            "complete" => drop(swarm.ok(complete("A", "T"))),
            "fail" => drop(swarm.ok(fail("A", "T"))),
            "cancel" => drop(swarm.ok(Cancel {
                task: "T".into(),
                reason: String::new(),
            })),
            "hand over" => {
                swarm.ok(Send {
                    meaning: Meaning::Offer("T".into()),
                    ..send("offer", "A", Some("B"))
                });
                swarm.ok(Acknowledge {
                    agent: "B".into(),
                    message: "offer".into(),
                    via: Door::Jetpack,
                });
            }
            "leave" => swarm.ok(Deregister { agent: "A".into() }),
            "fall silent" => {
                swarm.wait(limits::SILENT_AFTER + Duration::from_millis(1));
                swarm.ok(MarkSilent);
            }
            other => panic!("no way to {other}"),
        }
        swarm.said()
    }

    #[test]
    fn release_task_is_repeated_until_the_task_is_let_go() {
        let release = || CommandKind::ReleaseTask {
            task: "T".into(),
            reason: "stuck".to_owned(),
        };
        for obey in [
            "release",
            "complete",
            "fail",
            "cancel",
            "hand over",
            "leave",
            "fall silent",
        ] {
            let mut swarm = Swarm::with_task(TaskStatus::Claimed);
            swarm.ok(order("A", release()));
            for _ in 0..3 {
                let heard = swarm.ok(beat("A", Doing::Busy)).commands;
                assert_eq!(heard.len(), 1);
                assert_eq!(heard[0].kind, release());
            }
            let mut said = let_go(&mut swarm, obey);
            said.retain(|kind| *kind == "command_obeyed");
            assert_eq!(said, ["command_obeyed"], "{obey}");
            if obey != "leave" {
                assert!(
                    swarm.ok(beat("A", Doing::Idle)).commands.is_empty(),
                    "{obey}"
                );
            }
        }
    }

    #[test]
    fn shutdown_is_repeated_until_the_agent_leaves() {
        let mut swarm = Swarm::with_agent(Standing::Stopping);
        for _ in 0..3 {
            let heard = swarm.ok(beat("A", Doing::Idle)).commands;
            assert!(matches!(heard[0].kind, CommandKind::Shutdown { .. }));
        }
        swarm.ok(Deregister { agent: "A".into() });
        assert!(swarm.agent("A").commands.is_empty());
    }
}
