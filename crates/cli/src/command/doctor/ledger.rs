//! The ledger: sound, of a schema that this build serves, whole, and the one that is meant.

use std::fs;
use std::io;
use std::path::Path;

use switchboard_hub::config::{PostgresUrl, StoreAt};
use switchboard_hub::data_dir::Holder;
use switchboard_store::inspect::{self, Found};
use switchboard_store::moved::Kind;

use super::{Check, Scene};
use crate::discover;
use crate::project;
use crate::show::bytes;

const NAME: &str = "ledger";

pub async fn checks(scene: &Scene, deep: bool) -> Vec<Check> {
    let mut checks = match &scene.store {
        StoreAt::Sqlite(file) => in_file(file, scene.holder.as_ref(), deep),
        StoreAt::Postgres(url) => in_database(url, scene).await,
    };
    checks.extend(other_store(scene));
    checks
}

/// A hub that was started with `--store` is one thing, what the settings name is another.
fn other_store(scene: &Scene) -> Option<Check> {
    let served = project::served(&scene.found)?;
    let configured = project::configured(&scene.data_dir, &scene.here);
    let shown = |store: &StoreAt| match store.place() {
        Ok(place) => place.settled().to_string(),
        Err(error) => error.to_string(),
    };
    let (served, configured) = (shown(&served), shown(&configured));
    (served != configured).then(|| {
        Check::warn(
            NAME,
            format!(
                "the running hub serves {served}, but the settings name {configured}; set [store] url in switchboard.toml, or the next 'switchboard up' without --store serves the other one"
            ),
        )
    })
}

async fn in_database(url: &PostgresUrl, scene: &Scene) -> Vec<Check> {
    if let discover::Found::Running { .. } = scene.found {
        // It may know a password that nobody knows here; whether its ledger answers is asked further down.
        return vec![Check::ok(NAME, format!("is at {url:?}"))];
    }
    let address = match url.address() {
        Ok(address) => address,
        Err(error) => return vec![Check::fail(NAME, error.to_string())],
    };
    let looked = tokio::task::spawn_blocking(move || inspect::database(&address)).await;
    let shown = format!("{url:?}");
    vec![match looked {
        Ok(Ok(None)) => Check::warn(
            NAME,
            format!("there is no ledger in {shown} yet; 'switchboard up' creates it"),
        ),
        Ok(Ok(Some(found))) => {
            refusal(&shown, &found).unwrap_or_else(|| Check::ok(NAME, format!("is at {shown}")))
        }
        Ok(Err(error)) => Check::fail(NAME, format!("{shown}: {error}")),
        Err(error) => Check::fail(NAME, format!("{shown} could not be checked: {error}")),
    }]
}

/// What `up` would say to it.
fn refusal(shown: &str, found: &Found) -> Option<Check> {
    if let Some(source) = &found.copy_of {
        let text = format!(
            "{shown} is an unfinished copy of {source}; run the same 'switchboard migrate' again to finish it"
        );
        return Some(Check::fail(NAME, text));
    }
    if let Some(mark) = &found.moved {
        let text = mark.sentence(shown);
        return Some(match mark.kind {
            Kind::Moved => Check::fail(NAME, text),
            Kind::Unserved => Check::warn(NAME, text),
        });
    }
    if found.schema > found.known {
        let text = format!(
            "{shown} has schema version {}, but this build supports only up to {}, so 'switchboard up' would fail; use a newer build of switchboard",
            found.schema, found.known
        );
        return Some(Check::fail(NAME, text));
    }
    None
}

/// Health and journal mode, if there is a file, and what a start would say to it.
fn in_file(file: &Path, holder: Option<&Holder>, deep: bool) -> Vec<Check> {
    let shown = file.display();
    let log = inspect::log_bytes(file);
    let size = match fs::metadata(file) {
        Ok(meta) => meta.len() + log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = match file.is_symlink() {
                true => format!("{shown} is a broken link; remove it"),
                false => format!("{shown} does not exist yet; 'switchboard up' creates it"),
            };
            return vec![Check::warn(NAME, text)];
        }
        Err(error) => {
            return vec![Check::fail(
                NAME,
                format!("{shown} cannot be read: {error}"),
            )];
        }
    };
    let has_log = inspect::has_log(file);
    let looked = inspect::open(file, holder.is_some()).and_then(|db| {
        let check = match deep {
            true => "PRAGMA integrity_check(1)",
            false => "PRAGMA quick_check(1)",
        };
        let verdict: String = db.query_row(check, [], |row| row.get(0))?;
        Ok((verdict, inspect::file(&db)))
    });
    let (verdict, found) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            let text =
                format!("{shown} cannot be opened: {error}; if it is damaged, restore a backup");
            return vec![Check::fail(NAME, text)];
        }
    };
    let mut checks = vec![if verdict == "ok" {
        Check::ok(NAME, format!("{shown} is intact ({})", bytes(size)))
    } else {
        Check::fail(
            NAME,
            format!("{shown} is damaged ({verdict}); stop the hub and restore a backup"),
        )
    }];
    match found {
        Ok(Some(found)) => checks.extend(refusal(&format!("sqlite:{shown}"), &found)),
        Ok(None) => checks.push(Check::fail(
            NAME,
            format!("{shown} is not a Switchboard database; set another file with [store] path"),
        )),
        Err(error) => checks.push(Check::fail(NAME, format!("{shown}: {error}"))),
    }
    checks.push(match has_log {
        Ok(true) => Check::ok("journal", "mode wal"),
        Ok(false) | Err(_) => Check::warn(
            "journal",
            "not in mode wal, so the hub is slow or does not start; move the ledger to a local disk if this is a network file system",
        ),
    });
    checks
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use switchboard_hub::config::DATABASE;
    use switchboard_store::SystemClock;
    use switchboard_store::sqlite::SqliteEngine;

    use super::super::State;
    use super::*;

    fn states(file: &Path) -> Vec<State> {
        let checks = in_file(file, None, false);
        checks.iter().map(|check| check.state).collect()
    }

    #[test]
    fn a_sound_ledger_and_a_damaged_one_are_told_apart_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("50% a?b#c");
        fs::create_dir(&folder).unwrap();
        let file = folder.join(DATABASE);
        assert_eq!(states(&file), [State::Warn], "it is not there yet");
        drop(SqliteEngine::open(&file, Box::new(SystemClock::new())).unwrap());
        assert_eq!(states(&file), [State::Ok, State::Ok]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "only the file");
        let db = Connection::open(&file).unwrap();
        let newer = "INSERT INTO sb_migration(version, name, checksum) VALUES (9999, 'x', 'y')";
        db.execute_batch(newer).unwrap();
        drop(db);
        let checks = in_file(&file, None, false);
        assert_eq!(checks[1].state, State::Fail);
        assert!(checks[1].text.contains("schema version 9999"), "{checks:?}");
        fs::write(&file, vec![b'x'; 4096]).unwrap();
        assert_eq!(states(&file), [State::Fail]);
    }
}
