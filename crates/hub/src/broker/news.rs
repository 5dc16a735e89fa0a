//! Whoever delegated a task by a message hears how it ended, whoever ended it and wherever.
//!
//! The message about an event has an id that follows from the event: however often it is looked at, it is said once.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::id::HUB_ROLE;
use switchboard_core::query::TaskRef;
use switchboard_core::recurrence::TIMES;
use switchboard_core::verb::{Say, Speaker};
use switchboard_core::{AgentId, Door, Event, Logged, MessageId, Priority, To, limits};
use switchboard_wire::squidrun::Target;
use tokio::sync::broadcast::Receiver;

use super::state::Broker;
use crate::wakeups::ends_errand;

/// Events before the last one that a start looks at again: what ended just before a crash.
const LOOK_BACK: u64 = 10_000;
/// What is older was told: that message may be forgotten by now, and would be said again.
const TOLD_AFTER: Duration = Duration::from_secs(12 * 3600);

/// Who documents what goes wrong again and again.
const ORACLE: &str = "oracle";

pub(super) async fn tell(broker: Arc<Broker>, mut news: Receiver<Option<Logged>>) {
    let mut after = broker.hub.latest().borrow().saturating_sub(LOOK_BACK);
    let mut looks = true;
    loop {
        if looks {
            after = look(&broker, after).await;
        }
        let heard = tokio::select! {
            heard = news.recv() => heard,
            () = broker.stopping.cancelled() => return,
        };
        looks = match heard {
            Ok(Some(logged)) => {
                after = after.max(logged.seq);
                tell_end(&broker, &logged).await;
                false
            }
            // Some went by unseen.
            Ok(None) | Err(_) => true,
        };
    }
}

/// Everything after this number; where it ends.
async fn look(broker: &Arc<Broker>, mut after: u64) -> u64 {
    loop {
        let read = broker
            .hub
            .read(move |ledger| ledger.events(after, limits::PAGE_MAX));
        let Ok(events) = read.await else { return after };
        let Some(last) = events.last() else {
            return after;
        };
        after = last.seq;
        let now = broker.hub.time();
        let is_recent = |logged: &&Logged| now.since(logged.at) < TOLD_AFTER;
        for logged in events.iter().filter(is_recent) {
            tell_end(broker, logged).await;
        }
    }
}

async fn tell_end(broker: &Arc<Broker>, logged: &Logged) {
    if let Event::FailureRecurred { agent, line, .. } = &logged.event {
        return tell_oracle(broker, logged.seq, agent, line).await;
    }
    if let Some((number, text, priority)) = words(broker, &logged.event).await
        && let Some(to) = requester(broker, &logged.event).await
    {
        let id = MessageId::from(format!("task-{number}-{}", logged.seq));
        let ack = broker.run_say(own_words(id, to, &text, priority)).await;
        if !ack.accepted {
            tracing::debug!(
                "the end of task #{number} could not be told: {:?}",
                ack.error
            );
        }
    }
}

/// A failure that comes again and again is to be documented, so that nobody else walks into it.
async fn tell_oracle(broker: &Broker, seq: u64, agent: &AgentId, line: &str) {
    let text = format!(
        "{agent} failed {TIMES} times within 24 hours with: {line}\n\
         Document it as negative knowledge; 'switchboard memory search' finds the entry."
    );
    let id = MessageId::from(format!("recurs-{seq}"));
    let say = own_words(id, To::One(ORACLE.into()), &text, Priority::High);
    broker.run_say(say).await;
}

/// What its requester hears of a task's end.
async fn words(broker: &Broker, event: &Event) -> Option<(u64, String, Priority)> {
    let task = ends_errand(event)?;
    let said = |what: &str, why: &str| match why.trim() {
        "" => what.to_owned(),
        why => format!("{what}: {why}"),
    };
    let (number, tag, rest, priority) = match event {
        Event::TaskCompleted { number, .. } => {
            let task = broker.task(TaskRef::Id(task.clone())).await;
            let result = task.and_then(|task| task.result);
            let summary = result.and_then(|json| summary(&json)).unwrap_or_default();
            (number, "FYI", said("done", &summary), Priority::Low)
        }
        Event::TaskNeedsPerson { number, why, .. } => {
            (number, "URGENT", said("needs you", why), Priority::Critical)
        }
        Event::TaskFailed {
            number, message, ..
        } => (
            number,
            "URGENT",
            said("failed", message),
            Priority::Critical,
        ),
        Event::TaskCanceled { number, .. } => (number, "FYI", "canceled".to_owned(), Priority::Low),
        _ => return None,
    };
    Some((*number, format!("[{tag}] task #{number} {rest}"), priority))
}

fn summary(result: &str) -> Option<String> {
    let result: serde_json::Value = serde_json::from_str(result).ok()?;
    result.get("summary")?.as_str().map(str::to_owned)
}

/// Who sent the message that made the task, if it has a mailbox.
async fn requester(broker: &Broker, event: &Event) -> Option<To> {
    let message = ends_errand(event)?.as_str().strip_prefix("sq:")?;
    let id = MessageId::from(message);
    let read = broker.hub.read(move |ledger| ledger.message(&id)).await;
    let (message, _) = read.ok()??;
    let target = broker.roles().target(message.from.as_str())?;
    (target != Target::Telegram).then(|| To::One(target.id()))
}

/// What the hub itself says; recipients get it under its own header.
pub(super) fn own_words(id: MessageId, to: To, text: &str, priority: Priority) -> Say {
    let payload = serde_json::json!({ "text": text }).to_string();
    let from = Speaker::Other(HUB_ROLE.into());
    Say {
        priority,
        ..Say::plain(Door::Squidrun, id, from, to, payload)
    }
}
