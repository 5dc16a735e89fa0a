//! `switchboard cert list`: every certificate, and what it is worth.

use clap::Args as ClapArgs;
use comfy_table::Cell;
use serde::Serialize;
use switchboard_core::Timestamp;
use switchboard_hub::bus::authority::{Card, Overview, State};
use switchboard_wire::IsoTime;

use super::{Certificate, Own, failed, today};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, cell, toned};
use crate::show::{instant, now};

/// List certificates
#[derive(Debug, ClapArgs)]
#[command(
    visible_alias = "ls",
    after_help = "\
States: live; expiring (within two weeks); expired; revoked; orphaned (signed by an authority that is no longer trusted).

Examples:
  switchboard cert list
  switchboard cert list --json | jq -r '.certificates[] | select(.state == \"expiring\") | .name'"
)]
pub struct Args {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    success: bool,
    authorities: Vec<Own<'a>>,
    director: Own<'a>,
    director_names: &'a [String],
    certificates: Vec<Certificate<'a>>,
}

pub fn run(_: &Args, context: &mut Context) -> Result<(), Failure> {
    let data_dir = context.data_dir();
    let seen = Overview::read(&data_dir, today()).map_err(failed)?;
    let screen = &mut context.screen;
    if screen.json() {
        let certificates = seen.certificates.iter().map(|(record, state)| Certificate {
            state: Some(state.as_str()),
            ..Certificate::from(record)
        });
        return Ok(screen.value(&Report {
            success: true,
            authorities: seen.authorities.iter().map(Own::from).collect(),
            director: Own::from(&seen.director),
            director_names: &seen.hosts,
            certificates: certificates.collect(),
        })?);
    }
    let mut table = Table::new(["NAME", "ROLE", "STATE", "UNTIL", "SERIAL", "NOTE"], "");
    for (place, card) in seen.authorities.iter().enumerate() {
        let note = if place == 0 { "signs" } else { "still trusted" };
        table.row(own("-", "authority", card, note));
    }
    table.row(own("-", "director", &seen.director, &seen.hosts.join(", ")));
    for (record, state) in &seen.certificates {
        let reason = record.revoked.as_ref().and_then(|it| it.reason.as_deref());
        table.row([
            cell(&record.name),
            cell(record.role),
            worth(*state),
            end(record.not_after),
            cell(&record.serial),
            cell(reason.unwrap_or_default()),
        ]);
    }
    Ok(screen.table(&table)?)
}

fn own(name: &str, role: &str, card: &Card, note: &str) -> [Cell; 6] {
    [
        toned(name, Tone::Dim),
        cell(role),
        worth(card.state),
        end(card.not_after),
        cell(&card.serial),
        cell(note),
    ]
}

fn worth(state: State) -> Cell {
    let tone = match state {
        State::Live => Tone::Good,
        State::Expiring => Tone::Warn,
        State::Expired => Tone::Dim,
        State::Revoked | State::Orphaned => Tone::Bad,
    };
    toned(state.as_str(), tone)
}

fn end(at: Timestamp) -> Cell {
    instant(IsoTime(at.0), now())
}
