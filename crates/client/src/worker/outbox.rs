//! Reports that outlive the process: each a file, written before it is sent and removed once it was answered.
//!
//! A directory per agent, locked by the process that serves it. Who finds one without a lock goes on for the dead.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use switchboard_wire::jetpack::{CompleteRequest, FailRequest, ReleaseTaskRequest};

const LOCK: &str = "lock";
/// A larger file is none of ours.
const REPORT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The reports of one agent that are not answered yet.
#[derive(Debug)]
pub struct Outbox {
    agent: String,
    dir: PathBuf,
    _lock: File,
}

/// A report, and the key under which it counts once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub key: String,
    pub task: String,
    pub number: u64,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Body {
    Complete(Box<CompleteRequest>),
    Fail(Box<FailRequest>),
    Release(ReleaseTaskRequest),
}

impl Report {
    /// Under the epoch of the claim that is in force, after a resume gave it a new one.
    pub(super) fn with_epoch(mut self, epoch: u64) -> Report {
        match &mut self.body {
            Body::Complete(request) => request.epoch = Some(epoch),
            Body::Fail(request) => request.epoch = Some(epoch),
            Body::Release(request) => request.epoch = Some(epoch),
        }
        self
    }
}

impl Outbox {
    /// The outbox of this agent; none if another process serves it.
    pub fn open(root: &Path, agent: &str) -> io::Result<Option<Outbox>> {
        if agent.is_empty() || agent.starts_with('.') || agent.contains('/') {
            let message = format!("'{agent}' cannot be the name of a directory");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        let dir = root.join(agent);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&dir)?;
        let lock = private().open(dir.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        let outbox = Outbox {
            agent: agent.to_owned(),
            dir,
            _lock: lock,
        };
        Ok(Some(outbox))
    }

    /// Those that no process serves any more.
    pub fn left_behind(root: &Path) -> io::Result<Vec<Outbox>> {
        let entries = match fs::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut left = Vec::new();
        for entry in entries {
            let entry = entry?;
            // What is no agent's is none of ours.
            if let Some(agent) = entry.file_name().to_str()
                && entry.path().join(LOCK).is_file()
            {
                left.extend(Outbox::open(root, agent)?);
            }
        }
        left.sort_by(|one, other| one.agent.cmp(&other.agent));
        Ok(left)
    }

    pub fn agent(&self) -> &str {
        &self.agent
    }

    pub fn is_empty(&self) -> bool {
        self.files().is_ok_and(|files| files.is_empty())
    }

    /// Durable when it returns.
    pub(super) fn put(&self, report: &Report) -> io::Result<()> {
        let bytes = serde_json::to_vec(report)?;
        let (file, fresh) = (self.file(report), self.dir.join("fresh"));
        let mut open = private().truncate(true).open(&fresh)?;
        // One that was left there may have been another's to read.
        open.set_permissions(Permissions::from_mode(0o600))?;
        open.write_all(&bytes)?;
        open.sync_all()?;
        fs::rename(&fresh, &file)?;
        File::open(&self.dir)?.sync_all()
    }

    /// What is to be sent, oldest first. What cannot be read is put aside, and its name returned.
    pub(super) fn pending(&self) -> io::Result<(Vec<Report>, Vec<PathBuf>)> {
        let (mut reports, mut odd) = (Vec::new(), Vec::new());
        for file in self.files()? {
            let size = fs::metadata(&file)?.len();
            let bytes = match size <= REPORT_BYTES_MAX {
                true => fs::read(&file)?,
                false => Vec::new(),
            };
            match serde_json::from_slice::<Report>(&bytes) {
                Ok(report) if self.file(&report) == file => reports.push(report),
                Ok(_) | Err(_) => {
                    let aside = file.with_extension("unreadable");
                    fs::rename(&file, &aside)?;
                    odd.push(aside);
                }
            }
        }
        Ok((reports, odd))
    }

    /// It was answered.
    pub(super) fn settle(&self, report: &Report) -> io::Result<()> {
        match fs::remove_file(self.file(report)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes it, unless something is left in it.
    pub fn discard(self) {
        let _ = fs::remove_file(self.dir.join("fresh"));
        if self.is_empty() {
            let _ = fs::remove_file(self.dir.join(LOCK));
            // A report that could not be read stays.
            let _ = fs::remove_dir(&self.dir);
        }
    }

    fn file(&self, report: &Report) -> PathBuf {
        // A key of ours sorts by its time.
        let name = report.key.replace('/', "_");
        self.dir.join(format!("{name}.json"))
    }

    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "json") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(key: &str) -> Report {
        Report {
            key: key.to_owned(),
            task: "tsk_1".to_owned(),
            number: 1,
            body: Body::Release(ReleaseTaskRequest::default()),
        }
    }

    #[test]
    fn a_report_is_there_until_it_was_answered_whoever_opens_the_box() {
        let root = tempfile::tempdir().expect("a directory");
        let open = || Outbox::open(root.path(), "a").expect("it opens");
        let first = open().expect("nobody has it");
        first.put(&report("02")).expect("it is kept");
        first.put(&report("01")).expect("it is kept");
        let mode = fs::metadata(first.file(&report("01")))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(open().is_none(), "one process serves it");
        drop(first);
        let left = Outbox::left_behind(root.path()).expect("they are read");
        let [second] = &left[..] else {
            panic!("{left:?}")
        };
        assert_eq!(second.agent(), "a");
        assert_eq!(
            second.pending().expect("they are read").0,
            [report("01"), report("02")]
        );
        second.settle(&report("01")).expect("it goes");
        second.settle(&report("01")).expect("it is gone");
        assert_eq!(second.pending().expect("they are read").0, [report("02")]);
    }

    #[test]
    fn what_was_cut_off_while_it_was_written_is_no_report() {
        let root = tempfile::tempdir().expect("a directory");
        let outbox = Outbox::open(root.path(), "a")
            .expect("it opens")
            .expect("free");
        fs::write(outbox.dir.join("fresh"), b"{\"key\":").expect("written");
        fs::write(outbox.dir.join("09.json"), b"{\"key\":").expect("written");
        outbox.put(&report("10")).expect("it is kept");
        let (reports, odd) = outbox.pending().expect("they are read");
        assert_eq!(reports, [report("10")]);
        assert_eq!(odd, [outbox.dir.join("09.unreadable")]);
        outbox.settle(&report("10")).expect("it goes");
        let dir = outbox.dir.clone();
        outbox.discard();
        assert!(
            dir.join("09.unreadable").is_file(),
            "a person may want to see it"
        );
    }

    #[test]
    fn an_id_that_leaves_the_directory_is_refused() {
        let root = tempfile::tempdir().expect("a directory");
        for id in ["", "..", ".x", "a/b", "/etc"] {
            assert!(Outbox::open(root.path(), id).is_err(), "{id}");
        }
    }
}
