//! Reads the person's chat, and sends what waits for it, while that is this coordinator's duty.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use switchboard_core::talk::Chat;
use switchboard_core::verb::{FailDelivery, Hand, Handed, NoteChat, OpenMailbox, Verb};
use switchboard_core::{AgentId, Door, Received, TELEGRAM};
use switchboard_wire::squidrun::Status;
use switchboard_wire::squidrun::telegram::{self, Trouble, Update};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::bot::Bot;
use crate::broker::Broker;
use crate::duty::Duty;
use crate::hub::Error;
use crate::squidrun::Says as _;

/// One message is sent within this time, or failed.
pub(crate) const SEND_WITHIN: Duration = Duration::from_secs(4);
/// Nobody else sends it meanwhile.
const HOLD_FOR: Duration = Duration::from_secs(30);
/// The mailbox is looked at this often, whatever is heard of it.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// Between two tries to read; it doubles, up to the most.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// After a week without an update their numbers may begin anew, and lower.
const NUMBERS_LAST: Duration = Duration::from_secs(6 * 24 * 3600);

pub(super) struct Work {
    pub broker: Arc<Broker>,
    pub bot: Bot,
    pub duty: Arc<Duty>,
    /// What it is called as the one that has a message in hand.
    pub stream: String,
    pub stopping: CancellationToken,
    pub tally: Arc<Tally>,
}

/// What is counted.
#[derive(Default)]
pub(super) struct Tally {
    pub received: AtomicU64,
    pub sent: AtomicU64,
    pub failed: AtomicU64,
}

/// Until the hub stops. What is being sent by then is sent to the end.
pub(super) async fn run(work: Work) {
    let held = watch::Sender::new(false);
    let standing = async {
        loop {
            held.send_replace(work.duty.standing().is_held);
            work.duty.changed().await;
        }
    };
    let both = async {
        tokio::join!(work.read(held.subscribe()), work.send(held.subscribe()));
    };
    let kept = Arc::clone(&work.duty).keep(work.stopping.clone());
    tokio::select! {
        () = standing => {}
        // The duty is left once nothing more is done for it.
        () = async { tokio::join!(both, kept); } => {}
    }
}

