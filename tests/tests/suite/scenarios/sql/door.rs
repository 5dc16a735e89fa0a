//! Where statements go in: a connection of one's own on the hub's file, or the hub's libSQL endpoint.

use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, Statement, params_from_iter};
use serde_json::{Map, Value, json};
use switchboard_store::ManualClock;
use switchboard_wire::IsoTime;

use super::agents::STEWARD;
use super::pipeline;
use crate::scenarios::http::HubHere;

pub enum Door {
    File(Connection),
    /// With a token of scope `sql`, and one of scope `sql:steward` for the steward.
    Pipeline(String, String),
}

/// Parameters by their names, without the colon.
pub type Given = Map<String, Value>;
pub type Row = Map<String, Value>;

/// What became of one statement.
pub struct Ran {
    pub rows: Vec<Row>,
    pub changed: u64,
}

impl Door {
    /// As the page says that a file is opened, with the scene's clock for `now`.
    pub fn file(hub: &HubHere, clock: &ManualClock) -> Door {
        let db = Connection::open(hub.database()).expect("the hub's file can be opened");
        db.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA wal_autocheckpoint = 0;")
            .expect("it can be set up");
        tell_time(&db, clock);
        Door::File(db)
    }

    pub async fn pipeline(hub: &mut HubHere) -> Door {
        Door::Pipeline(token(hub, "sql").await, token(hub, "sql:steward").await)
    }

    /// Runs statements in turn; the first that fails undoes them all.
    pub async fn run(
        &mut self,
        hub: &mut HubHere,
        statements: &[String],
        given: &Given,
    ) -> Result<Vec<Ran>, String> {
        match self {
            Door::File(db) => on_file(db, statements, given),
            Door::Pipeline(agents, stewards) => {
                let is_steward = given.get("agent").is_some_and(|agent| agent == STEWARD);
                let token = if is_steward { stewards } else { agents };
                pipeline::run(hub, token, statements, given).await
            }
        }
    }
}

/// As a steward makes one.
async fn token(hub: &mut HubHere, scope: &str) -> String {
    let asked = json!({"name": "scenes", "scope": scope});
    let made = hub.post("/api/v1/tokens", &asked).await;
    let token = made.body["token"]["secret"].as_str();
    token.unwrap_or_else(|| panic!("{}", made.body)).to_owned()
}

fn on_file(db: &Connection, statements: &[String], given: &Given) -> Result<Vec<Ran>, String> {
    let several = statements.len() > 1 && !statements[0].starts_with("BEGIN");
    let around = |sql: &str| {
        if several {
            db.execute_batch(sql).map_err(|error| error.to_string())
        } else {
            Ok(())
        }
    };
    around("BEGIN IMMEDIATE")?;
    let ran: rusqlite::Result<Vec<Ran>> =
        statements.iter().map(|sql| one(db, sql, given)).collect();
    let ran = ran.map_err(|error| match error {
        // The sentence of a trigger as its client sees it.
        rusqlite::Error::SqliteFailure(_, Some(sentence)) => sentence,
        other => other.to_string(),
    });
    if ran.is_err() && !db.is_autocommit() {
        db.execute_batch("ROLLBACK")
            .expect("what was begun can be undone");
        return ran;
    }
    around("COMMIT")?;
    ran
}

fn one(db: &Connection, sql: &str, given: &Given) -> rusqlite::Result<Ran> {
    let mut statement = db.prepare(sql)?;
    bind(&mut statement, given)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let is_query = sql.starts_with("SELECT");
    let mut rows = Vec::new();
    let mut found = statement.raw_query();
    while let Some(row) = found.next()? {
        let cell = |(at, name): (usize, &String)| Ok((name.clone(), json_of(row.get_ref(at)?)));
        rows.push(
            names
                .iter()
                .enumerate()
                .map(cell)
                .collect::<rusqlite::Result<Row>>()?,
        );
    }
    drop(found);
    let changed = if is_query { 0 } else { db.changes() };
    Ok(Ran { rows, changed })
}

fn bind(statement: &mut Statement<'_>, given: &Given) -> rusqlite::Result<()> {
    for at in 1..=statement.parameter_count() {
        let name = statement.parameter_name(at).expect("parameters have names");
        let value = &given[name.trim_start_matches(':')];
        let cell = match value {
            Value::Null => Cell::Null,
            Value::Bool(yes) => Cell::Integer((*yes).into()),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Cell::Integer(whole),
                None => Cell::Real(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Cell::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => Cell::Text(value.to_string()),
        };
        statement.raw_bind_parameter(at, cell)?;
    }
    Ok(())
}

fn json_of(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(_) => panic!("the public tables hold no blobs"),
    }
}

/// Rows of a statement with parameters in order.
pub fn rows<const N: usize>(db: &Connection, sql: &str, given: [&str; N]) -> Vec<Row> {
    let mut statement = db.prepare_cached(sql).expect("it is SQL");
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let read = |row: &rusqlite::Row<'_>| {
        let cell = |(at, name): (usize, &String)| Ok((name.clone(), json_of(row.get_ref(at)?)));
        names.iter().enumerate().map(cell).collect()
    };
    let found = statement.query_map(params_from_iter(given), read);
    let found = found.and_then(Iterator::collect);
    found.expect("tables can be read")
}

/// The functions of time by the scene's clock instead of the machine's, in triggers too.
fn tell_time(db: &Connection, clock: &ManualClock) {
    for name in [
        "strftime",
        "julianday",
        "datetime",
        "date",
        "time",
        "unixepoch",
    ] {
        let theirs = Connection::open_in_memory().expect("a place to calculate");
        let clock = clock.clone();
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
        let made = db.create_scalar_function(name, -1, flags, move |call| {
            let mut cells = Vec::with_capacity(call.len());
            for at in 0..call.len() {
                let cell: Cell = call.get(at)?;
                cells.push(match cell {
                    Cell::Text(text) if text.eq_ignore_ascii_case("now") => {
                        Cell::Text(IsoTime(clock.now().0).to_string())
                    }
                    other => other,
                });
            }
            let places = vec!["?"; cells.len()].join(", ");
            theirs
                .prepare_cached(&format!("SELECT {name}({places})"))?
                .query_row(params_from_iter(cells), |row| row.get::<_, Cell>(0))
        });
        made.expect("a function can be replaced");
    }
}
