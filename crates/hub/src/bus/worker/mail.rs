//! Messages that a worker sends to agents of every dialect, and what it acknowledges.

use switchboard_core::verb::{Acknowledge, Send};
use switchboard_core::{Door, MessageId, Refusal};
use switchboard_wire::agentbus::message::{AgentMessage, AgentMessageAck, MailState};
use switchboard_wire::agentbus::{from_wire, to_wire};
use switchboard_wire::redact;

use super::super::server::BusState;
use super::Worker;
use crate::hub::Error;

impl Worker {
    /// The worker sends one; it hears that it is kept, or why not.
    pub(super) async fn send_mail(&mut self, bus: &BusState, mail: AgentMessage) {
        let (id, corr_id) = (mail.message_id.clone(), mail.corr_id.clone());
        let outcome = match from_wire::send(self.id(), mail, &bus.root) {
            Ok(message) => self.keep_mail(bus, message).await,
            Err(malformed) => Err(malformed.to_string()),
        };
        self.tell(to_wire::mail_ack(id, corr_id, outcome));
    }

    async fn keep_mail(&self, bus: &BusState, message: Send) -> Result<MailState, String> {
        let kept = self
            .stream
            .until_decided(|| bus.hub.run(message.clone()))
            .await;
        match kept {
            Ok(_) => Ok(MailState::Accepted),
            // Sent again after a cut: it is kept already, if it is the same.
            Err(Error::Refused(Refusal::MessageAlreadyExists { .. })) => {
                let look = || {
                    let id = message.id.clone();
                    bus.hub.read(move |reader| reader.message(&id))
                };
                let read = self.stream.until_decided(look).await;
                match read.map_err(|error| error.to_string())? {
                    Some((known, _)) if message.is_kept_as(&known) => {
                        let is_acknowledged = known.acknowledged.is_some();
                        Ok(match is_acknowledged {
                            true => MailState::Acknowledged,
                            false => MailState::Accepted,
                        })
                    }
                    _ => Err("message_id: another message has this id".to_owned()),
                }
            }
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) async fn acknowledged(&mut self, ack: AgentMessageAck) {
        let message = MessageId::from(ack.message_id.as_str());
        let outcome = if ack.state == Some(MailState::Failed) {
            let reason = ack.reason.as_deref().unwrap_or("refused by the worker");
            let reason = redact::text(reason).into_owned();
            match self.stream.mail_failed(message, reason).await {
                Ok(0) => Err("message_id: no message waits for this acknowledgement".to_owned()),
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        } else {
            let acknowledge = Acknowledge {
                agent: self.id().clone(),
                message,
                via: Door::Bus,
            };
            let acknowledged = self.stream.insist(acknowledge).await;
            acknowledged.map(drop).map_err(|error| error.to_string())
        };
        if let Err(reason) = outcome {
            self.tell(to_wire::mail_ack(ack.message_id, ack.corr_id, Err(reason)));
        }
    }
}
