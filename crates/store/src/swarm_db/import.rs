//! The rows of an old file into the ledger, in one transaction together with a mark.
//!
//! They go in as if somebody had inserted them by hand, with a note each, and become ordinary when the hub adopts the
//! notes. So no rule is repeated here; what is kept in mind is only the order in which the notes can be taken up.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior, params,
};
use switchboard_core::{Timestamp, iso};

use super::Stopped;
use super::held::Held;
use super::old::{self, Fate, Fields, Reason};
use super::order::{Edges, order};
use super::report::{Kind, Report, Skipped};

mod rows;

/// Where the ledger remembers which file was imported last, in `swarm_metadata`.
const MARK: &str = "imported_from";
/// Nobody else writes the ledger before the hub serves, except by hand.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Imports what the ledger does not have. `None`: this very file was imported before.
pub fn import(held: &Held, ledger: &Path) -> Result<Option<Report>, Stopped> {
    let mut db = open(ledger).map_err(Stop::Ledger)?;
    let tx = db
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(Stop::Ledger)?;
    let mark = held.fingerprint();
    if marked(&tx).map_err(Stop::Ledger)?.as_deref() == Some(mark.as_str()) {
        return Ok(None);
    }
    let import = Import {
        old: &held.db,
        tx: &tx,
        now: wall(),
        report: Report::default(),
    };
    let report = import.run(&mark)?;
    tx.commit().map_err(Stop::Ledger)?;
    Ok(Some(report))
}

/// Which of the two files failed.
#[derive(Debug)]
enum Stop {
    Old(rusqlite::Error),
    Ledger(rusqlite::Error),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Stop::Old(error)
    }
}

impl From<Stop> for Stopped {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Old(error) => Stopped::Old(error.to_string()),
            Stop::Ledger(error) => Stopped::Ledger(error.to_string()),
        }
    }
}

fn open(ledger: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(ledger, flags)?;
    db.busy_timeout(LOCK_WAIT)?;
    // Triggers are for hands; they would refuse a task that comes with a past.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF;",
    )?;
    Ok(db)
}

fn marked(tx: &Transaction<'_>) -> rusqlite::Result<Option<String>> {
    let found: Option<Option<String>> = tx
        .query_row(
            "SELECT value FROM swarm_metadata WHERE key = ?1",
            [MARK],
            |row| row.get(0),
        )
        .optional()?;
    Ok(found.flatten())
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.unwrap_or_default().as_millis();
    Timestamp(i64::try_from(ms).unwrap_or(i64::MAX))
}

struct Import<'a> {
    old: &'a Connection,
    tx: &'a Transaction<'a>,
    now: Timestamp,
    report: Report,
}

