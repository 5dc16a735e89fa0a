//! A cluster made by `initdb`, durable like a real one, that can be stopped as if it had crashed; or a standby of another.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::home::{Home, PORT_TRIES, free_port, run};
use crate::{Missing, Server, postgres_bindir};

/// What every cluster starts with; later settings win.
const CONF: [(&str, &str); 7] = [
    ("listen_addresses", "127.0.0.1"),
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("max_connections", "100"),
    ("shared_buffers", "64MB"),
    ("log_line_prefix", "%m [%p] %d "),
    ("timezone", "UTC"),
];

/// Waits for our end, stops the server and removes the directory. Arguments: `pg_ctl`, the directory.
const GUARD: &str = r#"read -r _; "$1" -D "$2/data" -m immediate -t 60 stop; rm -rf "$2""#;

const LOG: &str = "log";

/// A running cluster of one database superuser, `switchboard`, who needs no password. Ends when dropped.
#[derive(Debug)]
pub struct Cluster {
    home: Home,
    server: Server,
    port: u16,
}

/// PEM files for the server's side of TLS; they are copied.
#[derive(Debug, Clone)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Cluster {
    pub fn start() -> Result<Cluster, Missing> {
        Cluster::with(&[])
    }

    /// Starts a cluster with lines of `postgresql.conf`.
    pub fn with(conf: &[(&str, &str)]) -> Result<Cluster, Missing> {
        let bindir = postgres_bindir()?;
        Ok(Cluster::launch(Home::new(), bindir, conf))
    }

    /// Starts a cluster that offers TLS under this certificate.
    pub fn with_tls(tls: &Tls, conf: &[(&str, &str)]) -> Result<Cluster, Missing> {
        let bindir = postgres_bindir()?;
        let home = Home::new();
        let copy = |from: &Path, name| {
            let content = fs::read(from)
                .unwrap_or_else(|error| panic!("{} cannot be read: {error}", from.display()));
            home.write(name, content).to_string_lossy().into_owned()
        };
        let (certificate, key) = (
            copy(&tls.certificate, "server.crt"),
            copy(&tls.key, "server.key"),
        );
        let ssl = [
            ("ssl", "on"),
            ("ssl_cert_file", &*certificate),
            ("ssl_key_file", &*key),
        ];
        Ok(Cluster::launch(home, bindir, &[&ssl[..], conf].concat()))
    }

    fn launch(mut home: Home, bindir: PathBuf, conf: &[(&str, &str)]) -> Cluster {
        let data = guard(&mut home, &bindir);
        let mut initdb = home.command(bindir.join("initdb"));
        initdb.args([
            "--no-sync",
            "--no-locale",
            "-A",
            "trust",
            "-U",
            "switchboard",
            "-E",
            "UTF8",
            "-D",
        ]);
        run(initdb.arg(&data)).unwrap_or_else(|error| panic!("{error}"));
        Cluster::start_in(home, bindir, conf)
    }

    /// Starts a standby that follows this cluster as `name`, which `synchronous_standby_names` may say.
    pub fn standby(&self, name: &str) -> Cluster {
        let (mut home, bindir) = (Home::new(), self.server.bindir().to_owned());
        let data = guard(&mut home, &bindir);
        let mut copy = home.command(bindir.join("pg_basebackup"));
        copy.args(["--no-sync", "--write-recovery-conf", "-c", "fast", "-D"]);
        copy.arg(&data).arg("-d").arg(self.url("postgres"));
        run(&mut copy).unwrap_or_else(|error| panic!("{error}"));
        let conf = [
            ("cluster_name", name),
            ("wal_retrieve_retry_interval", "100ms"),
        ];
        Cluster::start_in(home, bindir, &conf)
    }

    /// Has a standby follow this cluster, or nobody: then it receives nothing more.
    pub fn follow(&self, primary: Option<&Cluster>) {
        let conninfo = primary.map_or(String::new(), |primary| {
            format!("host=127.0.0.1 port={} user=switchboard", primary.port)
        });
        self.sql(
            "postgres",
            &format!("ALTER SYSTEM SET primary_conninfo = '{conninfo}'"),
        );
        self.sql("postgres", "SELECT pg_reload_conf()");
    }

    /// Makes a standby a primary, and waits until it takes writes.
    pub fn promote(&self) {
        run(self.pg_ctl().arg("promote")).unwrap_or_else(|error| panic!("{error}"));
    }

    fn start_in(home: Home, bindir: PathBuf, conf: &[(&str, &str)]) -> Cluster {
        let mut cluster = Cluster {
            home,
            server: Server::local(0, bindir.clone()),
            port: 0,
        };
        for _ in 0..PORT_TRIES {
            cluster.port = free_port();
            cluster.server = Server::local(cluster.port, bindir.clone());
            cluster.configure(conf);
            match cluster.try_start() {
                Ok(()) => return cluster,
                Err(error) if !error.contains("Address already in use") => panic!("{error}"),
                Err(_) => continue,
            }
        }
        panic!("{PORT_TRIES} ports in a row were taken between asking and starting")
    }

    /// Replaces `postgresql.conf`.
    fn configure(&self, conf: &[(&str, &str)]) {
        let (port, sockets) = (self.port.to_string(), self.home.path().to_string_lossy());
        let place = [("port", &*port), ("unix_socket_directories", &*sockets)];
        let lines = CONF.iter().chain(&place).chain(conf);
        let lines: String = lines
            .map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''")))
            .collect();
        self.home.write("data/postgresql.conf", lines);
    }

    /// Stops the server as a crash would: no checkpoint, connections cut.
    pub fn stop_immediate(&self) {
        let mut stop = self.pg_ctl();
        run(stop.args(["-m", "immediate", "stop"])).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Starts the stopped server on the same port and waits until it has recovered.
    pub fn start_again(&self) {
        self.try_start().unwrap_or_else(|error| panic!("{error}"));
    }

    /// The same server through its socket in the file system.
    pub fn socket_url(&self, database: &str) -> String {
        format!(
            "postgres://switchboard@/{database}?host={}&port={}",
            self.home.path().display(),
            self.port
        )
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process that accepts connections, while there is one.
    pub fn pid(&self) -> Option<u32> {
        self.home
            .read("data/postmaster.pid")
            .lines()
            .next()?
            .parse()
            .ok()
    }

    fn try_start(&self) -> Result<(), String> {
        // The log of this start only, so that what it says of a taken port is about this port.
        self.home.write(LOG, "");
        let started = run(self
            .pg_ctl()
            .arg("-l")
            .arg(self.home.path().join(LOG))
            .arg("start"));
        started
            .map(drop)
            .map_err(|error| format!("{error}\n{}", self.home.read(LOG)))
    }

    fn pg_ctl(&self) -> std::process::Command {
        let mut pg_ctl = self.home.command(self.server.bindir().join("pg_ctl"));
        pg_ctl
            .args(["-w", "-t", "120", "-D"])
            .arg(self.home.path().join("data"));
        pg_ctl
    }
}

/// Where the cluster's files go; they are gone after us.
fn guard(home: &mut Home, bindir: &Path) -> PathBuf {
    let directory = home.path().to_owned();
    home.guard(GUARD, &[&bindir.join("pg_ctl"), &directory]);
    directory.join("data")
}

impl Deref for Cluster {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
