//! Tasks that a hand has claimed.

use super::*;
use crate::verb::CreateTasks;
use crate::verb::testing::{Standing, task_with};
use crate::{Skills, limits};

#[test]
fn a_claim_by_hand_raises_the_epoch_by_one_and_needs_no_skill() {
    let mut swarm = Swarm::new();
    swarm.join("A", &[]);
    swarm.create(task_with("T", |task| {
        task.about.required_skills = Skills::new(["rust"]);
    }));
    assert_eq!(set(&mut swarm, "claimed"), Ok(()));
    assert_eq!(swarm.task("T").holder(), Some(&"A".into()));
    assert_eq!(swarm.task("T").epoch, 1);
    let expected = TaskState::Claimed {
        by: "A".into(),
        at: swarm.now,
    };
    assert_eq!(swarm.task("T").state, expected);

    set(&mut swarm, "ready").expect("its holder lets it go");
    set(&mut swarm, "claimed").expect("it is free");
    assert_eq!(swarm.task("T").epoch, 2);
}

#[test]
fn a_claim_by_hand_never_makes_a_second_holder() {
    for (status, expected) in [
        (TaskStatus::Claimed, "not_holder"),
        (TaskStatus::InProgress, "not_holder"),
        (TaskStatus::NeedsPerson, "already_finished"),
        (TaskStatus::Completed, "already_finished"),
        (TaskStatus::Failed, "already_finished"),
        (TaskStatus::Canceled, "already_finished"),
    ] {
        let mut swarm = Swarm::with_task(status);
        let before = swarm.task("T").clone();
        // The hand saw it ready; the hub was first.
        let written = Written::Task {
            id: "T".into(),
            was: Some(Box::new(Task {
                state: TaskState::Ready,
                ..before.clone()
            })),
            is: Some(Box::new(Task {
                state: state("claimed", "B"),
                ..before.clone()
            })),
            metrics: None,
        };
        assert_eq!(word(&swarm.adopt(written)), expected, "{status}");
        assert_undone(&swarm, (&before, swarm.task("T")), |task| &mut task.rev);
        assert!(swarm.agent("B").holds.is_empty(), "{status}");
    }
}

#[test]
fn a_claim_by_hand_stops_at_the_bound_of_one_agent() {
    let max = limits::CLAIMS_PER_AGENT_MAX;
    let mut swarm = Swarm::new();
    swarm.join("A", &[]);
    swarm.ok(CreateTasks {
        tasks: (0..=max)
            .map(|n| task_with(&format!("t{n}"), |_| {}))
            .collect(),
    });
    for n in 0..=max {
        let id = format!("t{n}");
        let written = swarm.task_by_hand(&id, |task| task.state = state("claimed", "A"));
        let expected = if n < max { "ok" } else { "too_many" };
        assert_eq!(word(&swarm.adopt(written)), expected, "{n}");
    }
    assert_eq!(swarm.agent("A").holds.len(), max);
    assert_eq!(swarm.task(&format!("t{max}")).status(), TaskStatus::Ready);
    assert_eq!(swarm.said(), ["write_undone"]);
}

#[test]
fn a_claim_by_hand_brings_a_silent_agent_back_and_is_undone_for_one_that_is_gone() {
    let mut swarm = Swarm::with_agent(Standing::Silent);
    swarm.add("T");
    assert_eq!(set(&mut swarm, "claimed"), Ok(()));
    assert_eq!(swarm.said(), ["agent_returned", "task_claimed"]);
    assert_eq!(swarm.agent("A").status(), "busy");

    let mut swarm = Swarm::with_agent(Standing::Gone);
    swarm.add("T");
    let before = swarm.task("T").clone();
    assert_eq!(word(&set(&mut swarm, "claimed")), "agent_not_registered");
    assert_undone(&swarm, (&before, swarm.task("T")), |task| &mut task.rev);
}
