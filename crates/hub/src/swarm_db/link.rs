//! The link: what lies at `.jetpack/swarm.db`, and how a relative symlink to the ledger gets there.
//!
//! Never a hard link and never a copy: SQLite keeps its log beside the name that it resolved, and two names with two logs
//! would be two databases.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use switchboard_store::swarm_db::is_ledger;

use crate::config::DATA_DIR;
use crate::data_dir::Holder;
use crate::projection::folder;

/// Where Jetpack's tools look, and where the ledger really is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwarmDb {
    project: PathBuf,
    ledger: PathBuf,
}

/// What lies at `.jetpack/swarm.db`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    Absent,
    /// The ledger itself was put there by its settings.
    Ledger,
    /// It opens the ledger.
    Linked,
    /// A link that an earlier start made, to where the ledger no longer is.
    Stale {
        target: PathBuf,
    },
    /// A link to the ledger of another hub of this project, which runs.
    Served {
        target: PathBuf,
        by: Holder,
    },
    /// A link to something that is not ours.
    Foreign {
        target: PathBuf,
    },
    /// A database that Jetpack's own tools made.
    Old,
    /// Neither a file nor a link.
    Odd,
    /// It cannot be looked at.
    Unreadable {
        why: String,
    },
}

/// The directory of Jetpack's tools, below the project.
const FOLDER: &str = ".jetpack";
const FILE: &str = "swarm.db";
/// The name under which a link is made before it takes its place at once.
const LINKING: &str = "swarm.db.linking";

impl SwarmDb {
    /// `ledger` is the file that the settings name.
    pub fn new(project: &Path, ledger: &Path) -> SwarmDb {
        SwarmDb {
            project: project.to_owned(),
            ledger: ledger.to_owned(),
        }
    }

