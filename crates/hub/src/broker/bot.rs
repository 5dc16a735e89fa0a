//! What senders hear of messages that go to Telegram: the answer waits until it is known whether they were sent.

use std::time::Duration;

use switchboard_core::verb::{FailDelivery, Say};
use switchboard_core::{Delivery, DeliveryState, Door, MessageId, TELEGRAM};
use switchboard_wire::squidrun::frame::SendAck;
use switchboard_wire::squidrun::{Status, from_wire, to_wire};
use tokio::time::{Instant, timeout_at};

use super::state::Broker;
use crate::telegram::SEND_WITHIN;

/// What nobody began to send by then is not sent any more: its sender does it itself. Together with the sending less than
/// a client waits.
const BEGINS_WITHIN: Duration = Duration::from_secs(3);

impl Broker {
    /// The answer to a message for a bot that nobody configured.
    pub(super) async fn lacks_bot(&self, say: &Say) -> Option<SendAck> {
        let is_for_bot = say.to.one().is_some_and(|to| to.as_str() == TELEGRAM);
        if self.has_bot || !is_for_bot {
            return None;
        }
        let status = Status::TelegramContextStale;
        self.record(Some(from_wire::refuse(say, status))).await;
        let why = "no bot is configured; set TELEGRAM_BOT_TOKEN and TELEGRAM_CHAT_ID where the hub is started";
        Some(self.refusal(Some(say.id.to_string()), status, why.to_owned()))
    }

    /// A message as the ledger has it, once no bot is about to send it.
    pub(super) async fn outcome(&self, id: &MessageId) -> SendAck {
        let (mut latest, began) = (self.hub.latest(), Instant::now());
        let mut waits = [began + BEGINS_WITHIN, began + BEGINS_WITHIN + SEND_WITHIN].into_iter();
        let mut until = waits.next();
        loop {
            latest.borrow_and_update();
            let wanted = id.clone();
            let read = self.hub.read(move |ledger| ledger.message(&wanted)).await;
            let Ok(Some((message, mut deliveries))) = read else {
                return self.as_it_is(id).await;
            };
            let is_the_bots = |it: &Delivery| it.agent.as_str() == TELEGRAM;
            let waits_for_bot =
                |it: &Delivery| is_the_bots(it) && it.state == DeliveryState::Queued;
            let is_going = deliveries.iter().any(waits_for_bot);
            let Some(at) = until.filter(|_| is_going) else {
                if is_going {
                    // Whoever began to send it is gone; nobody sends it again.
                    deliveries
                        .iter_mut()
                        .filter(|it| waits_for_bot(it))
                        .for_each(|it| {
                            it.state = DeliveryState::Failed;
                            it.reason = Some(Status::TelegramSendFailed.as_str().into());
                        });
                }
                let ack = to_wire::ack(&message, &deliveries, self.hub.time());
                let failed = ack.status == Status::TelegramSendFailed;
                let why = "Telegram did not take it; the hub's log says why";
                return SendAck {
                    timestamp: self.hub.wall().0,
                    error: failed.then(|| why.to_owned()),
                    ..ack
                };
            };
            if timeout_at(at, latest.changed()).await.is_err() {
                until = waits.next();
                self.give_up(id).await;
            }
        }
    }

    /// Unless it is being sent.
    async fn give_up(&self, id: &MessageId) {
        let fail = FailDelivery {
            agent: TELEGRAM.into(),
            via: Door::Telegram,
            stream: None,
            messages: vec![id.clone()],
            reason: Status::TelegramSendFailed.to_string(),
        };
        if let Err(error) = self.hub.run(fail).await {
            tracing::debug!(%error, "a message to Telegram may be sent late");
        }
    }
}
