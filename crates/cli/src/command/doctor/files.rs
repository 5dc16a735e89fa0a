//! What lies on disk: configuration, data directory, ledger, key.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use switchboard_hub::config::{CONFIG_FILE, Overrides, StoreAt};
use switchboard_hub::swarm_db::{Look, SwarmDb};

use super::Check;
use crate::project;
use crate::show::bytes;

/// The master key's file in a data directory.
const KEY: &str = "key";
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the settings can be read, and what in them nobody understands.
pub fn config(here: &Path) -> Vec<Check> {
    let loaded = match project::load(here, None, Overrides::default()) {
        Ok(loaded) => loaded,
        Err(error) => {
            return vec![Check::fail(
                "config",
                format!("{error}; mend it, or write a fresh one with 'switchboard init --force'"),
            )];
        }
    };
    let file = loaded.config.project.join(CONFIG_FILE);
    let mut checks: Vec<Check> = loaded
        .warnings
        .iter()
        .map(|warning| Check::warn("config", warning.clone()))
        .collect();
    if let Err(error) = loaded.config.check_address() {
        checks.push(Check::fail("config", error.to_string()));
    }
    if checks.is_empty() {
        checks.push(if file.exists() {
            Check::ok("config", format!("{} is understood", file.display()))
        } else {
            Check::ok(
                "config",
                format!("no {CONFIG_FILE}, so the defaults hold; 'switchboard init' writes one"),
            )
        });
    }
    checks
}

pub fn data_dir(dir: &Path) -> Check {
    let shown = dir.display();
    match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Check::warn(
            "data",
            format!("{shown} does not exist yet; 'switchboard up' makes it"),
        ),
        Err(error) => Check::fail(
            "data",
            format!("{shown} cannot be read: {error}; mend its permissions"),
        ),
        Ok(meta) if !meta.is_dir() => {
            Check::fail("data", format!("{shown} is no directory; move it away"))
        }
        Ok(_) => match try_write(dir) {
            Ok(()) => Check::ok("data", format!("{shown} is writable")),
            Err(error) => Check::fail(
                "data",
                format!("{shown} cannot be written to: {error}; mend its permissions or make room"),
            ),
        },
    }
}

fn try_write(dir: &Path) -> io::Result<()> {
    let file = dir.join(format!(".doctor-{}", std::process::id()));
    let wrote = fs::write(&file, b"ok");
    match fs::remove_file(&file) {
        Err(error) if wrote.is_ok() => Err(error),
        _ => wrote,
    }
}

/// Two checks if there is a ledger: its health and its journal mode.
pub fn ledger(file: &Path) -> Vec<Check> {
    let shown = file.display();
    let size = match fs::metadata(file) {
        Ok(meta) => {
            meta.len() + fs::metadata(file.with_extension("db-wal")).map_or(0, |wal| wal.len())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return vec![Check::warn(
                "ledger",
                format!("{shown} does not exist yet; 'switchboard up' makes it"),
            )];
        }
        Err(error) => {
            return vec![Check::fail(
                "ledger",
                format!("{shown} cannot be read: {error}"),
            )];
        }
    };
    match inspect(file) {
        Ok((verdict, mode)) => {
            let health = if verdict == "ok" {
                Check::ok("ledger", format!("{shown} is sound ({})", bytes(size)))
            } else {
                Check::fail(
                    "ledger",
                    format!(
                        "{shown} is damaged ({verdict}); stop the hub and put a backup in its place"
                    ),
                )
            };
            let journal = if mode == "wal" {
                Check::ok("journal", "mode wal")
            } else {
                let text = format!(
                    "mode {mode} instead of wal: the hub is slow or refuses to start; is this a network file system?"
                );
                Check::warn("journal", text)
            };
            vec![health, journal]
        }
        Err(error) => vec![Check::fail(
            "ledger",
            format!(
                "{shown} cannot be opened: {error}; if it is damaged, put a backup in its place"
            ),
        )],
    }
}

fn inspect(file: &Path) -> rusqlite::Result<(String, String)> {
    let connection = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let verdict = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    let mode = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    Ok((verdict, mode))
}

