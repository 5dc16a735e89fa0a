//! When the hub takes in what others wrote, while it has nothing else to do.
//!
//! A direct client reads, then writes in the same transaction. A commit of the hub's in between makes that write fail
//! (`SQLITE_BUSY_SNAPSHOT`), so the hub waits for a quiet moment.

use std::time::{Duration, Instant};

/// So long nobody else has committed.
const QUIET_FOR: Duration = Duration::from_millis(20);
/// A reader may be about to write. One that has read for longer holds nobody up.
const READER_FOR: Duration = Duration::from_millis(50);
/// The hub waits no longer than this after a write.
const LATEST_AFTER: Duration = Duration::from_millis(500);

/// What others wrote and no batch has taken in.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    written: Option<Written>,
    /// Other processes that read, and since when they were seen to.
    readers: Vec<(u32, Instant)>,
}

#[derive(Debug)]
struct Written {
    /// SQLite's count of other connections' commits.
    version: i64,
    first: Instant,
    last: Instant,
}

impl Quiet {
    /// All is taken in.
    pub fn clear(&mut self) {
        self.written = None;
        self.readers.clear();
    }

    /// Whether this is the moment for what others have written up to this version.
    pub fn is_due(
        &mut self,
        version: i64,
        now: Instant,
        who_reads: impl FnOnce() -> Vec<u32>,
    ) -> bool {
        let written = self.written.get_or_insert(Written {
            version,
            first: now,
            last: now,
        });
        if written.version != version {
            written.version = version;
            written.last = now;
        }
        if now - written.first >= LATEST_AFTER {
            return true;
        }
        if now - written.last < QUIET_FOR {
            return false;
        }
        let found = who_reads();
        self.readers.retain(|(reader, _)| found.contains(reader));
        for reader in found {
            if !self.readers.iter().any(|(known, _)| *known == reader) {
                self.readers.push((reader, now));
            }
        }
        let mut readers = self.readers.iter();
        readers.all(|(_, since)| now - *since >= READER_FOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_taken_in_at_a_quiet_moment_and_not_too_late() {
        type Look = (u64, i64, &'static [u32], bool);
        let cases: &[(&str, &[Look])] = &[
            (
                "nobody writes or reads any more",
                &[(0, 1, &[], false), (19, 1, &[], false), (20, 1, &[], true)],
            ),
            (
                "somebody goes on writing",
                &[
                    (0, 1, &[], false),
                    (25, 2, &[], false),
                    (44, 2, &[], false),
                    (45, 2, &[], true),
                ],
            ),
            (
                "somebody never stops writing",
                &[
                    (0, 1, &[], false),
                    (499, 99, &[], false),
                    (500, 100, &[7], true),
                ],
            ),
            (
                "a reader may be about to write, until it has read for long",
                &[
                    (0, 1, &[7], false),
                    (25, 1, &[7], false),
                    (74, 1, &[7], false),
                    (75, 1, &[7], true),
                ],
            ),
            (
                "one reader follows the other",
                &[
                    (0, 1, &[], false),
                    (25, 1, &[7], false),
                    (75, 1, &[7, 8], false),
                    (80, 1, &[7], true),
                ],
            ),
            (
                "who reads again is a new reader",
                &[
                    (0, 1, &[], false),
                    (25, 1, &[7, 8], false),
                    (50, 1, &[7], false),
                    (74, 1, &[7, 8], false),
                    (80, 1, &[7, 8], false),
                ],
            ),
        ];
        for (case, looks) in cases {
            let began = Instant::now();
            let mut quiet = Quiet::default();
            for (at, version, readers, due) in *looks {
                let now = began + Duration::from_millis(*at);
                let found = quiet.is_due(*version, now, || readers.to_vec());
                assert_eq!(found, *due, "{case}, after {at} ms");
            }
            quiet.clear();
            assert!(
                !quiet.is_due(100, began, Vec::new),
                "{case}: all begins anew"
            );
        }
    }
}
