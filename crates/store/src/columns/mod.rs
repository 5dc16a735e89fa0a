//! Nouns of the rules as columns of a row, whichever engine keeps them. The most used are files of their own,
//! with how they are read; how others are read is in [`crate::rows`].

use std::borrow::Cow;
use std::fmt::Write;

use switchboard_core::{Head, Logged, Message, Timestamp, To};

pub(crate) mod agent;
pub(crate) mod task;
mod writers;

pub(crate) use agent::{pulse, words_of_agent, work_of_agent};
pub(crate) use task::{new_task, queue_of_task, words_of_task, work_of_task};
pub(crate) use writers::*;

/// What stands in a message's row for whom it is for. Ids have no spaces, so a list of them is nobody's id and no NULL:
/// whoever looks for their own messages and for broadcasts does not find it.
fn recipients(to: &To) -> Option<Cow<'_, str>> {
    match to {
        To::Everyone => None,
        To::One(agent) => Some(agent.as_str().into()),
        To::Several(agents) => {
            let ids: Vec<&str> = agents.iter().map(|id| id.as_str()).collect();
            Some(ids.join(" ").into())
        }
    }
}

/// When a message was delivered and acknowledged, as its row shows it. To those who read the table one to several or to
/// everyone is dealt with: each of them has a copy of its own.
fn shown_message(message: &Message) -> (Option<Timestamp>, Option<Timestamp>) {
    let acknowledged = message.acknowledged.as_ref().map(|(_, at)| *at);
    match message.to {
        To::One(_) => (message.delivered_at, acknowledged),
        To::Everyone | To::Several(_) => (
            Some(message.created_at),
            Some(acknowledged.unwrap_or(message.created_at)),
        ),
    }
}

/// Tasks by status, as a JSON array.
fn counts(head: &Head) -> String {
    let mut counts = String::from("[");
    for (at, count) in head.tasks.iter().enumerate() {
        let _ = write!(counts, "{}{count}", if at == 0 { "" } else { "," });
    }
    counts.push(']');
    counts
}

/// The events of a batch, one line each.
pub(crate) fn log_body(log: &[Logged]) -> serde_json::Result<String> {
    let mut body = String::with_capacity(log.len() * 128);
    for logged in log {
        body.push_str(&serde_json::to_string(logged)?);
        body.push('\n');
    }
    Ok(body)
}
