//! `switchboard up`: runs the hub until it is told to stop.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::context::Options;
use crate::failure::Failure;

/// Start the hub for this project and keep it running
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The hub keeps its state in .switchboard/ of the project and listens on 127.0.0.1:7373.
A flag beats its environment variable, which beats switchboard.toml, which beats the default.
Ctrl-C stops it; whatever it has answered is on disk.

Examples:
  switchboard up
  switchboard up --http 127.0.0.1:8080 --data-dir /var/lib/switchboard
  switchboard up --http 0.0.0.0:7373 --auth hmac --tls-self-signed")]
pub struct Args {
    /// Where to listen [default: 127.0.0.1:7373]
    #[arg(long, value_name = "ADDR", env = "SWITCHBOARD_HTTP")]
    pub http: Option<String>,
    /// Where the ledger is: sqlite:FILE [default: switchboard.db in the data directory]
    #[arg(long, value_name = "URL", env = "SWITCHBOARD_STORE")]
    pub store: Option<String>,
    /// Where the hub keeps its state [default: .switchboard in the project]
    #[arg(long, value_name = "DIR", env = "SWITCHBOARD_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The project the hub is for [default: the main worktree around here, else here]
    #[arg(long, value_name = "DIR", env = "SWITCHBOARD_PROJECT")]
    pub project: Option<PathBuf>,
    /// The configuration file [default: switchboard.toml in the project, if there is one]
    #[arg(long, value_name = "FILE", env = "SWITCHBOARD_CONFIG")]
    pub config: Option<PathBuf>,
    /// How agents prove who they are
    #[arg(long, value_name = "HOW", env = "SWITCHBOARD_AUTH")]
    pub auth: Option<Auth>,
    /// Certificate chain (PEM) to serve TLS with
    #[arg(
        long,
        value_name = "FILE",
        env = "SWITCHBOARD_TLS_CERT",
        requires = "tls_key"
    )]
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(
        long,
        value_name = "FILE",
        env = "SWITCHBOARD_TLS_KEY",
        requires = "tls_cert"
    )]
    pub tls_key: Option<PathBuf>,
    /// Serve TLS with a certificate made for the occasion
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key"])]
    pub tls_self_signed: bool,
    /// Listen beyond this machine without authentication or TLS, at your own risk
    #[arg(long)]
    pub insecure_bind: bool,
    /// How log lines look
    #[arg(
        long,
        value_name = "FORMAT",
        env = "SWITCHBOARD_LOG_FORMAT",
        default_value = "text"
    )]
    pub log: LogFormat,
}

/// How agents prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// Everybody on this machine is trusted
    None,
    /// Agents sign, people show tokens
    Hmac,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// For programs, one object per line
    Json,
}

pub fn run(_: Box<Args>, _: &Options) -> Result<(), Failure> {
    Ok(())
}
