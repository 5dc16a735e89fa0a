//! From a heartbeat to its operator's screen.
//!
//! Every heartbeat carries the moment at which it was sent; the operator is a thread of the same process, so both look at one clock.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use switchboard_wire::agentbus::codec::{Line, Lines};

use super::crowd::Crowd;
use super::descriptors;
use super::frames::{Manner, operator_hello, stamp_of};
use super::link::Link;
use super::scale::Pace;
use crate::cpu::Meter;
use crate::ground::Ground;
use crate::histogram::Histogram;
use crate::report::{BusReport, ScreenRow};

const READ_BYTES: usize = 64 * 1024;
/// What the hub sends in one line.
const LINE_BYTES_MAX: usize = 1024 * 1024;
/// How often an operator that hears nothing looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The last heartbeats are waited for so long.
const LINGER: Duration = Duration::from_millis(500);
/// Beating that is not counted.
const WARM_UP_FOR: Duration = Duration::from_secs(1);
/// A message's type stands within the first bytes of its line.
const TYPE_WITHIN: usize = 128;

/// Measures every pace on a fresh hub.
pub fn measure(ground: &Ground<'_>, report: &mut BusReport) -> anyhow::Result<()> {
    for &pace in &ground.scale().screen_paces {
        report.screen.push(measure_pace(ground, pace)?);
    }
    Ok(())
}

fn measure_pace(ground: &Ground<'_>, pace: Pace) -> anyhow::Result<ScreenRow> {
    let workers = ground.scale().screen_workers;
    let every_s = pace.every.as_secs_f64();
    crate::progress(format_args!(
        "bus: an operator sees {workers} workers that beat every {every_s} s"
    ));
    descriptors::make_room(workers)?;
    let place = ground.new_hub()?;
    let epoch = Instant::now();
    let mut crowd = Crowd::connect(place.bus, Manner::Reports, workers, epoch)?;
    let operator = Link::enter(place.bus, &operator_hello("operator"))?;
    let watch = Watch {
        epoch,
        counts_from: AtomicU64::new(u64::MAX),
        over: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch.look(operator));
        crowd.beat_for(pace.every, WARM_UP_FOR.min(pace.every));
        let meter = Meter::begin(vec![place.hub.pid()], None);
        let from = epoch.elapsed().as_nanos() as u64;
        watch.counts_from.store(from, Ordering::Relaxed);
        let sent = crowd.beat_for(pace.every, pace.lasts_for);
        let cpu = meter.and_then(Meter::end);
        std::thread::sleep(LINGER);
        watch.over.store(true, Ordering::Relaxed);
        let seen = watching.join().expect("the operator does not panic")?;
        ensure!(
            crowd.lost == 0,
            "{} workers lost their connections: {}",
            crowd.lost,
            crowd.errors_told.join("; ")
        );
        let arrived = seen.total();
        ensure!(arrived > 0, "no heartbeat of {sent} came to the operator");
        Ok(ScreenRow {
            workers,
            every_s,
            sent,
            arrived,
            p50_ms: seen.p50_ms(),
            p99_ms: seen.p99_ms(),
            longest_ms: seen.longest_ms(),
            cpu: cpu?,
        })
    })
}

/// What the operator's thread is told.
struct Watch {
    epoch: Instant,
    /// Heartbeats that were sent before do not count.
    counts_from: AtomicU64,
    over: AtomicBool,
}

impl Watch {
    /// Reads until it is over.
    fn look(&self, operator: Link) -> anyhow::Result<Histogram> {
        let (stream, first) = operator.into_parts();
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        let mut lines = Lines::new(LINE_BYTES_MAX);
        let mut seen = Histogram::default();
        self.note(&mut lines, &first, &mut seen)?;
        let mut buffer = vec![0; READ_BYTES];
        while !self.over.load(Ordering::Relaxed) {
            let count = read_some(&stream, &mut buffer)?;
            self.note(&mut lines, &buffer[..count], &mut seen)?;
        }
        Ok(seen)
    }

    fn note(&self, lines: &mut Lines, arrived: &[u8], seen: &mut Histogram) -> anyhow::Result<()> {
        let mut feed = lines.feed(arrived);
        while let Some(line) = feed.next() {
            let Line::Whole(line) = line else {
                bail!("the hub sent a line of more than {LINE_BYTES_MAX} bytes");
            };
            let head = &line[..line.len().min(TYPE_WITHIN)];
            if memmem::find(head, br#""heartbeat.v1""#).is_some() {
                let stamp = stamp_of(line).context("a heartbeat came without its stamp")?;
                if stamp >= self.counts_from.load(Ordering::Relaxed) {
                    let waited = self.epoch.elapsed();
                    let waited = waited.saturating_sub(Duration::from_nanos(stamp));
                    seen.record(waited);
                }
            }
        }
        Ok(())
    }
}

/// Nothing, if nothing comes for a while.
fn read_some(mut stream: &TcpStream, buffer: &mut [u8]) -> anyhow::Result<usize> {
    match stream.read(buffer) {
        Ok(0) => bail!("the hub closed the operator's connection"),
        Ok(count) => Ok(count),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(0),
        Err(error) => Err(error).context("the operator cannot read"),
    }
}
