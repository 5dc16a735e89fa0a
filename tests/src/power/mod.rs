//! A power cut, replayed: everything that a real hub does to its disk is written down, and the disk is put together
//! again as a cut at any moment may have left it.
//!
//! What was synced is there. Of what was not, anything may be: nothing, all, parts of it down to a sector, a later write
//! without an earlier one. A name counts as synced with its directory only.

use std::fs::{self, File};
use std::path::PathBuf;

use tempfile::TempDir;

use crate::preload::library;
use crate::process::{Hub, Project};

mod disk;
mod log;

pub use disk::{Disk, Left};
pub use log::{Log, Record};

/// Writes down what hubs do below one directory.
#[derive(Debug)]
pub struct Recorder {
    home: TempDir,
}

impl Recorder {
    /// A project whose hubs are recorded, with a data directory that is there already.
    pub fn project() -> (Project, Recorder) {
        let home = TempDir::new().expect("a temporary directory can be made");
        let preload = library(home.path(), "recorder", include_str!("recorder.c"));
        let recorder = Recorder { home };
        File::create(recorder.path()).expect("a file can be made");
        let project = Project::new();
        let below = project.data_dir().to_owned();
        fs::create_dir(&below).expect("a directory can be made");
        let project = project
            .with_variable("LD_PRELOAD", preload)
            .with_variable("RECORD_BELOW", below)
            .with_variable("RECORD_TO", recorder.path());
        (project, recorder)
    }

    /// How far the record has come: whatever was done before this moment is before this position.
    pub fn position(&self) -> u64 {
        let about = fs::metadata(self.path());
        about.expect("the record is there").len()
    }

    /// SIGKILL between an effect with its record and the next.
    pub fn kill(&self, hub: &mut Hub) {
        let record = File::open(self.path()).expect("the record is there");
        record.lock().expect("a file can be locked");
        hub.kill();
    }

    /// Everything up to now.
    pub fn log(&self) -> Log {
        Log::parse(fs::read(self.path()).expect("the record is there"))
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("record")
    }
}
