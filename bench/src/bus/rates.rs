//! The highest rate of heartbeats that lasts, beside a bare echo on the same codec.

use super::lines;
use super::stream::{self, Server, Streamed};
use crate::echo::Echo;
use crate::ground::Ground;
use crate::report::{BusReport, RateRow, middle};

/// The hub's row.
pub const HUB: &str = "hub, heartbeats";
const ECHO: &str = "bare echo of every line";

/// Measures some rounds, each on a fresh hub and with the echo right before and right after it.
pub fn measure(ground: &Ground<'_>, report: &mut BusReport) -> anyhow::Result<()> {
    let echo = Echo::start_as(&[lines::ARGUMENT])?;
    let settings = ground.settings;
    let connections = ground.scale().connections;
    let (mut echoes, mut hubs) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        crate::progress(format_args!(
            "bus: heartbeats as fast as they go, round {round} of {}",
            settings.rounds
        ));
        let bare = || {
            let plan = settings.plan(settings.echo_for);
            stream::run(Server::Echo(echo.server), echo.pid(), connections, plan)
        };
        let place = ground.new_hub()?;
        let before = bare()?;
        place.hub.settle()?;
        let plan = settings.plan(settings.hub_for);
        let hub = stream::run(Server::Hub(place.bus), place.hub.pid(), connections, plan)?;
        place.hub.settle()?;
        let echo_per_s = (before.per_second() + bare()?.per_second()) / 2.0;
        let row = |server: &str, lines_per_s: f64, run: &Streamed| RateRow {
            server: server.to_owned(),
            connections,
            lines_per_s,
            to_echo: Some(lines_per_s / echo_per_s),
            cpu: run.cpu.clone(),
        };
        echoes.push(row(ECHO, echo_per_s, &before));
        hubs.push(row(HUB, hub.per_second(), &hub));
    }
    report.rates = vec![middle(&echoes), middle(&hubs)];
    Ok(())
}
