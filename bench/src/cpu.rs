//! CPU time as `/proc` tells it: of a process, of a server with its children, of the whole machine.

use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::report::CpuSplit;

/// `/proc` counts CPU time in this unit on every Linux.
const TICK: Duration = Duration::from_millis(10);
const SETTLE_LOOK_EVERY: Duration = Duration::from_millis(300);
const SETTLE_WITHIN: Duration = Duration::from_secs(20);

/// CPU time that a process used since it began.
pub fn of_process(pid: u32) -> anyhow::Result<Duration> {
    Ok(read_times(pid)?.own)
}

/// CPU time of a process and of its children, those that are gone included.
///
/// A server that forks a process for each connection, such as PostgreSQL, waits for each of them, and thereby inherits what it used.
pub fn of_family(pid: u32) -> anyhow::Result<Duration> {
    let parent = read_times(pid)?;
    let mut sum = parent.own + parent.gone_children;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have gone meanwhile.
        if let Ok(times) = read_times(child)
            && times.parent == pid
        {
            sum += times.own;
        }
    }
    Ok(sum)
}

/// CPU time of this program and of the programs that it started and that have ended.
pub fn of_this_program() -> anyhow::Result<Duration> {
    let times = read_times(std::process::id())?;
    Ok(times.own + times.gone_children)
}

/// Waits until a CPU time that somebody reads stands nearly still.
pub fn settle(read: impl Fn() -> anyhow::Result<Duration>) -> anyhow::Result<()> {
    let started_at = Instant::now();
    let mut before = read()?;
    while started_at.elapsed() < SETTLE_WITHIN {
        std::thread::sleep(SETTLE_LOOK_EVERY);
        let now = read()?;
        if now.saturating_sub(before) <= TICK {
            break;
        }
        before = now;
    }
    Ok(())
}

/// Readings at the start of a run.
pub struct Meter {
    hubs: Vec<u32>,
    postmaster: Option<u32>,
    began_at: Instant,
    before: [Duration; 4],
}

impl Meter {
    /// The servers are processes of their own, the generator is this one.
    pub fn begin(hubs: Vec<u32>, postmaster: Option<u32>) -> anyhow::Result<Self> {
        let mut meter = Self {
            hubs,
            postmaster,
            began_at: Instant::now(),
            before: Default::default(),
        };
        meter.before = meter.read()?;
        Ok(meter)
    }

    pub fn end(self) -> anyhow::Result<CpuSplit> {
        let took = self.began_at.elapsed().as_secs_f64();
        let after = self.read()?;
        let percent = |at: usize| {
            let used = after[at].saturating_sub(self.before[at]);
            used.as_secs_f64() / took * 100.0
        };
        let [hubs, postgres, generator, machine] = [0, 1, 2, 3].map(percent);
        Ok(CpuSplit {
            hubs,
            postgres,
            generator,
            others: (machine - hubs - postgres - generator).max(0.0),
        })
    }

    fn read(&self) -> anyhow::Result<[Duration; 4]> {
        let hubs = self.hubs.iter().map(|&hub| of_process(hub));
        Ok([
            hubs.sum::<anyhow::Result<Duration>>()?,
            self.postmaster
                .map(of_family)
                .transpose()?
                .unwrap_or_default(),
            of_this_program()?,
            Machine::read().map_or(Duration::ZERO, |machine| machine.busy),
        ])
    }
}

/// What all cores did since the machine started.
#[derive(Clone, Copy)]
pub struct Machine {
    pub all: Duration,
    pub busy: Duration,
}

impl Machine {
    pub fn read() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        parse_machine(stat.lines().next()?)
    }
}

fn parse_machine(line: &str) -> Option<Machine> {
    let ticks: Vec<u64> = line
        .strip_prefix("cpu ")?
        .split_ascii_whitespace()
        // User, nice, system, idle, waiting for the disk, interrupts, soft interrupts, stolen; guests are counted in user.
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    let all = ticks.iter().sum::<u64>();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(Machine {
        all: ticks_for(all),
        busy: ticks_for(all - idle),
    })
}

#[derive(Debug, PartialEq, Eq)]
struct Times {
    parent: u32,
    own: Duration,
    gone_children: Duration,
}

fn read_times(pid: u32) -> anyhow::Result<Times> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("cannot read the CPU time of process {pid}"))?;
    parse_times(&stat)
        .with_context(|| format!("the CPU time of process {pid} is not where it should be"))
}

fn parse_times(stat: &str) -> Option<Times> {
    // The program's name is in parentheses and may contain blanks. Behind it the parent is the 2nd word; user and system time are
    // the 12th and 13th, and the two after them those of children that were waited for.
    let (_, words) = stat.rsplit_once(')')?;
    let mut words = words.split_ascii_whitespace().skip(1);
    let parent = words.next()?.parse().ok()?;
    let mut times = words.skip(9).map_while(|word| word.parse::<u64>().ok());
    let mut next_two = || Some(ticks_for(times.next()? + times.next()?));
    Some(Times {
        parent,
        own: next_two()?,
        gone_children: next_two()?,
    })
}

fn ticks_for(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(TICK.as_millis() as u64))
}
