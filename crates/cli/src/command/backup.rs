//! `switchboard backup`: a copy of the SQLite ledger, taken while the hub runs or while it does not, and of its key.
//!
//! The copy is made from one read snapshot, so that a busy hub neither waits for it nor restarts it; it is checked, and only
//! then gets its name. `restore` puts it back.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use switchboard_hub::config::StoreAt;
use switchboard_hub::data_dir::{Keys, ignore_all, make_private};
use switchboard_store::moved;

use crate::context::Context;
use crate::failure::Failure;
use crate::show::{bytes, now};

/// Pages that are copied between two looks at the progress.
const PAGES_PER_STEP: i32 = 2048;
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Where copies go unless another place is named.
const BACKUPS: &str = "backups";

/// Back up the ledger and its key to files, even while the hub runs
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The copy is checked before it gets its final name. The master key is written beside it, to a file whose name ends in
.key: whoever has it can do everything, and without it all agents and tokens need new keys after a restore. Only you can
read the two files. 'switchboard restore FILE' puts both back.
Back up a ledger in PostgreSQL with PostgreSQL's own tools (pg_dump); this command prints how. Such a dump contains the
master key (table sb_secret).

Examples:
  switchboard backup
  switchboard backup --without-key /mnt/shared/swarm.db
  switchboard backup /mnt/backups/swarm.db --force
  switchboard backup --from other/.switchboard/switchboard.db copy.db")]
pub struct Args {
    /// File to write [default: backups/switchboard-backup-TIME.db in the data directory; with --from, beside that ledger]
    file: Option<PathBuf>,
    /// Ledger to copy [default: this project's]
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Leave the master key out
    #[arg(long)]
    without_key: bool,
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let (source, data_dir) = match args.from {
        Some(file) => {
            let folder = file.parent().unwrap_or(Path::new("")).to_owned();
            (file, folder)
        }
        None => (served_file(context)?, context.data_dir()),
    };
    if !source.is_file() {
        return Err(Failure::Failed(format!(
            "there is no ledger at {}; pass one with --from, or start a hub with 'switchboard up'",
            source.display()
        )));
    }
    let target = match args.file {
        Some(file) => file,
        None => in_folder(&data_dir.join(BACKUPS))?,
    };
    if target
        .canonicalize()
        .is_ok_and(|file| source.canonicalize().ok() == Some(file))
    {
        return Err(Failure::Failed(format!(
            "{} is the ledger itself; choose another name for the copy",
            target.display()
        )));
    }
    let key_file = key_beside(&target);
    let there = [&target, &key_file].into_iter().find(|file| file.exists());
    if let Some(file) = there.filter(|_| !args.force) {
        return Err(Failure::Failed(format!(
            "{} exists; choose another name, or replace it with --force",
            file.display()
        )));
    }
    let failed = |reason: &dyn std::fmt::Display| {
        Failure::Failed(format!(
            "{} was not backed up to {}: {reason}",
            source.display(),
            target.display()
        ))
    };
    let key = match args.without_key {
        true => None,
        false => Keys::of(&data_dir).own().map_err(|error| {
            failed(&format!(
                "{error}; to leave the key out, pass --without-key"
            ))
        })?,
    };
    let size = copy(&source, &target).map_err(|reason| failed(&reason))?;
    match &key {
        Some(key) => Keys::keep_at(&key_file, key).map_err(|error| failed(&error))?,
        // One of an older copy is not this one's.
        None if key_file.exists() => {
            fs::remove_file(&key_file).map_err(|error| failed(&error))?;
        }
        None => {}
    }
    let screen = &mut context.screen;
    if screen.json() {
        let key_file = key.map(|_| key_file);
        let answer = serde_json::json!({ "success": true, "file": target, "key": key_file, "from": source, "bytes": size, "integrity": "ok" });
        return Ok(screen.value(&answer)?);
    }
    screen.line(format_args!(
        "{} is a checked copy of {} ({})",
        target.display(),
        source.display(),
        bytes(size)
    ))?;
    let told = match key {
        Some(_) => format!("{} is the master key: keep it secret", key_file.display()),
        None => "the master key is not in it; a restore needs the one that the hub has now, or all agents and tokens need new keys".to_owned(),
    };
    Ok(screen.line(told)?)
}

