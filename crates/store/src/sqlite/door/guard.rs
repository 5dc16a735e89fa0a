//! What a statement may touch. SQLite asks about each thing while it prepares one.
//!
//! Everything is forbidden that is not named here. What triggers of ours need is allowed to them; SQLite tells their
//! name, but would also tell the alias of a subquery there. So a text that has such a name anywhere is refused before,
//! whatever stands around it: how SQLite cuts a text into words makes no difference then.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use memchr::memmem;
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::public::{
    FUNCTIONS, PRAGMAS_ABOUT, PRAGMAS_IGNORED, PRAGMAS_READ, READABLE, TRIGGERS_CALL,
    TRIGGERS_TOUCH,
};
use super::{FUNCTIONS_MAX, Refused};
use crate::sqlite::triggers;
use crate::table::{self, Table};

#[derive(Debug)]
pub(super) struct Guard {
    /// Names of all tables and views, in lower case.
    tables: HashSet<String>,
    /// Names that can stand where a table's does, though there is none.
    modules: HashSet<String>,
    /// Names of our triggers.
    triggers: Vec<&'static str>,
    functions: AtomicU32,
    forbidden: Mutex<Option<String>>,
}

impl Guard {
    pub fn new(db: &Connection) -> rusqlite::Result<Self> {
        let names = |sql: &str| -> rusqlite::Result<HashSet<String>> {
            let mut names = db.prepare(sql)?;
            names.query_map([], |row| row.get(0))?.collect()
        };
        Ok(Guard {
            tables: names("SELECT lower(name) FROM sqlite_master WHERE type IN ('table', 'view')")?,
            modules: names("SELECT lower(name) FROM pragma_module_list")?,
            triggers: triggers::names(),
            functions: AtomicU32::new(0),
            forbidden: Mutex::new(None),
        })
    }

    /// Before any statement of a text is prepared.
    pub fn admits(&self, sql: &str) -> Result<(), Refused> {
        let spelled = |name: &&&str| memmem::find(sql.as_bytes(), name.as_bytes()).is_some();
        match self.triggers.iter().find(spelled) {
            Some(name) => Err(Refused::new(
                "SQLITE_AUTH",
                format!(
                    "{name} is private to the hub; pass a value that contains this name as an argument"
                ),
            )),
            None => Ok(()),
        }
    }

    /// Before a statement is prepared.
    pub fn begin(&self) {
        self.functions.store(0, Ordering::Relaxed);
        *self.reason() = None;
    }

    /// How many calls of functions it spells out.
    pub fn functions(&self) -> u32 {
        self.functions.load(Ordering::Relaxed)
    }

    /// What was forbidden since then, and why.
    pub fn forbidden(&self) -> Option<String> {
        self.reason().take()
    }

    pub fn authorize(&self, context: &AuthContext<'_>) -> Authorization {
        let ours = |accessor: &str| self.triggers.contains(&accessor);
        let allowed = match context.accessor.is_some_and(ours) {
            true => allows_trigger(&context.action),
            false => self.allows(&context.action),
        };
        match allowed {
            Ok(granted) => granted,
            Err(why) => {
                self.reason().get_or_insert(why);
                Authorization::Deny
            }
        }
    }

