//! Refusals: sentences of triggers and of the hub as the protocol's codes, and what SQL cannot tell of an outcome.

use serde_json::{Value, json};

use crate::scenarios::act::{Call, Deed};
use crate::scenarios::scene::{Expected, Step};

fn refused(error: &str, message: &str) -> Value {
    json!({"success": false, "error": error, "message": message})
}

/// How sentences begin: of triggers, and of SQLite where a key is taken.
const SENTENCES: &[(&str, &str, &str)] = &[
    (
        "UNIQUE constraint failed: agents.id",
        "agent_already_registered",
        "",
    ),
    (
        "UNIQUE constraint failed: tasks.id",
        "task_already_exists",
        "",
    ),
    (
        "UNIQUE constraint failed: messages.id",
        "message_already_exists",
        "",
    ),
    ("agents.id:", "invalid_operation", "agent.id"),
    (
        "agents.current_task_progress:",
        "invalid_operation",
        "progress.percentComplete",
    ),
    ("tasks.dependencies:", "invalid_operation", "dependencies"),
    (
        "tasks.assigned_agent: no such agent",
        "agent_not_registered",
        "",
    ),
    ("leases.agent_id: no such agent", "agent_not_registered", ""),
    (
        "leases.expires_at: must be in the future",
        "invalid_operation",
        "durationMs",
    ),
    (
        "leases.file_path: it leads",
        "invalid_operation",
        "filePath",
    ),
    ("leases.file_path: a lease of another", VAGUE, ""),
    ("leases.task_id:", VAGUE, ""),
    ("messages.to_agent:", "recipient_not_found", "message.to"),
    ("messages.type:", "invalid_operation", "message.type"),
];

/// It depends on rows that the sentence does not name.
const VAGUE: &str = "vague";

pub fn is_vague(body: &Value) -> bool {
    body["error"] == VAGUE
}

pub fn of_trigger(sentence: &str) -> Value {
    let found = SENTENCES
        .iter()
        .find(|(beginning, ..)| sentence.starts_with(beginning));
    coded(found, sentence)
}

/// What the rules say in the log when a write did not hold: part of it, code, and the field or the reason.
const REASONS: &[(&str, &str, &str)] = &[
    ("has expired", "invalid_operation", "id"),
    ("is not registered", "agent_not_registered", ""),
    ("there is no task", "task_not_found", ""),
    ("requires 'to'", "invalid_operation", "message.to"),
    ("message.payload:", "invalid_operation", "message.payload"),
    (
        "message.payload.taskId:",
        "invalid_operation",
        "message.payload.taskId",
    ),
    (
        "message.payload.filePath:",
        "invalid_operation",
        "message.payload.filePath",
    ),
    (
        "a person cannot hand off",
        "invalid_operation",
        "message.type",
    ),
    (
        "nobody holds a lease on this file",
        "invalid_operation",
        "message.payload.filePath",
    ),
    ("is leased by", VAGUE, ""),
    ("the class after [", "invalid_operation", "filePath"),
    ("it was taken back", HELD, "task_reassigned"),
    ("it is now held by", HELD, "task_reassigned"),
    ("it is held by", HELD, "not_holder"),
];

/// Its refusals have reasons, and no field.
const HELD: &str = "task_already_claimed";

pub fn of_hub(why: &str) -> Value {
    coded(REASONS.iter().find(|(part, ..)| why.contains(part)), why)
}

fn coded(found: Option<&(&str, &str, &str)>, sentence: &str) -> Value {
    let (_, error, about) = found.unwrap_or(&("", "nobody_knows_this_refusal", ""));
    let mut body = refused(error, sentence);
    if !about.is_empty() {
        let name = if *error == HELD { "reason" } else { "field" };
        body[name] = (*about).into();
    }
    body
}

/// A lease that the machine's clock has written ends at some other moment than the scene's.
pub fn forget_terms(step: &Step, expected: &mut [Expected]) {
    let Deed::Call(Call {
        route: "acquireLease",
        ..
    }) = &step.deed
    else {
        return;
    };
    for item in expected {
        let until = item.words.iter().position(|word| word == "until");
        item.words.truncate(until.unwrap_or(item.words.len()));
    }
}

/// What is asked of a step that was done by SQL.
pub fn awaits(step: &Step) -> Vec<Expected> {
    let Deed::Call(Call { route, .. }) = &step.deed else {
        return step.expected.clone();
    };
    let mut expected = step.expected.clone();
    let first = &mut expected[0];
    // Sentences of triggers name no row.
    first.message = None;
    // What the gate found is not written where a client reads.
    if *route == "complete" && first.words[0] != "refused" {
        first.words.truncate(1);
        first.facts.retain(|(name, _)| name == "success");
        expected.truncate(1);
    }
    expected
}
