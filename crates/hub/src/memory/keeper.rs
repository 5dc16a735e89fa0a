//! The task that remembers: reads the log as it grows, compacts what it noted, and keeps files in step with rows.
//!
//! It reads no quicker than once in a while, bounded amounts, on the reader threads, and skips what it cannot follow:
//! memory never costs the hub its speed.

mod keep;
mod write;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use switchboard_core::engram::EngramEntry;
use switchboard_core::query::{Readable, TaskRef};
use switchboard_core::{Event, LedgerEpoch, TaskId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::buffer::Buffer;
use super::files::Files;
use super::noted::{Noted, note};
use super::{MemoryState, Settings, catalog_of};
use crate::hub::Error;
use crate::projection::{Position, Projection};

/// Events of the log that are read at a time, and in one turn.
const EVENTS_PER_PAGE: usize = 500;
const PAGES_PER_TURN: usize = 40;
/// Whoever is further behind than this goes on nearer to the end.
const BEHIND_MAX: u64 = 20_000;
/// Without any news it is looked so often whether something is overdue.
const LOOK_ANYWAY: Duration = Duration::from_secs(3600);

pub(super) struct Keeper {
    shared: Arc<MemoryState>,
    settings: Settings,
    files: Files,
    latest: watch::Receiver<u64>,
    buffer: Buffer,
    /// The ledger's epoch in which the log is read.
    epoch: LedgerEpoch,
    /// The log was looked at up to here.
    cursor: u64,
    /// Rows as last read, oldest first.
    entries: Vec<EngramEntry>,
    /// Events up to here are in them.
    done: u64,
    /// Rows may have changed since.
    entries_are_old: bool,
    /// How far the ledger was then, at least.
    upto: Position,
    state: FileState,
    /// It was said that they cannot be written.
    said_unwritable: bool,
    /// Events that were left out since the log was last followed.
    skipped: u64,
}

/// How the files stand to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    /// They may differ, also in what nobody changed.
    Unknown,
    /// The rows have changed.
    Behind,
    Agree,
    /// They could not be written; not tried before this.
    Failed(Instant),
}

/// What a page of the log brought.
struct Read {
    noted: Vec<Noted>,
    /// Everything up to here was looked at.
    upto: u64,
    engrams_changed: bool,
    is_end: bool,
}

impl Keeper {
    pub fn new(shared: Arc<MemoryState>, settings: Settings) -> Keeper {
        let config = &settings.config;
        Keeper {
            latest: shared.hub.latest(),
            epoch: shared.hub.epoch(),
            buffer: Buffer::new(config.buffer_bytes()),
            files: Files {
                projection: Projection {
                    root: config.root_dir.clone(),
                    record: settings.record.clone(),
                },
                catalog: config.catalog.clone(),
            },
            shared,
            settings,
            cursor: 0,
            entries: Vec::new(),
            done: 0,
            entries_are_old: true,
            upto: Position::default(),
            state: FileState::Unknown,
            said_unwritable: false,
            skipped: 0,
        }
    }

    /// Shows what the ledger has; a ledger that has nothing takes over what the files tell.
    pub async fn begin(&mut self) {
        let begun = async {
            self.refresh().await?;
            if self.entries.is_empty() {
                self.adopt().await?;
            }
            self.shared.show(catalog_of(&self.entries));
            Ok::<(), Error>(())
        };
        if let Err(error) = begun.await {
            tracing::warn!(%error, "the memory starts later: the ledger cannot be read");
        }
    }

    pub async fn run(mut self) {
        let stopping = self.shared.stopping.clone();
        loop {
            let is_done = match self.turn().await {
                Ok(is_done) => is_done,
                Err(Error::Stopping) => return,
                Err(error) => {
                    tracing::debug!(%error, "the memory will retry in a moment");
                    false
                }
            };
            let rested = Instant::now() + self.settings.look_every;
            tokio::select! {
                () = stopping.cancelled() => return,
                () = sleep_until(rested) => {}
            }
            if is_done {
                let until = self.next_look();
                tokio::select! {
                    () = stopping.cancelled() => return,
                    changed = self.latest.changed() => if changed.is_err() { return },
                    () = self.shared.duty.changed() => {}
                    () = sleep_until(until) => {}
                }
            }
        }
    }

    fn next_look(&self) -> Instant {
        let next = Instant::now() + LOOK_ANYWAY;
        match self.state {
            FileState::Failed(again) => next.min(again),
            FileState::Unknown | FileState::Behind | FileState::Agree => next,
        }
    }

    /// Reads what is new, keeps at most one engram of it, and brings the files up to date. True if nothing is left.
    async fn turn(&mut self) -> Result<bool, Error> {
        let latest = *self.latest.borrow_and_update();
        self.follow_epoch();
        self.skip(latest);
        if self.entries_are_old {
            self.refresh().await?;
        }
        if self.state == FileState::Unknown {
            self.write_files().await?;
        }
        let is_done = self.read_on().await?;
        if self.is_overdue() {
            let all = self.buffer.len();
            self.keep(all).await?;
        }
        if self.entries_are_old {
            self.refresh().await?;
        }
        self.write_files().await?;
        if is_done {
            self.tell_skipped();
        }
        Ok(is_done && self.state != FileState::Behind)
    }

