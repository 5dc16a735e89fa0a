//! What holds for a job whatever happens to it, and in whatever order.

use proptest::prelude::*;

use super::testing::*;
use super::*;
use crate::TaskId;
use crate::job::{Job, JobAction, JobState, NewLimits, RunBy};
use crate::job_history::{Answer, CallError, CallWaits, JobEntry, Judged, NewExchange, Violation};
use crate::record::Listed as _;
use crate::verb::testing::{Swarm, claim, complete, fail};
use crate::verb::{Claimed, ReleaseTask};

/// What is done next; much of it is refused.
#[derive(Clone, Debug)]
enum Step {
    Begin,
    End(Answer, Option<u64>, u64),
    Recover,
    Decide(Decision),
    Limits(NewLimits),
    Queue,
    Claim(bool),
    Complete,
    Fail(bool),
    Release,
    Follow(JobAction),
    Wait(u64),
}

fn action() -> impl Strategy<Value = JobAction> {
    prop::sample::select(JobAction::ALL)
}

fn answer() -> impl Strategy<Value = Answer> {
    let why = String::new;
    prop_oneof![
        6 => action().prop_map(Answer::Said),
        1 => prop::sample::select(Violation::ALL)
            .prop_map(move |violation| Answer::Invalid { violation, why: why() }),
        2 => prop::sample::select(CallError::ALL)
            .prop_map(move |error| Answer::CallFailed { error, why: why() }),
        1 => Just(Answer::TimedOut { why: why() }),
        1 => Just(Answer::Broken { why: why() }),
    ]
}

fn limits() -> impl Strategy<Value = NewLimits> {
    (0_u64..200, 0_u64..200, 0_u32..12).prop_map(|(cost, millis, iterations)| NewLimits {
        cost_micros: Some(cost),
        millis: Some(millis),
        iterations: Some(iterations),
    })
}

fn decision() -> impl Strategy<Value = Decision> {
    let guidance = || Some("so".to_owned());
    prop_oneof![
        Just(Decision::Activate { rank: Some(0) }),
        Just(Decision::Approve),
        Just(Decision::Reject {
            guidance: guidance()
        }),
        limits().prop_map(move |limits| Decision::Resubmit {
            guidance: guidance(),
            limits
        }),
        Just(Decision::Terminate),
        action().prop_map(|action| Decision::Correct { action }),
        Just(Decision::Suspend),
        Just(Decision::Resume),
        Just(Decision::Cancel),
        Just(Decision::GoBack { to: None }),
        (0_usize..3).prop_map(|phase| Decision::Rerun { phase }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Begin),
        8 => (answer(), prop::option::of(0_u64..40), 0_u64..40)
            .prop_map(|(answer, cost, millis)| Step::End(answer, cost, millis)),
        1 => Just(Step::Recover),
        3 => decision().prop_map(Step::Decide),
        1 => limits().prop_map(Step::Limits),
        4 => Just(Step::Queue),
        4 => any::<bool>().prop_map(Step::Claim),
        4 => Just(Step::Complete),
        1 => any::<bool>().prop_map(Step::Fail),
        1 => Just(Step::Release),
        6 => action().prop_map(Step::Follow),
        1 => (1_u64..400).prop_map(Step::Wait),
    ]
}

/// Whether it was done.
fn take(swarm: &mut Swarm, step: &Step) -> bool {
    match step {
        Step::Begin => {
            let begins = begins(swarm);
            swarm.run(begins).is_ok()
        }
        Step::End(answer, cost, millis) => {
            let judged = Judged {
                cost_micros: *cost,
                millis: *millis,
                ..answered(answer.clone())
            };
            let ends = ends(swarm, judged);
            swarm.run(ends).is_ok()
        }
        Step::Recover => {
            let run = job(swarm).run;
            let recover = RecoverJob {
                job: "J".into(),
                run: run.map_or(String::new(), |run| run.id),
                by: "hub".to_owned(),
                why: "killed".to_owned(),
            };
            swarm.run(recover).is_ok()
        }
        Step::Decide(decision) => swarm.run(decide(decision.clone())).is_ok(),
        Step::Limits(limits) => {
            let changes = ChangeJob {
                limits: *limits,
                ..change()
            };
            swarm.run(changes).is_ok()
        }
        Step::Queue => {
            let puts = QueueJobPhase {
                job: "J".into(),
                title: "J".to_owned(),
                description: String::new(),
            };
            swarm.run(puts).is_ok()
        }
        Step::Follow(action) => swarm.run(follows(swarm, *action)).is_ok(),
        Step::Wait(seconds) => {
            swarm.wait(std::time::Duration::from_secs(*seconds));
            swarm.run(crate::verb::ReleaseRetries).is_ok()
        }
        Step::Claim(_) | Step::Complete | Step::Fail(_) | Step::Release => work(swarm, step),
    }
}

