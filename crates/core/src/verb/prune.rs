//! Caretaker: what is old enough, by time that was served, goes in small steps.

use std::time::Duration;

use super::{Sweep, Verb};
use crate::agent::Agent;
use crate::changes::{self, Changes};
use crate::event::Event;
use crate::id::AgentId;
use crate::limits;
use crate::record::Kind;
use crate::refusal::Refusal;
use crate::served::ServedTime;
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

/// How long each kind of row is kept after it has become history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub tasks: Duration,
    pub events: Duration,
    pub messages: Duration,
    pub agents: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Retention {
            tasks: 30 * DAY,
            events: 14 * DAY,
            messages: 7 * DAY,
            agents: 30 * DAY,
        }
    }
}

/// Old events, read messages, remembered answers, used signatures, agents long gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    pub keep: Retention,
}

impl Verb for Prune {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let Some(time) = allowance(want, now) else {
            return;
        };
        for id in want.gone_agents(time.back(now, self.keep.agents), limits::CARETAKER_STEP) {
            want.agent(id);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let limit = limits::CARETAKER_STEP;
        let mut changes = Changes {
            prunes: vec![changes::Prune::Nonces { before: now, limit }],
            ..Changes::default()
        };
        let over = slice.head.idempotency_rows > limits::IDEMPOTENCY_ROWS_MAX
            || slice.head.idempotency_bytes > limits::IDEMPOTENCY_BYTES_MAX;
        let mut want = Want::new(slice);
        if over {
            // A bound on size holds whatever the clock did.
            let before = want.served_time().back(now, limits::IDEMPOTENCY_FOR_MIN);
            let prune = changes::Prune::Remembered { before, limit };
            changes.prunes.push(prune);
        }
        let Some(mut time) = allowance(&mut want, now) else {
            let (done, more) = (0, false);
            return Ok((Sweep { done, more }, changes));
        };
        let events = changes::Prune::Events {
            before: time.back(now, self.keep.events),
            upto: time.hour.events_upto,
            limit,
        };
        changes.prunes.push(events);
        let limit = take(&mut time.hour.messages);
        if limit > 0 {
            let before = time.back(now, self.keep.messages);
            let prune = changes::Prune::Messages { before, limit };
            changes.prunes.push(prune);
        }
        let limit = if over {
            0
        } else {
            take(&mut time.hour.answers)
        };
        if limit > 0 {
            let before = time.back(now, limits::IDEMPOTENCY_FOR);
            let prune = changes::Prune::Remembered { before, limit };
            changes.prunes.push(prune);
        }
        for (kind, history) in Kind::ALL
            .iter()
            .filter_map(|kind| Some((*kind, kind.history()?)))
        {
            changes.prunes.push(changes::Prune::Records {
                kind,
                owner: history.owner,
                before: time.back(now, history.kept_for),
                limit: limits::CARETAKER_STEP,
            });
        }
        let agents = want.gone_agents(time.back(now, self.keep.agents), limits::CARETAKER_STEP);
        let done = forget_agents(slice, agents, &mut time.hour.agents, &mut changes);
        changes.put(time);
        Ok((Sweep { done, more: false }, changes))
    }
}

/// What may be pruned now: nothing while the time cannot be trusted, or is not loaded.
pub(super) fn allowance(want: &mut Want<'_>, now: Timestamp) -> Option<ServedTime> {
    let mut time = want.served_time();
    if !want.is_satisfied() || !time.may_prune(now) {
        return None;
    }
    if time.is_hour_over(now) {
        let kept = want.kept()?;
        time.begin_hour(&want.slice().head, kept, now);
    }
    Some(time)
}

/// A step's share of what is left. Nobody tells how many rows there were: each step counts as a full one.
fn take(left: &mut u64) -> usize {
    let step = (*left).min(limits::CARETAKER_STEP as u64);
    *left -= step;
    usize::try_from(step).unwrap_or(limits::CARETAKER_STEP)
}

/// Those of whom nothing is left but a name.
fn forget_agents(slice: &Slice, ids: &[AgentId], left: &mut u64, changes: &mut Changes) -> usize {
    // An agent with messages, tasks or a key is still somebody.
    let forgettable = |agent: &&Agent| {
        agent.is_gone() && agent.inbox == 0 && agent.holds.is_empty() && agent.key_generation == 0
    };
    let known = ids.iter().filter_map(|id| slice.agent(id));
    for agent in known.filter(forgettable) {
        if let Some(former) = agent.former().filter(|_| *left > 0) {
            *left -= 1;
            changes.remove::<Agent>(agent.id.clone());
            changes.put(former);
            let agent = agent.id.clone();
            changes.event(Event::AgentForgotten { agent });
        }
    }
    changes.drops.len()
}

