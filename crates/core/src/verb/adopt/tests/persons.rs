//! What a person does by hand: no agent is named, and none holds the task.

use super::*;
use crate::id::STEWARD;
use crate::task::{Failure, FailureKind};
use crate::verb::testing::{fail, task_with};
use crate::verb::{Cancel, ReleaseTask};

/// A hand sets T's status, in nobody's name.
fn set_by_person(swarm: &mut Swarm, status: &str) -> Result<(), Refusal> {
    let written = swarm.task_by_hand("T", |task| task.state = state(status, ""));
    swarm.adopt(written)
}

const OPEN: [TaskStatus; 3] = [
    TaskStatus::Ready,
    TaskStatus::Waiting,
    TaskStatus::RetryWait,
];

#[test]
fn a_task_that_a_person_begins_is_held_by_the_steward_until_a_person_ends_it() {
    for status in OPEN {
        for (to, ends) in [
            ("completed", "completed"),
            ("failed", "failed"),
            ("needs_review", "needs_review"),
            ("canceled", "canceled"),
            ("ready", "ready"),
        ] {
            let mut swarm = Swarm::with_task(status);
            swarm.create(task_with("W", |task| task.dependencies.push("T".into())));
            let (agents, attempts) = (swarm.agents.clone(), swarm.attempts.len());
            assert_eq!(set_by_person(&mut swarm, "in_progress"), Ok(()), "{status}");
            assert_eq!(swarm.said(), ["task_claimed", "task_progressed"]);
            let task = swarm.task("T");
            assert_eq!(task.holder(), Some(&STEWARD.into()));
            assert_eq!(task.status(), TaskStatus::InProgress);
            let written = swarm.task_by_hand("T", |task| task.state = state(to, STEWARD));
            assert_eq!(swarm.adopt(written), Ok(()), "{status}, {to}");
            let waits = status == TaskStatus::Waiting && to == "ready";
            let ends = if waits { "blocked" } else { ends };
            assert_eq!(swarm.task("T").status().as_str(), ends, "{status}, {to}");
            let is_done = swarm.task("W").status() == TaskStatus::Ready;
            assert_eq!(is_done, to == "completed");
            assert_eq!(
                swarm.attempts.len(),
                attempts + 1,
                "its history has the claim"
            );
            assert_eq!(swarm.agents, agents, "the steward is no agent");
        }
    }
}

#[test]
fn people_release_and_cancel_over_other_doors_what_the_steward_holds() {
    for is_canceled in [true, false] {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        set_by_person(&mut swarm, "in_progress").expect("a hand may");
        let agents = swarm.agents.clone();
        let task: TaskId = "T".into();
        let reason = "no".to_owned();
        let (agent, epoch) = (None, None);
        match is_canceled {
            true => drop(swarm.ok(Cancel { task, reason })),
            false => drop(swarm.ok(ReleaseTask { task, agent, epoch })),
        }
        assert_eq!(
            (swarm.task("T").holder(), swarm.agents.len()),
            (None, agents.len())
        );
    }
}

#[test]
fn what_nobody_holds_a_person_may_complete_or_fail() {
    for status in OPEN {
        for to in ["completed", "failed"] {
            let mut swarm = Swarm::with_task(status);
            let agents = swarm.agents.clone();
            assert_eq!(set_by_person(&mut swarm, to), Ok(()), "{status}, {to}");
            assert_eq!(swarm.task("T").status().as_str(), to);
            assert_eq!(swarm.agents, agents, "no agent's deed");
        }
    }
}

#[test]
fn on_a_held_task_it_is_the_holders_deed_and_a_person_comes_too_late_for_one_that_was_claimed() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    let late = Written::Task {
        id: "T".into(),
        was: Some(Box::new(Task {
            state: TaskState::Ready,
            ..swarm.task("T").clone()
        })),
        is: Some(Box::new(Task {
            state: state("completed", ""),
            ..swarm.task("T").clone()
        })),
        metrics: None,
    };
    assert_eq!(word(&swarm.adopt(late)), "not_holder");
    assert_eq!(swarm.task("T").holder(), Some(&"A".into()));
    set(&mut swarm, "completed").expect("its holder's");
    assert_eq!(swarm.agent("A").completed, 1);
}

#[test]
fn what_the_hand_wrote_of_a_claim_and_of_failures_stays() {
    let mut swarm = Swarm::with_task(TaskStatus::Ready);
    swarm.wait(std::time::Duration::from_secs(9));
    let at = Timestamp(swarm.now.0 - 5000);
    let by = AgentId::from("A");
    let claim = TaskState::Claimed { by, at };
    let written = swarm.task_by_hand("T", |task| task.state = claim.clone());
    swarm.adopt(written).expect("it is free");
    assert_eq!(swarm.task("T").state, claim);
    let failure = Failure {
        kind: FailureKind::TaskError,
        message: "gave it back".to_owned(),
    };
    let written = swarm.task_by_hand("T", |task| {
        task.state = TaskState::Ready;
        task.last_failure = Some(failure.clone());
        task.previous_agents = vec!["Z".into()];
    });
    swarm.adopt(written).expect("its holder lets it go");
    let task = swarm.task("T");
    assert_eq!((task.status(), task.retries), (TaskStatus::Ready, 0));
    assert_eq!(task.last_failure, Some(failure));
    assert_eq!(task.previous_agents, ["Z".into()]);
    // The hub adds whoever fails it next.
    swarm.hold("A", "T");
    swarm.ok(fail("A", "T"));
    assert_eq!(swarm.task("T").previous_agents, ["A".into(), "Z".into()]);
}
