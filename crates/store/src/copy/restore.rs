//! A backup takes the place of a ledger, which is kept under another name, and goes on in a new epoch.
//!
//! Events that came after the backup were told, and their numbers will be given once more: whoever follows the log has to
//! learn that. So the epoch is beyond that of the ledger whose place it takes, too.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use switchboard_core::verb::{BeginEpoch, Verb as _};
use switchboard_core::{LedgerEpoch, Slice, Want};

use super::Failure;
use super::kept::{digits, put_away, put_in_place};
use crate::moved::{self, Kind, Mark};
use crate::sqlite::SqliteEngine;
use crate::swarm_db::{Held, Unfit};
use crate::{Engine, Error, SystemClock, Wall};

/// What was done.
#[derive(Debug)]
pub struct Restored {
    pub epoch: LedgerEpoch,
    /// Where the ledger is that was there before.
    pub kept: Option<PathBuf>,
}

/// Puts `copy`, a whole ledger beside `ledger` that nobody uses, in its place.
pub fn restore(copy: &Path, ledger: &Path, wall: Wall) -> Result<Restored, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::Refused(format!("{} cannot be replaced: {why}", ledger.display()))
    };
    if !is_ledger(copy) {
        let why = "it is not a backup of a Switchboard ledger".to_owned();
        return Err(Failure::Refused(why));
    }
    let (replaced, mark) = found_in(ledger).unwrap_or_default();
    if let Some(mark) = mark.filter(|mark| mark.kind == Kind::Moved) {
        let name = format!("sqlite:{}", ledger.display());
        return Err(Failure::Refused(mark.sentence(&name)));
    }
    let is_there = ledger.exists();
    let held = match is_there.then(|| Held::take_ledger(ledger)).transpose() {
        // What is damaged is what backups are for.
        Err(Unfit::Damaged(_)) => None,
        held => held.map_err(|unfit| cannot(&unfit))?,
    };
    let mut engine = SqliteEngine::open(copy, Box::new(SystemClock::new()))?;
    engine.start_clock(wall)?;
    let epoch = begin_epoch(&mut engine, replaced)?;
    drop(engine);
    let kept = match is_there {
        true => {
            let now = Mark::new(Kind::Moved, "").at;
            let end = format!("before-restore-{}", digits(&now));
            Some(put_away(ledger, copy, &end).map_err(|error| cannot(&error))?)
        }
        false => {
            put_in_place(ledger, copy).map_err(|error| cannot(&error))?;
            None
        }
    };
    drop(held);
    Ok(Restored { epoch, kept })
}

/// Whether the file has a ledger's head; opening it would make one.
fn is_ledger(file: &Path) -> bool {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags);
    let head = db.and_then(|db| db.query_row("SELECT seq FROM sb_head", [], |_| Ok(())));
    head.is_ok()
}

/// The epoch of a ledger and its last event, and its mark, if it can be read.
fn found_in(ledger: &Path) -> Option<((u64, u64), Option<Mark>)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(ledger, flags).ok()?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = db.query_row("SELECT epoch, seq FROM sb_head", [], read);
    let (epoch, seq): (i64, i64) = found.ok()?;
    let place = (epoch.try_into().ok()?, seq.try_into().ok()?);
    Some((place, moved::of(&db).ok()?))
}

/// A ledger whose clock was started goes on as one that others have followed further: up to event `seq` of epoch `number`,
/// as far as is known.
pub fn begin_epoch(
    engine: &mut dyn Engine,
    (number, seq): (u64, u64),
) -> Result<LedgerEpoch, Error> {
    let mut slice = Slice::default();
    let now = engine.begin(&mut slice)?.now;
    let common = slice.head.seq;
    slice.head.epoch.number = slice.head.epoch.number.max(number);
    let begins = BeginEpoch {
        told: seq.max(common),
        common,
    };
    loop {
        let mut want = Want::new(&slice);
        begins.asks(&mut want, now);
        if want.is_satisfied() {
            break;
        }
        engine.load(&want.into_asks(), &mut slice)?;
    }
    let decided = begins.decide(&slice, now);
    let (epoch, changes) = decided.map_err(|refusal| Error::Corrupt(refusal.to_string()))?;
    slice.apply(changes, now);
    slice.save_all(now, true, |save| engine.save(save))?;
    engine.commit()?;
    Ok(epoch)
}
