//! Jobs of another program, taken over from its directory: manifests, histories, the index and its queue.
//!
//! What makes no sense is told and left as it is. Of a directory that is taken over, manifest and history are kept in
//! `backups/` as they were, because from then on they follow the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use switchboard_core::JobId;
use switchboard_core::job::step::{Act, Setting};
use switchboard_core::job::{
    Job, JobAction, JobLimits, JobRole, JobSpec, JobState, JobSums, Tokens,
};
use switchboard_core::job_history::{Exchange, Interaction, JobEntry, RecoveryPoint, RunStatus};
use switchboard_core::limits;
use switchboard_core::time::Timestamp;
use switchboard_core::verb::job::{AdoptHistory, AdoptJob, ChangeJob, JobActor, SelectJob};
use switchboard_wire::logist::files::Index;
use switchboard_wire::logist::history::{self, Exchanged, Given};
use switchboard_wire::logist::manifest::{self, Manifest};
use switchboard_wire::logist::{spec, words};

use super::Jobs;
use super::agent::Kept;
use super::directory::{HISTORY, MANIFEST};
use super::files::INDEX;
use super::pack::Packer;
use crate::hub::Error;
use crate::projection::folder;

/// Interactions that are taken over in one commit.
const AT_ONCE: usize = 16;
const BACKUPS: &str = "backups";

/// What became of one directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Imported {
    pub job_id: String,
    pub directory: String,
    pub interactions: usize,
    /// Why it was left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// A job as its files have it.
struct Found {
    job: Job,
    spec: JobSpec,
    interactions: Vec<(Interaction, Exchange)>,
    points: Vec<RecoveryPoint>,
    entries: Vec<JobEntry>,
}

impl Jobs {
    /// Takes over what is in a directory of jobs, or one job's directory.
    pub async fn import(&self, dir: &Path) -> Result<Result<Vec<Imported>, String>, Error> {
        let dir = match dir.canonicalize() {
            Ok(dir) => dir,
            Err(error) => return Ok(Err(format!("{}: {error}", dir.display()))),
        };
        let index = read(&dir.join(INDEX))
            .ok()
            .flatten()
            .and_then(|text| Index::read(&text).ok());
        let index = index.unwrap_or_default();
        let mut told = Vec::new();
        for directory in candidates(&dir, &index) {
            told.push(self.import_one(&directory).await?);
        }
        if told.is_empty() {
            return Ok(Err(format!(
                "{} has no job: no directory in it has a {MANIFEST}",
                dir.display()
            )));
        }
        for id in index.queue.iter().take(limits::JOB_RANK_MAX).rev() {
            let change = ChangeJob {
                job: id.as_str().into(),
                actor: by_import(),
                word: "imported",
                spec: None,
                limits: Default::default(),
                rank: Some(0),
                state: None,
                phase: None,
            };
            self.unless_refused(change).await?;
        }
        let job = index.current_job_id.map(|id| JobId::from(id.as_str()));
        if job.is_some() {
            self.unless_refused(SelectJob { job }).await?;
        }
        Ok(Ok(told))
    }

