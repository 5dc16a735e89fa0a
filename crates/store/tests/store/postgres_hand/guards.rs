//! What no rule allows is refused before it is committed, with a sentence that names the column and the reason.

use switchboard_core::limits;
use switchboard_core::verb::{CreateTasks, NewTask};

use super::desk::{Desk, Room, said};

const REFUSED: &str = "23514";

/// Two agents, a task that one of them holds, one that is free, one that waits, one that is done, a message and a lease.
fn desk(room: &Room) -> Desk {
    let mut desk = room.desk();
    desk.hand.sql(
        "INSERT INTO agents(id, name) VALUES ('ann', 'Ann'), ('bob', 'Bob');
         INSERT INTO tasks(id, title, status) VALUES ('held', 'h', 'ready'), ('free', 'f', 'ready'), ('done', 'd', 'ready');
         INSERT INTO tasks(id, title, dependencies) VALUES ('waits', 'w', '[\"free\"]');
         UPDATE tasks SET status = 'claimed', assigned_agent = 'ann' WHERE id IN ('held', 'done');
         UPDATE tasks SET status = 'completed' WHERE id = 'done';
         INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('m', 'custom', 'bob', 'ann');
         INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src/lib', 'ann', now() + interval '10 minutes')",
    );
    desk.run(100, &[]);
    desk
}

#[track_caller]
fn refused(desk: &Desk, sql: &str, sentence: &str) {
    let error = desk.hand.try_sql(sql).expect_err(sql);
    let said = said(&error);
    assert!(
        said.starts_with(REFUSED) && said.contains(sentence),
        "{said}\nfor {sql}"
    );
    assert_eq!(desk.hand.one("SELECT count(*) FROM sb_hand"), "0", "{sql}");
}

