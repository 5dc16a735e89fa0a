//! What a job is to be: a spec file, the same members in its manifest, and what is sent to create one.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::JobId;
use switchboard_core::job::{JobLimits, JobPhase, JobRole, JobSpec, NewLimits, RunBy};
use switchboard_core::limits;

use super::metrics::{cents, of_cents};
use crate::jetpack::from_wire::check::{each, filled, maybe_text, text};
use crate::number::plain_opt;
use crate::{Malformed, Other, other, parse};

/// Names under which a spec is looked for in a directory.
pub const FILES: [&str; 3] = ["sample-job.json", "job.json", "job-spec.json"];
/// The phase of a job whose spec names none.
pub const DEFAULT_PHASE: &str = "default";
const MINUTE_MILLIS: f64 = 60_000.0;
const LIMIT_MAX: f64 = limits::JOB_LIMIT_MAX as f64;

/// The members of a spec. What it does not say is left as it is, or gets its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobSpec")]
pub struct Spec {
    /// Letters, digits, `_` and `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// Who takes part: `worker`, and `supervisor` where the work is to be reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<Phase>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_criteria: Option<Vec<String>>,
    /// In cents; 1000 unless it is given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "plain_opt"
    )]
    pub cost_threshold: Option<f64>,
    /// 60 unless it is given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "plain_opt"
    )]
    pub time_threshold_minutes: Option<f64>,
    /// 50 unless it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_strategies: Option<Fallback>,
    /// `agents`, whom the hub runs, or `queue`: each phase is a task that any agent may claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Whether a person approves the work at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<bool>,
    /// Whether its prompts are stored encrypted only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitive: Option<bool>,
    /// Whether a phase that is tried again begins with the files it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_on_retry: Option<bool>,
    /// The git repository whose worktree its workspace is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Members that nobody here looks into: kept, and shown again.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: Other,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobPhase")]
pub struct Phase {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub worker_instructions: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobFallback")]
pub struct Fallback {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: Other,
}

/// A spec, as a file has it: in `job_spec` or by itself.
pub fn read(text: &[u8]) -> Result<Spec, Malformed> {
    let mut file: Value = parse(text)?;
    while let Some(inner) = file.get_mut("job_spec") {
        file = inner.take();
    }
    from_file(file)
}

/// What a file says may have phases that are only named.
pub(super) fn from_file<T: DeserializeOwned>(mut file: Value) -> Result<T, Malformed> {
    if let Some(Value::Array(phases)) = file.get_mut("phases") {
        for phase in phases.iter_mut().filter(|phase| phase.is_string()) {
            *phase = json!({ "name": phase.take() });
        }
    }
    parse(file.to_string().as_bytes())
}

/// The id of a job.
pub fn job_id(field: &str, id: &str) -> Result<JobId, Malformed> {
    let most = limits::JOB_ID_BYTES_MAX;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if id.is_empty() || id.len() > most || !id.bytes().all(fits) {
        let message = format!(
            "expected 1 to {most} letters, digits, '_' or '-', not {:?}",
            limits::cut(id, most)
        );
        return Err(Malformed::field(field, message));
    }
    Ok(id.into())
}

impl Spec {
    /// What it says, over what is known; a new job is begun with [`fresh`].
    pub fn over(self, known: JobSpec) -> Result<JobSpec, Malformed> {
        let long = limits::DESCRIPTION_BYTES_MAX;
        maybe_text("description", self.description.as_ref(), long)?;
        maybe_text("objective", self.objective.as_ref(), long)?;
        maybe_text(
            "repository",
            self.repository.as_ref(),
            limits::PATH_BYTES_MAX,
        )?;
        let criteria = self.success_criteria.as_deref().unwrap_or_default();
        each(
            "success_criteria",
            criteria,
            limits::JOB_CRITERIA_MAX,
            |place, one| text(place, one, limits::NOTE_BYTES_MAX),
        )?;
        let roles = self.roles.as_deref().unwrap_or_default();
        each("roles", roles, JobRole::ALL.len(), role)?;
        other::check("job_spec", &self.other)?;
        let retries = self.fallback_strategies.and_then(|given| given.max_retries);
        let run_by = self.run.as_deref().map(|word| {
            let wanted = || format!("expected {}, not {word:?}", RunBy::WORDS.join(" or "));
            RunBy::parse(word).ok_or_else(|| Malformed::field("run", wanted()))
        });
        let spec = JobSpec {
            id: known.id,
            description: self.description.unwrap_or(known.description),
            objective: self.objective.unwrap_or(known.objective),
            roles: self.roles.unwrap_or(known.roles),
            phases: self.phases.map_or(Ok(known.phases), phases)?,
            success_criteria: self.success_criteria.unwrap_or(known.success_criteria),
            max_retries: retries
                .unwrap_or(known.max_retries)
                .min(limits::RETRIES_MAX),
            reset_on_retry: self.reset_on_retry.unwrap_or(known.reset_on_retry),
            run_by: run_by.transpose()?.unwrap_or(known.run_by),
            needs_approval: self.approval.unwrap_or(known.needs_approval),
            is_sensitive: self.sensitive.unwrap_or(known.is_sensitive),
            repository: self.repository.or(known.repository),
            other: match self.other.is_empty() {
                true => known.other,
                false => Some(Value::from(self.other).to_string()),
            },
        };
        if spec.is_sensitive && spec.run_by == RunBy::Queue {
            let why = "a sensitive job cannot go through the queue, where others read its prompts; run it by \"agents\"";
            return Err(Malformed::field("run", why));
        }
        Ok(spec)
    }

