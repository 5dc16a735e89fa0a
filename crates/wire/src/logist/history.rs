//! `jobHistory.json`: every exchange with an agent, and the points to which a job can go back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_core::job::{JobSpec, Tokens};
use switchboard_core::job_history::{Exchange, Interaction, Length, RecoveryPoint};

use super::manifest::seconds;
use super::metrics::dollars;
use super::schemas::{self, VERSION};
use crate::number::plain;
use crate::{IsoTime, Malformed, Other, parse};

/// The file. Members that are missing are those of an older program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
    pub job_id: String,
    #[serde(default)]
    pub created_at: Option<IsoTime>,
    #[serde(default)]
    pub interactions: Vec<Exchanged>,
    #[serde(default)]
    pub recovery_points: Vec<Point>,
}

/// One interaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobInteraction")]
pub struct Exchanged {
    #[serde(default)]
    pub sequence: u64,
    pub timestamp: IsoTime,
    #[serde(default)]
    pub state_before: String,
    #[serde(default)]
    pub workspace_path: String,
    #[serde(default)]
    pub request: Asked,
    pub response: Answered,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobAsked")]
pub struct Asked {
    /// What the agent received, byte for byte; of a sensitive job it is encrypted.
    #[serde(default)]
    pub prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_length: Option<TextLength>,
    #[serde(flatten)]
    pub given: Given,
}

/// What is known of a request beside its prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Given {
    #[serde(default)]
    pub files_context: Vec<String>,
    #[serde(default)]
    pub metadata: AskedBy,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobAskedBy")]
pub struct AskedBy {
    #[serde(default)]
    pub role: String,
    #[serde(default)]
    pub phase: String,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub temperature: Option<f64>,
    #[serde(default)]
    pub max_tokens: Option<u64>,
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: Other,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobAnswered")]
pub struct Answered {
    pub status: String,
    pub action: String,
    #[serde(default)]
    pub evidence_files: Vec<String>,
    #[serde(default)]
    pub summary_for_supervisor: String,
    /// What the agent printed, without secrets; also where it is not valid.
    #[serde(default)]
    pub raw_response: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_length: Option<TextLength>,
    #[serde(default, serialize_with = "plain")]
    pub execution_time_seconds: f64,
    #[serde(default, serialize_with = "plain")]
    pub cost_usd: f64,
    #[serde(default)]
    pub cost_reported: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenCounts>,
    /// Where the action led.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_status: Option<String>,
    /// The limit that kept the job from going there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobTokens")]
pub struct TokenCounts {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
}

/// Of a text that is not kept whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextLength {
    pub bytes: u64,
    pub sha256: String,
    pub truncated: bool,
}

/// A recovery point, with the names of both of the document's shapes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobCheckpoint")]
pub struct Point {
    #[serde(default)]
    pub checkpoint_id: String,
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub sequence: u64,
    #[serde(default)]
    pub can_resume_from: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_phase: Option<String>,
    #[serde(default)]
    pub rollback_files: Vec<String>,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub metadata: Other,
}

/// An interaction with its texts, as the hub unpacked them.
pub fn exchanged(row: &Interaction, exchange: &Exchange, prompt: String, raw: String) -> Exchanged {
    let given = serde_json::from_str::<Given>(&exchange.request).unwrap_or_default();
    let word = |word: &dyn ToString| word.to_string();
    let has_tokens = row.tokens != Tokens::default();
    Exchanged {
        sequence: row.sequence,
        timestamp: row.at.into(),
        state_before: row.state_before.to_string(),
        workspace_path: exchange.workspace.clone(),
        request: Asked {
            prompt,
            prompt_length: cut(&row.prompt),
            given,
        },
        response: Answered {
            status: row.status.to_string(),
            action: row.action.to_string(),
            evidence_files: row.evidence_files.clone(),
            summary_for_supervisor: row.summary.clone(),
            raw_response: raw,
            raw_length: cut(&row.raw),
            execution_time_seconds: seconds(row.millis),
            cost_usd: dollars(row.cost_micros),
            cost_reported: row.cost_reported,
            tokens: has_tokens.then_some(TokenCounts {
                input: row.tokens.input,
                output: row.tokens.output,
                cache_read: row.tokens.cache_read,
            }),
            new_status: Some(row.new_status.to_string()),
            halted: row.halted.as_ref().map(|halt| word(&halt.state())),
            violation: row.violation.as_ref().map(|why| word(why)),
            call_error: row.call_error.as_ref().map(|why| word(why)),
            error: row.error.clone(),
            warnings: row.warnings.clone(),
        },
    }
}

/// A recovery point of a job.
pub fn point(row: &RecoveryPoint, spec: &JobSpec) -> Point {
    let metadata = row.metadata.as_deref().map(serde_json::from_str);
    let phase = spec.phases.get(row.resume_phase);
    Point {
        checkpoint_id: row.id.clone(),
        id: row.id.clone(),
        sequence: row.sequence,
        can_resume_from: row.can_resume_from,
        resume_phase: phase.map(|phase| phase.name.clone()),
        rollback_files: row.rollback_files.clone(),
        description: row.description.clone(),
        metadata: metadata.and_then(Result::ok).unwrap_or_default(),
    }
}

fn cut(length: &Length) -> Option<TextLength> {
    length.truncated.then(|| TextLength {
        bytes: length.bytes,
        sha256: length.sha256.clone(),
        truncated: true,
    })
}

/// A history as somebody wrote it: the document's object, or the old program's bare list. Its interactions are numbered
/// from 1 in the order in which they are there; of a point's two names one is enough.
pub fn read(text: &[u8], job_id: &str) -> Result<History, Malformed> {
    let file: Value = parse_any(text)?;
    let file = match file {
        Value::Array(interactions) => json!({ "job_id": job_id, "interactions": interactions }),
        other => other,
    };
    schemas::version_of(&file)?;
    let mut history: History = parse(file.to_string().as_bytes())?;
    // The old program counted from 0, or not at all.
    let first = history
        .interactions
        .first()
        .map_or(1, |first| first.sequence);
    for (at, interaction) in (1..).zip(&mut history.interactions) {
        interaction.sequence = at;
    }
    for point in &mut history.recovery_points {
        point.sequence += u64::from(first == 0);
        match (point.id.is_empty(), point.checkpoint_id.is_empty()) {
            (true, _) => point.id.clone_from(&point.checkpoint_id),
            (false, true) => point.checkpoint_id.clone_from(&point.id),
            (false, false) => {}
        }
    }
    history.schema_version = Some(VERSION.to_owned());
    Ok(history)
}

pub(super) fn parse_any(text: &[u8]) -> Result<Value, Malformed> {
    // A list is read as a member: a message is an object.
    let is_list = text.trim_ascii_start().starts_with(b"[");
    let whole = [&br#"{"list":"#[..], text, b"}"].concat();
    let mut read: Value = parse(if is_list { &whole } else { text })?;
    Ok(if is_list { read["list"].take() } else { read })
}