const TASKS: &[(&str, &str)] = &[
    (
        "INSERT INTO tasks(id, title) VALUES ('a b', 't')",
        "tasks.id: text of 1 to 128 bytes without spaces or control characters; found 'a b'",
    ),
    (
        "INSERT INTO tasks(id, title) VALUES ('n', ' ')",
        "tasks.title: text of 1 to 1024 bytes",
    ),
    (
        "INSERT INTO tasks(id, title, status) VALUES ('n', 't', 'claimed')",
        "tasks.status of a new task: one of pending, ready, blocked; found 'claimed'",
    ),
    (
        "INSERT INTO tasks(id, title, assigned_agent) VALUES ('n', 't', 'ann')",
        "tasks.assigned_agent: a new task must be unassigned",
    ),
    (
        "INSERT INTO tasks(id, title, dependencies) VALUES ('n', 't', '[\"none\"]')",
        "tasks.dependencies: contains a task that does not exist; insert that one first; found '[\"none\"]'",
    ),
    (
        "INSERT INTO tasks(id, title, required_skills) VALUES ('n', 't', 'rust')",
        "tasks.required_skills: a JSON array of at most 64 strings of 1 to 64 bytes; found 'rust'",
    ),
    (
        "INSERT INTO tasks(id, title, files) VALUES ('n', 't', '[1]')",
        "tasks.files: a JSON array",
    ),
    (
        "INSERT INTO tasks(id, title, priority) VALUES ('n', 't', 'urgent')",
        "tasks.priority: one of critical, high, medium, low; found 'urgent'",
    ),
    (
        "INSERT INTO tasks(id, title, type) VALUES ('n', 't', 'x')",
        "tasks.type: one of code",
    ),
    (
        "INSERT INTO tasks(id, title, created_at) VALUES ('n', 't', 'yesterday')",
        "tasks.created_at: a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59; found 'yesterday'",
    ),
    (
        "INSERT INTO tasks(id, title, created_at) VALUES ('n', 't', '2026-02-30 10:00:00')",
        "tasks.created_at: a time",
    ),
    (
        "INSERT INTO tasks(id, title, created_at) VALUES ('n', 't', '9999-12-31T23:59:59-05:00')",
        "tasks.created_at: a time",
    ),
    (
        "INSERT INTO tasks(id, title, on_dependency_failure) VALUES ('n', 't', 'x')",
        "tasks.on_dependency_failure: one of block, fail",
    ),
    (
        "INSERT INTO tasks(id, title, number) VALUES ('n', 't', 7)",
        "tasks.number is set by the hub; omit it",
    ),
    (
        "INSERT INTO tasks(id, title, rev) VALUES ('n', 't', 7)",
        "tasks.rev is set by the hub; omit it",
    ),
    (
        "INSERT INTO tasks(id, title, when_spent) VALUES ('n', 't', 'never')",
        "tasks.when_spent is set by the hub; omit it",
    ),
    (
        "UPDATE tasks SET status = 'needs_review' WHERE id = 'free'",
        "tasks.status: this change is not allowed; docs/direct-sql.md lists those that are; found 'ready to needs_review'",
    ),
    (
        "UPDATE tasks SET status = 'claimed' WHERE id = 'free'",
        "tasks.assigned_agent: a claim must name its agent",
    ),
    (
        "UPDATE tasks SET status = 'in_progress', assigned_agent = 'bob' WHERE id = 'waits'",
        "tasks.assigned_agent: an agent can claim only what is ready, and finish only what it has claimed; found 'blocked to in_progress'",
    ),
    (
        "UPDATE tasks SET status = 'completed', assigned_agent = 'bob' WHERE id = 'free'",
        "tasks.assigned_agent: an agent can claim only what is ready, and finish only what it has claimed; found 'ready to completed'",
    ),
    (
        "UPDATE tasks SET status = 'claimed', assigned_agent = 'zoe' WHERE id = 'free'",
        "tasks.assigned_agent: no such agent is registered; insert it into agents first; found 'zoe'",
    ),
    (
        "UPDATE tasks SET assigned_agent = 'bob' WHERE id = 'held'",
        "tasks.assigned_agent: another agent holds this task; found 'ann'",
    ),
    (
        "UPDATE tasks SET status = 'claimed', assigned_agent = 'bob', epoch = epoch + 1 WHERE id = 'held'",
        "tasks.assigned_agent: another agent holds this task; found 'ann'",
    ),
    (
        "UPDATE tasks SET epoch = epoch + 1 WHERE id = 'held'",
        "tasks.epoch is set by the hub; a claim may set epoch = epoch + 1",
    ),
    (
        "UPDATE tasks SET status = 'claimed', assigned_agent = 'bob', epoch = 9 WHERE id = 'free'",
        "tasks.epoch is set by the hub",
    ),
    (
        "UPDATE tasks SET dependencies = '[]' WHERE id = 'waits'",
        "tasks.dependencies is set by the hub; do not change it",
    ),
    (
        "UPDATE tasks SET lane = NULL WHERE id = 'free'",
        "tasks.lane is set by the hub",
    ),
    (
        "UPDATE tasks SET id = 'other' WHERE id = 'free'",
        "tasks.id is set by the hub",
    ),
    (
        "DELETE FROM tasks WHERE id = 'done'",
        "tasks: finished tasks cannot be deleted; the hub prunes them by its [retention]",
    ),
    ("TRUNCATE tasks", "tasks: TRUNCATE would erase"),
];

