//! One request file: read whole or not at all, taken, answered, put away.
//!
//! Every write is to a file of another name first, synced, and renamed. Every step may be the last before a crash. What
//! is found afterwards in `requests` or `taken` was not answered and is handled again, under the same key; what is found
//! in `ready` alone is an answer that only has to be shown.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use switchboard_core::limits;

use super::job::Verdict;
use super::place::Dirs;
use crate::projection::folder::READ;
use crate::spool::{FILE_NAME_BYTES_MAX, Found, Identity, explain, is_lasting, names, put};

/// Which directory a request lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Requests,
    /// A hub acted on it, and did not come to put it away.
    Taken,
}

/// Where a request goes that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Done,
    /// With the reason beside it.
    Rejected(String),
}

enum Taken {
    Same,
    Gone,
    Another,
    Unmovable,
}

const SUFFIX: &[u8] = b".json";
const ANSWER: &[u8] = b"-response.json";
/// Answers that are looked after in one go.
const LEFT_BEHIND_MAX: usize = 1024;
/// Whether a name in `requests` is that of a request.
pub fn is_request(name: &[u8]) -> bool {
    name.ends_with(SUFFIX) && !name.starts_with(b".")
}

/// The name of the answer; `None` if no file can have it.
pub fn answer_name(name: &OsStr) -> Option<OsString> {
    let stem = name.as_bytes().strip_suffix(SUFFIX)?;
    let answer = [stem, ANSWER].concat();
    (answer.len() <= FILE_NAME_BYTES_MAX).then(|| OsStr::from_bytes(&answer).to_owned())
}

pub fn is_answer(name: &[u8]) -> bool {
    name.ends_with(ANSWER)
}

impl Dirs {
    fn of(&self, origin: Origin) -> &OwnedFd {
        match origin {
            Origin::Requests => &self.requests,
            Origin::Taken => &self.taken,
        }
    }

    pub fn identity(&self, origin: Origin, name: &OsStr) -> io::Result<Option<Identity>> {
        Identity::at(self.of(origin), name)
    }

    /// Reads a request whole, and only if it is an ordinary file.
    pub fn read(&self, origin: Origin, name: &OsStr) -> io::Result<Found> {
        Found::read(self.of(origin), name, limits::BODY_BYTES_MAX)
    }

    /// Answers a request that was acted on, and puts it away.
    ///
    /// It is taken out of `requests` before its answer shows, so that whoever reads the answer and writes the next request
    /// under the same name never has that one moved away instead. And the answer shows last of all: once it does, nothing
    /// is left that would have it written again, over the next one's.
    pub fn settle(
        &self,
        origin: Origin,
        name: &OsStr,
        identity: Identity,
        answer: &[u8],
        fate: &Fate,
    ) -> io::Result<Verdict> {
        let taken = match origin {
            Origin::Requests => self.take(name, identity)?,
            Origin::Taken => Taken::Same,
        };
        if matches!(taken, Taken::Another) {
            return Ok(Verdict::Another);
        }
        let place = answer_name(name);
        let (place, fate) = match &place {
            Some(place) if self.is_blocked(place) => (None, &blocked(place)),
            place => (place.as_deref(), fate),
        };
        if let Some(place) = place {
            put(&self.ready, place, answer, &self.responses)?;
        }
        let to = match fate {
            Fate::Done => &self.done,
            Fate::Rejected(reason) => {
                explain(&self.rejected, name, reason)?;
                &self.rejected
            }
        };
        let settled = match taken {
            Taken::Same => {
                if *fate == Fate::Done {
                    self.keep_apart(name)?;
                }
                self.put_away(name, to)?
            }
            Taken::Gone | Taken::Another => Verdict::Away,
            Taken::Unmovable => Verdict::Unmovable,
        };
        if let Some(place) = place {
            self.publish(place)?;
        }
        Ok(settled)
    }

