//! Messages that a worker sends to agents of every dialect, and what it acknowledges.

use switchboard_core::verb::{Acknowledge, Send};
use switchboard_core::{CorrId, Door, MessageId, Sender, To};
use switchboard_wire::agentbus::message::{AgentMessage, AgentMessageAck, MailState};
use switchboard_wire::agentbus::{redact, to_wire};
use switchboard_wire::jetpack::{Priority, from_wire};

use super::super::server::BusState;
use super::Worker;
use crate::hub::Error;

impl Worker {
    /// The worker sends one; it hears that it is kept, or why not.
    pub(super) async fn send_mail(&mut self, bus: &BusState, mail: AgentMessage) {
        let message_id = mail.message_id.clone();
        let corr_id = mail.corr_id.clone();
        let outcome = if mail.parts > 1 {
            Err("parts: only the director may send messages in parts".to_owned())
        } else {
            self.keep_mail(bus, mail).await
        };
        self.tell(to_wire::mail_ack(message_id, corr_id, outcome));
    }

    async fn keep_mail(&self, bus: &BusState, mail: AgentMessage) -> Result<(), String> {
        let to = match &mail.to {
            Some(named) => To::agents(named.ids().iter().map(|id| id.as_str().into()))
                .ok_or("to: names nobody; leave it out to send to every agent")?,
            None => To::Everyone,
        };
        let (body, has_recipient) = (mail.body.get(), mail.to.is_some());
        let meaning = from_wire::meaning(&mail.kind, body, has_recipient, &bus.root);
        let meaning = meaning.map_err(|malformed| malformed.to_string())?;
        let id = MessageId::from(mail.message_id.as_str());
        let message = Send {
            corr_id: CorrId::from(mail.corr_id.unwrap_or(mail.message_id)),
            id: id.clone(),
            from: Sender::Agent(self.id().clone()),
            to,
            kind: mail.kind,
            payload: redact::said_json(mail.body.get()).into(),
            ack_required: mail.ack_required,
            priority: mail.priority.unwrap_or(Priority::Medium).into(),
            expires_in: None,
            meaning,
        };
        match self.stream.insist(message).await {
            Ok(_) => Ok(()),
            // Sent again after a cut: it is kept already, if it is this one's.
            Err(Error::Refused(switchboard_core::Refusal::MessageAlreadyExists { .. })) => {
                let read = bus.hub.read(move |reader| reader.message(&id)).await;
                match read {
                    Ok(Some((known, _))) if known.from == *self.id() => Ok(()),
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
        if outcome.is_err() {
            self.tell(to_wire::mail_ack(ack.message_id, ack.corr_id, outcome));
        }
    }
}