const OTHERS: &[(&str, &str)] = &[
    (
        "INSERT INTO agents(id, name) VALUES ('steward', 'x')",
        "agents.id: this id is reserved; found 'steward'",
    ),
    (
        "INSERT INTO agents(id, name, type) VALUES ('x', 'x', 'robot')",
        "agents.type: one of claude-code",
    ),
    (
        "INSERT INTO agents(id, name, presence) VALUES ('x', 'x', 'gone')",
        "agents.presence is set by the hub; omit it",
    ),
    (
        "UPDATE agents SET status = 'asleep'",
        "agents.status: one of idle, busy, error, offline, shutting_down; found 'asleep'",
    ),
    (
        "UPDATE agents SET holds = '[\"free\"]'",
        "agents.holds is set by the hub",
    ),
    (
        "UPDATE agents SET can_run_tests = 2",
        "agents.can_run_tests: 0 or 1; found '2'",
    ),
    (
        "UPDATE agents SET current_task_progress = 101",
        "agents.current_task_progress: a whole number from 0 to 100",
    ),
    (
        "UPDATE agents SET last_heartbeat = 'now'",
        "agents.last_heartbeat: a time",
    ),
    ("TRUNCATE agents", "agents: TRUNCATE"),
    (
        "INSERT INTO messages(id, type, from_agent) VALUES ('n', 'word', 'ann')",
        "messages.type: custom, or words joined by dots such as info.discovery; found 'word'",
    ),
    (
        "INSERT INTO messages(id, type, from_agent, to_agent) VALUES ('n', 'custom', 'ann', 'zoe')",
        "messages.to_agent: no agent with this id exists; NULL sends to everyone; found 'zoe'",
    ),
    (
        "INSERT INTO messages(id, type, from_agent, delivered_at) VALUES ('n', 'custom', 'ann', now())",
        "messages: a new message must be neither delivered nor acknowledged",
    ),
    (
        "INSERT INTO messages(id, type, from_agent, copy_of) VALUES ('n', 'custom', 'ann', 1)",
        "messages.copy_of is set by the hub; omit it",
    ),
    (
        "INSERT INTO messages(id, type, from_agent, ack_required) VALUES ('n', 'custom', 'ann', 2)",
        "messages.ack_required: 0 or 1; found '2'",
    ),
    (
        "UPDATE messages SET payload = 'other' WHERE id = 'm'",
        "messages.payload is set by the hub",
    ),
    (
        "UPDATE messages SET acknowledged_at = now(), acknowledged_by = 'bob' WHERE id = 'm'",
        "messages.acknowledged_by: only the recipient may acknowledge a message; found 'ann'",
    ),
    (
        "UPDATE messages SET delivered_at = 'soon' WHERE id = 'm'",
        "messages.delivered_at: a time",
    ),
    (
        "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('a/../../b', 'ann', now() + interval '1 minute')",
        "leases.file_path: it leads outside the project; use a path inside it; found 'a/../../b'",
    ),
    (
        "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('./src//', 'bob', now() + interval '1 minute')",
        "leases.file_path: a lease of another agent covers this path; found './src//'",
    ),
    (
        "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src', 'bob', now() + interval '1 minute')",
        "leases.file_path: a lease of another agent covers this path; found 'src'",
    ),
    (
        "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('src/lib/a.rs', 'bob', now() + interval '1 minute')",
        "leases.file_path: a lease of another agent covers this path; found 'src/lib/a.rs'",
    ),
    (
        "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('x', 'zoe', now() + interval '1 minute')",
        "leases.agent_id: no such agent is registered; insert it into agents first; found 'zoe'",
    ),
    (
        "INSERT INTO leases(file_path, agent_id, task_id, expires_at) VALUES ('x', 'bob', 'held', now() + interval '1 minute')",
        "leases.task_id: this agent does not hold that task; NULL is allowed; found 'held'",
    ),
    (
        "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ('x', 'bob', now() - interval '1 minute')",
        "leases.expires_at: must be in the future",
    ),
    (
        "UPDATE leases SET agent_id = 'bob'",
        "leases.agent_id: another agent holds this lease, and it has not expired; found 'ann'",
    ),
    (
        "UPDATE leases SET fencing = 9",
        "leases.fencing is set by the hub",
    ),
    (
        "INSERT INTO quality_baseline(id, test_coverage) VALUES (1, 101)",
        "quality_baseline.test_coverage: a number from 0 to 100, or NULL; found '101'",
    ),
    (
        "INSERT INTO quality_snapshots(id, type_errors) VALUES ('s', -1)",
        "quality_snapshots.type_errors: a whole number from 0",
    ),
];

