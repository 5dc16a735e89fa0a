//! What an agent is told of its role: a file in the directory of jobs if there is one, else our own words.

use std::path::Path;

use serde_json::{Value, json};
use switchboard_core::job::JobRole;
use switchboard_core::limits;

const WORKER: &str = "You are the worker of a job that goes through phases. Do what the task describes, in the \
    directory that you were started in, and nothing beyond it. Then print exactly one JSON object and nothing else: \
    {\"action\": \"COMPLETED\", \"STUCK\" or \"RETRY\", \"evidence_files\": paths of all files that you made or changed, \
    relative to that directory, \"summary_for_supervisor\": two or three sentences, at most 500 characters}. \
    COMPLETED: the phase is done. RETRY: another attempt is likely to succeed. STUCK: a person has to decide.";
const SUPERVISOR: &str = "You are the supervisor of a job that goes through phases. Look at what the worker did, in \
    the directory that you were started in, and compare it with what the task asks for; change nothing. Then print \
    exactly one JSON object and nothing else: {\"action\": \"COMPLETED\", \"STUCK\" or \"RETRY\", \"evidence_files\": paths \
    of the files that you looked at, relative to that directory, \"summary_for_supervisor\": two or three sentences, at \
    most 500 characters}. COMPLETED: the phase is done. RETRY: the worker tries again, and is told your summary. STUCK: \
    a person has to decide.";
const SYSTEM: &str = "You are part of a job that goes through phases. Do what the task describes, and print exactly \
    one JSON object with action, evidence_files and summary_for_supervisor.";

/// Our own words for a role.
pub fn instructions(role: JobRole) -> &'static str {
    match role {
        JobRole::Worker => WORKER,
        JobRole::Supervisor => SUPERVISOR,
        JobRole::Steward | JobRole::System => SYSTEM,
    }
}

/// A role's file, as `init` writes it and `role inspect` shows it.
pub fn card(role: JobRole) -> Value {
    let description = match role {
        JobRole::Worker => "does the work of a phase",
        JobRole::Supervisor => "judges what the worker did",
        JobRole::Steward => "a person, who is asked and decides",
        JobRole::System => "whatever follows by itself",
    };
    json!({
        "name": role.as_str(),
        "description": description,
        "instructions": instructions(role),
        "llm_model": null,
    })
}

/// The system prompt of a role: its `.md`, else the instructions in its `.json`, else our own.
pub(super) fn system_prompt(jobs: &Path, role: JobRole) -> String {
    let name = role.as_str().to_lowercase();
    let read = |suffix: &str| {
        let text = std::fs::read_to_string(jobs.join(format!("{name}.{suffix}"))).ok()?;
        (!text.trim().is_empty() && text.len() <= limits::JOB_TEXT_BYTES_MAX).then_some(text)
    };
    let told = || {
        let card: Value = serde_json::from_str(&read("json")?).ok()?;
        card["instructions"].as_str().map(str::to_owned)
    };
    read("md")
        .or_else(told)
        .unwrap_or_else(|| instructions(role).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_told_by_its_file_if_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let told = || system_prompt(dir.path(), JobRole::Worker);
        assert_eq!(told(), WORKER);
        std::fs::write(
            dir.path().join("worker.json"),
            "{\"instructions\":\"by json\"}",
        )
        .unwrap();
        assert_eq!(told(), "by json");
        std::fs::write(dir.path().join("worker.md"), "by md").unwrap();
        assert_eq!(told(), "by md");
        std::fs::write(dir.path().join("worker.md"), " \n").unwrap();
        std::fs::write(dir.path().join("worker.json"), "{").unwrap();
        assert_eq!(told(), WORKER);
    }
}
