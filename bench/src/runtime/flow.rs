//! Events a second from one node to the other, beside a bare copy.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::bare;
use super::nodes::{Pair, Publish, taken_in};
use crate::connection::Connection;
use crate::cpu::Meter;
use crate::echo::Echo;
use crate::ground::Ground;
use crate::http::Requests;
use crate::load::{self, Plan};
use crate::report::{FlowRow, RuntimeReport, middle};

pub const HUBS: &str = "published on one hub, taken in by another";
const BARE: &str = "bare copy, a durable commit on each side";
pub const CONNECTIONS: usize = 64;

pub fn measure(ground: &Ground<'_>, report: &mut RuntimeReport) -> anyhow::Result<()> {
    let settings = ground.settings;
    let mut rows = [Vec::new(), Vec::new()];
    for round in 1..=settings.rounds {
        crate::progress(format_args!(
            "runtime: from node to node, round {round} of {}",
            settings.rounds
        ));
        let plan = settings.plan(settings.hub_for);
        let home = settings.new_home()?;
        let home = home.path().to_str().context("the path is no text")?;
        let server = Echo::start_as(&[bare::ARGUMENT, home])?;
        let mut connection = Connection::open(server.server)?;
        let mut request = Vec::new();
        Requests::new(server.server).get(&mut request, format_args!("{}", bare::TAKEN));
        let taken = move || {
            let (_, count) = connection.exchange(&request)?;
            Ok(std::str::from_utf8(&count)?.parse()?)
        };
        let bare = run(BARE, plan, server.server, taken, vec![server.pid()])?;
        drop(server);

        let pair = Pair::start(ground)?;
        let (near, far) = (&pair.near.hub, &pair.far.hub);
        near.settle()?;
        let pids = vec![near.pid(), far.pid()];
        let hubs = run(HUBS, plan, near.server, || taken_in(far), pids)?;
        let ratio = |one: &FlowRow| one.taken_in_per_s / bare.taken_in_per_s;
        for (rows, one) in rows.iter_mut().zip([&bare, &hubs]) {
            rows.push(FlowRow {
                to_bare: ratio(one),
                ..one.clone()
            });
        }
    }
    report.flow = rows.iter().map(|rows| middle(rows)).collect();
    Ok(())
}

fn run(
    of: &str,
    plan: Plan,
    server: SocketAddr,
    mut taken: impl FnMut() -> anyhow::Result<u64>,
    pids: Vec<u32>,
) -> anyhow::Result<FlowRow> {
    thread::scope(|scope| {
        let scripts = Publish::scripts(server, CONNECTIONS, u64::MAX);
        let load = scope.spawn(move || load::run(plan, server, scripts));
        thread::sleep(plan.warm_up_for);
        let (meter, began_at) = (Meter::begin(pids, None)?, Instant::now());
        let before = taken()?;
        thread::sleep(plan.measure_for.saturating_sub(Duration::from_millis(20)));
        let after = taken()?;
        let (took, cpu) = (began_at.elapsed().as_secs_f64(), meter.end()?);
        let outcome = load.join().expect("the load's thread does not panic")?;
        Ok(FlowRow {
            of: of.to_owned(),
            connections: CONNECTIONS,
            published_per_s: outcome.units_per_s(),
            taken_in_per_s: (after - before) as f64 / took,
            to_bare: f64::NAN,
            cpu,
            errors: outcome.errors,
            errors_told: outcome.errors_told,
        })
    })
}
