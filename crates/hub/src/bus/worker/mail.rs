//! Messages from and to agents of every dialect.

use std::time::Duration;

use switchboard_core::verb::{Acknowledge, EndStream, Hand, Handed, Send, TakeBack};
use switchboard_core::{CorrId, MessageId, Received, Sender, TaskId};
use switchboard_wire::Json;
use switchboard_wire::agentbus::message::{AgentMessage, AgentMessageAck, MailState};
use switchboard_wire::agentbus::parts::InParts as _;
use switchboard_wire::agentbus::redact;
use tokio::time::Instant;

use super::super::connection::send;
use super::super::outbox::Frame;
use super::super::server::Shared;
use super::{RETRY_AFTER, Worker};
use crate::hub::Error;

/// Messages on their way to one worker at a time.
const HANDED_AT_ONCE: usize = 16;
/// Nobody else hands them out for this long.
const HOLD_FOR: Duration = Duration::from_secs(30);

impl Worker {
    /// Takes up what waits, also what an older connection took up, and puts it on its way; it counts as handed over
    /// once it is written.
    pub(super) async fn hand_mail(&mut self, bus: &Shared) {
        if !self.mails || self.agent.inbox == 0 || !self.agent.is_live() {
            return;
        }
        if !self.outbox.is_read() {
            // Who reads slowly gets them slowly.
            self.look_at = Some(Instant::now() + RETRY_AFTER);
            return;
        }
        let hand = bus.hub.run(Hand {
            agent: self.id.clone(),
            stream: self.stream.clone(),
            limit: HANDED_AT_ONCE,
            hold_for: HOLD_FOR,
        });
        let messages = match hand.await {
            Ok(messages) => messages,
            Err(error) => {
                if error.may_pass() {
                    self.look_at = Some(Instant::now() + RETRY_AFTER);
                }
                return;
            }
        };
        let room = bus.room("agent_message.v1");
        for Received {
            message,
            redelivered,
        } in messages
        {
            if self.on_its_way.contains(&message.id) {
                continue;
            }
            self.on_its_way.push(message.id.clone());
            self.owes_receipts |= message.ack_required;
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
        self.on_its_way.retain(|id| !messages.contains(id));
        let handed = Handed {
            agent: self.id.clone(),
            stream: self.stream.clone(),
            messages,
        };
        match self.insist(bus, handed).await {
            // There may be more than went at once.
            Ok(_) => self.refresh(bus).await,
            Err(error) => tracing::debug!(%error, "handed messages will be handed again"),
        }
    }

    /// They never were.
    pub(super) async fn take_back_mail(&self, bus: &Shared, messages: Vec<MessageId>) {
        if messages.is_empty() {
            return;
        }
        let agent = self.id.clone();
        if let Err(error) = bus.hub.run(TakeBack { agent, messages }).await {
            tracing::debug!(%error, "what was not written is free again in a while");
        }
    }

    /// What was not acknowledged on this connection waits for whatever door comes next.
    pub(super) async fn end_stream(&self, bus: &Shared) {
        if !self.owes_receipts {
            return;
        }
        let end = EndStream {
            agent: self.id.clone(),
            stream: self.stream.clone(),
        };
        if let Err(error) = bus.hub.run(end).await {
            tracing::debug!(%error, "what was not acknowledged waits for the worker's next hello");
        }
    }

    /// The worker sends one; it hears that it is kept, or why not.
    pub(super) async fn send_mail(&mut self, bus: &Shared, mail: AgentMessage) {
        let message_id = mail.message_id.clone();
        let corr_id = mail.corr_id.clone();
        let outcome = if mail.parts > 1 {
            Err("parts: only the director sends messages in parts".to_owned())
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
        let handoff = if mail.kind == "task.handoff" {
            let body: serde_json::Value = serde_json::from_str(mail.body.get()).unwrap_or_default();
            body.get("taskId")
                .and_then(|id| id.as_str())
                .map(TaskId::from)
        } else {
            None
        };
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
            handoff,
            lock: None,
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
