//! SQL of strangers: what the guard lets pass touches no private table, by SQLite's own word.
//!
//! Which functions it may call is held by the store's own test, which knows the list.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::sqlite::door::Session;
use switchboard_store::{Engine as _, SystemClock};
use tempfile::TempDir;

/// A session of a stranger, and a connection without a guard that notes what is private.
pub struct Stage {
    session: Session,
    bare: Connection,
    private: Arc<Mutex<Vec<String>>>,
    _engine: SqliteEngine,
    _home: TempDir,
}

impl Default for Stage {
    fn default() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.db");
        let engine = SqliteEngine::open(&path, Box::new(SystemClock::new())).unwrap();
        let (bare, private) = bare(&path);
        Self {
            session: engine.door().unwrap().open().unwrap(),
            bare,
            private,
            _engine: engine,
            _home: home,
        }
    }
}

pub fn check(bytes: &[u8]) {
    static STAGE: LazyLock<Mutex<Stage>> = LazyLock::new(Mutex::default);
    STAGE.lock().unwrap().check(bytes);
}

impl Stage {
    pub fn check(&mut self, bytes: &[u8]) {
        let sql = String::from_utf8_lossy(bytes);
        let until = Instant::now() + Duration::from_secs(600);
        if self.session.describe(&sql, until).is_ok() {
            let touched = self.touched(&sql);
            assert!(touched.is_empty(), "{sql:?} touches {touched:?}");
        }
    }

    /// What the first statement of a text asks for that is private.
    pub fn touched(&self, sql: &str) -> Vec<String> {
        self.private.lock().unwrap().clear();
        let _ = rusqlite::Batch::new(&self.bare, sql).next();
        std::mem::take(&mut self.private.lock().unwrap())
    }
}

fn bare(path: &Path) -> (Connection, Arc<Mutex<Vec<String>>>) {
    let mut db = Connection::open(path).unwrap();
    // What triggers touch is not the statement's own doing.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    let tables: Vec<String> = {
        let mut ours = db
            .prepare("SELECT lower(name) FROM sqlite_master WHERE type = 'table' AND name LIKE 'sb~_%' ESCAPE '~'")
            .unwrap();
        let names = ours.query_map([], |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect()
    };
    assert!(!tables.is_empty());
    let private = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&private);
    db.authorizer(Some(move |context: AuthContext<'_>| {
        let is_ours = |table: &str| tables.contains(&table.to_ascii_lowercase());
        let is_private = match context.action {
            AuthAction::Read { table_name, .. }
            | AuthAction::Insert { table_name }
            | AuthAction::Update { table_name, .. }
            | AuthAction::Delete { table_name } => is_ours(table_name),
            AuthAction::Attach { .. } | AuthAction::Detach { .. } => true,
            _ => false,
        };
        if is_private {
            noted.lock().unwrap().push(format!("{:?}", context.action));
        }
        match context.action {
            // The guard has these answered as done.
            AuthAction::CreateIndex { .. } => Authorization::Ignore,
            _ => Authorization::Allow,
        }
    }))
    .unwrap();
    (db, private)
}
