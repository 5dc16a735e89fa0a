//! Phases in the queue, with the verbs by which agents do them.

use super::testing::*;
use super::*;
use crate::attempt::Attempt;
use crate::job::{JobAction, JobRole, JobSpec, JobState, RunBy};
use crate::job_history::{CallWaits, Judged, NewExchange, RunStatus};
use crate::task::{FailureKind, TaskKind, TaskStatus, WhenSpent};
use crate::verb::testing::{Swarm, claim, complete, fail, task_with, word};
use crate::verb::{Cancel, Claimed, Deregister, ReleaseRetries, ReleaseTask, Review, Ruling};
use crate::{AgentId, GatePolicy, limits};

/// The job J of the queue, with its first phase waiting there for A and B.
fn queued(edit: impl FnOnce(&mut JobSpec)) -> Swarm {
    let mut swarm = with_job(|made| {
        made.spec.run_by = RunBy::Queue;
        edit(&mut made.spec);
    });
    swarm.join("A", &[]);
    swarm.join("B", &[]);
    put(&mut swarm);
    swarm
}

fn puts() -> QueueJobPhase {
    QueueJobPhase {
        job: "J".into(),
        title: "J: build".to_owned(),
        description: "{\"job_id\":\"J\"}".to_owned(),
    }
}

fn put(swarm: &mut Swarm) -> String {
    let queued = swarm.ok(puts());
    assert_eq!(queued.halted, None);
    task_id(swarm).expect("it is queued")
}

fn task_id(swarm: &Swarm) -> Option<String> {
    job(swarm).task.map(|task| task.id.to_string())
}

fn follows(swarm: &Swarm, judged: Option<Judged>) -> FollowJobTask {
    let number = job(swarm).task.map(|task| task.number);
    let attempts = swarm.attempts.iter();
    let attempts: Vec<Attempt> = attempts
        .filter(|attempt| Some(attempt.number) == number)
        .cloned()
        .collect();
    FollowJobTask {
        job: "J".into(),
        attempts,
        judged,
        exchange: NewExchange::default(),
        waits: CallWaits::default(),
    }
}

fn follow(swarm: &mut Swarm, judged: Option<Judged>) -> JobTaskFollowed {
    let follows = follows(swarm, judged);
    swarm.ok(follows)
}

/// This agent does the queued phase, and it is judged so.
fn does(swarm: &mut Swarm, agent: &str, action: JobAction) -> JobState {
    let task = task_id(swarm).expect("it is queued");
    swarm.hold(agent, &task);
    swarm.wait(std::time::Duration::from_secs(3));
    swarm.ok(complete(agent, &task));
    follow(swarm, Some(said(action))).job.state
}

#[test]
fn a_phase_is_an_ordinary_task_with_the_request_as_its_description() {
    let mut swarm = queued(|spec| spec.max_retries = 7);
    let task = swarm.task("job:J:1:1").clone();
    assert_eq!(task.about.kind, TaskKind::Custom);
    assert_eq!(
        task.about.description.as_deref(),
        Some("{\"job_id\":\"J\"}")
    );
    assert_eq!(
        (task.about.max_retries, task.about.when_spent),
        (7, WhenSpent::Fail)
    );
    assert_eq!(task.corr_id, job(&swarm).corr_id);
    assert_eq!(word(&swarm.run(puts())), "job_is_queued");
    let begin = begins(&swarm);
    assert_eq!(word(&swarm.run(begin)), "job_is_queued");
}

#[test]
fn a_claim_is_a_run_and_a_completion_its_answer() {
    let mut swarm = queued(|_| {});
    swarm.hold("A", "job:J:1:1");
    let running = follow(&mut swarm, None).job;
    assert_eq!(running.state, JobState::Running);
    assert_eq!(running.run.as_ref().map(|run| run.by.as_str()), Some("A"));
    assert_eq!(swarm.said(), ["job_run_began", "job_moved"]);
    follow(&mut swarm, None);
    assert_eq!(swarm.said(), [""; 0], "it is known");
    swarm.wait(std::time::Duration::from_secs(3));
    swarm.ok(complete("A", "job:J:1:1"));
    let unjudged = follow(&mut swarm, None);
    assert!(unjudged.again && unjudged.job.state == JobState::Running);
    let done = follow(&mut swarm, Some(said(JobAction::Completed))).job;
    assert_eq!((done.state, done.task), (JobState::ReviewRequired, None));
    let one = &interactions(&swarm)[0];
    assert_eq!(
        (one.role, one.by.as_str(), one.millis),
        (JobRole::Worker, "A", 3_000)
    );
    assert_eq!(
        one.replayed().map(|landed| landed.state),
        Some(JobState::ReviewRequired)
    );
    follow(&mut swarm, Some(said(JobAction::Completed)));
    assert_eq!(interactions(&swarm).len(), 1, "nothing happens twice");
}

