//! Passes on to operators what workers say: each worker's last heartbeat, joined for a moment, and a snapshot when
//! something changed; and what the log has for streams.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::{Director, Event, Logged};
use switchboard_wire::agentbus::message::{Outbound, ReleasePublished};
use switchboard_wire::agentbus::{shorten, to_wire};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until};

use super::frame::Frame;
use super::server::BusState;
use super::snapshot;

/// Heartbeats of one worker within this time are one.
const JOINED_FOR: Duration = Duration::from_millis(20);
/// No more than one look at the ledger in this time, for those whose last snapshot is a second old.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(250);
/// Releases that may be heard of out of their order.
const TOLD_KEPT: usize = 64;

/// Heartbeats, as they come.
pub(super) async fn heartbeats(bus: Arc<BusState>) {
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

/// Snapshots, when something changed or somebody asks, and the last one is a while ago. They take their time, and no
/// heartbeat waits for them.
pub(super) async fn snapshots(bus: Arc<BusState>) {
    let mut latest = bus.hub.latest();
    let mut snapshot_at = Instant::now();
    loop {
        let is_due = snapshot::is_owed(&bus);
        tokio::select! {
            () = bus.stopping.cancelled() => return,
            () = bus.board.stirred() => snapshot::owe_all(&bus),
            () = bus.board.asked() => {}
            told = latest.changed() => {
                if told.is_err() {
                    return;
                }
                snapshot::owe_all(&bus);
            }
            () = sleep_until(snapshot_at), if is_due => {
                snapshot_at = Instant::now() + SNAPSHOT_EVERY;
                snapshot::send_owed(&bus).await;
            }
        }
    }
}

/// What the log tells of, whichever coordinator was told: the workers and operators of every one hear of a release, a
/// worker that its message was acknowledged.
pub(super) async fn log_news(
    bus: Arc<BusState>,
    mut told: Told,
    mut heard: broadcast::Receiver<Option<Logged>>,
) {
    let mut epoch = bus.hub.epoch();
    loop {
        let news = tokio::select! {
            news = heard.recv() => news,
            () = bus.stopping.cancelled() => return,
        };
        let release = match news {
            Ok(Some(logged)) => match logged.event {
                Event::ReleasePublished {
                    release,
                    main_sha,
                    image_tag,
                    ..
                } => published(release, main_sha, image_tag).map(|it| (logged.seq, it)),
                Event::MessageAcknowledged {
                    message,
                    agent,
                    from: Some(from),
                } => {
                    let ack = to_wire::mail_acknowledged(&message, &agent);
                    bus.registry.send(&from, ack.into());
                    continue;
                }
                _ => None,
            },
            Ok(None) | Err(RecvError::Lagged(_)) => {
                let now = bus.hub.epoch();
                if std::mem::replace(&mut epoch, now) != now {
                    // Events that were told are gone, and others have their numbers.
                    told = Told::upto(now.after);
                }
                last_release(&bus).await
            }
            Err(RecvError::Closed) => return,
        };
        bus.director.look();
        if let Some((_, release)) = release.filter(|(seq, _)| told.is_news(*seq)) {
            let message = Outbound::from(release);
            bus.registry.to_workers(&message);
            bus.registry
                .to_operators(|| Frame::Message(Box::new(message.clone())));
        }
    }
}

/// Which events were told. Word of other coordinators' comes later than of one's own, and may come twice.
pub(super) struct Told {
    upto: u64,
    /// Of later ones.
    seqs: BTreeSet<u64>,
}

impl Told {
    pub fn upto(upto: u64) -> Told {
        let seqs = BTreeSet::new();
        Told { upto, seqs }
    }

    fn is_news(&mut self, seq: u64) -> bool {
        let is_news = seq > self.upto && self.seqs.insert(seq);
        if self.seqs.len() > TOLD_KEPT
            && let Some(oldest) = self.seqs.pop_first()
        {
            self.upto = oldest;
        }
        is_news
    }
}

/// One that is planned only is not told of.
fn published(
    tag: String,
    main_sha: Option<String>,
    image_tag: Option<String>,
) -> Option<ReleasePublished> {
    let (main_sha, image_tag) = main_sha.zip(image_tag)?;
    Some(ReleasePublished {
        tag,
        main_sha,
        image_tag,
    })
}

/// The last one, with the number of its event.
async fn last_release(bus: &BusState) -> Option<(u64, ReleasePublished)> {
    let told = bus.hub.read(|reader| reader.private::<Director>("")).await;
    let told = told.ok().flatten()?;
    let release = told.release?;
    let release = published(release.id, release.main_sha, release.image_tag)?;
    Some((told.release_seq, release))
}

/// One frame of a worker to every operator, without what looks like a secret.
pub(super) fn pass_on(bus: &BusState, line: &str) {
    let Some(line) = shorten::passed_on(line, bus.config.max_message_bytes) else {
        tracing::debug!("a frame was not passed on to operators: it is too long");
        return;
    };
    let line: Arc<str> = line.into();
    bus.registry
        .to_operators(|| Frame::Passed(Arc::clone(&line)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_is_told_once_in_whatever_order_word_of_it_comes() {
        let mut told = Told::upto(5);
        let news: Vec<u64> = [5, 8, 6, 8, 6, 7, 9]
            .into_iter()
            .filter(|seq| told.is_news(*seq))
            .collect();
        assert_eq!(news, [8, 6, 7, 9]);
        let many = 10..10 + 2 * TOLD_KEPT as u64;
        assert!(many.clone().all(|seq| told.is_news(seq)));
        assert!(!many.clone().any(|seq| told.is_news(seq)));
        assert!(told.seqs.len() <= TOLD_KEPT);
    }
}
