//! A phase in the queue: what the result of its task says as an agent's answer.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use switchboard_core::job::JobAction;
use switchboard_core::job_history::{Answer, Judged};
use switchboard_core::limits;

use super::response::{Terms, judge, sanitized};
use crate::redact;

/// What of a result is looked at, by whichever way it came; all of it may be missing.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Brought {
    files_created: Vec<String>,
    files_modified: Vec<String>,
    summary: String,
    /// The response, as an object or as the text that an agent printed.
    response: Option<Value>,
}

/// The answer, and the response without secrets. Whoever has brought none has completed the phase.
pub fn answer(result: &str) -> (Judged, String) {
    let brought: Brought = serde_json::from_str(result).unwrap_or_default();
    let raw = match brought.response {
        None => return (completed(brought), String::new()),
        Some(Value::String(text)) => sanitized(&text),
        Some(response) => sanitized(&response.to_string()),
    };
    // Its files are where the agent works, not here.
    let found = judge(&raw, &Terms::default());
    let answer = match found.faults.first() {
        Some(fault) => Answer::Invalid {
            violation: fault.violation,
            why: found.error().unwrap_or_default(),
        },
        None => Answer::Said(found.action),
    };
    let judged = Judged {
        evidence_files: found.evidence_files,
        summary: found.summary,
        warnings: found.warnings,
        cost_micros: found.reported.cost_micros,
        tokens: found.reported.tokens.unwrap_or_default(),
        model: found.reported.model,
        ..Judged::plain(answer)
    };
    (judged, raw)
}

fn completed(brought: Brought) -> Judged {
    let files = brought.files_created.into_iter();
    let files: BTreeSet<String> = files.chain(brought.files_modified).collect();
    let summary = redact::text(&brought.summary);
    let summary = summary.chars().take(limits::JOB_SUMMARY_CHARS_MAX);
    Judged {
        evidence_files: files.into_iter().collect(),
        summary: summary.collect(),
        ..Judged::plain(Answer::Said(JobAction::Completed))
    }
}

#[cfg(test)]
mod tests {
    use switchboard_core::job_history::Violation;

    use super::*;

    fn said(result: &str) -> Result<JobAction, Violation> {
        match answer(result).0.answer {
            Answer::Said(action) => Ok(action),
            Answer::Invalid { violation, .. } => Err(violation),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_response_counts_as_its_agent_gave_it() {
        let response = |inner: &str| format!(r#"{{"summary":"s","response":{inner}}}"#);
        let stuck =
            r#"{"action":"STUCK","evidence_files":["a"],"summary_for_supervisor":"No key."}"#;
        assert_eq!(said(&response(stuck)), Ok(JobAction::Stuck));
        let text = serde_json::to_string(stuck).unwrap();
        assert_eq!(said(&response(&text)), Ok(JobAction::Stuck));
        let (judged, raw) = answer(&response(stuck));
        assert_eq!(
            (judged.evidence_files, judged.summary),
            (vec!["a".to_owned()], "No key.".to_owned())
        );
        assert!(raw.contains("STUCK"));
        for (inner, violation) in [
            (
                r#"{"action":"DONE","evidence_files":[],"summary_for_supervisor":"s"}"#,
                Violation::Action,
            ),
            (r#""prose""#, Violation::Malformed),
            ("7", Violation::Malformed),
            ("{}", Violation::Schema),
        ] {
            assert!(said(&response(inner)).is_err(), "{inner}: {violation}");
        }
    }

    #[test]
    fn without_a_response_a_completed_task_is_a_completed_phase() {
        let long = "x".repeat(limits::JOB_SUMMARY_CHARS_MAX + 1);
        let result =
            format!(r#"{{"filesCreated":["b","a"],"filesModified":["a"],"summary":"{long}"}}"#);
        let (judged, raw) = answer(&result);
        assert_eq!(judged.evidence_files, ["a", "b"]);
        assert_eq!(judged.summary.len(), limits::JOB_SUMMARY_CHARS_MAX);
        assert_eq!((judged.cost_micros, raw.as_str()), (None, ""));
        for result in ["", "done", "[]", "{}", "null"] {
            assert_eq!(said(result), Ok(JobAction::Completed), "{result}");
        }
    }
}
