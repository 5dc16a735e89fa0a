//! A hub with an open bus.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use tempfile::TempDir;

use super::Scale;
use crate::hub_process::Hub;
use crate::settings::Settings;

/// What all measurements of the bus are given.
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
        Ok(Place {
            hub,
            bus,
            _home: home,
        })
    }
}

/// A running hub and where its bus listens.
pub struct Place {
    pub hub: Hub,
    pub bus: SocketAddr,
    _home: TempDir,
}
