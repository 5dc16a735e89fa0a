//! What became of a message, as its sender asks later, and that its recipient has it.

use std::sync::Arc;

use switchboard_core::query::{MessageFilter, Page};
use switchboard_core::talk::Refused;
use switchboard_core::verb::Acknowledge;
use switchboard_core::{AgentId, Door, MessageId};
use switchboard_wire::squidrun::Status;
use switchboard_wire::squidrun::frame::{DeliveryCheck, Outbound, Receipt};
use switchboard_wire::squidrun::to_wire::{self, Found};

use super::desk::Desk;
use super::state::Broker;
use crate::hub::Error;

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
        let trace = receipt.trace_id;
        let traced = desk.and_then(|desk| desk.traced(&trace));
        let mut message = traced.unwrap_or_else(|| MessageId::from(&*trace));
        let mut taken = self.acknowledge(by, message.clone()).await;
        if let Err(Error::Refused(_)) = &taken
            && let Some(traced) = self.traced(by, trace).await
        {
            // It was written to a connection that is gone.
            message = traced;
            taken = self.acknowledge(by, message.clone()).await;
        }
        match (taken, desk) {
            (Ok(_), Some(desk)) => desk.confirmed(&message),
            (Ok(_), None) => {}
            (Err(error), _) => tracing::debug!(%error, "a receipt of {by} was not taken"),
        }
    }

    async fn acknowledge(&self, by: &AgentId, message: MessageId) -> Result<(), Error> {
        let acknowledge = Acknowledge {
            agent: by.clone(),
            message,
            via: Door::Squidrun,
        };
        self.hub.run(acknowledge).await.map(drop)
    }

    /// The last message to a role in a trace, of those that the ledger lists first.
    async fn traced(&self, to: &AgentId, trace: String) -> Option<MessageId> {
        let filter = MessageFilter {
            to: Some(to.clone()),
            ..MessageFilter::default()
        };
        let read = self.hub.read(move |ledger| {
            let page = ledger.messages(&filter, &Page::first())?;
            let mut rows = page.rows.into_iter();
            Ok(rows.find(|row| row.corr_id.as_str() == trace))
        });
        Some(read.await.ok()??.id)
    }
}
