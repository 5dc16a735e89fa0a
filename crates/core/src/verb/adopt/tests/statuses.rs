//! Tasks whose status a hand has changed.

use super::*;
use crate::attempt::Outcome;
use crate::task::{Failure, FailureKind, OnDependencyFailure};
use crate::verb::RetryTask;
use crate::verb::testing::{fail, task_with};

/// T in this status, W that waits for it, and a lease for T if A holds it.
fn stage(word: &str) -> Swarm {
    let status = TaskStatus::parse(word).unwrap_or(TaskStatus::Ready);
    let mut swarm = Swarm::with_task(status);
    swarm.create(task_with("W", |task| task.dependencies.push("T".into())));
    if swarm.task("T").holder().is_some() {
        swarm.lease("A", "src/a.rs", Some("T"));
    }
    swarm
}

/// What one change of status comes to.
struct Case {
    from: &'static str,
    to: &'static str,
    status: &'static str,
    said: &'static [&'static str],
    /// How the claim ended that A had, if it ended now.
    attempt: Option<Outcome>,
    retries: u32,
    /// A's completed and failed tasks.
    counted: (u64, u64),
    /// Of W, which waits for T.
    dependant: &'static str,
}

const fn case(
    (from, to, status): (&'static str, &'static str, &'static str),
    said: &'static [&'static str],
    attempt: Option<Outcome>,
    (retries, counted, dependant): (u32, (u64, u64), &'static str),
) -> Case {
    Case {
        from,
        to,
        status,
        said,
        attempt,
        retries,
        counted,
        dependant,
    }
}

const UNTOUCHED: (u32, (u64, u64), &str) = (0, (0, 0), "blocked");
const FAILED_ONCE: (u32, (u64, u64), &str) = (1, (0, 1), "blocked");
const BY_PERSON: (u32, (u64, u64), &str) = (0, (0, 0), "ready");
const DONE: (u32, (u64, u64), &str) = (0, (1, 0), "ready");
const DROPPED: &[&str] = &["task_canceled", "dependency_failed"];

#[rustfmt::skip]
const CASES: &[Case] = &[
    case(("pending", "ready", "ready"), &[], None, UNTOUCHED),
    case(("pending", "blocked", "ready"), &[], None, UNTOUCHED),
    case(("pending", "claimed", "claimed"), &["task_claimed"], None, UNTOUCHED),
    case(("pending", "in_progress", "in_progress"), &["task_claimed", "task_progressed"], None, UNTOUCHED),
    case(("pending", "completed", "completed"), &["task_completed", "task_ready"], None, BY_PERSON),
    case(("pending", "failed", "failed"), &["task_failed", "dependency_failed"], None, UNTOUCHED),
    case(("pending", "canceled", "canceled"), DROPPED, None, UNTOUCHED),
    case(("ready", "pending", "ready"), &[], None, UNTOUCHED),
    case(("ready", "claimed", "claimed"), &["task_claimed"], None, UNTOUCHED),
    case(("ready", "in_progress", "in_progress"), &["task_claimed", "task_progressed"], None, UNTOUCHED),
    case(("ready", "completed", "completed"), &["task_completed", "task_ready"], None, BY_PERSON),
    case(("ready", "failed", "failed"), &["task_failed", "dependency_failed"], None, UNTOUCHED),
    case(("ready", "canceled", "canceled"), DROPPED, None, UNTOUCHED),
    // D is not completed; a person may go on without it.
    case(("blocked", "pending", "blocked"), &[], None, UNTOUCHED),
    case(("blocked", "ready", "ready"), &["task_ready"], None, UNTOUCHED),
    case(("blocked", "in_progress", "in_progress"), &["task_claimed", "task_progressed"], None, UNTOUCHED),
    case(("blocked", "completed", "completed"), &["task_completed", "task_ready"], None, BY_PERSON),
    case(("blocked", "failed", "failed"), &["task_failed", "dependency_failed"], None, UNTOUCHED),
    case(("blocked", "canceled", "canceled"), DROPPED, None, UNTOUCHED),
    case(("claimed", "in_progress", "in_progress"), &["task_progressed"], None, UNTOUCHED),
    case(("claimed", "completed", "completed"), &["lease_released", "task_completed", "task_ready"], Some(Outcome::Completed), DONE),
    case(("claimed", "failed", "failed"), &["lease_released", "task_failed", "dependency_failed"], Some(Outcome::Failed), FAILED_ONCE),
    case(("claimed", "pending_retry", "pending_retry"), &["lease_released", "task_retry_planned"], Some(Outcome::Failed), FAILED_ONCE),
    case(("claimed", "needs_review", "needs_review"), &["lease_released", "task_needs_person"], Some(Outcome::NeedsPerson), UNTOUCHED),
    case(("claimed", "ready", "ready"), &["lease_released", "task_requeued", "task_ready"], Some(Outcome::Released), UNTOUCHED),
    case(("claimed", "pending", "ready"), &["lease_released", "task_requeued", "task_ready"], Some(Outcome::Released), UNTOUCHED),
    case(("claimed", "canceled", "canceled"), &["lease_released", "task_canceled", "dependency_failed"], Some(Outcome::Canceled), UNTOUCHED),
    // What was begun stays begun.
    case(("in_progress", "claimed", "in_progress"), &[], None, UNTOUCHED),
    case(("in_progress", "completed", "completed"), &["lease_released", "task_completed", "task_ready"], Some(Outcome::Completed), DONE),
    case(("in_progress", "failed", "failed"), &["lease_released", "task_failed", "dependency_failed"], Some(Outcome::Failed), FAILED_ONCE),
    case(("in_progress", "pending_retry", "pending_retry"), &["lease_released", "task_retry_planned"], Some(Outcome::Failed), FAILED_ONCE),
    case(("in_progress", "needs_review", "needs_review"), &["lease_released", "task_needs_person"], Some(Outcome::NeedsPerson), UNTOUCHED),
    case(("in_progress", "ready", "ready"), &["lease_released", "task_requeued", "task_ready"], Some(Outcome::Released), UNTOUCHED),
    case(("in_progress", "pending", "ready"), &["lease_released", "task_requeued", "task_ready"], Some(Outcome::Released), UNTOUCHED),
    case(("in_progress", "canceled", "canceled"), &["lease_released", "task_canceled", "dependency_failed"], Some(Outcome::Canceled), UNTOUCHED),
    case(("pending_retry", "ready", "ready"), &["task_ready"], None, FAILED_ONCE),
    case(("pending_retry", "pending", "ready"), &["task_ready"], None, FAILED_ONCE),
    case(("pending_retry", "in_progress", "in_progress"), &["task_claimed", "task_progressed"], None, FAILED_ONCE),
    case(("pending_retry", "completed", "completed"), &["task_completed", "task_ready"], None, (1, (0, 1), "ready")),
    case(("pending_retry", "failed", "failed"), &["task_failed", "dependency_failed"], None, FAILED_ONCE),
    case(("pending_retry", "canceled", "canceled"), DROPPED, None, FAILED_ONCE),
    case(("needs_review", "completed", "completed"), &["task_completed", "task_ready"], None, DONE),
    case(("needs_review", "ready", "ready"), &["task_ready"], None, UNTOUCHED),
    case(("needs_review", "failed", "failed"), &["task_failed", "dependency_failed"], None, UNTOUCHED),
    case(("needs_review", "canceled", "canceled"), DROPPED, None, UNTOUCHED),
    // Its budget is anew; A's count stays.
    case(("failed", "ready", "ready"), &["task_ready"], None, (0, (0, 1), "blocked")),
    case(("failed", "pending", "ready"), &["task_ready"], None, (0, (0, 1), "blocked")),
    case(("canceled", "ready", "ready"), &["task_ready"], None, UNTOUCHED),
    case(("canceled", "pending", "ready"), &["task_ready"], None, UNTOUCHED),
];

#[test]
fn the_table_has_every_change_that_a_hand_may_make() {
    let listed: Vec<(&str, &str)> = CASES.iter().map(|case| (case.from, case.to)).collect();
    assert_eq!(listed, TRANSITIONS);
}

/// Over HTTP each of these takes a steward: `cancel`, `retry`, `approve`, `reject`.
#[test]
fn what_ends_revives_or_rules_on_a_task_is_a_stewards() {
    let mut stewards: Vec<String> = Vec::new();
    for (from, to) in TRANSITIONS
        .iter()
        .filter(|(from, to)| is_stewards(from, to))
    {
        stewards.push(format!("{from} {to}"));
    }
    let expected = "pending completed, pending failed, pending canceled, ready completed, ready failed, ready canceled, \
        blocked ready, blocked in_progress, blocked completed, blocked failed, blocked canceled, claimed canceled, \
        in_progress canceled, pending_retry ready, pending_retry pending, pending_retry in_progress, \
        pending_retry completed, pending_retry failed, pending_retry canceled, \
        needs_review completed, needs_review ready, needs_review failed, needs_review canceled, \
        failed ready, failed pending, canceled ready, canceled pending";
    assert_eq!(stewards.join(", "), expected);
}

#[test]
fn every_change_of_status_by_hand_comes_to_what_the_verbs_make_of_it() {
    for case in CASES {
        let name = format!("{} -> {}", case.from, case.to);
        let mut swarm = stage(case.from);
        let before = swarm.task("T").clone();
        let attempts = swarm.attempts.len();
        let was_held = before.holder().is_some();
        swarm.wait(std::time::Duration::from_secs(1));
        assert_eq!(set(&mut swarm, case.to), Ok(()), "{name}");

        let task = swarm.task("T");
        assert_eq!(task.status().as_str(), case.status, "{name}");
        assert_eq!(swarm.said(), case.said, "{name}");
        assert_eq!(task.retries, case.retries, "{name}");
        assert!(task.rev > before.rev, "{name}: not written anew");

        let is_held = task.holder().is_some();
        assert_eq!(
            task.epoch,
            before.epoch + u64::from(is_held && !was_held),
            "{name}"
        );
        let agent = swarm.agent("A");
        let holds: &[TaskId] = if is_held { &["T".into()] } else { &[] };
        assert_eq!(agent.holds, holds, "{name}");
        assert_eq!((agent.completed, agent.failed), case.counted, "{name}");
        assert_eq!(
            agent.status(),
            if is_held { "busy" } else { "idle" },
            "{name}"
        );

        let ended = &swarm.attempts[attempts..];
        let ended: Vec<_> = ended.iter().map(|row| (row.outcome, row.epoch)).collect();
        let expected = case.attempt.map(|outcome| (outcome, before.epoch));
        assert_eq!(ended, Vec::from_iter(expected), "{name}");
        let leases = usize::from(was_held && is_held);
        assert_eq!(swarm.leased().len(), leases, "{name}");
        assert_eq!(swarm.task("W").status().as_str(), case.dependant, "{name}");
    }
}

/// A completes T by hand, with a snapshot that counts this many type errors; the baseline has two.
fn completed_with(type_errors: u32) -> Swarm {
    let mut swarm = stage("in_progress");
    swarm.ok(SetBaseline {
        source: BaselineSource::Given(measured(2)),
        by: "a person".to_owned(),
    });
    let was = swarm.task("T").clone();
    let is = Task {
        state: state("completed", "A"),
        result: Some(r#"{"summary":"by hand"}"#.into()),
        snapshot: Some("S".into()),
        ..was.clone()
    };
    let written = Written::Task {
        id: "T".into(),
        was: Some(was.into()),
        is: Some(is.into()),
        metrics: Some(measured(type_errors).into()),
    };
    assert_eq!(swarm.adopt(written), Ok(()));
    let task = swarm.task("T");
    assert_eq!(task.result.as_deref(), Some(r#"{"summary":"by hand"}"#));
    assert_eq!(task.snapshot, Some("S".into()));
    assert!(swarm.snapshots.is_empty(), "the hand has stored it already");
    swarm
}

#[test]
fn a_completion_by_hand_whose_snapshot_regresses_needs_review() {
    // jetpack.complete.regression_check
    let swarm = completed_with(2);
    assert_eq!(swarm.task("T").status(), TaskStatus::Completed);
    assert_eq!(swarm.task("W").status(), TaskStatus::Ready);

    let swarm = completed_with(3);
    assert_eq!(swarm.said(), ["lease_released", "task_needs_person"]);
    assert_eq!(swarm.task("T").status(), TaskStatus::NeedsPerson);
    assert_eq!(swarm.task("W").status(), TaskStatus::Waiting);
    assert_eq!(swarm.agent("A").completed, 0);
    let last = swarm.attempts.last().map(|attempt| attempt.outcome);
    assert_eq!(last, Some(Outcome::NeedsPerson));
}

#[test]
fn a_completion_by_hand_is_held_against_the_policy_of_the_hub() {
    let policy = GatePolicy {
        require_metrics: true,
        ..GatePolicy::default()
    };
    let mut swarm = stage("claimed");
    let written = swarm.task_by_hand("T", |task| task.state = state("completed", "A"));
    assert_eq!(swarm.adopt_under(policy, written), Ok(()));
    assert_eq!(swarm.task("T").status(), TaskStatus::NeedsPerson);
    assert_eq!(swarm.task("T").result.as_deref(), Some("{}"));
}

#[test]
fn a_failure_by_hand_is_retried_within_the_budget_and_fails_beyond_it() {
    for (max_retries, expected) in [(1, "pending_retry"), (0, "failed")] {
        let mut swarm = Swarm::new();
        swarm.join("A", &[]);
        swarm.create(task_with("T", |task| task.about.max_retries = max_retries));
        swarm.hold("A", "T");
        let written = swarm.task_by_hand("T", |task| {
            task.state = state("pending_retry", "A");
            // The hub counts for itself.
            task.retries = 7;
            task.last_failure = Some(Failure {
                kind: FailureKind::ResourceError,
                message: "no space".to_owned(),
            });
        });
        assert_eq!(swarm.adopt(written), Ok(()));
        let task = swarm.task("T");
        assert_eq!(task.status().as_str(), expected);
        assert_eq!(task.retries, 1);
        if max_retries == 1 {
            let until = swarm.now + std::time::Duration::from_secs(60);
            assert_eq!(task.state, TaskState::RetryWait { until });
            assert_eq!(task.previous_agents, ["A".into()]);
        }
        let attempt = swarm.attempts.last().expect("one attempt");
        assert_eq!(attempt.failure, Some(FailureKind::ResourceError));
        assert_eq!(attempt.message.as_deref(), Some("no space"));
        assert_eq!(swarm.agent("A").failed, 1);
    }
}

#[test]
fn a_failed_task_readied_by_hand_has_its_budget_anew_and_a_waiting_retry_keeps_it() {
    for (status, retries) in [(TaskStatus::Failed, 0), (TaskStatus::RetryWait, 1)] {
        let mut swarm = Swarm::with_task(status);
        assert_eq!(swarm.task("T").retries, 1);
        set(&mut swarm, "ready").expect("a hand may");
        assert_eq!(swarm.task("T").retries, retries, "{status}");
        assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
    }
}

#[test]
fn a_task_readied_by_a_person_no_longer_waits_for_its_dependencies() {
    let mut swarm = Swarm::with_task(TaskStatus::Waiting);
    set(&mut swarm, "ready").expect("a hand may");
    assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
    swarm.hold("A", "D");
    swarm.ok(complete("A", "D"));
    assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
}

#[test]
fn a_task_deleted_by_hand_is_canceled() {
    // settled.canceled
    for status in TaskStatus::ALL {
        let mut swarm = Swarm::with_task(*status);
        swarm.create(task_with("W", |task| {
            task.dependencies.push("T".into());
            task.on_dependency_failure = OnDependencyFailure::Fail;
        }));
        let before = swarm.task("T").clone();
        let deleted = Written::Task {
            id: "T".into(),
            was: Some(before.clone().into()),
            is: None,
            metrics: None,
        };
        let outcome = swarm.adopt(deleted);
        if status.is_final() {
            assert_eq!(word(&outcome), "wrong_state", "{status}");
            assert_undone(&swarm, (&before, swarm.task("T")), |task| &mut task.rev);
            continue;
        }
        assert_eq!(outcome, Ok(()), "{status}");
        assert_eq!(swarm.task("T").status(), TaskStatus::Canceled, "{status}");
        assert_eq!(swarm.task("W").status(), TaskStatus::Failed, "{status}");
        assert!(swarm.agent("A").holds.is_empty(), "{status}");
    }
}

#[test]
fn notes_of_one_task_are_taken_in_one_by_one() {
    let mut swarm = stage("ready");
    let words = ["ready", "claimed", "in_progress", "completed"];
    let row = |word: &str| {
        let state = state(word, "A");
        let task = swarm.task("T").clone();
        Some(Box::new(Task { state, ..task }))
    };
    // All were written before the hub saw the first.
    let notes: Vec<Written> = words
        .windows(2)
        .map(|pair| Written::Task {
            id: "T".into(),
            was: row(pair[0]),
            is: row(pair[1]),
            metrics: None,
        })
        .collect();
    for note in notes {
        assert_eq!(swarm.adopt(note), Ok(()));
    }
    assert_eq!(swarm.task("T").status(), TaskStatus::Completed);
    assert_eq!(swarm.task("W").status(), TaskStatus::Ready);
    assert_eq!(swarm.attempts.len(), 1);
    assert_eq!(swarm.agent("A").completed, 1);
}

#[test]
fn a_result_of_a_claim_that_the_hub_has_ended_is_undone() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    let late = swarm.task_by_hand("T", |task| task.state = state("completed", "A"));
    swarm.ok(fail("A", "T"));
    swarm.ok(RetryTask { task: "T".into() });
    swarm.hold("B", "T");
    let before = swarm.task("T").clone();
    assert_eq!(word(&swarm.adopt(late)), "task_reassigned");
    assert_undone(&swarm, (&before, swarm.task("T")), |task| &mut task.rev);
    assert_eq!(before.holder(), Some(&"B".into()));
}