    fn allows(&self, action: &AuthAction<'_>) -> Result<Authorization, String> {
        let allow_if = |is_allowed: bool, why: &dyn Fn() -> String| match is_allowed {
            true => Ok(Authorization::Allow),
            false => Err(why()),
        };
        match *action {
            AuthAction::Select
            | AuthAction::Recursive
            | AuthAction::Transaction { .. }
            | AuthAction::Savepoint { .. } => Ok(Authorization::Allow),
            AuthAction::Read {
                table_name: table,
                column_name: column,
            } => {
                let is_readable = public(table).is_some()
                    || is_in(READABLE, table)
                    || (column.is_empty() && self.is_alias(table));
                allow_if(is_readable, &|| not_public(table))
            }
            // A statement that makes a table asks for this first. Whoever means it is refused by SQLite itself.
            AuthAction::Insert { table_name: table } if is_in(&["sqlite_master"], table) => {
                Ok(Authorization::Allow)
            }
            AuthAction::Insert { table_name: table } | AuthAction::Delete { table_name: table } => {
                allow_if(public(table).is_some(), &|| not_public(table))
            }
            AuthAction::Update {
                table_name: table,
                column_name: column,
            } => {
                let public = public(table).ok_or_else(|| not_public(table))?;
                allow_if(public.is_writable(column), &|| not_writable(table, column))
            }
            AuthAction::Function {
                function_name: name,
            } => {
                self.counts_function()?;
                let why = || format!("the function {name}() is not available here");
                allow_if(is_in(FUNCTIONS, name), &why)
            }
            AuthAction::Pragma {
                pragma_name: name,
                pragma_value: value,
            } => pragma(name, value),
            AuthAction::CreateTable { table_name: name }
            | AuthAction::CreateView { view_name: name } => {
                let exists = self.tables.contains(&name.to_ascii_lowercase());
                allow_if(exists, &|| nothing_new(name))
            }
            // Which indexes there are is the hub's business, and makes no difference to whoever asks for one.
            AuthAction::CreateIndex {
                index_name: name, ..
            } if name.starts_with("idx_") => Ok(Authorization::Ignore),
            AuthAction::CreateIndex {
                index_name: name, ..
            }
            | AuthAction::CreateTrigger {
                trigger_name: name, ..
            }
            | AuthAction::CreateVtable {
                table_name: name, ..
            } => Err(nothing_new(name)),
            AuthAction::Attach { .. } | AuthAction::Detach { .. } => {
                Err("other files cannot be opened here (ATTACH, DETACH, VACUUM)".to_owned())
            }
            _ => Err(SCHEMA_STAYS.to_owned()),
        }
    }

    /// Whether a name is only one for a part of the statement. SQLite asks about these when no column is named.
    fn is_alias(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        !self.tables.contains(&name)
            && !self.modules.contains(&name)
            && !["sqlite_", "pragma_"]
                .iter()
                .any(|start| name.starts_with(start))
    }

    /// Instructions between two loops are not looked at while they run, so there may not be many expensive ones.
    fn counts_function(&self) -> Result<(), String> {
        if self.functions.fetch_add(1, Ordering::Relaxed) >= FUNCTIONS_MAX {
            return Err(format!(
                "a statement may call at most {FUNCTIONS_MAX} functions"
            ));
        }
        Ok(())
    }

    fn reason(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.forbidden
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a trigger of ours.
fn allows_trigger(action: &AuthAction<'_>) -> Result<Authorization, String> {
    let allowed = match *action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Read { table_name, .. }
        | AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name } => {
            public(table_name).is_some()
                || is_in(READABLE, table_name)
                || is_in(TRIGGERS_TOUCH, table_name)
        }
        AuthAction::Function { function_name } => {
            is_in(FUNCTIONS, function_name) || is_in(TRIGGERS_CALL, function_name)
        }
        _ => false,
    };
    match allowed {
        true => Ok(Authorization::Allow),
        false => Err(format!(
            "a trigger of the hub's may not do this: {action:?}"
        )),
    }
}

fn public(name: &str) -> Option<&'static Table> {
    table::public().find(|table| table.name.eq_ignore_ascii_case(name))
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

const SCHEMA_STAYS: &str = "the schema cannot be changed; only rows of the public tables can";

fn not_public(table: &str) -> String {
    if table.starts_with("sqlite_") {
        return SCHEMA_STAYS.to_owned();
    }
    let public: Vec<&str> = table::public().map(|table| table.name).collect();
    format!(
        "{table} is not a public table; these are: {}",
        public.join(", ")
    )
}

fn not_writable(table: &str, column: &str) -> String {
    format!("the column {table}.{column} is read-only: only the hub writes it")
}

fn nothing_new(name: &str) -> String {
    format!(
        "{name} cannot be created: the schema cannot be changed (CREATE … IF NOT EXISTS is accepted and ignored for what exists)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_in_order_so_that_none_is_there_twice() {
        assert!(FUNCTIONS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