fn follows(swarm: &Swarm, action: JobAction) -> FollowJobTask {
    let number = job(swarm).task.map(|task| task.number);
    let attempts = swarm.attempts.iter();
    let attempts = attempts.filter(|attempt| Some(attempt.number) == number);
    FollowJobTask {
        job: "J".into(),
        attempts: attempts.cloned().collect(),
        judged: Some(said(action)),
        exchange: NewExchange::default(),
        waits: CallWaits::default(),
    }
}

/// What agents do with the task that is the job's phase.
fn work(swarm: &mut Swarm, step: &Step) -> bool {
    let task = job(swarm).task.map_or("none".into(), |task| task.id);
    let holder = swarm.tasks.get(&task);
    let holder = holder.and_then(|task| task.holder().cloned());
    let holder = holder.unwrap_or_else(|| "A".into());
    match step {
        Step::Claim(by_a) => {
            let claims = claim(if *by_a { "A" } else { "B" });
            matches!(swarm.run(claims), Ok(Claimed::Task(_)))
        }
        Step::Fail(recoverable) => {
            let mut fails = fail(holder.as_str(), task.as_str());
            fails.recoverable = *recoverable;
            swarm.run(fails).is_ok()
        }
        Step::Release => {
            let release = ReleaseTask {
                task,
                agent: None,
                epoch: None,
            };
            swarm.run(release).is_ok()
        }
        _ => swarm.run(complete(holder.as_str(), task.as_str())).is_ok(),
    }
}

/// What holds after every step; `from` is the last interaction before sums began anew.
fn check(swarm: &Swarm, from: u64) {
    let job = job(swarm);
    let all = interactions(swarm);
    let sequences: Vec<u64> = all.iter().map(|one| one.sequence).collect();
    assert_eq!(
        sequences,
        (1..=job.last_sequence).collect::<Vec<u64>>(),
        "no gap"
    );
    let counted = || all.iter().filter(|one| one.sequence > from);
    assert_eq!(
        job.sums.cost_micros,
        counted().map(|one| one.cost_micros).sum::<u64>()
    );
    assert_eq!(
        job.sums.millis,
        counted().map(|one| one.millis).sum::<u64>()
    );
    let turns = counted().filter(|one| one.call_error.is_none()).count();
    assert_eq!(job.sums.iterations as usize, turns);
    for one in &all {
        let landed = one.replayed().map(|landed| landed.state);
        assert_eq!(landed, Some(one.new_status), "interaction {}", one.sequence);
    }
    let runs = matches!(job.state, JobState::Running | JobState::Reviewing);
    assert_eq!(
        job.run.is_some(),
        runs,
        "at most one run, and only while it runs"
    );
    assert_eq!(job.suspended_in.is_some(), job.state == JobState::Suspended);
    let halted = job.suspended_in.unwrap_or(job.state).halt().is_some();
    assert_eq!(job.resume_to.is_some(), halted, "{:?}", job.state);
    let open = swarm
        .tasks
        .values()
        .filter(|task| !task.status().is_final());
    let open: Vec<&TaskId> = open.map(|task| &task.id).collect();
    let known = job.task.as_ref().map(|task| &task.id);
    assert!(
        open.iter().all(|id| Some(*id) == known),
        "no task outlives its step"
    );
    let entries = swarm.records.values().filter_map(JobEntry::of).count() as u64;
    assert_eq!(entries, job.last_entry);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_to_a_job_its_history_adds_up(
        is_queued in any::<bool>(),
        has_supervisor in any::<bool>(),
        needs_approval in any::<bool>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut swarm = with_job(|made| {
            if is_queued {
                made.spec.run_by = RunBy::Queue;
            }
            made.spec.needs_approval = needs_approval;
            if !has_supervisor {
                made.spec.roles = vec!["worker".to_owned()];
            }
            (made.limits.cost_micros, made.limits.millis, made.limits.iterations) = (150, 1 << 40, 9);
        });
        swarm.join("A", &[]);
        swarm.join("B", &[]);
        let mut from = 0;
        for step in &steps {
            if matches!(step, Step::Begin | Step::End(..) | Step::Recover) && is_queued {
                continue;
            }
            let before: Job = job(&swarm);
            let done = take(&mut swarm, step);
            let after = job(&swarm);
            prop_assert!(done || before == after, "a refused step changes nothing");
            let reruns = matches!(step, Step::Decide(Decision::Rerun { .. }));
            if done && reruns {
                from = after.last_sequence;
            } else if before.state.is_terminal() {
                prop_assert_eq!(before.state, after.state, "what has ended stays so");
            }
            check(&swarm, from);
        }
    }
}
