//! Jobs for the tables of their steps.

use super::{
    BeginJobRun, CreateJob, DecideJob, Decision, EndJobRun, JobActor, JobRunBegun, JobRunEnded,
};
use crate::id::JobId;
use crate::job::{Job, JobAction, JobLimits, JobPhase, JobRole, JobSpec, JobState, RunBy};
use crate::job_history::{
    Answer, CallWaits, Interaction, JobEntry, Judged, NewExchange, RecoveryPoint, Violation,
};
use crate::record::{Listed, Private, Record};
use crate::verb::testing::Swarm;

/// Two phases, a worker and a supervisor, and a person who approves.
pub(super) fn spec(id: &str) -> JobSpec {
    let phase = |name: &str| JobPhase {
        name: name.to_owned(),
        description: format!("what {name} is"),
        worker_instructions: format!("do {name}"),
    };
    JobSpec {
        id: id.into(),
        description: format!("about {id}"),
        objective: "done".to_owned(),
        roles: Vec::new(),
        phases: vec![phase("build"), phase("polish")],
        success_criteria: Vec::new(),
        max_retries: 2,
        reset_on_retry: false,
        run_by: RunBy::Agents,
        needs_approval: true,
        is_sensitive: false,
        repository: None,
        other: None,
    }
}

pub(super) fn create(id: &str) -> CreateJob {
    CreateJob {
        spec: spec(id),
        limits: JobLimits::default(),
        directory: format!("/jobs/{id}"),
        corr_id: "corr".into(),
    }
}

/// A swarm with the job J, activated, as its spec was edited.
pub(super) fn with_job(edit: impl FnOnce(&mut CreateJob)) -> Swarm {
    let mut swarm = Swarm::new();
    let mut made = create("J");
    edit(&mut made);
    swarm.ok(made);
    swarm.ok(decide(Decision::Activate { rank: None }));
    swarm
}

pub(super) fn plain() -> Swarm {
    with_job(|_| {})
}

/// A swarm with the job J in this state, come to it as jobs do.
pub(super) fn in_state(state: JobState) -> Swarm {
    let mut swarm = Swarm::new();
    swarm.ok(create("J"));
    if state == JobState::Draft {
        return swarm;
    }
    swarm.ok(decide(Decision::Activate { rank: None }));
    match state {
        JobState::Draft | JobState::Pending => {}
        JobState::Running => {
            begin(&mut swarm);
        }
        JobState::ReviewRequired => {
            run(&mut swarm, JobAction::Completed);
        }
        JobState::Reviewing => {
            run(&mut swarm, JobAction::Completed);
            begin(&mut swarm);
        }
        JobState::ApprovalRequired => {
            for _ in 0..4 {
                run(&mut swarm, JobAction::Completed);
            }
        }
        JobState::InterventionRequired => {
            run(&mut swarm, JobAction::Stuck);
        }
        JobState::Suspended => {
            swarm.ok(decide(Decision::Suspend));
        }
        JobState::HaltedCost => costly(&mut swarm, |judged| judged.cost_micros = Some(1 << 40)),
        JobState::HaltedTime => costly(&mut swarm, |judged| judged.millis = 1 << 40),
        JobState::HaltedIteration => {
            swarm.ok(super::ChangeJob {
                limits: crate::job::NewLimits {
                    iterations: Some(1),
                    ..Default::default()
                },
                ..change()
            });
            run(&mut swarm, JobAction::Completed);
        }
        JobState::Success => {
            for _ in 0..4 {
                run(&mut swarm, JobAction::Completed);
            }
            swarm.ok(decide(Decision::Approve));
        }
        JobState::Canceled => {
            swarm.ok(decide(Decision::Cancel));
        }
    }
    assert_eq!(job(&swarm).state, state);
    swarm
}

fn costly(swarm: &mut Swarm, edit: impl FnOnce(&mut Judged)) {
    begin(swarm);
    let mut ends = said(JobAction::Completed);
    edit(&mut ends);
    end(swarm, ends);
}

pub(super) fn steward() -> JobActor {
    JobActor {
        role: JobRole::Steward,
        by: "ann".to_owned(),
        why: None,
    }
}

pub(super) fn decide(decision: Decision) -> DecideJob {
    DecideJob {
        job: "J".into(),
        actor: steward(),
        decision,
    }
}

pub(super) fn change() -> super::ChangeJob {
    super::ChangeJob {
        job: "J".into(),
        actor: steward(),
        word: "configured",
        spec: None,
        limits: Default::default(),
        rank: None,
        state: None,
        phase: None,
    }
}

/// The next run, under a number of its own.
pub(super) fn begins(swarm: &Swarm) -> BeginJobRun {
    BeginJobRun {
        job: "J".into(),
        run: format!("r{}", job(swarm).runs + 1),
        by: "hub-1".to_owned(),
        checkpoint: None,
    }
}

pub(super) fn begin(swarm: &mut Swarm) -> JobRunBegun {
    swarm.ok(begins(swarm))
}

/// The end of the run that is under way.
pub(super) fn ends(swarm: &Swarm, judged: Judged) -> EndJobRun {
    let run = job(swarm).run.map(|run| run.id);
    EndJobRun {
        job: "J".into(),
        run: run.unwrap_or_default(),
        judged,
        exchange: NewExchange::default(),
        checkpoint: None,
        waits: CallWaits::default(),
    }
}

pub(super) fn end(swarm: &mut Swarm, judged: Judged) -> JobRunEnded {
    swarm.ok(ends(swarm, judged))
}

/// One whole run that costs 1,000 micro-dollars and takes a second.
pub(super) fn run(swarm: &mut Swarm, action: JobAction) -> JobRunEnded {
    begin(swarm);
    end(swarm, said(action))
}

pub(super) fn said(action: JobAction) -> Judged {
    answered(Answer::Said(action))
}

pub(super) fn invalid() -> Judged {
    answered(Answer::Invalid {
        violation: Violation::Action,
        why: "action \"DONE\" is none of the three".to_owned(),
    })
}

pub(super) fn answered(answer: Answer) -> Judged {
    Judged {
        evidence_files: vec!["a.rs".to_owned()],
        summary: "what was done".to_owned(),
        cost_micros: Some(1_000),
        millis: 1_000,
        ..Judged::plain(answer)
    }
}

pub(super) fn job(swarm: &Swarm) -> Job {
    row(swarm, "J")
}

pub(super) fn row<T: Listed + Clone>(swarm: &Swarm, key: &str) -> T {
    let found = swarm.records.get(&T::at(key.to_owned()));
    found.and_then(T::of).cloned().expect("the row is there")
}

pub(super) fn has<T: Listed>(swarm: &Swarm, key: &str) -> bool {
    swarm.records.contains_key(&T::at(key.to_owned()))
}

fn all<T: Listed + Private + Clone>(swarm: &Swarm) -> Vec<T> {
    let id = JobId::from("J");
    let rows = swarm.records.values().filter_map(|row: &Record| T::of(row));
    let mut rows: Vec<T> = rows
        .filter(|row| row.owner() == id.as_str())
        .cloned()
        .collect();
    rows.sort_by_key(Private::position);
    rows
}

pub(super) fn interactions(swarm: &Swarm) -> Vec<Interaction> {
    all(swarm)
}

pub(super) fn points(swarm: &Swarm) -> Vec<RecoveryPoint> {
    all(swarm)
}

/// The words of the history beside the interactions.
pub(super) fn entries(swarm: &Swarm) -> Vec<String> {
    let rows: Vec<JobEntry> = all(swarm);
    rows.into_iter().map(|entry| entry.action).collect()
}
