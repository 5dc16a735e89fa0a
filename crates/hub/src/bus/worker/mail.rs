//! Messages from and to agents of every dialect.

use switchboard_core::verb::{Acknowledge, Send};
use switchboard_core::{CorrId, MessageId, Received, Sender};
use switchboard_wire::Json;
use switchboard_wire::agentbus::message::{AgentMessage, AgentMessageAck, MailState};
use switchboard_wire::agentbus::parts::InParts as _;
use switchboard_wire::agentbus::redact;
use switchboard_wire::jetpack::from_wire;
use tokio::time::Instant;

use super::super::frame::Frame;
use super::super::frame::send;
use super::super::server::Shared;
use super::Worker;
use crate::hub::Error;
use crate::stream::RETRY_AFTER;

impl Worker {
    /// Takes up what waits, and puts it on its way.
    pub(super) async fn hand_mail(&mut self, bus: &Shared) {
        if !self.mails || self.agent.inbox == 0 || !self.agent.is_live() {
            return;
        }
        if !self.outbox.is_read() {
            // Who reads slowly gets them slowly.
            self.look_at = Some(Instant::now() + RETRY_AFTER);
            return;
        }
        let messages = match self.stream.take_up().await {
            Ok(messages) => messages,
            Err(error) => return self.looks_again_after(&error),
        };
        let room = bus.room("agent_message.v1");
        for Received {
            message,
            redelivered,
        } in messages
        {
            let body = Json::stored(&redact::said_json(&message.payload));
            let mail = AgentMessage {
                message_id: message.id.to_string(),
                from: message.from.to_string(),
                to: None,
                kind: message.kind,
                redacted: redact::count(body.get()),
                body,
                ack_required: message.ack_required,
                redelivered,
                corr_id: Some(message.corr_id.to_string()),
                part: 1,
                parts: 1,
            };
            let mut parts = mail.cut(room);
            let last = parts.pop();
            for part in parts {
                send(&self.outbox, part);
            }
            if let Some(last) = last {
                let frame = Frame::Mail(Box::new(last.into()), message.id);
                self.outbox.push(frame);
            }
        }
    }

    /// They were written.
    pub async fn handed(&mut self, bus: &Shared, messages: Vec<MessageId>) {
        let handed = self.stream.handed(messages);
        match self.insist(bus, handed).await {
            // There may be more than went at once.
            Ok(_) => self.refresh(bus).await,
            Err(error) => {
                tracing::debug!(%error, "messages that were sent are not marked as delivered; they will be sent again")
            }
        }
    }

    /// The worker sends one; it hears that it is kept, or why not.
    pub(super) async fn send_mail(&mut self, bus: &Shared, mail: AgentMessage) {
        let message_id = mail.message_id.clone();
        let corr_id = mail.corr_id.clone();
        let outcome = if mail.parts > 1 {
            Err("parts: only the director may send messages in parts".to_owned())
        } else {
            self.keep_mail(bus, mail).await
        };
        let (state, reason) = match outcome {
            Ok(()) => (MailState::Accepted, None),
            Err(reason) => (MailState::Failed, Some(reason)),
        };
        send(
            &self.outbox,
            AgentMessageAck {
                message_id,
                state: Some(state),
                reason,
                corr_id,
            },
        );
    }

    async fn keep_mail(&self, bus: &Shared, mail: AgentMessage) -> Result<(), String> {
        let (body, has_recipient) = (mail.body.get(), mail.to.is_some());
        let meaning = from_wire::meaning(&mail.kind, body, has_recipient, &bus.root);
        let meaning = meaning.map_err(|malformed| malformed.to_string())?;
        let id = MessageId::from(mail.message_id.as_str());
        let message = Send {
            corr_id: CorrId::from(mail.corr_id.unwrap_or(mail.message_id)),
            id: id.clone(),
            from: Sender::Agent(self.id.clone()),
            to: mail.to.map(Into::into),
            kind: mail.kind,
            payload: redact::said_json(mail.body.get()).into(),
            ack_required: mail.ack_required,
            expires_in: None,
            meaning,
        };
        match self.insist(bus, message).await {
            Ok(_) => Ok(()),
            // Sent again after a cut: it is kept already, if it is this one's.
            Err(Error::Refused(switchboard_core::Refusal::MessageAlreadyExists { .. })) => {
                let read = bus.hub.read(move |reader| reader.message(&id)).await;
                match read {
                    Ok(Some((known, _))) if known.from == self.id => Ok(()),
                    _ => Err("message_id: another message has this id".to_owned()),
                }
            }
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) async fn acknowledged(&mut self, bus: &Shared, ack: AgentMessageAck) {
        let acknowledge = Acknowledge {
            agent: self.id.clone(),
            message: ack.message_id.as_str().into(),
        };
        if let Err(error) = self.insist(bus, acknowledge).await {
            let failed = AgentMessageAck {
                state: Some(MailState::Failed),
                reason: Some(error.to_string()),
                ..ack
            };
            send(&self.outbox, failed);
        }
    }
}