    /// Forgets what the ledger has lost, and reads from the last engram on.
    fn follow_epoch(&mut self) {
        let epoch = self.shared.hub.epoch();
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        self.buffer = Buffer::new(self.settings.config.buffer_bytes());
        self.cursor = 0;
        self.entries_are_old = true;
        self.state = FileState::Unknown;
    }

    /// Leaves out what went by too quickly.
    fn skip(&mut self, latest: u64) {
        if latest.saturating_sub(self.cursor) <= BEHIND_MAX {
            return;
        }
        let to = latest - BEHIND_MAX / 2;
        let skipped = to - self.cursor;
        if self.skipped == 0 {
            tracing::warn!("the memory cannot keep up with the log and skips events");
        }
        self.skipped += skipped;
        self.shared.skipped.fetch_add(skipped, Ordering::Relaxed);
        self.cursor = to;
        // What became of engrams may be among it.
        self.entries_are_old = true;
    }

    /// Once the log is followed again.
    fn tell_skipped(&mut self) {
        let skipped = std::mem::take(&mut self.skipped);
        if skipped > 0 {
            tracing::info!(
                skipped,
                "the memory skipped {skipped} events and follows the log again"
            );
        }
    }

    async fn read_on(&mut self) -> Result<bool, Error> {
        let mut kept = false;
        for _ in 0..PAGES_PER_TURN {
            let (after, bytes_max) = (self.cursor, self.settings.config.buffer_bytes());
            let hub = &self.shared.hub;
            let read = hub.read(move |ledger| read(ledger, after, bytes_max));
            let page = read.await?;
            let is_end = page.is_end;
            self.entries_are_old |= page.engrams_changed;
            let mut upto = page.upto;
            for noted in page.noted {
                if noted.seq <= self.done {
                    continue;
                }
                let Some(noted) = self.buffer.push(noted) else {
                    continue;
                };
                // The oldest must go first. What does not fit even then is read again in the next turn.
                if !kept {
                    kept = true;
                    self.cursor = self.cursor.max(noted.seq - 1);
                    let half = self.buffer.older_half().count();
                    self.keep(half).await?;
                }
                if noted.seq > self.done
                    && let Some(noted) = self.buffer.push(noted)
                {
                    upto = noted.seq - 1;
                    break;
                }
            }
            self.cursor = self.cursor.max(upto);
            if upto < page.upto {
                return Ok(false);
            }
            if is_end {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the oldest records must not wait for the buffer to fill: the log does not keep them for ever.
    fn is_overdue(&self) -> bool {
        let Some(oldest) = self.buffer.iter().next() else {
            return false;
        };
        let hub = &self.shared.hub;
        let wait_max = hub.shared.keep.events / 2;
        hub.time().since(oldest.at) > wait_max || self.cursor - oldest.seq > BEHIND_MAX / 2
    }

    /// Reads the rows anew. What is in an engram is buffered no longer.
    async fn refresh(&mut self) -> Result<(), Error> {
        self.upto = Position {
            epoch: self.epoch.number,
            seq: *self.latest.borrow(),
        };
        let mut entries = self.shared.hub.read(|reader| reader.engrams()).await?;
        entries.sort_by(|a, b| (&a.version, &a.id).cmp(&(&b.version, &b.id)));
        if entries != self.entries {
            self.entries = entries;
            if self.state == FileState::Agree {
                self.state = FileState::Behind;
            }
        }
        self.entries_are_old = false;
        let ends = self.entries.iter().map(|entry| entry.to_seq);
        self.done = ends.max().unwrap_or(0);
        self.buffer.drop_upto(self.done);
        self.cursor = self.cursor.max(self.done);
        Ok(())
    }
}

fn read<E>(ledger: &dyn Readable<Error = E>, after: u64, bytes_max: usize) -> Result<Read, E> {
    let events = ledger.events(after, EVENTS_PER_PAGE)?;
    let mut page = Read {
        noted: Vec::new(),
        upto: after,
        engrams_changed: false,
        is_end: events.len() < EVENTS_PER_PAGE,
    };
    let mut bytes = 0;
    for logged in &events {
        page.engrams_changed |= matches!(
            logged.event,
            Event::EngramKept { .. } | Event::EngramEvicted { .. }
        );
        let look = |id: &TaskId| ledger.task(&TaskRef::Id(id.clone()));
        if let Some(noted) = note(logged, look)? {
            bytes += noted.bytes();
            page.noted.push(noted);
        }
        page.upto = logged.seq;
        if bytes > bytes_max {
            page.is_end = false;
            break;
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests;
