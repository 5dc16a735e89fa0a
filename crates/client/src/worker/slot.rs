//! One agent of a worker: registered, alive, claiming and reporting until it is to end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::jetpack::{
    ClaimFilter, ClaimRequest, CompleteRequest, FailRequest, Machine, NewAgent, RegisterRequest,
    RegisterResponse, ReleaseTaskRequest, Task,
};
use tokio::time::{Instant, sleep_until, timeout};
use ulid::Ulid;

use super::attempt::{self, Outcome};
use super::desk::Desk;
use super::outbox::{Body, Outbox, Report};
use super::report::{Delivered, deliver};
use super::{Shop, Step, What, WorkerError, pulse};
use crate::Error;
use crate::bus::{Backoff, BackoffPolicy};

/// How long a claim waits for a task, in seconds.
const CLAIM_WAIT: u32 = 30;
/// jetpack CLAIM: a task that could not be begun is left to others for so long.
const LEAVE_ALONE_FOR: Duration = Duration::from_secs(30);
/// No two claims without a task come closer.
const CLAIMS_APART: Duration = Duration::from_secs(1);
/// Saying goodbye takes no longer.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Serves one slot until the worker is to stop.
pub(super) async fn serve(
    shop: Arc<Shop>,
    number: usize,
    outbox: Outbox,
) -> Result<(), WorkerError> {
    let desk = Arc::new(Desk::new(outbox.agent(), number));
    // Only for what a dead process left is its id gone on with.
    let resumed = register(&shop, &desk.agent, !outbox.is_empty()).await?;
    shop.say(What::Ready, &desk.agent, None, "ready").await;
    let beating = Background(tokio::spawn(pulse::beat(
        Arc::clone(&shop),
        Arc::clone(&desk),
    )));
    let slot = Slot { shop, desk, outbox };
    slot.catch_up(&resumed).await;
    let ended = slot.work().await;
    drop(beating);
    slot.leave().await;
    ended
}

/// REGISTER; also of an agent that the hub has forgotten.
pub(super) async fn register(
    shop: &Shop,
    agent: &str,
    resume: bool,
) -> Result<RegisterResponse, Error> {
    let config = &shop.config;
    let hostname = hostname();
    let request = RegisterRequest {
        agent: NewAgent {
            id: agent.to_owned(),
            name: agent.to_owned(),
            kind: config.kind,
            capabilities: config.capabilities.clone(),
            machine: Some(Machine {
                id: hostname.clone(),
                hostname,
                pid: std::process::id(),
            }),
        },
        resume: resume.then_some(true),
    };
    shop.client.agents().register(&request).await
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.ok().or_else(|| std::env::var("HOSTNAME").ok());
    let name = name
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "localhost".to_owned())
}

/// Ends with whoever started it.
pub(super) struct Background(pub tokio::task::JoinHandle<()>);

impl Drop for Background {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Slot {
    shop: Arc<Shop>,
    desk: Arc<Desk>,
    outbox: Outbox,
}

impl Slot {
    /// Sends what a dead process left, and gives back what it had begun.
    async fn catch_up(&self, resumed: &RegisterResponse) {
        let (reports, odd) = match self.outbox.pending() {
            Ok(pending) => pending,
            Err(error) => {
                self.say(
                    What::Trouble,
                    None,
                    format!("reports cannot be read: {error}"),
                )
                .await;
                return;
            }
        };
        for file in odd {
            let text = format!("{} is no report and was put aside", file.display());
            self.say(What::Trouble, None, text).await;
        }
        let mut begun: HashMap<&str, u64> = HashMap::new();
        begun.extend(
            resumed
                .tasks
                .iter()
                .map(|task| (task.task_id.as_str(), task.epoch)),
        );
        for report in reports {
            let report = match begun.remove(report.task.as_str()) {
                Some(epoch) => report.with_epoch(epoch),
                None => report,
            };
            self.send(&report).await;
        }
        for (task, epoch) in begun {
            let request = ReleaseTaskRequest {
                agent_id: Some(self.desk.agent.clone()),
                epoch: Some(epoch),
                reason: Some("the worker was restarted".to_owned()),
            };
            // If it cannot be given back now, the hub finds out that nobody works on it.
            let _ = self.shop.client.tasks().release(task, &request).await;
        }
    }

