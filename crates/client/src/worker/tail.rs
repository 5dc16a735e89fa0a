//! What the programs of workers say that run already: the logs of their attempts, followed.
//!
//! A log is locked as long as its attempt goes on. Its first line says whose it is and how the rest is to be read.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;
use switchboard_child::stream::{Format, Told};
use switchboard_wire::agentbus::codec::{Line, Lines};

use super::log::{AttemptLog, LOG_BYTES_MAX};
use super::{Notice, What};

/// Of what was said before somebody looked, so much is shown.
const BEFORE_BYTES_MAX: u64 = 4 * 1024;
const FIRST_LINE_BYTES_MAX: usize = 1024;
/// Read at a time.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// The logs of a directory of state.
#[derive(Debug)]
pub struct Logs {
    dir: PathBuf,
    /// None before the first look.
    seen: Option<HashSet<PathBuf>>,
    open: Vec<Followed>,
}

#[derive(Debug)]
struct Followed {
    file: File,
    task: Option<u64>,
    agent: String,
    told: Told,
    lines: Lines,
}

/// The first line of a log.
pub(super) fn heading(agent: &str, slot: usize, format: Format) -> String {
    let format = serde_json::to_value(format).unwrap_or_default();
    let format = format.as_str().unwrap_or_default();
    format!("-- {agent}, slot {slot}, output {format}")
}

impl Logs {
    pub fn of(state_dir: &Path) -> Logs {
        Logs {
            dir: AttemptLog::dir(state_dir),
            seen: None,
            open: Vec::new(),
        }
    }

    /// Whether no attempt goes on.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// What was said since the last look; at first, the last words of those at work.
    pub fn look(&mut self) -> io::Result<Vec<Notice>> {
        let is_first = self.seen.is_none();
        let seen = self.seen.take().unwrap_or_default();
        let mut all = logs(&self.dir)?;
        for path in all.clone().difference(&seen) {
            let Some(mut followed) = Followed::open(path)? else {
                // It has not even a first line: at the next look.
                all.remove(path);
                continue;
            };
            if is_first && !followed.skip_to_last_words()? {
                continue;
            }
            self.open.push(followed);
        }
        self.seen = Some(all);
        let mut said = Vec::new();
        for mut followed in std::mem::take(&mut self.open) {
            // Looked at first: what is written until then is read after it.
            let goes_on = followed.is_locked()?;
            followed.read(&mut said)?;
            if goes_on {
                self.open.push(followed);
            }
        }
        Ok(said)
    }
}

impl Followed {
    /// None if it is gone already, or only just begun.
    fn open(path: &Path) -> io::Result<Option<Followed>> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut first = Vec::new();
        let most = FIRST_LINE_BYTES_MAX as u64;
        file.by_ref().take(most).read_to_end(&mut first)?;
        file.seek(SeekFrom::Start(0))?;
        let first = String::from_utf8_lossy(&first);
        let Some((first, _)) = first.split_once('\n') else {
            return Ok(None);
        };
        let words = first.strip_prefix("-- ").unwrap_or_default();
        let (agent, rest) = words.split_once(", ").unwrap_or_default();
        let format = rest.rsplit(' ').next().unwrap_or_default();
        let format = serde_json::from_value(Value::from(format)).unwrap_or_default();
        let name = path.file_stem().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.split_once('-')?.0.parse().ok());
        Ok(Some(Followed {
            file,
            task: number,
            agent: agent.to_owned(),
            told: Told::new(format),
            lines: Lines::new(LOG_BYTES_MAX),
        }))
    }

    /// False if its attempt is over.
    fn skip_to_last_words(&mut self) -> io::Result<bool> {
        let from = self.file.metadata()?.len().saturating_sub(BEFORE_BYTES_MAX);
        self.file.seek(SeekFrom::Start(from))?;
        if from > 0 {
            // The rest of the line that it began in the middle of.
            let mut byte = [0];
            while self.file.read(&mut byte)? == 1 && byte != *b"\n" {}
        }
        self.is_locked()
    }

    fn is_locked(&self) -> io::Result<bool> {
        match self.file.try_lock_shared() {
            Ok(()) => self.file.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn read(&mut self, said: &mut Vec<Notice>) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES_MAX];
        loop {
            let count = self.file.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            let mut feed = self.lines.feed(&piece[..count]);
            while let Some(line) = feed.next() {
                // What is too long is never in a log.
                let Line::Whole(line) = line else { continue };
                let shown = self.told.line(&String::from_utf8_lossy(line));
                said.extend(
                    shown
                        .filter(|text| !text.trim().is_empty())
                        .map(|text| Notice {
                            what: What::Output,
                            agent: self.agent.clone(),
                            task: self.task,
                            text,
                        }),
                );
            }
        }
    }
}

fn logs(dir: &Path) -> io::Result<HashSet<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(HashSet::new()),
        Err(error) => return Err(error),
    };
    let mut paths = HashSet::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "log") {
            paths.insert(path);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(logs: &mut Logs) -> Vec<(u64, String, String)> {
        let said = logs.look().expect("they are read").into_iter();
        let mut said: Vec<_> = said
            .map(|one| (one.task.unwrap_or(0), one.agent, one.text))
            .collect();
        said.sort();
        said
    }

    fn line(task: u64, agent: &str, text: &str) -> (u64, String, String) {
        (task, agent.to_owned(), text.to_owned())
    }

    #[test]
    fn whoever_attaches_sees_the_last_words_of_those_at_work_and_all_that_follows() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = |number, agent: &str, format| {
            let path = AttemptLog::path(dir.path(), number, 1, "log");
            let mut log = AttemptLog::open(&path).expect("it opens");
            log.line(&heading(agent, 1, format));
            log
        };
        let mut logs = Logs::of(dir.path());
        assert_eq!(said(&mut logs), []);
        let mut logs = Logs::of(dir.path());
        drop(open(1, "a-1", Format::Text));
        let mut busy = open(2, "a-2", Format::Text);
        for _ in 0..100 {
            busy.line(&"x".repeat(100));
        }
        busy.line("so far");
        let first = said(&mut logs);
        assert_eq!(first.last(), Some(&line(2, "a-2", &"x".repeat(100))));
        assert!(first.contains(&line(2, "a-2", "so far")) && first.len() < 50);
        assert!(first.iter().all(|one| one.0 == 2), "the other is over");
        assert!(!logs.is_idle());
        busy.line("half");
        // One that begins and ends between two looks is not missed, and is read in its form.
        let mut short = open(3, "c-1", Format::Claude);
        short.line(r#"{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}"#);
        short.line(r#"{"type":"system"}"#);
        drop(short);
        drop(busy);
        let heading = heading("c-1", 1, Format::Claude);
        let then = [
            line(2, "a-2", "half"),
            line(3, "c-1", &heading),
            line(3, "c-1", "hi"),
        ];
        assert_eq!(said(&mut logs), then);
        assert!(logs.is_idle());
        assert_eq!(said(&mut logs), []);
    }
}
