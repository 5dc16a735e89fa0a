//! Moves a whole ledger from one engine to another, and proves that it arrived.
//!
//! Pages of rows are written together with how far the copy came, so that it can be interrupted anywhere and goes on
//! where it stopped. Then both ledgers are read again and compared. Then the source is marked as moved (`moved`), in a
//! transaction that also sees that nobody wrote to it; apart from that it is only read. The head of the target comes last:
//! until then no hub serves the target, and from the mark on none serves the source. So there is never a moment with two.
//! What the tables are is said in `tables`; how each engine reads and writes them, in `sqlite` and `postgres`; who may
//! serve the source meanwhile is the caller's business as far as locks tell.

mod kept;
mod postgres;
mod restore;
mod side;
mod sqlite;
mod tables;
mod unfinished;
mod value;
mod verify;

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use switchboard_core::limits;

use crate::Error;
use crate::moved::{Kind, Mark};
use crate::postgres::Address;
use side::{PAGE_ROWS, Side, Target};
use tables::{TABLES, Table};
use unfinished::Progress;
use value::{Row, Value, key, read_key, write_key};
use verify::Findings;

pub(crate) use postgres::{
    refuse_if_unfinished as refuse_unfinished_database, source_of_copy as source_of_database,
};
pub use restore::{Restored, begin_epoch, restore};
pub use side::Key;
pub(crate) use sqlite::{
    refuse_if_unfinished as refuse_unfinished_file, source_of_copy as source_of_file,
};
pub use verify::{DIFFERENCES_MAX, Difference};

/// Where a ledger is.
#[derive(Clone, Debug)]
pub enum Place {
    Sqlite(PathBuf),
    Postgres(Address),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            Place::Postgres(address) => address.fmt(f),
        }
    }
}

/// Where the key of a SQLite ledger is kept: beside it. A PostgreSQL ledger has its key in itself.
pub trait KeyFile: Sync {
    fn key(&self) -> Result<Option<Key>, Error>;
    fn keep(&self, key: &Key) -> Result<(), Error>;
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub phase: Phase,
    pub table: &'static str,
    pub rows: u64,
    /// The rows of the whole ledger.
    pub of: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Copying,
    Verifying,
}

/// Is told after each page, and may stop the copy there.
pub type OnCopied<'a> = &'a mut dyn FnMut(Copied) -> ControlFlow<()>;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub tables: usize,
    pub rows: u64,
    pub events: u64,
    /// Rows that were there already, from a run before.
    pub resumed: u64,
    /// What the source's counters got wrong, and the target's now do, too; where an older ledger went.
    pub notes: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Store(#[from] Error),
    /// It makes no sense, or is not safe. Nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// A hub may serve it. If it was stopped just now, that is known after this wait.
    #[error("{name} was served {} s ago; stop every hub that serves it, then run the command again", ago.as_secs())]
    Served {
        name: String,
        ago: Duration,
        wait: Duration,
    },
    /// Somebody wrote the source while it was copied.
    #[error(
        "{0} was written to while it was copied; stop whoever serves it, empty the target and run the command again"
    )]
    Moved(String),
    /// The target stays unfinished.
    #[error("{}", differ(.differences, *.count))]
    Differs {
        differences: Vec<Difference>,
        count: u64,
    },
    #[error("stopped; run the same command again to resume")]
    Stopped,
}

fn differ(differences: &[Difference], count: u64) -> String {
    let mut text = format!("the two ledgers differ in {count} places:");
    for difference in differences {
        text.push_str(&format!("\n  {difference}"));
    }
    let named = u64::try_from(differences.len()).unwrap_or(u64::MAX);
    if count > named {
        text.push_str(&format!("\n  and {} more", count - named));
    }
    text
}

/// Copies the ledger in `source` to `target`, or goes on with it, and verifies the copy.
pub fn run(
    source: &Place,
    target: &Place,
    keys: &dyn KeyFile,
    watch: OnCopied<'_>,
) -> Result<Summary, Failure> {
    let (source, target) = (&source.settled(), &target.settled());
    if source.to_string() == target.to_string() {
        return Err(Failure::Refused(format!(
            "{source} is both source and target; choose another target with --to"
        )));
    }
    let name = source.to_string();
    let mut source = source.whole(keys)?;
    refuse_if_served(&mut *source)?;
    source.hold()?;
    refuse_if_by_hand(&mut *source)?;
    let key = source.key()?;
    let place = target;
    if let Place::Sqlite(_) = place {
        refuse_other_key(key, keys.key()?, place)?;
    }
    let goes_on = refuse_if_moved(&mut *source, place)?;
    let mark = source.mark()?;
    let kept = match place {
        Place::Sqlite(file) if goes_on.is_none() => kept::make_room(file, keys, &name, &mark)?,
        Place::Sqlite(_) | Place::Postgres(_) => None,
    };
    let mut target = match (place.target(keys), &goes_on) {
        (Err(Failure::Refused(_)), Some(moved)) => {
            return Err(Failure::Refused(moved.sentence(&name)));
        }
        (target, _) => target?,
    };
    refuse_other_key(key, target.key()?, place)?;
    let mut progress = match target.unfinished()? {
        Some(progress) => go_on(progress, &name, &mark, &*target)?,
        None => match goes_on {
            Some(moved) => return Err(Failure::Refused(moved.sentence(&name))),
            None => begin(&name, &mark, &mut *target)?,
        },
    };
    let resumed = progress.rows;
    let of = count(&mut *source)?;
    copy(&mut *source, &mut *target, &mut progress, of, watch)?;
    let mut findings = Findings::default();
    target.hold()?;
    compare(&mut *source, &mut *target, &mut findings, of, watch)?;
    target.release()?;
    let head = source.head()?;
    findings.log_ends(&head);
    let mut summary = conclude(findings, &head, of)?;
    if let Some(key) = key {
        target.keep_key(&key)?;
    }
    let mark = Mark::new(Kind::Moved, &place.to_string());
    if !source.leave(&progress.mark, &mark)? {
        return Err(Failure::Moved(name));
    }
    target.finish(&head)?;
    summary.resumed = resumed;
    summary.notes.extend(kept);
    Ok(summary)
}

