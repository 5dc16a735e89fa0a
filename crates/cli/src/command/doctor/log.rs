//! The event log: whether its chain holds, and with `--deep` whether the tasks are as it says.
//!
//! Both are only read, also while a hub writes.

use std::collections::HashSet;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use switchboard_core::TaskId;
use switchboard_core::replay::{Contradiction, Replay};
use switchboard_hub::config::StoreAt;
use switchboard_store::chain::Verified;
use switchboard_store::{Error, Page, Reader, TaskFilter, inspect, postgres, sqlite};

use super::{Check, Scene};

const NAME: &str = "log";
const DEEP: &str = "replay";
/// Contradictions that are named; the others are counted.
const NAMED_MAX: usize = 20;
const EVENTS_PER_PAGE: usize = 1000;
const TASKS_PER_PAGE: usize = 1000;

/// The chain of the log; with `deep` also a replay of it against the tasks.
pub async fn checks(scene: &Scene, deep: bool) -> Vec<Check> {
    let (store, is_served) = (scene.store.clone(), scene.holder.is_some());
    let looked = tokio::task::spawn_blocking(move || look(&store, is_served, deep)).await;
    looked.unwrap_or_else(|_| {
        vec![Check::fail(
            NAME,
            "the check of the log was interrupted; run it again",
        )]
    })
}

fn look(store: &StoreAt, is_served: bool, deep: bool) -> Vec<Check> {
    if matches!(store, StoreAt::Sqlite(file) if !file.is_file()) {
        return Vec::new();
    }
    let mut checks = vec![match verify(store, is_served) {
        Ok(verified) => Check::ok(NAME, sound(&verified)),
        Err(error @ Error::Corrupt(_)) => Check::fail(NAME, error.to_string()),
        // Whether the ledger can be opened at all is told by its own line.
        Err(error) => Check::warn(NAME, format!("could not be verified: {error}")),
    }];
    if deep {
        checks.extend(match replay(store) {
            Ok(replayed) => replayed.checks(),
            Err(error) => vec![Check::fail(DEEP, format!("could not be done: {error}"))],
        });
    }
    checks
}

fn verify(store: &StoreAt, is_served: bool) -> Result<Verified, Error> {
    match store {
        StoreAt::Sqlite(file) => {
            let db = inspect::open(file, is_served);
            let db = db.map_err(|error| Error::Open(error.to_string()))?;
            sqlite::verify_log(&db, None)
        }
        StoreAt::Postgres(url) => postgres::verify_log(&url.address()?, None),
    }
}

fn sound(verified: &Verified) -> String {
    let rows = verified.rows;
    match verified.without_hash {
        0 => format!("the hash chain over {rows} batches of events is unbroken"),
        bare => format!(
            "the hash chain over {rows} batches of events is unbroken; {bare} of them are older than the chain and have no hash"
        ),
    }
}

/// What a replay found.
#[derive(Default)]
struct Replayed {
    tasks: usize,
    events: u64,
    contradictions: Vec<Contradiction>,
}

impl Replayed {
    fn checks(&self) -> Vec<Check> {
        let (tasks, events) = (self.tasks, self.events);
        if self.contradictions.is_empty() {
            let text = format!("{tasks} tasks match {events} events of the log");
            return vec![Check::ok(DEEP, text)];
        }
        let named = self.contradictions.iter().take(NAMED_MAX);
        let mut checks: Vec<Check> = named
            .map(|found| Check::fail(DEEP, sentence(found)))
            .collect();
        if self.contradictions.len() > NAMED_MAX {
            let more = self.contradictions.len() - NAMED_MAX;
            let text = format!("and {more} more; restore a backup");
            checks.push(Check::fail(DEEP, text));
        }
        checks
    }
}

fn sentence(found: &Contradiction) -> String {
    let Contradiction {
        task,
        what,
        row,
        log,
        event,
    } = found;
    match *what {
        "row" => format!("task {task}: its row {row}, but by event {event} of the log it is {log}"),
        what => {
            format!("task {task}: {what} is {row}, but by event {event} of the log it is {log}")
        }
    }
}

