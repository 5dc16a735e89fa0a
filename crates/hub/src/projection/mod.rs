//! Files that follow the ledger: written whole, mended after a crash, and known when somebody else changed them.
//!
//! A projection has a directory and, elsewhere, a record: which files it wrote, the hash of what is in each, and how far
//! the ledger was. Whatever is about to be written or removed is marked there first. So the next start knows what was
//! cut off, removes what it wrote and is wanted no longer, and leaves alone what it did not write. Knows no ledger: what
//! is wanted comes in as a list, in the order in which it is written. [`folder`] is how one file is replaced.

pub mod folder;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use aws_lc_rs::digest;
use rustix::fs::{CWD, FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use switchboard_wire::signature::to_hex;

use self::folder::Probe;

#[derive(Clone, Debug)]
pub struct Projection {
    /// The files are here, or are named by whole paths. Made when there is something to write.
    pub root: PathBuf,
    /// Where it is noted what was written. For one process alone, and in none of the directories that files are in.
    pub record: PathBuf,
}

/// A file as it should be.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub path: PathBuf,
    /// Another one whenever the content is another.
    pub version: String,
    /// Asked for if it is not given.
    pub content: Option<Vec<u8>>,
    pub foreign: Foreign,
}

/// What becomes of a file in its place that is none of ours, which is asked of what is in it.
#[derive(Clone, Copy, Debug)]
pub enum Foreign {
    /// Nobody else has files of such a name.
    Replace,
    Keep(fn(&[u8]) -> bool),
    /// Kept beside ours, because somebody may want it.
    PutAside(fn(&[u8]) -> bool),
}

/// How far the ledger was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    pub epoch: u64,
    pub seq: u64,
}

/// How closely files are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every byte of every file is read.
    Bytes,
    /// Whether each file is there.
    Presence,
}

/// What was found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    pub written: usize,
    /// Those of them that were there, but not as they were written.
    pub altered: usize,
    pub removed: usize,
}

/// Gives what is in a file; `None` if the ledger has it no longer.
pub type Content<'a> = &'a mut dyn FnMut(&Wanted) -> io::Result<Option<Vec<u8>>>;

/// What was written, by path: below the root, or whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    upto: Position,
    /// `None` for what is being written or removed.
    files: BTreeMap<String, Option<Written>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    version: String,
    /// Of the bytes.
    sha256: String,
}

impl Projection {
    /// Makes the files what is wanted, and removes those that were once and are no longer.
    ///
    /// Another process that writes there just now, and a ledger that went on, are told as [`ErrorKind::WouldBlock`].
    pub fn reconcile(
        &self,
        upto: Position,
        wanted: &[Wanted],
        check: Check,
        content: Content<'_>,
        probe: Probe<'_>,
    ) -> io::Result<Repairs> {
        let mut record = self.read_record()?;
        if record.upto > upto {
            // The ledger lost what was written then, or is another one: these files are nobody's.
            record = Record::default();
        }
        if wanted.is_empty() && record.files.is_empty() {
            return Ok(Repairs::default());
        }
        let root = directory(&self.root, probe)?;
        alone(&root)?;
        let mut work = Work {
            projection: self,
            root,
            saved: record.clone(),
            record,
            probe,
            repairs: Repairs::default(),
        };
        let mut stale = Vec::new();
        let mut gone = work.record.files.clone();
        for file in wanted {
            let key = self.key(&file.path);
            gone.remove(&key);
            if work.is_stale(file, &key, check)? {
                work.record.files.insert(key.clone(), None);
                stale.push((file, key));
            }
        }
        for key in gone.keys() {
            work.record.files.insert(key.clone(), None);
        }
        work.save()?;
        for (file, key) in stale {
            work.write(file, key, content)?;
        }
        for key in gone.into_keys() {
            work.remove(&key)?;
        }
        work.record.upto = upto;
        work.save()?;
        Ok(work.repairs)
    }

    /// The version in which a file was written, if it is there; what is in it now is not looked at.
    pub fn version(&self, path: &Path) -> io::Result<Option<String>> {
        let written = self.read_record()?.files.remove(&self.key(path)).flatten();
        Ok(written
            .filter(|_| path.is_file())
            .map(|written| written.version))
    }

    /// What somebody else made of a file that was written.
    pub fn altered(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let written = self.read_record()?.files.remove(&self.key(path)).flatten();
        let (Some(written), Some(there)) = (written, read(path)?) else {
            return Ok(None);
        };
        Ok((hash(&there) != written.sha256).then_some(there))
    }

    fn key(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        below.to_string_lossy().into_owned()
    }

    fn read_record(&self) -> io::Result<Record> {
        let bytes = read(&self.record)?.unwrap_or_default();
        // One that cannot be read knows nothing: everything is written again, and nothing is removed.
        Ok(serde_json::from_slice(&bytes).unwrap_or_default())
    }
}

/// One reconciliation.
struct Work<'a> {
    projection: &'a Projection,
    /// Held for this process alone meanwhile.
    root: OwnedFd,
    record: Record,
    /// The record as it is on disk.
    saved: Record,
    probe: Probe<'a>,
    repairs: Repairs,
}

