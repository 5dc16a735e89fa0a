//! A disk that fails on command, a clock that is wrong: a small library put before the hub's C library.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::preload::library;
use crate::process::Project;

/// What a disk can do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Writes find no space.
    DiskFull,
    /// What was written cannot be made durable.
    SyncFails,
    /// The same, but only when the write-ahead log is moved into the file.
    CheckpointFails,
    /// There is no space for the write-ahead log to be moved into the file.
    CheckpointFull,
}

/// The switch of one hub's disk.
#[derive(Debug)]
pub struct Disk {
    dir: TempDir,
}

impl Fault {
    fn file(self) -> &'static str {
        match self {
            Fault::DiskFull => "disk-full",
            Fault::SyncFails => "sync-fails",
            Fault::CheckpointFails => "checkpoint-fails",
            Fault::CheckpointFull => "checkpoint-full",
        }
    }
}

impl Disk {
    /// A project whose hubs write to a disk that can be made to fail.
    pub fn project() -> (Project, Disk) {
        let dir = TempDir::new().expect("a temporary directory can be made");
        let project = Project::new()
            .with_variable("LD_PRELOAD", library_in(dir.path()))
            .with_variable("FAULTS_DIR", dir.path());
        (project, Disk { dir })
    }

    /// For other programs than hubs, with the variables that they have to be started with.
    pub fn of_programs() -> (Disk, [(&'static str, String); 2]) {
        let dir = TempDir::new().expect("a temporary directory can be made");
        let text = |path: &Path| path.to_str().expect("it is text").to_owned();
        let variables = [
            ("LD_PRELOAD", text(&library_in(dir.path()))),
            ("FAULTS_DIR", text(dir.path())),
        ];
        (Disk { dir }, variables)
    }

    pub fn begin(&self, fault: Fault) {
        fs::write(self.dir.path().join(fault.file()), "").expect("a switch can be set");
    }

    pub fn end(&self, fault: Fault) {
        fs::remove_file(self.dir.path().join(fault.file())).expect("the switch was set");
    }
}

/// A project whose hubs take the wall clock to be so many seconds ahead, or behind if negative.
pub fn with_wrong_clock(project: Project, seconds: i64) -> Project {
    let library = library_in(project.root());
    project
        .with_variable("LD_PRELOAD", library)
        .with_variable("FAULTS_CLOCK_SECONDS", seconds.to_string())
}

/// The wall clock of one project's hubs, which can be set while they run.
#[derive(Debug)]
pub struct WallClock {
    file: PathBuf,
}

impl WallClock {
    /// A project whose hubs go by such a clock, right at first.
    pub fn of(project: Project) -> (Project, WallClock) {
        let library = library_in(project.root());
        let file = project.root().join("wall-clock");
        let project = project
            .with_variable("LD_PRELOAD", library)
            .with_variable("FAULTS_CLOCK_FILE", file.clone());
        (project, WallClock { file })
    }

    /// So many seconds ahead of the real one, or behind if negative.
    pub fn set(&self, seconds: i64) {
        let new = self.file.with_extension("new");
        fs::write(&new, seconds.to_string()).expect("a file can be written");
        fs::rename(&new, &self.file).expect("it can be put in its place");
    }
}

fn library_in(dir: &Path) -> PathBuf {
    library(dir, "faults", include_str!("faults.c"))
}