#[test]
fn what_no_rule_allows_is_refused_with_the_column_and_the_reason() {
    let Some(room) = Room::new("guards") else {
        return;
    };
    let desk = desk(&room);
    for (sql, sentence) in TASKS.iter().chain(OTHERS) {
        refused(&desk, sql, sentence);
    }
}

/// Statements with a text in `{}` of so many bytes, or a list of so many items.
const BOUNDS: &[(&str, usize)] = &[
    (
        "INSERT INTO tasks(id, title) VALUES ({}, 't')",
        limits::ID_BYTES_MAX,
    ),
    (
        "UPDATE tasks SET title = {} WHERE id = 'free'",
        limits::TITLE_BYTES_MAX,
    ),
    (
        "UPDATE tasks SET description = {} WHERE id = 'free'",
        limits::DESCRIPTION_BYTES_MAX,
    ),
    (
        "UPDATE tasks SET last_error = {} WHERE id = 'free'",
        limits::NOTE_BYTES_MAX,
    ),
    (
        "UPDATE tasks SET required_skills = jsonb_build_array({})::text WHERE id = 'free'",
        limits::SKILL_BYTES_MAX,
    ),
    (
        "UPDATE tasks SET files = jsonb_build_array({})::text WHERE id = 'free'",
        limits::PATH_BYTES_MAX,
    ),
    (
        "UPDATE tasks SET audience = jsonb_build_array({})::text WHERE id = 'free'",
        limits::ID_BYTES_MAX,
    ),
    (
        "UPDATE agents SET name = {} WHERE id = 'bob'",
        limits::NAME_BYTES_MAX,
    ),
    (
        "INSERT INTO messages(id, type, from_agent, payload) VALUES ('n', 'custom', 'ann', {})",
        limits::PAYLOAD_BYTES_MAX,
    ),
    (
        "INSERT INTO leases(file_path, agent_id, expires_at) VALUES ({}, 'ann', now() + interval '1 minute')",
        limits::PATH_BYTES_MAX,
    ),
];
const LISTS: &[(&str, usize)] = &[
    (
        "UPDATE tasks SET required_skills = {} WHERE id = 'free'",
        limits::SKILLS_MAX,
    ),
    (
        "UPDATE tasks SET files = {} WHERE id = 'free'",
        limits::FILES_MAX,
    ),
    (
        "UPDATE tasks SET audience = {} WHERE id = 'free'",
        limits::AUDIENCE_MAX,
    ),
    (
        "UPDATE agents SET skills = {} WHERE id = 'bob'",
        limits::SKILLS_MAX,
    ),
];
const NUMBERS: &[(&str, u32)] = &[
    (
        "UPDATE tasks SET estimated_minutes = {} WHERE id = 'free'",
        limits::MINUTES_MAX,
    ),
    (
        "UPDATE tasks SET max_retries = {} WHERE id = 'free'",
        limits::RETRIES_MAX,
    ),
    (
        "UPDATE agents SET max_task_minutes = {} WHERE id = 'bob'",
        limits::MINUTES_MAX,
    ),
];

#[test]
fn the_bounds_of_the_triggers_are_those_of_the_rules() {
    let Some(room) = Room::new("bounds by hand") else {
        return;
    };
    let desk = desk(&room);
    let texts = BOUNDS
        .iter()
        .map(|(sql, max)| (*sql, *max, "repeat('x', {})"));
    let list = "(SELECT jsonb_agg('w' || i)::text FROM generate_series(1, {}) i)";
    let lists = LISTS.iter().map(|(sql, max)| (*sql, *max, list));
    let numbers = NUMBERS.iter().map(|(sql, max)| (*sql, *max as usize, "{}"));
    for (sql, max, value) in texts.chain(lists).chain(numbers) {
        for count in [max - 1, max, max + 1] {
            let value = value.replace("{}", &count.to_string());
            let sql = format!("BEGIN; {}", sql.replace("{}", &value));
            let done = desk.hand.try_sql(&sql);
            desk.hand.sql("ROLLBACK");
            let told = done.as_ref().map_err(said);
            assert_eq!(done.is_ok(), count <= max, "{told:?} for {sql}");
        }
    }
}

