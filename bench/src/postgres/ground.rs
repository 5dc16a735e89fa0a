//! The cluster, and coordinators on fresh databases of it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use switchboard_test_cluster::{Cluster, Database};
use tempfile::TempDir;

use crate::cpu;
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
    pub postmaster: u32,
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

    /// What is wrong with the figures if the cluster lies on no disk.
    pub fn is_in_memory(&self) -> Option<String> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let dir = tempfile::env::temp_dir().canonicalize().ok()?;
        is_tmpfs(&mounts, &dir).then(|| {
            let dir = dir.display();
            format!("{dir} is memory, where a sync costs nothing; name a directory on a disk with '--dir'")
        })
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

/// Whether a directory lies in a file system of memory: that of the longest mount point above it counts.
fn is_tmpfs(mounts: &str, dir: &Path) -> bool {
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((Path::new(words.next()?), words.next()?))
    });
    let above = mounted.filter(|(point, _)| dir.starts_with(point));
    let nearest = above.max_by_key(|(point, _)| point.components().count());
    nearest.is_some_and(|(_, kind)| matches!(kind, "tmpfs" | "ramfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_point_decides_whether_a_directory_is_memory() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp/disk xfs rw 0 0\n";
        let cases = [
            ("/tmp", true),
            ("/tmp/x", true),
            ("/tmp/disk/x", false),
            ("/tmpfs", false),
        ];
        for (dir, wanted) in cases {
            assert_eq!(is_tmpfs(mounts, Path::new(dir)), wanted, "{dir}");
        }
    }
}
