//! The engines that scenes are played on, each with an empty ledger for each scene.

use std::cell::Cell;
use std::path::Path;

use switchboard_store::memory::MemoryEngine;
use switchboard_store::postgres::{Address, PostgresEngine, Steps};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Engine, ManualClock};
use switchboard_test_cluster::{Cluster, Database, Server};
use switchboard_tests::with_parameter;
use tempfile::TempDir;

/// Which engine.
pub enum Kind {
    Memory,
    Sqlite,
    Postgres(Stage),
}

/// Where an empty ledger is, as long as this is kept.
pub struct Ground {
    folder: Option<TempDir>,
}

impl Ground {
    /// The folder with its file, if it is in one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(TempDir::path)
    }
}

impl Kind {
    /// `None`, told loudly, if there is no PostgreSQL here.
    pub fn postgres(what: &str) -> Option<Kind> {
        let stage = |server: &Server| Stage {
            database: server.create_database(),
            is_made: Cell::new(false),
        };
        Cluster::shared(what).map(stage).map(Kind::Postgres)
    }

    pub fn name(&self) -> &'static str {
        match self {
            Kind::Memory => "memory",
            Kind::Sqlite => "sqlite",
            Kind::Postgres(_) => "postgres",
        }
    }

    pub fn open(&self, clock: ManualClock) -> (Box<dyn Engine>, Ground) {
        let nowhere = Ground { folder: None };
        match self {
            Kind::Memory => (Box::new(MemoryEngine::new(Box::new(clock))), nowhere),
            Kind::Sqlite => {
                let folder = tempfile::tempdir().expect("a folder for the ledger");
                let path = folder.path().join("switchboard.db");
                let engine = SqliteEngine::open(&path, Box::new(clock)).expect("a new ledger");
                let ground = Ground {
                    folder: Some(folder),
                };
                (Box::new(engine), ground)
            }
            Kind::Postgres(stage) => (Box::new(stage.open(clock)), nowhere),
        }
    }
}

/// A database that is emptied for each scene, which takes a fraction of making another one.
pub struct Stage {
    database: Database,
    /// Its tables are there, and the head of an empty ledger is put aside.
    is_made: Cell<bool>,
}

impl Stage {
    fn open(&self, clock: ManualClock) -> PostgresEngine {
        if self.is_made.get() {
            self.database.sql(EMPTY);
        }
        // Without notifications a hub looks often, and so ends at once.
        let url = with_parameter(&self.database.url, "notify=off");
        let address = Address::parse(&url).expect("it is an address");
        let engine = PostgresEngine::open_with(address, Some(Box::new(clock)), Steps::all());
        let engine = engine.expect("a new ledger");
        if !self.is_made.replace(true) {
            self.database
                .sql("CREATE TABLE first_head AS SELECT * FROM sb_head");
        }
        engine
    }
}

/// Everything but what a new ledger has.
const EMPTY: &str = "
    DO $$ DECLARE name text; BEGIN
      -- As a hub: what is deleted by hand would be noted, and history is kept.
      PERFORM set_config('switchboard.hub', 'on', true);
      FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT IN
        ('sb_migration', 'migrations', 'swarm_metadata', 'sb_task_transition', 'first_head')
      LOOP EXECUTE format('DELETE FROM %I', name); END LOOP;
    END $$;
    INSERT INTO sb_head SELECT * FROM first_head";
