//! What a statement may touch. SQLite asks about each thing while it prepares one.
//!
//! Everything is forbidden that is not named here. What triggers of ours need is allowed to them; SQLite tells their
//! name, but would also tell the alias of a subquery there. So a text that spells such a name is refused before.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::FUNCTIONS_MAX;

#[derive(Debug)]
pub(super) struct Guard {
    /// Names of all tables and views, in lower case.
    tables: HashSet<String>,
    functions: AtomicU32,
    forbidden: Mutex<Option<String>>,
}

/// The public tables with the columns that may be written; all may be read.
const TABLES: &[(&str, &[&str])] = &[
    ("tasks", &[
        "id", "title", "description", "status", "priority", "type", "assigned_agent", "claimed_at", "dependencies",
        "blockers", "required_skills", "files", "started_at", "completed_at", "estimated_minutes", "actual_minutes",
        "retry_count", "max_retries", "last_error", "failure_type", "next_retry_at", "previous_agents", "result",
        "branch", "quality_snapshot_id", "created_at", "updated_at",
    ]),
    ("agents", &[
        "id", "name", "type", "status", "skills", "max_task_minutes", "can_run_tests", "can_run_build",
        "can_access_browser", "last_heartbeat", "heartbeat_count", "current_task_id", "current_task_started_at",
        "current_task_progress", "current_task_phase", "tasks_completed", "tasks_failed", "total_runtime_minutes",
        "machine_id", "machine_hostname", "pid", "registered_at", "last_active_at",
    ]),
    ("messages", &[
        "id", "type", "from_agent", "to_agent", "payload", "ack_required", "acknowledged_at", "acknowledged_by",
        "delivered_at", "expires_at", "created_at",
    ]),
    ("leases", &["file_path", "agent_id", "task_id", "acquired_at", "expires_at", "renewed_count"]),
    ("quality_snapshots", &[
        "id", "task_id", "agent_id", "build_success", "build_time_ms", "type_errors", "lint_errors", "lint_warnings",
        "tests_passing", "tests_failing", "tests_skipped", "test_coverage", "test_time_ms", "build_output",
        "type_output", "lint_output", "test_output", "recorded_at",
    ]),
    ("quality_baseline", &[
        "id", "build_success", "type_errors", "lint_errors", "lint_warnings", "tests_passing", "tests_failing",
        "test_coverage", "set_by", "created_at", "updated_at",
    ]),
    ("migrations", &["id", "name", "applied_at"]),
    ("swarm_metadata", &["key", "value", "updated_at"]),
];

/// What else may be read: the schema, lists inside of values, and pragmas in the shape of tables.
const READABLE: &[&str] = &[
    "sqlite_master", "sqlite_schema", "json_each", "json_tree", "pragma_table_info", "pragma_table_xinfo",
    "pragma_table_list", "pragma_index_list", "pragma_index_info", "pragma_index_xinfo", "pragma_foreign_key_list",
];

/// Pragmas about a table or an index.
const PRAGMAS_ABOUT: &[&str] = &[
    "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list",
];
/// Pragmas that may be asked for.
const PRAGMAS_READ: &[&str] = &[
    "user_version", "schema_version", "application_id", "data_version", "encoding", "journal_mode", "foreign_keys",
    "busy_timeout", "synchronous", "cache_size", "page_size",
];
/// Pragmas that clients set at their start. They are told that it is done; nothing is.
const PRAGMAS_IGNORED: &[&str] = &[
    "journal_mode", "foreign_keys", "busy_timeout", "synchronous", "cache_size", "temp_store", "mmap_size",
    "wal_autocheckpoint",
];

/// In alphabetical order. Left out are those that reach outside of the tables, and those whose time grows faster than
/// their arguments.
const FUNCTIONS: &[&str] = &[
    "->", "->>", "abs", "avg", "changes", "char", "coalesce", "concat", "concat_ws", "count", "cume_dist",
    "current_date", "current_time", "current_timestamp", "date", "datetime", "dense_rank", "first_value", "format",
    "group_concat", "hex", "if", "ifnull", "iif", "instr", "json", "json_array", "json_array_length",
    "json_error_position", "json_extract", "json_group_array", "json_group_object", "json_insert", "json_object",
    "json_quote", "json_remove", "json_replace", "json_set", "json_type", "json_valid", "jsonb", "julianday", "lag",
    "last_insert_rowid", "last_value", "lead", "length", "like", "likelihood", "likely", "lower", "ltrim", "max",
    "min", "nth_value", "ntile", "nullif", "octet_length", "percent_rank", "printf", "quote", "random", "randomblob",
    "rank", "replace", "round", "row_number", "rtrim", "sign", "sqlite_version", "strftime", "string_agg", "substr",
    "substring", "sum", "time", "timediff", "total", "total_changes", "trim", "typeof", "unhex", "unicode",
    "unixepoch", "unlikely", "upper", "zeroblob",
];

/// Ours: private tables, and the triggers that guard the public ones.
const PRIVATE: &str = "sb_";

impl Guard {
    pub fn new(db: &Connection) -> rusqlite::Result<Self> {
        let mut names =
            db.prepare("SELECT lower(name) FROM sqlite_master WHERE type IN ('table', 'view')")?;
        let tables = names.query_map([], |row| row.get(0))?;
        Ok(Guard {
            tables: tables.collect::<rusqlite::Result<_>>()?,
            functions: AtomicU32::new(0),
            forbidden: Mutex::new(None),
        })
    }

    /// Before a statement is prepared.
    pub fn begin(&self) {
        self.functions.store(0, Ordering::Relaxed);
        *self.reason() = None;
    }