    async fn unless_refused<V>(&self, verb: V) -> Result<(), Error>
    where
        V: switchboard_core::Verb + Send + 'static,
        V::Reply: Send,
    {
        match self.hub.run(verb).await {
            Ok(_) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn import_one(&self, directory: &Path) -> Result<Imported, Error> {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let mut told = Imported {
            job_id: name.into_owned(),
            directory: directory.display().to_string(),
            interactions: 0,
            left: None,
        };
        let found = match found(directory).and_then(|found| keep_aside(directory).map(|()| found)) {
            Ok(found) => found,
            Err(why) => {
                told.left = Some(why);
                return Ok(told);
            }
        };
        told.job_id = found.job.id.to_string();
        let job = found.job.id.clone();
        let adopt = AdoptJob {
            job: found.job,
            spec: found.spec,
        };
        match self.hub.run(adopt).await {
            Ok(_) => {}
            Err(Error::Refused(refusal)) => {
                told.left = Some(refusal.to_string());
                return Ok(told);
            }
            Err(error) => return Err(error),
        }
        told.interactions = found.interactions.len();
        let mut interactions = found.interactions.into_iter();
        let (mut points, mut entries) = (found.points, found.entries);
        loop {
            let history = AdoptHistory {
                job: job.clone(),
                interactions: interactions.by_ref().take(AT_ONCE).collect(),
                points: std::mem::take(&mut points),
                entries: std::mem::take(&mut entries),
            };
            let is_empty = history.interactions.is_empty();
            if is_empty && history.points.is_empty() && history.entries.is_empty() {
                return Ok(told);
            }
            self.hub.run(history).await?;
        }
    }
}

fn by_import() -> JobActor {
    JobActor {
        role: JobRole::System,
        by: "import".to_owned(),
        why: None,
    }
}

/// Directories that the index names, and those beside it that have a manifest.
fn candidates(dir: &Path, index: &Index) -> BTreeSet<PathBuf> {
    let mut found: BTreeSet<PathBuf> = index.jobs.values().map(|path| dir.join(path)).collect();
    let beside = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    found.extend(
        beside
            .chain([dir.to_owned()])
            .filter(|path| path.join(MANIFEST).is_file()),
    );
    // One directory has one name.
    let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
    found
        .into_iter()
        .map(real)
        .take(limits::JOBS_MAX as usize)
        .collect()
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let text = folder::read(rustix::fs::CWD, path);
    text.map_err(|error| format!("{}: {error}", path.display()))
}

fn keep_aside(directory: &Path) -> Result<(), String> {
    let kept = || -> std::io::Result<()> {
        let backups = directory.join(BACKUPS);
        folder::make(&backups, 0o777)?;
        for name in [MANIFEST, HISTORY] {
            let (from, to) = (
                directory.join(name),
                backups.join(format!("{name}.imported")),
            );
            if from.is_file() && !to.exists() {
                fs::copy(from, to)?;
            }
        }
        Ok(())
    };
    kept().map_err(|error| format!("{} cannot be written: {error}", directory.display()))
}

fn found(directory: &Path) -> Result<Found, String> {
    let text = read(&directory.join(MANIFEST))?.ok_or_else(|| format!("there is no {MANIFEST}"))?;
    let manifest = manifest::read(&text).map_err(|error| format!("{MANIFEST}: {error}"))?;
    let id = spec::job_id("job_id", &manifest.job_id).map_err(|error| error.to_string())?;
    let fresh = spec::fresh(id.clone());
    let spec = manifest
        .spec
        .clone()
        .over(fresh)
        .map_err(|error| format!("{MANIFEST}: {error}"))?;
    let history = match read(&directory.join(HISTORY))? {
        Some(text) => {
            Some(history::read(&text, id.as_str()).map_err(|error| format!("{HISTORY}: {error}"))?)
        }
        None => None,
    };
    let exchanged = history
        .as_ref()
        .map(|history| history.interactions.as_slice())
        .unwrap_or_default();
    if exchanged.len() > limits::JOB_INTERACTIONS_MAX {
        return Err(format!(
            "{HISTORY} has more than {} interactions",
            limits::JOB_INTERACTIONS_MAX
        ));
    }
    let rows = exchanged
        .iter()
        .zip(1..)
        .map(|(one, sequence)| interaction(&id, &spec, one, sequence));
    let interactions = rows.collect::<Result<Vec<_>, _>>()?;
    let points = history
        .as_ref()
        .map(|history| history.recovery_points.as_slice())
        .unwrap_or_default();
    let points = points
        .iter()
        .filter(|point| !point.id.is_empty())
        .take(limits::JOB_PHASES_MAX);
    let points = points
        .map(|point| recovery_point(&id, &spec, point))
        .collect();
    let entries = entries(&id, &manifest, interactions.is_empty());
    Ok(Found {
        job: job(&id, &spec, &manifest, directory, &interactions)?,
        spec,
        interactions,
        points,
        entries,
    })
}

fn job(
    id: &JobId,
    spec: &JobSpec,
    manifest: &Manifest,
    directory: &Path,
    interactions: &[(Interaction, Exchange)],
) -> Result<Job, String> {
    let state = words::state("status", &manifest.status).map_err(|error| error.to_string())?;
    let metrics = &manifest.metrics;
    let phase = manifest.current_phase.as_ref();
    let phase = phase.and_then(|name| spec.phases.iter().position(|phase| phase.name == *name));
    let at = |time: Option<switchboard_wire::IsoTime>| time.map_or(Timestamp(0), Into::into);
    let limits = manifest.spec.limits().map_err(|error| error.to_string())?;
    let runs = u32::try_from(interactions.len()).unwrap_or(u32::MAX);
    Ok(Job {
        id: id.clone(),
        state,
        phase: phase.unwrap_or_default(),
        resume_to: state.halt().map(|_| JobState::Pending),
        suspended_in: (state == JobState::Suspended).then_some(JobState::Pending),
        limits: JobLimits::default().with(limits),
        sums: JobSums {
            cost_micros: whole(metrics.cumulative_cost * 1e4),
            millis: whole(metrics.cumulative_time_seconds * 1e3),
            iterations: metrics.iterations.max(runs),
            tokens: Tokens {
                input: metrics.token_input,
                output: metrics.token_output,
                cache_read: metrics.token_cache_read,
            },
            unreported: metrics.cost_unreported,
        },
        warned: Vec::new(),
        last_sequence: 0,
        last_entry: 0,
        runs: 0,
        rank: 0,
        directory: directory.display().to_string(),
        guidance: manifest.guidance.clone(),
        run: None,
        worker: None,
        task: None,
        call_tries: 0,
        look_at: None,
        restore: None,
        corr_id: manifest.corr_id.as_deref().unwrap_or(id.as_str()).into(),
        version: 1,
        created_at: at(manifest.created_at),
        updated_at: at(manifest.updated_at),
        ended_at: manifest.ended_at.map(Into::into),
    })
}

/// A number that is none, or below 0, is 0.
fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn interaction(
    id: &JobId,
    spec: &JobSpec,
    one: &Exchanged,
    sequence: u64,
) -> Result<(Interaction, Exchange), String> {
    let wrong = |what: String| format!("{HISTORY}: interaction {sequence}: {what}");
    let state = |field: &str, word: &str| {
        words::state(field, word).map_err(|error| wrong(error.to_string()))
    };
    let (asked, answered) = (&one.request.given.metadata, &one.response);
    let role = role(&asked.role);
    let phase = spec
        .phases
        .iter()
        .position(|phase| phase.name == asked.phase)
        .unwrap_or_default();
    let setting = Setting::of(spec, phase);
    let state_before = match one.state_before.as_str() {
        "" => JobState::Pending,
        word => state("state_before", word)?.resting(),
    };
    let action = JobAction::parse(&answered.action).unwrap_or(JobAction::Stuck);
    let landed = || {
        setting
            .replayed(state_before, role, Act::from(action))
            .map(|landed| landed.state)
    };
    let new_status = match &answered.new_status {
        Some(word) => state("new_status", word)?,
        None => landed().unwrap_or(JobState::InterventionRequired),
    };
    let tokens = answered.tokens.unwrap_or(history::TokenCounts {
        input: 0,
        output: 0,
        cache_read: 0,
    });
    let row = Interaction {
        job: id.clone(),
        sequence,
        by: role.agent(id).to_string(),
        at: one.timestamp.into(),
        role,
        phase,
        phase_name: asked.phase.clone(),
        setting,
        state_before,
        new_status,
        halted: None,
        // What it was not judged by, it is not held against.
        status: RunStatus::parse(&answered.status).unwrap_or(RunStatus::Error),
        action,
        evidence_files: answered.evidence_files.clone(),
        summary: answered.summary_for_supervisor.clone(),
        warnings: answered.warnings.clone(),
        violation: None,
        call_error: None,
        error: answered.error.clone(),
        cost_micros: whole(answered.cost_usd * 1e6),
        cost_reported: answered.cost_reported || answered.cost_usd > 0.0,
        millis: whole(answered.execution_time_seconds * 1e3),
        tokens: Tokens {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
        },
        model: asked.model.clone(),
        guidance: None,
        run: format!("imported-{sequence}"),
        prompt: Kept::of(&one.request.prompt).1,
        raw: Kept::of(&answered.raw_response).1,
    };
    Ok((row, exchange(id, one, sequence)))
}

fn exchange(id: &JobId, one: &Exchanged, sequence: u64) -> Exchange {
    let packed = |text: &str| Packer::pack(&Kept::of(text).0);
    let given = serde_json::to_string::<Given>(&one.request.given);
    Exchange {
        job: id.clone(),
        sequence,
        prompt: packed(&one.request.prompt),
        raw: packed(&one.response.raw_response),
        request: given.expect("it was read from JSON"),
        workspace: one.workspace_path.clone(),
    }
}

fn role(word: &str) -> JobRole {
    let known = JobRole::ALL
        .iter()
        .find(|role| role.as_str().eq_ignore_ascii_case(word));
    known.copied().unwrap_or(JobRole::Worker)
}

fn recovery_point(id: &JobId, spec: &JobSpec, point: &history::Point) -> RecoveryPoint {
    let phase = point.resume_phase.as_ref();
    let phase = phase.and_then(|name| spec.phases.iter().position(|phase| phase.name == *name));
    RecoveryPoint {
        job: id.clone(),
        id: point.id.clone(),
        sequence: point.sequence,
        // Its files are nobody's to restore.
        can_resume_from: false,
        resume_phase: phase.unwrap_or_default(),
        resume_state: JobState::Pending,
        commit: None,
        rollback_files: point.rollback_files.clone(),
        description: point.description.clone(),
        metadata: serde_json::to_string(&point.metadata)
            .ok()
            .filter(|text| text != "{}"),
        at: Timestamp(0),
    }
}

/// What people did; where there is no history, all that the manifest tells.
fn entries(id: &JobId, manifest: &Manifest, is_all: bool) -> Vec<JobEntry> {
    let events = manifest.history.iter();
    let told = events
        .filter(|event| is_all || matches!(role(&event.role), JobRole::Steward | JobRole::System));
    let state = words::state("status", &manifest.status).unwrap_or(JobState::InterventionRequired);
    let seen: BTreeMap<&str, JobState> = JobState::ALL
        .iter()
        .map(|state| (state.as_str(), *state))
        .collect();
    let told = told.take(limits::JOB_INTERACTIONS_MAX).zip(1..);
    told.map(|(event, number)| {
        let new_status = event.new_status.as_deref().and_then(|word| seen.get(word));
        JobEntry {
            job: id.clone(),
            number,
            after: 0,
            at: event.timestamp.into(),
            role: role(&event.role),
            action: event.action.clone(),
            state_before: state,
            new_status: new_status.copied().unwrap_or(state),
            by: event.by.clone().unwrap_or_else(|| event.role.clone()),
            why: event.why.clone().or_else(|| event.summary.clone()),
        }
    })
    .collect()
}
