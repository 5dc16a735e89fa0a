//! What became of a message, as its sender asks later, and that its recipient has it.

use std::sync::Arc;

use switchboard_core::talk::Refused;
use switchboard_core::verb::Acknowledge;
use switchboard_core::{AgentId, Door, MessageId};
use switchboard_wire::squidrun::Status;
use switchboard_wire::squidrun::frame::{DeliveryCheck, Outbound, Receipt};
use switchboard_wire::squidrun::to_wire::{self, Found};

use super::desk::Desk;
use super::state::Broker;

impl Broker {
    pub(super) async fn delivery_check(self: Arc<Self>, asked: DeliveryCheck) -> Outbound {
        let found = match asked.id() {
            Some(id) => self.find(id).await,
            None => Found::Unknown,
        };
        to_wire::delivery_check(asked, found, self.hub.wall())
    }

    async fn find(&self, id: &str) -> Found {
        if self.acks.known(id).is_some_and(|cell| !cell.initialized()) {
            return Found::Pending;
        }
        let (message, key) = (MessageId::from(id), id.to_owned());
        let read = self.hub.read(move |ledger| {
            let found = ledger.message(&message)?;
            match found {
                Some(found) => Ok((Some(found), None)),
                None => Ok((None, ledger.private::<Refused>(key)?)),
            }
        });
        match read.await {
            Ok((Some((message, deliveries)), _)) => {
                let mut ack = to_wire::ack(&message, &deliveries, self.hub.time());
                ack.timestamp = self.hub.wall().0;
                Found::Known(Box::new(ack))
            }
            Ok((None, Some(refused))) => {
                let status = refused.reason.parse().unwrap_or(Status::InvalidMessage);
                Found::Known(Box::new(self.ack(Some(id.to_owned()), status)))
            }
            Ok((None, None)) | Err(_) => Found::Unknown,
        }
    }

    /// A recipient says that it has what it was sent.
    pub(super) async fn received(&self, by: &AgentId, desk: Option<&Desk>, receipt: Receipt) {
        let traced = desk.and_then(|desk| desk.traced(&receipt.trace_id));
        let message = traced.unwrap_or_else(|| MessageId::from(receipt.trace_id));
        let acknowledge = Acknowledge {
            agent: by.clone(),
            message: message.clone(),
            via: Door::Squidrun,
        };
        match self.hub.run(acknowledge).await {
            Ok(_) => {
                if let Some(desk) = desk {
                    desk.confirmed(&message);
                }
            }
            Err(error) => tracing::debug!(%error, "a receipt of {by} was not taken"),
        }
    }
}
