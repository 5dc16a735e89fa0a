//! Ledgers in a database, each with a client that writes into the same database by hand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_store::postgres::{Address, PostgresEngine, Steps};
use switchboard_test_cluster::{Cluster, Database};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::hand;

pub type Desk = hand::Desk<Hand>;

/// A database for many ledgers, each in a schema of its own.
pub struct Room {
    pub database: Database,
    made: AtomicU64,
}

impl Room {
    /// `None` where there is no PostgreSQL.
    pub fn new(what: &str) -> Option<Room> {
        let server = Cluster::shared(what)?;
        Some(Room {
            database: server.create_database(),
            made: AtomicU64::new(0),
        })
    }

    pub fn desk(&self) -> Desk {
        let name = format!("ledger_{}", self.made.fetch_add(1, Ordering::Relaxed));
        self.database.sql(&format!("CREATE SCHEMA {name}"));
        let url = format!("{}?options=-csearch_path%3D{name}", self.database.url);
        let address = Address::parse(&url).unwrap();
        Desk::open(|clock| {
            let clock = Some(Box::new(clock.clone()) as _);
            let engine = PostgresEngine::open_with(address, clock, Steps::all()).unwrap();
            (Box::new(engine), Hand::new(&url))
        })
    }
}

/// A program with a connection of its own.
pub struct Hand {
    pub url: String,
    pub runtime: Runtime,
    pub client: Client,
}

impl Hand {
    pub fn new(url: &str) -> Hand {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(async move { drop(connection.await) });
            client
        });
        Hand {
            url: url.to_owned(),
            runtime,
            client,
        }
    }

    /// The rows of the last statement that has any, as text.
    pub fn try_sql(&self, sql: &str) -> Result<Vec<Vec<String>>, tokio_postgres::Error> {
        let answer = self.runtime.block_on(self.client.simple_query(sql))?;
        let rows = answer.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                let text = |at| row.get(at).unwrap_or("NULL").to_owned();
                Some((0..row.len()).map(text).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    }

    /// What must hold.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> Vec<Vec<String>> {
        match self.try_sql(sql) {
            Ok(rows) => rows,
            Err(error) => panic!("{}: {sql}", said(&error)),
        }
    }

    /// One value of one row.
    #[track_caller]
    pub fn one(&self, sql: &str) -> String {
        let rows = self.sql(sql);
        assert_eq!((rows.len(), rows[0].len()), (1, 1), "{rows:?}: {sql}");
        rows[0][0].clone()
    }
}

/// The server's own words.
pub fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{}: {}", said.code().code(), said.message()),
        None => error.to_string(),
    }
}

/// Whoever waits longer than this waits in vain.
pub const DEADLINE: Duration = Duration::from_secs(60);
