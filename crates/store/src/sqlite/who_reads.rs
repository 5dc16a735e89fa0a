//! Which other programs read a ledger right now, where the system lists locks.

use std::path::Path;

/// Such as `process 4711 (python3)`, each once. Empty if none is known.
pub fn who_reads(shared: &Path) -> Vec<String> {
    let processes = processes_that_read(shared).into_iter();
    processes
        .map(|pid| {
            let program = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            match program {
                Ok(program) => format!("process {pid} ({})", program.trim()),
                Err(_) => format!("process {pid}"),
            }
        })
        .collect()
}

/// The same by their numbers. No descriptor of the file is opened: closing it would drop the locks of this process.
#[cfg(target_os = "linux")]
pub fn processes_that_read(shared: &Path) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(found), Ok(locks)) = (shared.metadata(), std::fs::read_to_string("/proc/locks")) else {
        return Vec::new();
    };
    let own = std::process::id();
    let mut processes = readers(&locks, found.ino());
    processes.retain(|pid| *pid != own);
    processes
}

#[cfg(not(target_os = "linux"))]
pub fn processes_that_read(_shared: &Path) -> Vec<u32> {
    Vec::new()
}

/// The bytes of the shared-memory file that a reader has one of locked (`WAL_READ_LOCK` in SQLite's `wal.c`).
#[cfg(any(target_os = "linux", test))]
const READ_LOCKS: std::ops::RangeInclusive<u64> = 123..=127;

/// Processes in a table of locks that hold one of a reader on this file.
///
/// A line is `1: POSIX ADVISORY READ <pid> <major>:<minor>:<inode> <first> <last>`. The device is not compared: on some
/// file systems it is another one than `stat` tells.
#[cfg(any(target_os = "linux", test))]
fn readers(locks: &str, inode: u64) -> Vec<u32> {
    let reader = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        // One with an arrow is only waited for.
        let &[_, "POSIX", _, "READ", pid, file, first, last] = columns.as_slice() else {
            return None;
        };
        let is_file = file.rsplit(':').next()?.parse() == Ok(inode);
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let is_reader = first <= *READ_LOCKS.end() && last >= *READ_LOCKS.start();
        // Processes of other containers have no number here.
        let pid = pid.parse().ok().filter(|pid| *pid > 0)?;
        (is_file && is_reader).then_some(pid)
    };
    let mut found: Vec<u32> = locks.lines().filter_map(reader).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_told_from_writers_and_from_other_files() {
        let locks = "\
1: POSIX  ADVISORY  READ 10 00:2a:77 124 124
2: POSIX  ADVISORY  READ 10 00:2a:77 128 128
3: POSIX  ADVISORY  WRITE 11 00:2a:77 120 120
4: POSIX  ADVISORY  READ 12 00:2a:78 124 124
5: -> POSIX  ADVISORY  READ 13 00:2a:77 123 123
6: POSIX  ADVISORY  READ 9 00:2a:77 123 127
7: POSIX  ADVISORY  READ 10 00:2a:77 123 123
8: FLOCK  ADVISORY  WRITE 14 00:2a:77 0 EOF
9: POSIX  ADVISORY  READ -1 00:2a:77 125 125
";
        assert_eq!(readers(locks, 77), [9, 10]);
        assert_eq!(readers(locks, 79), [0_u32; 0]);
    }
}
