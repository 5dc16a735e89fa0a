//! Fills a hub with waiting tasks, a thousand a request.

use std::time::Instant;

use anyhow::ensure;

use crate::connection::Connection;
use crate::http::Requests;
use crate::hub_process::Hub;
use crate::scripts::write_task;

const TASKS_PER_REQUEST: u64 = 1000;
const CONNECTIONS: u64 = 4;

/// Which skill the waiting tasks need.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Skill {
    /// The one that every agent of the bench has.
    Matching,
    /// Many that no agent has: so many different ones, in turn.
    Distinct { kinds: u64 },
}

/// Creates tasks with the numbers from `from` up to `until`; returns how many a second.
pub fn fill(hub: &Hub, skill: Skill, from: u64, until: u64) -> anyhow::Result<f64> {
    let started_at = Instant::now();
    let share = until.saturating_sub(from).div_ceil(CONNECTIONS);
    std::thread::scope(|scope| {
        let shares = (0..CONNECTIONS).map(|number| {
            let begin = until.min(from + number * share);
            scope.spawn(move || fill_share(hub, skill, begin, until.min(begin + share)))
        });
        let shares: Vec<_> = shares.collect();
        let mut filled = shares.into_iter().map(|share| share.join());
        filled.try_for_each(|share| share.expect("a filling thread does not panic"))
    })?;
    Ok(until.saturating_sub(from) as f64 / started_at.elapsed().as_secs_f64())
}

fn fill_share(hub: &Hub, skill: Skill, mut next: u64, end: u64) -> anyhow::Result<()> {
    let mut connection = Connection::open(hub.server)?;
    let requests = Requests::new(hub.server);
    while next < end {
        let until = end.min(next + TASKS_PER_REQUEST);
        let mut body = br#"{"tasks":["#.to_vec();
        for number in next..until {
            match skill {
                Skill::Matching => write_task(&mut body, number, format_args!("rust")),
                Skill::Distinct { kinds } => {
                    write_task(&mut body, number, format_args!("skill-{}", number % kinds));
                }
            }
            body.push(b',');
        }
        body.pop();
        body.extend_from_slice(b"]}");
        let mut request = Vec::new();
        requests.post(&mut request, format_args!("/api/v1/tasks"), &body);
        let (status, answer) = connection.exchange(&request)?;
        let answer = String::from_utf8_lossy(&answer);
        ensure!(
            status == 201,
            "the hub refused new tasks: {status} {answer}"
        );
        next = until;
    }
    Ok(())
}
