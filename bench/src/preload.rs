//! Fills a hub with waiting tasks, a thousand a request.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::http::{Answer, Requests};
use crate::hub_process::Hub;
use crate::load::{self, Ask, Plan, Script, Verdict};
use crate::scripts::write_task;

const TASKS_PER_REQUEST: u64 = 1000;
const CONNECTIONS: u64 = 4;
/// Tasks between two lines of progress.
const STEP: u64 = 250_000;
const STEP_WITHIN: Duration = Duration::from_secs(600);

/// Which skill the waiting tasks need.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Skill {
    /// The one that every agent of the bench has.
    Matching,
    /// One that no agent has, the same for all tasks.
    Foreign,
    /// Many that no agent has: so many different ones, in turn.
    Distinct { kinds: u64 },
}

/// Creates tasks with the numbers from `from` up to `until`; returns how many a second.
pub fn fill(hub: &Hub, skill: Skill, from: u64, until: u64) -> anyhow::Result<f64> {
    let started_at = Instant::now();
    let mut begin = from;
    while begin < until {
        let end = until.min(begin + STEP);
        fill_step(hub.server, skill, begin, end)?;
        begin = end;
        if until - from > STEP {
            crate::progress(format_args!("  {end} tasks stored"));
        }
    }
    Ok((until - from) as f64 / started_at.elapsed().as_secs_f64())
}

fn fill_step(server: SocketAddr, skill: Skill, begin: u64, end: u64) -> anyhow::Result<()> {
    let share = (end - begin).div_ceil(CONNECTIONS);
    let scripts: Vec<Fill> = (0..CONNECTIONS)
        .map(|number| Fill {
            requests: Requests::new(server),
            skill,
            next: end.min(begin + number * share),
            end: end.min(begin + (number + 1) * share),
            body: Vec::new(),
        })
        .collect();
    let plan = Plan {
        warm_up_for: Duration::ZERO,
        measure_for: STEP_WITHIN,
        threads: 1,
    };
    let outcome = load::run(plan, server, scripts)?;
    ensure!(
        outcome.errors == 0,
        "the hub refused {} batches of new tasks: {}",
        outcome.errors,
        outcome.errors_told.join("; ")
    );
    Ok(())
}

struct Fill {
    requests: Requests,
    skill: Skill,
    next: u64,
    end: u64,
    body: Vec<u8>,
}

impl Script for Fill {
    fn request(&mut self, out: &mut Vec<u8>) -> Ask {
        if self.next == self.end {
            return Ask::Finished;
        }
        let until = self.end.min(self.next + TASKS_PER_REQUEST);
        self.body.clear();
        self.body.extend_from_slice(br#"{"tasks":["#);
        for number in self.next..until {
            if number > self.next {
                self.body.push(b',');
            }
            match self.skill {
                Skill::Matching => write_task(&mut self.body, number, format_args!("rust")),
                Skill::Foreign => write_task(&mut self.body, number, format_args!("cobol")),
                Skill::Distinct { kinds } => {
                    let skill = number % kinds;
                    write_task(&mut self.body, number, format_args!("skill-{skill}"));
                }
            }
        }
        self.body.extend_from_slice(b"]}");
        self.next = until;
        let path = format_args!("/api/v1/tasks");
        self.requests.post(out, path, &self.body);
        Ask::Timed
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        match answer.status {
            201 => Verdict::Good { units: 1 },
            _ => Verdict::Failed,
        }
    }
}