impl Work<'_> {
    fn is_stale(&mut self, file: &Wanted, key: &str, check: Check) -> io::Result<bool> {
        let written = self.record.files.get(key).cloned().flatten();
        let written = written.filter(|written| written.version == file.version);
        if check == Check::Presence
            && written.is_some()
            && fs::symlink_metadata(&file.path).is_ok_and(|found| found.is_file())
        {
            return Ok(false);
        }
        let Some(there) = read(&file.path)? else {
            return Ok(true);
        };
        match (file.foreign, written) {
            (Foreign::Keep(is_ours), _) if !is_ours(&there) => {
                self.record.files.remove(key);
                Ok(false)
            }
            (_, Some(written)) => {
                let is_altered = written.sha256 != hash(&there);
                self.repairs.altered += usize::from(is_altered);
                Ok(is_altered)
            }
            (_, None) => Ok(true),
        }
    }

    fn write(&mut self, file: &Wanted, key: String, content: Content<'_>) -> io::Result<()> {
        let given = file.content.clone();
        let Some(bytes) = given.map_or_else(|| content(file), |bytes| Ok(Some(bytes)))? else {
            return Err(io::Error::new(
                ErrorKind::WouldBlock,
                "the ledger went on while its files were written",
            ));
        };
        if let Foreign::PutAside(is_ours) = file.foreign
            && read(&file.path)?.is_some_and(|there| !is_ours(&there))
        {
            self.put_aside(&file.path)?;
        }
        let name = file.path.file_name().unwrap_or_default();
        let dir = self.directory_of(Path::new(&key))?;
        folder::replace(&dir, name, &temporary(name), &bytes, None, self.probe)
            .map_err(|error| told(&file.path, error))?;
        let written = Written {
            version: file.version.clone(),
            sha256: hash(&bytes),
        };
        self.record.files.insert(key, Some(written));
        self.repairs.written += 1;
        Ok(())
    }

    /// Where a file goes; below the root no link is followed.
    fn directory_of(&mut self, key: &Path) -> io::Result<OwnedFd> {
        let above = key.parent().unwrap_or(key);
        if !is_below(key) {
            return directory(above, self.probe);
        }
        let mut dir = self.root.try_clone()?;
        for name in above.components() {
            dir = folder::enter(&dir, name.as_os_str(), 0o777, self.probe)
                .map_err(|error| told(&self.projection.root.join(above), error))?;
        }
        Ok(dir)
    }

    fn put_aside(&mut self, path: &Path) -> io::Result<()> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".unreadable");
        let aside = PathBuf::from(aside);
        (self.probe)("put a file aside")?;
        tracing::warn!(
            "{} was not written by the hub; it was renamed to {}",
            path.display(),
            aside.display()
        );
        fs::rename(path, &aside).map_err(|error| told(path, error))
    }

    /// Removes a file, what was left of it half-written, and the directories that are empty without it.
    fn remove(&mut self, key: &str) -> io::Result<()> {
        let root = &self.projection.root;
        let path = root.join(key);
        // A path outside is that of a setting that was changed: what is there stays.
        if is_below(Path::new(key)) {
            let half = path.with_file_name(temporary(path.file_name().unwrap_or_default()));
            for file in [&half, &path] {
                (self.probe)("remove a file")?;
                match fs::remove_file(file) {
                    Ok(()) => self.repairs.removed += usize::from(file == &path),
                    Err(error) if is_absent(&error) => {}
                    Err(error) => return Err(told(file, error)),
                }
            }
            for dir in path.ancestors().skip(1).take_while(|dir| dir != root) {
                (self.probe)("remove a directory")?;
                match fs::remove_dir(dir) {
                    Ok(()) => {}
                    Err(error) if is_absent(&error) => {}
                    // It is not empty.
                    Err(_) => break,
                }
            }
        }
        self.record.files.remove(key);
        Ok(())
    }

    fn save(&mut self) -> io::Result<()> {
        if self.record == self.saved {
            return Ok(());
        }
        let path = &self.projection.record;
        if let Some(above) = path.parent() {
            folder::make(above, 0o777)?;
        }
        let name = path.file_name().unwrap_or_default();
        let text = serde_json::to_vec(&self.record)?;
        folder::open(path.parent().unwrap_or(path))
            .and_then(|dir| folder::replace(dir, name, &temporary(name), &text, None, self.probe))
            .map_err(|error| told(path, error))?;
        self.saved = self.record.clone();
        Ok(())
    }
}

/// What tells one content from another.
pub fn hash(bytes: &[u8]) -> String {
    to_hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// What is in a file, whatever it is by now; `None` if there is none.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    folder::read(CWD, path).map_err(|error| told(path, error))
}

/// Opens a directory, and makes it if it is missing. It may be named by links, but not be one.
fn directory(path: &Path, probe: Probe<'_>) -> io::Result<OwnedFd> {
    let above = path.parent().unwrap_or(path);
    let name = path.file_name().unwrap_or(OsStr::new("."));
    folder::make(above, 0o777)
        .and_then(|()| folder::enter(folder::open(above)?, name, 0o777, probe))
        .map_err(|error| told(path, error))
}

/// Two coordinators of one project write one after the other.
fn alone(root: &OwnedFd) -> io::Result<()> {
    match flock(root, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(io::Error::new(
            ErrorKind::WouldBlock,
            "another hub is writing there",
        )),
        // Else it is a file system that knows no locks.
        Ok(()) | Err(_) => Ok(()),
    }
}

fn is_below(key: &Path) -> bool {
    let mut parts = key.components();
    parts.all(|part| matches!(part, Component::Normal(_)))
}

fn temporary(name: &OsStr) -> OsString {
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(".tmp");
    temporary
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

fn told(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