    /// Shows answers that a hub had ready when it ended, if their requests are put away, and for at least `lain_for`.
    pub fn publish_left_behind(&self, lain_for: Duration, now: SystemTime) -> io::Result<()> {
        for entry in names(&self.ready)?.take(LEFT_BEHIND_MAX) {
            let entry = entry?;
            let answer = entry.file_name().to_bytes();
            let Some(stem) = answer.strip_suffix(ANSWER) else {
                continue;
            };
            let answer = OsStr::from_bytes(answer);
            let Ok(stat) = statat(&self.ready, answer, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let request = [stem, SUFFIX].concat();
            let request = self.identity(Origin::Taken, OsStr::from_bytes(&request))?;
            if request.is_none() && Identity::of(&stat).age(now) >= lain_for {
                self.publish_again(answer)?;
            }
        }
        Ok(())
    }

    fn publish(&self, answer: &OsStr) -> io::Result<()> {
        match renameat(&self.ready, answer, &self.responses, answer) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            // Somebody keeps the answers on another disk.
            Err(Errno::XDEV) => self.publish_again(answer),
            Err(error) => self.not_published(answer, error.into()),
        }
    }

    /// Writes an answer anew where it is shown: what a hub left behind may never have reached the disk.
    fn publish_again(&self, answer: &OsStr) -> io::Result<()> {
        let file = match openat(&self.ready, answer, READ, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut bytes = Vec::new();
        File::from(file).read_to_end(&mut bytes)?;
        match put(&self.responses, answer, &bytes, &self.responses) {
            Ok(()) => Ok(unlinkat(&self.ready, answer, AtFlags::empty())?),
            Err(error) => self.not_published(answer, error),
        }
    }

    fn not_published(&self, answer: &OsStr, error: io::Error) -> io::Result<()> {
        if !Errno::from_io_error(&error).is_some_and(is_lasting) {
            return Err(error);
        }
        tracing::warn!("the response {answer:?} cannot be written: {error}");
        Ok(unlinkat(&self.ready, answer, AtFlags::empty())?)
    }

    /// Whether something is in an answer's place that cannot be replaced.
    fn is_blocked(&self, answer: &OsStr) -> bool {
        statat(&self.responses, answer, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    fn take(&self, name: &OsStr, identity: Identity) -> io::Result<Taken> {
        // An earlier try may have come this far; what is in `requests` by now is then the next one.
        if self.identity(Origin::Taken, name)? == Some(identity) {
            return Ok(Taken::Same);
        }
        match renameat(&self.requests, name, &self.taken, name) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(Taken::Gone),
            Err(error) if is_lasting(error) => {
                tracing::warn!(
                    "request file {name:?} cannot be moved: {error}; it is answered in place"
                );
                return Ok(Taken::Unmovable);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(
            match self.identity(Origin::Taken, name)? == Some(identity) {
                true => Taken::Same,
                false => Taken::Another,
            },
        )
    }

    /// An earlier request of this name makes room and is kept: as long as it exists, no new file is taken for it.
    fn keep_apart(&self, name: &OsStr) -> io::Result<()> {
        let stat = match statat(&self.done, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Identity { ino, mtime_ns, .. } = Identity::of(&stat);
        let stem = name.as_bytes().strip_suffix(SUFFIX).unwrap_or_default();
        let mark = format!("~{ino:x}-{mtime_ns:x}");
        let room = FILE_NAME_BYTES_MAX - mark.len() - SUFFIX.len();
        let apart = [&stem[..stem.len().min(room)], mark.as_bytes(), SUFFIX].concat();
        match renameat(&self.done, name, &self.done, OsStr::from_bytes(&apart)) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) if is_lasting(error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn put_away(&self, name: &OsStr, to: &OwnedFd) -> io::Result<Verdict> {
        match renameat(&self.taken, name, to, name) {
            Ok(()) | Err(Errno::NOENT) => return Ok(Verdict::Away),
            Err(error) if is_lasting(error) => {
                tracing::debug!("request file {name:?} cannot be kept: {error}");
            }
            Err(error) => return Err(error.into()),
        }
        // Something that cannot be replaced is in its place. It was answered: it need not be kept.
        match unlinkat(&self.taken, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(Verdict::Away),
            Err(_) => Ok(Verdict::Unmovable),
        }
    }
}

fn blocked(answer: &OsStr) -> Fate {
    Fate::Rejected(format!("it cannot be answered: {answer:?} is a directory"))
}

#[cfg(test)]
mod tests;
