//! Writes the files of all jobs, and their index, whenever the log tells of a job.
//!
//! A command that is answered finds the files written: it waits for the same turn that the follower takes. A directory
//! that cannot be written is told of once and tried again; all others are written meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::JobId;
use switchboard_core::job::{Job, JobGroup, JobShelf};
use switchboard_core::record::{Place, RecordRange};
use switchboard_wire::logist::files::Index;
use switchboard_wire::logist::schemas::VERSION;
use tokio::time::sleep;

use super::Jobs;
use super::archive::Archive;
use super::directory::{Directory, Told, base_of, edited, history_file, lines, projection};
use crate::hub::Error;
use crate::projection::{Check, Foreign, Position, Wanted, folder, hash};

pub(super) const INDEX: &str = "jobs_index.json";
/// What could not be written is tried again so soon.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Jobs that are read at a time.
const PAGE: usize = 256;

/// What is known of the directories.
pub(super) struct Files {
    dir: PathBuf,
    index: Option<Known>,
    /// The selected job, as the index has it.
    current: Option<JobId>,
    /// What was last complained of, by job.
    trouble: HashMap<Option<JobId>, String>,
}

/// All jobs, as the index has them.
#[derive(Default)]
struct Known {
    directories: BTreeMap<JobId, String>,
    ranks: HashMap<JobId, i64>,
    queue: BTreeSet<(i64, JobId)>,
}

/// Writes what the log tells of, until the hub stops.
pub(super) async fn follow(jobs: Arc<Jobs>) {
    let mut bell = jobs.hub.shared.wakeups().jobs_bell();
    loop {
        let is_done = jobs.write().await;
        tokio::select! {
            () = jobs.stopping.cancelled() => break,
            changed = bell.changed() => if changed.is_err() { return },
            () = sleep(RETRY_AFTER), if !is_done || jobs.hub.is_shared() => {}
        }
    }
    jobs.write().await;
}

impl Files {
    pub fn new(dir: &Path) -> Files {
        Files {
            dir: dir.to_owned(),
            index: None,
            current: None,
            trouble: HashMap::new(),
        }
    }

    /// What somebody made of the index, and what it was.
    pub fn edited_index(&self) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        edited(&projection(&self.dir), INDEX)
    }

    /// Says what is wrong, once; whether anything is.
    pub fn complain(&mut self, of: Option<&JobId>, written: io::Result<()>) -> bool {
        let Err(error) = written else {
            self.trouble.remove(&of.cloned());
            return false;
        };
        let said = error.to_string();
        let known = self.trouble.insert(of.cloned(), said.clone());
        if known.as_ref() != Some(&said) {
            let whose = of.map_or_else(
                || "the index of jobs".to_owned(),
                |job| format!("job {job}"),
            );
            tracing::warn!(
                "the files of {whose} cannot be written: {said}; the ledger has them, and they are written as soon as possible"
            );
        }
        true
    }
}

impl Known {
    fn put(&mut self, job: &Job) {
        let id = &job.id;
        self.directories.insert(id.clone(), job.directory.clone());
        self.unqueue(id);
        let is_queued = match job.group() {
            JobGroup::Ready | JobGroup::Waiting | JobGroup::Queued | JobGroup::Running => true,
            JobGroup::Draft | JobGroup::Steward | JobGroup::Suspended | JobGroup::Ended => false,
        };
        if is_queued {
            self.ranks.insert(id.clone(), job.rank);
            self.queue.insert((job.rank, id.clone()));
        }
    }

    fn unqueue(&mut self, id: &JobId) {
        if let Some(rank) = self.ranks.remove(id) {
            self.queue.remove(&(rank, id.clone()));
        }
    }

    fn remove(&mut self, id: &JobId) {
        self.directories.remove(id);
        self.unqueue(id);
    }

    fn told(&self, current: Option<&JobId>) -> Index {
        let named = |(id, dir): (&JobId, &String)| (id.to_string(), dir.clone());
        Index {
            schema_version: Some(VERSION.to_owned()),
            current_job_id: current.map(ToString::to_string),
            jobs: self.directories.iter().map(named).collect(),
            queue: self.queue.iter().map(|(_, id)| id.to_string()).collect(),
        }
    }
}

impl Jobs {
    /// Writes what was told of since this was last done; whether all of it could be.
    pub async fn write(&self) -> bool {
        if !self.duty.standing().is_held {
            return true;
        }
        let mut files = self.files.lock().await;
        let wakeups = self.hub.shared.wakeups();
        let told = wakeups.jobs_told();
        match self.write_told(&mut files, told.clone()).await {
            Ok(left) if left.is_empty() => true,
            Ok(left) => {
                wakeups.jobs_untold(Some(left));
                false
            }
            Err(error) => {
                tracing::debug!(%error, "the files of jobs are written in a moment");
                wakeups.jobs_untold(told);
                false
            }
        }
    }