    /// How a person finds it, from the project.
    pub const SHOWN: &'static str = ".jetpack/swarm.db";
    /// What may lie beside it, as patterns for git: the file or link, SQLite's own files, what was imported.
    pub const FILES: [&'static str; 3] = ["swarm.db", "swarm.db-*", "swarm.db.*"];

    pub fn path(&self) -> PathBuf {
        self.project.join(FOLDER).join(FILE)
    }

    pub fn ledger(&self) -> &Path {
        &self.ledger
    }

    pub fn folder(&self) -> PathBuf {
        self.project.join(FOLDER)
    }

    pub fn look(&self) -> LinkState {
        let path = self.path();
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found.file_type(),
            Err(error) if error.kind() == ErrorKind::NotFound && self.is_in_place() => {
                return LinkState::Ledger;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return LinkState::Absent,
            Err(error) => {
                let why = error.to_string();
                return LinkState::Unreadable { why };
            }
        };
        if found.is_symlink() {
            return self.look_at_link(&path);
        }
        if !found.is_file() {
            return LinkState::Odd;
        }
        // Settings may name the place before it was ever a ledger.
        if self.is_in_place() && is_ledger(&path) {
            LinkState::Ledger
        } else {
            LinkState::Old
        }
    }

    /// Whether the settings put the ledger itself there.
    pub(super) fn is_in_place(&self) -> bool {
        let path = self.path();
        self.ledger == path || beside(&self.ledger) == beside(&path)
    }

    fn look_at_link(&self, path: &Path) -> LinkState {
        let target = match fs::read_link(path) {
            Ok(target) => target,
            Err(error) => {
                let why = error.to_string();
                return LinkState::Unreadable { why };
            }
        };
        let leads_to = real(path);
        // A link in the ledger's own place is followed by SQLite as well.
        if leads_to == real(&self.ledger) {
            return LinkState::Linked;
        }
        if let Some(by) = self.served_by(&leads_to) {
            return LinkState::Served { target, by };
        }
        let ours = leads_to.starts_with(real(&self.project))
            && (!leads_to.exists() || is_ledger(&leads_to));
        if ours {
            LinkState::Stale { target }
        } else {
            LinkState::Foreign { target }
        }
    }

    /// Where the link leads, if there is one.
    pub(crate) fn leads_to(&self) -> Option<PathBuf> {
        let path = self.path();
        path.is_symlink().then(|| real(&path))
    }

    /// Another hub that runs and has this ledger. The file itself is not opened for that: the lock of a data directory
    /// tells that its hub runs, and `hub.json` which ledger it serves.
    pub(crate) fn served_by(&self, ledger: &Path) -> Option<Holder> {
        let beside = ledger.parent()?;
        let default = real(&self.project.join(DATA_DIR));
        let dirs = [beside, &default];
        dirs.into_iter().find_map(|dir| {
            let holder = Holder::of(dir).filter(|by| by.pid != Some(std::process::id()))?;
            let serves_it = match holder.store.as_deref() {
                Some(store) => store.strip_prefix("sqlite:").map(Path::new) == Some(ledger),
                // It has just started, and most ledgers lie in their hub's own directory.
                None => dir == beside,
            };
            serves_it.then_some(holder)
        })
    }

    /// Makes the folder, and tries there whether a link can be made at all; it waits under another name.
    pub(super) fn prepare(&self) -> io::Result<Prepared> {
        let folder = self.folder();
        fs::create_dir_all(&folder)?;
        let waiting = self.tidy()?;
        symlink(self.target(&folder), &waiting)?;
        Ok(Prepared {
            waiting,
            path: self.path(),
            folder,
        })
    }

    /// Removes a link that still waits because its start was killed. Returns its name.
    pub(super) fn tidy(&self) -> io::Result<PathBuf> {
        let waiting = self.folder().join(LINKING);
        match fs::remove_file(&waiting) {
            Ok(()) => Ok(waiting),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(waiting),
            Err(error) => Err(error),
        }
    }

    /// Relative within the project, which may be moved as a whole; absolute to a ledger outside of it.
    fn target(&self, folder: &Path) -> PathBuf {
        let (project, folder, ledger) = (real(&self.project), real(folder), real(&self.ledger));
        if ledger.starts_with(&project) && folder.starts_with(&project) {
            relative(&folder, &ledger)
        } else {
            ledger
        }
    }
}

/// A link that can take its place. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct Prepared {
    waiting: PathBuf,
    path: PathBuf,
    folder: PathBuf,
}

impl Prepared {
    /// Takes the place of an older link, at once.
    pub fn renew(self) -> io::Result<()> {
        fs::rename(&self.waiting, &self.path)?;
        folder::sync_at(&self.folder)
    }

    /// Takes a place where nothing is. What appeared there in the meantime is somebody's and stays.
    pub fn settle(&self) -> io::Result<()> {
        let target = fs::read_link(&self.waiting)?;
        symlink(&target, &self.path)?;
        folder::sync_at(&self.folder)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        match fs::remove_file(&self.waiting) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::debug!("cannot remove {}: {error}", self.waiting.display()),
        }
    }
}

/// Where a path leads, links followed as far as there is something.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    if let Ok(target) = fs::read_link(path) {
        // It leads nowhere; what it says still counts.
        let from = path.parent().unwrap_or(Path::new(""));
        return beside(&plain(&beside_dir(from).join(target)));
    }
    beside(path)
}

/// The directory followed, the last name taken as it stands.
fn beside(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => beside_dir(parent).join(name),
        (Some(_) | None, Some(_) | None) => plain(path),
    }
}

fn beside_dir(folder: &Path) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) => beside_dir(parent).join(name),
        (Some(_) | None, Some(_) | None) => plain(folder),
    })
}

/// Without `.` and `..`, by the names alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// The way from a directory to a file, both absolute and real.
fn relative(folder: &Path, file: &Path) -> PathBuf {
    let shared = folder
        .components()
        .zip(file.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = folder
        .components()
        .skip(shared)
        .map(|_| Component::ParentDir);
    let down = file.components().skip(shared);
    up.chain(down).collect()
}
