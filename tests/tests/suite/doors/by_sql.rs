//! Agents that open the hub's file and run the statements of `docs/direct-sql.md`.

use std::thread;

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, Row};
use serde_json::{Value, json};
use switchboard_tests::PATIENCE;

use super::{Pool, REST, Record, result};

/// A connection of one's own.
pub struct Sql<'a> {
    pool: &'a Pool,
    db: Connection,
}

/// Values of parameters by name, without the colon.
pub type Given = Vec<(&'static str, Value)>;

pub fn work(pool: &Pool, agent: &str) -> Record {
    let sql = Sql::open(pool);
    let mut record = Record {
        agent: agent.to_owned(),
        ..Record::default()
    };
    sql.run("register", &registration(agent), |_| Ok(()));
    while !pool.is_done() {
        let claim = vec![("agent", json!(agent)), ("exclude", json!([]))];
        let claimed = sql.run("claim", &claim, |row| {
            let epoch: i64 = row.get("epoch")?;
            Ok((row.get::<_, String>("id")?, epoch.unsigned_abs()))
        });
        let Some(task) = claimed.into_iter().next() else {
            thread::sleep(REST);
            continue;
        };
        record.handed.push(task.clone());
        let (id, epoch) = &task;
        let report = vec![
            ("agent", json!(agent)),
            ("task", json!(id)),
            ("epoch", json!(epoch)),
            ("result", result()),
        ];
        let done = sql.run("complete", &report, |row| row.get::<_, String>(0));
        assert_eq!(done, [id.as_str()], "{agent} lost what it held");
        record.completed.push(task);
    }
    record
}

pub fn registration(agent: &str) -> Given {
    let mut given: Given = ["machine", "hostname", "pid"]
        .map(|name| (name, Value::Null))
        .to_vec();
    given.extend(["tests", "build", "browser"].map(|name| (name, json!(true))));
    given.extend([
        ("agent", json!(agent)),
        ("name", json!(agent)),
        ("type", json!("custom")),
        ("skills", json!([])),
        ("minutes", json!(60)),
    ]);
    given
}

impl<'a> Sql<'a> {
    pub fn open(pool: &'a Pool) -> Sql<'a> {
        let db = Connection::open(&pool.database).expect("the hub's file can be opened");
        db.busy_timeout(PATIENCE).expect("it can be set");
        db.pragma_update(None, "wal_autocheckpoint", 0)
            .expect("it can be set");
        Sql { pool, db }
    }

    /// Runs the one statement of a block to its end.
    pub fn run<T>(
        &self,
        block: &str,
        given: &Given,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Vec<T> {
        let statements = self.pool.page.statements(block);
        assert_eq!(statements.len(), 1, "{block}");
        let mut statement = self.db.prepare_cached(&statements[0]).expect("it is SQL");
        parameters(&mut statement, given).expect("all parameters are known");
        let rows = statement.raw_query().mapped(read).collect();
        let rows: rusqlite::Result<Vec<T>> = rows;
        rows.unwrap_or_else(|error| panic!("{block}: {error}"))
    }

    /// Tasks with what they depend on, in one transaction.
    pub fn create(&self, tasks: Vec<(String, Value)>) {
        self.db.execute_batch("BEGIN IMMEDIATE").expect("a turn");
        for (id, on) in tasks {
            let given = vec![
                ("task", json!(id)),
                ("title", json!(id)),
                ("description", Value::Null),
                ("priority", json!("medium")),
                ("type", json!("code")),
                ("skills", json!([])),
                ("dependencies", on),
                ("files", json!([])),
                ("minutes", Value::Null),
            ];
            self.run("create_task", &given, |_| Ok(()));
        }
        self.db.execute_batch("COMMIT").expect("it can be written");
    }
}

fn parameters(statement: &mut rusqlite::Statement<'_>, given: &Given) -> rusqlite::Result<()> {
    for at in 1..=statement.parameter_count() {
        let name = statement.parameter_name(at).unwrap_or_default();
        let name = name.trim_start_matches(':');
        let (_, value) = given
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("nobody says what :{name} is"));
        let cell = match value {
            Value::Null => Cell::Null,
            Value::Bool(yes) => Cell::Integer((*yes).into()),
            Value::Number(number) => Cell::Integer(number.as_i64().unwrap_or_default()),
            Value::String(text) => Cell::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => Cell::Text(value.to_string()),
        };
        statement.raw_bind_parameter(at, cell)?;
    }
    Ok(())
}
