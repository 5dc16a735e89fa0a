//! Where the door is: its directories, made and opened without following a link out of them.
//!
//! Knows nothing of requests. They are opened anew for each errand, so that one that was removed is simply made again.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Dir, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;

use crate::projection::folder::{self, freely};

/// The directory of the door: links are followed up to `root`, and not below.
#[derive(Clone, Debug)]
pub struct Place {
    root: PathBuf,
    below: Vec<OsString>,
}

/// The door's directories, open.
#[derive(Debug)]
pub struct Dirs {
    pub base: OwnedFd,
    /// What agents ask.
    pub requests: OwnedFd,
    /// What was acted on and is being answered.
    pub taken: OwnedFd,
    /// Answers that are whole, until their requests are put away.
    pub ready: OwnedFd,
    pub responses: OwnedFd,
    pub done: OwnedFd,
    pub rejected: OwnedFd,
}

/// Held by the one hub that serves a directory.
#[derive(Debug)]
pub struct Lock {
    /// `None` where the file system knows no locks.
    held: Option<OwnedFd>,
}

pub const REQUESTS: &str = "requests";
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

    /// Opens all directories, and makes those that are missing.
    pub fn open(&self) -> io::Result<Dirs> {
        let mut base = folder::open(&self.root).map_err(|error| told(&self.root, error))?;
        let mut path = self.root.clone();
        for (index, name) in self.below.iter().enumerate() {
            path.push(name);
            let is_last = index + 1 == self.below.len();
            let mode = if is_last { PRIVATE } else { ORDINARY };
            base = enter(&base, name, mode, &path)?;
        }
        let inner = |name: &str| enter(&base, name.as_ref(), PRIVATE, &path.join(name));
        Ok(Dirs {
            requests: inner(REQUESTS)?,
            taken: inner("taken")?,
            ready: inner("ready")?,
            responses: inner("responses")?,
            done: inner("done")?,
            rejected: inner("rejected")?,
            base,
        })
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

impl Dirs {
    /// Takes the directory for this hub alone; `None` if another one has it.
    pub fn lock(&self) -> io::Result<Option<Lock>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.base, LOCK_FILE, flags, Mode::from_raw_mode(0o600))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { held: Some(file) })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => {
                tracing::warn!(
                    "the file system of the request files does not support locks ({error}); make sure that only one hub serves it"
                );
                Ok(Some(Lock { held: None }))
            }
        }
    }

    /// Whether a lock is still the one that others meet here: the directory may have been made anew.
    pub fn is_locked_by(&self, lock: &Lock) -> bool {
        let Some(held) = &lock.held else {
            return true;
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(there) = openat(&self.base, LOCK_FILE, flags, Mode::empty()) else {
            return false;
        };
        match (fstat(held), fstat(&there)) {
            (Ok(held), Ok(there)) => (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino),
            (Ok(_) | Err(_), _) => false,
        }
    }

    /// Which directory the requests are in: another one after it was made anew.
    pub fn requests_id(&self) -> io::Result<u64> {
        Ok(fstat(&self.requests)?.st_ino)
    }

    /// Whether other machines may write here, of whose writes nobody tells.
    #[cfg(target_os = "linux")]
    pub fn is_remote(&self) -> bool {
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
        rustix::fs::fstatfs(&self.requests).is_ok_and(|system| {
            u64::try_from(system.f_type).is_ok_and(|kind| REMOTE.contains(&kind))
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub fn is_remote(&self) -> bool {
        false
    }
}

/// The names in a directory, to be read piece by piece.
pub fn names(dir: impl AsFd) -> io::Result<Dir> {
    Ok(Dir::read_from(dir)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn place(project: &Path) -> Place {
        Place::new(project, &project.join(".jetpack/protocol"))
    }

    #[test]
    fn directories_are_made_private_and_made_again_when_they_are_gone() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        for _ in 0..2 {
            place.open().unwrap();
            let mode = |name: &str| {
                let meta = std::fs::metadata(place.path().join(name)).unwrap();
                meta.permissions().mode() & 0o777
            };
            for name in [
                "",
                "requests",
                "taken",
                "ready",
                "responses",
                "done",
                "rejected",
            ] {
                assert_eq!(mode(name), 0o700, "{name}");
            }
            std::fs::remove_dir_all(home.path().join(".jetpack")).unwrap();
        }
    }

    #[test]
    fn no_directory_below_the_project_may_be_a_link() {
        let elsewhere = tempfile::tempdir().unwrap();
        for link in [".jetpack", ".jetpack/protocol", ".jetpack/protocol/done"] {
            let home = tempfile::tempdir().unwrap();
            let link = home.path().join(link);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(elsewhere.path(), &link).unwrap();
            let said = place(home.path()).open().unwrap_err().to_string();
            assert!(said.contains(&link.display().to_string()), "{said}");
        }
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_outside_of_the_project_may_be_named_by_links_but_not_be_one() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("real"), home.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        let project = home.path().join("project");
        Place::new(&project, &link.join("door")).open().unwrap();
        assert!(real.join("door/requests").is_dir());
        Place::new(&project, &link).open().unwrap_err();
        let up = Place::new(&project, &project.join("../door"));
        assert_eq!(up.path(), project.join("../door"));
    }

    #[test]
    fn one_hub_serves_a_directory_and_a_new_one_has_a_new_lock() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        let dirs = place.open().unwrap();
        let lock = dirs.lock().unwrap().unwrap();
        assert!(place.open().unwrap().is_locked_by(&lock));
        assert!(place.open().unwrap().lock().unwrap().is_none());
        std::fs::remove_dir_all(place.path()).unwrap();
        let anew = place.open().unwrap();
        assert!(!anew.is_locked_by(&lock));
        assert!(anew.lock().unwrap().is_some());
        drop(lock);
    }
}
