//! Trigger files: taken by renaming, said as a frame would be, deleted; what is refused is put aside with the reason.
//!
//! What the system tells of files that were closed or moved into place is a hint; looking through the directory is the
//! guarantee. A file that was taken and not said yet is found again after a crash: its id, or one made of the file
//! itself, says it once.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use rustix::fs::{AtFlags, renameat, unlinkat};
use rustix::io::Errno;
use switchboard_core::limits;
use switchboard_wire::squidrun::{Addressees, Roles, Saying, Status, trigger};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::directory::{Context, Dirs, TRIGGERS};
use crate::spool::{
    self, Cleanup, FILE_NAME_BYTES_MAX, Found, Heard, Hints, Identity, Interest, Lock, explain,
    is_lasting, names,
};

const RESCAN_EVERY: Duration = Duration::from_millis(250);
/// A file that nobody was heard to finish is taken once it is unchanged for this long.
const UNCHANGED_FOR: Duration = Duration::from_millis(200);
/// And an empty one, that somebody may just begin to write.
const EMPTY_FOR: Duration = Duration::from_secs(2);
/// Whatever could not be said is tried again so soon.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Names that one look at a directory reads; those behind them come later.
const NAMES_PER_LOOK: usize = 4096;
/// Files that are read, and said, at a time.
const AT_ONCE: usize = 64;
/// UTF-16 takes two bytes for a letter, and there may be a line for the id and one for the project.
const FILE_BYTES_MAX: usize = 2 * limits::PAYLOAD_BYTES_MAX + 4096;
/// What a person reads of a refusal, beside its word.
const REFUSALS: [(Status, &str); 3] = [
    (
        Status::InvalidTarget,
        "a file is named after a role, one of its aliases or its pane, or is all.txt or others-<role>.txt",
    ),
    (
        Status::InvalidMessage,
        "the text is empty or too long, its id is no id, or is that of another text",
    ),
    (Status::NoTargets, "nobody is registered yet"),
];
const REJECTED_FOR: Duration = Duration::from_secs(24 * 3600);

pub struct Triggers {
    context: Arc<Context>,
    hints: Hints,
    /// Files that nobody was heard to finish, and since when each is as it is.
    seen: HashMap<OsString, (Identity, Instant)>,
    /// Taken ones that cannot be said yet.
    later: HashMap<OsString, Instant>,
    cleanup: Cleanup,
    trouble: Option<String>,
}

/// A file that was taken.
struct Taken {
    name: OsString,
    what: What,
}

enum What {
    Say(Box<Saying>),
    Reject(String),
    /// Somebody still writes it, or it cannot be read now.
    Later,
    Gone,
}

/// What becomes of it.
enum Fate {
    /// Said, or known.
    Done,
    Rejected(String),
    Later,
}

/// What a look through the directory found.
struct Survey {
    is_ours: bool,
    id: u64,
    files: Vec<(OsString, Identity)>,
    cleanup: Cleanup,
}

impl Triggers {
    pub fn new(context: Arc<Context>) -> Triggers {
        Triggers {
            context,
            hints: Hints::new(Interest {
                is_ours: is_trigger,
                only_whole: true,
            }),
            seen: HashMap::new(),
            later: HashMap::new(),
            cleanup: Cleanup::default(),
            trouble: None,
        }
    }

