//! What measurements are given, and a fresh hub with its bus, its file and its directories.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::TempDir;

use crate::bus::Scale;
use crate::hub_process::Hub;
use crate::settings::Settings;

#[derive(Clone, Copy)]
pub struct Ground<'a> {
    pub settings: &'a Settings,
    pub binary: &'a Path,
}

impl Ground<'_> {
    pub fn scale(&self) -> &Scale {
        &self.settings.bus
    }

    pub fn new_hub(&self) -> anyhow::Result<Place> {
        let home = self.settings.new_home()?;
        let hub = Hub::start(self.binary, home.path())?;
        let bus = hub.bus.context("the hub has no bus in its hub.json")?;
        Ok(Place { hub, bus, home })
    }
}

/// A running hub and where its doors are.
pub struct Place {
    pub hub: Hub,
    pub bus: SocketAddr,
    home: TempDir,
}

impl Place {
    /// The ledger's file.
    pub fn file(&self) -> PathBuf {
        self.home.path().join("data/switchboard.db")
    }

    /// Stops the hub; its ledger's file is there as long as its home.
    pub fn stop(self) -> anyhow::Result<(PathBuf, TempDir)> {
        let file = self.file();
        self.hub.stop()?;
        Ok((file, self.home))
    }

    /// The directory of roles, their trigger files and their journal.
    pub fn squidrun(&self) -> PathBuf {
        self.home.path().join("project/.squidrun")
    }

    /// The directory of requests and answers.
    pub fn protocol_dir(&self) -> PathBuf {
        self.home.path().join("project/.jetpack/protocol")
    }
}
