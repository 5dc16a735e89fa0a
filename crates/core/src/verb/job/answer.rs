//! What follows from an agent's answer: the escalation matrix, the sums, the limits, the recovery point.

use super::turn::{Deed, Turn};
use crate::audit::AuditEntry;
use crate::event::Event;
use crate::job::step::{Act, Setting};
use crate::job::{Job, JobAction, JobRole, JobRun};
use crate::job_history::{
    Answer, CallError, CallWaits, Checkpoint, Exchange, Interaction, Judged, NewExchange,
    RecoveryPoint, RunStatus, Violation,
};
use crate::limits;
use crate::refusal::Refusal;

pub(super) struct Answered<'a> {
    pub judged: &'a Judged,
    pub exchange: &'a NewExchange,
    pub checkpoint: Option<&'a Checkpoint>,
    pub waits: CallWaits,
}

/// What an answer counts as.
struct Verdict {
    status: RunStatus,
    action: JobAction,
    act: Act,
    violation: Option<Violation>,
    call_error: Option<CallError>,
    error: Option<String>,
}

impl Verdict {
    fn of(answer: &Answer, job: &Job) -> Verdict {
        let stuck = |status, why: &String| Verdict {
            status,
            action: JobAction::Stuck,
            act: Act::Stuck,
            violation: None,
            call_error: None,
            error: Some(why.clone()),
        };
        match answer {
            Answer::Said(action) => Verdict {
                status: RunStatus::Success,
                action: *action,
                act: (*action).into(),
                violation: None,
                call_error: None,
                error: None,
            },
            Answer::Invalid { violation, why } => Verdict {
                violation: Some(*violation),
                ..stuck(RunStatus::Error, why)
            },
            Answer::TimedOut { why } => stuck(RunStatus::Timeout, why),
            Answer::Broken { why } => stuck(RunStatus::Error, why),
            Answer::GaveUp { why } => Verdict {
                action: JobAction::Retry,
                act: Act::CallAgain,
                ..stuck(RunStatus::Error, why)
            },
            Answer::CallFailed { error, why } => {
                let passes = matches!(error, CallError::Network | CallError::Quota);
                let again = passes && job.call_tries < limits::JOB_CALL_RETRIES;
                let stuck = stuck(RunStatus::Error, why);
                Verdict {
                    call_error: Some(*error),
                    action: if again {
                        JobAction::Retry
                    } else {
                        stuck.action
                    },
                    act: if again { Act::CallAgain } else { stuck.act },
                    ..stuck
                }
            }
        }
    }
}

impl Answered<'_> {
    /// Takes the answer of a run into the job, and its interaction into the history.
    pub fn take(&self, turn: &mut Turn<'_>, run: &JobRun) -> Result<Interaction, Refusal> {
        let verdict = Verdict::of(&self.judged.answer, &turn.job);
        let (phase, setting) = (turn.job.phase, Setting::of(turn.spec(), turn.job.phase));
        let phase_name = turn.spec().phases.get(phase);
        let phase_name = phase_name.map_or(String::new(), |phase| phase.name.clone());
        self.count(&mut turn.job, &verdict);
        turn.job.last_sequence += 1;
        let guidance = turn.job.guidance.clone();
        let (new_status, halted) = turn.land(&Deed {
            role: run.role,
            act: verdict.act,
            summary: &self.judged.summary,
            evidence: self.judged.evidence_files.len(),
            checkpoint: self.checkpoint,
        })?;
        turn.job.run = None;
        self.prepare(turn, run, &verdict, phase);
        turn.warn();
        let interaction = Interaction {
            job: turn.job.id.clone(),
            sequence: turn.job.last_sequence,
            by: run.by.clone(),
            at: turn.now,
            role: run.role,
            phase,
            phase_name,
            setting,
            state_before: run.from,
            new_status,
            halted,
            status: verdict.status,
            action: verdict.action,
            evidence_files: first(&self.judged.evidence_files, limits::JOB_EVIDENCE_MAX),
            summary: self.judged.summary.clone(),
            warnings: first(&self.judged.warnings, limits::JOB_WARNINGS_MAX),
            violation: verdict.violation,
            call_error: verdict.call_error,
            error: verdict.error,
            cost_micros: self.judged.cost_micros.unwrap_or(0),
            cost_reported: self.judged.cost_micros.is_some(),
            millis: self.judged.millis,
            tokens: self.judged.tokens,
            model: self.judged.model.clone(),
            guidance,
            run: run.id.clone(),
            prompt: self.exchange.prompt_length.clone(),
            raw: self.exchange.raw_length.clone(),
        };
        self.record(turn, &interaction);
        Ok(interaction)
    }

    fn count(&self, job: &mut Job, verdict: &Verdict) {
        let sums = &mut job.sums;
        let cost = self.judged.cost_micros;
        sums.cost_micros = sums.cost_micros.saturating_add(cost.unwrap_or(0));
        sums.millis = sums.millis.saturating_add(self.judged.millis);
        sums.tokens = sums.tokens.and(self.judged.tokens);
        sums.unreported += u32::from(cost.is_none());
        // An error of the call is no turn of the agent.
        sums.iterations += u32::from(verdict.call_error.is_none());
    }

    /// What the next run finds.
    fn prepare(&self, turn: &mut Turn<'_>, run: &JobRun, verdict: &Verdict, phase: usize) {
        if verdict.act == Act::CallAgain {
            let first = match verdict.call_error {
                None => return,
                Some(CallError::Quota) => self.waits.quota,
                Some(CallError::Network | CallError::Credential) => self.waits.network,
            };
            turn.job.look_at = Some(turn.now + first * 2_u32.pow(turn.job.call_tries));
            turn.job.call_tries += 1;
            return;
        }
        turn.begin_anew();
        follow_up(turn, run.role, verdict.act, &self.judged.summary, phase);
    }

    fn record(&self, turn: &mut Turn<'_>, interaction: &Interaction) {
        let job = turn.job.id.clone();
        if let Some(violation) = interaction.violation {
            let id = format!("job:{job}:{}", interaction.sequence);
            let entry = AuditEntry {
                actor: Some(interaction.role.agent(&job)),
                corr_id: Some(turn.job.corr_id.clone()),
                ..AuditEntry::of(id, "job.response", turn.now)
            };
            turn.changes.put(entry.refused(violation.as_str()));
        }
        turn.changes.put(Exchange {
            job: job.clone(),
            sequence: interaction.sequence,
            prompt: self.exchange.prompt.clone(),
            raw: self.exchange.raw.clone(),
            request: self.exchange.request.clone(),
            workspace: self.exchange.workspace.clone(),
        });
        turn.changes.event(Event::JobRunEnded {
            job,
            run: interaction.run.clone(),
            sequence: interaction.sequence,
            role: interaction.role,
            status: interaction.status,
            action: interaction.action,
            cost_micros: interaction.cost_micros,
            millis: interaction.millis,
        });
        turn.changes.put(interaction.clone());
    }
}

/// The guidance and the files with which a phase is tried again.
pub(super) fn follow_up(turn: &mut Turn<'_>, role: JobRole, act: Act, summary: &str, phase: usize) {
    let is_again = act == Act::Retry;
    let guides = is_again && role == JobRole::Supervisor;
    turn.job.guidance = guides.then(|| summary.to_owned());
    if is_again && turn.spec().reset_on_retry {
        turn.job.restore = Some(RecoveryPoint::id_before(phase));
    }
}

fn first(texts: &[String], most: usize) -> Vec<String> {
    texts.iter().take(most).cloned().collect()
}
