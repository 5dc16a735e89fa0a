//! The hub's operations one by one, each between two runs of the echo with as many connections.
//!
//! A machine's speed drifts within seconds. So every figure of the hub is divided by the mean of the echo just before and just
//! after it, and of several rounds the median is shown.

use std::net::SocketAddr;
use std::path::Path;

use crate::echo::{self, Echo};
use crate::hub_process::Hub;
use crate::load::{self, Outcome};
use crate::preload::{self, Skill};
use crate::report::{OperationRow, middle};
use crate::scripts::{ClaimComplete, Create, Keys, Prepared, agent_name};
use crate::settings::Settings;

/// What is measured, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Create,
    ClaimComplete,
    ClaimCompleteKeyed,
    Heartbeat,
    SendReceive,
    AcquireRelease,
}

impl Operation {
    pub const ALL: [Self; 6] = [
        Self::Create,
        Self::ClaimComplete,
        Self::ClaimCompleteKeyed,
        Self::Heartbeat,
        Self::SendReceive,
        Self::AcquireRelease,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::ClaimComplete => "claim+complete",
            Self::ClaimCompleteKeyed => "claim+complete, keyed",
            Self::Heartbeat => "heartbeat",
            Self::SendReceive => "send+receive",
            Self::AcquireRelease => "acquire+release",
        }
    }
}

/// Measures every operation at every number of connections.
pub fn measure(settings: &Settings, binary: &Path) -> anyhow::Result<Vec<OperationRow>> {
    let echo = Echo::start()?;
    let mut rows = Vec::new();
    for &connections in &settings.connections {
        let mut rounds: Vec<Vec<OperationRow>> = Vec::new();
        for round in 1..=settings.rounds {
            crate::progress(format_args!(
                "operations at {connections} connections, round {round} of {}",
                settings.rounds
            ));
            rounds.push(measure_round(settings, binary, &echo, connections)?);
        }
        for index in 0..Operation::ALL.len() {
            let samples: Vec<OperationRow> =
                rounds.iter().map(|round| round[index].clone()).collect();
            rows.push(middle(&samples));
        }
    }
    Ok(rows)
}

fn measure_round(
    settings: &Settings,
    binary: &Path,
    echo: &Echo,
    connections: usize,
) -> anyhow::Result<Vec<OperationRow>> {
    let home = settings.new_home()?;
    let hub = Hub::start(binary, home.path())?;
    for number in 0..connections {
        hub.register(&agent_name(number))?;
    }
    let mut before = run_echo(settings, echo, connections)?;
    let mut samples = Vec::new();
    for operation in Operation::ALL {
        if needs_tasks(operation) {
            // The hub cannot be quicker than the echo, so these will do for the whole run.
            let lasts_for = settings.warm_up_for + settings.hub_for;
            let requests = before.requests_per_s() * lasts_for.as_secs_f64();
            let tasks = (requests * 0.6) as u64 + connections as u64;
            preload::fill(&hub, Skill::Matching, 0, tasks)?;
        }
        hub.settle()?;
        let outcome = run_operation(settings, &[hub.server], operation, connections)?;
        hub.settle()?;
        let after = run_echo(settings, echo, connections)?;
        let echo_requests_per_s = (before.requests_per_s() + after.requests_per_s()) / 2.0;
        let echo_p99_ms = (before.latency.p99_ms() + after.latency.p99_ms()) / 2.0;
        samples.push(OperationRow {
            operation: operation.name().to_owned(),
            connections,
            requests_per_s: outcome.requests_per_s(),
            p50_ms: outcome.latency.p50_ms(),
            p99_ms: outcome.latency.p99_ms(),
            echo_requests_per_s,
            echo_p99_ms,
            ratio: outcome.requests_per_s() / echo_requests_per_s,
            p99_ratio: outcome.latency.p99_ms() / echo_p99_ms,
            errors: outcome.errors,
            errors_told: outcome.errors_told,
        });
        before = after;
    }
    Ok(samples)
}

fn needs_tasks(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ClaimComplete | Operation::ClaimCompleteKeyed
    )
}

fn run_echo(settings: &Settings, echo: &Echo, connections: usize) -> anyhow::Result<Outcome> {
    let plan = settings.plan(settings.echo_for);
    let scripts = echo::scripts(echo.server, connections);
    load::run(plan, echo.server, scripts)
}

/// Runs one operation with its connections dealt out among some servers of the same ledger.
pub fn run_operation(
    settings: &Settings,
    servers: &[SocketAddr],
    operation: Operation,
    connections: usize,
) -> anyhow::Result<Outcome> {
    let plan = settings.plan(settings.hub_for);
    let pairs = |keys| {
        deal(servers, connections, move |server, number| {
            ClaimComplete::new(server, agent_name(number), keys)
        })
    };
    match operation {
        Operation::Create => {
            let creates = deal(servers, connections, |server, _| Create::new(server));
            load::run_spread(plan, creates)
        }
        Operation::ClaimComplete => load::run_spread(plan, pairs(Keys::None)),
        Operation::ClaimCompleteKeyed => load::run_spread(plan, pairs(Keys::EveryCall)),
        Operation::Heartbeat => {
            let beats = deal(servers, connections, |server, number| {
                Prepared::heartbeat(server, &agent_name(number))
            });
            load::run_spread(plan, beats)
        }
        Operation::SendReceive => {
            let talks = deal(servers, connections, |server, number| {
                let neighbour = agent_name((number + 1) % connections);
                Prepared::send_receive(server, &agent_name(number), &neighbour)
            });
            load::run_spread(plan, talks)
        }
        Operation::AcquireRelease => {
            let leases = deal(servers, connections, |server, number| {
                Prepared::acquire_release(server, &agent_name(number))
            });
            load::run_spread(plan, leases)
        }
    }
}

/// A script for each connection, the servers in turn.
fn deal<S>(
    servers: &[SocketAddr],
    connections: usize,
    script: impl Fn(SocketAddr, usize) -> S,
) -> Vec<(SocketAddr, S)> {
    let numbered = servers.iter().cycle().zip(0..connections);
    numbered
        .map(|(&server, number)| (server, script(server, number)))
        .collect()
}
