//! The highest rate of heartbeats that lasts, beside bare servers on the same codec.

use super::ground::Ground;
use super::lines::Bare;
use super::rows::{BusReport, CpuSplit, RateRow};
use super::stream::{self, Server};
use crate::echo::Echo;
use crate::report::median;

/// The hub's row.
pub const HUB: &str = "hub, heartbeats";

/// Measures some rounds, each on a fresh hub and with the echo right before and right after it.
pub fn measure(ground: &Ground<'_>, report: &mut BusReport) -> anyhow::Result<()> {
    let echo = Echo::start_as(&Bare::Echo.arguments())?;
    let decode = Echo::start_as(&Bare::Decode.arguments())?;
    let rounds = ground.settings.rounds;
    let mut samples = Vec::new();
    for round in 1..=rounds {
        crate::progress(format_args!(
            "bus: heartbeats as fast as they go, round {round} of {rounds}"
        ));
        samples.push(Round::measure(ground, &echo, &decode)?);
    }
    let ratio = |of: fn(&Round) -> &Sample, to: fn(&Round) -> &Sample| {
        median(samples.iter().map(|s| of(s).per_s / to(s).per_s))
    };
    let row = |server: &str, of: fn(&Round) -> &Sample| {
        let middle = |figure: fn(&Sample) -> f64| median(samples.iter().map(|s| figure(of(s))));
        RateRow {
            server: server.to_owned(),
            connections: ground.scale().connections,
            lines_per_s: middle(|sample| sample.per_s),
            to_echo: Some(ratio(of, |round| &round.echo)),
            to_decode: Some(ratio(of, |round| &round.decode)),
            cpu: CpuSplit {
                server: middle(|sample| sample.cpu.server),
                generator: middle(|sample| sample.cpu.generator),
                others: middle(|sample| sample.cpu.others),
            },
        }
    };
    report.rates = vec![
        row(Bare::Echo.name(), |round| &round.echo),
        row(Bare::Decode.name(), |round| &round.decode),
        row(HUB, |round| &round.hub),
    ];
    Ok(())
}

struct Round {
    /// The mean of before and after.
    echo: Sample,
    decode: Sample,
    hub: Sample,
}

#[derive(Clone, Copy)]
struct Sample {
    per_s: f64,
    cpu: CpuSplit,
}

impl Round {
    fn measure(ground: &Ground<'_>, echo: &Echo, decode: &Echo) -> anyhow::Result<Self> {
        let settings = ground.settings;
        let run = |server: Server, pid: u32, plan| {
            let streamed = stream::run(server, pid, ground.scale().connections, plan)?;
            anyhow::Ok(Sample {
                per_s: streamed.per_second(),
                cpu: streamed.cpu,
            })
        };
        let bare = |server: &Echo, bare| {
            let plan = settings.plan(settings.echo_for);
            run(Server::Bare(server.server, bare), server.pid(), plan)
        };
        let place = ground.new_hub()?;
        let decoded = bare(decode, Bare::Decode)?;
        let before = bare(echo, Bare::Echo)?;
        place.hub.settle()?;
        let plan = settings.plan(settings.hub_for);
        let hub = run(Server::Hub(place.bus), place.hub.pid(), plan)?;
        place.hub.settle()?;
        let after = bare(echo, Bare::Echo)?;
        Ok(Self {
            echo: before.mean(after),
            decode: decoded,
            hub,
        })
    }
}

impl Sample {
    fn mean(self, other: Self) -> Self {
        let mean = |of: fn(&Self) -> f64| (of(&self) + of(&other)) / 2.0;
        Self {
            per_s: mean(|sample| sample.per_s),
            cpu: CpuSplit {
                server: mean(|sample| sample.cpu.server),
                generator: mean(|sample| sample.cpu.generator),
                others: mean(|sample| sample.cpu.others),
            },
        }
    }
}
