//! The cluster, and coordinators on fresh databases of it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use switchboard_test_cluster::{Cluster, Database};
use tempfile::TempDir;

use crate::cpu::{self, Meter};
use crate::hub_process::Hub;
use crate::settings::Settings;

/// Durable, and large enough that the defaults of a small machine are not what is measured.
const CONF: [(&str, &str); 5] = [
    ("synchronous_commit", "on"),
    ("fsync", "on"),
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
    ("max_connections", "200"),
];

/// How coordinators learn of each other's work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Notification,
    Polling,
}

impl Word {
    pub const ALL: [Self; 2] = [Self::Notification, Self::Polling];

    pub fn name(self) -> &'static str {
        match self {
            Self::Notification => "notification",
            Self::Polling => "polling",
        }
    }

    fn query(self) -> &'static str {
        match self {
            Self::Notification => "",
            Self::Polling => "?notify=off",
        }
    }
}

/// One cluster for everything that is measured on it.
pub struct Ground<'a> {
    pub settings: &'a Settings,
    pub cluster: Cluster,
    postmaster: u32,
    binary: &'a Path,
}

impl<'a> Ground<'a> {
    pub fn new(settings: &'a Settings, binary: &'a Path) -> anyhow::Result<Self> {
        crate::progress(format_args!("a throw-away PostgreSQL cluster"));
        if let Some(dir) = &settings.given_dir
            && let Err(other) = tempfile::env::override_temp_dir(dir)
        {
            bail!("temporary files go to {} already", other.display());
        }
        let cluster = match Cluster::with(&CONF) {
            Ok(cluster) => cluster,
            Err(missing) => bail!("it needs {missing}"),
        };
        let postmaster = cluster.pid().context("the cluster has no process")?;
        Ok(Self {
            settings,
            cluster,
            postmaster,
            binary,
        })
    }

    pub fn version(&self) -> String {
        self.cluster.sql("postgres", "SHOW server_version")
    }

    pub fn meter(&self, hubs: &[Hub]) -> anyhow::Result<Meter> {
        Meter::begin(hubs.iter().map(Hub::pid).collect(), Some(self.postmaster))
    }

    pub fn postgres_cpu_time(&self) -> anyhow::Result<Duration> {
        cpu::of_family(self.postmaster)
    }

    /// A fresh database without a coordinator yet.
    pub fn ledger(&self, word: Word) -> Ledger<'_> {
        let database = self.cluster.create_database();
        Ledger {
            hubs: Vec::new(),
            homes: Vec::new(),
            store: format!("{}{}", database.url, word.query()),
            _database: database,
            ground: self,
        }
    }
}

/// Some coordinators on one database. The fields go in this order: nobody is connected when the database goes.
pub struct Ledger<'a> {
    pub hubs: Vec<Hub>,
    homes: Vec<TempDir>,
    /// Held for its end only.
    _database: Database,
    store: String,
    ground: &'a Ground<'a>,
}

impl Ledger<'_> {
    /// Starts coordinators, or stops the last ones, until there are so many.
    pub fn coordinators(&mut self, count: usize) -> anyhow::Result<&[Hub]> {
        while self.hubs.len() > count {
            let last = self.hubs.pop();
            last.map(Hub::stop).transpose()?;
        }
        while self.hubs.len() < count {
            let home = self.ground.settings.new_home()?;
            let hub = Hub::start_on(self.ground.binary, home.path(), &self.store)?;
            self.hubs.push(hub);
            self.homes.push(home);
        }
        Ok(&self.hubs)
    }

    pub fn servers(&self) -> Vec<SocketAddr> {
        self.hubs.iter().map(|hub| hub.server).collect()
    }

    /// Waits until neither the coordinators nor the database do anything behind the scenes.
    pub fn settle(&self) -> anyhow::Result<()> {
        cpu::settle(|| {
            let hubs = self.hubs.iter().map(Hub::cpu_time);
            let hubs = hubs.sum::<anyhow::Result<Duration>>()?;
            Ok(hubs + self.ground.postgres_cpu_time()?)
        })
    }
}