    async fn work(&self) -> Result<(), WorkerError> {
        let mut left_alone: HashMap<String, Instant> = HashMap::new();
        while !self.is_leaving() {
            if self.shop.is_spent(0.0) {
                self.say(What::Step, None, "what may be spent is spent".to_owned())
                    .await;
                return Ok(());
            }
            self.rest().await;
            left_alone.retain(|_, until| *until > Instant::now());
            let Some(task) = self.claim(&left_alone).await else {
                continue;
            };
            let ended = self.attempt(&task).await;
            if matches!(ended, Ended::Back) {
                left_alone.insert(task.id.clone(), Instant::now() + LEAVE_ALONE_FOR);
            }
            if self.shop.config.once {
                return match ended {
                    Ended::Done => Ok(()),
                    Ended::Back => Err(once(&task, "was given back")),
                    Ended::Failed(how) => Err(once(&task, &how)),
                };
            }
        }
        Ok(())
    }

    async fn attempt(&self, task: &Task) -> Ended {
        self.say(What::Claimed, Some(task.number), task.title.clone())
            .await;
        let halt = self.desk.take(task);
        let outcome = match self.rest_left() {
            // Another slot met it while this one waited for a task.
            Some(_) => Outcome::GiveBack("the program's usage limit is reached".to_owned()),
            None => attempt::work(&self.shop, &self.desk, task, halt).await,
        };
        let (ended, body) = self.body(task, outcome).await;
        let ended = match body {
            Some(body) => {
                let report = Report {
                    key: Ulid::generate().to_string(),
                    task: task.id.clone(),
                    number: task.number,
                    body,
                };
                if let Err(error) = self.outbox.put(&report) {
                    // It is sent all the same, and lost only if this process is.
                    self.say(
                        What::Trouble,
                        Some(task.number),
                        format!("the report cannot be kept: {error}"),
                    )
                    .await;
                }
                self.send(&report).await.unwrap_or(ended)
            }
            None => ended,
        };
        self.desk.put_down();
        ended
    }

    /// What is to be reported; nothing if nobody wants it any more.
    async fn body(&self, task: &Task, outcome: Outcome) -> (Ended, Option<Body>) {
        let agent = self.desk.agent.clone();
        let epoch = Some(task.epoch);
        match outcome {
            Outcome::Done(done) => {
                let done = *done;
                let request = CompleteRequest {
                    agent_id: agent,
                    task_id: None,
                    result: done.result,
                    quality_metrics: done.metrics,
                    epoch,
                    evidence: done.evidence,
                };
                (Ended::Done, Some(Body::Complete(Box::new(request))))
            }
            Outcome::Failed(failure) => {
                let ended = Ended::Failed(format!("failed: {}", failure.message));
                let request = FailRequest {
                    agent_id: agent,
                    task_id: None,
                    failure,
                    epoch,
                };
                (ended, Some(Body::Fail(Box::new(request))))
            }
            Outcome::GiveBack(why) => {
                let request = ReleaseTaskRequest {
                    agent_id: Some(agent),
                    epoch,
                    reason: Some(why),
                };
                (Ended::Back, Some(Body::Release(request)))
            }
            Outcome::Lost(why) => {
                self.say(What::Lost, Some(task.number), format!("taken away: {why}"))
                    .await;
                (Ended::Failed(format!("was taken away: {why}")), None)
            }
        }
    }

    /// Sends a report; how the attempt ended, if that made a difference.
    async fn send(&self, report: &Report) -> Option<Ended> {
        let number = Some(report.number);
        match deliver(&self.shop, &self.desk, &self.outbox, report).await {
            Delivered::Counted(how) => {
                let what = match report.body {
                    Body::Complete(_) => What::Done,
                    Body::Fail(_) => What::Failed,
                    Body::Release(_) => What::GivenBack,
                };
                self.say(what, number, how).await;
                None
            }
            Delivered::Refused(why) => {
                self.say(What::Lost, number, format!("the report was refused: {why}"))
                    .await;
                Some(Ended::Failed(format!("the report was refused: {why}")))
            }
            Delivered::Waiting => {
                let text = "the report waits for the next start of a worker here".to_owned();
                self.say(What::Trouble, number, text).await;
                None
            }
        }
    }