/// Compares two whole ledgers and changes neither.
pub fn verify(
    source: &Place,
    target: &Place,
    keys: &dyn KeyFile,
    watch: OnCopied<'_>,
) -> Result<Summary, Failure> {
    let mut source = source.settled().whole(keys)?;
    let mut target = target.settled().whole(keys)?;
    source.hold()?;
    target.hold()?;
    let head = source.head()?;
    let mut findings = Findings::default();
    findings.heads(&head, &target.head()?);
    let of = count(&mut *source)?;
    compare(&mut *source, &mut *target, &mut findings, of, watch)?;
    findings.log_ends(&head);
    conclude(findings, &head, of)
}

impl Place {
    /// The same with a path that means the same wherever it is read.
    pub fn settled(&self) -> Place {
        match self {
            Place::Sqlite(file) => {
                let settled = file.canonicalize().or_else(|_| std::path::absolute(file));
                Place::Sqlite(settled.unwrap_or_else(|_| file.clone()))
            }
            Place::Postgres(_) => self.clone(),
        }
    }

    fn whole<'a>(&self, keys: &'a dyn KeyFile) -> Result<Box<dyn Side + 'a>, Failure> {
        Ok(match self {
            Place::Sqlite(file) => Box::new(sqlite::SqliteSide::whole(file, keys)?),
            Place::Postgres(address) => Box::new(postgres::PostgresSide::whole(address)?),
        })
    }

    fn target<'a>(&self, keys: &'a dyn KeyFile) -> Result<Box<dyn Target + 'a>, Failure> {
        Ok(match self {
            Place::Sqlite(file) => Box::new(sqlite::SqliteSide::target(file, keys)?),
            Place::Postgres(address) => Box::new(postgres::PostgresSide::target(address)?),
        })
    }
}

fn refuse_if_served(source: &mut dyn Side) -> Result<(), Failure> {
    let ago = source
        .served_ago()?
        .map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
    match ago.and_then(|ago| Some((ago, limits::SERVED_GAP_MAX.checked_sub(ago)?))) {
        Some((ago, wait)) if !wait.is_zero() => Err(Failure::Served {
            name: source.name(),
            ago,
            wait,
        }),
        Some(_) | None => Ok(()),
    }
}

/// Only a hub can tell what a hand write amounts to.
fn refuse_if_by_hand(source: &mut dyn Side) -> Result<(), Failure> {
    if !source.is_by_hand()? {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "there were direct SQL writes to {} since a hub served it; start the hub once so that it adopts them, then run the command again",
        source.name()
    )))
}

/// A source that was moved is copied again only if it was to this very target, and the last step is missing: then its
/// mark is returned.
fn refuse_if_moved(source: &mut dyn Side, target: &Place) -> Result<Option<Mark>, Failure> {
    match source.moved()? {
        None => Ok(None),
        Some(mark) if mark.kind == Kind::Moved && mark.place == target.to_string() => {
            Ok(Some(mark))
        }
        Some(mark) => Err(Failure::Refused(mark.sentence(&source.name()))),
    }
}

/// Agents would have to be told new keys.
fn refuse_other_key(ours: Option<Key>, theirs: Option<Key>, target: &Place) -> Result<(), Failure> {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if ours != theirs => Err(Failure::Refused(format!(
            "{target} already has another key than the source; move that key away, or choose another target"
        ))),
        _ => Ok(()),
    }
}

fn begin(source: &str, mark: &str, target: &mut dyn Target) -> Result<Progress, Failure> {
    let progress = Progress {
        source: source.to_owned(),
        mark: mark.to_owned(),
        schema: target.schema(),
        table: TABLES[0].name.to_owned(),
        after: None,
        rows: 0,
        pages: 0,
    };
    target.begin(&progress)?;
    Ok(progress)
}