    /// What was forbidden since then, and why.
    pub fn forbidden(&self) -> Option<String> {
        self.reason().take()
    }

    pub fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        if context.accessor.is_some_and(is_private) {
            return Authorization::Allow;
        }
        match self.allows(&context.action) {
            Ok(granted) => granted,
            Err(why) => {
                self.reason().get_or_insert(why);
                Authorization::Deny
            }
        }
    }

    fn allows(&self, action: &AuthAction<'_>) -> Result<Authorization, String> {
        let is_allowed = match *action {
            AuthAction::Select
            | AuthAction::Recursive
            | AuthAction::Transaction { .. }
            | AuthAction::Savepoint { .. } => true,
            AuthAction::Read { table_name, .. } => {
                columns(table_name).is_some() || is_in(READABLE, table_name)
                    || return Err(not_public(table_name))
            }
            // A statement that makes a table asks for this first. Whoever means it is refused by SQLite itself.
            AuthAction::Insert { table_name } if table_name.eq_ignore_ascii_case("sqlite_master") => true,
            AuthAction::Insert { table_name } | AuthAction::Delete { table_name } => {
                columns(table_name).is_some() || return Err(not_public(table_name))
            }
            AuthAction::Update { table_name, column_name } => {
                let columns = columns(table_name).ok_or_else(|| not_public(table_name))?;
                is_in(columns, column_name)
                    || return Err(format!("the column {table_name}.{column_name} is the hub's own; it can be read, not written"))
            }
            AuthAction::Function { function_name } => {
                self.counts_function()?;
                is_in(FUNCTIONS, function_name)
                    || return Err(format!("the function {function_name}() is not available here"))
            }
            AuthAction::Pragma { pragma_name, pragma_value } => return pragma(pragma_name, pragma_value),
            AuthAction::CreateTable { table_name } | AuthAction::CreateView { view_name: table_name } => {
                self.tables.contains(&table_name.to_ascii_lowercase())
                    || return Err(nothing_new(table_name))
            }
            AuthAction::CreateIndex { index_name: name, .. }
            | AuthAction::CreateTrigger { trigger_name: name, .. }
            | AuthAction::CreateVtable { table_name: name, .. } => return Err(nothing_new(name)),
            AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
                return Err("other files cannot be reached from here (ATTACH, DETACH, VACUUM)".to_owned());
            }
            _ => return Err("the schema stays as it is; only rows of the public tables can be changed".to_owned()),
        };
        Ok(if is_allowed { Authorization::Allow } else { Authorization::Deny })
    }

    /// Instructions between two loops are not looked at while they run, so there may not be many expensive ones.
    fn counts_function(&self) -> Result<(), String> {
        if self.functions.fetch_add(1, Ordering::Relaxed) >= FUNCTIONS_MAX {
            return Err(format!("a statement may call at most {FUNCTIONS_MAX} functions"));
        }
        Ok(())
    }

    fn reason(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.forbidden.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a text spells a name that begins like a private one, in whatever quotes, also inside of a literal.
pub(super) fn spells_private(sql: &str) -> bool {
    let sql = sql.as_bytes();
    let continues = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
    sql.windows(PRIVATE.len()).enumerate().any(|(at, word)| {
        word.eq_ignore_ascii_case(PRIVATE.as_bytes())
            && !at.checked_sub(1).is_some_and(|before| continues(sql[before]))
    })
}

fn is_private(name: &str) -> bool {
    let start = name.as_bytes().get(..PRIVATE.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(PRIVATE.as_bytes()))
}

fn columns(table: &str) -> Option<&'static [&'static str]> {
    let found = TABLES.iter().find(|(name, _)| name.eq_ignore_ascii_case(table));
    found.map(|(_, columns)| *columns)
}

fn is_in(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn pragma(name: &str, value: Option<&str>) -> Result<Authorization, String> {
    if is_in(PRAGMAS_ABOUT, name) || (value.is_none() && is_in(PRAGMAS_READ, name)) {
        return Ok(Authorization::Allow);
    }
    if value.is_some() && is_in(PRAGMAS_IGNORED, name) {
        return Ok(Authorization::Ignore);
    }
    Err(format!("PRAGMA {name} is not available here"))
}

fn not_public(table: &str) -> String {
    let public: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
    format!("{table} is not a public table; these are: {}", public.join(", "))
}

fn nothing_new(name: &str) -> String {
    format!(
        "{name} cannot be made: the schema stays as it is (CREATE … IF NOT EXISTS is answered as done for what exists)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_like_private_ones_are_found_in_any_quotes() {
        for (sql, found) in [
            ("SELECT * FROM sb_token", true),
            ("SELECT * FROM SB_TOKEN", true),
            ("WITH \"sb_x\" AS (SELECT 1) SELECT 1", true),
            ("WITH 'sb_x' AS (SELECT 1) SELECT 1", true),
            ("WITH [sb_x] AS (SELECT 1) SELECT 1", true),
            ("SELECT 1 `Sb_`", true),
            ("sb_", true),
            ("SELECT/**/sb_x", true),
            ("SELECT * FROM main.sb_token", true),
            ("SELECT 'usb_port', a.usb_x, _sb_, $sb, 1sb_", false),
            ("SELECT sb, \"s b_\", 'sb-1'", false),
            ("", false),
        ] {
            assert_eq!(spells_private(sql), found, "{sql}");
        }
    }

    #[test]
    fn functions_are_in_order_so_that_none_is_there_twice() {
        assert!(FUNCTIONS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
