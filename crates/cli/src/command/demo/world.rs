//! What all agents of a demo share, and what they tell it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use switchboard_client::Client;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::plan::{Fate, Random};
use crate::failure::Failure;

/// Who holds a lease that two want waits at most so long for the other one to be refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(15);

pub struct World {
    pub client: Client,
    pub seed: u64,
    pub speed: f64,
    /// Agents that read messages; each writes to the next.
    pub ring: Vec<String>,
    /// Titles of tasks that are delegated, and that are published.
    pub delegated: Vec<String>,
    pub published: Vec<String>,
    /// By the number of the task; each comes true once.
    pub fates: Mutex<BTreeMap<u64, Fate>>,
    pub refused: watch::Sender<bool>,
    pub told: mpsc::Sender<Told>,
}

/// A task in an agent's hands.
#[derive(Debug, Clone)]
pub struct Held {
    pub id: String,
    pub number: u64,
    pub epoch: u64,
    pub files: Vec<String>,
}

/// What an agent saw itself, whatever the hub says.
#[derive(Debug)]
pub enum Told {
    /// The hub took its result of this task.
    Done(u64),
    /// It reported that it failed.
    Failed,
    /// Its result went to a person.
    Judged,
    /// It took this task and says nothing any more.
    Hangs { agent: String, number: u64 },
    /// It may not edit a file that another agent holds.
    Refused {
        agent: String,
        path: String,
        by: String,
    },
    /// It sent a message that wants to be acknowledged.
    Sent,
    /// It acknowledged one.
    Acknowledged,
}

impl World {
    pub async fn tell(&self, told: Told) {
        // Nobody listens any more: the demo is over.
        let _ = self.told.send(told).await;
    }

    /// What happens to this task; from now on nothing more does.
    pub fn fate(&self, number: u64) -> Option<Fate> {
        let mut fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner);
        fates.remove(&number)
    }

    /// Pretends to work.
    pub async fn work(&self, random: &mut Random) {
        let millis = 400 + random.below(1100);
        self.rest(Duration::from_millis(millis)).await;
    }

    /// So long, at the demo's speed.
    pub async fn rest(&self, time: Duration) {
        sleep(time.div_f64(self.speed)).await;
    }

    /// Until somebody was refused.
    pub async fn until_refused(&self) {
        let mut refused = self.refused.subscribe();
        let _ = timeout(REFUSED_WITHIN, refused.wait_for(|is_so| *is_so)).await;
    }

    /// Whom this agent writes to.
    pub fn next(&self, agent: &str) -> Option<&str> {
        let at = self.ring.iter().position(|one| one == agent)?;
        let next = &self.ring[(at + 1) % self.ring.len()];
        (next != agent).then_some(next)
    }
}

/// An agent could not go on.
pub fn stuck(agent: &str, why: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("the demo's agent {agent} cannot go on: {why}"))
}
