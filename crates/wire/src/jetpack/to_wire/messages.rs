//! Messages and deliveries.

use switchboard_core::{self as core, verb};

use crate::Json;
use crate::jetpack::{
    AckResponse, Delivery, Message, ReceiveMessagesResponse, SendMessageResponse,
};

/// A message.
pub fn message(message: &core::Message) -> Message {
    Message {
        id: message.id.to_string(),
        from: message.from.to_string(),
        to: message.to.as_ref().map(ToString::to_string),
        kind: message.kind.clone(),
        payload: Json::stored(&message.payload),
        ack_required: message.ack_required,
        created_at: message.created_at.into(),
        expires_at: message.expires_at.map(Into::into),
        corr_id: Some(message.corr_id.to_string()),
        redelivered: false,
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
        delivered_at: delivery.delivered_at.map(Into::into),
        acknowledged_at: delivery.acknowledged_at.map(Into::into),
    }
}
