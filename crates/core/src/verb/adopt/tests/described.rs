//! Tasks of which a hand has changed what they say.

use super::*;
use crate::Skills;
use crate::task::{Priority, TaskKind};

type Edit = fn(&mut Task);

/// Each column, with its name; the first five may change while somebody holds the task.
const EDITS: [(&str, Edit); 10] = [
    ("title", |task| task.about.title = "another".to_owned()),
    ("description", |task| {
        task.about.description = Some("more".to_owned())
    }),
    ("files", |task| {
        task.about.files = vec!["src/b.rs".to_owned()]
    }),
    ("branch", |task| {
        task.about.branch = Some("feature".to_owned())
    }),
    ("max_retries", |task| task.about.max_retries = 5),
    ("priority", |task| task.about.priority = Priority::Critical),
    ("kind", |task| task.about.kind = TaskKind::Review),
    ("required_skills", |task| {
        task.about.required_skills = Skills::new(["rust"])
    }),
    ("estimated_minutes", |task| {
        task.about.estimated_minutes = Some(30)
    }),
    ("audience", |task| task.about.audience = vec!["B".into()]),
];

fn fields(swarm: &Swarm) -> Vec<&str> {
    let changed = swarm.said.iter().filter_map(|event| match event {
        Event::TaskChanged { fields, .. } => Some(fields),
        _ => None,
    });
    changed.flatten().map(String::as_str).collect()
}

#[test]
fn each_column_that_describes_a_task_may_be_changed_by_hand() {
    for (field, edit) in EDITS {
        let mut swarm = Swarm::with_task(TaskStatus::Ready);
        let written = swarm.task_by_hand("T", edit);
        let mut expected = swarm.task("T").clone();
        assert_eq!(swarm.adopt(written), Ok(()), "{field}");
        assert_eq!(swarm.said(), ["task_changed"], "{field}");
        assert_eq!(fields(&swarm), [field]);
        edit(&mut expected);
        assert_eq!(swarm.task("T").about, expected.about, "{field}");
        assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
    }
}

#[test]
fn who_may_take_a_held_task_is_not_changed_by_hand() {
    for (at, (field, edit)) in EDITS.into_iter().enumerate() {
        for status in [TaskStatus::Claimed, TaskStatus::InProgress] {
            let mut swarm = Swarm::with_task(status);
            let before = swarm.task("T").clone();
            let written = swarm.task_by_hand("T", edit);
            let outcome = swarm.adopt(written);
            if at < 5 {
                assert_eq!(outcome, Ok(()), "{field}");
                assert_eq!(fields(&swarm), [field]);
            } else {
                assert_eq!(word(&outcome), "wrong_state", "{field}");
                assert_undone(&swarm, (&before, swarm.task("T")), |task| &mut task.rev);
            }
        }
    }
}

#[test]
fn a_finished_task_says_what_it_said() {
    for status in [
        TaskStatus::Completed,
        TaskStatus::Failed,
        TaskStatus::Canceled,
    ] {
        let mut swarm = Swarm::with_task(status);
        let before = swarm.task("T").clone();
        let written = swarm.task_by_hand("T", EDITS[0].1);
        assert_eq!(word(&swarm.adopt(written)), "wrong_state", "{status}");
        assert_undone(&swarm, (&before, swarm.task("T")), |task| &mut task.rev);
    }
}

#[test]
fn a_status_and_what_the_task_says_may_change_in_one_write() {
    let table: [(TaskStatus, &str, &[&str]); 8] = [
        (
            TaskStatus::Ready,
            "claimed",
            &["task_changed", "task_claimed"],
        ),
        (
            TaskStatus::Ready,
            "canceled",
            &["task_changed", "task_canceled"],
        ),
        (
            TaskStatus::RetryWait,
            "ready",
            &["task_changed", "task_ready"],
        ),
        (
            TaskStatus::NeedsPerson,
            "ready",
            &["task_changed", "task_ready"],
        ),
        // Who holds it or finished it comes first: only then may it be said anew.
        (TaskStatus::Failed, "ready", &["task_ready", "task_changed"]),
        (
            TaskStatus::Canceled,
            "ready",
            &["task_ready", "task_changed"],
        ),
        (
            TaskStatus::Claimed,
            "ready",
            &["task_requeued", "task_ready", "task_changed"],
        ),
        (
            TaskStatus::InProgress,
            "ready",
            &["task_requeued", "task_ready", "task_changed"],
        ),
    ];
    for (from, to, said) in table {
        let mut swarm = Swarm::with_task(from);
        let written = swarm.task_by_hand("T", |task| {
            task.state = state(to, "A");
            task.about.title = "another".to_owned();
            task.about.required_skills = Skills::new(["rust"]);
        });
        assert_eq!(swarm.adopt(written), Ok(()), "{from} -> {to}");
        assert_eq!(swarm.said(), said, "{from} -> {to}");
        let task = swarm.task("T");
        assert_eq!(task.status().as_str(), to, "{from} -> {to}");
        assert_eq!(task.about.title, "another", "{from} -> {to}");
        assert_eq!(task.about.required_skills, Skills::new(["rust"]));
    }
}

#[test]
fn a_budget_changed_in_the_same_write_counts_for_the_failure() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    let written = swarm.task_by_hand("T", |task| {
        task.state = state("pending_retry", "A");
        task.about.max_retries = 0;
    });
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(swarm.said(), ["task_changed", "task_failed"]);
    assert_eq!(swarm.task("T").status(), TaskStatus::Failed);
}

#[test]
fn columns_that_the_hub_keeps_are_put_back_without_a_word() {
    let edits: [Edit; 6] = [
        |task| task.retries = 9,
        |task| task.blockers = vec!["D".into()],
        |task| task.started_at = Some(Timestamp(5)),
        |task| task.result = Some("{}".into()),
        |task| task.snapshot = Some("S".into()),
        |task| task.epoch = 9,
    ];
    for (at, edit) in edits.into_iter().enumerate() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        let mut before = swarm.task("T").clone();
        let written = swarm.task_by_hand("T", edit);
        assert_eq!(swarm.adopt(written), Ok(()), "{at}");
        assert!(swarm.said().is_empty(), "{at}");
        before.rev += 1;
        assert_eq!(*swarm.task("T"), before, "{at}");
    }
}

#[test]
fn a_task_that_changes_lanes_by_hand_is_claimed_from_the_new_one() {
    let mut swarm = Swarm::with_task(TaskStatus::Ready);
    let written = swarm.task_by_hand("T", |task| task.about.audience = vec!["B".into()]);
    assert_eq!(swarm.adopt(written), Ok(()));
    let claim = crate::verb::testing::claim;
    let by_a = swarm.ok(claim("A"));
    assert!(matches!(by_a, crate::verb::Claimed::None(_)), "{by_a:?}");
    let by_b = swarm.ok(claim("B"));
    assert!(matches!(by_b, crate::verb::Claimed::Task(_)), "{by_b:?}");
}