#[test]
fn whoever_did_a_phase_does_not_review_it() {
    let mut swarm = queued(|_| {});
    assert_eq!(
        does(&mut swarm, "A", JobAction::Completed),
        JobState::ReviewRequired
    );
    let review = put(&mut swarm);
    assert_eq!(swarm.task(&review).about.kind, TaskKind::Review);
    assert_eq!(swarm.task(&review).about.barred, [AgentId::from("A")]);
    assert!(matches!(swarm.ok(claim("A")), Claimed::None(_)));
    let mut named = claim("A");
    named.task = Some(review.as_str().into());
    assert_eq!(word(&swarm.run(named)), "invalid", "it does not qualify");
    assert_eq!(
        does(&mut swarm, "B", JobAction::Completed),
        JobState::Pending
    );
    assert_eq!(job(&swarm).phase, 1);
    let next = put(&mut swarm);
    assert_eq!(next, "job:J:2:3");
    assert!(
        swarm.task(&next).about.barred.is_empty(),
        "a worker may be anybody"
    );
}

#[test]
fn what_each_ending_means_to_the_job() {
    // interop.md 2, 3 and 6
    use FailureKind::{DependencyError, QualityFailure, ResourceError, TaskError, TaskTimeout};
    let stuck = (JobState::InterventionRequired, JobAction::Stuck);
    let again = (JobState::Pending, JobAction::Retry);
    for (kind, recoverable, status, (state, action), iterations) in [
        (TaskError, true, RunStatus::Error, again, 1),
        (TaskError, false, RunStatus::Error, stuck, 1),
        (QualityFailure, true, RunStatus::Error, again, 1),
        (TaskTimeout, true, RunStatus::Timeout, stuck, 1),
        (DependencyError, true, RunStatus::Error, stuck, 1),
        (ResourceError, true, RunStatus::Error, again, 0),
    ] {
        let mut swarm = queued(|_| {});
        swarm.hold("A", "job:J:1:1");
        let mut fails = fail("A", "job:J:1:1");
        (fails.kind, fails.recoverable) = (kind, recoverable);
        swarm.ok(fails);
        let after = follow(&mut swarm, None).job;
        let one = interactions(&swarm).remove(0);
        assert_eq!(
            (after.state, one.action, one.status),
            (state, action, status),
            "{kind}"
        );
        assert_eq!(after.sums.iterations, iterations, "{kind}");
        assert_eq!(
            one.replayed().map(|landed| landed.state),
            Some(state),
            "{kind}"
        );
        let waits = state == JobState::Pending;
        assert_eq!(after.task.is_some(), waits, "{kind}");
        let task = swarm.task("job:J:1:1").status();
        let ended = matches!(task, TaskStatus::Failed | TaskStatus::Canceled);
        assert_eq!(ended, !waits, "{kind}: {task}");
    }
}

#[test]
fn a_phase_that_was_given_up_is_done_by_the_next_one_who_claims_it() {
    let mut swarm = queued(|_| {});
    swarm.hold("A", "job:J:1:1");
    swarm.ok(fail("A", "job:J:1:1"));
    swarm.wait(limits::RETRY_MAX);
    swarm.ok(ReleaseRetries);
    // Nobody looked in between: all of it is taken in at once.
    assert_eq!(
        does(&mut swarm, "B", JobAction::Completed),
        JobState::ReviewRequired
    );
    let by: Vec<String> = interactions(&swarm).into_iter().map(|one| one.by).collect();
    assert_eq!(by, ["A", "B"]);
    assert_eq!(job(&swarm).worker, Some("B".into()));
}

#[test]
fn a_phase_whose_agent_is_gone_is_nobodys_turn() {
    for how in ["gone", "released"] {
        let mut swarm = queued(|_| {});
        swarm.hold("A", "job:J:1:1");
        follow(&mut swarm, None);
        match how {
            "gone" => swarm.ok(Deregister { agent: "A".into() }),
            _ => {
                swarm.ok(ReleaseTask {
                    task: "job:J:1:1".into(),
                    agent: Some("A".into()),
                    epoch: None,
                });
            }
        }
        let after = follow(&mut swarm, None).job;
        assert_eq!((after.state, after.run), (JobState::Pending, None), "{how}");
        assert!(
            interactions(&swarm).is_empty() && after.task.is_some(),
            "{how}"
        );
        assert_eq!(entries(&swarm).pop().as_deref(), Some("recovered"));
        assert_eq!(after.sums.iterations, 0);
    }
}