impl Import<'_> {
    fn run(mut self, mark: &str) -> Result<Report, Stop> {
        self.agents()?;
        self.snapshots()?;
        self.tasks()?;
        self.messages()?;
        self.baseline()?;
        self.migrations()?;
        self.metadata()?;
        old::each::<Stop>(self.old, "leases", |_| {
            self.report.past += 1;
            Ok(())
        })?;
        self.report.others = old::others(self.old)?;
        let sql = "INSERT INTO swarm_metadata(key, value) VALUES (?1, ?2)
                   ON CONFLICT(key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at";
        self.tx.execute(sql, [MARK, mark]).map_err(Stop::Ledger)?;
        Ok(self.report)
    }

    /// Reads every row of a table and puts it into the ledger. False from `put` is that its id is there already.
    fn each<T>(
        &mut self,
        (table, kind): (&'static str, Kind),
        read: impl Fn(&Fields<'_>, Timestamp) -> Result<T, Reason>,
        mut put: impl FnMut(&Connection, &T) -> rusqlite::Result<bool>,
    ) -> Result<(), Stop> {
        old::each(self.old, table, |fields| {
            match read(fields, self.now) {
                Ok(row) => {
                    if put(self.tx, &row).map_err(Stop::Ledger)? {
                        self.report.came(kind);
                    } else {
                        self.report.known.push(fields.shown("id"));
                    }
                }
                Err(reason) => self.report.skipped.push(Skipped {
                    table,
                    id: fields.shown("id"),
                    reason,
                }),
            }
            Ok(())
        })
    }

    fn agents(&mut self) -> Result<(), Stop> {
        self.each(("agents", Kind::Agents), old::Agent::read, |tx, agent| {
            let is_new = rows::agent(tx, agent)?;
            if is_new {
                rows::note(tx, "agents", "id", &agent.id)?;
            }
            Ok(is_new)
        })
    }

    fn snapshots(&mut self) -> Result<(), Stop> {
        let of = ("quality_snapshots", Kind::Snapshots);
        self.each(of, old::Snapshot::read, rows::snapshot)
    }

    fn tasks(&mut self) -> Result<(), Stop> {
        let first = rows::lowest_number(self.tx, "tasks").map_err(Stop::Ledger)? - 1;
        let mut number = first;
        self.each(("tasks", Kind::Tasks), old::Task::read, |tx, task| {
            let is_new = rows::task(tx, number, task)?;
            if is_new {
                number -= 1;
            }
            Ok(is_new)
        })?;
        self.note_tasks(first).map_err(Stop::Ledger)
    }

    /// Those that depend on nothing first, then each after what it depends on.
    fn note_tasks(&mut self, first: i64) -> rusqlite::Result<()> {
        rows::note_where(
            self.tx,
            "tasks",
            "id",
            &format!("number <= {first} AND dependencies = '[]' ORDER BY created_at, number DESC"),
        )?;
        let mut edges = Edges::new();
        let mut tasks = Vec::new();
        let mut waiting = self.tx.prepare(
            "SELECT id, dependencies FROM tasks WHERE number <= ?1 AND dependencies <> '[]'
             ORDER BY created_at, number DESC",
        )?;
        let mut found = waiting.query([first])?;
        while let Some(row) = found.next()? {
            let (task, needs): (String, String) = (row.get(0)?, row.get(1)?);
            let needs: Vec<String> = serde_json::from_str(&needs).unwrap_or_default();
            edges.insert(task.clone(), needs);
            tasks.push(task);
        }
        self.forget_unknown(&tasks, &mut edges)?;
        let ordered = order(&tasks, &edges);
        for (task, need) in ordered.circular {
            let reason =
                format!("it depends on {need}, which depends on it; that dependency was skipped");
            self.without(&mut edges, task, &need, reason)?;
        }
        for task in &ordered.tasks {
            rows::note(self.tx, "tasks", "id", task)?;
        }
        Ok(())
    }

    /// A task cannot depend on one that is not there, nor can anyone say when it would be done.
    fn forget_unknown(&mut self, tasks: &[String], edges: &mut Edges) -> rusqlite::Result<()> {
        for task in tasks {
            for need in edges.get(task).cloned().unwrap_or_default() {
                if !rows::has_task(self.tx, &need)? {
                    let reason = format!(
                        "it depends on {need}, which does not exist; that dependency was skipped"
                    );
                    self.without(edges, task.clone(), &need, reason)?;
                }
            }
        }
        Ok(())
    }

    fn without(
        &mut self,
        edges: &mut Edges,
        task: String,
        need: &str,
        reason: Reason,
    ) -> rusqlite::Result<()> {
        if let Some(needs) = edges.get_mut(&task) {
            needs.retain(|known| known != need);
            let needs = serde_json::Value::from(needs.clone()).to_string();
            self.tx
                .prepare_cached("UPDATE tasks SET dependencies = ?1 WHERE id = ?2")?
                .execute(params![needs, task])?;
        }
        self.report.mended.push(Skipped {
            table: "tasks",
            id: task,
            reason,
        });
        Ok(())
    }

    fn messages(&mut self) -> Result<(), Stop> {
        let mut number = rows::lowest_number(self.tx, "messages").map_err(Stop::Ledger)? - 1;
        old::each(self.old, "messages", |fields| {
            let skipped = |reason| Skipped {
                table: "messages",
                id: fields.shown("id"),
                reason,
            };
            let message = match old::Message::read(fields, self.now) {
                Ok(Fate::Comes(message)) => message,
                Ok(Fate::Past) => {
                    self.report.past += 1;
                    return Ok(());
                }
                Err(reason) => {
                    self.report.skipped.push(skipped(reason));
                    return Ok(());
                }
            };
            if !rows::has_agent(self.tx, &message.to).map_err(Stop::Ledger)? {
                let reason = format!("its recipient {} does not exist", message.to);
                self.report.skipped.push(skipped(reason));
                return Ok(());
            }
            if rows::message(self.tx, number, &message).map_err(Stop::Ledger)? {
                rows::note(self.tx, "messages", "id", &message.id).map_err(Stop::Ledger)?;
                number -= 1;
                self.report.came(Kind::Messages);
            } else {
                self.report.known.push(message.id.clone());
            }
            Ok(())
        })
    }

    /// The one that the ledger has stays.
    fn baseline(&mut self) -> Result<(), Stop> {
        let of = ("quality_baseline", Kind::Baselines);
        self.each(of, old::Baseline::read, |tx, baseline| {
            let is_new = rows::baseline(tx, baseline)?;
            if is_new {
                rows::note(tx, "quality_baseline", "id", "1")?;
            }
            Ok(is_new)
        })
    }

    fn migrations(&mut self) -> Result<(), Stop> {
        let read = |fields: &Fields<'_>, now| {
            let name = fields.text("name", switchboard_core::limits::NAME_BYTES_MAX)?;
            let at = fields.instant("applied_at")?.unwrap_or(now);
            Ok((name.ok_or_else(|| "it has no name".to_owned())?, at))
        };
        let sql = "INSERT OR IGNORE INTO migrations(name, applied_at) VALUES (?1, ?2)";
        self.each(("migrations", Kind::Migrations), read, |tx, (name, at)| {
            let put = tx.prepare_cached(sql)?.execute(params![name, text(*at)])?;
            Ok(put > 0)
        })
    }

    /// What the ledger says of itself stands over what the file said of itself.
    fn metadata(&mut self) -> Result<(), Stop> {
        const OWN: [&str; 3] = ["schema_version", "created_at", MARK];
        let sql = "INSERT OR IGNORE INTO swarm_metadata(key, value) VALUES (?1, ?2)";
        old::each(self.old, "swarm_metadata", |fields| {
            let key = fields.text("key", switchboard_core::limits::NAME_BYTES_MAX);
            let value = fields.text("value", switchboard_core::limits::NOTE_BYTES_MAX);
            match (key, value) {
                (Ok(Some(key)), Ok(value)) if !OWN.contains(&key.as_str()) => {
                    let put = self
                        .tx
                        .prepare_cached(sql)
                        .and_then(|mut put| put.execute(params![key, value]))
                        .map_err(Stop::Ledger)?;
                    if put > 0 {
                        self.report.came(Kind::Metadata);
                    } else {
                        self.report.known.push(key);
                    }
                }
                (Ok(_), Ok(_)) => {}
                (Err(reason), _) | (_, Err(reason)) => self.report.skipped.push(Skipped {
                    table: "swarm_metadata",
                    id: fields.shown("key"),
                    reason,
                }),
            }
            Ok(())
        })
    }
}

/// As direct clients write and compare it.
fn text(at: Timestamp) -> String {
    iso::Printed::new(at).as_str().to_owned()
}
