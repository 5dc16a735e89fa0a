//! CPU time as `/proc` tells it: of a process, of a server with its children, of the whole machine.

use std::time::{Duration, Instant};

use anyhow::Context as _;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_found_behind_an_awkward_program_name() {
        let stat = "17 (a) b c) S 9 17 17 0 -1 4194560 500 0 0 0 30 12 5 2 20 0 3 0";
        let wanted = Times {
            parent: 9,
            own: Duration::from_millis(420),
            gone_children: Duration::from_millis(70),
        };
        assert_eq!(parse_times(stat), Some(wanted));
    }

    #[test]
    fn a_child_counts_while_it_runs_and_after_it_is_gone() {
        let me = std::process::id();
        let before = of_family(me).expect("we are running");
        let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let mut child = std::process::Command::new("sh")
            .args(["-c", &format!("{burn}; echo; read _; {burn}")])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh is there");
        let mut line = [0];
        let said = child.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(said, &mut line).expect("it says that it is half through");
        let half = of_process(child.id()).expect("it is running");
        let during = of_family(me).expect("we are running");
        assert!(half > Duration::ZERO && during - before >= half);
        drop(child.stdin.take());
        child.wait().expect("it ends");
        let after = of_family(me).expect("we are running");
        assert!(after - before > half, "{before:?} {half:?} {after:?}");
    }

    #[test]
    fn waiting_for_the_disk_is_not_busy() {
        let machine = parse_machine("cpu  10 0 5 100 20 1 2 3 7 0").expect("well-formed");
        assert_eq!(machine.all, Duration::from_millis(1410));
        assert_eq!(machine.busy, Duration::from_millis(210));
    }
}
