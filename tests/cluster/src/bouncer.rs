//! The distribution's PgBouncer before a server.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::home::{Home, PORT_TRIES, free_port};
use crate::{Missing, Server, path};

/// Runs the pooler until our end, then removes the directory. Arguments: `pgbouncer`, the directory.
const GUARD: &str =
    r#""$1" "$2/conf" >/dev/null 2>&1 & read -r _; kill -KILL $!; wait; rm -rf "$2""#;

/// How long the pooler may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pooler with few server connections per database. Ends when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    /// Held for its end only.
    _home: Home,
    server: Server,
}

/// How long a client keeps a server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    Session,
    Transaction,
}

impl PgBouncer {
    pub fn start(server: &Server, mode: PoolMode) -> Result<PgBouncer, Missing> {
        let program = pgbouncer()?;
        for _ in 0..PORT_TRIES {
            let (mut home, port) = (Home::new(), free_port());
            let directory = home.path().to_owned();
            home.write("conf", conf(server, mode, port, &directory));
            home.guard(GUARD, &[&program, &directory]);
            if begun(&home) {
                return Ok(PgBouncer {
                    _home: home,
                    server: Server::local(port, server.bindir().to_owned()),
                });
            }
        }
        panic!("{PORT_TRIES} ports in a row were taken between asking and starting")
    }

    pub fn url(&self, database: &str) -> String {
        self.server.url(database)
    }

    /// Runs SQL through the pooler, or a command of its own in the database `pgbouncer`.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        self.server.sql(database, statement)
    }
}

fn pgbouncer() -> Result<PathBuf, Missing> {
    let places = path().into_iter().chain([PathBuf::from("/usr/sbin")]);
    places
        .map(|place| place.join("pgbouncer"))
        .find(|program| program.is_file())
        .ok_or(Missing::PgBouncer)
}

fn conf(server: &Server, mode: PoolMode, port: u16, directory: &Path) -> String {
    let (login, address) = server
        .authority()
        .split_once('@')
        .unwrap_or(("switchboard", server.authority()));
    let login = match login.split_once(':') {
        Some((user, password)) => format!("user={user} password={password}"),
        None => format!("user={login}"),
    };
    let (host, server_port) = address.split_once(':').unwrap_or((address, "5432"));
    let mode = match mode {
        PoolMode::Session => "session",
        PoolMode::Transaction => "transaction",
    };
    format!(
        "[databases]
* = host={host} port={server_port} {login}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
logfile = {directory}/log
auth_type = any
pool_mode = {mode}
default_pool_size = 4
max_client_conn = 300
ignore_startup_parameters = extra_float_digits
",
        directory = directory.display()
    )
}

/// Waits for the pooler's own word that it listens; false if its port was taken meanwhile.
fn begun(home: &Home) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let log = home.read("log");
        if log.contains("Address already in use") {
            return false;
        }
        if log.contains("process up") {
            return true;
        }
        assert!(
            Instant::now() < deadline && !log.contains("FATAL"),
            "pgbouncer does not begin:\n{log}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}
