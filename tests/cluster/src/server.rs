//! A PostgreSQL server that answers somewhere: URLs, databases and statements by `psql`.

use std::path::PathBuf;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::home::{plain, run};
use crate::{Cluster, Missing, SHARED_CLUSTER, postgres_bindir};

/// Where a server is and how its superuser gets in.
#[derive(Debug, Clone)]
pub struct Server {
    /// `user@host:port` of the URL, with a password if there is one.
    authority: String,
    /// What follows the database's name, with its question mark.
    query: String,
    bindir: PathBuf,
}

/// A database of one test, dropped with this value together with everyone still connected.
#[derive(Debug)]
pub struct Database {
    pub url: String,
    pub name: String,
    server: Server,
}

impl Server {
    /// The server that a superuser's URL names.
    pub fn at(url: &str) -> Result<Server, Missing> {
        let (_, rest) = url
            .split_once("://")
            .unwrap_or_else(|| panic!("{SHARED_CLUSTER} is no URL: {url}"));
        let (rest, query) = rest
            .split_once('?')
            .map_or((rest, String::new()), |(rest, query)| {
                (rest, format!("?{query}"))
            });
        let authority = rest.split('/').next().unwrap_or(rest).to_owned();
        Ok(Server {
            authority,
            query,
            bindir: postgres_bindir()?,
        })
    }

    pub(crate) fn local(port: u16, bindir: PathBuf) -> Server {
        Server {
            authority: format!("switchboard@127.0.0.1:{port}"),
            query: String::new(),
            bindir,
        }
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://{}/{database}{}", self.authority, self.query)
    }

    /// Where `psql`, `pgbench` and their like are.
    pub fn bindir(&self) -> &std::path::Path {
        &self.bindir
    }

    /// An empty database under a name that nobody had before.
    pub fn create_database(&self) -> Database {
        static NTH: AtomicU64 = AtomicU64::new(0);
        let at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let name = format!(
            "test_{}_{at}_{}",
            process::id(),
            NTH.fetch_add(1, Ordering::Relaxed)
        );
        // From template0, because template1 cannot be copied while anyone is connected to it.
        self.sql(
            "postgres",
            &format!("CREATE DATABASE {name} TEMPLATE template0"),
        );
        self.database(&name)
    }

    /// A database that is there already: a standby has those of its primary.
    pub fn database(&self, name: &str) -> Database {
        Database {
            url: self.url(name),
            name: name.to_owned(),
            server: self.clone(),
        }
    }

    /// Runs SQL and returns what it printed: a line per row, columns parted by `|`.
    ///
    /// Several statements make one transaction.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        self.try_sql(database, statement)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, where failing is one of the things that may happen.
    pub fn try_sql(&self, database: &str, statement: &str) -> Result<String, String> {
        let mut psql = plain(&self.bindir.join("psql"));
        psql.args([
            "--no-psqlrc",
            "--no-password",
            "-qAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
        ])
        .arg(self.url(database));
        run(psql.env("PGCONNECT_TIMEOUT", "20").arg("-c").arg(statement))
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }
}

impl Database {
    /// Runs SQL in this database, as [`Server::sql`] does.
    pub fn sql(&self, statement: &str) -> String {
        self.server.sql(&self.name, statement)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A server that is stopped by now takes its databases with it.
        let _ = self.server.try_sql(
            "postgres",
            &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
        );
    }
}

impl Cluster {
    /// The cluster that all tests may share: the one named by `SWITCHBOARD_TEST_POSTGRES`, else one of this process.
    ///
    /// Stop it never, and leave its settings alone. Without PostgreSQL it says that `what` is skipped and is `None`.
    pub fn shared(what: &str) -> Option<&'static Server> {
        enum Shared {
            Named(Server),
            Ours(Cluster),
        }
        static SHARED: OnceLock<Result<Shared, Missing>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| match std::env::var(SHARED_CLUSTER) {
            Ok(url) => Server::at(&url).map(Shared::Named),
            Err(_) => Cluster::with(&[("max_connections", "300")]).map(Shared::Ours),
        });
        match shared {
            Ok(Shared::Named(server)) => Some(server),
            Ok(Shared::Ours(cluster)) => Some(cluster),
            Err(missing) => {
                missing.skip(what);
                None
            }
        }
    }
}
