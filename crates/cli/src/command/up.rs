//! `switchboard up`: runs the hub until it is told to stop.

use std::env;
use std::io::{self, IsTerminal};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};
use switchboard_hub::config::{Config, Overrides};
use tracing_subscriber::EnvFilter;

use crate::discover;
use crate::failure::Failure;
use crate::log::Lines;
use crate::project;

/// Start the hub for this project and keep it running
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The hub keeps its state in .switchboard/ of the project. It serves HTTP on 127.0.0.1:7373, the bus,
for workers and operators, on 127.0.0.1:8731, and the broker, for SquidRun's roles, on 127.0.0.1:9900.
.jetpack/swarm.db is a link to its SQLite file; a database that was there before is imported and kept.
Settings come from, in this order: flags, the environment (SWITCHBOARD_HTTP_LISTEN,
SWITCHBOARD_STORE_URL, ...), switchboard.toml, config/dev.toml (settings of the bus only), defaults.
'switchboard init' writes a switchboard.toml with every setting.
Ctrl-C stops the hub; everything it acknowledged is on disk.

Examples:
  switchboard up
  switchboard up --bus off
  switchboard up --http 127.0.0.1:8080 --data-dir /var/lib/switchboard
  switchboard up --http 0.0.0.0:7373 --auth hmac --tls-self-signed --host hub.example
  switchboard up --store postgres://switchboard@db.local/swarm?sslmode=verify-full")]
pub struct Args {
    /// Listen address for HTTP [default: 127.0.0.1:7373]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// Listen address for workers and operators of the bus, or "off" [default: 127.0.0.1:8731]
    #[arg(long, value_name = "ADDR|off")]
    pub bus: Option<String>,
    /// Listen address for SquidRun's WebSocket clients, or "off" [default: 127.0.0.1:9900]
    #[arg(long, value_name = "ADDR|off")]
    pub broker: Option<String>,
    /// Location of the ledger: sqlite:FILE or postgres://USER@HOST/DATABASE [default: switchboard.db in the data directory]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Project directory [default: the enclosing git repository's main worktree, else the current directory]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Configuration file [default: switchboard.toml in the project, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Authentication mode
    #[arg(long, value_name = "HOW")]
    pub auth: Option<Auth>,
    /// Certificate chain (PEM) to serve TLS with
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Name that agents and browsers call this hub by, such as hub.example; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = host)]
    pub host: Vec<String>,
    /// Serve TLS with a self-signed certificate for --host, created at first use; prints its fingerprint
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key"])]
    pub tls_self_signed: bool,
    /// Allow other machines to connect without authentication or TLS, at your own risk
    #[arg(long)]
    pub insecure_bind: bool,
    /// Serve a ledger that 'switchboard migrate' moved elsewhere; later changes at the new place are not copied back
    #[arg(long)]
    pub abandon_move: bool,
    /// Trust the clock of this machine (with PostgreSQL: of the database), however long no hub served the ledger
    #[arg(long)]
    pub clock_is_right: bool,
    /// Log format [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log: Option<LogFormat>,
}

/// How agents prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// Trust everyone on this machine
    None,
    /// Agents sign requests, people use tokens
    Hmac,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people
    Text,
    /// JSON for programs, one object per line
    Json,
}

impl Args {
    /// What the flags say, as settings. Paths are meant from where the command was typed.
    fn overrides(&self, data_dir: Option<&PathBuf>, here: &Path) -> Overrides {
        let path = |path: &PathBuf| here.join(path).display().to_string();
        let yes = |flag: bool| flag.then(|| "true".to_owned());
        let auth = self.auth.map(|auth| match auth {
            Auth::None => "none".to_owned(),
            Auth::Hmac => "hmac".to_owned(),
        });
        let log = self.log.map(|log| match log {
            LogFormat::Text => "text".to_owned(),
            LogFormat::Json => "json".to_owned(),
        });
        let settings = [
            ("http.listen", self.http.clone()),
            ("bus.listen", self.bus.clone()),
            ("broker.listen", self.broker.clone()),
            (
                "http.allowed_hosts",
                (!self.host.is_empty()).then(|| self.host.join(",")),
            ),
            ("http.tls_cert", self.tls_cert.as_ref().map(path)),
            ("http.tls_key", self.tls_key.as_ref().map(path)),
            ("http.tls_self_signed", yes(self.tls_self_signed)),
            ("http.insecure_bind", yes(self.insecure_bind)),
            (
                "store.url",
                self.store.as_deref().map(|url| store_url(url, here)),
            ),
            ("data_dir", data_dir.map(path)),
            ("auth.mode", auth),
            ("log.format", log),
        ];
        let settings = settings
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        Overrides {
            project: self.project.as_ref().map(|project| here.join(project)),
            settings,
        }
    }
}