    /// The limits that it names.
    pub fn limits(&self) -> Result<NewLimits, Malformed> {
        new_limits(
            self.cost_threshold,
            self.time_threshold_minutes,
            self.max_iterations,
        )
    }

    /// A spec as its job's manifest has it.
    pub fn of(spec: &JobSpec, limits: &JobLimits) -> Spec {
        let other = spec.other.as_deref().map(serde_json::from_str);
        Spec {
            job_id: None,
            description: Some(spec.description.clone()),
            objective: Some(spec.objective.clone()),
            roles: Some(spec.roles.clone()),
            phases: Some(spec.phases.iter().map(Phase::of).collect()),
            success_criteria: Some(spec.success_criteria.clone()),
            cost_threshold: Some(cents(limits.cost_micros)),
            time_threshold_minutes: Some(limits.millis as f64 / MINUTE_MILLIS),
            max_iterations: Some(limits.iterations),
            fallback_strategies: Some(Fallback {
                max_retries: Some(spec.max_retries),
                other: Other::new(),
            }),
            run: Some(spec.run_by.to_string()),
            approval: Some(spec.needs_approval),
            sensitive: Some(spec.is_sensitive),
            reset_on_retry: Some(spec.reset_on_retry),
            repository: spec.repository.clone(),
            other: other.and_then(Result::ok).unwrap_or_default(),
        }
    }
}

impl Phase {
    pub(super) fn of(phase: &JobPhase) -> Phase {
        Phase {
            name: phase.name.clone(),
            description: phase.description.clone(),
            worker_instructions: phase.worker_instructions.clone(),
        }
    }
}

/// A job of which nothing is said.
pub fn fresh(id: JobId) -> JobSpec {
    JobSpec {
        id,
        description: String::new(),
        objective: String::new(),
        roles: Vec::new(),
        phases: vec![JobPhase {
            name: DEFAULT_PHASE.to_owned(),
            ..JobPhase::default()
        }],
        success_criteria: Vec::new(),
        max_retries: limits::JOB_CALL_RETRIES,
        reset_on_retry: false,
        run_by: RunBy::Agents,
        needs_approval: true,
        is_sensitive: false,
        repository: None,
        other: None,
    }
}

/// Limits in cents, minutes and iterations.
pub fn new_limits(
    cost: Option<f64>,
    minutes: Option<f64>,
    iterations: Option<u32>,
) -> Result<NewLimits, Malformed> {
    let within = |field: &str, given: Option<f64>| match given {
        Some(given) if !(0.0..=LIMIT_MAX).contains(&given) => Err(Malformed::field(
            field,
            format!("must be from 0 to {LIMIT_MAX:e}"),
        )),
        given => Ok(given),
    };
    Ok(NewLimits {
        cost_micros: within("cost_threshold", cost)?.map(of_cents),
        millis: within("time_threshold_minutes", minutes)?
            .map(|minutes| (minutes * MINUTE_MILLIS).round() as u64),
        iterations,
    })
}

fn role(place: &str, given: &String) -> Result<(), Malformed> {
    let known = JobRole::WORDS
        .iter()
        .any(|word| word.eq_ignore_ascii_case(given));
    let wanted = || {
        format!(
            "there is no role {given:?}; expected {}",
            JobRole::WORDS.join(", ")
        )
    };
    known
        .then_some(())
        .ok_or_else(|| Malformed::field(place, wanted()))
}

/// Without any there is one, and no two have the same name.
fn phases(given: Vec<Phase>) -> Result<Vec<JobPhase>, Malformed> {
    let seen = std::cell::RefCell::new(std::collections::HashSet::new());
    let long = limits::DESCRIPTION_BYTES_MAX;
    let phases = each("phases", &given, limits::JOB_PHASES_MAX, |place, phase| {
        filled(
            &format!("{place}.name"),
            &phase.name,
            limits::NAME_BYTES_MAX,
        )?;
        text(&format!("{place}.description"), &phase.description, long)?;
        text(
            &format!("{place}.worker_instructions"),
            &phase.worker_instructions,
            long,
        )?;
        if !seen.borrow_mut().insert(phase.name.clone()) {
            let why = format!(
                "there are two phases {:?}; give each a name of its own",
                phase.name
            );
            return Err(Malformed::field(format!("{place}.name"), why));
        }
        Ok(JobPhase {
            name: phase.name.clone(),
            description: phase.description.clone(),
            worker_instructions: phase.worker_instructions.clone(),
        })
    })?;
    Ok(match phases.is_empty() {
        true => fresh(JobId::from("")).phases,
        false => phases,
    })
}
