//! The directory that a hub keeps its state in: made private, held by one process, found by others.
//!
//! Who may read what is in it is [`private`], the master key's files are [`keys`].

mod keys;
pub(crate) mod private;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use switchboard_wire::IsoTime;
use switchboard_wire::signature::KEY_LEN;

pub use keys::{Key, Keys};
pub use private::{ignore_all, ledger_files, make_private};

use crate::config::StoreMode;
use crate::projection::{self, folder};

/// Held for as long as the hub runs; the lock goes with the process, however it ends.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    lock: File,
}

#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("cannot use the data directory {}: {source}", path.display())]
    Unusable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "another hub ({holder}) already serves {}; stop it, or use another directory with --data-dir",
        path.display()
    )]
    Held { path: PathBuf, holder: String },
    #[error("{} is not a key of {KEY_LEN} bytes in hexadecimal; restore it from a backup, or delete it to get a new one (all agents then need new keys)", path.display())]
    BadKey { path: PathBuf },
    #[error("the system provides no random bytes")]
    NoRandomness,
}

/// What others read in `hub.json` to find this hub.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    pid: u32,
    /// What each open door says of itself, such as its address.
    #[serde(flatten)]
    doors: BTreeMap<&'static str, serde_json::Value>,
    /// Where the ledger is, without a password, as `--store` takes it.
    store: String,
    started_at: IsoTime,
    version: &'static str,
}

/// A hub that has a data directory for itself, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// A process that has just started has not said yet.
    pub pid: Option<u32>,
    /// What it serves, if it said.
    pub store: Option<String>,
}