#[test]
fn instants_are_kept_in_one_form_and_rows_show_what_they_became() {
    let Some(room) = Room::new("instants by hand") else {
        return;
    };
    let desk = desk(&room);
    for (written, kept) in [
        ("'2026-01-31 10:00:00'", "2026-01-31T10:00:00.000Z"),
        ("'2026-01-31T10:00:00.1234Z'", "2026-01-31T10:00:00.123Z"),
        ("'2026-01-31T10:00:00+02:00'", "2026-01-31T08:00:00.000Z"),
        (
            "timestamptz '2026-01-31 10:00:00+05'",
            "2026-01-31T05:00:00.000Z",
        ),
    ] {
        desk.hand.sql(&format!(
            "SET timezone = 'Asia/Kolkata'; UPDATE tasks SET started_at = {written} WHERE id = 'held'"
        ));
        let found = desk
            .hand
            .one("SELECT started_at FROM tasks WHERE id = 'held'");
        assert_eq!(found, kept, "{written}");
    }
    let claimed = "UPDATE tasks SET status = 'claimed', assigned_agent = 'bob', claimed_at = CURRENT_TIMESTAMP WHERE id = 'free'";
    desk.hand.sql(claimed);
    let found = desk
        .hand
        .sql("SELECT epoch, lane FROM tasks WHERE id = 'free'");
    assert_eq!(found, [["1", "NULL"]], "claimed, and out of its queue");
}

#[test]
fn an_agent_that_is_barred_from_a_task_does_not_claim_it() {
    let Some(room) = Room::new("barred agents") else {
        return;
    };
    let mut desk = desk(&room);
    let mut task = NewTask::plain("barred", "not for bob");
    task.about.barred = vec!["bob".into()];
    let tasks = vec![task];
    desk.run(100, &[&CreateTasks { tasks }]);
    let claim = |by: &str| {
        format!("UPDATE tasks SET status = 'claimed', assigned_agent = '{by}' WHERE id = 'barred'")
    };
    refused(&desk, &claim("bob"), "this agent may not have this task");
    let set_free = "UPDATE tasks SET barred = NULL WHERE id = 'barred'";
    refused(&desk, set_free, "tasks.barred is set by the hub");
    desk.hand.sql(&claim("ann"));
}

#[test]
fn a_role_that_may_write_the_public_tables_needs_nothing_else() {
    let Some(room) = Room::new("a role by hand") else {
        return;
    };
    let mut desk = desk(&room);
    let schema = desk.hand.one("SELECT current_schema()");
    let role = format!("{}_{schema}", room.database.name);
    desk.hand.sql(&format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON tasks, agents, messages, leases, quality_snapshots, quality_baseline TO {role}"
    ));
    // From another search path, too.
    desk.hand.sql(&format!(
        "SET ROLE {role}; SET search_path = pg_catalog;
         INSERT INTO {schema}.agents(id, name) VALUES ('cas', 'Cas');
         UPDATE {schema}.tasks SET status = 'claimed', assigned_agent = 'cas' WHERE id = 'free';
         UPDATE {schema}.tasks SET status = 'completed' WHERE id = 'free'"
    ));
    let denied = desk.hand.try_sql(&format!("DELETE FROM {schema}.sb_hand"));
    assert!(said(&denied.unwrap_err()).contains("permission denied"));
    desk.hand
        .sql(&format!("RESET ROLE; SET search_path = {schema}"));
    desk.run(100, &[]);
    let status = desk.hand.one("SELECT status FROM tasks WHERE id = 'waits'");
    assert_eq!(status, "ready", "what waited for it is released");
    desk.hand
        .sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