#[test]
fn a_result_that_a_person_must_look_at_waits_with_the_job() {
    for (ruling, expected) in [
        (Ruling::Approve, JobState::ReviewRequired),
        (Ruling::Redo, JobState::Pending),
        (Ruling::Drop, JobState::InterventionRequired),
    ] {
        let mut swarm = queued(|_| {});
        needs_person(&mut swarm, "A");
        let waits = follow(&mut swarm, None);
        assert_eq!(waits.job.state, JobState::InterventionRequired);
        assert!(!waits.again && interactions(&swarm).is_empty());
        swarm.ok(Review {
            task: "job:J:1:1".into(),
            ruling,
            reason: "looked at".to_owned(),
        });
        let after = follow(&mut swarm, Some(said(JobAction::Completed))).job;
        assert_eq!(after.state, expected);
        assert_eq!(interactions(&swarm).len(), 1);
    }
    let mut swarm = queued(|spec| spec.phases.truncate(1));
    does(&mut swarm, "A", JobAction::Completed);
    put(&mut swarm);
    needs_person(&mut swarm, "B");
    let last = follow(&mut swarm, None).job;
    assert_eq!(
        last.state,
        JobState::ApprovalRequired,
        "after the last review"
    );
}

fn needs_person(swarm: &mut Swarm, agent: &str) {
    let task = task_id(swarm).expect("it is queued");
    swarm.hold(agent, &task);
    let mut complete = complete(agent, &task);
    complete.policy = GatePolicy {
        require_metrics: true,
        ..GatePolicy::default()
    }
    .into();
    swarm.ok(complete);
}

#[test]
fn a_job_that_stops_cancels_its_task_and_a_canceled_task_its_job() {
    for decision in [Decision::Cancel, Decision::Suspend] {
        let mut swarm = queued(|_| {});
        swarm.hold("A", "job:J:1:1");
        let job = swarm.ok(decide(decision));
        assert_eq!(job.task, None);
        assert_eq!(swarm.task("job:J:1:1").status(), TaskStatus::Canceled);
        assert!(
            swarm.agent("A").holds.is_empty(),
            "it is told at its next sign of life"
        );
    }
    for is_held in [true, false] {
        let mut swarm = queued(|_| {});
        if is_held {
            swarm.hold("A", "job:J:1:1");
        }
        swarm.ok(Cancel {
            task: "job:J:1:1".into(),
            reason: "unwanted".to_owned(),
        });
        assert_eq!(follow(&mut swarm, None).job.state, JobState::Canceled);
    }
}

#[test]
fn a_job_that_halts_takes_its_task_out_of_the_queue() {
    let mut swarm = queued(|_| {});
    swarm.ok(ChangeJob {
        limits: crate::job::NewLimits {
            iterations: Some(1),
            ..Default::default()
        },
        ..change()
    });
    swarm.hold("A", "job:J:1:1");
    swarm.ok(fail("A", "job:J:1:1"));
    let halted = follow(&mut swarm, None).job;
    assert_eq!(
        (halted.state, halted.task),
        (JobState::HaltedIteration, None)
    );
    assert_eq!(swarm.task("job:J:1:1").status(), TaskStatus::Canceled);
    let mut swarm = queued(|_| {});
    swarm.ok(decide(Decision::Suspend));
    swarm.ok(decide(Decision::Resume));
    assert_eq!(put(&mut swarm), "job:J:1:2", "under a new id");
}

#[test]
fn attempts_that_were_not_brought_are_asked_for() {
    let mut swarm = queued(|_| {});
    swarm.hold("A", "job:J:1:1");
    let early = follows(&swarm, None);
    swarm.ok(fail("A", "job:J:1:1"));
    let again = swarm.ok(early);
    assert!(again.again && interactions(&swarm).is_empty());
}

#[test]
fn a_request_that_is_too_long_does_not_go_into_the_queue() {
    let most = limits::DESCRIPTION_BYTES_MAX;
    for (bytes, expected) in [(most - 1, "ok"), (most, "ok"), (most + 1, "too_many")] {
        let mut swarm = with_job(|made| made.spec.run_by = RunBy::Queue);
        let outcome = swarm.run(QueueJobPhase {
            description: "x".repeat(bytes),
            ..puts()
        });
        assert_eq!(word(&outcome), expected, "{bytes}");
    }
}

#[test]
fn tasks_bar_whom_they_name_from_every_claim() {
    let mut swarm = Swarm::new();
    swarm.join("A", &[]);
    swarm.join("B", &[]);
    swarm.create(task_with("T", |task| task.about.barred = vec!["A".into()]));
    let assign = crate::verb::testing::assign("A");
    assert!(matches!(swarm.ok(assign), Claimed::None(_)));
    swarm.hold("B", "T");
}
