//! Engrams as files: a projection of the ledger's rows that may be cut off at any moment and is then put right.
//!
//! Files are there before the catalog names them, and go after it no longer does. What is to go is written down first,
//! so that nothing of it is left behind; what nobody knows is left alone. Knows no ledger: rows come in as a catalog.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use switchboard_wire::agentbus::Scope;
use switchboard_wire::agentbus::catalog::{Catalog, CatalogEntry};
use switchboard_wire::agentbus::engram::{self, Engram, MEMORY_DIR};

/// A file of ours that is larger than this was not written by us.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// What was taken out of the catalog and is to be removed.
const LEAVING: &str = ".leaving.json";
const DIGEST: &str = "memory.md";

/// Where the files are.
#[derive(Clone, Debug)]
pub struct Shelf {
    pub root: PathBuf,
    pub catalog: PathBuf,
}

/// How closely files are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Every byte of every file, and what was left behind.
    Whole,
    /// Whether each file is there.
    There,
}

/// What was found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    pub written: usize,
    /// Those of them that were there, but not as they were written.
    pub altered: usize,
    pub removed: usize,
}

/// Told before every change to the disk; an error ends the work there. For tests that cut it off.
pub trait Step {
    fn about_to(&mut self, what: &'static str) -> io::Result<()>;
}

/// Nothing is in the way.
pub struct Freely;

impl Step for Freely {
    fn about_to(&mut self, _what: &'static str) -> io::Result<()> {
        Ok(())
    }
}

/// What the files should tell.
pub struct Wanted<'a> {
    pub catalog: &'a Catalog,
    /// Ids of engrams that the ledger had and let go; files of others are left alone.
    pub evicted: &'a HashSet<String>,
    /// A short text for people, if there is one.
    pub digest: Option<&'a str>,
}

impl Shelf {
    /// Makes files, catalog and digest agree with what is wanted. `body` is asked for the content of what is missing.
    pub fn reconcile(
        &self,
        wanted: &Wanted<'_>,
        look: Look,
        body: impl FnMut(&CatalogEntry) -> io::Result<Option<String>>,
        step: &mut impl Step,
    ) -> io::Result<Mended> {
        let has_files = !wanted.catalog.entries.is_empty();
        if !has_files && !self.is_ours() {
            // Nothing to tell, and nothing of ours there: no directory is made for that.
            return Ok(Mended::default());
        }
        directory(&self.root, step)?;
        let _alone = Alone::with(&self.root)?;
        let mut work = Work {
            shelf: self,
            step,
            mended: Mended::default(),
        };
        if look == Look::Whole {
            work.tidy()?;
        }
        work.files(&wanted.catalog.entries, look, body)?;
        work.catalog(wanted)?;
        work.leave(wanted.catalog)?;
        if let Some(text) = wanted.digest {
            work.digest(text)?;
        }
        Ok(work.mended)
    }

    /// The engrams of the catalog that is there, oldest first: those whose file is what the catalog says.
    ///
    /// For a ledger that knows none, such as a new one beside a directory that was checked out.
    pub fn found(&self, most: usize) -> Vec<(Engram, String)> {
        let Some(catalog) = self.read_catalog() else {
            return Vec::new();
        };
        let mut entries = catalog.entries;
        entries.sort_by(|a, b| (&a.version, &a.engram_id).cmp(&(&b.version, &b.engram_id)));
        let newest = entries.len().saturating_sub(most);
        let read = |entry: &CatalogEntry| {
            let text = read(&self.file(&entry.path)?).ok()??;
            let engram = Engram::from_text(text.as_bytes()).ok()?;
            let is_it = engram.hash == entry.hash
                && engram.engram_id == entry.engram_id
                && engram.version == entry.version
                && engram.scope == entry.scope;
            is_it.then_some((engram, text))
        };
        entries[newest..].iter().filter_map(read).collect()
    }

    /// Whether a catalog of ours is there, or what we were about to remove.
    fn is_ours(&self) -> bool {
        self.root.join(LEAVING).exists() || self.read_catalog().is_some()
    }

    fn read_catalog(&self) -> Option<Catalog> {
        let text = read(&self.catalog).ok()??;
        Catalog::from_text(text.as_bytes()).ok()
    }

    /// Where the file of a catalog's path is; `None` if no engram can have that path.
    fn file(&self, path: &str) -> Option<PathBuf> {
        let below = path.strip_prefix(MEMORY_DIR)?.strip_prefix('/')?;
        let mut parts = below.splitn(3, '/');
        let (scope, batch, name) = (parts.next()?, parts.next()?, parts.next()?);
        let id = name.strip_prefix("engram_")?.strip_suffix(".json")?;
        let is_one = scope.parse::<Scope>().is_ok()
            && engram::batch_time(batch).is_some()
            && engram::is_id(id);
        is_one.then(|| self.root.join(below))
    }
}

/// One reconciliation.
struct Work<'a, S> {
    shelf: &'a Shelf,
    step: &'a mut S,
    mended: Mended,
}

