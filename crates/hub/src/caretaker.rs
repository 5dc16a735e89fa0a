//! Looks after what is due: silent agents, retries, leases, messages, old rows. Sleeps until the next instant.

use std::sync::atomic::Ordering;
use std::time::Duration;

use switchboard_core::verb::{
    ExpireLeases, ExpireMessages, MarkSilent, Prune, PruneTasks, ReleaseRetries, Serve, Step,
};
use switchboard_core::{Timestamp, Verb, limits};
use tokio::time::{Instant, sleep_until};

use crate::hub::{Error, Hub};

const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// If the writer is too busy to say what is due, it is asked again after this.
const RETRY: Duration = Duration::from_millis(200);

pub(crate) async fn run(hub: Hub) {
    let mut serve_at = Instant::now() + limits::SERVED_EVERY;
    let mut prune_at = Instant::now() + PRUNE_EVERY;
    loop {
        // From here on every commit that brings something due earlier rings the bell.
        hub.shared.due.store(i64::MAX, Ordering::Relaxed);
        let caught_up = sweep(&hub).await;
        let due = match caught_up {
            Ok(()) => hub.next_due().await.map(|due| when(&hub, due)),
            Err(Error::Stopping) => return,
            Err(error) => {
                tracing::debug!(%error, "the caretaker will try again");
                Some(Instant::now() + RETRY)
            }
        };
        let next = [Some(serve_at), Some(prune_at), due].into_iter().flatten().min().unwrap_or(serve_at);
        tokio::select! {
            () = sleep_until(next) => {}
            () = hub.shared.due_bell.notified() => {
                let due = Timestamp(hub.shared.due.load(Ordering::Relaxed));
                sleep_until(when(&hub, due).min(next)).await;
            }
        }
        if Instant::now() >= serve_at {
            let _ = hub.run(Serve { starting: false, slept: false }).await;
            serve_at = Instant::now() + limits::SERVED_EVERY;
        }
        if Instant::now() >= prune_at {
            if let Err(error) = prune(&hub).await {
                tracing::debug!(%error, "pruning goes on at the next turn");
            }
            prune_at = Instant::now() + PRUNE_EVERY;
        }
    }
}

/// The process's instant for an instant of the ledger. What a sweep has just left undone waits a moment: a sign
/// of life that is held back makes its agent look quiet until it is written.
fn when(hub: &Hub, due: Timestamp) -> Instant {
    let ahead = due.since(hub.now());
    Instant::now() + if ahead.is_zero() { RETRY } else { ahead }
}

async fn sweep(hub: &Hub) -> Result<(), Error> {
    steps(hub, ReleaseRetries).await?;
    steps(hub, ExpireLeases).await?;
    steps(hub, ExpireMessages).await?;
    steps(hub, MarkSilent).await
}

async fn steps<V>(hub: &Hub, verb: V) -> Result<(), Error>
where
    V: Verb<Reply = Step> + Copy + Send + 'static,
{
    while hub.run(verb).await?.more {}
    Ok(())
}

async fn prune(hub: &Hub) -> Result<(), Error> {
    let keep = hub.shared.keep;
    hub.run(Prune { keep }).await?;
    let mut from = Some(0);
    while let Some(next) = from {
        from = hub.run(PruneTasks { keep: keep.tasks, from: next }).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}