fn go_on(
    progress: Progress,
    source: &str,
    mark: &str,
    target: &dyn Target,
) -> Result<Progress, Failure> {
    let anew = "empty the target and run the command again";
    if progress.source != source {
        return Err(Failure::Refused(format!(
            "{} is an unfinished copy of {}, not of {source}; resume with that source, or {anew}",
            target.name(),
            progress.source
        )));
    }
    if progress.mark != mark {
        return Err(Failure::Refused(format!(
            "{source} has changed since the copy to {} started ({}, now {mark}); {anew}",
            target.name(),
            progress.mark
        )));
    }
    if progress.schema != target.schema() {
        return Err(Failure::Refused(format!(
            "the copy to {} was started by another build of switchboard; use that build, or {anew}",
            target.name()
        )));
    }
    Ok(progress)
}

/// Only what this build knows in every detail can be copied.
fn check_schema(name: &str, found: u32, known: u32) -> Result<(), Failure> {
    if found > known {
        return Err(Error::NewerSchema { found, known }.into());
    }
    if found < known {
        return Err(Failure::Refused(format!(
            "{name} has schema version {found}, but this build copies {known}; start it once with 'switchboard up', which migrates it"
        )));
    }
    Ok(())
}

fn count(source: &mut dyn Side) -> Result<u64, Error> {
    let mut rows = 0;
    for table in TABLES.iter() {
        rows += source.count(table)?;
    }
    Ok(rows)
}

/// Pages on the way from the thread that reads them.
type Pages = SyncSender<Result<(&'static Table, Vec<Row>), Error>>;

/// Reads all tables, from a place within the first of them, until nobody wants more.
fn read(
    source: &mut dyn Side,
    tables: &'static [Table],
    mut after: Option<Vec<Value>>,
    pages: &Pages,
) {
    for table in tables {
        loop {
            let page = source.page(table, after.as_deref(), PAGE_ROWS);
            let last = match &page {
                Ok(rows) => rows.last().map(|row| key(table, row).to_vec()),
                Err(_) => None,
            };
            let ended = page.is_ok() && last.is_none();
            let failed = page.is_err();
            if !ended && (pages.send(page.map(|rows| (table, rows))).is_err() || failed) {
                return;
            }
            after = last;
            if ended {
                break;
            }
        }
    }
}

fn copy(
    source: &mut dyn Side,
    target: &mut dyn Target,
    progress: &mut Progress,
    of: u64,
    watch: OnCopied<'_>,
) -> Result<(), Failure> {
    let from = TABLES.iter().position(|table| table.name == progress.table);
    let after = progress.after.as_deref().map(read_key);
    let (Some(from), Some(after)) = (from, after.map_or(Some(None), |key| key.map(Some))) else {
        let said = format!("{} has no record of how far the copy came", target.name());
        return Err(Error::Corrupt(said).into());
    };
    std::thread::scope(|scope| {
        let (send, pages) = sync_channel(1);
        scope.spawn(move || read(source, &TABLES[from..], after, &send));
        for page in pages {
            let (table, rows) = page?;
            progress.table = table.name.to_owned();
            progress.after = rows.last().map(|row| write_key(key(table, row)));
            progress.rows += rows.len() as u64;
            progress.pages += 1;
            target.put(table, &rows, progress)?;
            tell(watch, Phase::Copying, table, progress.rows, of)?;
        }
        Ok(())
    })
}

fn compare(
    source: &mut dyn Side,
    target: &mut dyn Side,
    findings: &mut Findings,
    of: u64,
    watch: OnCopied<'_>,
) -> Result<(), Failure> {
    let done: Result<(), Failure> = std::thread::scope(|scope| {
        let (send, pages) = sync_channel(1);
        let source = &mut *source;
        scope.spawn(move || read(source, &TABLES, None, &send));
        let mut compared = 0;
        for page in pages {
            let (table, rows) = page?;
            let keys: Vec<&[Value]> = rows.iter().map(|row| key(table, row)).collect();
            let found = target.find(table, &keys)?;
            findings.compare(table, &rows, &found);
            compared += rows.len() as u64;
            tell(watch, Phase::Verifying, table, compared, of)?;
        }
        Ok(())
    });
    done?;
    Ok(findings.extra(source, target)?)
}

fn tell(
    watch: OnCopied<'_>,
    phase: Phase,
    table: &Table,
    rows: u64,
    of: u64,
) -> Result<(), Failure> {
    let step = Copied {
        phase,
        table: table.name,
        rows,
        of,
    };
    match watch(step) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Failure::Stopped),
    }
}

fn conclude(findings: Findings, head: &Row, rows: u64) -> Result<Summary, Failure> {
    if findings.count > 0 {
        return Err(Failure::Differs {
            differences: findings.differences,
            count: findings.count,
        });
    }
    Ok(Summary {
        // The head is one more.
        tables: TABLES.len() + 1,
        rows: rows + 1,
        events: findings.events,
        resumed: 0,
        notes: findings.notes(head),
    })
}
