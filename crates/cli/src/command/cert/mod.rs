//! `switchboard cert …`: the private authority behind mutual TLS on the bus. One file per command.
//!
//! They work on the files of the data directory, whether a hub runs or not; one that runs notices within a second.

mod init;
mod issue;
mod list;
mod revoke;
mod rotate;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, value_parser};
use serde::Serialize;
use switchboard_core::Timestamp;
use switchboard_hub::bus::authority::{AuthorityError, Card, Issued, Name, Record, Role, Serial};
use switchboard_wire::IsoTime;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, Tone, cell, clean, paint};
use crate::show::{now, relative};

pub const EXAMPLES: &str = "\
With security = \"mTLS\" the bus accepts only clients with a certificate of this authority, and only under the id in it.

Examples:
  switchboard cert init                       create the authority, once
  switchboard cert issue worker-3             a key and a certificate for a worker
  switchboard cert list                       who has one, and until when
  switchboard cert revoke worker-3            lock it out, within a second";

/// Commands about certificates.
#[derive(Debug, Subcommand)]
pub enum Command {
    Init(init::Args),
    Issue(issue::Args),
    Rotate(rotate::Args),
    Revoke(revoke::Args),
    List(list::Args),
}

impl Command {
    pub fn run(self, context: &mut Context) -> Result<(), Failure> {
        match self {
            Command::Init(args) => init::run(&args, context),
            Command::Issue(args) => issue::run(&args, context),
            Command::Rotate(args) => rotate::run(&args, context),
            Command::Revoke(args) => revoke::run(&args, context),
            Command::List(args) => list::run(&args, context),
        }
    }
}

/// How long a certificate is good, and where it goes.
#[derive(Debug, ClapArgs)]
struct Making {
    /// Days until it expires [default: 90]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=DAYS_MAX))]
    days: Option<u32>,
    /// Where to write the files [default: bus/issued/ID in the data directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const DAYS_DEFAULT: u32 = 90;
/// As long as an authority lasts.
const DAYS_MAX: i64 = 3650;

impl Making {
    fn lasts(&self) -> Duration {
        Duration::from_secs(u64::from(self.days.unwrap_or(DAYS_DEFAULT)) * 24 * 3600)
    }

    fn out(&self, here: &Path) -> Option<PathBuf> {
        self.out.as_ref().map(|out| here.join(out))
    }
}

/// A listed certificate, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Certificate<'a> {
    serial: &'a str,
    name: &'a str,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    issued_at: IsoTime,
    not_after: IsoTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<IsoTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    authority: &'a str,
}

/// A certificate of the authority or the director, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Own<'a> {
    serial: &'a str,
    state: &'static str,
    not_after: IsoTime,
}

/// What was issued, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Given<'a> {
    success: bool,
    certificate: Certificate<'a>,
    files: Files<'a>,
    /// Other certificates of the same name that count.
    also_live: Vec<&'a str>,
    /// Certificates that this one replaced.
    revoked: Vec<&'a str>,
}

#[derive(Debug, Serialize)]
struct Files<'a> {
    certificate: &'a Path,
    key: &'a Path,
    authority: &'a Path,
}

impl<'a> From<&'a Record> for Certificate<'a> {
    fn from(record: &'a Record) -> Self {
        let revoked = record.revoked.as_ref();
        Certificate {
            serial: record.serial.as_str(),
            name: record.name.as_str(),
            role: record.role.as_str(),
            state: None,
            issued_at: IsoTime(record.issued_at.0),
            not_after: IsoTime(record.not_after.0),
            revoked_at: revoked.map(|revoked| IsoTime(revoked.at.0)),
            reason: revoked.and_then(|revoked| revoked.reason.as_deref()),
            authority: record.issuer.as_str(),
        }
    }
}

impl<'a> From<&'a Card> for Own<'a> {
    fn from(card: &'a Card) -> Self {
        Own {
            serial: card.serial.as_str(),
            state: card.state.as_str(),
            not_after: IsoTime(card.not_after.0),
        }
    }
}

/// Shows a certificate that was just made, with what is to be known about it.
fn show_issued(issued: &Issued, revoked: &[Serial], screen: &mut Screen) -> Result<(), Failure> {
    fn texts(serials: &[Serial]) -> Vec<&str> {
        serials.iter().map(Serial::as_str).collect()
    }
    if screen.json() {
        let still: &[Serial] = if revoked.is_empty() {
            &issued.also_live
        } else {
            &[]
        };
        let given = Given {
            success: true,
            certificate: Certificate::from(&issued.record),
            files: Files {
                certificate: &issued.cert,
                key: &issued.key,
                authority: &issued.ca,
            },
            also_live: texts(still),
            revoked: texts(revoked),
        };
        return Ok(screen.value(&given)?);
    }
    let record = &issued.record;
    let name = clean(record.name.as_str());
    screen.line(format_args!(
        "certificate {} for {} {name}, valid until {}",
        record.serial,
        record.role,
        until(record.not_after),
    ))?;
    screen.line("")?;
    let mut files = Table::facts();
    files.fact("  certificate", cell(issued.cert.display()));
    files.fact("  key", cell(issued.key.display()));
    files.fact("  authority", cell(issued.ca.display()));
    screen.table(&files)?;
    screen.line("")?;
    screen.line(format_args!(
        "Copy all three to {name} over a secure channel; the key is stored nowhere else."
    ))?;
    let mut warn = |text: String| screen.line(paint(text, Tone::Warn));
    if issued.cut_short {
        warn("It expires with the authority, earlier than requested; replace the authority with 'switchboard cert rotate --authority'.".to_owned())?;
    }
    if !revoked.is_empty() {
        warn(format!("Revoked: {}.", texts(revoked).join(", ")))?;
    } else if !issued.also_live.is_empty() {
        warn(format!(
            "{name} also has {}, still valid; once the new one is in use, revoke it with 'switchboard cert revoke SERIAL'.",
            texts(&issued.also_live).join(", ")
        ))?;
    }
    Ok(())
}

/// An id that one in this role may have.
fn named(id: &str, role: Role) -> Result<Name, Failure> {
    Name::for_role(id, role).map_err(|error| {
        Failure::Usage(format!(
            "'{}' is not a valid sender id: {error}",
            id.escape_debug()
        ))
    })
}

fn failed(error: AuthorityError) -> Failure {
    match error {
        AuthorityError::BadHost { .. }
        | AuthorityError::TooManyHosts { .. }
        | AuthorityError::BadReason { .. } => Failure::Usage(error.to_string()),
        AuthorityError::NotMade { .. }
        | AuthorityError::Missing { .. }
        | AuthorityError::Lost { .. }
        | AuthorityError::Unreadable { .. }
        | AuthorityError::Unwritable { .. }
        | AuthorityError::Busy { .. }
        | AuthorityError::NoKey { .. }
        | AuthorityError::Ended { .. }
        | AuthorityError::Unknown { .. }
        | AuthorityError::NoneLive { .. }
        | AuthorityError::Exists { .. }
        | AuthorityError::Full { .. }
        | AuthorityError::TooManyAuthorities { .. }
        | AuthorityError::Making { .. }
        | AuthorityError::Unfit { .. } => Failure::Failed(error.to_string()),
    }
}

/// The clock of this machine, for certificates.
fn today() -> Timestamp {
    Timestamp(now().0)
}

fn until(at: Timestamp) -> String {
    let at = IsoTime(at.0);
    format!("{at} ({})", relative(at, now()))
}