    /// One claim, repeated under its key until it is answered.
    async fn claim(&self, left_alone: &HashMap<String, Instant>) -> Option<Task> {
        let request = claim_request(&self.desk.agent, left_alone);
        let client = self
            .shop
            .client
            .with_idempotency_key(Ulid::generate().to_string());
        let mut backoff = Backoff::random(BackoffPolicy::default());
        loop {
            let began = Instant::now();
            let answer = tokio::select! {
                biased;
                () = self.leaving() => return None,
                answer = client.tasks().claim(&request) => answer,
            };
            let error = match answer {
                Ok(answer) => {
                    if answer.task.is_none() {
                        self.pause_until(began + CLAIMS_APART).await;
                    }
                    return answer.task;
                }
                Err(error) => error,
            };
            match Step::after(&error) {
                Step::RegisterAnew => {
                    // If that fails too, the next claim says why.
                    let _ = register(&self.shop, &self.desk.agent, false).await;
                }
                Step::WaitAndRetry | Step::ClaimAnother | Step::LogAndContinue => {}
            }
            self.say(What::Trouble, None, format!("cannot claim: {error}"))
                .await;
            self.pause_until(Instant::now() + backoff.draw()).await;
            if Step::after(&error) == Step::LogAndContinue || self.is_leaving() {
                return None;
            }
        }
    }

    /// Waits for the end of the programs' usage limit.
    async fn rest(&self) {
        while let Some(left) = self.rest_left().filter(|_| !self.is_leaving()) {
            let text = format!("rests for {} s: usage limit", left.as_secs());
            self.say(What::Step, None, text).await;
            self.pause_until(Instant::now() + left).await;
        }
    }

    fn rest_left(&self) -> Option<Duration> {
        self.shop.rest.lock().left(Instant::now())
    }

    async fn pause_until(&self, until: Instant) {
        tokio::select! {
            () = sleep_until(until) => {}
            () = self.leaving() => {}
        }
    }

    fn is_leaving(&self) -> bool {
        self.shop.is_stopping() || *self.desk.leave.borrow()
    }

    async fn leaving(&self) {
        let mut leave = self.desk.leave.subscribe();
        let ordered = async {
            // The desk is ours, so it is there.
            let _ = leave.wait_for(|leave| *leave).await;
        };
        tokio::select! {
            () = self.shop.stopping() => {}
            () = ordered => {}
        }
    }

    /// Deregisters, which gives back whatever it still holds, unless a report waits that needs its id.
    async fn leave(self) {
        if !self.outbox.is_empty() {
            return;
        }
        let gone = self.shop.client.agents();
        // Who cannot be reached finds out by itself.
        let _ = timeout(LEAVE_WITHIN, gone.remove(&self.desk.agent)).await;
        self.outbox.discard();
    }

    async fn say(&self, what: What, task: Option<u64>, text: String) {
        self.shop.say(what, &self.desk.agent, task, text).await;
    }
}

/// jetpack CLAIM: who finds nothing waits for 30 seconds, here in the hub's long poll.
fn claim_request(agent: &str, left_alone: &HashMap<String, Instant>) -> ClaimRequest {
    ClaimRequest {
        agent_id: agent.to_owned(),
        wait: Some(CLAIM_WAIT),
        filter: (!left_alone.is_empty()).then(|| ClaimFilter {
            exclude_ids: left_alone.keys().cloned().collect(),
            ..ClaimFilter::default()
        }),
        task_id: None,
    }
}

enum Ended {
    Done,
    Back,
    Failed(String),
}

fn once(task: &Task, how: &str) -> WorkerError {
    WorkerError::Once {
        number: task.number,
        how: how.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_waits_thirty_seconds_and_leaves_alone_what_could_not_be_begun() {
        // jetpack.claim.retry_wait
        let request = claim_request("a", &HashMap::new());
        assert_eq!((request.wait, request.filter), (Some(30), None));
        let until = Instant::now() + LEAVE_ALONE_FOR;
        let left_alone = HashMap::from([("t".to_owned(), until)]);
        let filter = claim_request("a", &left_alone)
            .filter
            .expect("there is one");
        assert_eq!(filter.exclude_ids, ["t"]);
        assert_eq!(LEAVE_ALONE_FOR, Duration::from_secs(30));
    }
}