/// The file that the key of a copy is in.
pub(super) fn key_beside(copy: &Path) -> PathBuf {
    let mut name = copy.file_name().unwrap_or_default().to_owned();
    name.push(".key");
    copy.with_file_name(name)
}

/// The file that the hub of this project serves, or would.
fn served_file(context: &Context) -> Result<PathBuf, Failure> {
    let file = match context.ledger() {
        StoreAt::Sqlite(file) => file,
        StoreAt::Postgres(url) => {
            return Err(Failure::Failed(format!(
                "nothing was copied: the ledger is in PostgreSQL at {url:?}; back it up with PostgreSQL's own tools: pg_dump --format=custom --file=swarm.dump '{url:?}'   (with the password in PGPASSWORD or ~/.pgpass; the dump contains the master key, table sb_secret)"
            )));
        }
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mark = Connection::open_with_flags(&file, flags).map(|db| moved::of(&db));
    match mark {
        Ok(Ok(Some(mark))) => Err(Failure::Failed(format!(
            "nothing was copied: {}. To copy the old file anyway, pass it with --from",
            mark.sentence(&format!("sqlite:{}", file.display()))
        ))),
        // What is wrong with the file is found when it is copied.
        Ok(Ok(None) | Err(_)) | Err(_) => Ok(file),
    }
}

/// The folder is made, and neither for others nor for git.
fn in_folder(folder: &Path) -> Result<PathBuf, Failure> {
    make_private(folder).map_err(|error| {
        Failure::Failed(format!("{} cannot be created: {error}", folder.display()))
    })?;
    ignore_all(folder);
    Ok(folder.join(default_name()))
}

fn default_name() -> PathBuf {
    // 2026-01-19T10:00:00.000Z → 20260119T100000Z
    let time: String = now()
        .to_string()
        .chars()
        .take(19)
        .filter(char::is_ascii_alphanumeric)
        .collect();
    PathBuf::from(format!("switchboard-backup-{time}Z.db"))
}

/// Copies, checks and only then names the copy; returns its size.
fn copy(source: &Path, target: &Path) -> Result<u64, String> {
    let partial = beside(target);
    let copied = copy_into(source, &partial).and_then(|size| {
        fs::rename(&partial, target).map_err(|error| error.to_string())?;
        sync_dir(target).map_err(|error| error.to_string())?;
        Ok(size)
    });
    if copied.is_err() {
        // Nothing to do about a rest that cannot be removed; the failure itself is what counts.
        let _ = fs::remove_file(&partial);
    }
    copied
}

/// A name in the same directory, so that the last step is a rename.
pub(super) fn beside(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    target.with_file_name(name)
}

pub(super) fn copy_into(source: &Path, partial: &Path) -> Result<u64, String> {
    let file = create_private(partial).map_err(|error| error.to_string())?;
    let from = Connection::open_with_flags(
        source,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(|error| error.to_string())?;
    let mut to = Connection::open(partial).map_err(|error| error.to_string())?;
    pages(&from, &mut to).map_err(|error| error.to_string())?;
    let verdict: String = to
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| error.to_string())?;
    if verdict != "ok" {
        return Err(format!(
            "the copy is damaged ({verdict}), so the ledger is damaged too; keep an older backup"
        ));
    }
    switchboard_store::sqlite::verify_log(&to, None)
        .map_err(|error| format!("{error}; keep an older backup"))?;
    to.close().map_err(|(_, error)| error.to_string())?;
    file.sync_all().map_err(|error| error.to_string())?;
    Ok(file.metadata().map_err(|error| error.to_string())?.len())
}

fn pages(from: &Connection, to: &mut Connection) -> rusqlite::Result<()> {
    from.busy_timeout(BUSY_TIMEOUT)?;
    // An open read transaction pins one snapshot: what the hub commits meanwhile does not start the copy over.
    from.execute_batch("BEGIN")?;
    from.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let backup = Backup::new(from, to)?;
    let bar = bar();
    loop {
        let step = backup.step(PAGES_PER_STEP)?;
        let progress = backup.progress();
        bar.set_length(u64::try_from(progress.pagecount).unwrap_or(0));
        bar.set_position(u64::try_from(progress.pagecount - progress.remaining).unwrap_or(0));
        match step {
            StepResult::Done => break,
            // Another process holds the copy or the ledger for a moment.
            StepResult::Busy | StepResult::Locked => std::thread::sleep(Duration::from_millis(20)),
            _ => {}
        }
    }
    bar.finish_and_clear();
    drop(backup);
    from.execute_batch("ROLLBACK")
}

fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{wide_bar} {percent}%").expect("the template is well-formed");
    ProgressBar::new(0).with_style(style)
}

