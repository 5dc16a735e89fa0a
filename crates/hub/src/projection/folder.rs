//! Files that are replaced whole: written under another name, synced, renamed, and then the directory is synced.
//!
//! A directory is an open handle, and nothing below it is reached through a link. What the files tell is not known here.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fchmod, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Snapshot before every change to the disk; an error ends the work there. For tests that cut it off.
pub type Probe<'a> = &'a mut dyn FnMut(&'static str) -> io::Result<()>;

/// Begins the names of files that are still being written by [`put`].
pub const TEMPORARY: &str = ".sb-";
/// A file of ours that is larger than this was not written by us.
const FILE_BYTES_MAX: u64 = 128 * 1024 * 1024;
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Follows no link, and is not held up by what became a pipe meanwhile.
pub const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The probe of whoever is not cut off.
pub fn freely(_change: &'static str) -> io::Result<()> {
    Ok(())
}

/// Opens a directory; links on the way to it are followed.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let path = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    };
    Ok(openat(CWD, path, DIRECTORY, Mode::empty())?)
}

/// Opens a directory in another one, and makes it if it is missing. A link to one is none.
pub fn enter(at: impl AsFd, name: &OsStr, mode: u32, probe: Probe<'_>) -> io::Result<OwnedFd> {
    let flags = DIRECTORY | OFlags::NOFOLLOW;
    match openat(&at, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => probe("make a directory")?,
        opened => return Ok(opened?),
    }
    match mkdirat(&at, name, Mode::from_raw_mode(mode)) {
        Ok(()) => sync(&at)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(openat(&at, name, flags, Mode::empty())?)
}

/// Makes a directory and those above it that are missing; a loss of power takes none of them back.
pub fn make(path: &Path, mode: u32) -> io::Result<()> {
    // What is above a single name is where we are.
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    make(above, mode)?;
    enter(open(above)?, name, mode, &mut freely).map(drop)
}

/// What is in an ordinary file that is not too large; anything else reads as nothing that anybody wrote.
pub fn read(at: impl AsFd, name: &Path) -> io::Result<Option<Vec<u8>>> {
    match statat(&at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile => {}
        Ok(_) => return Ok(Some(Vec::new())),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let file = File::from(openat(&at, name, READ, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Replaces a file. Whoever is cut off leaves the temporary one behind, and the next to use its name removes it.
///
/// Without a mode the file has that of any new file of this process.
pub fn replace(
    dir: impl AsFd,
    name: &OsStr,
    temporary: &OsStr,
    bytes: &[u8],
    mode: Option<Mode>,
    probe: Probe<'_>,
) -> io::Result<()> {
    probe("begin a file")?;
    let _ = unlinkat(&dir, temporary, AtFlags::empty());
    let created = openat(
        &dir,
        temporary,
        NEW,
        mode.unwrap_or(Mode::from_raw_mode(0o666)),
    )?;
    if let Some(mode) = mode {
        // The umask may have taken some of it away.
        fchmod(&created, mode)?;
    }
    let mut file = File::from(created);
    let (half, rest) = bytes.split_at(bytes.len() / 2);
    file.write_all(half)?;
    probe("write the rest of a file")?;
    file.write_all(rest)?;
    file.sync_all()?;
    probe("rename a file")?;
    renameat(&dir, temporary, &dir, name)?;
    probe("sync a directory")?;
    sync(&dir)
}

/// The same where several write at a time, each under a name of its own.
pub fn put(dir: impl AsFd, name: &OsStr, bytes: &[u8], mode: Mode) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.unwrap_or_default().as_nanos();
    let (count, process) = (COUNT.fetch_add(1, Ordering::Relaxed), std::process::id());
    let temporary = OsString::from(format!("{TEMPORARY}{nanos:x}-{process:x}-{count:x}"));
    let written = replace(&dir, name, &temporary, bytes, Some(mode), &mut freely);
    if written.is_err() {
        let _ = unlinkat(&dir, &temporary, AtFlags::empty());
    }
    written
}

/// The same for the file of a path.
pub fn put_at(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let dir = open(path.parent().unwrap_or(path))?;
    let name = path.file_name().unwrap_or_default();
    put(&dir, name, bytes, Mode::from_raw_mode(mode))
}

/// Has what was made, renamed or removed in a directory survive a loss of power.
pub fn sync(dir: impl AsFd) -> io::Result<()> {
    // By the call of the C library, which the recorder of power cuts sees.
    match File::from(dir.as_fd().try_clone_to_owned()?).sync_all() {
        // Some file systems do not know this for directories.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// The same for the directory of a path.
pub fn sync_at(path: &Path) -> io::Result<()> {
    sync(open(path)?)
}
