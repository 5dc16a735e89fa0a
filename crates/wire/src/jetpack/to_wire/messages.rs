//! Messages and deliveries.

use switchboard_core::{self as core, verb};

use crate::jetpack::{
    AckResponse, Delivery, Message, Priority, ReceiveMessagesResponse, SendMessageResponse,
};
use crate::{Json, Recipients};

/// A message.
pub fn message(message: &core::Message) -> Message {
    Message {
        id: message.id.to_string(),
        from: message.from.to_string(),
        to: recipients(&message.to),
        kind: message.kind.clone(),
        payload: Json::stored(&message.payload),
        ack_required: message.ack_required,
        priority: None,
        created_at: message.created_at.into(),
        expires_at: message.expires_at.map(Into::into),
        corr_id: Some(message.corr_id.to_string()),
        redelivered: false,
    }
}

/// The usual one goes without saying.
fn shown(priority: core::Priority) -> Option<Priority> {
    (priority != core::Priority::Medium).then(|| priority.into())
}

fn recipients(to: &core::To) -> Option<Recipients> {
    match to {
        core::To::Everyone => None,
        core::To::One(agent) => Some(Recipients::One(agent.to_string())),
        core::To::Several(agents) => {
            let ids = agents.iter().map(ToString::to_string);
            Some(Recipients::Several(ids.collect()))
        }
    }
}

/// The response to SEND_MESSAGE.
pub fn sent(reply: &verb::Sent) -> SendMessageResponse {
    SendMessageResponse {
        success: true,
        message_id: reply.message.to_string(),
        created_at: reply.created_at.into(),
        recipients: reply.recipients.into(),
    }
}

/// The answer to RECEIVE_MESSAGES.
pub fn received(messages: &[core::Received]) -> ReceiveMessagesResponse {
    let messages = messages.iter().map(|received| Message {
        priority: shown(received.priority),
        redelivered: received.redelivered,
        ..message(&received.message)
    });
    ReceiveMessagesResponse {
        success: true,
        messages: messages.collect(),
    }
}

/// The same for messages after a point, of which nothing is marked.
pub fn read_messages(messages: &[core::Message]) -> ReceiveMessagesResponse {
    ReceiveMessagesResponse {
        success: true,
        messages: messages.iter().map(message).collect(),
    }
}

/// The answer to an acknowledgement.
pub fn acknowledged(reply: &verb::Acknowledged) -> AckResponse {
    let took = reply.took.as_ref();
    AckResponse {
        success: true,
        acknowledged_at: reply.at.into(),
        task_id: took.map(|(task, _)| task.to_string()),
        epoch: took.map(|(_, epoch)| *epoch),
    }
}

/// One message with one recipient.
pub fn delivery(delivery: &core::Delivery) -> Delivery {
    Delivery {
        agent_id: delivery.agent.to_string(),
        state: delivery.state.into(),
        priority: shown(delivery.priority),
        via: delivery.via.map(|door| door.to_string()),
        reason: delivery.reason.as_deref().map(str::to_owned),
        delivered_at: delivery.delivered_at.map(Into::into),
        acknowledged_at: delivery.acknowledged_at.map(Into::into),
    }
}