impl<S: Step> Work<'_, S> {
    fn files(
        &mut self,
        entries: &[CatalogEntry],
        look: Look,
        mut body: impl FnMut(&CatalogEntry) -> io::Result<Option<String>>,
    ) -> io::Result<()> {
        let named = match look {
            Look::Whole => self.shelf.read_catalog().map(|catalog| catalog.entries),
            Look::There => None,
        };
        for entry in entries {
            let file = self.shelf.file(&entry.path).ok_or_else(|| no_path(entry))?;
            let there = state(&file, entry, look)?;
            // What an earlier run wrote and did not come to name may be in the system's memory only: not so now.
            let is_half_done = look == Look::Whole && !named.iter().flatten().any(|it| it == entry);
            if there == There::AsWritten && !is_half_done {
                continue;
            }
            let Some(body) = body(entry)? else {
                // Another coordinator let go of it in the meantime; the next catalog will not have it.
                return Err(io::Error::new(
                    ErrorKind::WouldBlock,
                    "the ledger went on while its files were written",
                ));
            };
            let (scope, batch) = (entry.scope.as_str(), entry.version.as_str());
            for folder in [scope, &format!("{scope}/{batch}")] {
                directory(&self.shelf.root.join(folder), self.step)?;
            }
            put(&file, body.as_bytes(), self.step)?;
            self.mended.written += 1;
            self.mended.altered += usize::from(there == There::Altered);
        }
        Ok(())
    }

    fn catalog(&mut self, wanted: &Wanted<'_>) -> io::Result<()> {
        let text = wanted.catalog.to_text();
        let there = read(&self.shelf.catalog)?;
        if there.as_deref() == Some(text.as_str()) {
            return Ok(());
        }
        match there
            .as_deref()
            .map(|text| Catalog::from_text(text.as_bytes()))
        {
            Some(Ok(before)) => self.write_down_leaving(&before, wanted)?,
            Some(Err(_)) => self.put_aside()?,
            None => {}
        }
        if let Some(parent) = self.shelf.catalog.parent() {
            directory(parent, self.step)?;
        }
        put(&self.shelf.catalog, text.as_bytes(), self.step)
    }

    /// What the catalog named and will not name any more, together with what was still to go.
    fn write_down_leaving(&mut self, before: &Catalog, wanted: &Wanted<'_>) -> io::Result<()> {
        let mut leaving = self.leaving()?;
        let gone = before.entries.iter();
        let gone = gone.filter(|entry| wanted.evicted.contains(&entry.engram_id));
        let gone: Vec<String> = gone.map(|entry| entry.path.clone()).collect();
        if gone.iter().all(|path| leaving.contains(path)) {
            return Ok(());
        }
        leaving.extend(gone);
        let text = serde_json::to_string(&leaving)?;
        put(&self.shelf.root.join(LEAVING), text.as_bytes(), self.step)
    }

    fn leaving(&self) -> io::Result<Vec<String>> {
        let text = read(&self.shelf.root.join(LEAVING))?;
        let listed = text.and_then(|text| serde_json::from_str(&text).ok());
        Ok(listed.unwrap_or_default())
    }

    /// Removes what was written down to go, unless the catalog names it after all.
    fn leave(&mut self, catalog: &Catalog) -> io::Result<()> {
        let leaving = self.leaving()?;
        for path in &leaving {
            let named = catalog.entries.iter().any(|entry| entry.path == *path);
            let Some(file) = self.shelf.file(path).filter(|_| !named) else {
                continue;
            };
            self.step.about_to("remove an engram")?;
            match fs::remove_file(&file) {
                Ok(()) => self.mended.removed += 1,
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(told(&file, error)),
            }
            if let Some(batch) = file.parent() {
                self.step.about_to("remove a batch")?;
                // Only if it is empty.
                let _ = fs::remove_dir(batch);
            }
        }
        let list = self.shelf.root.join(LEAVING);
        if list.exists() {
            self.step.about_to("forget what went")?;
            fs::remove_file(&list).map_err(|error| told(&list, error))?;
            sync(&self.shelf.root)?;
        }
        Ok(())
    }

    /// Writes the digest, unless somebody else's file has its name.
    fn digest(&mut self, text: &str) -> io::Result<()> {
        let path = self.shelf.root.join(DIGEST);
        match read(&path)? {
            Some(there) if there == text => Ok(()),
            Some(there) if !super::digest::is_ours(&there) => Ok(()),
            Some(_) | None => put(&path, text.as_bytes(), self.step),
        }
    }

    /// A catalog that is none: kept beside ours, because somebody may want it.
    fn put_aside(&mut self) -> io::Result<()> {
        let path = &self.shelf.catalog;
        let aside = path.with_extension("json.unreadable");
        self.step.about_to("put a catalog aside")?;
        tracing::warn!(
            "{} is no catalog; it is now {}",
            path.display(),
            aside.display()
        );
        fs::rename(path, &aside).map_err(|error| told(path, error))
    }

    /// Takes away half-written files and empty batches of an earlier run.
    fn tidy(&mut self) -> io::Result<()> {
        let root = &self.shelf.root;
        for folder in [root.clone(), root.join("st"), root.join("lt")] {
            if !is_directory(&folder)? {
                continue;
            }
            for entry in names(&folder)? {
                let path = folder.join(&entry);
                if is_temporary(&entry) {
                    self.remove(&path)?;
                } else if engram::batch_time(&entry).is_some() && is_directory(&path)? {
                    for name in names(&path)?.iter().filter(|name| is_temporary(name)) {
                        self.remove(&path.join(name))?;
                    }
                    self.step.about_to("remove a batch")?;
                    let _ = fs::remove_dir(&path);
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.step.about_to("remove what was left half-written")?;
        fs::remove_file(path).map_err(|error| told(path, error))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    AsWritten,
    Altered,
    Missing,
}

fn state(file: &Path, entry: &CatalogEntry, look: Look) -> io::Result<There> {
    match look {
        Look::There => Ok(match fs::symlink_metadata(file) {
            Ok(found) if found.is_file() => There::AsWritten,
            Ok(_) => There::Altered,
            Err(error) if is_absent(&error) => There::Missing,
            Err(error) => return Err(told(file, error)),
        }),
        Look::Whole => Ok(match read(file)? {
            None => There::Missing,
            Some(text) => match Engram::from_text(text.as_bytes()) {
                Ok(engram) if engram.hash == entry.hash => There::AsWritten,
                Ok(_) | Err(_) => There::Altered,
            },
        }),
    }
}

/// The text of an ordinary file that is not too large; anything else reads as nothing that anybody wrote.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Ok(Some(String::new())),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(told(path, error)),
    }
    let file = File::open(path).map_err(|error| told(path, error))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| told(path, error))?;
    Ok(Some(String::from_utf8(bytes).unwrap_or_default()))
}

