//! Tasks that a hand has inserted, also such that come with a past.

use std::time::Duration;

use super::*;
use crate::task::{Failure, FailureKind, OnDependencyFailure};
use crate::verb::testing::fail;

/// A row as a hand inserts it now: no number, no rev.
fn row(swarm: &Swarm, id: &str, status: &str) -> Task {
    let mut scratch = Swarm::new();
    scratch.now = swarm.now;
    scratch.add(id);
    Task {
        number: 0,
        rev: 0,
        lane: None,
        state: state(status, "A"),
        corr_id: "".into(),
        ..scratch.task(id).clone()
    }
}

fn inserted(task: Task) -> Written {
    Written::Task {
        id: task.id.clone(),
        was: None,
        is: Some(task.into()),
        metrics: None,
    }
}

/// With A and a task T that is completed.
fn stage() -> Swarm {
    Swarm::with_task(TaskStatus::Completed)
}

#[test]
fn a_task_inserted_by_hand_is_ready_or_waits_for_its_dependencies() {
    let table: [(&str, &[&str], &str, &[&str]); 6] = [
        ("pending", &[], "ready", &[]),
        ("ready", &[], "ready", &[]),
        ("blocked", &[], "ready", &[]),
        ("pending", &["T"], "ready", &[]),
        // Whatever the hand says of it.
        ("ready", &["T", "open"], "blocked", &["open"]),
        ("blocked", &["T", "open"], "blocked", &["open"]),
    ];
    for (said, dependencies, expected, blockers) in table {
        let mut swarm = stage();
        swarm.add("open");
        let mut new = row(&swarm, "N", said);
        new.dependencies = dependencies.iter().copied().map(TaskId::from).collect();
        assert_eq!(swarm.adopt(inserted(new)), Ok(()));
        assert_eq!(swarm.said(), ["task_created"]);
        let task = swarm.task("N");
        assert_eq!(task.status().as_str(), expected, "{said} {dependencies:?}");
        let blockers: Vec<TaskId> = blockers.iter().copied().map(TaskId::from).collect();
        assert_eq!(task.blockers, blockers);
        assert_eq!(task.number, swarm.head.task_number);
        assert!(task.rev > 0);
        assert_eq!(task.corr_id, "N".into());
    }
}

#[test]
fn a_task_inserted_and_claimed_at_once_has_its_holder() {
    let table: [(&str, &[&str]); 2] = [
        ("claimed", &["task_created", "task_claimed"]),
        (
            "in_progress",
            &["task_created", "task_claimed", "task_progressed"],
        ),
    ];
    for (status, said) in table {
        let mut swarm = stage();
        let new = row(&swarm, "N", status);
        assert_eq!(swarm.adopt(inserted(new)), Ok(()));
        assert_eq!(swarm.said(), said);
        assert_eq!(swarm.task("N").status().as_str(), status);
        assert_eq!(swarm.task("N").epoch, 1);
        assert_eq!(swarm.agent("A").holds, ["N".into()]);
    }
}

#[test]
fn an_insert_that_the_rules_refuse_leaves_no_row() {
    let mut swarm = stage();
    let mut new = row(&swarm, "N", "ready");
    new.dependencies.push("nothing".into());
    assert_eq!(word(&swarm.adopt(inserted(new))), "unknown_dependency");
    assert_eq!(swarm.said(), ["write_undone"]);
    assert!(!swarm.tasks.contains_key(&TaskId::from("N")));

    let before = swarm.task("T").clone();
    let again = row(&swarm, "T", "ready");
    assert_eq!(word(&swarm.adopt(inserted(again))), "task_already_exists");
    assert_undone(&swarm, (&before, swarm.task("T")), |task| &mut task.rev);
}

/// A row of an older file: its times lie behind.
fn old(swarm: &Swarm, status: &str) -> Task {
    let mut task = row(swarm, "N", status);
    let then = |hours: u64| swarm.now - Duration::from_secs(hours * 3600);
    task.created_at = then(3);
    task.started_at = Some(then(2));
    task.updated_at = then(1);
    task.retries = 1;
    task.previous_agents = vec!["A".into()];
    task.last_failure = Some(Failure {
        kind: FailureKind::TaskTimeout,
        message: "too slow".to_owned(),
    });
    let at = then(1);
    task.state = match task.state {
        TaskState::Completed { by, .. } => TaskState::Completed { by, at },
        TaskState::NeedsPerson { by, .. } => TaskState::NeedsPerson { by, at },
        TaskState::Failed { .. } => TaskState::Failed { at },
        TaskState::Canceled { .. } => TaskState::Canceled { at },
        other => other,
    };
    task
}