fn replay(store: &StoreAt) -> Result<Replayed, Error> {
    match store {
        StoreAt::Sqlite(file) => {
            let _sweeper = sweeper(file);
            compare(&*sqlite::read_only(file)?)
        }
        StoreAt::Postgres(url) => compare(&*postgres::read_only(url.address()?)?),
    }
}

/// The last connection to a file with an empty log removes that log: what a look makes does not stay.
fn sweeper(file: &Path) -> Option<Connection> {
    if inspect::log_bytes(file) > 0 {
        return None;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags).ok()?;
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .ok()?;
    Some(db)
}

/// A hub may write meanwhile: a task of which more was heard after its row was read is left out.
fn compare(reader: &dyn Reader) -> Result<Replayed, Error> {
    let mut replay = Replay::default();
    let (mut events, before) = hear(reader, &mut replay, 0)?;
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        let page = Page {
            after,
            limit: TASKS_PER_PAGE,
        };
        let page = reader.tasks(&TaskFilter::default(), &page)?;
        rows.extend(page.rows);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let (more, _) = hear(reader, &mut replay, before)?;
    events += more;
    let settled = |task: &TaskId| !replay.is_newer(task, before);
    let ids: HashSet<TaskId> = rows.iter().map(|task| task.id.clone()).collect();
    let mut contradictions: Vec<Contradiction> = rows
        .iter()
        .flat_map(|task| replay.compare(task))
        .chain(replay.missing(&ids))
        .collect();
    contradictions.retain(|found| settled(&found.task));
    Ok(Replayed {
        tasks: rows.len(),
        events,
        contradictions,
    })
}

/// Replays what was logged after an event; how many, and the last.
fn hear(reader: &dyn Reader, replay: &mut Replay, after: u64) -> Result<(u64, u64), Error> {
    let (mut heard, mut last) = (0, after);
    loop {
        let page = reader.events(last, EVENTS_PER_PAGE)?;
        let Some(newest) = page.last() else {
            return Ok((heard, last));
        };
        heard += page.len() as u64;
        last = newest.seq;
        page.iter().for_each(|logged| replay.hear(logged));
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use switchboard_core::verb::{CreateTasks, NewTask};
    use switchboard_store::ManualClock;
    use switchboard_store::conformance::{self, Ledger};
    use switchboard_store::sqlite::SqliteEngine;

    #[test]
    fn a_changed_row_and_a_changed_log_are_found_and_sound_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger.db");
        let clock = ManualClock::at(conformance::START);
        let engine = SqliteEngine::open(&file, Box::new(clock)).unwrap();
        let mut ledger = Ledger::new(Box::new(engine));
        let tasks = ["a", "b", "c"].map(|id| NewTask::plain(id, "a title"));
        ledger
            .run(CreateTasks {
                tasks: tasks.to_vec(),
            })
            .unwrap();
        drop(ledger);
        let store = StoreAt::Sqlite(file.clone());
        let states = || -> Vec<State> {
            look(&store, false, true)
                .iter()
                .map(|it| it.state)
                .collect()
        };
        assert_eq!(states(), [State::Ok, State::Ok]);
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 1, "only the file");

        let db = Connection::open(&file).unwrap();
        // As damage would: no hand write that triggers refuse or note.
        let quiet = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
        db.set_db_config(quiet, false).unwrap();
        db.execute_batch("UPDATE tasks SET epoch = 4 WHERE id = 'a'; UPDATE tasks SET status = 'failed' WHERE id = 'b'; DELETE FROM tasks WHERE id = 'c'")
            .unwrap();
        let said: Vec<String> = look(&store, false, true)
            .into_iter()
            .map(|it| it.text)
            .collect();
        for (said, expected) in said[1..].iter().zip([
            "task a: epoch is 4, but by event",
            "task b: status is failed, but by event",
            "task c: its row is missing",
        ]) {
            assert!(said.contains(expected), "{said}");
        }
        assert_eq!(said.len(), 4, "{said:?}");

        db.execute_batch("UPDATE sb_log SET body = replace(body, '\"a\"', '\"z\"')")
            .unwrap();
        assert_eq!(states()[0], State::Fail);
    }

    #[test]
    fn without_a_file_there_is_nothing_to_say() {
        assert_eq!(
            look(&StoreAt::Sqlite("/nowhere/x.db".into()), false, true),
            []
        );
    }
}