/// A ledger is nobody else's business, and neither is its copy.
fn create_private(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

fn sync_dir(file: &Path) -> io::Result<()> {
    let dir = file
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use switchboard_hub::config::DATABASE;

    fn ledger(dir: &Path) -> (PathBuf, Connection) {
        let file = dir.join(DATABASE);
        let connection = Connection::open(&file).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x)")
            .unwrap();
        (file, connection)
    }

    fn fill(connection: &Connection, rows: usize) {
        connection.execute_batch("BEGIN").unwrap();
        for _ in 0..rows {
            connection
                .execute("INSERT INTO t VALUES (randomblob(2000))", [])
                .unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
    }

    fn count(file: &Path) -> i64 {
        Connection::open(file)
            .unwrap()
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_ledger_in_use_is_copied_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (file, writer) = ledger(dir.path());
        fill(&writer, 3000);
        let target = dir.path().join("copy.db");
        let size = copy(&file, &target).unwrap();
        assert_eq!(size, fs::metadata(&target).unwrap().len());
        assert_eq!(count(&target), 3000);
        assert_eq!(
            fs::metadata(&target).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            fs::read_dir(dir.path())
                .unwrap()
                .filter(|entry| entry
                    .as_ref()
                    .unwrap()
                    .path()
                    .to_string_lossy()
                    .contains("partial"))
                .count(),
            0
        );
    }

    #[test]
    fn a_ledger_at_rest_is_copied_too() {
        let dir = tempfile::tempdir().unwrap();
        let (file, writer) = ledger(dir.path());
        fill(&writer, 10);
        drop(writer);
        let target = dir.path().join("copy.db");
        copy(&file, &target).unwrap();
        assert_eq!(count(&target), 10);
    }

    #[test]
    fn writes_during_the_copy_neither_show_nor_start_it_over() {
        let dir = tempfile::tempdir().unwrap();
        let (file, writer) = ledger(dir.path());
        fill(&writer, 3000);
        let from = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        from.execute_batch("BEGIN").unwrap();
        from.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
            .unwrap();
        let mut to = Connection::open(dir.path().join("copy.db")).unwrap();
        let backup = Backup::new(&from, &mut to).unwrap();
        assert!(matches!(backup.step(100).unwrap(), StepResult::More));
        let left = backup.progress().remaining;
        fill(&writer, 5);
        assert!(matches!(backup.step(100).unwrap(), StepResult::More));
        assert_eq!(backup.progress().remaining, left - 100);
    }

    #[test]
    fn a_copy_without_a_name_goes_where_neither_others_nor_git_look() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/backups");
        let target = in_folder(&folder).unwrap();
        assert_eq!(target.parent(), Some(&*folder));
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let ignored = fs::read_to_string(folder.join(".gitignore")).unwrap();
        assert_eq!(ignored, "*\n");
    }

    #[test]
    fn a_damaged_ledger_gives_no_copy() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(DATABASE);
        fs::write(&file, [b'x'; 8192]).unwrap();
        let target = dir.path().join("copy.db");
        assert!(copy(&file, &target).is_err());
        assert!(!target.exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