impl Drop for DataDir {
    /// A child that was just begun may hold a copy of the file for a moment; the lock must not last as long.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// `hub.json`, removed when the hub ends.
#[derive(Debug)]
pub struct HubFile {
    path: PathBuf,
    text: Vec<u8>,
}

const LOCK_FILE: &str = "lock";
const HUB_FILE: &str = "hub.json";

/// Somebody may just look whether the lock is held.
const LOOKED_AT_FOR: Duration = Duration::from_millis(100);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(10);

impl Card {
    pub fn new(
        doors: BTreeMap<&'static str, serde_json::Value>,
        store: String,
        started_at: IsoTime,
    ) -> Card {
        Card {
            pid: std::process::id(),
            doors,
            store,
            started_at,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl Holder {
    /// Whoever has a data directory for itself. Nothing is made or written for a look at it.
    pub fn of(dir: &Path) -> Option<Holder> {
        let mut lock = File::open(dir.join(LOCK_FILE)).ok()?;
        match lock.try_lock_shared() {
            Ok(()) => {
                let _ = lock.unlock();
                return None;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => return None,
        }
        Some(Holder {
            pid: pid_in(&mut lock),
            store: announced_store(dir),
        })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("a process that has just started"),
        }
    }
}

impl DataDir {
    /// Makes the directory if need be, and takes it for this process alone.
    pub fn open(path: &Path) -> Result<DataDir, DataDirError> {
        Self::open_as(path, StoreMode::Private)
    }

    /// The same, for a ledger that its group may read too.
    pub fn open_as(path: &Path, mode: StoreMode) -> Result<DataDir, DataDirError> {
        Self::open_within(path, mode, Duration::ZERO)
    }

    /// The same; another hub that has it is waited for. Not on a thread that others need.
    pub fn open_within(
        path: &Path,
        mode: StoreMode,
        wait: Duration,
    ) -> Result<DataDir, DataDirError> {
        let unusable = |source| DataDirError::Unusable {
            path: path.to_owned(),
            source,
        };
        make_private(path).map_err(unusable)?;
        ignore_all(path);
        let (mut lock, is_ours) =
            open_locked(&path.join(LOCK_FILE), wait.max(LOOKED_AT_FOR)).map_err(unusable)?;
        if !is_ours {
            let holder = Holder {
                pid: pid_in(&mut lock),
                store: None,
            };
            return Err(DataDirError::Held {
                path: path.to_owned(),
                holder: holder.to_string(),
            });
        }
        write_pid(&mut lock).map_err(unusable)?;
        private::set_directory(path, mode);
        Ok(DataDir {
            path: path.to_owned(),
            lock,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells others where this hub listens.
    pub fn announce(&self, card: &Card) -> Result<HubFile, DataDirError> {
        let text = serde_json::to_vec(card).expect("numbers and text are always JSON");
        let path = self.keep(HUB_FILE, &text)?;
        Ok(HubFile { path, text })
    }

    /// The files of the master key.
    pub fn keys(&self) -> Keys {
        Keys::of(&self.path)
    }

    /// Writes a file, whole or not at all, and for the owner's eyes only.
    pub fn keep(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, DataDirError> {
        let path = self.path.join(name);
        keep(&path, bytes)?;
        Ok(path)
    }
}

fn keep(path: &Path, bytes: &[u8]) -> Result<(), DataDirError> {
    folder::put_at(path, bytes, 0o600).map_err(|source| DataDirError::Unusable {
        path: path.to_owned(),
        source,
    })
}

impl Drop for HubFile {
    fn drop(&mut self) {
        // Where the directory was replaced meanwhile, another hub may have told its own address there.
        let is_ours = std::fs::read(&self.path).is_ok_and(|there| there == self.text);
        if is_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn write_pid(lock: &mut File) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

/// Opens a file to lock it, and whether that came about in time.
pub(crate) fn open_locked(path: &Path, within: Duration) -> std::io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(path)?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok((file, true)),
            Err(TryLockError::WouldBlock) if began.elapsed() < within => {
                std::thread::sleep(ASK_AGAIN_AFTER);
            }
            Err(TryLockError::WouldBlock) => return Ok((file, false)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn pid_in(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.take(64).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn announced_store(dir: &Path) -> Option<String> {
    let text = projection::read(&dir.join(HUB_FILE)).ok()??;
    let card: serde_json::Value = serde_json::from_slice(&text).ok()?;
    Some(card.get("store")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_hub_is_told_which_process_holds_the_directory() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("project/.switchboard");
        assert_eq!(Holder::of(&path), None);
        assert!(!path.exists(), "a look makes nothing");
        let first = DataDir::open(&path).unwrap();
        let said = DataDir::open(&path).unwrap_err().to_string();
        assert!(
            said.contains(&format!("process {}", std::process::id())),
            "{said}"
        );
        assert!(said.contains("--data-dir"), "{said}");
        drop(first);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn the_announcement_names_the_address_and_goes_with_the_hub() {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(home.path()).unwrap();
        let doors = BTreeMap::from([("http", "127.0.0.1:7373".into()), ("tls", false.into())]);
        let store = "postgres://me@h/d".to_owned();
        let file = dir.announce(&Card::new(doors, store, IsoTime(0))).unwrap();
        let read = || std::fs::read_to_string(home.path().join("hub.json"));
        let card: serde_json::Value = serde_json::from_str(&read().unwrap()).unwrap();
        assert_eq!(card["pid"], std::process::id());
        assert_eq!(card["http"], "127.0.0.1:7373");
        assert_eq!(card["tls"], false);
        assert_eq!(card["store"], "postgres://me@h/d");
        let holder = Holder::of(home.path()).unwrap();
        assert_eq!(holder.pid, Some(std::process::id()));
        assert_eq!(holder.store.as_deref(), Some("postgres://me@h/d"));
        assert_eq!(card["startedAt"], "1970-01-01T00:00:00.000Z");
        assert!(card["version"].is_string());
        drop(file);
        assert!(read().is_err());
        assert_eq!(Holder::of(home.path()).unwrap().store, None);
        drop(dir);
        assert_eq!(Holder::of(home.path()), None);
    }

    #[test]
    fn the_announcement_of_another_hub_stays() {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::open(home.path()).unwrap();
        let announce = |port| {
            let doors = BTreeMap::from([("http", format!("127.0.0.1:{port}").into())]);
            let card = Card::new(doors, String::new(), IsoTime(0));
            dir.announce(&card).unwrap()
        };
        let (ours, theirs) = (announce(1), announce(2));
        drop(ours);
        assert!(home.path().join(HUB_FILE).exists());
        drop(theirs);
        assert!(!home.path().join(HUB_FILE).exists());
    }
}
