//! Removes what has been lying for long, a few files at a time.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Stat, statat, unlinkat};

use super::place::names;
use crate::projection::folder::TEMPORARY;

/// Names that are looked at in one step.
const STEP: usize = 1024;
/// A file that is still being written after this long was given up.
const TEMPORARY_FOR: Duration = Duration::from_secs(600);
/// Rounds begin this long after one another.
const ROUND_EVERY: Duration = Duration::from_secs(600);

/// How far a round has come.
#[derive(Default)]
pub struct Cleanup {
    next: usize,
    names: Option<Dir>,
    rests_until: Option<SystemTime>,
}

/// A directory, and which names in it are ours to remove.
pub type Cleaned<'a> = (&'a OwnedFd, fn(&[u8]) -> bool);

impl Cleanup {
    /// Goes on for a step, or begins a new round when it is time to.
    pub fn step(
        &mut self,
        cleaned: &[Cleaned<'_>],
        keep_for: Duration,
        now: SystemTime,
    ) -> io::Result<()> {
        if self.rests_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        self.rests_until = None;
        let mut left = STEP;
        while left > 0 {
            let Some((dir, is_ours)) = cleaned.get(self.next) else {
                *self = Cleanup {
                    rests_until: Some(now + ROUND_EVERY.min(keep_for)),
                    ..Cleanup::default()
                };
                return Ok(());
            };
            let listing = match &mut self.names {
                Some(listing) => listing,
                None => self.names.insert(names(dir)?),
            };
            match listing.next() {
                Some(entry) => {
                    left -= 1;
                    let entry = entry?;
                    let name = entry.file_name();
                    if let Some(keep_for) = kept_for(name.to_bytes(), *is_ours, keep_for) {
                        consider(dir, name, keep_for, now);
                    }
                }
                None => {
                    self.next += 1;
                    self.names = None;
                }
            }
        }
        Ok(())
    }
}

/// How long a file of this name may lie there; for ever if it is not ours.
fn kept_for(name: &[u8], is_ours: fn(&[u8]) -> bool, keep_for: Duration) -> Option<Duration> {
    match name {
        b"." | b".." => None,
        _ if name.starts_with(TEMPORARY.as_bytes()) => Some(TEMPORARY_FOR.min(keep_for)),
        _ => is_ours(name).then_some(keep_for),
    }
}

fn consider(dir: &OwnedFd, name: &CStr, keep_for: Duration, now: SystemTime) {
    let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return;
    };
    if lain_for(&stat, now) < keep_for {
        return;
    }
    let flags = match FileType::from_raw_mode(stat.st_mode) {
        // Only an empty one goes.
        FileType::Directory => AtFlags::REMOVEDIR,
        FileType::RegularFile
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => AtFlags::empty(),
    };
    if let Err(error) = unlinkat(dir, name, flags) {
        tracing::debug!("{name:?} cannot be removed: {error}");
    }
}

/// Since it was written or put here, whichever was last.
fn lain_for(stat: &Stat, now: SystemTime) -> Duration {
    let since = stat.st_mtime.max(stat.st_ctime);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(
        u64::try_from(since).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::files::Dirs;
    use crate::spool::Place;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn count(place: &Place, name: &str) -> usize {
        std::fs::read_dir(place.path().join(name)).unwrap().count()
    }

    fn fill(place: &Place, name: &str, files: &[&str]) {
        for file in files {
            std::fs::write(place.path().join(name).join(file), "x").unwrap();
        }
    }

    fn place(home: &Path) -> Place {
        Place::new(home, &home.join("door"))
    }

    #[test]
    fn what_has_lain_for_long_is_removed_and_nothing_that_is_not_ours() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        let dirs = Dirs::open(&place).unwrap();
        fill(&place, "done", &["a.json"]);
        fill(&place, "rejected", &["b.json", "b.json.reason.txt"]);
        fill(&place, "responses", &["a-response.json", ".sb-1", "README"]);
        fill(&place, "requests", &["c.json", ".sb-2"]);
        fill(&place, "ready", &["d-response.json", ".sb-3"]);
        std::fs::create_dir(place.path().join("rejected/d.json")).unwrap();
        let left = |at: SystemTime| {
            Cleanup::default().step(&dirs.cleaned(), DAY, at).unwrap();
            ["done", "rejected", "responses", "requests", "ready"].map(|name| count(&place, name))
        };
        let now = SystemTime::now();
        assert_eq!(left(now), [1, 3, 3, 2, 2]);
        assert_eq!(
            left(now + DAY / 2),
            [1, 3, 2, 2, 1],
            "a file that was never finished"
        );
        assert_eq!(left(now + DAY * 2), [0, 0, 1, 2, 1]);
    }

    #[test]
    fn a_step_looks_at_so_many_names_and_the_next_goes_on() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        let dirs = Dirs::open(&place).unwrap();
        let names: Vec<String> = (0..STEP + 10)
            .map(|number| format!("{number}.json"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        fill(&place, "done", &names);
        let late = SystemTime::now() + DAY * 2;
        let mut cleanup = Cleanup::default();
        cleanup.step(&dirs.cleaned(), DAY, late).unwrap();
        // Two of the names are those of the directory itself and of the one above.
        assert!((10..=12).contains(&count(&place, "done")));
        cleanup.step(&dirs.cleaned(), DAY, late).unwrap();
        assert_eq!(count(&place, "done"), 0);
        fill(&place, "done", &["next.json"]);
        cleanup.step(&dirs.cleaned(), DAY, late).unwrap();
        assert_eq!(count(&place, "done"), 1, "it rests between rounds");
        cleanup
            .step(&dirs.cleaned(), DAY, late + ROUND_EVERY)
            .unwrap();
        assert_eq!(count(&place, "done"), 0);
    }
}
