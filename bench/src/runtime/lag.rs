//! From the sending of an event to its arrival at the other node's stream of events, at a steady pace.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::nodes::{EVENTS, Pair, agent, event};
use crate::connection::Connection;
use crate::ground::Ground;
use crate::histogram::Histogram;
use crate::http::Requests;
use crate::report::{RuntimeReport, WaitRow};

const PER_S: u64 = 1000;
/// Each sends its share of them, one after the other.
const SPEAKERS: u64 = 16;
const PREFIX: &str = "evt_lag_";

pub fn measure(ground: &Ground<'_>, report: &mut RuntimeReport) -> anyhow::Result<()> {
    crate::progress(format_args!("runtime: lag at {PER_S} events a second"));
    let pair = Pair::start(ground)?;
    let total = PER_S * ground.settings.idle_for.as_secs().max(1);
    let sent_at: Vec<OnceLock<Instant>> = (0..total).map(|_| OnceLock::new()).collect();
    let mut stream = Connection::open(pair.far.hub.server)?;
    let mut request = Vec::new();
    let path = format_args!("/api/v1/events?types=message_sent");
    Requests::new(pair.far.hub.server).stream(&mut request, path);
    stream.send(&request)?;
    stream.read_past(": still here\n\n")?;
    let began_at = Instant::now() + Duration::from_millis(50);
    let mut waited = Histogram::default();
    thread::scope(|scope| {
        let (pair, sent_at) = (&pair, &sent_at);
        for speaker in 0..SPEAKERS {
            scope.spawn(move || {
                if let Err(error) = speak(pair, speaker, began_at, sent_at) {
                    crate::progress(format_args!("a speaker stopped: {error:#}"));
                }
            });
        }
        let mut is_seen = vec![false; sent_at.len()];
        while waited.total() < total {
            let number = stream.read_number_past(PREFIX)?;
            let seen = &mut is_seen[number as usize];
            if !std::mem::replace(seen, true) {
                let sent_at = sent_at[number as usize].get();
                waited.record(sent_at.map_or(Duration::MAX, Instant::elapsed));
            }
        }
        anyhow::Ok(())
    })?;
    ensure!(waited.total() == total, "some did not arrive");
    let of = format!("event, {PER_S} a second, to the other node");
    report.lag = vec![WaitRow::new(&of, &waited)];
    Ok(())
}

fn speak(
    pair: &Pair,
    speaker: u64,
    began_at: Instant,
    sent_at: &[OnceLock<Instant>],
) -> anyhow::Result<()> {
    let server = pair.near.hub.server;
    let (requests, mut connection) = (Requests::new(server), Connection::open(server)?);
    for number in (speaker..sent_at.len() as u64).step_by(SPEAKERS as usize) {
        let due_at = began_at + Duration::from_secs(1) * number as u32 / PER_S as u32;
        thread::sleep(due_at.saturating_duration_since(Instant::now()));
        let mut body = event(&agent(number as usize), number);
        body["eventId"] = format!("{PREFIX}{number}").into();
        let mut request = Vec::new();
        let body = body.to_string();
        requests.post(&mut request, format_args!("{EVENTS}"), body.as_bytes());
        // Whoever is late is late for the event, too.
        let _ = sent_at[number as usize].set(due_at.min(Instant::now()));
        let (status, answer) = connection.exchange(&request)?;
        let said = String::from_utf8_lossy(&answer);
        ensure!(status == 201, "{status} {said}");
    }
    Ok(())
}
