//! The authority's directory: private, changed by one process at a time, every file whole or not there.
//!
//! What is in the files is not known here.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::AuthorityError;
use crate::data_dir::{ignore_all, make_private, open_locked};
use crate::projection::folder;

/// `<data_dir>/bus`.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
}

/// Held while files are changed; it goes with the process, however that ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Who may read a file: its owner, or everyone.
pub(super) const PRIVATE: u32 = 0o600;
pub(super) const PUBLIC: u32 = 0o644;

/// What the system says about the watched files: another stamp, other content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp([Option<Mark>; WATCHED.len()]);

type Mark = (u64, u64, Option<SystemTime>);

/// The trusted authorities, the signing one first.
pub(super) const CA: &str = "ca.pem";
/// The key of the signing authority; while it is replaced, also the one before.
pub(super) const CA_KEY: &str = "ca.key";
/// New authorities signed by those before them, the newest first.
pub(super) const CHAIN: &str = "chain.pem";
/// The director's certificate and its key, in one file so that they always belong together.
pub(super) const DIRECTOR: &str = "director.pem";
pub(super) const INDEX: &str = "index.json";
/// Every certificate that was issued and has not expired, by serial number.
pub(super) const CERTS: &str = "certs";
/// Where issued certificates go unless another place is named.
const ISSUED: &str = "issued";
const LOCK: &str = "lock";
const WATCHED: [&str; 4] = [CA, CHAIN, DIRECTOR, INDEX];

/// Nobody changes the files for longer.
const LOCK_WITHIN: Duration = Duration::from_secs(10);

impl Folder {
    pub fn of(data_dir: &Path) -> Folder {
        Folder {
            path: data_dir.join("bus"),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Where the files of a certificate go unless another place is named.
    pub fn issued(&self, stem: &str) -> PathBuf {
        self.path.join(ISSUED).join(stem)
    }

    pub fn make(&self) -> Result<(), AuthorityError> {
        let make = |folder: &Path| make_private(folder).map_err(|error| unwritable(folder, &error));
        if let Some(data_dir) = self.path.parent() {
            make(data_dir)?;
            ignore_all(data_dir);
        }
        make(&self.path)?;
        make(&self.join(CERTS))?;
        Ok(())
    }

    /// Waits until nobody else changes the files.
    pub fn lock(&self) -> Result<Lock, AuthorityError> {
        let path = self.join(LOCK);
        match open_locked(&path, LOCK_WITHIN) {
            Ok((file, true)) => Ok(Lock { _file: file }),
            Ok((_, false)) => Err(AuthorityError::Busy {
                folder: self.path.clone(),
            }),
            Err(error) => Err(unwritable(&path, &error)),
        }
    }

    /// The text of a file of at most so many bytes; nothing if there is none.
    pub fn read(&self, name: &str, max: u64) -> Result<Option<String>, AuthorityError> {
        let path = self.join(name);
        let unreadable = |reason: String| AuthorityError::Unreadable {
            path: path.clone(),
            reason,
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let mut text = String::new();
        let read = file.take(max + 1).read_to_string(&mut text);
        match read {
            Ok(length) if length as u64 > max => {
                Err(unreadable(format!("it is larger than {max} bytes")))
            }
            Ok(_) => Ok(Some(text)),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    pub fn keep(&self, name: &str, text: &str) -> Result<(), AuthorityError> {
        keep(&self.join(name), text, PRIVATE)
    }

    /// Forgets a certificate's copy; one that is gone already is no matter.
    pub fn forget(&self, name: &str) {
        if let Err(error) = fs::remove_file(self.join(name)) {
            tracing::debug!("cannot remove {name}: {error}");
        }
    }

    pub fn stamp(&self) -> Stamp {
        Stamp(WATCHED.map(|name| {
            let found = fs::metadata(self.join(name)).ok()?;
            Some((found.ino(), found.len(), found.modified().ok()))
        }))
    }
}

/// Writes a file whole or not at all: a reader finds the old text or the new one.
pub(super) fn keep(path: &Path, text: &str, mode: u32) -> Result<(), AuthorityError> {
    folder::put_at(path, text.as_bytes(), mode).map_err(|error| unwritable(path, &error))
}

pub(super) fn unwritable(path: &Path, error: &io::Error) -> AuthorityError {
    AuthorityError::Unwritable {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
