//! What each hand write comes to, by table.

use super::*;
use crate::task::{TaskState, TaskStatus};
use crate::verb::testing::{Swarm, complete, measured, unreadable, word};

mod agents;
mod claims;
mod created;
mod described;
mod leases;
mod messages;
mod persons;
mod statuses;

/// A state as it is read from a row whose public columns alone a hand has written.
fn state(word: &str, by: &str) -> TaskState {
    let (by, at) = (AgentId::from(by), Timestamp(1));
    match word {
        // The word of a row that the hub has not seen yet.
        "pending" | "ready" => TaskState::Ready,
        "blocked" => TaskState::Waiting,
        "claimed" => TaskState::Claimed { by, at },
        "in_progress" => TaskState::InProgress { by, at },
        "pending_retry" => TaskState::RetryWait { until: at },
        "needs_review" => TaskState::NeedsPerson { by, at },
        "completed" => TaskState::Completed { by, at },
        "failed" => TaskState::Failed { at },
        "canceled" => TaskState::Canceled { at },
        other => panic!("no status is called {other}"),
    }
}

/// A hand sets T's status, in A's name.
fn set(swarm: &mut Swarm, status: &str) -> Result<(), Refusal> {
    // So the store reads a row whose blockers a hand has left.
    let is_blocked = status == "pending" && !swarm.task("T").blockers.is_empty();
    let status = if is_blocked { "blocked" } else { status };
    let written = swarm.task_by_hand("T", |task| task.state = state(status, "A"));
    swarm.adopt(written)
}

/// The row is written anew under a new rev; everything else is as it was.
fn assert_undone<T: Clone + PartialEq + std::fmt::Debug>(
    swarm: &Swarm,
    (was, is): (&T, &T),
    rev: fn(&mut T) -> &mut u64,
) {
    let mut rewritten = was.clone();
    *rev(&mut rewritten) += 1;
    assert_eq!(*is, rewritten);
    assert_eq!(swarm.said(), ["write_undone"]);
}

#[test]
fn a_note_that_nobody_can_read_only_has_its_row_written_anew() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    swarm.lease("A", "src/a.rs", Some("T"));
    swarm.ok(crate::verb::testing::send("M", "A", Some("B")));

    let task = swarm.task("T").clone();
    assert_eq!(
        swarm.adopt(unreadable(AdoptedRow::Task("T".into()))),
        Ok(())
    );
    assert_undone(&swarm, (&task, swarm.task("T")), |task| &mut task.rev);

    let agent = swarm.agent("A").clone();
    assert_eq!(
        swarm.adopt(unreadable(AdoptedRow::Agent("A".into()))),
        Ok(())
    );
    assert_undone(&swarm, (&agent, swarm.agent("A")), |agent| &mut agent.rev);

    let message = swarm.message("M").clone();
    assert_eq!(
        swarm.adopt(unreadable(AdoptedRow::Message("M".into()))),
        Ok(())
    );
    assert_undone(&swarm, (&message, swarm.message("M")), |row| &mut row.rev);

    let path = LeasePath::stored("src/a.rs");
    let lease = swarm.leases[&path].clone();
    let row = AdoptedRow::Lease(path.clone());
    assert_eq!(swarm.adopt(unreadable(row)), Ok(()));
    assert_undone(&swarm, (&lease, &swarm.leases[&path]), |row| &mut row.rev);
}

#[test]
fn a_note_of_a_row_that_the_hub_does_not_know_leaves_nothing_but_the_word_of_it() {
    let rows = [
        AdoptedRow::Task("T".into()),
        AdoptedRow::Agent("A".into()),
        AdoptedRow::Message("M".into()),
        AdoptedRow::Lease(LeasePath::stored("src/a.rs")),
        AdoptedRow::Baseline,
    ];
    for row in rows {
        let mut swarm = Swarm::new();
        let (table, key) = row.names();
        assert_eq!(swarm.adopt(unreadable(row)), Ok(()));
        let told = Event::WriteUndone {
            table: table.to_owned(),
            key,
            why: "a column holds nonsense".to_owned(),
        };
        assert_eq!(swarm.said, [told]);
        assert!(swarm.tasks.is_empty() && swarm.agents.is_empty());
        assert!(swarm.messages.is_empty() && swarm.leases.is_empty());
        assert!(swarm.baseline.is_none());
    }
}

#[test]
fn a_baseline_set_by_hand_is_the_one_that_completions_are_held_against() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    let by_hand = Written::Baseline {
        is: measured(2),
        by: "a person".to_owned(),
    };
    assert_eq!(swarm.adopt(by_hand), Ok(()));
    assert_eq!(swarm.said(), ["baseline_set"]);
    let baseline = swarm.baseline.clone().expect("a baseline");
    assert_eq!(baseline.metrics, measured(2));
    assert_eq!(baseline.set_by, "a person");

    let mut worse = complete("A", "T");
    worse.metrics = Some(("S".into(), measured(3)));
    swarm.ok(worse);
    assert_eq!(swarm.task("T").status(), TaskStatus::NeedsPerson);
}

#[test]
fn restoring_only_has_the_row_written_anew() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    let note = Note {
        number: 7,
        written: swarm.task_by_hand("T", |task| task.state = state("completed", "A")),
    };
    let before = swarm.task("T").clone();
    swarm.step(&*note.restore()).expect("nothing to refuse");
    assert_eq!(swarm.task("T").rev, before.rev + 1);
    assert_eq!(swarm.task("T").state, before.state);
    assert_eq!(swarm.adopted.last().map(|adopted| adopted.note), Some(7));
}