/// Finished tasks that nothing depends on, looked for from a number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneTasks {
    pub keep: Duration,
    pub from: u64,
}

impl Verb for PruneTasks {
    /// Where to go on; `None` at the end.
    type Reply = Option<u64>;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let Some(time) = allowance(want, now).filter(|time| time.hour.tasks > 0) else {
            return;
        };
        let before = time.back(now, self.keep);
        let Some(page) = want.finished_tasks(self.from, before, limits::CARETAKER_STEP) else {
            return;
        };
        for id in &page.tasks {
            if let Some(task) = want.task(id)
                && task.dependants > 0
            {
                for dependant in want.dependants(id) {
                    want.task(dependant);
                }
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Option<u64>, Changes), Refusal> {
        let mut changes = Changes::default();
        let mut want = Want::new(slice);
        let Some(mut time) = allowance(&mut want, now).filter(|time| time.hour.tasks > 0) else {
            return Ok((None, changes));
        };
        let before = time.back(now, self.keep);
        let Some(page) = want.finished_tasks(self.from, before, limits::CARETAKER_STEP) else {
            return Ok((None, changes));
        };
        for task in page.tasks.iter().filter_map(|id| slice.task(id)) {
            let is_old = task.status().is_final() && task.updated_at < before;
            if is_old && time.hour.tasks > 0 && !is_waited_for(slice, task) {
                time.hour.tasks -= 1;
                changes.event(Event::TaskForgotten {
                    task: task.id.clone(),
                    number: task.number,
                });
                changes.remove::<Task>(task.id.clone());
            }
        }
        if !changes.drops.is_empty() {
            changes.put(time);
        }
        Ok((page.next, changes))
    }
}

fn is_waited_for(slice: &Slice, task: &Task) -> bool {
    task.dependants > 0
        && Want::new(slice)
            .dependants(&task.id)
            .iter()
            .filter_map(|id| slice.task(id))
            .any(|dependant| !dependant.status().is_final())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, complete, send, task_with};
    use super::super::{Deregister, RotateKey};
    use super::*;
    use crate::head::Head;
    use crate::record::Record;
    use crate::slice::Kept;
    use crate::task::TaskStatus;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn sweep(swarm: &mut Swarm) -> Vec<&'static str> {
        let keep = Retention::default().tasks;
        let (mut next, mut said) = (Some(0), Vec::new());
        while let Some(from) = next {
            next = swarm.ok(PruneTasks { keep, from });
            said.extend(swarm.said());
        }
        said
    }

    #[test]
    fn finished_tasks_go_after_thirty_days_and_others_never() {
        // jetpack.coordinator.cleanup
        for status in TaskStatus::ALL {
            for (after, old) in [
                (30 * DAY, false),
                (30 * DAY + Duration::from_millis(1), true),
            ] {
                let mut swarm = Swarm::with_task(*status);
                swarm.wait(after);
                let goes = old && status.is_final();
                assert_eq!(
                    sweep(&mut swarm) == ["task_forgotten"],
                    goes,
                    "{status} {after:?}"
                );
                assert_eq!(!swarm.tasks.contains_key(&"T".into()), goes, "{status}");
                let left = swarm.tasks.len() as u64;
                assert_eq!(swarm.head.tasks_total(), left);
            }
        }
    }

    #[test]
    fn what_an_unfinished_task_depends_on_stays() {
        let mut swarm = Swarm::with_task(TaskStatus::Failed);
        swarm.create(task_with("after", |task| {
            task.dependencies = vec!["T".into()]
        }));
        swarm.wait(31 * DAY);
        assert!(sweep(&mut swarm).is_empty());
        swarm.ok(super::super::Cancel {
            task: "after".into(),
            reason: String::new(),
        });
        assert_eq!(sweep(&mut swarm), ["task_forgotten"]);
    }

    #[test]
    fn only_agents_long_gone_with_nothing_left_are_forgotten() {
        let prune = Prune {
            keep: Retention::default(),
        };
        for standing in Standing::ALL {
            let mut swarm = Swarm::with_agent(standing);
            swarm.wait(31 * DAY);
            let done = swarm.ok(prune).done;
            assert_eq!(
                done,
                usize::from(standing == Standing::Gone),
                "{standing:?}"
            );
        }
        let mut swarm = Swarm::with_agent(Standing::Gone);
        swarm.wait(30 * DAY);
        assert_eq!(swarm.ok(prune).done, 0, "not yet");
        let mut swarm = Swarm::with_agent(Standing::Gone);
        swarm.ok(RotateKey { agent: "A".into() });
        swarm.wait(31 * DAY);
        assert_eq!(swarm.ok(prune).done, 0, "it has a key");
        let mut swarm = Swarm::with_agent(Standing::Gone);
        swarm.join("B", &[]);
        swarm.ok(send("m", "B", Some("A")));
        swarm.wait(31 * DAY);
        assert_eq!(swarm.ok(prune).done, 0, "a message waits for it");
    }

    const HOUR: Duration = Duration::from_secs(3600);

    /// What is to go, when the time that counts is this.
    fn pruned(now: Timestamp, time: ServedTime, count: impl FnOnce(&mut Head)) -> Changes {
        let prune = Prune {
            keep: Retention::default(),
        };
        let mut slice = Slice::default();
        count(&mut slice.head);
        slice.put_row(Record::from(time));
        slice.ranges.kept = Some(Kept {
            oldest_event: 1001,
            messages: 50_000,
        });
        let (_, changes) = prune.decide(&slice, now).expect("it is never refused");
        changes
    }

    #[test]
    fn keys_events_and_messages_grow_old_only_while_somebody_serves() {
        let now = Timestamp::ZERO + 100 * DAY;
        let mut time = ServedTime::default();
        time.add_gap(now - 50 * DAY, now - 2 * HOUR);
        let since_stop = |served: Duration| now - 50 * DAY - (served - 2 * HOUR);
        let keep = Retention::default();
        let changes = pruned(now, time, |_| {});
        let found = changes.prunes.into_iter().map(|prune| match prune {
            changes::Prune::Events { before, .. } => ("events", before),
            changes::Prune::Messages { before, .. } => ("messages", before),
            changes::Prune::Remembered { before, .. } => ("answers", before),
            changes::Prune::Nonces { before, .. } => ("nonces", before),
            changes::Prune::Records { kind, before, .. } => (kind.as_str(), before),
        });
        let expected = [
            ("nonces", now),
            ("events", since_stop(keep.events)),
            ("messages", since_stop(keep.messages)),
            ("answers", since_stop(limits::IDEMPOTENCY_FOR)),
            ("incident", since_stop(limits::RESOLVED_INCIDENTS_KEPT_FOR)),
            ("counted", since_stop(limits::COUNTED_KEPT_FOR)),
            ("refused", since_stop(limits::REFUSED_KEPT_FOR)),
            ("assertion", since_stop(limits::ASSERTIONS_KEPT_FOR)),
            ("recurrence", since_stop(limits::RECURRENCES_KEPT_FOR)),
            ("node", since_stop(limits::LEFT_NODES_KEPT_FOR)),
            ("node_invite", since_stop(limits::NODE_INVITES_KEPT_FOR)),
            ("declined", since_stop(limits::ORDERS_KEPT_FOR)),
            ("order", since_stop(limits::ORDERS_KEPT_FOR)),
            ("ordered", since_stop(limits::DISPATCH_VALID_MAX)),
            ("agent_invite", since_stop(limits::NODE_INVITES_KEPT_FOR)),
            ("external_session", since_stop(limits::AUDIT_KEPT_FOR)),
            ("audit", since_stop(limits::AUDIT_KEPT_FOR)),
            (
                "skill_review",
                since_stop(limits::RESOLVED_REVIEWS_KEPT_FOR),
            ),
            ("sample", now - HOUR),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn after_a_jump_only_the_bounds_on_size_prune() {
        let now = Timestamp::ZERO + 100 * DAY;
        let mut time = ServedTime::default();
        time.shake(now - HOUR / 2);
        for (rows, kinds) in [(9, 1), (limits::IDEMPOTENCY_ROWS_MAX + 1, 2)] {
            let changes = pruned(now, time.clone(), |head| head.idempotency_rows = rows);
            assert_eq!(changes.prunes.len(), kinds, "{:?}", changes.prunes);
            assert_eq!(changes.puts, [], "nothing of this hour is used up");
        }
        let mut swarm = Swarm::with_task(TaskStatus::Completed);
        swarm.wait(31 * DAY);
        swarm.ok(super::super::NoteStep { by_ms: 1 });
        assert!(sweep(&mut swarm).is_empty());
        swarm.wait(HOUR);
        assert_eq!(sweep(&mut swarm), ["task_forgotten"]);
    }

    #[test]
    fn of_each_kind_a_tenth_goes_within_an_hour_or_a_thousand() {
        let now = Timestamp::ZERO + 100 * DAY;
        let mut time = ServedTime::default();
        let mut taken = Vec::new();
        for _ in 0..40 {
            let changes = pruned(now, time.clone(), |head| {
                (head.seq, head.idempotency_rows) = (31_000, 3000);
            });
            for prune in &changes.prunes {
                taken.push(match prune {
                    changes::Prune::Messages { limit, .. } => (*limit, 0, 0),
                    changes::Prune::Remembered { limit, .. } => (0, *limit, 0),
                    changes::Prune::Events { upto, .. } => (0, 0, *upto),
                    changes::Prune::Nonces { .. } | changes::Prune::Records { .. } => (0, 0, 0),
                });
            }
            let Some(Record::ServedTime(after)) = changes.rows::<Record>().next() else {
                panic!("it is noted what was used up");
            };
            time = after.clone();
        }
        let messages: usize = taken.iter().map(|(messages, ..)| messages).sum();
        let answers: usize = taken.iter().map(|(_, answers, _)| answers).sum();
        let upto = taken.iter().map(|(.., upto)| *upto).max();
        assert_eq!((messages, answers, upto), (5000, 1000, Some(1001 + 3000)));
        assert!(!time.is_hour_over(now + HOUR - Duration::from_millis(1)));
        assert!(time.is_hour_over(now + HOUR));
    }

    #[test]
    fn tasks_too_go_by_the_hour() {
        let mut swarm = Swarm::with_task(TaskStatus::Completed);
        let many = usize::try_from(limits::PRUNE_HOUR_MIN).unwrap();
        for n in 0..=many {
            swarm.add(&format!("t{n}"));
            swarm.ok(super::super::Cancel {
                task: format!("t{n}").into(),
                reason: String::new(),
            });
        }
        swarm.wait(31 * DAY);
        assert_eq!(sweep(&mut swarm).len(), many);
        assert!(sweep(&mut swarm).is_empty());
        swarm.wait(HOUR);
        assert_eq!(sweep(&mut swarm).len(), 2);
    }

    #[test]
    fn past_the_bound_remembered_answers_stay_an_hour_instead_of_a_day() {
        let now = Timestamp::ZERO + 100 * DAY;
        let (rows, bytes) = (limits::IDEMPOTENCY_ROWS_MAX, limits::IDEMPOTENCY_BYTES_MAX);
        for (rows, bytes, kept_for) in [
            (rows - 1, 0, limits::IDEMPOTENCY_FOR),
            (rows, bytes, limits::IDEMPOTENCY_FOR),
            (rows + 1, 0, limits::IDEMPOTENCY_FOR_MIN),
            (0, bytes + 1, limits::IDEMPOTENCY_FOR_MIN),
        ] {
            let changes = pruned(now, ServedTime::default(), |head| {
                head.idempotency_rows = rows;
                head.idempotency_bytes = bytes;
            });
            let expected = changes::Prune::Remembered {
                before: now - kept_for,
                limit: limits::CARETAKER_STEP,
            };
            let answers =
                |prune: &&changes::Prune| matches!(prune, changes::Prune::Remembered { .. });
            let found: Vec<_> = changes.prunes.iter().filter(answers).collect();
            assert_eq!(found, [&expected], "{rows} rows, {bytes} bytes");
        }
    }

    #[test]
    fn a_forgotten_agent_comes_back_with_its_counters() {
        let prune = Prune {
            keep: Retention::default(),
        };
        for back in ["register", "rotate key"] {
            let mut swarm = Swarm::with_task(TaskStatus::Claimed);
            swarm.wait(Duration::from_secs(9));
            swarm.ok(complete("A", "T"));
            swarm.ok(Deregister { agent: "A".into() });
            let gone_at = swarm.now;
            let before = swarm.agent("A").clone();
            swarm.wait(31 * DAY);
            assert_eq!(swarm.ok(prune).done, 1);
            let former = &swarm.former_agents[&"A".into()];
            assert_eq!((former.completed, former.gone_at), (1, gone_at));
            match back {
                "register" => swarm.join("A", &[]),
                _ => assert_eq!(swarm.ok(RotateKey { agent: "A".into() }), 1),
            }
            let after = swarm.agent("A");
            assert_eq!(
                (after.completed, after.failed, after.runtime_ms),
                (1, before.failed, before.runtime_ms),
                "{back}"
            );
            assert_eq!(after.name, before.name, "{back}");
        }
    }
}
