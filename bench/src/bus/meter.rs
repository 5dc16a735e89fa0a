//! Who used the machine during a run: the server, the load generator, others.

use std::time::{Duration, Instant};

use super::rows::CpuSplit;
use crate::cpu;

/// A reading at the start of a run.
pub struct Meter {
    server: u32,
    began_at: Instant,
    before: Reading,
}

struct Reading {
    server: Duration,
    generator: Duration,
    machine: Duration,
}

impl Meter {
    /// The server is a process of its own, the generator is this one.
    pub fn begin(server: u32) -> anyhow::Result<Self> {
        Ok(Self {
            server,
            before: Reading::take(server)?,
            began_at: Instant::now(),
        })
    }

    pub fn end(self) -> anyhow::Result<CpuSplit> {
        let took = self.began_at.elapsed().as_secs_f64();
        let after = Reading::take(self.server)?;
        let percent = |of: fn(&Reading) -> Duration| {
            let used = of(&after).saturating_sub(of(&self.before));
            used.as_secs_f64() / took * 100.0
        };
        let (server, generator) = (percent(|at| at.server), percent(|at| at.generator));
        let machine = percent(|at| at.machine);
        Ok(CpuSplit {
            server,
            generator,
            others: (machine - server - generator).max(0.0),
        })
    }
}

impl Reading {
    fn take(server: u32) -> anyhow::Result<Self> {
        Ok(Self {
            server: cpu::of_process(server)?,
            generator: cpu::of_this_program()?,
            machine: cpu::Machine::read().map_or(Duration::ZERO, |machine| machine.busy),
        })
    }
}
