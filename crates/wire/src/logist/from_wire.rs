//! From messages to verbs: lengths, words and ids are checked here, each with its field.

use switchboard_core::JobId;
use switchboard_core::job::{JobAction, JobGroup, JobLimits, JobRole, JobSpec, JobState};
use switchboard_core::limits;
use switchboard_core::record::Place;
use switchboard_core::verb::job::{ChangeJob, CreateJob, Decision, JobActor};

use super::http::{
    ActivateJobRequest, ChangeJobRequest, CorrectJobRequest, CreateJobRequest, JobHistoryQuery,
    JobQuery, JobVersionQuery, RejectJobRequest, RerunJobRequest, ResubmitJobRequest,
    ResumeJobRequest, SteerJobRequest,
};
use super::schemas::{MANIFEST, PREVIOUS, Published};
use super::spec::{fresh, new_limits};
use super::words;
use crate::Malformed;
use crate::jetpack::from_wire::check::{maybe_text, page_size};
use crate::jetpack::from_wire::lists::bad_place;

/// The groups in which jobs are listed: who works first, then who is next, who waits for a person, who rests, and what
/// has ended, the newest first.
pub const GROUPS: [JobGroup; 8] = [
    JobGroup::Running,
    JobGroup::Ready,
    JobGroup::Waiting,
    JobGroup::Queued,
    JobGroup::Steward,
    JobGroup::Suspended,
    JobGroup::Draft,
    JobGroup::Ended,
];

/// A page of jobs that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobList {
    pub states: Vec<JobState>,
    pub limit: usize,
    /// The group to go on in, and where.
    pub after: Option<(JobGroup, Place)>,
}

pub fn list(query: JobQuery) -> Result<JobList, Malformed> {
    let states = query.status.iter().map(|word| words::state("status", word));
    let place = |text: String| {
        let (group, place) = text.split_once('.')?;
        Some((JobGroup::parse(group)?, place.parse().ok()?))
    };
    Ok(JobList {
        states: states.collect::<Result<_, _>>()?,
        limit: page_size(query.limit)?,
        after: query
            .after
            .map(|text| place(text).ok_or_else(bad_place))
            .transpose()?,
    })
}

impl JobList {
    /// The groups that may have such jobs, each with the place to begin behind.
    pub fn groups(&self) -> impl Iterator<Item = (JobGroup, Option<Place>)> {
        let from = self
            .after
            .as_ref()
            .and_then(|(group, _)| GROUPS.iter().position(|one| one == group));
        let groups = GROUPS.into_iter().skip(from.unwrap_or_default());
        let groups = groups.filter(|group| {
            self.states.is_empty() || self.states.iter().any(|state| is_in(*state, *group))
        });
        groups.map(|group| {
            let after = self.after.as_ref().filter(|(known, _)| *known == group);
            (group, after.map(|(_, place)| place.clone()))
        })
    }

