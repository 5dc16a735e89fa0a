//! The tables that strangers use.

use switchboard_core::limits::{
    AUDIENCE_MAX, DEPENDENCIES_MAX, DESCRIPTION_BYTES_MAX, FILES_MAX, ID_BYTES_MAX, MINUTES_MAX,
    NAME_BYTES_MAX, NOTE_BYTES_MAX, PATH_BYTES_MAX, PAYLOAD_BYTES_MAX, PREVIOUS_AGENTS_MAX,
    RETRIES_MAX, SKILL_BYTES_MAX, SKILLS_MAX, TITLE_BYTES_MAX,
};

use super::Bound::{
    Flag, Id, List, MessageType, Path, Percent, PlainList, Text, Time, Whole, Words,
};
use super::Kind::{Int as I, Real as R, Text as T};
use super::guard::{AGENT_RULES, LEASE_RULES, MESSAGE_RULES, TASK_RULES};
use super::{NEW, PULSE, QUEUE, Table, WORDS, WORK, doc, open, own};

pub(crate) const METADATA: Table = Table {
    name: "swarm_metadata",
    key: &["key"],
    columns: &[doc(T, "key"), doc(T, "value"), doc(T, "updated_at")],
    rules: &[],
};

pub(crate) const MIGRATIONS: Table = Table {
    name: "migrations",
    key: &["id"],
    columns: &[doc(I, "id"), doc(T, "name"), doc(T, "applied_at")],
    rules: &[],
};

const PRIORITIES: &[&str] = &["critical", "high", "medium", "low"];
const TASK_TYPES: &[&str] = &[
    "code",
    "test",
    "browser_test",
    "documentation",
    "review",
    "custom",
    "skill_distribution",
];
const AGENT_TYPES: &[&str] = &["claude-code", "codex", "gemini", "browser", "custom"];
const AGENT_STATUSES: &[&str] = &["idle", "busy", "error", "offline", "shutting_down"];

#[rustfmt::skip]
pub(crate) const TASKS: Table = Table {
    name: "tasks",
    key: &["number"],
    columns: &[
        doc(T, "id").bound(Id).once(),
        doc(T, "title").bound(Text(1, TITLE_BYTES_MAX)).to(NEW | WORDS),
        doc(T, "description").bound(Text(0, DESCRIPTION_BYTES_MAX)).null().to(NEW | WORDS),
        doc(T, "status").to(NEW | WORK),
        doc(T, "priority").bound(Words(PRIORITIES)).to(NEW | WORDS),
        doc(T, "type").bound(Words(TASK_TYPES)).to(NEW | WORDS),
        doc(T, "assigned_agent").to(WORK),
        doc(T, "claimed_at").bound(Time).null().to(WORK),
        doc(T, "dependencies").bound(PlainList(DEPENDENCIES_MAX, ID_BYTES_MAX)).once(),
        doc(T, "blockers").bound(PlainList(DEPENDENCIES_MAX, ID_BYTES_MAX)).to(NEW | QUEUE),
        doc(T, "required_skills").bound(PlainList(SKILLS_MAX, SKILL_BYTES_MAX)).to(NEW | WORDS),
        doc(T, "files").bound(List(FILES_MAX, PATH_BYTES_MAX)).to(NEW | WORDS),
        doc(T, "started_at").bound(Time).null().to(WORK),
        doc(T, "completed_at").bound(Time).null().shown().to(WORK),
        doc(I, "estimated_minutes").bound(Whole(MINUTES_MAX as u64)).null().to(NEW | WORDS),
        doc(I, "actual_minutes").shown().to(WORK),
        doc(I, "retry_count").bound(Whole(u32::MAX as u64)).to(NEW | QUEUE),
        doc(I, "max_retries").bound(Whole(RETRIES_MAX as u64)).to(NEW | WORDS),
        doc(T, "last_error").bound(Text(0, NOTE_BYTES_MAX)).null().to(NEW | QUEUE),
        doc(T, "failure_type").bound(Text(0, NAME_BYTES_MAX)).null().to(NEW | QUEUE),
        doc(T, "next_retry_at").bound(Time).null().shown().to(QUEUE),
        doc(T, "previous_agents").bound(PlainList(PREVIOUS_AGENTS_MAX, ID_BYTES_MAX)).to(QUEUE),
        doc(T, "result").bound(Text(0, PAYLOAD_BYTES_MAX)).null().to(WORK),
        doc(T, "branch").bound(Text(0, PATH_BYTES_MAX)).null().to(NEW | WORDS),
        doc(T, "quality_snapshot_id").bound(Text(0, ID_BYTES_MAX)).null().to(WORK),
        doc(T, "created_at").bound(Time).once(),
        doc(T, "updated_at").bound(Time).to(NEW | WORK),
        open(I, "epoch").to(WORK),
        open(T, "audience").bound(PlainList(AUDIENCE_MAX, ID_BYTES_MAX)).to(NEW | WORDS),
        open(T, "on_dependency_failure").bound(Words(&["block", "fail"])).once(),
        own(I, "number").born("NULL"),
        own(I, "rev").born("0").to(NEW | WORK),
        own(I, "lane").born("NULL").to(NEW | QUEUE),
        own(I, "state_at").born("0").to(NEW | WORK),
        own(I, "worked_ms").born("NULL").to(WORK),
        own(T, "progress").born("NULL").to(WORK),
        own(I, "dependants").born("0").to(NEW | QUEUE),
        own(T, "corr_id").born("''"),
        own(T, "when_spent").born("'fail'").to(NEW | WORDS),
        own(I, "deadline_at").born("NULL").to(QUEUE),
        own(I, "stale_ms").born("NULL").to(QUEUE),
        own(I, "look_at").born("NULL").to(QUEUE),
        own(I, "epoch_needed").born("0").to(QUEUE),
        own(T, "contract").born("NULL"),
        own(T, "barred").born("NULL").to(NEW | WORDS),
    ],
    rules: TASK_RULES,
};

