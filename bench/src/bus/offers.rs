//! From a task's creation over HTTP to its arrival at an idle worker of the bus.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

use super::ground::{Ground, Place};
use super::hand::Hand;
use super::link::WITHIN;
use super::rows::{BusReport, OfferRow};
use crate::connection::Connection;
use crate::doors::pause;
use crate::histogram::Histogram;
use crate::http::Requests;
use crate::scripts::write_task;

const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Times one task after the other, with one idle worker and with many.
pub fn measure(ground: &Ground<'_>, report: &mut BusReport) -> anyhow::Result<()> {
    for idle_workers in [1, ground.scale().connections] {
        crate::progress(format_args!(
            "bus: a task for one of {idle_workers} idle workers"
        ));
        let place = ground.new_hub()?;
        let waited = Hands::with(place.bus, idle_workers, |hands| {
            time_offers(&place, hands, ground.scale().offers)
        })?;
        report.offers.push(OfferRow {
            idle_workers,
            rounds: waited.total(),
            p50_ms: waited.quantile_ms(0.5).unwrap_or(f64::NAN),
            p99_ms: waited.quantile_ms(0.99).unwrap_or(f64::NAN),
            longest_ms: waited.longest_ms(),
        });
    }
    Ok(())
}

fn time_offers(place: &Place, hands: &Hands, rounds: u64) -> anyhow::Result<Histogram> {
    let requests = Requests::new(place.hub.server);
    let mut http = Connection::open(place.hub.server)?;
    let mut waited = Histogram::default();
    // The first one warms up.
    for round in 0..=rounds {
        pause(round);
        let (mut body, mut request) = (Vec::new(), Vec::new());
        write_task(&mut body, round, format_args!("rust"));
        requests.post(&mut request, format_args!("/api/v1/tasks"), &body);
        let sent_at = Instant::now();
        http.send(&request)?;
        let given = hands.next()?;
        let (status, answer) = http.receive()?;
        let answer = String::from_utf8_lossy(&answer);
        ensure!(status == 201, "no task was created: {status} {answer}");
        if round > 0 {
            waited.record(given.at.saturating_duration_since(sent_at));
        }
        await_completed(&mut http, &requests, &given.task)?;
    }
    Ok(waited)
}

/// Waits until the worker is done with it, so that it is idle again for the next one.
fn await_completed(http: &mut Connection, requests: &Requests, task: &str) -> anyhow::Result<()> {
    let mut request = Vec::new();
    requests.get(&mut request, format_args!("/api/v1/tasks/{task}"));
    let began_at = Instant::now();
    loop {
        let (status, answer) = http.exchange(&request)?;
        if status == 200 && memchr::memmem::find(&answer, br#""status":"completed""#).is_some() {
            return Ok(());
        }
        ensure!(
            began_at.elapsed() < WITHIN,
            "task {task} was not completed within {WITHIN:?}: {status} {}",
            String::from_utf8_lossy(&answer)
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Workers in a thread of their own, and what they are given.
struct Hands {
    given: mpsc::Receiver<anyhow::Result<Given>>,
}

/// A task in a worker's hands.
struct Given {
    at: Instant,
    task: String,
}

impl Hands {
    /// Runs something beside so many idle workers; they are gone afterwards.
    fn with<T>(
        bus: SocketAddr,
        count: usize,
        run: impl FnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (give, given) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let (ready, all_ready) = mpsc::channel();
        std::thread::scope(|scope| {
            let working = scope.spawn(move || work(bus, count, &give, &ready, stopped));
            // If they do not get ready, their own words tell why.
            let done = match all_ready.recv() {
                Ok(()) => Some(run(&Self { given })),
                Err(_) => None,
            };
            drop(stop);
            let worked = working.join().expect("the workers do not panic");
            worked.and_then(|()| done.context("the workers did not get ready")?)
        })
    }

    fn next(&self) -> anyhow::Result<Given> {
        let given = self.given.recv_timeout(WITHIN);
        given.context("no idle worker was given the task")?
    }
}

/// The workers' thread: ends when it is told to.
fn work(
    bus: SocketAddr,
    count: usize,
    give: &mpsc::Sender<anyhow::Result<Given>>,
    ready: &mpsc::Sender<()>,
    stopped: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the workers' event loop")?;
    LocalSet::new().block_on(&runtime, async {
        let mut working = JoinSet::new();
        for number in 0..count {
            working.spawn_local(take_all(Hand::enter(bus, number)?, give.clone()));
        }
        // Nobody listens any more only if the measurement is over.
        let _ = ready.send(());
        let _ = stopped.await;
        Ok(())
    })
}

async fn take_all(mut hand: Hand, give: mpsc::Sender<anyhow::Result<Given>>) {
    loop {
        let taken = take_one(&mut hand, &give).await;
        if let Err(error) = taken {
            let _ = give.send(Err(error.context("a worker gave up")));
            return;
        }
    }
}

async fn take_one(
    hand: &mut Hand,
    give: &mpsc::Sender<anyhow::Result<Given>>,
) -> anyhow::Result<()> {
    let task = hand.assigned().await?;
    let given = Given {
        at: Instant::now(),
        task: task.task_id.clone(),
    };
    let _ = give.send(Ok(given));
    hand.finish(&task).await
}
