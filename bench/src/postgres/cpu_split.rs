//! Who used the machine during a run: the coordinators, PostgreSQL, the load generator, others.

use std::time::{Duration, Instant};

use super::ground::Ground;
use super::rows::CpuSplit;
use crate::cpu;
use crate::hub_process::Hub;

/// A reading at the start of a run.
pub struct Meter<'a> {
    ground: &'a Ground<'a>,
    hubs: &'a [Hub],
    began_at: Instant,
    before: Reading,
}

struct Reading {
    hubs: Duration,
    postgres: Duration,
    generator: Duration,
    machine: Duration,
}

impl<'a> Meter<'a> {
    pub fn begin(ground: &'a Ground<'a>, hubs: &'a [Hub]) -> anyhow::Result<Self> {
        Ok(Self {
            ground,
            hubs,
            before: Reading::take(ground, hubs)?,
            began_at: Instant::now(),
        })
    }

    pub fn end(self) -> anyhow::Result<CpuSplit> {
        let took = self.began_at.elapsed().as_secs_f64();
        let after = Reading::take(self.ground, self.hubs)?;
        let percent = |of: fn(&Reading) -> Duration| {
            let used = of(&after).saturating_sub(of(&self.before));
            used.as_secs_f64() / took * 100.0
        };
        let (hubs, postgres) = (percent(|at| at.hubs), percent(|at| at.postgres));
        let generator = percent(|at| at.generator);
        let machine = percent(|at| at.machine);
        Ok(CpuSplit {
            hubs,
            postgres,
            generator,
            others: (machine - hubs - postgres - generator).max(0.0),
        })
    }
}

impl Reading {
    fn take(ground: &Ground<'_>, hubs: &[Hub]) -> anyhow::Result<Self> {
        let hubs = hubs.iter().map(Hub::cpu_time);
        Ok(Self {
            hubs: hubs.sum::<anyhow::Result<Duration>>()?,
            postgres: ground.postgres_cpu_time()?,
            generator: cpu::of_this_program()?,
            machine: cpu::Machine::read().map_or(Duration::ZERO, |machine| machine.busy),
        })
    }
}
