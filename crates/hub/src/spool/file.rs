//! A file that somebody else writes: read whole or not at all, and told from the next one of its name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use rustix::fs::{AtFlags, FileType, Mode, Stat, fstat, openat, statat};
use rustix::io::Errno;
use switchboard_wire::signature::to_hex;

use crate::projection::folder::{self, READ};

pub const FILE_NAME_BYTES_MAX: usize = 255;
const REASON: &[u8] = b".reason.txt";

/// What tells one file of a name from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub ino: u64,
    pub mtime_ns: i128,
    pub size: u64,
}

/// What a file turned out to be.
#[derive(Debug)]
pub enum Found {
    Gone,
    /// It is being written to.
    Changing(Identity),
    TooLarge(Identity),
    /// Nothing that could be read; why.
    Unfit(Identity, String),
    Whole(Identity, Vec<u8>),
}

impl Identity {
    pub fn of(stat: &Stat) -> Identity {
        const NANOS: i128 = 1_000_000_000;
        Identity {
            ino: stat.st_ino,
            mtime_ns: i128::from(stat.st_mtime) * NANOS + i128::from(stat.st_mtime_nsec),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
        }
    }

    pub fn at(dir: &OwnedFd, name: &OsStr) -> io::Result<Option<Identity>> {
        match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Identity::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// How long ago it was written; nothing if that lies ahead.
    pub fn age(&self, now: SystemTime) -> Duration {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX);
        let nanos = u64::try_from((now - self.mtime_ns).max(0)).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos)
    }

    /// The key of a file that brings none: the same for this file of this name and content, and for no other.
    pub fn key(&self, name: &OsStr, body: &[u8]) -> String {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(name.as_bytes());
        context.update(b"\0");
        context.update(&self.ino.to_be_bytes());
        context.update(&self.mtime_ns.to_be_bytes());
        context.update(&self.size.to_be_bytes());
        context.update(body);
        format!("file:{}", to_hex(context.finish().as_ref()))
    }
}

impl Found {
    /// Reads a file whole, and only if it is an ordinary one of at most so many bytes.
    pub fn read(dir: &OwnedFd, name: &OsStr, bytes_max: usize) -> io::Result<Found> {
        let seen = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Found::Gone),
            Err(error) => return Err(error.into()),
        };
        let identity = Identity::of(&seen);
        if let Some(kind) = oddity(&seen) {
            return Ok(Found::Unfit(identity, format!("it is {kind}, not a file")));
        }
        let file = match openat(dir, name, READ, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Found::Gone),
            Err(Errno::LOOP) => return Ok(Found::Changing(identity)),
            Err(error @ (Errno::ACCESS | Errno::PERM)) => {
                return Ok(Found::Unfit(
                    identity,
                    format!("it cannot be read: {error}"),
                ));
            }
            Err(error) => return Err(error.into()),
        };
        let before = fstat(&file)?;
        if oddity(&before).is_some() {
            return Ok(Found::Changing(identity));
        }
        let identity = Identity::of(&before);
        let mut body = Vec::new();
        let most = bytes_max as u64 + 1;
        (&file).take(most).read_to_end(&mut body)?;
        if body.len() > bytes_max {
            return Ok(Found::TooLarge(identity));
        }
        let is_whole =
            Identity::of(&fstat(&file)?) == identity && body.len() as u64 == identity.size;
        Ok(match is_whole {
            true => Found::Whole(identity, body),
            false => Found::Changing(identity),
        })
    }
}

/// Writes a file whole. Who may enter `readers` may read it.
pub fn put(dir: &OwnedFd, name: &OsStr, bytes: &[u8], readers: &OwnedFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(fstat(readers)?.st_mode) & Mode::from_raw_mode(0o666);
    folder::put(dir, name, bytes, mode)
}

/// Puts down why a file was rejected, beside it.
pub fn explain(dir: &OwnedFd, name: &OsStr, reason: &str) -> io::Result<()> {
    let kept = name.as_bytes();
    let kept = &kept[..kept.len().min(FILE_NAME_BYTES_MAX - REASON.len())];
    let beside = [kept, REASON].concat();
    put(
        dir,
        OsStr::from_bytes(&beside),
        format!("{reason}\n").as_bytes(),
        dir,
    )
}

/// Whether trying again is of no use.
pub fn is_lasting(error: Errno) -> bool {
    [
        Errno::ACCESS,
        Errno::PERM,
        Errno::BUSY,
        Errno::ROFS,
        Errno::ISDIR,
        Errno::NOTDIR,
        Errno::NOTEMPTY,
        Errno::EXIST,
        Errno::XDEV,
    ]
    .contains(&error)
}

/// What a file is, if it is no ordinary one.
fn oddity(stat: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => None,
        FileType::Symlink => Some("a symbolic link"),
        FileType::Directory => Some("a directory"),
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        FileType::Unknown => Some("something unknown"),
    }
}
