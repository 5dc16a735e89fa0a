//! Tasks through the bus: created over HTTP, assigned, accepted and finished by workers that do nothing else.
//!
//! Each worker has a connection to the bus and one to HTTP: whenever it has finished a task it creates one, for whoever is next. So
//! there are always as many tasks as workers, and a worker that is given one has its last one behind it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep_until, timeout_at};

use super::ground::{Ground, Place};
use super::hand::Hand;
use super::meter::Meter;
use super::rows::{BusReport, CpuSplit, CycleRow};
use crate::histogram::Histogram;
use crate::http::{self, Requests};
use crate::load::{Plan, Window};
use crate::report::median;
use crate::scripts::write_task;

/// A run that does not come to its end this long after it should have is given up.
const GRACE: Duration = Duration::from_secs(20);

/// Measures some rounds, each on a fresh hub.
pub fn measure(ground: &Ground<'_>, report: &mut BusReport) -> anyhow::Result<()> {
    let workers = ground.scale().connections;
    let mut rounds = Vec::new();
    for round in 1..=ground.settings.rounds {
        crate::progress(format_args!(
            "bus: tasks through {workers} workers, round {round} of {}",
            ground.settings.rounds
        ));
        let place = ground.new_hub()?;
        let plan = ground.settings.plan(ground.settings.hub_for);
        rounds.push(measure_round(&place, workers, plan)?);
    }
    let of = |figure: fn(&CycleRow) -> f64| median(rounds.iter().map(figure));
    report.cycles = Some(CycleRow {
        workers,
        tasks_per_s: of(|row| row.tasks_per_s),
        p50_ms: of(|row| row.p50_ms),
        p99_ms: of(|row| row.p99_ms),
        cpu: CpuSplit {
            server: of(|row| row.cpu.server),
            generator: of(|row| row.cpu.generator),
            others: of(|row| row.cpu.others),
        },
    });
    Ok(())
}

fn measure_round(place: &Place, workers: usize, plan: Plan) -> anyhow::Result<CycleRow> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the load generator's event loop")?;
    LocalSet::new().block_on(&runtime, async {
        let mut crew = Vec::new();
        for number in 0..workers {
            crew.push((
                Hand::enter(place.bus, number)?,
                Creator::open(place.hub.server, number).await?,
            ));
        }
        place.hub.settle()?;
        let meter = Meter::begin(place.hub.pid())?;
        let window = Window::starting_now(plan);
        let rounds = Rc::new(RefCell::new(Histogram::default()));
        let mut running = JoinSet::new();
        for (hand, creator) in crew {
            running.spawn_local(drive(hand, creator, window, Rc::clone(&rounds)));
        }
        let all_done = async {
            while let Some(done) = running.join_next().await {
                done.context("a worker panicked")??;
            }
            anyhow::Ok(())
        };
        timeout_at((window.closes_at + GRACE).into(), all_done)
            .await
            .context("the run did not end in time")??;
        let rounds = rounds.borrow();
        ensure!(rounds.total() > 0, "no task went all the way round");
        Ok(CycleRow {
            workers,
            tasks_per_s: rounds.total() as f64 / plan.measure_for.as_secs_f64(),
            p50_ms: rounds.quantile_ms(0.5).unwrap_or(f64::NAN),
            p99_ms: rounds.quantile_ms(0.99).unwrap_or(f64::NAN),
            cpu: meter.end()?,
        })
    })
}

async fn drive(
    hand: Hand,
    creator: Creator,
    window: Window,
    rounds: Rc<RefCell<Histogram>>,
) -> anyhow::Result<()> {
    tokio::select! {
        ended = work(hand, creator, window, &rounds) => ended,
        () = sleep_until(window.closes_at.into()) => Ok(()),
    }
}

/// Goes on until somebody ends it.
async fn work(
    mut hand: Hand,
    mut creator: Creator,
    window: Window,
    rounds: &RefCell<Histogram>,
) -> anyhow::Result<()> {
    creator.create().await?;
    let mut task = hand.assigned().await?;
    let mut given_at = Instant::now();
    loop {
        hand.finish(&task).await?;
        creator.create().await?;
        task = hand.assigned().await?;
        let now = Instant::now();
        if window.counts(now) {
            rounds.borrow_mut().record(now - given_at);
        }
        given_at = now;
    }
}

/// A connection that creates tasks over HTTP.
struct Creator {
    stream: TcpStream,
    requests: Requests,
    arrived: Vec<u8>,
    number: u64,
}

impl Creator {
    async fn open(server: SocketAddr, number: usize) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            requests: Requests::new(server),
            arrived: Vec::new(),
            number: number as u64,
        })
    }

    async fn create(&mut self) -> anyhow::Result<()> {
        let (mut body, mut request) = (Vec::new(), Vec::new());
        write_task(&mut body, self.number, format_args!("rust"));
        let path = format_args!("/api/v1/tasks");
        self.requests.post(&mut request, path, &body);
        self.stream.write_all(&request).await?;
        loop {
            if let Some(answer) = http::cut(&self.arrived)? {
                let words = String::from_utf8_lossy(&answer.body);
                let status = answer.status;
                ensure!(status == 201, "no task was created: {status} {words}");
                let used = answer.used;
                self.arrived.drain(..used);
                return Ok(());
            }
            let count = self.stream.read_buf(&mut self.arrived).await?;
            ensure!(count > 0, "the hub closed the connection");
        }
    }
}
