//! A directory that others put files into: made and opened without following a link out of it, held by one hub.
//!
//! It is opened anew for each errand, so that one that was removed is simply made again.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Dir, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;

use crate::projection::folder::{self, freely};

/// Where it is: links are followed up to `root`, and not below.
#[derive(Clone, Debug)]
pub struct Place {
    root: PathBuf,
    below: Vec<OsString>,
}

/// Held by the one hub that serves a directory.
#[derive(Debug)]
pub struct Lock {
    /// `None` where the file system knows no locks.
    held: Option<OwnedFd>,
}

const LOCK_FILE: &str = ".lock";
/// Whoever may write here may act, so at first only the owner may; the operator can widen it.
const PRIVATE: u32 = 0o700;
const ORDINARY: u32 = 0o755;

impl Place {
    pub fn new(project: &Path, dir: &Path) -> Place {
        let inside = dir.strip_prefix(project).ok().and_then(plain);
        let (root, below) = match inside {
            Some(below) if !below.is_empty() => (project.to_owned(), below),
            Some(_) | None => {
                let parent = dir.parent().unwrap_or(dir).to_owned();
                (
                    parent,
                    dir.file_name().map(Into::into).into_iter().collect(),
                )
            }
        };
        Place { root, below }
    }

    pub fn path(&self) -> PathBuf {
        self.below
            .iter()
            .fold(self.root.clone(), |path, name| path.join(name))
    }

    /// Opens it, and makes it if it is missing, for its owner alone.
    pub fn enter(&self) -> io::Result<OwnedFd> {
        let mut base = folder::open(&self.root).map_err(|error| told(&self.root, error))?;
        let mut path = self.root.clone();
        for (index, name) in self.below.iter().enumerate() {
            path.push(name);
            let is_last = index + 1 == self.below.len();
            let mode = if is_last { PRIVATE } else { ORDINARY };
            base = enter(&base, name, mode, &path)?;
        }
        Ok(base)
    }

    /// The same for a directory in it; `name` may go down several.
    pub fn enter_inner(&self, base: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
        let (mut dir, mut path) = (base.try_clone()?, self.path());
        for name in name.split('/') {
            path.push(name);
            dir = enter(&dir, name.as_ref(), PRIVATE, &path)?;
        }
        Ok(dir)
    }
}

/// The names of a path that goes straight down.
fn plain(path: &Path) -> Option<Vec<OsString>> {
    path.components()
        .map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect()
}

fn enter(at: &OwnedFd, name: &OsStr, mode: u32, path: &Path) -> io::Result<OwnedFd> {
    folder::enter(at, name, mode, &mut freely).map_err(|error| told(path, error))
}

fn told(path: &Path, error: io::Error) -> io::Error {
    let why = match Errno::from_io_error(&error) {
        Some(Errno::LOOP | Errno::NOTDIR) => "it is not a directory, or a link to one".to_owned(),
        Some(_) | None => error.to_string(),
    };
    io::Error::new(error.kind(), format!("{}: {why}", path.display()))
}

impl Lock {
    /// Takes a directory for this hub alone; `None` if another one has it.
    pub fn take(base: &OwnedFd) -> io::Result<Option<Lock>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(base, LOCK_FILE, flags, Mode::from_raw_mode(0o600))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { held: Some(file) })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => {
                tracing::warn!(
                    "the project's file system does not support locks ({error}); make sure that only one hub serves it"
                );
                Ok(Some(Lock { held: None }))
            }
        }
    }

    /// Whether it is still the one that others meet here: the directory may have been made anew.
    pub fn is_of(&self, base: &OwnedFd) -> bool {
        let Some(held) = &self.held else {
            return true;
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(there) = openat(base, LOCK_FILE, flags, Mode::empty()) else {
            return false;
        };
        match (fstat(held), fstat(&there)) {
            (Ok(held), Ok(there)) => (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino),
            (Ok(_) | Err(_), _) => false,
        }
    }
}

/// Which directory it is: another one after it was made anew.
pub fn id(dir: &OwnedFd) -> io::Result<u64> {
    Ok(fstat(dir)?.st_ino)
}

/// Whether other machines may write there, of whose writes nobody tells.
#[cfg(target_os = "linux")]
pub fn is_remote(dir: &OwnedFd) -> bool {
    /// NFS, SMB 1 to 3, Ceph, 9p, FUSE, AFS.
    const REMOTE: [u64; 8] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x00c3_6400,
        0x0102_1997,
        0x6573_5546,
        0x5346_414f,
    ];
    rustix::fs::fstatfs(dir)
        .is_ok_and(|system| u64::try_from(system.f_type).is_ok_and(|kind| REMOTE.contains(&kind)))
}

#[cfg(not(target_os = "linux"))]
pub fn is_remote(_: &OwnedFd) -> bool {
    false
}

/// The names in a directory, to be read piece by piece.
pub fn names(dir: impl AsFd) -> io::Result<Dir> {
    Ok(Dir::read_from(dir)?)
}
