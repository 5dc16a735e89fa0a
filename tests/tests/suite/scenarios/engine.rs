//! The engines that scenes are played on, each with an empty ledger for each scene.

use std::sync::atomic::{AtomicU64, Ordering};

use switchboard_store::memory::MemoryEngine;
use switchboard_store::postgres::{Address, PostgresEngine, Steps};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Engine, ManualClock};
use switchboard_test_cluster::{Cluster, Database};
use tempfile::TempDir;

/// Which engine.
pub enum Kind {
    Memory,
    Sqlite,
    /// A schema for each scene, because a database would take ten times as long.
    Postgres(Database),
}

/// Where an empty ledger is, as long as this is kept.
pub struct Ground {
    _folder: Option<TempDir>,
}

impl Kind {
    /// `None`, told loudly, if there is no PostgreSQL here.
    pub fn postgres(what: &str) -> Option<Kind> {
        Cluster::shared(what).map(|server| Kind::Postgres(server.create_database()))
    }

    pub fn name(&self) -> &'static str {
        match self {
            Kind::Memory => "memory",
            Kind::Sqlite => "sqlite",
            Kind::Postgres(_) => "postgres",
        }
    }

    pub fn open(&self, clock: ManualClock) -> (Box<dyn Engine>, Ground) {
        let nowhere = Ground { _folder: None };
        match self {
            Kind::Memory => (Box::new(MemoryEngine::new(Box::new(clock))), nowhere),
            Kind::Sqlite => {
                let folder = tempfile::tempdir().expect("a folder for the ledger");
                let path = folder.path().join("switchboard.db");
                let engine = SqliteEngine::open(&path, Box::new(clock)).expect("a new ledger");
                let ground = Ground {
                    _folder: Some(folder),
                };
                (Box::new(engine), ground)
            }
            Kind::Postgres(database) => {
                let address = Address::parse(&schema_in(database)).expect("it is an address");
                let clock = Some(Box::new(clock) as Box<_>);
                let engine = PostgresEngine::open_with(address, clock, Steps::all());
                (Box::new(engine.expect("a new ledger")), nowhere)
            }
        }
    }
}

/// The address of a schema that nobody had before.
fn schema_in(database: &Database) -> String {
    static NTH: AtomicU64 = AtomicU64::new(0);
    let schema = format!("scene_{}", NTH.fetch_add(1, Ordering::Relaxed));
    database.sql(&format!("CREATE SCHEMA {schema}"));
    let glue = if database.url.contains('?') { '&' } else { '?' };
    format!("{}{glue}options=-c%20search_path%3D{schema}", database.url)
}