    /// Says of which jobs the files could not be written.
    async fn write_told(
        &self,
        files: &mut Files,
        told: Option<HashSet<JobId>>,
    ) -> Result<HashSet<JobId>, Error> {
        let ids = match (told, &files.index) {
            (Some(told), Some(_)) => told,
            (None, _) | (_, None) => self.find_all(files).await?,
        };
        self.look_at_index(files).await?;
        let mut left = HashSet::new();
        let shelf = self
            .hub
            .read(|ledger| ledger.private::<JobShelf>(""))
            .await?;
        let is_news = !ids.is_empty() || shelf.unwrap_or_default().current != files.current;
        for id in ids {
            let job = self.job(&id).await?;
            let known = files.index.get_or_insert_default();
            match &job {
                Some(job) => known.put(job),
                // Its directory stays.
                None => known.remove(&id),
            }
            if job.is_some() {
                self.look_at_job(files, &id).await?;
                let written = self.write_job(&id).await?;
                if files.complain(Some(&id), written) {
                    left.insert(id);
                }
            }
        }
        if is_news {
            let written = self.write_index(files).await?;
            files.complain(None, written);
        }
        Ok(left)
    }

    /// Reads all jobs anew; those whose files are not as they are in the ledger.
    async fn find_all(&self, files: &mut Files) -> Result<HashSet<JobId>, Error> {
        let (mut known, mut stale) = (Known::default(), HashSet::new());
        for group in JobGroup::ALL {
            let mut after = None;
            loop {
                let range = RecordRange {
                    after: after.take(),
                    ..Job::in_group(*group, PAGE)
                };
                let page: Vec<Job> = self.hub.read(move |ledger| ledger.privates(&range)).await?;
                for job in &page {
                    known.put(job);
                    if !Directory::new(&job.directory).is_current(job) {
                        stale.insert(job.id.clone());
                    }
                }
                let Some(last) = page.last().filter(|_| page.len() == PAGE) else {
                    break;
                };
                after = switchboard_core::record::Private::position(last).map(|position| Place {
                    position,
                    key: last.id.to_string().into(),
                });
            }
        }
        files.index = Some(known);
        Ok(stale)
    }

    pub(super) async fn write_job(&self, id: &JobId) -> Result<io::Result<()>, Error> {
        let of = id.clone();
        let Some(told) = self.hub.read(move |ledger| Told::read(ledger, &of)).await? else {
            return Ok(Ok(()));
        };
        let directory = Directory::new(&told.job.directory);
        let told = Arc::new(told);
        let history = match directory.lacks_history(&told) {
            Ok(true) => match self.history(&directory, &told).await? {
                Ok(history) => Some(history),
                Err(error) => return Ok(Err(error)),
            },
            Ok(false) => None,
            Err(error) => return Ok(Err(error)),
        };
        let writing = tokio::task::spawn_blocking(move || {
            directory.furnish()?;
            directory.write(&told, history, Check::Presence).map(drop)
        });
        writing.await.map_err(|_| Error::Broken)
    }

    /// The history file, after what is too much of it went into the archive.
    async fn history(
        &self,
        directory: &Directory,
        told: &Arc<Told>,
    ) -> Result<io::Result<Vec<u8>>, Error> {
        let archived = match directory.archived_upto() {
            Ok(archived) => archived,
            Err(error) => return Ok(Err(error)),
        };
        let of = Arc::clone(told);
        let mut lines = self
            .hub
            .read(move |ledger| lines(ledger, &of, archived))
            .await?;
        let (root, told) = (directory.root.clone(), Arc::clone(told));
        let bytes_max = self.settings.history_bytes_max as usize;
        let made = tokio::task::spawn_blocking(move || {
            let bytes: usize = lines.iter().map(Vec::len).sum();
            let most = switchboard_core::limits::JOB_INTERACTIONS_MAX;
            let mut archived = archived;
            if (bytes > bytes_max || lines.len() > most) && lines.len() > 1 {
                // The last one stays where people look for it.
                let last = lines.split_off(lines.len() - 1);
                let ended: Vec<Vec<u8>> = lines
                    .into_iter()
                    .map(|line| [line, vec![b'\n']].concat())
                    .collect();
                archived = Archive::write(&root, archived + 1, &ended)?.last;
                lines = last;
            }
            Ok(history_file(&told, archived, &lines))
        });
        made.await.map_err(|_| Error::Broken)
    }

    pub(super) async fn write_index(&self, files: &mut Files) -> Result<io::Result<()>, Error> {
        let read = self
            .hub
            .read(|ledger| Ok((ledger.head()?, ledger.private::<JobShelf>("")?)));
        let (head, shelf) = read.await?;
        let shelf = shelf.unwrap_or_default();
        let index = files
            .index
            .as_ref()
            .map(|known| known.told(shelf.current.as_ref()));
        let Some(index) = index else {
            return Ok(Ok(()));
        };
        let text = serde_json::to_vec_pretty(&index).expect("text is always JSON");
        files.current = shelf.current;
        let projection = projection(&files.dir);
        let upto = Position {
            epoch: head.epoch.number,
            seq: head.seq,
        };
        let writing = tokio::task::spawn_blocking(move || {
            let file = |name: &str| Wanted {
                path: projection.root.join(name),
                version: hash(&text),
                content: Some(text.clone()),
                foreign: Foreign::Replace,
            };
            let wanted = [file(&base_of(INDEX)), file(INDEX)];
            let none = &mut |_: &Wanted| Ok(None);
            projection
                .reconcile(upto, &wanted, Check::Presence, none, &mut folder::freely)
                .map(drop)
        });
        writing.await.map_err(|_| Error::Broken)
    }
}