/// Whether Jetpack's tools, which open `.jetpack/swarm.db`, reach the hub's ledger.
pub fn swarm_db(here: &Path) -> Option<Check> {
    const NAME: &str = "swarm.db";
    let config = project::load(here, None, Overrides::default()).ok()?.config;
    let StoreAt::Sqlite(ledger) = &config.store else {
        return None;
    };
    let shown = SwarmDb::SHOWN;
    if !config.swarm_db {
        let text = format!("{shown} is left alone by [store] swarm_db = false");
        return Some(Check::ok(NAME, text));
    }
    Some(match SwarmDb::new(&config.project, ledger).look() {
        Look::Linked => Check::ok(NAME, format!("{shown} opens the ledger")),
        Look::Ledger => Check::ok(NAME, format!("{shown} is the ledger")),
        Look::Absent => Check::ok(
            NAME,
            format!("{shown} does not exist yet; 'switchboard up' makes it"),
        ),
        Look::Stale { target } => Check::warn(
            NAME,
            format!(
                "{shown} is a link to {}, where the ledger no longer is; 'switchboard up' makes it anew",
                target.display()
            ),
        ),
        Look::Foreign { target } => Check::warn(
            NAME,
            format!(
                "{shown} is a link to {}, which is not the ledger; remove it and start the hub again",
                target.display()
            ),
        ),
        Look::Old => Check::warn(
            NAME,
            format!(
                "{shown} is a database of its own, so tools that open it do not reach the hub; the next 'switchboard up' imports it"
            ),
        ),
        Look::Odd => Check::warn(
            NAME,
            format!("{shown} is neither a file nor a link; move it away and start the hub again"),
        ),
        Look::Unreadable { why } => Check::warn(
            NAME,
            format!("{shown} cannot be looked at: {why}; mend its permissions"),
        ),
    })
}

pub fn key(dir: &Path) -> Check {
    let file = dir.join(KEY);
    let shown = file.display();
    match fs::metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Check::ok(
            "key",
            "no master key yet; the hub makes it when it is needed",
        ),
        Err(error) => Check::fail("key", format!("{shown} cannot be read: {error}")),
        Ok(meta) => match meta.permissions().mode() & 0o777 {
            0o600 | 0o400 => Check::ok("key", format!("{shown} is readable by its owner only")),
            mode => Check::fail(
                "key",
                format!(
                    "{shown} has mode {mode:o}, so others can act as any agent; run 'chmod 600 {shown}'"
                ),
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use crate::project::DATABASE;

    #[test]
    fn a_project_without_a_hub_is_only_warned_about() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(".switchboard");
        assert_eq!(data_dir(&dir).state, State::Warn);
        assert_eq!(ledger(&dir.join(DATABASE))[0].state, State::Warn);
        assert_eq!(key(&dir).state, State::Ok);
    }

    #[test]
    fn a_sound_ledger_and_a_damaged_one_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(DATABASE);
        Connection::open(&file)
            .unwrap()
            .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x)")
            .unwrap();
        let states: Vec<_> = ledger(&file).iter().map(|check| check.state).collect();
        assert_eq!(states, [State::Ok, State::Ok]);
        fs::write(&file, vec![b'x'; 4096]).unwrap();
        assert_eq!(ledger(&file)[0].state, State::Fail);
    }

    #[test]
    fn a_link_that_leads_elsewhere_and_a_database_in_its_place_are_warned_about() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join(SwarmDb::SHOWN);
        let ledger = dir.path().join(".switchboard").join(DATABASE);
        let state = || swarm_db(dir.path()).unwrap().state;
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        fs::create_dir_all(ledger.parent().unwrap()).unwrap();
        assert_eq!(state(), State::Ok);
        std::os::unix::fs::symlink(&ledger, &link).unwrap();
        assert_eq!(state(), State::Ok);
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert_eq!(state(), State::Warn);
        fs::remove_file(&link).unwrap();
        fs::write(&link, "").unwrap();
        assert_eq!(state(), State::Warn);
        let off = "[store]\nswarm_db = false\n";
        fs::write(dir.path().join(CONFIG_FILE), off).unwrap();
        assert_eq!(state(), State::Ok);
    }

    #[test]
    fn a_key_that_others_can_read_fails_with_the_command_to_mend_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(KEY);
        fs::write(&file, b"secret").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let check = key(dir.path());
        assert_eq!(check.state, State::Fail);
        assert!(check.text.contains("chmod 600"), "{}", check.text);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(key(dir.path()).state, State::Ok);
    }

    #[test]
    fn the_data_directory_is_tried_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(data_dir(dir.path()).state, State::Ok);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        assert_eq!(data_dir(&file).state, State::Fail);
    }

    #[test]
    fn settings_are_understood_or_named() {
        let dir = tempfile::tempdir().unwrap();
        let states = || -> Vec<_> { config(dir.path()).iter().map(|check| check.state).collect() };
        assert_eq!(states(), [State::Ok]);
        let file = dir.path().join(CONFIG_FILE);
        for (text, expected) in [
            ("", State::Ok),
            ("[http]\nlissten = \"x\"", State::Warn),
            ("[http]\nlisten = 7", State::Fail),
            ("[http", State::Fail),
            ("[http]\nlisten = \"0.0.0.0:1\"", State::Fail),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(states(), [expected], "{text}");
        }
    }
}
