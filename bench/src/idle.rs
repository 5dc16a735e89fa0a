//! What a hub costs that has nothing to do: alone, and with agents that wait for work without a word.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use anyhow::ensure;

use crate::http::Requests;
use crate::hub_process::Hub;
use crate::report::IdleRow;
use crate::scripts::agent_name;
use crate::settings::Settings;

/// Agents that wait.
pub const AGENTS: usize = 200;

/// Measures memory of a fresh hub, then CPU and memory while agents long-poll.
pub fn measure(settings: &Settings, binary: &Path) -> anyhow::Result<IdleRow> {
    let home = settings.new_home()?;
    let hub = Hub::start(binary, home.path())?;
    hub.settle()?;
    let fresh_mb = hub.resident_mb()?;
    let ready_after_s = hub.ready_after.as_secs_f64();
    crate::progress(format_args!("{AGENTS} agents wait for work"));
    let waiting = Waiting::on(&hub)?;
    hub.settle()?;
    let before = hub.cpu_time()?;
    std::thread::sleep(settings.idle_for);
    let used = hub.cpu_time()?.saturating_sub(before);
    waiting.ensure_nobody_was_answered()?;
    Ok(IdleRow {
        agents: AGENTS,
        cpu_percent: used.as_secs_f64() / settings.idle_for.as_secs_f64() * 100.0,
        fresh_mb,
        waiting_mb: hub.resident_mb()?,
        ready_after_s,
    })
}

/// Agents that asked a hub for work and hear nothing.
pub struct Waiting {
    polls: Vec<TcpStream>,
}

impl Waiting {
    /// Registers the agents and lets each ask.
    pub fn on(hub: &Hub) -> anyhow::Result<Self> {
        let polls = (0..AGENTS).map(|number| {
            let agent = agent_name(number);
            hub.register(&agent)?;
            long_poll(hub, &agent)
        });
        Ok(Self {
            polls: polls.collect::<anyhow::Result<_>>()?,
        })
    }

    pub fn ensure_nobody_was_answered(&self) -> anyhow::Result<()> {
        let still_waiting = self.polls.iter().filter(|poll| waits(poll)).count();
        ensure!(
            still_waiting == AGENTS,
            "only {still_waiting} of {AGENTS} agents were still waiting at the end; the hub ended the others' polls"
        );
        Ok(())
    }
}

/// Asks for a task on a connection of its own and leaves without waiting for the answer.
fn long_poll(hub: &Hub, agent: &str) -> anyhow::Result<TcpStream> {
    let body = format!(r#"{{"protocolVersion":"1.0","agentId":"{agent}","wait":60}}"#);
    let mut request = Vec::new();
    let path = format_args!("/api/v1/tasks/claim");
    Requests::new(hub.server).post(&mut request, path, body.as_bytes());
    let mut stream = TcpStream::connect(hub.server)?;
    stream.write_all(&request)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

pub fn waits(mut poll: &TcpStream) -> bool {
    let read = poll.read(&mut [0; 1]);
    matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}
