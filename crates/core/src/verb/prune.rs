//! Caretaker: what is old enough goes, in small steps.

use std::time::Duration;

use super::{Step, Verb};
use crate::changes::{self, Changes};
use crate::event::Event;
use crate::limits;
use crate::refusal::Refusal;
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
    type Reply = Step;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for id in want.gone_agents(now - self.keep.agents, limits::CARETAKER_STEP) {
            want.agent(id);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Step, Changes), Refusal> {
        let limit = limits::CARETAKER_STEP;
        let over = slice.head.idempotency_rows > limits::IDEMPOTENCY_ROWS_MAX
            || slice.head.idempotency_bytes > limits::IDEMPOTENCY_BYTES_MAX;
        let answers_for = if over {
            limits::IDEMPOTENCY_FOR_MIN
        } else {
            limits::IDEMPOTENCY_FOR
        };
        let mut changes = Changes {
            prunes: vec![
                changes::Prune::Events {
                    before: now - self.keep.events,
                    limit,
                },
                changes::Prune::Messages {
                    before: now - self.keep.messages,
                    limit,
                },
                changes::Prune::Remembered {
                    before: now - answers_for,
                    limit,
                },
                changes::Prune::Nonces { before: now, limit },
            ],
            ..Changes::default()
        };
        for id in Want::new(slice).gone_agents(now - self.keep.agents, limit) {
            // An agent with messages, tasks or a key is still somebody.
            let forgettable = |agent: &crate::Agent| {
                agent.is_gone()
                    && agent.inbox == 0
                    && agent.holds.is_empty()
                    && agent.key_generation == 0
            };
            let known = slice.agent(id).filter(|agent| forgettable(agent));
            if let Some(former) = known.and_then(crate::Agent::former) {
                changes.forgotten_agents.push(former);
                changes.event(Event::AgentForgotten { agent: id.clone() });
            }
        }
        let done = changes.forgotten_agents.len();
        Ok((Step { done, more: false }, changes))
    }
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
        let Some(page) = want.finished_tasks(self.from, now - self.keep, limits::CARETAKER_STEP)
        else {
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
        let before = now - self.keep;
        let Some(page) = Want::new(slice).finished_tasks(self.from, before, limits::CARETAKER_STEP)
        else {
            return Ok((None, changes));
        };
        for task in page.tasks.iter().filter_map(|id| slice.task(id)) {
            if task.status().is_final() && task.updated_at < before && !is_waited_for(slice, task) {
                changes.event(Event::TaskForgotten {
                    task: task.id.clone(),
                    number: task.number,
                });
                changes.forgotten_tasks.push(task.id.clone());
            }
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
    use crate::task::TaskStatus;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn sweep(swarm: &mut Swarm) -> Vec<&'static str> {
        let keep = Retention::default().tasks;
        swarm.ok(PruneTasks { keep, from: 0 });
        swarm.said()
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

    #[test]
    fn past_the_bound_remembered_answers_stay_an_hour_instead_of_a_day() {
        let prune = Prune {
            keep: Retention::default(),
        };
        let now = Timestamp::ZERO + 100 * DAY;
        let (rows, bytes) = (limits::IDEMPOTENCY_ROWS_MAX, limits::IDEMPOTENCY_BYTES_MAX);
        for (rows, bytes, kept_for) in [
            (rows - 1, 0, limits::IDEMPOTENCY_FOR),
            (rows, bytes, limits::IDEMPOTENCY_FOR),
            (rows + 1, 0, limits::IDEMPOTENCY_FOR_MIN),
            (0, bytes + 1, limits::IDEMPOTENCY_FOR_MIN),
        ] {
            let mut slice = Slice::default();
            slice.head.idempotency_rows = rows;
            slice.head.idempotency_bytes = bytes;
            let (_, changes) = prune.decide(&slice, now).expect("it is never refused");
            let expected = changes::Prune::Remembered {
                before: now - kept_for,
                limit: limits::CARETAKER_STEP,
            };
            assert!(
                changes.prunes.contains(&expected),
                "{rows} rows, {bytes} bytes"
            );
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
