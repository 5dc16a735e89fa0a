//! The log of an attempt: what its program printed, without secrets and within bounds.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use switchboard_wire::redact;

/// Of one attempt, so much is kept.
pub(super) const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Older ones are removed.
const LOGS_MAX: usize = 400;

/// The file of one attempt.
pub(super) struct AttemptLog {
    file: File,
    left: usize,
}

impl AttemptLog {
    pub(super) fn dir(state_dir: &Path) -> PathBuf {
        state_dir.join("attempts")
    }

    /// Where the attempt's file of this kind is.
    pub(super) fn path(state_dir: &Path, number: u64, epoch: u64, kind: &str) -> PathBuf {
        AttemptLog::dir(state_dir).join(format!("{number}-{epoch}.{kind}"))
    }

    /// Locked until it is dropped, which tells whoever follows it that the attempt goes on.
    pub(super) fn open(path: &Path) -> io::Result<AttemptLog> {
        let file = private(path)?;
        file.lock()?;
        Ok(AttemptLog {
            file,
            left: LOG_BYTES_MAX,
        })
    }

    /// A line that is over the bound ends the log. A full disk ends it too, and nothing else.
    pub(super) fn line(&mut self, line: &str) {
        let line = redact::text(line);
        let cost = line.len() + 1;
        if cost > self.left {
            if self.left > 0 {
                let _ = writeln!(self.file, "… the log of this attempt is full");
            }
            self.left = 0;
            return;
        }
        self.left = match writeln!(self.file, "{line}") {
            Ok(()) => self.left - cost,
            Err(_) => 0,
        };
    }
}

/// Writes a file that only its owner reads.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    private(path)?.write_all(text.as_bytes())
}

fn private(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
        prune(dir)?;
    }
    let mut options = File::options();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Removes the oldest.
fn prune(dir: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let over = files.len().saturating_sub(LOGS_MAX - 1);
    for (_, path) in files.into_iter().take(over) {
        // Another worker may have removed it.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_no_secrets_and_ends_at_its_bound() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = AttemptLog::path(dir.path(), 7, 2, "log");
        let mut log = AttemptLog::open(&path).expect("it opens");
        log.line("token ghp_0123456789abcdefghijklmnopqrstuvwxyz is secret");
        let long = "x".repeat(1024 * 1024);
        for _ in 0..10 {
            log.line(&long);
        }
        let text = fs::read_to_string(&path).expect("it is there");
        assert!(!text.contains("ghp_0123"), "{}", &text[..100]);
        assert!(text.ends_with("… the log of this attempt is full\n"));
        assert!(text.len() <= LOG_BYTES_MAX + 64);
    }

    #[test]
    fn only_the_newest_logs_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        for number in 0..LOGS_MAX as u64 + 3 {
            let path = AttemptLog::path(dir.path(), number, 1, "log");
            write_private(&path, "x").expect("written");
        }
        let left = fs::read_dir(dir.path().join("attempts"))
            .expect("there")
            .count();
        assert_eq!(left, LOGS_MAX);
    }
}
