//! Messages over a stream: taken up, put on their way, settled once they are written.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::verb::{EndStream, FailDelivery, Hand, Handed, TakeBack};
use switchboard_core::{MessageId, Received};
use tokio::time::Instant;

use super::{RETRY_AFTER, Stream, Voice};
use crate::hub::Error;

/// Messages on their way over one stream at a time.
const HANDED_AT_ONCE: usize = 16;
/// Nobody else hands them out for this long.
const HOLD_FOR: Duration = Duration::from_secs(30);

impl<V: Voice> Stream<V> {
    /// Takes up what waits, and puts it on its way.
    pub(super) async fn hand_mail(&mut self) {
        if !self.terms.mail || !self.agent.is_reached() {
            return;
        }
        if !self.is_behind() {
            return;
        }
        if !self.voice.outbox().is_read() {
            // Who reads slowly gets them slowly.
            self.look_at = Some(Instant::now() + RETRY_AFTER);
            return;
        }
        match self.take_up().await {
            Ok(taken) => taken.into_iter().for_each(|mail| self.voice.mail(mail)),
            Err(error) => self.looks_again_after(&error),
        }
        self.is_behind();
    }

    /// Whether more waits than was taken up. What is on its way waits in the ledger until it is settled.
    fn is_behind(&self) -> bool {
        let is_behind = self.agent.inbox as usize > self.on_its_way.count();
        self.on_its_way.set_behind(is_behind);
        is_behind
    }

    /// Takes up messages that wait, the most urgent first; they count as handed over once they are written.
    async fn take_up(&mut self) -> Result<Vec<Received>, Error> {
        let hand = Hand {
            agent: self.agent.id.clone(),
            via: self.terms.door,
            stream: self.name.clone(),
            limit: HANDED_AT_ONCE,
            hold_for: HOLD_FOR,
        };
        let mut taken = self.hub.run(hand).await?;
        taken.retain(|taken| self.on_its_way.add(&taken.message.id));
        self.owes_receipts |= taken.iter().any(|taken| taken.message.ack_required);
        Ok(taken)
    }

    /// They were written.
    pub async fn handed(&mut self, messages: Vec<MessageId>) {
        self.on_its_way.remove(&messages);
        let handed = Handed {
            agent: self.agent.id.clone(),
            stream: self.name.clone(),
            messages,
        };
        match self.insist(handed).await {
            // There may be more than went at once.
            Ok(_) => self.refresh().await,
            Err(error) => {
                tracing::debug!(%error, "messages that were sent are not marked as delivered; they will be sent again")
            }
        }
    }

    /// The other side refuses it. Tells how many failed: none, if it is no message of this stream.
    pub async fn mail_failed(&self, message: MessageId, reason: String) -> Result<usize, Error> {
        self.insist(FailDelivery {
            agent: self.agent.id.clone(),
            via: self.terms.door,
            stream: Some(self.name.clone()),
            messages: vec![message],
            reason,
        })
        .await
    }

    /// What was never written, and what was not acknowledged, waits for whatever door comes next.
    pub(super) async fn give_mail_back(&self, unsent: Vec<MessageId>) {
        let (agent, stream) = (self.agent.id.clone(), self.name.clone());
        if !unsent.is_empty() {
            let take_back = TakeBack {
                agent: agent.clone(),
                stream: stream.clone(),
                messages: unsent,
            };
            if let Err(error) = self.hub.run(take_back).await {
                tracing::debug!(%error, "messages that were not sent could not be queued again; that happens later");
            }
        }
        if self.owes_receipts
            && self.terms.door.policy().one_stream
            && let Err(error) = self.hub.run(EndStream { agent, stream }).await
        {
            tracing::debug!(%error, "unacknowledged messages were not queued again; they wait for the agent's next connection");
        }
    }
}

/// Messages that one stream took up and that are not settled yet: nobody takes them up a second time.
#[derive(Default)]
pub(crate) struct OnItsWay {
    ids: Mutex<HashSet<MessageId>>,
    /// More waits than was taken up: what comes next is to wait for its turn.
    is_behind: AtomicBool,
}

impl OnItsWay {
    /// False if it is on its way already.
    pub fn add(&self, id: &MessageId) -> bool {
        self.ids.lock().insert(id.clone())
    }

    pub fn remove(&self, messages: &[MessageId]) {
        let mut ids = self.ids.lock();
        for id in messages {
            ids.remove(id);
        }
    }

    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    pub fn set_behind(&self, is_behind: bool) {
        self.is_behind.store(is_behind, Ordering::Relaxed);
    }

    pub fn count(&self) -> usize {
        self.ids.lock().len()
    }
}
