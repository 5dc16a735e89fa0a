//! What other nodes cost while nobody publishes: those that wait for events, and one that local agents work beside.

use std::io::Write as _;
use std::net::TcpStream;

use anyhow::ensure;
use serde_json::json;
use switchboard_wire::runtime::proof::{self, Signer};

use super::nodes::{Pair, call, invite};
use crate::doors::ground::{prepare, run_http, tasks_per_run};
use crate::ground::{Ground, Place};
use crate::hub_process::Hub;
use crate::idle::waits;
use crate::report::{BesideRow, RuntimeReport, SubscribersRow, median};

pub const SUBSCRIBERS: usize = 100;

pub fn measure(ground: &Ground<'_>, report: &mut RuntimeReport) -> anyhow::Result<()> {
    crate::progress(format_args!("runtime: {SUBSCRIBERS} nodes wait for events"));
    let place = ground.new_hub()?;
    let hub = &place.hub;
    let polls = (0..SUBSCRIBERS).map(|number| subscribe(hub, number));
    let polls: Vec<TcpStream> = polls.collect::<anyhow::Result<_>>()?;
    hub.settle()?;
    let idle_for = ground.settings.idle_for;
    let before = hub.cpu_time()?;
    std::thread::sleep(idle_for);
    let used = hub.cpu_time()?.saturating_sub(before);
    let still = polls.iter().filter(|poll| waits(poll)).count();
    ensure!(still == SUBSCRIBERS, "only {still} were still waiting");
    report.subscribers = Some(SubscribersRow {
        subscribers: SUBSCRIBERS,
        cpu_percent: used.as_secs_f64() / idle_for.as_secs_f64() * 100.0,
        resident_mb: hub.resident_mb()?,
    });
    Ok(())
}

/// Joins as a node that has no endpoint, and waits for what comes first.
fn subscribe(hub: &Hub, number: usize) -> anyhow::Result<TcpStream> {
    let (invite, node) = (invite(hub)?, format!("node-{number}"));
    let signer = Signer::from_hex(&format!("{number:064x}"));
    let signer = signer.expect("any 32 bytes are a key");
    let exchanged = call(
        hub,
        "/ansible/auth/exchange",
        &json!({
            "inviteToken": invite, "nodeId": node, "nonce": "n", "publicKey": signer.public_key(),
            "nodeProof": signer.sign(&proof::exchange(&invite, &node, "n")), "protocolVersion": "1.0",
        }),
    )?;
    let ticket = exchanged["ticket"].as_str().unwrap_or_default();
    let server = hub.server;
    let mut stream = TcpStream::connect(server)?;
    write!(
        stream,
        "GET /runtime/v1/outbox?after=0&wait=60 HTTP/1.1\r\nhost: {server}\r\nauthorization: Bearer {ticket}\r\n\r\n"
    )?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Claims and completions on a hub of its own, and on one that is joined with another that has nothing to say.
pub fn measure_claims(ground: &Ground<'_>, report: &mut RuntimeReport) -> anyhow::Result<()> {
    let (alone, pair) = (ground.new_hub()?, Pair::start(ground)?);
    let (mut pairs, mut beside) = (Vec::new(), Vec::new());
    // Ratios of a few percent want more than a few runs, in turn.
    let rounds = 3 * ground.settings.rounds;
    for round in 1..=rounds {
        crate::progress(format_args!(
            "runtime: claims beside a node, round {round} of {rounds}"
        ));
        let run = |place: &Place| {
            prepare(place, tasks_per_run(ground))?;
            let outcome = run_http(ground.settings, &place.hub, &format!("r{round}"))?;
            ensure!(outcome.errors == 0, "{:?}", outcome.errors_told);
            Ok(outcome.units_per_s())
        };
        pairs.push(run(&alone)?);
        beside.push(run(&pair.far)?);
    }
    let [pairs_per_s, beside_pairs_per_s] = [pairs, beside].map(|runs| median(runs.into_iter()));
    report.claims = Some(BesideRow {
        pairs_per_s,
        beside_pairs_per_s,
        ratio: beside_pairs_per_s / pairs_per_s,
    });
    Ok(())
}
