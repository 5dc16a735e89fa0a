//! Many operations a request: each request completes the tasks that the one before it claimed, and claims as many again.

use std::net::SocketAddr;
use std::path::Path;

use crate::answers::{self, Held};
use crate::http::{Answer, Requests};
use crate::hub_process::Hub;
use crate::load::{self, Outcome, Script, Verdict};
use crate::preload::{self, Skill};
use crate::report::{BatchRow, middle};
use crate::scripts::{agent_name, write_completion};
use crate::settings::Settings;

/// Half of them claims, half of them completions.
pub const OPERATIONS_PER_REQUEST: usize = 128;
const CLAIMS: usize = OPERATIONS_PER_REQUEST / 2;
/// Tasks stored for a run, by its seconds; a hub that eats them sooner ends its run sooner.
const TASKS_PER_SECOND: f64 = 100_000.0;

/// Measures pairs a second at each number of connections.
pub fn measure(settings: &Settings, binary: &Path) -> anyhow::Result<Vec<BatchRow>> {
    let mut rows = Vec::new();
    for &connections in &settings.batch_connections {
        let mut samples = Vec::new();
        for round in 1..=settings.rounds {
            crate::progress(format_args!(
                "batches on {connections} connections, round {round} of {}",
                settings.rounds
            ));
            let outcome = measure_round(settings, binary, connections)?;
            samples.push(BatchRow::new(connections, OPERATIONS_PER_REQUEST, outcome));
        }
        rows.push(middle(&samples));
    }
    Ok(rows)
}

fn measure_round(
    settings: &Settings,
    binary: &Path,
    connections: usize,
) -> anyhow::Result<Outcome> {
    let home = settings.new_home()?;
    let hub = Hub::start(binary, home.path())?;
    for number in 0..connections {
        hub.register(&agent_name(number))?;
    }
    let lasts_for = settings.warm_up_for + settings.hub_for;
    let tasks = (lasts_for.as_secs_f64() * TASKS_PER_SECOND) as u64;
    preload::fill(&hub, Skill::Matching, 0, tasks)?;
    hub.settle()?;
    let scripts = (0..connections).map(|number| Batch::new(hub.server, agent_name(number)));
    let plan = settings.plan(settings.hub_for);
    load::run(plan, hub.server, scripts.collect())
}

struct Batch {
    requests: Requests,
    agent: String,
    claim: String,
    held: Vec<Held>,
    body: Vec<u8>,
}

impl Batch {
    fn new(server: SocketAddr, agent: String) -> Self {
        Self {
            requests: Requests::new(server),
            claim: format!(
                r#"{{"operation":"CLAIM","protocolVersion":"1.0","agentId":"{agent}"}}"#
            ),
            agent,
            held: Vec::new(),
            body: Vec::new(),
        }
    }
}

impl Script for Batch {
    fn request(&mut self, out: &mut Vec<u8>) {
        self.body.clear();
        self.body.extend_from_slice(br#"{"operations":["#);
        for task in &self.held {
            self.body.extend_from_slice(br#"{"operation":"COMPLETE","#);
            write_completion(&mut self.body, &self.agent, task);
            self.body.extend_from_slice(b"},");
        }
        for _ in 0..CLAIMS {
            self.body.extend_from_slice(self.claim.as_bytes());
            self.body.push(b',');
        }
        // The last comma gives way to the end of the list.
        self.body.pop();
        self.body.extend_from_slice(b"]}");
        let path = format_args!("/api/v1/batch");
        self.requests.post(out, path, &self.body);
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        let asked_for = self.held.len();
        let completed = answers::count_of(&answer.body, r#""nextAction""#);
        answers::claimed_tasks(&answer.body, &mut self.held);
        if answer.status != 200 || completed != asked_for as u64 {
            return Verdict::Failed;
        }
        if self.held.is_empty() {
            return Verdict::Exhausted;
        }
        Verdict::Good { units: completed }
    }
}