#[rustfmt::skip]
pub(crate) const AGENTS: Table = Table {
    name: "agents",
    key: &["id"],
    columns: &[
        doc(T, "id").bound(Id).once(),
        doc(T, "name").bound(Text(1, NAME_BYTES_MAX)).to(WORDS),
        doc(T, "type").bound(Words(AGENT_TYPES)).to(WORDS),
        doc(T, "status").bound(Words(AGENT_STATUSES)).to(WORK),
        doc(T, "skills").bound(PlainList(SKILLS_MAX, SKILL_BYTES_MAX)).to(WORDS),
        doc(I, "max_task_minutes").bound(Whole(MINUTES_MAX as u64)).to(WORDS),
        doc(I, "can_run_tests").bound(Flag).to(WORDS),
        doc(I, "can_run_build").bound(Flag).to(WORDS),
        doc(I, "can_access_browser").bound(Flag).to(WORDS),
        doc(T, "last_heartbeat").bound(Time).null().shown().to(PULSE),
        doc(I, "heartbeat_count").bound(Whole(i64::MAX as u64)).to(PULSE),
        doc(T, "current_task_id").bound(Text(0, NAME_BYTES_MAX)).null().to(WORK),
        doc(T, "current_task_started_at").bound(Time).null().to(WORK),
        doc(I, "current_task_progress").bound(Whole(100)).null().to(WORK),
        doc(T, "current_task_phase").bound(Text(0, NAME_BYTES_MAX)).null().to(WORK),
        doc(I, "tasks_completed").bound(Whole(i64::MAX as u64)).to(WORK),
        doc(I, "tasks_failed").bound(Whole(i64::MAX as u64)).to(WORK),
        doc(R, "total_runtime_minutes").shown().to(WORK),
        doc(T, "machine_id").bound(Text(0, NAME_BYTES_MAX)).null().to(WORDS),
        doc(T, "machine_hostname").bound(Text(0, NAME_BYTES_MAX)).null().to(WORDS),
        doc(I, "pid").bound(Whole(u32::MAX as u64)).null().to(WORDS),
        doc(T, "registered_at").bound(Time).to(WORDS),
        doc(T, "last_active_at").bound(Time).null().to(WORK),
        own(I, "rev").born("0").to(WORK),
        own(T, "presence").born("'live'").to(WORDS),
        own(I, "presence_at").born("0").to(WORDS),
        own(I, "seen_at").born("0").to(PULSE),
        own(I, "runtime_ms").born("0").to(WORK),
        own(T, "holds").born("'[]'").to(WORK),
        own(T, "commands").born("'[]'").to(WORK),
        own(T, "metrics").born("NULL").to(WORK),
        own(I, "key_generation").born("0").to(WORDS),
        own(I, "inbox").born("0").to(WORK),
        own(T, "doors").born(r#"'["jetpack"]'"#).to(WORDS),
        own(I, "silent_ms").born("120000").to(WORDS),
        own(T, "stream").born("'{}'").to(WORK),
    ],
    rules: AGENT_RULES,
};

#[rustfmt::skip]
pub(crate) const MESSAGES: Table = Table {
    name: "messages",
    key: &["number"],
    columns: &[
        doc(T, "id").bound(Id).once(),
        doc(T, "type").bound(MessageType).once(),
        doc(T, "from_agent").bound(Id).once(),
        doc(T, "to_agent").once(),
        doc(T, "payload").bound(Text(0, PAYLOAD_BYTES_MAX)).null().once(),
        doc(I, "ack_required").bound(Flag).once(),
        doc(T, "acknowledged_at").bound(Time).null().to(NEW | WORK),
        doc(T, "acknowledged_by").to(NEW | WORK),
        doc(T, "delivered_at").bound(Time).null().to(NEW | WORK),
        doc(T, "expires_at").bound(Time).null().once(),
        doc(T, "created_at").bound(Time).once(),
        own(I, "number").born("NULL"),
        own(I, "rev").born("0").to(NEW | WORK),
        own(T, "corr_id").born("''"),
        own(T, "handoff_task").born("NULL"),
        own(I, "handoff_epoch").born("NULL"),
        own(I, "given_session").born("NULL"),
        own(I, "given_number").born("NULL"),
        own(I, "copy_of").born("NULL").shown().to(0),
        own(T, "afar").born("NULL"),
    ],
    rules: MESSAGE_RULES,
};

#[rustfmt::skip]
pub(crate) const LEASES: Table = Table {
    name: "leases",
    key: &["file_path"],
    columns: &[
        doc(T, "file_path").bound(Path).once(),
        doc(T, "agent_id"),
        doc(T, "task_id"),
        doc(T, "acquired_at").bound(Time),
        doc(T, "expires_at").bound(Time),
        doc(I, "renewed_count").bound(Whole(u32::MAX as u64)),
        own(I, "rev").born("0"),
        own(T, "prefix").born("NULL").shown(),
        own(I, "fencing").born("0"),
        // Its normal form, where it was written in another.
        own(T, "path").born("NULL"),
    ],
    rules: LEASE_RULES,
};

#[rustfmt::skip]
pub(crate) const SNAPSHOTS: Table = Table {
    name: "quality_snapshots",
    // On SQLite the number is the row's own; snapshots are listed by it.
    key: &["rowid"],
    columns: &[
        doc(T, "id").bound(Id),
        doc(T, "task_id").bound(Text(0, ID_BYTES_MAX)).null(),
        doc(T, "agent_id").bound(Text(0, ID_BYTES_MAX)).null(),
        doc(I, "build_success").bound(Flag).null(),
        doc(I, "build_time_ms").shown().to(0),
        doc(I, "type_errors").bound(Whole(u32::MAX as u64)),
        doc(I, "lint_errors").bound(Whole(u32::MAX as u64)),
        doc(I, "lint_warnings").bound(Whole(u32::MAX as u64)),
        doc(I, "tests_passing").bound(Whole(u32::MAX as u64)),
        doc(I, "tests_failing").bound(Whole(u32::MAX as u64)),
        doc(I, "tests_skipped").shown().to(0),
        doc(R, "test_coverage").bound(Percent).null(),
        doc(I, "test_time_ms").shown().to(0),
        doc(T, "build_output").shown().to(0),
        doc(T, "type_output").shown().to(0),
        doc(T, "lint_output").shown().to(0),
        doc(T, "test_output").shown().to(0),
        doc(T, "recorded_at").bound(Time),
        own(I, "rowid"),
    ],
    rules: &[],
};

#[rustfmt::skip]
pub(crate) const BASELINES: Table = Table {
    name: "quality_baseline",
    key: &["id"],
    columns: &[
        doc(I, "id").shown(),
        doc(I, "build_success").bound(Flag),
        doc(I, "type_errors").bound(Whole(u32::MAX as u64)),
        doc(I, "lint_errors").bound(Whole(u32::MAX as u64)),
        doc(I, "lint_warnings").bound(Whole(u32::MAX as u64)),
        doc(I, "tests_passing").bound(Whole(u32::MAX as u64)),
        doc(I, "tests_failing").bound(Whole(u32::MAX as u64)),
        doc(R, "test_coverage").bound(Percent).null(),
        doc(T, "set_by").bound(Text(0, ID_BYTES_MAX)).null(),
        doc(T, "created_at").bound(Time),
        doc(T, "updated_at").bound(Time),
        own(I, "rev").born("0"),
    ],
    rules: &[],
};