    pub fn takes(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

/// Whether a job in this state may be in a group.
fn is_in(state: JobState, group: JobGroup) -> bool {
    match state {
        JobState::Draft => group == JobGroup::Draft,
        JobState::Pending | JobState::ReviewRequired => {
            matches!(
                group,
                JobGroup::Ready | JobGroup::Waiting | JobGroup::Queued
            )
        }
        JobState::Running | JobState::Reviewing => group == JobGroup::Running,
        JobState::ApprovalRequired
        | JobState::InterventionRequired
        | JobState::HaltedCost
        | JobState::HaltedTime
        | JobState::HaltedIteration => group == JobGroup::Steward,
        JobState::Suspended => group == JobGroup::Suspended,
        JobState::Success | JobState::Canceled => group == JobGroup::Ended,
    }
}

/// Whether a manifest is asked for in the words of version 1.0.
pub fn is_strict(query: &JobVersionQuery) -> Result<bool, Malformed> {
    let version = query.schema_version.as_deref();
    let found = Published::find(MANIFEST, version);
    let found = found.map_err(|wrong| Malformed::field("schema_version", wrong.message))?;
    Ok(found.version == PREVIOUS)
}

/// The sequence behind which a page of a history begins, and how many it has at most.
pub fn history(query: &JobHistoryQuery) -> Result<(u64, usize), Malformed> {
    let after = query.after.unwrap_or_default();
    if after > limits::EVENT_SEQ_MAX {
        return Err(bad_place());
    }
    Ok((after, page_size(query.limit)?))
}

/// What the next agent, or the history, is told.
fn note(field: &str, given: Option<String>) -> Result<Option<String>, Malformed> {
    maybe_text(field, given.as_ref(), limits::NOTE_BYTES_MAX)?;
    Ok(given.filter(|text| !text.trim().is_empty()))
}

/// A decision, and why it is made.
pub type Decided = (Decision, Option<String>);

pub fn activate(request: ActivateJobRequest) -> Result<Decided, Malformed> {
    let rank = request.rank;
    Ok((Decision::Activate { rank }, None))
}

pub fn approve(request: SteerJobRequest) -> Result<Decided, Malformed> {
    Ok((Decision::Approve, note("reason", request.reason)?))
}

pub fn reject(request: RejectJobRequest) -> Result<Decided, Malformed> {
    let guidance = note("guidance", request.guidance)?;
    let why = guidance.clone();
    Ok((Decision::Reject { guidance }, why))
}

pub fn resubmit(request: ResubmitJobRequest) -> Result<Decided, Malformed> {
    let guidance = note("guidance", request.guidance)?;
    let (cost, minutes) = (request.cost_threshold, request.time_threshold_minutes);
    let limits = new_limits(cost, minutes, request.max_iterations)?;
    let why = guidance.clone();
    Ok((Decision::Resubmit { guidance, limits }, why))
}

pub fn correct(request: CorrectJobRequest) -> Result<Decided, Malformed> {
    let wanted = || {
        format!(
            "expected one of {}, not {:?}",
            JobAction::WORDS.join(", "),
            request.action
        )
    };
    let action = JobAction::parse(&request.action);
    let action = action.ok_or_else(|| Malformed::field("action", wanted()))?;
    Ok((
        Decision::Correct { action },
        note("reason", request.reason)?,
    ))
}

pub fn cancel(request: SteerJobRequest) -> Result<Decided, Malformed> {
    Ok((Decision::Cancel, note("reason", request.reason)?))
}

pub fn suspend(request: SteerJobRequest) -> Result<Decided, Malformed> {
    Ok((Decision::Suspend, note("reason", request.reason)?))
}

pub fn resume(request: ResumeJobRequest) -> Result<Decided, Malformed> {
    maybe_text("from", request.from.as_ref(), limits::NAME_BYTES_MAX)?;
    Ok((
        match request.from {
            Some(point) => Decision::GoBack { to: Some(point) },
            None => Decision::Resume,
        },
        None,
    ))
}

pub fn restep(request: SteerJobRequest) -> Result<Decided, Malformed> {
    Ok((
        Decision::GoBack { to: None },
        note("reason", request.reason)?,
    ))
}

pub fn rerun(request: RerunJobRequest) -> Result<Decided, Malformed> {
    let phase = usize::try_from(request.phase.unwrap_or_default()).unwrap_or(usize::MAX);
    Ok((Decision::Rerun { phase }, None))
}

/// A person who decides.
pub fn steward(by: &str, why: Option<String>) -> JobActor {
    JobActor {
        role: JobRole::Steward,
        by: by.to_owned(),
        why,
    }
}

/// A new job.
pub fn create(
    request: CreateJobRequest,
    id: JobId,
    directory: String,
) -> Result<CreateJob, Malformed> {
    let limits = request.job_spec.limits()?;
    Ok(CreateJob {
        corr_id: id.as_str().into(),
        spec: request.job_spec.over(fresh(id))?,
        limits: JobLimits::default().with(limits),
        directory,
    })
}

/// The members that are to change, over the spec as it is.
pub fn change(
    request: ChangeJobRequest,
    known: JobSpec,
    actor: JobActor,
) -> Result<ChangeJob, Malformed> {
    let job = known.id.clone();
    let given = request.job_spec.unwrap_or_default();
    let limits = given.limits()?;
    let spec = given.over(known)?;
    let phase = request.current_phase.map(|name| {
        let place = spec.phases.iter().position(|phase| phase.name == name);
        place.ok_or_else(|| {
            Malformed::field("current_phase", format!("job {job} has no phase {name:?}"))
        })
    });
    let state = request.status.map(|word| words::state("status", &word));
    Ok(ChangeJob {
        phase: phase.transpose()?,
        state: state.transpose()?,
        rank: request.rank,
        word: "configured",
        spec: Some(Box::new(spec)),
        limits,
        actor,
        job,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_in_the_list_of_jobs_and_belongs_to_a_state() {
        for group in JobGroup::ALL {
            assert!(GROUPS.contains(group), "{group}");
            let mut states = JobState::ALL.iter();
            assert!(states.any(|state| is_in(*state, *group)), "{group}");
        }
    }
}