#[test]
fn a_task_that_comes_with_a_past_keeps_it() {
    let table = [
        ("ready", None),
        ("pending_retry", Some("task_retry_planned")),
        ("needs_review", Some("task_needs_person")),
        ("completed", Some("task_completed")),
        ("failed", Some("task_failed")),
        ("canceled", Some("task_canceled")),
    ];
    for (status, event) in table {
        let mut swarm = stage();
        let came = old(&swarm, status);
        assert_eq!(swarm.adopt(inserted(came.clone())), Ok(()), "{status}");
        let said: Vec<&str> = ["task_created"].into_iter().chain(event).collect();
        assert_eq!(swarm.said(), said, "{status}");
        let task = swarm.task("N");
        assert_eq!(task.status().as_str(), status);
        assert_eq!(task.retries, 1, "{status}");
        assert_eq!(task.previous_agents, came.previous_agents, "{status}");
        assert_eq!(task.last_failure, came.last_failure, "{status}");
        assert_eq!(task.created_at, came.created_at, "{status}");
        assert_eq!(task.started_at, came.started_at, "{status}");
        if task.status().is_final() || status == "needs_review" {
            assert_eq!(task.state, came.state, "{status}");
            assert_eq!(task.updated_at, came.updated_at, "{status}");
        }
        // What others did before counts for nobody here.
        assert_eq!(swarm.agent("A").completed, 1, "{status}");
        assert_eq!(swarm.attempts.len(), 1, "{status}");
    }
}

#[test]
fn a_retry_that_comes_with_a_past_waits_until_its_time_or_until_now() {
    for (ahead, expected) in [(true, 90), (false, 0)] {
        let mut swarm = stage();
        let mut came = old(&swarm, "pending_retry");
        let soon = swarm.now + Duration::from_secs(90);
        let until = if ahead { soon } else { Timestamp(1) };
        came.state = TaskState::RetryWait { until };
        assert_eq!(swarm.adopt(inserted(came)), Ok(()));
        let until = swarm.now + Duration::from_secs(expected);
        assert_eq!(swarm.task("N").state, TaskState::RetryWait { until });
    }
}

#[test]
fn a_row_that_was_written_just_now_was_created_now() {
    for (seconds, kept) in [(10, false), (11, true)] {
        let mut swarm = stage();
        let mut new = row(&swarm, "N", "ready");
        new.created_at = swarm.now - Duration::from_secs(seconds);
        let created_at = if kept { new.created_at } else { swarm.now };
        assert_eq!(swarm.adopt(inserted(new)), Ok(()));
        assert_eq!(swarm.task("N").created_at, created_at, "{seconds}");
    }
}

#[test]
fn a_time_ahead_of_the_hub_becomes_now() {
    let mut swarm = stage();
    let mut came = old(&swarm, "completed");
    came.state = TaskState::Completed {
        by: "A".into(),
        at: swarm.now + Duration::from_secs(9),
    };
    came.updated_at = swarm.now + Duration::from_secs(9);
    assert_eq!(swarm.adopt(inserted(came)), Ok(()));
    let (by, at) = ("A".into(), swarm.now);
    assert_eq!(swarm.task("N").state, TaskState::Completed { by, at });
    assert_eq!(swarm.task("N").updated_at, swarm.now);
}

#[test]
fn a_completed_task_that_comes_with_a_past_blocks_nobody() {
    let mut swarm = stage();
    let came = old(&swarm, "completed");
    assert_eq!(swarm.adopt(inserted(came)), Ok(()));
    let mut next = row(&swarm, "next", "blocked");
    next.dependencies.push("N".into());
    assert_eq!(swarm.adopt(inserted(next)), Ok(()));
    assert_eq!(swarm.task("next").status(), TaskStatus::Ready);
}

#[test]
fn a_task_that_fails_with_its_dependency_says_so_also_when_inserted_by_hand() {
    let mut swarm = Swarm::with_task(TaskStatus::Failed);
    let mut new = row(&swarm, "N", "blocked");
    new.dependencies.push("T".into());
    new.on_dependency_failure = OnDependencyFailure::Fail;
    assert_eq!(swarm.adopt(inserted(new)), Ok(()));
    assert_eq!(swarm.task("N").status(), TaskStatus::Failed);
    let failure = swarm.task("N").last_failure.as_ref();
    let kind = failure.map(|failure| failure.kind);
    assert_eq!(kind, Some(FailureKind::DependencyError));
}

#[test]
fn a_task_with_retries_behind_it_has_what_is_left_of_its_budget() {
    let mut swarm = stage();
    let mut came = old(&swarm, "ready");
    came.retries = came.about.max_retries;
    assert_eq!(swarm.adopt(inserted(came)), Ok(()));
    swarm.hold("B", "N");
    swarm.ok(fail("B", "N"));
    assert_eq!(swarm.task("N").status(), TaskStatus::Failed);
}
