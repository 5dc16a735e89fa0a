//! A worker names an issue that the ledger does not know: it becomes a task under that number, held by this worker.

use std::time::Duration;

use super::{NewTask, Verb, awake, speaker};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::lane::LaneKey;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::task::{Task, TaskStatus, WhenSpent};
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq)]
pub struct AdoptIssue {
    pub agent: AgentId,
    pub number: u64,
    pub max_retries: u32,
    pub cap: Duration,
    pub stale_after: Duration,
}

impl Verb for AdoptIssue {
    /// The task, or `None` if the number is another's.
    type Reply = Option<Task>;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        want.agent(&self.agent);
        want.numbered(self.number);
        let new = self.new_task();
        want.task(&new.id);
        want.lane_for(&LaneKey::of(&new.task(self.number, now)));
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Option<Task>, Changes), Refusal> {
        let known = speaker(slice, &self.agent)?;
        let mut changes = Changes::default();
        let new = self.new_task();
        let is_taken =
            Want::new(slice).numbered(self.number).is_some() || slice.task(&new.id).is_some();
        if is_taken || self.number == 0 || self.number > limits::ADOPTED_NUMBER_MAX {
            return Ok((None, changes));
        }
        if known.holds.len() >= limits::CLAIMS_PER_AGENT_MAX {
            return Err(Refusal::TooMany {
                what: "tasks held by one agent",
                limit: limits::CLAIMS_PER_AGENT_MAX,
            });
        }
        let task = new.task(self.number, now);
        changes.event(Event::TaskCreated {
            task: task.id.clone(),
            number: task.number,
            title: task.about.title.clone(),
            priority: task.about.priority,
            status: TaskStatus::Ready.as_str().to_owned(),
        });
        let (task, event) = task.claim(&self.agent, now);
        let task = task.watched(self.cap, self.stale_after, now);
        let mut agent = awake(known, &mut changes, now);
        agent.hold(&task.id, now);
        changes.put(agent);
        changes.task((task.clone(), event));
        Ok((Some(task), changes))
    }
}

impl AdoptIssue {
    fn new_task(&self) -> NewTask {
        let number = self.number;
        let mut new = NewTask::plain(format!("issue-{number}"), &format!("issue #{number}"));
        new.about.max_retries = self.max_retries;
        new.about.when_spent = WhenSpent::AskPerson;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm};
    use super::*;

    fn adopt(number: u64) -> AdoptIssue {
        AdoptIssue {
            agent: "A".into(),
            number,
            max_retries: 3,
            cap: Duration::from_secs(3600),
            stale_after: Duration::from_secs(3600),
        }
    }

    #[test]
    fn a_free_number_becomes_a_task_of_this_worker_and_later_ones_go_on_after_it() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.add("first");
        let task = swarm.ok(adopt(21)).expect("21 is free");
        assert_eq!((task.number, task.epoch), (21, 1));
        assert_eq!(task.about.when_spent, WhenSpent::AskPerson);
        assert_eq!(swarm.said(), ["task_created", "task_claimed"]);
        assert_eq!(swarm.agent("A").holds, std::slice::from_ref(&task.id));
        swarm.add("next");
        assert_eq!(swarm.task("next").number, 22);
    }

    #[test]
    fn a_number_that_somebody_has_is_left_alone() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.add("first");
        for number in [0, 1, limits::ADOPTED_NUMBER_MAX + 1] {
            assert_eq!(swarm.ok(adopt(number)), None, "{number}");
            assert!(swarm.said().is_empty());
        }
    }
}