/// Writes under another name, syncs, renames, and syncs the directory.
fn put(path: &Path, bytes: &[u8], step: &mut impl Step) -> io::Result<()> {
    let parent = path.parent().unwrap_or(path);
    let temporary = temporary(path);
    step.about_to("begin a file")?;
    let _ = fs::remove_file(&temporary);
    let mut file = File::create_new(&temporary).map_err(|error| told(&temporary, error))?;
    let (half, rest) = bytes.split_at(bytes.len() / 2);
    let written = file.write_all(half).and_then(|()| {
        step.about_to("write the rest of a file")?;
        file.write_all(rest)?;
        file.sync_all()
    });
    written.map_err(|error| told(&temporary, error))?;
    drop(file);
    step.about_to("rename a file")?;
    fs::rename(&temporary, path).map_err(|error| told(path, error))?;
    step.about_to("sync a directory")?;
    sync(parent)
}

/// Makes a directory if it is missing; a link to one is none.
fn directory(path: &Path, step: &mut impl Step) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(told(path, io::Error::from(ErrorKind::NotADirectory))),
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(told(path, error)),
    }
    step.about_to("make a directory")?;
    fs::create_dir_all(path).map_err(|error| told(path, error))?;
    path.parent().map_or(Ok(()), sync)
}

#[cfg(unix)]
fn sync(directory: &Path) -> io::Result<()> {
    let synced = File::open(directory).and_then(|open| open.sync_all());
    match synced {
        // Some file systems do not know this for directories.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced.map_err(|error| told(directory, error)),
    }
}

#[cfg(not(unix))]
fn sync(_directory: &Path) -> io::Result<()> {
    Ok(())
}

/// Holds the directory, so that two coordinators of one project write one after the other.
struct Alone {
    _held: Option<File>,
}

impl Alone {
    fn with(root: &Path) -> io::Result<Alone> {
        let Ok(held) = File::open(root) else {
            return Ok(Alone { _held: None });
        };
        match held.try_lock() {
            Ok(()) => Ok(Alone { _held: Some(held) }),
            Err(fs::TryLockError::WouldBlock) => Err(io::Error::new(
                ErrorKind::WouldBlock,
                "another hub is writing there",
            )),
            // A file system that knows no locks.
            Err(fs::TryLockError::Error(_)) => Ok(Alone { _held: None }),
        }
    }
}

const TEMPORARY: &str = ".tmp";

fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{TEMPORARY}"))
}

/// Whether we gave this name to a file that was not whole yet.
fn is_temporary(name: &str) -> bool {
    let ours = [".engram_", ".catalog.", ".memory.md", ".."];
    name.ends_with(TEMPORARY) && ours.iter().any(|begins| name.starts_with(begins))
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(directory).map_err(|error| told(directory, error))?;
    // Names that are no text are none of ours.
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
    names.filter_map(Result::transpose).collect()
}

fn is_directory(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(told(path, error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

fn no_path(entry: &CatalogEntry) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("engram {} has no path of an engram", entry.engram_id),
    )
}

fn told(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
