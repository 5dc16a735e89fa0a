//! Calls that wait: for a task that fits, for a message to come.
//!
//! Whoever waits registers before it looks, so that nothing is missed in between. Once it waits it is not sent away
//! because the ledger is: it looks again until its time is over.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use switchboard_core::Received;
use switchboard_core::verb::{Claim, Claimed, Nothing, Receive};
use tokio::time::Instant;

use super::job::Last;
use super::{Guard, Outcome};
use crate::hub::{Error, Hub};
use crate::wakeups::{ClaimWaiter, Describe, Errand, StillReady, Wakeups};

/// After a look that failed, the next one comes after this and up to half as much again: not all at once.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(400);

/// When somebody who waits looks again after a failure.
pub(crate) fn look_again_at() -> Instant {
    let spread = RandomState::new().hash_one(0_u8) % 200;
    Instant::now() + LOOK_AGAIN_AFTER + Duration::from_millis(spread)
}

impl Hub {
    /// CLAIM, waiting for something that fits.
    pub async fn claim(
        &self,
        claim: Claim,
        guard: Guard,
        render: fn(&Claimed) -> Vec<u8>,
        wait: Duration,
    ) -> Result<Outcome<Claimed>, Error> {
        let deadline = Instant::now() + wait;
        let is_task = |claimed: &Claimed| matches!(claimed, Claimed::Task(_));
        if wait.is_zero() || claim.task.is_some() {
            return self.call(claim, guard, render).await;
        }
        // Registered before it looks, so that a task that comes in between still wakes it.
        let Some(waiter) = self.waiter(&claim).await? else {
            return self.call(claim, guard, render).await;
        };
        let mut waits = false;
        loop {
            // Taken up before it looks: from here on the next task rings again.
            let errand = waiter.errand();
            // An empty answer is not remembered while it waits: only the last one is what the caller hears.
            let over = Instant::now() >= deadline;
            let last = Last {
                verb: claim.clone(),
                keep_empty: over,
                is_something: is_task,
            };
            let sleep_until = match self.call(last, guard.clone(), render).await {
                Ok(Outcome::Fresh(Claimed::None(nothing), _)) if !over => {
                    let passed_on = self.pass_on(errand, deadline).await?;
                    let turn = self.turn_after_others(&waiter, &nothing);
                    passed_on.min(turn.unwrap_or(passed_on))
                }
                Ok(outcome) => {
                    if let Outcome::Fresh(Claimed::Task(task), _) = &outcome {
                        // A more urgent one may have come first: then what it was woken for is passed on.
                        let took = errand.filter(|errand| errand.lane().matches(task));
                        took.into_iter().for_each(Errand::settle);
                    }
                    return Ok(outcome);
                }
                Err(error) if waits && !over && error.may_pass() => {
                    // What it was woken for goes to the next one, who may have more luck.
                    drop(errand);
                    look_again_at().min(deadline)
                }
                Err(error) => return Err(error),
            };
            waits = true;
            let _ = tokio::time::timeout_at(sleep_until, waiter.woken()).await;
        }
    }

    async fn waiter(&self, claim: &Claim) -> Result<Option<ClaimWaiter>, Error> {
        let agent = self
            .run(Describe {
                agent: claim.agent.clone(),
            })
            .await?;
        Ok(agent.map(|agent| Wakeups::wait_for_task(&self.shared, agent, claim.filter.clone())))
    }

    /// When a waiter may have what others come first with. It is woken earlier if none of them is idle any more.
    pub(crate) fn turn_after_others(
        &self,
        waiter: &ClaimWaiter,
        nothing: &Nothing,
    ) -> Option<Instant> {
        let until = nothing.others_first_until?;
        waiter.lets_others_go_first();
        Some(self.instant_of(until))
    }

    /// Lets the next waiter try, unless nothing is left of what this one was woken for. Tells how long to sleep.
    pub(crate) async fn pass_on(
        &self,
        errand: Option<Errand>,
        deadline: Instant,
    ) -> Result<Instant, Error> {
        let Some(errand) = errand else {
            return Ok(deadline);
        };
        let lane = errand.lane().clone();
        match self.run(StillReady { lane }).await {
            Ok(still_ready) => {
                if !still_ready {
                    errand.settle();
                }
                Ok(deadline)
            }
            Err(Error::Unavailable(_) | Error::InDoubt(_) | Error::Overloaded) => {
                Ok(look_again_at().min(deadline))
            }
            Err(error) => Err(error),
        }
    }

    /// RECEIVE_MESSAGES, waiting for one to come.
    pub async fn receive(
        &self,
        receive: Receive,
        guard: Guard,
        render: fn(&Vec<Received>) -> Vec<u8>,
        wait: Duration,
    ) -> Result<Outcome<Vec<Received>>, Error> {
        let deadline = Instant::now() + wait;
        let has_some = |messages: &Vec<Received>| !messages.is_empty();
        let mut waits = false;
        loop {
            let waiter = self.shared.wakeups().wait_for_message(&receive.agent);
            let over = Instant::now() >= deadline;
            let last = Last {
                verb: receive.clone(),
                keep_empty: over,
                is_something: has_some,
            };
            let sleep_until = match self.call(last, guard.clone(), render).await {
                Ok(Outcome::Fresh(messages, _)) if messages.is_empty() && !over => deadline,
                Ok(outcome) => return Ok(outcome),
                Err(error) if waits && !over && error.may_pass() => look_again_at().min(deadline),
                Err(error) => return Err(error),
            };
            waits = true;
            let _ = tokio::time::timeout_at(sleep_until, waiter.rung()).await;
        }
    }
}
