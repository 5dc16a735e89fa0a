//! Caretaker: what other nodes were sent and did not answer is sent again, given up, or becomes an incident.

use super::{Sweep, Verb};
use crate::changes::Changes;
use crate::cursor::Subscriber;
use crate::incident::Alarm;
use crate::limits;
use crate::node::{Gateway, Node};
use crate::order::{Delivered, Destination, Order, TaskOrderState, backoff};
use crate::outbox::{Dispatch, FailureClass, News};
use crate::refusal::Refusal;
use crate::route::gateway;
use crate::skill_review::Mishap;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChaseOrders;

/// What is to be done about an order that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nobody it is for has read so far: an absent node refuses nothing.
    Wait,
    Resend,
    GiveUp(&'static str),
    /// It was accepted, and its outcome is late.
    Late,
}

impl Verb for ChaseOrders {
    type Reply = Sweep;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        let due = want.due_privates::<Order>(now, limits::CARETAKER_STEP);
        if due.is_empty() {
            return;
        }
        want.private::<Gateway>("");
        for order in due {
            match step(order, want, now) {
                Step::Wait | Step::Resend => {}
                Step::GiveUp(_) => dead_letter(order).asks(want),
                Step::Late => overdue(order).asks(want),
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Sweep, Changes), Refusal> {
        let mut want = Want::new(slice);
        let due = want.due_privates::<Order>(now, limits::CARETAKER_STEP);
        let mut changes = Changes::default();
        let done = due.len();
        if done > 0 {
            let here = gateway(&mut want)?;
            for order in due {
                let step = step(order, &mut want, now);
                take(slice, here, order.clone(), step, &mut changes, now);
            }
        }
        let more = done == limits::CARETAKER_STEP;
        Ok((Sweep { done, more }, changes))
    }
}

fn step(order: &Order, want: &mut Want<'_>, now: Timestamp) -> Step {
    let latest = order.created_at + limits::DISPATCH_VALID_MAX;
    match order.is_emitted() {
        false if now >= latest => return Step::GiveUp("no outcome"),
        false => return Step::Late,
        true => {}
    }
    if now >= order.expires_at {
        return Step::GiveUp("expired");
    }
    let waiting = order.destinations.iter();
    let mut waiting = waiting.filter(|one| one.state == Delivered::Emitted);
    let is_joined = |want: &mut Want<'_>, one: &Destination| {
        let node = want.private::<Node>(one.node.to_string());
        node.is_some_and(Node::is_joined)
    };
    if !waiting.clone().any(|one| is_joined(want, one)) {
        return Step::GiveUp("the node left");
    }
    let has_read = waiting.any(|one| {
        let known = want.private::<Subscriber>(one.node.to_string());
        known.is_some_and(|known| known.last_seq >= order.seq)
    });
    match has_read {
        false => Step::Wait,
        true if order.attempt >= limits::RESENDS_MAX => Step::GiveUp("no answer"),
        true => Step::Resend,
    }
}

fn take(
    slice: &Slice,
    here: &Gateway,
    mut order: Order,
    step: Step,
    changes: &mut Changes,
    now: Timestamp,
) {
    match step {
        Step::Wait => {
            // The longer it waits the less often somebody looks.
            let waited = now.since(order.created_at);
            let least = order.timings.answered_within();
            let pause = waited.clamp(least, limits::ABSENT_PAUSE_MAX.max(least));
            order.look_at = Some((now + pause).min(order.expires_at));
        }
        Step::Resend => {
            let attempt = order.attempt + 1;
            order.look_at = Some(now + backoff(attempt, &order.event));
            order.attempt = attempt;
            if let Some(sent) = &mut order.sent {
                sent.attempt = attempt;
                changes.dispatches.push((**sent).clone());
            }
        }
        Step::GiveUp(reason) => {
            give_up(here, &mut order, reason, changes, now);
            dead_letter(&order).raise(slice, changes, now);
        }
        Step::Late => {
            overdue(&order).raise(slice, changes, now);
            let named = order
                .task
                .as_ref()
                .and_then(|task| task.capability.as_deref());
            let class = FailureClass::SlaBreach;
            if let Some(mishap) = Mishap::of(named, class, &order.corr_id, now) {
                changes.put(mishap);
            }
            order.look_at = Some(order.created_at + limits::DISPATCH_VALID_MAX);
        }
    }
    changes.put(order);
}

/// A dead letter.
fn give_up(here: &Gateway, order: &mut Order, reason: &str, changes: &mut Changes, now: Timestamp) {
    // Who has answered still owes what it said.
    let behind = order.destinations.iter().map(|one| one.state).min();
    for one in &mut order.destinations {
        if Some(one.state) == behind {
            one.state = Delivered::Dead;
            one.reason = Some(reason.to_owned());
        }
    }
    if let Some(task) = &mut order.task {
        task.state = TaskOrderState::Dead;
        task.note = Some(reason.to_owned());
    }
    order.settle(now);
    tell_dead(here, order, reason, changes, now);
}

/// Who reads this node's outbox knows that nothing more will come.
pub(super) fn tell_dead(
    here: &Gateway,
    order: &Order,
    reason: &str,
    changes: &mut Changes,
    now: Timestamp,
) {
    let news = News::DeadLetter {
        event: order.event.clone(),
        kind: order.news.clone(),
        attempts: order.attempt,
        reason: reason.to_owned(),
    };
    let salt = order.event.to_string();
    let corr_id = order.corr_id.clone();
    let told = Dispatch::own(&here.node_id, &salt, corr_id, news, now);
    changes.dispatches.push(told);
}

pub(super) fn dead_letter(order: &Order) -> Alarm {
    let message = format!("was given up after {} attempts", order.attempt);
    alarm("dead_letter", order, &message)
}

fn overdue(order: &Order) -> Alarm {
    let message = "was accepted, and its outcome is overdue";
    alarm("outcome_overdue", order, message)
}

/// What a person should know of it.
fn alarm(kind: &'static str, order: &Order, what: &str) -> Alarm {
    let (news, event) = (&order.news, &order.event);
    let nodes = order.destinations.iter().map(|one| one.node.as_str());
    let nodes = nodes.collect::<Vec<_>>().join(", ");
    Alarm {
        kind,
        subject: event.to_string(),
        corr_id: Some(order.corr_id.clone()),
        message: format!("{news} {event} to {nodes} {what}"),
    }
}
