//! Jobs: agents at work in workspaces, and directories whose files follow the ledger.
//!
//! What follows from a step is core's to say, what a response means `wire`'s. Here programs run ([`run`], [`agent`]), in
//! the order of the queue ([`runner`]) and in git worktrees ([`workspace`]); each job's files are written ([`files`],
//! [`directory`]), and what a person edits in them is taken in ([`edited`]).

mod agent;
mod archive;
mod directory;
mod edited;
mod files;
mod import;
mod pack;
mod queue;
mod replay;
pub mod roles;
mod run;
mod runner;
mod surface;
#[cfg(test)]
pub(crate) mod testing;
mod workspace;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::JobId;
use switchboard_core::job::Job;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use directory::interaction;
pub use import::Imported;
pub use pack::{Packer, SealError};
pub use replay::{Replayed, replay};
pub(crate) use surface::SURFACE;
pub use workspace::{Workspace, repository_around};

use crate::call::{Calls, Ids};
use crate::config::{self, Config};
use crate::duty::Duty;
use crate::hub::{Error, Hub};
use files::Files;

/// Who runs jobs and writes their files, of those that serve a ledger.
const DUTY: &str = "jobs";

/// The jobs of a ledger, as the coordinator sees them that has the duty.
pub struct Jobs {
    pub(crate) hub: Hub,
    settings: config::Logist,
    packer: Packer,
    duty: Arc<Duty>,
    ids: Ids,
    /// Runs that are under way here, each with what stops it.
    runs: Mutex<HashMap<JobId, CancellationToken>>,
    /// A run ended here, so that there is room.
    ended: Notify,
    files: tokio::sync::Mutex<Files>,
    stopping: CancellationToken,
}

impl Jobs {
    pub(crate) fn new(config: &Config, calls: &Calls) -> Jobs {
        let packer = Packer::new(&config.logist.key);
        Jobs {
            hub: calls.hub.clone(),
            settings: config.logist.clone(),
            // The settings' doubts say what is wrong with the key.
            packer: packer.unwrap_or_default(),
            duty: Duty::new(&calls.hub, DUTY),
            ids: Ids::default(),
            runs: Mutex::default(),
            ended: Notify::new(),
            files: tokio::sync::Mutex::new(Files::new(&config.logist.dir)),
            stopping: calls.stopping.clone(),
        }
    }

    pub fn packer(&self) -> &Packer {
        &self.packer
    }

    /// Where a new job lies: in the directory that is asked for, else in one of its own among the others.
    pub fn place(&self, id: &JobId, asked: Option<&Path>) -> Result<PathBuf, String> {
        let named = self
            .settings
            .dir
            .join(asked.unwrap_or(Path::new(id.as_str())));
        let place =
            std::path::absolute(&named).map_err(|error| format!("{}: {error}", named.display()))?;
        // Links are followed as far as anything is there, so that one directory has one name.
        let there = place
            .ancestors()
            .find_map(|above| Some((above, above.canonicalize().ok()?)));
        let place = match there {
            Some((above, real)) => match place.strip_prefix(above) {
                Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
                Ok(_) | Err(_) => real,
            },
            None => place,
        };
        let all = self
            .settings
            .dir
            .canonicalize()
            .unwrap_or_else(|_| self.settings.dir.clone());
        if all.starts_with(&place) {
            return Err(format!(
                "{} holds the directories of all jobs; choose another directory for this one",
                place.display()
            ));
        }
        Ok(place)
    }

    pub async fn job(&self, id: &JobId) -> Result<Option<Job>, Error> {
        let key = id.to_string();
        self.hub
            .read(move |ledger| ledger.private::<Job>(key))
            .await
    }

    /// Whose agents run here now.
    fn running(&self) -> HashSet<JobId> {
        self.runs.lock().keys().cloned().collect()
    }
}
