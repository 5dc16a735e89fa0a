//! Looks after what is due: silent agents, retries, leases, messages, old rows. Sleeps until the next instant.

use std::sync::atomic::Ordering;
use std::time::Duration;

use switchboard_core::outbox::Dispatch;
use switchboard_core::talk::Owed;
use switchboard_core::verb::job::PruneJobs;
use switchboard_core::verb::{
    Chase, ChaseOrders, CompactOutbox, EndCooldown, EndDeadlines, EndOverdue, EndPromises,
    EndReleases, EndSessions, EndStale, ExpireLeases, ExpireMessages, ForgetNode, GrantBudgets,
    MarkSilent, OpenReviews, Prune, PruneTasks, ReleaseRetries, Serve, Sweep, TellRequesters,
};
use switchboard_core::{Timestamp, Verb, limits};
use switchboard_wire::runtime::event_to_wire;
use tokio::time::{Instant, sleep_until};

use crate::hub::{Error, Hub};
use crate::stream;

const PRUNE_EVERY: Duration = Duration::from_secs(30);
/// How often it looks for claims that were left behind; they are told in minutes.
const STALE_EVERY: Duration = Duration::from_secs(30);
/// If the writer is too busy to say what is due, it is asked again after this.
const RETRY: Duration = Duration::from_millis(200);

pub(crate) async fn run(hub: Hub) {
    let mut serve_at = Instant::now() + limits::SERVED_EVERY;
    let mut prune_at = Instant::now() + PRUNE_EVERY;
    let mut stale_at = Instant::now() + STALE_EVERY;
    let mut pruner = Pruner::default();
    loop {
        // From here on every commit that brings something due earlier rings the bell.
        hub.shared.due.store(i64::MAX, Ordering::Relaxed);
        let caught_up = sweep(&hub).await;
        let due = match caught_up {
            Ok(records) => hub
                .next_due()
                .await
                .into_iter()
                .chain(records)
                .min()
                .map(|due| hub.instant_of(due)),
            Err(Error::Stopping) => return,
            Err(error) => {
                tracing::debug!(%error, "the caretaker will retry");
                Some(Instant::now() + RETRY)
            }
        };
        let due = due.unwrap_or(serve_at);
        rest(&hub, due.min(serve_at).min(prune_at).min(stale_at)).await;
        if Instant::now() >= stale_at {
            let after = hub.shared.stale_after;
            if let Err(error) = steps(&hub, EndStale { after }).await {
                tracing::debug!(%error, "stale claims will be checked again with the next run");
            }
            stale_at = Instant::now() + STALE_EVERY;
        }
        if Instant::now() >= serve_at {
            if let Err(error) = hub.run(Serve { starting: false }).await {
                tracing::debug!(%error, "the sign that the ledger is served will be written with the next batch");
            }
            if hub.is_shared()
                && let Err(error) = stream::attend(&hub).await
            {
                tracing::debug!(%error, "the other coordinators will be checked with the next run");
            }
            serve_at = Instant::now() + limits::SERVED_EVERY;
        }
        if Instant::now() >= prune_at {
            if let Err(error) = pruner.turn(&hub).await {
                tracing::debug!(%error, "pruning continues with the next run");
            }
            prune_at = Instant::now() + PRUNE_EVERY;
        }
    }
}

/// Sleeps until `next`, or less long if the bell brings something earlier.
async fn rest(hub: &Hub, mut next: Instant) {
    loop {
        tokio::select! {
            () = sleep_until(next) => return,
            () = hub.shared.due_bell.notified() => {
                let due = Timestamp(hub.shared.due.load(Ordering::Relaxed));
                next = next.min(hub.instant_of(due));
            }
        }
    }
}

impl Hub {
    /// The process's instant for an instant of the ledger. What a look has just left undone waits a moment: a sign
    /// of life that is held back makes its agent look quiet until it is written.
    pub(crate) fn instant_of(&self, due: Timestamp) -> Instant {
        let ahead = due.since(self.time());
        Instant::now() + if ahead.is_zero() { RETRY } else { ahead }
    }
}

/// Does what is due; says when budgets and a pause with an end are looked at again, which no engine knows.
async fn sweep(hub: &Hub) -> Result<Option<Timestamp>, Error> {
    steps(hub, ReleaseRetries).await?;
    steps(hub, ExpireLeases).await?;
    steps(hub, ExpireMessages).await?;
    steps(hub, EndOverdue).await?;
    steps(hub, MarkSilent).await?;
    steps(hub, EndDeadlines).await?;
    steps(hub, EndSessions).await?;
    steps(hub, ForgetNode).await?;
    steps(hub, ChaseOrders).await?;
    steps(hub, EndReleases).await?;
    steps(hub, EndPromises).await?;
    steps(hub, OpenReviews).await?;
    steps(hub, TellRequesters { print }).await?;
    steps(hub, Chase { words: reminder }).await?;
    // Whoever has just fallen silent holds no grant any more.
    let budgets = hub.run(GrantBudgets).await?.due;
    let pause = hub.run(EndCooldown).await?;
    Ok(budgets.into_iter().chain(pause).min())
}

/// What a requester is handed of an event.
fn print(event: &Dispatch) -> Box<str> {
    let here = event.to_node.clone().unwrap_or_else(|| "".into());
    event_to_wire::payload(&event.news, &here).get().into()
}

/// What a reminder says; to whoever waits, once it is overdue.
fn reminder(owed: &Owed) -> Box<str> {
    let named = match owed.number {
        Some(number) => format!("#{number}"),
        None => format!("message {}", owed.message),
    };
    let text = match owed.is_overdue() {
        true => format!("[URGENT] {} has not acknowledged {named}", owed.by),
        false => format!("[ACK REQUIRED] reminder of {named} from {}", owed.to),
    };
    serde_json::json!({ "text": text }).to_string().into()
}

async fn steps<V>(hub: &Hub, verb: V) -> Result<(), Error>
where
    V: Verb<Reply = Sweep> + Copy + Send + 'static,
{
    while hub.run(verb).await?.more {}
    Ok(())
}

/// Takes away what is old, as quickly as new rows come in and no quicker than writers can bear.
#[derive(Default)]
struct Pruner {
    /// Verbs that had been decided at the last turn; each leaves at most one row of a kind.
    verbs: u64,
    /// Where the search for finished tasks goes on.
    tasks_from: u64,
}

/// Pages of finished tasks looked at in one turn.
const TASK_PAGES: usize = 32;

impl Pruner {
    async fn turn(&mut self, hub: &Hub) -> Result<(), Error> {
        let keep = hub.shared.keep;
        let verbs = hub.stats().verbs;
        let steps = 1 + (verbs - self.verbs) / limits::CARETAKER_STEP as u64;
        for _ in 0..steps {
            hub.run(Prune { keep }).await?;
        }
        let keep_events = hub.shared.runtime.keep;
        self::steps(hub, CompactOutbox { keep: keep_events }).await?;
        self::steps(hub, PruneJobs).await?;
        self.verbs = verbs;
        for _ in 0..TASK_PAGES {
            let next = hub
                .run(PruneTasks {
                    keep: keep.tasks,
                    from: self.tasks_from,
                })
                .await?;
            self.tasks_from = next.unwrap_or(0);
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }
}
