//! A throw-away PostgreSQL for tests and measurements, and a PgBouncer before it.
//!
//! Everything runs from the distribution's binaries in a temporary directory and ends with the process that
//! started it, however that ends (`home`). Nothing here knows what the databases are for.
//! What goes wrong panics with the server's own words: nobody but a test or a bench calls this.

mod bouncer;
mod cluster;
mod home;
mod server;

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

pub use bouncer::{PgBouncer, PoolMode};
pub use cluster::{Cluster, Tls};
pub use server::{Database, Server};

/// Names the superuser's URL of a cluster that is already there, so that many test processes share one.
pub const SHARED_CLUSTER: &str = "SWITCHBOARD_TEST_POSTGRES";

/// Set to `1`, nothing is skipped: what is missing fails the test.
pub const RUN_ALL: &str = "SWITCHBOARD_TEST_ALL";

/// A program that is not installed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    PostgreSql,
    PgBouncer,
    Sqlite3,
    Python,
    /// Its package `cryptography`, in its place below `target` or the system's.
    Cryptography,
    /// And OpenSSL's command.
    Curl,
    /// With the packages of `tests/node`.
    Node,
    /// In its place below `target`.
    Schemathesis,
}

impl Missing {
    /// Tells that `what` is skipped, past the capture of the test harness; panics where nothing may be skipped.
    pub fn skip(self, what: &str) {
        if std::env::var_os(RUN_ALL).is_some_and(|all| all == "1") {
            panic!("{what} needs {self}");
        }
        writeln!(io::stderr(), "SKIPPED: {what} needs {self}").expect("standard error is open");
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (program, package) = match self {
            Missing::PostgreSql => ("PostgreSQL", "postgresql"),
            Missing::PgBouncer => ("PgBouncer", "pgbouncer"),
            Missing::Sqlite3 => ("the sqlite3 command-line tool", "sqlite3"),
            Missing::Python => ("Python", "python3"),
            Missing::Cryptography => (
                "Python's package cryptography",
                "python3-venv, then python3 -m venv target/external and target/external/bin/pip install -r tests/python/requirements.txt",
            ),
            Missing::Curl => ("curl with openssl and jq", "curl openssl jq"),
            Missing::Node => (
                "Node.js with the packages of tests/node",
                "nodejs npm, then npm ci --prefix tests/node",
            ),
            Missing::Schemathesis => (
                "Schemathesis",
                "python3-venv, then python3 -m venv target/schemathesis and target/schemathesis/bin/pip install -r tests/openapi/requirements.txt",
            ),
        };
        write!(
            f,
            "{program} (apt-get install {package}), which is not installed"
        )
    }
}

impl std::error::Error for Missing {}

/// The directory with PostgreSQL's programs: the one `pg_config` names, the distribution's newest, or one of `PATH`.
fn postgres_bindir() -> Result<PathBuf, Missing> {
    let named = Command::new("pg_config").arg("--bindir").output().ok();
    let named = named.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let versions = Path::new("/usr/lib/postgresql")
        .read_dir()
        .into_iter()
        .flatten()
        .flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                entry.path().join("bin"),
            ))
        })
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    let complete = |bin: &PathBuf| {
        ["initdb", "pg_ctl", "postgres", "psql"]
            .iter()
            .all(|name| bin.join(name).is_file())
    };
    let mut candidates = named
        .into_iter()
        .chain(versions.into_iter().map(|(_, bin)| bin))
        .chain(path());
    candidates.find(complete).ok_or(Missing::PostgreSql)
}

/// The directories of `PATH`.
fn path() -> Vec<PathBuf> {
    std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default()
}
