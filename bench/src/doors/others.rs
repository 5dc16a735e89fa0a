//! How much of the machine other programs took during a run: what they took, the run did not have.

use std::time::{Duration, Instant};

use crate::cpu;
use crate::hub_process::Hub;

/// A reading at the start of a run.
pub struct Others<'a> {
    hub: Option<&'a Hub>,
    began_at: Instant,
    before: Duration,
}

impl<'a> Others<'a> {
    /// Without a hub, only the bench itself is at work.
    pub fn begin(hub: Option<&'a Hub>) -> anyhow::Result<Self> {
        Ok(Self {
            hub,
            before: read(hub)?,
            began_at: Instant::now(),
        })
    }

    /// In percent of one core.
    pub fn percent(&self) -> anyhow::Result<f64> {
        let took = self.began_at.elapsed().as_secs_f64();
        let used = read(self.hub)?.saturating_sub(self.before);
        Ok(used.as_secs_f64() / took * 100.0)
    }
}

/// What the machine did for others until now.
fn read(hub: Option<&Hub>) -> anyhow::Result<Duration> {
    let ours = match hub {
        Some(hub) => hub.cpu_time()?,
        None => Duration::ZERO,
    } + cpu::of_this_program()?;
    let machine = cpu::Machine::read().map_or(Duration::ZERO, |machine| machine.busy);
    Ok(machine.saturating_sub(ours))
}
