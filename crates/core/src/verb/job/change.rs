//! A job is changed by its owner: what it is about, its limits, its place, and, as owners may, its state.

use super::turn::{JobActor, Turn, ask_with_spec};
use super::{Verb, rank};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::JobId;
use crate::job::{Job, JobPhase, JobSpec, JobState, NewLimits};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeJob {
    pub job: JobId,
    pub actor: JobActor,
    /// What the history says of it: `configured`, `edited by hand`.
    pub word: &'static str,
    /// As it is to be, all of it.
    pub spec: Option<Box<JobSpec>>,
    pub limits: NewLimits,
    pub rank: Option<i64>,
    pub state: Option<JobState>,
    pub phase: Option<usize>,
}

impl Verb for ChangeJob {
    type Reply = Job;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        ask_with_spec(want, &self.job);
        if let Some(place) = self.rank {
            rank::ask(want, place);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Job, Changes), Refusal> {
        let mut turn = Turn::of(slice, &self.job, now)?;
        let mut fields = Vec::new();
        if let Some(spec) = &self.spec {
            check_phases(&turn, spec)?;
            fields.extend(changed(turn.spec(), spec));
            turn.changes.put(JobSpec::clone(spec));
        }
        let limits = turn.job.limits.with(self.limits);
        if limits != turn.job.limits {
            turn.job.limits = limits;
            fields.push("limits".to_owned());
            turn.warn();
        }
        if let Some(place) = self.rank {
            rank::put(slice, &mut turn, place);
            fields.push("rank".to_owned());
        }
        self.put_phase(&mut turn, &mut fields)?;
        if let Some(state) = self.state.filter(|state| *state != turn.job.state) {
            put_state(&mut turn, state);
            fields.push("status".to_owned());
        }
        if fields.is_empty() {
            return Ok((turn.job, Changes::default()));
        }
        turn.changes.event(Event::JobChanged {
            job: self.job.clone(),
            fields,
            by: self.actor.by.clone(),
        });
        turn.note(self.word, &self.actor);
        Ok(turn.end(&self.actor.by, self.word))
    }
}

impl ChangeJob {
    fn put_phase(&self, turn: &mut Turn<'_>, fields: &mut Vec<String>) -> Result<(), Refusal> {
        let Some(phase) = self.phase.filter(|phase| *phase != turn.job.phase) else {
            return Ok(());
        };
        let spec = self.spec.as_deref().unwrap_or(turn.spec());
        if phase >= spec.phases.len() {
            return Err(Refusal::Invalid {
                field: "current_phase",
                message: format!(
                    "job {} has no phase {phase}; its {} phases are counted from 0",
                    self.job,
                    spec.phases.len()
                ),
            });
        }
        turn.job.phase = phase;
        turn.job.state = turn.job.state.resting();
        turn.interrupt();
        fields.push("current_phase".to_owned());
        Ok(())
    }
}

/// Any state, as its owner says. Nothing runs because somebody says that it does: it waits to be run.
fn put_state(turn: &mut Turn<'_>, state: JobState) {
    let before = turn.job.state.resting();
    turn.interrupt();
    turn.job.state = state.resting();
    turn.job.resume_to = state.halt().is_some().then_some(match before.halt() {
        Some(_) => turn.job.resume_to.unwrap_or(JobState::Pending),
        None => before,
    });
    turn.job.suspended_in = (state == JobState::Suspended).then_some(before);
}

fn check_phases(turn: &Turn<'_>, spec: &JobSpec) -> Result<(), Refusal> {
    spec.check()?;
    let begun = match turn.job.runs {
        0 => 0,
        _ => turn.job.phase + 1,
    };
    let kept: &[JobPhase] = &turn.spec().phases[..begun.min(turn.spec().phases.len())];
    if !spec.phases.starts_with(kept) {
        return Err(Refusal::Invalid {
            field: "phases",
            message: format!(
                "the first {} phases of job {} have begun and stay as they are; change later ones, or make another job",
                kept.len(),
                turn.job.id
            ),
        });
    }
    Ok(())
}