/// A relative file in the URL is meant from `here`.
pub fn store_url(url: &str, here: &Path) -> String {
    match url.split_once(':') {
        Some((scheme @ ("sqlite" | "file"), file)) => {
            let file = file.strip_prefix("//").unwrap_or(file);
            format!("{scheme}:{}", here.join(file).display())
        }
        _ => url.to_owned(),
    }
}

/// A name or a number, without scheme and port.
fn host(text: &str) -> Result<String, &'static str> {
    let is_address = text.parse::<IpAddr>().is_ok();
    let is_odd = |c: char| !c.is_ascii_alphanumeric() && !"-._".contains(c);
    match !is_address && (text.is_empty() || text.contains(is_odd)) {
        true => Err("expected a host name or address alone, such as hub.example"),
        false => Ok(text.to_owned()),
    }
}

pub fn run(args: Args, data_dir: Option<&PathBuf>) -> Result<(), Failure> {
    let here = env::current_dir().map_err(|error| {
        Failure::Failed(format!("the current directory cannot be read: {error}"))
    })?;
    let file = args.config.as_ref().map(|file| here.join(file));
    let mut loaded = project::load(&here, file.as_deref(), args.overrides(data_dir, &here))
        .map_err(|error| Failure::Failed(error.to_string()))?;
    if !loaded.config.project.is_dir() {
        return Err(Failure::Failed(format!(
            "there is no such directory: {}; the project must exist",
            loaded.config.project.display()
        )));
    }
    loaded.config.abandon_move = args.abandon_move;
    loaded.config.clock_is_right = args.clock_is_right;
    log(&loaded.config)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let mut command = env::args().next().unwrap_or_default();
    let state = &loaded.config.data_dir;
    if !discover::finds(&loaded.config.project, state) {
        let option = format!("--data-dir '{}'", state.display());
        tracing::info!("commands find this hub with {option}");
        command = format!("{command} {option}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("the async runtime cannot start: {error}")))?;
    runtime
        .block_on(switchboard_hub::serve(loaded.config, &command))
        .map_err(|error| Failure::Failed(chain(&error)))
}

/// The log goes to stderr, so that a pipe never gets it by accident.
fn log(config: &Config) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&config.log.filter).map_err(|error| {
        Failure::Failed(format!(
            "log.filter '{}' is not a valid log filter: {error}; try 'info'",
            config.log.filter
        ))
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    let set = match config.log.format {
        switchboard_hub::config::LogFormat::Text => {
            let is_terminal = io::stderr().is_terminal();
            let lines = Lines {
                is_terminal,
                is_coloured: is_terminal && env::var_os("NO_COLOR").is_none(),
            };
            builder.event_format(lines).try_init()
        }
        switchboard_hub::config::LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    set.expect("nobody set up logging before");
    Ok(())
}

/// The error with everything that led to it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(&format!(": {said}"));
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Up {
        #[command(flatten)]
        args: Args,
        #[arg(long)]
        data_dir: Option<PathBuf>,
    }

    fn overrides(line: &str) -> Overrides {
        let words = std::iter::once("up").chain(line.split_whitespace());
        let Up { args, data_dir } = Up::parse_from(words);
        args.overrides(data_dir.as_ref(), Path::new("/here"))
    }

    #[test]
    fn flags_become_settings_and_their_paths_are_meant_from_here() {
        let given = overrides(
            "--http 127.0.0.1:1 --bus off --data-dir d --store sqlite:x.db --auth hmac --host a.example --host 10.0.0.5 --tls-cert c.pem --tls-key /k.pem --log json --project p",
        );
        assert_eq!(given.project.as_deref(), Some(Path::new("/here/p")));
        let expected = [
            ("http.listen", "127.0.0.1:1"),
            ("bus.listen", "off"),
            ("http.allowed_hosts", "a.example,10.0.0.5"),
            ("http.tls_cert", "/here/c.pem"),
            ("http.tls_key", "/k.pem"),
            ("store.url", "sqlite:/here/x.db"),
            ("data_dir", "/here/d"),
            ("auth.mode", "hmac"),
            ("log.format", "json"),
        ];
        assert_eq!(
            given.settings,
            expected.map(|(key, value)| (key, value.to_owned()))
        );
        assert_eq!(overrides(""), Overrides::default());
    }

    #[test]
    fn a_host_is_a_name_or_a_number_alone() {
        for fine in ["hub", "hub.example", "my_hub-2", "10.0.0.5", "::1"] {
            assert!(host(fine).is_ok(), "{fine}");
        }
        for odd in ["", "https://hub", "hub:7373", "a,b", "*.example", "[::1]"] {
            assert!(host(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn what_is_no_file_url_is_left_to_the_hub_to_judge() {
        let here = Path::new("/here");
        assert_eq!(store_url("sqlite:///abs.db", here), "sqlite:/abs.db");
        assert_eq!(store_url("file:a.db", here), "file:/here/a.db");
        assert_eq!(store_url("postgres://x", here), "postgres://x");
    }
}