    /// Serves until the directory is another one than that of the lock.
    pub async fn run(&mut self, lock: &Arc<Lock>) {
        let mut rescans = interval(RESCAN_EVERY);
        rescans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let trusts = self.context.trusts_files;
            let going = tokio::select! {
                biased;
                _ = rescans.tick() => self.rescan(lock).await,
                heard = self.hints.heard(), if trusts => self.hear(heard, &mut rescans).await,
            };
            let done = match going {
                Ok(true) if trusts => self.say_taken().await,
                Ok(true) => Ok(()),
                Ok(false) => return,
                Err(error) => Err(error),
            };
            match done {
                Ok(()) => self.trouble = None,
                Err(error) => self.complain(&error.to_string()),
            }
        }
    }

    async fn hear(&mut self, heard: Heard, rescans: &mut Interval) -> io::Result<bool> {
        if heard.more {
            rescans.reset_immediately();
        }
        let names: Vec<OsString> = heard.names.into_iter().collect();
        let take = move |dirs: &Dirs| {
            for name in names {
                // One that is empty may be the beginning of another.
                let found = Identity::at(&dirs.triggers, &name)?;
                if found.is_some_and(|found| found.size > 0) {
                    take(dirs, &name)?;
                }
            }
            Ok(())
        };
        self.context.with(take).await.map(|()| true)
    }

    /// Looks through the whole directory. False if it is no longer that of the lock.
    async fn rescan(&mut self, lock: &Arc<Lock>) -> io::Result<bool> {
        let (lock, now) = (Arc::clone(lock), SystemTime::now());
        let mut cleanup = std::mem::take(&mut self.cleanup);
        let survey = self.context.with(move |dirs| {
            let is_ours = lock.is_of(&dirs.base);
            if let Err(error) = cleanup.step(&dirs.cleaned(), REJECTED_FOR, now) {
                tracing::debug!("cannot clean up: {error}");
            }
            Ok(Survey {
                is_ours,
                id: spool::id(&dirs.triggers)?,
                files: survey(dirs)?,
                cleanup,
            })
        });
        let survey = survey.await?;
        self.cleanup = survey.cleanup;
        if !survey.is_ours || !self.context.trusts_files {
            return Ok(survey.is_ours);
        }
        self.hints
            .watch(&self.context.place.path().join(TRIGGERS), survey.id);
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.seen);
        let mut ready = Vec::new();
        for (name, found) in survey.files {
            let since = match before.remove(&name) {
                Some((known, since)) if known == found => since,
                Some(_) | None => now,
            };
            let wait = if found.size == 0 {
                EMPTY_FOR
            } else {
                UNCHANGED_FOR
            };
            match now - since >= wait {
                true => ready.push((found.mtime_ns, name)),
                false => drop(self.seen.insert(name, (found, since))),
            }
        }
        if !ready.is_empty() {
            ready.sort();
            let take_all =
                move |dirs: &Dirs| ready.iter().try_for_each(|(_, name)| take(dirs, name));
            self.context.with(take_all).await?;
        }
        Ok(true)
    }

    /// Says what was taken: queued for the ledger in the order of taking, written in one go.
    async fn say_taken(&mut self) -> io::Result<()> {
        loop {
            let now = Instant::now();
            self.later.retain(|_, until| *until > now);
            let skipped: HashSet<OsString> = self.later.keys().cloned().collect();
            let roles = Arc::clone(&self.context.roles);
            let next = self.context.with(move |dirs| next(dirs, &skipped, &roles));
            let next = next.await?;
            if next.is_empty() {
                return Ok(());
            }
            let said = next.into_iter().map(|taken| say(&self.context, taken));
            let said = join_all(said).await;
            let put_away = |dirs: &Dirs| {
                let rest = said
                    .into_iter()
                    .filter(|(name, fate)| !put_away(dirs, name, fate));
                Ok(rest.map(|(name, _)| name).collect::<Vec<_>>())
            };
            let rest = self.context.with(put_away).await?;
            self.later
                .extend(rest.into_iter().map(|name| (name, now + RETRY_AFTER)));
        }
    }

    /// Says what is wrong, once.
    fn complain(&mut self, what: &str) {
        if self.trouble.as_deref() != Some(what) {
            tracing::warn!("trigger files cannot be served: {what}; it is tried again");
            self.trouble = Some(what.to_owned());
        }
    }
}

/// Whether a name is that of a trigger file; whom it is for is another question.
fn is_trigger(name: &[u8]) -> bool {
    name.ends_with(SUFFIX) && !name.starts_with(b".")
}

const SUFFIX: &[u8] = b".txt";

fn survey(dirs: &Dirs) -> io::Result<Vec<(OsString, Identity)>> {
    let mut files = Vec::new();
    for entry in names(&dirs.triggers)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !is_trigger(name) {
            continue;
        }
        let name = OsStr::from_bytes(name);
        let found = Identity::at(&dirs.triggers, name)?;
        files.extend(found.map(|found| (name.to_owned(), found)));
        if files.len() >= NAMES_PER_LOOK {
            break;
        }
    }
    Ok(files)
}