/// The members that differ.
fn changed(was: &JobSpec, is: &JobSpec) -> Vec<String> {
    let differs = [
        ("description", was.description != is.description),
        ("objective", was.objective != is.objective),
        ("phases", was.phases != is.phases),
    ];
    let differs = differs.iter().filter(|(_, differs)| *differs);
    let mut fields: Vec<String> = differs.map(|(field, _)| (*field).to_owned()).collect();
    let rest = |spec: &JobSpec| JobSpec {
        description: String::new(),
        objective: String::new(),
        phases: Vec::new(),
        ..spec.clone()
    };
    if rest(was) != rest(is) {
        fields.push("spec".to_owned());
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::word;
    use super::super::testing::*;
    use super::*;
    use crate::job::{JobAction, RunBy};
    use crate::limits;

    fn spec_with(edit: impl FnOnce(&mut JobSpec)) -> ChangeJob {
        let mut edited = spec("J");
        edit(&mut edited);
        ChangeJob {
            spec: Some(Box::new(edited)),
            ..change()
        }
    }

    #[test]
    fn its_owner_sets_any_state_and_nothing_runs_because_somebody_says_so() {
        for before in JobState::ALL {
            for after in JobState::ALL {
                let mut swarm = in_state(*before);
                let job = swarm.ok(ChangeJob {
                    state: Some(*after),
                    ..change()
                });
                if before != after {
                    assert_eq!(job.state, after.resting(), "{before} {after}");
                    assert_eq!(job.run, None);
                    assert_eq!(job.resume_to.is_some(), after.halt().is_some());
                    assert_eq!(job.suspended_in.is_some(), *after == JobState::Suspended);
                    assert_eq!(job.ended_at.is_some(), after.is_terminal());
                }
            }
        }
    }

    #[test]
    fn phases_that_have_begun_stay_as_they_are() {
        type Edit = fn(&mut JobSpec);
        let edits: [(Edit, &str, &str); 5] = [
            (|spec| spec.phases[1].name = "shine".to_owned(), "ok", "ok"),
            (
                |spec| spec.phases[0].name = "make".to_owned(),
                "ok",
                "invalid",
            ),
            (|spec| spec.phases.truncate(1), "ok", "ok"),
            (|spec| spec.phases.clear(), "invalid", "invalid"),
            (|spec| spec.description = "other".to_owned(), "ok", "ok"),
        ];
        for (edit, fresh, begun) in edits {
            let mut swarm = plain();
            assert_eq!(word(&swarm.run(spec_with(edit))), fresh);
            let mut swarm = in_state(JobState::Running);
            assert_eq!(word(&swarm.run(spec_with(edit))), begun);
        }
    }

    #[test]
    fn a_job_has_as_many_phases_as_it_may() {
        for (phases, expected) in [
            (limits::JOB_PHASES_MAX - 1, "ok"),
            (limits::JOB_PHASES_MAX, "ok"),
            (limits::JOB_PHASES_MAX + 1, "invalid"),
        ] {
            let mut swarm = plain();
            let many = spec_with(|spec| spec.phases = vec![JobPhase::default(); phases]);
            assert_eq!(word(&swarm.run(many)), expected, "{phases}");
        }
    }

    #[test]
    fn a_sensitive_job_does_not_go_into_the_queue() {
        let mut swarm = plain();
        let outcome = swarm.run(spec_with(|spec| {
            spec.is_sensitive = true;
            spec.run_by = RunBy::Queue;
        }));
        assert_eq!(word(&outcome), "invalid");
    }

    #[test]
    fn what_changed_is_told_and_what_did_not_is_not() {
        let mut swarm = plain();
        let before = job(&swarm);
        swarm.ok(spec_with(|_| {}));
        assert_eq!((swarm.said(), job(&swarm)), (vec![], before));
        swarm.ok(spec_with(|spec| {
            spec.description = "other".to_owned();
            spec.max_retries = 9;
        }));
        assert_eq!(swarm.said(), ["job_changed"]);
        let fields = match &swarm.said[0] {
            Event::JobChanged { fields, .. } => fields.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(fields, ["description", "spec"]);
        assert_eq!(entries(&swarm), ["activated", "configured"]);
    }

    #[test]
    fn another_phase_is_the_current_one_and_its_run_is_due() {
        let mut swarm = in_state(JobState::Reviewing);
        let late = ends(&swarm, said(JobAction::Completed));
        let job = swarm.ok(ChangeJob {
            phase: Some(1),
            ..change()
        });
        assert_eq!((job.phase, job.state), (1, JobState::ReviewRequired));
        assert_eq!(word(&swarm.run(late)), "not_this_run");
        let beyond = ChangeJob {
            phase: Some(2),
            ..change()
        };
        assert_eq!(word(&swarm.run(beyond)), "invalid");
    }
}
