//! Passes on to operators what workers say: each worker's last heartbeat, joined for a moment, and a snapshot when something changed.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::agentbus::redact;
use tokio::time::{Instant, sleep, sleep_until};

use super::frame::Frame;
use super::server::Shared;
use super::snapshot;

/// Heartbeats of one worker within this time are one.
const JOINED_FOR: Duration = Duration::from_millis(20);
/// No more than one snapshot in this time.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);

/// Heartbeats, as they come.
pub(super) async fn heartbeats(bus: Arc<Shared>) {
    loop {
        tokio::select! {
            () = bus.board.rung() => {}
            () = bus.stopping.cancelled() => return,
        }
        sleep(JOINED_FOR).await;
        for line in bus.board.take_news() {
            pass_on(&bus, &line);
        }
    }
}

/// Snapshots, when something changed and the last one is a while ago. They take their time, and no heartbeat waits for them.
pub(super) async fn snapshots(bus: Arc<Shared>) {
    let mut latest = bus.hub.latest();
    let mut snapshot_at = Instant::now();
    let mut changed = false;
    loop {
        let is_due = bus.registry.operators() > 0 && (changed || snapshot::is_owed(&bus));
        tokio::select! {
            () = bus.stopping.cancelled() => return,
            () = bus.board.stirred() => changed = true,
            told = latest.changed() => {
                if told.is_err() {
                    return;
                }
                changed = true;
            }
            () = sleep_until(snapshot_at), if is_due => {
                snapshot_at = Instant::now() + SNAPSHOT_EVERY;
                match std::mem::take(&mut changed) {
                    true => snapshot::broadcast(&bus).await,
                    false => snapshot::catch_up(&bus).await,
                }
            }
        }
    }
}

/// One frame of a worker to every operator, without what looks like a secret.
pub(super) fn pass_on(bus: &Shared, line: &str) {
    let line: Arc<str> = redact::json(line).into();
    bus.registry
        .to_operators(|| Frame::Passed(Arc::clone(&line)));
}