/// Takes a file: from here on it is ours, whatever comes under its name. The new name tells when, and for whom.
fn take(dirs: &Dirs, name: &OsStr) -> io::Result<()> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (nanos, ours) = (since.as_nanos(), name.as_bytes());
    let mark = format!("{nanos:020x}-");
    // Of a name that is too long its beginning tells for whom it is.
    let room = FILE_NAME_BYTES_MAX - mark.len() - SUFFIX.len();
    let stem = ours.strip_suffix(SUFFIX).unwrap_or(ours);
    let taken = [mark.as_bytes(), &stem[..stem.len().min(room)], SUFFIX].concat();
    match renameat(&dirs.triggers, name, &dirs.taken, OsStr::from_bytes(&taken)) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // It holds up no other.
        Err(error) if is_lasting(error) => {
            tracing::debug!("trigger file {name:?} cannot be taken: {error}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The name that a file had before it was taken.
fn untaken(name: &OsStr) -> &OsStr {
    let bytes = name.as_bytes();
    let mark = bytes.iter().position(|byte| *byte == b'-');
    OsStr::from_bytes(mark.map_or(bytes, |mark| &bytes[mark + 1..]))
}

/// The next few files that were taken, read.
fn next(dirs: &Dirs, skipped: &HashSet<OsString>, roles: &Roles) -> io::Result<Vec<Taken>> {
    let mut found = Vec::new();
    for entry in names(&dirs.taken)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_trigger(name.as_bytes()) && !skipped.contains(name) {
            found.push(name.to_owned());
        }
    }
    found.sort();
    found.truncate(AT_ONCE);
    let read = |name: OsString| {
        let what = match Found::read(&dirs.taken, &name, FILE_BYTES_MAX) {
            Ok(found) => what(found, untaken(&name), roles),
            Err(error) => {
                tracing::debug!("trigger file {name:?} cannot be read: {error}");
                What::Later
            }
        };
        Taken { name, what }
    };
    Ok(found.into_iter().map(read).collect())
}

fn what(found: Found, name: &OsStr, roles: &Roles) -> What {
    let (identity, bytes) = match found {
        Found::Gone => return What::Gone,
        Found::Changing(_) => return What::Later,
        Found::TooLarge(_) => {
            return What::Reject(format!("the file is larger than {FILE_BYTES_MAX} bytes"));
        }
        Found::Unfit(_, why) => return What::Reject(why),
        Found::Whole(identity, bytes) => (identity, bytes),
    };
    let name = name.to_string_lossy();
    // No target has such a name: it is refused as one, and so on record.
    let to = trigger::target_of(&name, roles).unwrap_or_else(|| Addressees::One(name.to_string()));
    match trigger::decode(&bytes) {
        Ok(text) => {
            let has_id = trigger::read(&text).id.is_some();
            let mut saying = Saying::by_file(text, to, roles);
            if !has_id {
                saying.id = Some(identity.key(OsStr::new(&*name), &bytes));
            }
            What::Say(Box::new(saying))
        }
        Err(error) => What::Reject(format!("invalid_message: {error}")),
    }
}

/// Says a file. Nothing is waited for before it is queued, so that those of one sender stay in order.
async fn say(context: &Context, Taken { name, what }: Taken) -> (OsString, Fate) {
    let fate = match what {
        What::Say(saying) => match context.broker.say(*saying).await {
            Status::HandlerError => Fate::Later,
            status if status.is_accepted() => Fate::Done,
            status => {
                let why = REFUSALS.iter().find(|(known, _)| *known == status);
                let why = why.map_or_else(String::new, |(_, why)| format!(": {why}"));
                Fate::Rejected(format!("{}{why}", status.as_str()))
            }
        },
        What::Reject(reason) => Fate::Rejected(reason),
        What::Later => Fate::Later,
        What::Gone => Fate::Done,
    };
    match &fate {
        Fate::Done => drop(context.tally.said.fetch_add(1, Ordering::Relaxed)),
        Fate::Rejected(reason) => {
            tracing::info!("trigger file {:?} was rejected: {reason}", untaken(&name));
            context.tally.rejected.fetch_add(1, Ordering::Relaxed);
        }
        Fate::Later => {}
    }
    (name, fate)
}

/// False if the file is still there.
fn put_away(dirs: &Dirs, name: &OsStr, fate: &Fate) -> bool {
    let away = match fate {
        Fate::Done => unlinkat(&dirs.taken, name, AtFlags::empty()).map_err(io::Error::from),
        Fate::Rejected(reason) => reject(dirs, name, reason),
        Fate::Later => return false,
    };
    match away {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("trigger file {name:?} cannot be put away: {error}");
            false
        }
        Ok(()) | Err(_) => true,
    }
}

fn reject(dirs: &Dirs, name: &OsStr, reason: &str) -> io::Result<()> {
    // Under its own name, unless another of that name is there.
    let own = untaken(name);
    let kept = match Identity::at(&dirs.rejected, own)? {
        None => own,
        Some(_) => name,
    };
    explain(&dirs.rejected, kept, reason)?;
    Ok(renameat(&dirs.taken, name, &dirs.rejected, kept)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_told_of_is_taken_within_two_seconds() {
        // It may come just after a look; then the next one meets it, and one after that takes it.
        let looks = UNCHANGED_FOR.div_duration_f64(RESCAN_EVERY).ceil() + 1.0;
        assert!(RESCAN_EVERY.mul_f64(looks) < Duration::from_secs(2));
    }

    #[test]
    fn the_name_of_a_taken_file_tells_its_own() {
        let home = tempfile::tempdir().unwrap();
        let dirs = Dirs::open(&spool::Place::new(home.path(), &home.path().join("d"))).unwrap();
        let long = format!("builder~{}.txt", "x".repeat(FILE_NAME_BYTES_MAX - 12));
        for name in ["builder.txt", "others-1.txt", "a-b-c~d.txt", &long] {
            let path = home.path().join("d/triggers").join(name);
            std::fs::write(path, "x").unwrap();
            take(&dirs, OsStr::new(name)).unwrap();
            let taken = std::fs::read_dir(home.path().join("d/triggers/taken")).unwrap();
            let taken = taken
                .map(|entry| entry.unwrap().file_name())
                .next()
                .unwrap();
            let own = untaken(&taken).to_str().unwrap();
            match name.len() < FILE_NAME_BYTES_MAX {
                true => assert_eq!(own, name),
                false => assert!(
                    own.starts_with("builder~x") && own.ends_with(".txt"),
                    "{own}"
                ),
            }
            assert!(put_away(&dirs, &taken, &Fate::Done));
        }
    }
}
