//! Where the ledger lies: a file, or a database on a cluster of its own that writes nothing by itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::Connection;
use switchboard_core::Timestamp;
use switchboard_store::postgres::{Address, PostgresEngine, Steps};
use switchboard_store::sqlite::SqliteEngine;
use switchboard_store::{Engine, ManualClock};
use switchboard_test_cluster::{Cluster, Database, Missing};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

use crate::meter::{Counts, Metered};

/// No page images, no vacuum, no checkpoint, no snapshots for standbys: the log holds what transactions write.
const CONF: [(&str, &str); 6] = [
    ("shared_preload_libraries", "pg_stat_statements"),
    ("full_page_writes", "off"),
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1d"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
];

/// An arbitrary day.
const START: Timestamp = Timestamp(1_760_000_000_000);

/// What databases count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub statements: u64,
    pub rows: u64,
    pub wal_bytes: u64,
}

pub trait Ground {
    /// What was done since the last time this was asked.
    fn written(&mut self) -> Written;
}

/// A file, and a reader that keeps its write-ahead log from starting anew.
pub struct File {
    counts: Arc<Counts>,
    log: PathBuf,
    before: Written,
    _reader: Connection,
    _dir: TempDir,
}

pub fn sqlite(counts: &Arc<Counts>) -> (Box<dyn Engine>, File) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ledger.db");
    let engine = SqliteEngine::open(&path, clock()).expect("a new file opens");
    let reader = Connection::open(&path).expect("it opens twice");
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM sb_head")
        .expect("a snapshot is taken");
    let ground = File {
        counts: Arc::clone(counts),
        log: dir.path().join("ledger.db-wal"),
        before: Written::default(),
        _reader: reader,
        _dir: dir,
    };
    let engine = Metered::sqlite(engine, Arc::clone(counts));
    (Box::new(engine), ground)
}

impl Ground for File {
    fn written(&mut self) -> Written {
        let log = std::fs::metadata(&self.log).expect("there is a write-ahead log");
        let now = Written {
            statements: self.counts.statements.load(Ordering::SeqCst),
            rows: self.counts.rows.load(Ordering::SeqCst),
            wal_bytes: log.len(),
        };
        let before = std::mem::replace(&mut self.before, now);
        Written {
            statements: now.statements - before.statements,
            rows: now.rows - before.rows,
            wal_bytes: now.wal_bytes - before.wal_bytes,
        }
    }
}

/// A database that counts its statements, and whose log can be read.
pub struct Postgres {
    /// Where the log was read up to.
    place: String,
    statements: u64,
    meter: Client,
    runtime: Runtime,
    database: Database,
    _cluster: Cluster,
}

pub fn postgres(counts: &Arc<Counts>) -> Result<(Box<dyn Engine>, Postgres), Missing> {
    let cluster = Cluster::with(&CONF)?;
    for extension in ["pg_stat_statements", "pg_walinspect"] {
        cluster.sql("postgres", &format!("CREATE EXTENSION {extension}"));
    }
    let database = cluster.create_database();
    let address = Address::parse(&database.url).expect("an address");
    let engine = PostgresEngine::open_with(address, Some(clock()), Steps::all());
    let engine = Metered {
        engine: engine.expect("a new database opens"),
        counts: Arc::clone(counts),
        rows: |_| 0,
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let meter = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&cluster.url("postgres"), NoTls)
            .await
            .expect("the cluster answers");
        tokio::spawn(connection);
        client
    });
    let ground = Postgres {
        place: String::new(),
        statements: 0,
        meter,
        runtime,
        database,
        _cluster: cluster,
    };
    Ok((Box::new(engine), ground))
}

impl Postgres {
    /// Two columns of text.
    fn ask(&self, sql: &str) -> (String, String) {
        let row = self.runtime.block_on(self.meter.query_one(sql, &[]));
        let row = row.expect("the database answers");
        (row.get(0), row.get(1))
    }
}

impl Ground for Postgres {
    fn written(&mut self) -> Written {
        let (place, statements) = self.ask(&format!(
            "SELECT pg_current_wal_flush_lsn()::text, coalesce(sum(calls), 0)::text FROM pg_stat_statements
             WHERE dbid = (SELECT oid FROM pg_database WHERE datname = '{}')",
            self.database.name
        ));
        let statements: u64 = statements.parse().expect("a count");
        let calls = statements - std::mem::replace(&mut self.statements, statements);
        let from = std::mem::replace(&mut self.place, place.clone());
        if from.is_empty() || from == place {
            return Written {
                statements: calls,
                ..Written::default()
            };
        }
        // What is pruned, and when, is the server's business.
        let (rows, bytes) = self.ask(&format!(
            "SELECT count(*) FILTER (WHERE resource_manager = 'Heap' AND record_type ~ '^(INSERT|UPDATE|HOT_UPDATE|DELETE)')::text,
               coalesce(sum(record_length), 0)::text FROM pg_get_wal_records_info('{from}', '{place}')
             WHERE resource_manager IN ('Heap', 'Transaction') OR (resource_manager = 'Btree' AND record_type ~ '^INSERT')"
        ));
        Written {
            statements: calls,
            rows: rows.parse().expect("a count"),
            wal_bytes: bytes.parse().expect("a sum"),
        }
    }
}

fn clock() -> Box<ManualClock> {
    Box::new(ManualClock::at(START))
}