impl Work {
    async fn read(&self, mut held: watch::Receiver<bool>) {
        let (mut pause, mut trouble) = (PAUSE, None);
        loop {
            let turn = async {
                let _ = held.wait_for(|held| *held).await;
                tokio::select! {
                    _ = held.wait_for(|held| !*held) => Ok(()),
                    read = self.read_once() => read,
                }
            };
            let read = tokio::select! {
                () = self.stopping.cancelled() => return,
                read = turn => read,
            };
            let rest = match read {
                Ok(()) => {
                    if trouble.take().is_some() {
                        tracing::info!("Telegram can be read again");
                    }
                    pause = PAUSE;
                    continue;
                }
                Err(Trouble { why, retry_after }) => {
                    let rest = retry_after.unwrap_or(pause).clamp(PAUSE, PAUSE_MAX);
                    pause = (pause * 2).min(PAUSE_MAX);
                    if trouble.as_ref() != Some(&why) {
                        tracing::warn!("Telegram cannot be read: {why}; it is tried again");
                        trouble = Some(why);
                    }
                    rest
                }
            };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = sleep(rest) => {}
            }
        }
    }

    async fn read_once(&self) -> Result<(), Trouble> {
        let hub = &self.broker.hub;
        let chat = hub.read(|ledger| ledger.private::<Chat>("")).await;
        let chat = chat.map_err(unavailable)?;
        let counts = |chat: &Chat| hub.time().since(chat.read_at) < NUMBERS_LAST;
        let offset = chat
            .filter(counts)
            .map(|chat| chat.read_upto.saturating_add(1));
        let updates = self.bot.updates(offset).await?;
        let is_old = |update: &Update| offset.is_some_and(|offset| update.id < offset);
        if !updates.is_empty() && updates.iter().all(is_old) {
            return Err(Trouble::of("it sends what was read before"));
        }
        for update in updates {
            self.take(update).await?;
        }
        Ok(())
    }

    /// Says it, and only then notes that it was read: what is read again after a crash is known by its id.
    async fn take(&self, update: Update) -> Result<(), Trouble> {
        let (upto, heard) = (update.id, update.chat == Some(self.bot.chat));
        let refused = match update.text {
            _ if !heard => {
                tracing::debug!(?update.chat, "somebody else wrote to the bot; that is passed over");
                None
            }
            None => Some("only text is passed on".to_owned()),
            Some(text) => match self.broker.say(telegram::saying(upto, text)).await {
                Status::HandlerError => return Err(Trouble::of("the ledger does not answer")),
                status if status.is_accepted() => {
                    self.tally.received.fetch_add(1, Ordering::Relaxed);
                    None
                }
                status => Some(status.to_string()),
            },
        };
        let noted = self.broker.hub.run(NoteChat { upto, heard }).await;
        noted.map_err(unavailable)?;
        if let Some(why) = refused {
            let told = format!("not delivered: {why}");
            if let Err(trouble) = self.bot.send(&told, SEND_WITHIN).await {
                tracing::debug!("the person could not be told: {}", trouble.why);
            }
        }
        Ok(())
    }

    async fn send(&self, mut held: watch::Receiver<bool>) {
        let of = AgentId::from(TELEGRAM);
        let bell = self.broker.hub.shared.wakeups().watch_agent(&of);
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                _ = held.wait_for(|held| *held) => {}
            }
            if let Err(error) = self.send_all(&of).await {
                tracing::debug!(%error, "what waits for Telegram is looked at again in a moment");
                sleep(PAUSE).await;
                continue;
            }
            tokio::select! {
                () = self.stopping.cancelled() => return,
                _ = timeout(LOOK_EVERY, bell.rung()) => {}
            }
        }
    }

    async fn send_all(&self, of: &AgentId) -> Result<(), Error> {
        let hub = &self.broker.hub;
        hub.run(OpenMailbox { of: of.clone() }).await?;
        while !self.stopping.is_cancelled() && self.duty.standing().is_held {
            let hand = Hand {
                agent: of.clone(),
                via: Door::Telegram,
                stream: self.stream.clone(),
                limit: 1,
                hold_for: HOLD_FOR,
            };
            let Some(received) = hub.run(hand).await?.pop() else {
                break;
            };
            self.send_one(of, received).await;
        }
        Ok(())
    }

    /// One that another process had in hand may have been sent: it is not sent again.
    async fn send_one(&self, of: &AgentId, received: Received) {
        let messages = vec![received.message.id.clone()];
        let sent = match received.redelivered {
            true => Err(Trouble::of("a hub ended while it was sent")),
            false => {
                let text = telegram::text(&received, self.broker.session());
                self.bot.send(&text, SEND_WITHIN).await
            }
        };
        let (agent, stream) = (of.clone(), self.stream.clone());
        match sent {
            Ok(()) => {
                self.tally.sent.fetch_add(1, Ordering::Relaxed);
                self.insist(Handed {
                    agent,
                    stream,
                    messages,
                })
                .await;
            }
            Err(Trouble { why, .. }) => {
                self.tally.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(message.id = %messages[0], "message {} was not sent to Telegram: {why}", messages[0]);
                let reason = Status::TelegramSendFailed.to_string();
                let (via, stream) = (Door::Telegram, Some(stream));
                self.insist(FailDelivery {
                    agent,
                    via,
                    stream,
                    messages,
                    reason,
                })
                .await;
            }
        }
    }

    /// Runs a verb until it is decided. What the ledger never hears of counts as failed later.
    async fn insist<V: Verb + Clone + Send + 'static>(&self, verb: V)
    where
        V::Reply: Send,
    {
        loop {
            match self.broker.hub.run(verb.clone()).await {
                Err(error) if error.may_pass() && !self.stopping.is_cancelled() => {
                    sleep(PAUSE).await;
                }
                Err(error) => {
                    return tracing::debug!(%error, "what became of a message to Telegram could not be noted");
                }
                Ok(_) => return,
            }
        }
    }
}

fn unavailable(error: Error) -> Trouble {
    Trouble::of(error.to_string())
}
