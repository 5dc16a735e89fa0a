//! Orders: what this node sent elsewhere and waits to hear of.
//!
//! An order is kept for each event that is to be answered, under the event's id: so the same publication is known again,
//! and what nobody answers is sent again, or given up.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capability::SkillRef;
use crate::id::{AgentId, CorrId, EventId, NodeId, TaskId};
use crate::limits;
use crate::node::Timings;
use crate::outbox::{Answer, AnswerKind, Dispatch, News, Standing};
use crate::record::{History, Private, RecordRange};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub event: EventId,
    /// Of the event.
    pub news: String,
    pub from: AgentId,
    pub corr_id: CorrId,
    /// Of what was published: another body under the same id is another event.
    pub sum: u64,
    /// Where it is in the outbox, the last time that it was sent.
    pub seq: u64,
    pub attempt: u32,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub destinations: Vec<Destination>,
    /// All that it is for, here and elsewhere.
    pub recipients: Vec<AgentId>,
    /// What it asks for beyond being accepted.
    pub wants: Wants,
    /// A task that another node does for somebody here.
    pub task: Option<TaskOrder>,
    /// Targets that were named and are nobody.
    pub ignored: Vec<AgentId>,
    /// When somebody must look at it again; absent once it has ended.
    pub look_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// What is sent again, until everybody has answered: the outbox need not have it any more.
    #[serde(default)]
    pub sent: Option<Box<Dispatch>>,
    #[serde(default)]
    pub timings: Timings,
}

/// A node that an event is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    pub node: NodeId,
    pub agents: Vec<AgentId>,
    pub state: Delivered,
    pub reason: Option<String>,
}

words! {
    /// What a destination has said so far.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Delivered {
        Emitted = "emitted",
        Accepted = "accepted",
        Processed = "processed",
        Failed = "failed",
        Dead = "dead",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Wants {
        Acceptance = "acceptance",
        /// A reply, or the outcome of a task.
        Outcome = "outcome",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOrder {
    pub task: TaskId,
    pub node: Option<NodeId>,
    pub requester: AgentId,
    pub response_required: bool,
    pub state: TaskOrderState,
    pub by: Option<AgentId>,
    pub eta_at: Option<Timestamp>,
    pub percent: Option<u8>,
    pub note: Option<String>,
    /// The capability that chose its node.
    pub capability: Option<String>,
    /// The skill that it is to install.
    #[serde(default)]
    pub installs: Option<SkillRef>,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum TaskOrderState {
        Emitted = "emitted",
        Accepted = "accepted",
        Claimed = "claimed",
        InProgress = "in_progress",
        Done = "done",
        Failed = "failed",
        Dead = "dead",
    }
}

impl TaskOrder {
    pub fn is_over(&self) -> bool {
        match self.state {
            TaskOrderState::Emitted
            | TaskOrderState::Accepted
            | TaskOrderState::Claimed
            | TaskOrderState::InProgress => false,
            TaskOrderState::Done | TaskOrderState::Failed | TaskOrderState::Dead => true,
        }
    }

    /// Whether this is the outcome that is known: sent again, because its answer was lost.
    pub fn ended_by(&self, news: &News) -> bool {
        match news {
            News::TaskComplete { .. } if self.installs.is_some() => self.is_over(),
            News::TaskComplete { .. } => self.state == TaskOrderState::Done,
            News::TaskFailed { .. } => self.state == TaskOrderState::Failed,
            News::Message(_)
            | News::Reply { .. }
            | News::TaskCreate(_)
            | News::TaskAccept { .. }
            | News::TaskUpdate { .. }
            | News::Ack(_)
            | News::Signal { .. }
            | News::DeadLetter { .. }
            | News::Other { .. } => false,
        }
    }

    /// Takes a step that the task's node tells.
    pub fn follow(&mut self, news: &News, by_own_clock: impl Fn(Timestamp) -> Timestamp) {
        match news {
            News::TaskAccept { by, eta_at, .. } => self.claimed(by, by_own_clock(*eta_at)),
            News::TaskUpdate {
                status,
                percent,
                note,
                revised_eta_at,
                ..
            } => {
                self.state = match status {
                    Standing::InProgress => TaskOrderState::InProgress,
                    Standing::Pending | Standing::Blocked => TaskOrderState::Accepted,
                };
                self.percent = percent.or(self.percent);
                self.note = note.clone().or_else(|| self.note.take());
                self.eta_at = revised_eta_at.map(by_own_clock).or(self.eta_at);
            }
            News::TaskComplete { by, .. } => {
                (self.state, self.by) = (TaskOrderState::Done, Some(by.clone()));
            }
            News::TaskFailed { by, error, .. } => {
                (self.state, self.by) = (TaskOrderState::Failed, Some(by.clone()));
                self.note = Some(error.clone());
            }
            News::Message(_)
            | News::Reply { .. }
            | News::TaskCreate(_)
            | News::Ack(_)
            | News::Signal { .. }
            | News::DeadLetter { .. }
            | News::Other { .. } => {}
        }
    }

    fn claimed(&mut self, by: &AgentId, eta_at: Timestamp) {
        self.state = TaskOrderState::Claimed;
        (self.by, self.eta_at) = (Some(by.clone()), Some(eta_at));
    }

    /// Takes an answer that says who took the task, and until when: it stands for an acceptance. `false` if it is none.
    pub fn accept(
        &mut self,
        answer: &Answer,
        by_own_clock: impl Fn(Timestamp) -> Timestamp,
    ) -> bool {
        let is_open = match self.state {
            TaskOrderState::Emitted | TaskOrderState::Accepted => true,
            TaskOrderState::Claimed
            | TaskOrderState::InProgress
            | TaskOrderState::Done
            | TaskOrderState::Failed
            | TaskOrderState::Dead => false,
        };
        let Some((by, eta_at)) = answer.accepted(&self.task).filter(|_| is_open) else {
            return false;
        };
        self.claimed(by, by_own_clock(eta_at));
        true
    }
}

/// The order that a task belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered {
    pub task: TaskId,
    pub event: EventId,
    pub at: Timestamp,
}

const ORDERED: &str = "ordered";

impl Private for Ordered {
    const HISTORY: Option<History> = Some(History {
        owner: ORDERED,
        kept_for: limits::DISPATCH_VALID_MAX,
    });

    fn key(&self) -> Cow<'static, str> {
        self.task.to_string().into()
    }

    fn owner(&self) -> &str {
        ORDERED
    }

    fn position(&self) -> Option<i64> {
        Some(self.at.0)
    }
}

const OPEN: &str = "open";
const ENDED: &str = "ended";

impl Private for Order {
    const HISTORY: Option<History> = Some(History {
        owner: ENDED,
        kept_for: limits::ORDERS_KEPT_FOR,
    });

    fn key(&self) -> Cow<'static, str> {
        self.event.to_string().into()
    }

    fn owner(&self) -> &str {
        match self.ended_at {
            None => OPEN,
            Some(_) => ENDED,
        }
    }

    fn position(&self) -> Option<i64> {
        Some(self.ended_at.unwrap_or(self.created_at).0)
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.look_at
    }
}

impl Order {
    /// For an event that one node is to answer.
    pub(crate) fn to_one(
        event: &Dispatch,
        node: NodeId,
        agent: &AgentId,
        timings: Timings,
    ) -> Order {
        let destination = Destination {
            node,
            agents: vec![agent.clone()],
            state: Delivered::Emitted,
            reason: None,
        };
        Order::new(event, vec![destination], timings)
    }

    /// Nothing is heard of it yet.
    pub(crate) fn new(event: &Dispatch, destinations: Vec<Destination>, timings: Timings) -> Order {
        let mut order = Order {
            event: event.id.clone(),
            news: event.news.kind().to_owned(),
            from: event.from.clone(),
            corr_id: event.corr_id.clone(),
            sum: 0,
            seq: 0,
            attempt: event.attempt,
            created_at: event.created_at,
            expires_at: event.expires_at,
            destinations,
            recipients: Vec::new(),
            wants: Wants::Acceptance,
            task: None,
            ignored: Vec::new(),
            look_at: Some(event.created_at + timings.answered_within()),
            ended_at: None,
            sent: Some(Box::new(event.clone())),
            timings,
        };
        order.settle(event.created_at);
        order
    }

    /// Those that are open, oldest first, or those that ended, newest first.
    pub fn range(has_ended: bool, limit: usize) -> RecordRange {
        let owner = if has_ended { ENDED } else { OPEN };
        RecordRange {
            newest_first: has_ended,
            ..RecordRange::of::<Order>(owner, limit)
        }
    }

    pub fn destination(&mut self, node: &NodeId) -> Option<&mut Destination> {
        self.destinations.iter_mut().find(|one| one.node == *node)
    }

    /// Whether every destination has said all that it will.
    pub fn is_settled(&self) -> bool {
        let is_over = |one: &Destination| match one.state {
            Delivered::Emitted => false,
            Delivered::Accepted => self.wants == Wants::Acceptance,
            Delivered::Processed | Delivered::Failed | Delivered::Dead => true,
        };
        self.destinations.iter().all(is_over)
    }

    /// Takes an answer; `false` if it changes nothing: it is nobody's that was asked, or says what is known.
    pub fn answer(
        &mut self,
        node: &NodeId,
        answer: AnswerKind,
        reason: Option<&str>,
        now: Timestamp,
    ) -> bool {
        let Some(one) = self.destination(node) else {
            return false;
        };
        let state = match answer {
            AnswerKind::Accepted => Delivered::Accepted,
            AnswerKind::Processed => Delivered::Processed,
            AnswerKind::Failed => Delivered::Failed,
        };
        // An answer never leads back, and none comes after the last one.
        if one.state >= state || one.state >= Delivered::Processed {
            return false;
        }
        one.state = state;
        one.reason = reason.map(str::to_owned);
        self.settle(now);
        true
    }

    /// Ends it if nothing more will come.
    pub fn settle(&mut self, now: Timestamp) {
        if !self.is_emitted() && !self.is_dead() {
            self.sent = None;
        }
        if self.ended_at.is_none() && self.is_settled() {
            self.ended_at = Some(now);
            self.look_at = None;
        } else if self.ended_at.is_none() && !self.is_emitted() {
            // Accepted everywhere: what is waited for now is the outcome.
            let eta_at = self.task.as_ref().and_then(|task| task.eta_at);
            let eta_at = eta_at.unwrap_or(self.created_at + limits::OUTCOME_WITHIN);
            self.look_at = Some(eta_at + self.timings.grace());
        }
    }

    /// It goes to another node, under the same id: the one that it went to does not take it.
    pub(crate) fn move_to(&mut self, node: NodeId, mut sent: Box<Dispatch>, now: Timestamp) {
        self.attempt += 1;
        sent.attempt = self.attempt;
        sent.to_node = Some(node.clone());
        if let Some(task) = &mut self.task {
            task.node = Some(node.clone());
            (task.state, task.note) = (TaskOrderState::Emitted, None);
        }
        self.destinations.push(Destination {
            node,
            agents: Vec::new(),
            state: Delivered::Emitted,
            reason: None,
        });
        self.sent = Some(sent);
        self.ended_at = None;
        self.look_at = Some(now + self.timings.answered_within());
    }

    /// A destination is gone: nothing more will come from there. `false` if nothing was waited for.
    pub(crate) fn lose(&mut self, node: &NodeId, reason: &str, now: Timestamp) -> bool {
        let wants = self.wants;
        let Some(one) = self.destination(node) else {
            return false;
        };
        let is_open = match one.state {
            Delivered::Emitted => true,
            Delivered::Accepted => wants == Wants::Outcome,
            Delivered::Processed | Delivered::Failed | Delivered::Dead => false,
        };
        if !is_open {
            return false;
        }
        (one.state, one.reason) = (Delivered::Dead, Some(reason.to_owned()));
        let task = self.task.as_mut().filter(|task| !task.is_over());
        if let Some(task) = task.filter(|task| task.node.as_ref() == Some(node)) {
            task.state = TaskOrderState::Dead;
            task.note = Some(reason.to_owned());
        }
        self.settle(now);
        true
    }

    /// Whether it was given up, for a destination at least.
    pub fn is_dead(&self) -> bool {
        let mut states = self.destinations.iter().map(|one| one.state);
        states.any(|state| state == Delivered::Dead)
    }

    /// Whether a destination has not answered at all.
    pub fn is_emitted(&self) -> bool {
        let mut states = self.destinations.iter().map(|one| one.state);
        states.any(|state| state == Delivered::Emitted)
    }
}

/// How long to wait for an answer to an attempt, before the next. Spread by the event's own id, since nothing is drawn here.
pub fn backoff(attempt: u32, event: &EventId) -> Duration {
    let seconds = 2_u64.saturating_pow(attempt.min(16));
    let base = Duration::from_secs(seconds).min(limits::RESEND_BACKOFF_MAX);
    let letters = event.as_str().bytes().map(u64::from);
    let spread = letters.fold(u64::from(attempt), |sum, letter| {
        sum.wrapping_mul(31).wrapping_add(letter)
    }) % 401;
    // Between four and six fifths of it.
    base * u32::try_from(800 + spread).unwrap_or(1000) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(wants: Wants) -> Order {
        let at = |node: &str| Destination {
            node: node.into(),
            agents: Vec::new(),
            state: Delivered::Emitted,
            reason: None,
        };
        Order {
            event: "evt_1".into(),
            news: "message".to_owned(),
            from: "A".into(),
            corr_id: "corr".into(),
            sum: 0,
            seq: 1,
            attempt: 1,
            created_at: Timestamp(1000),
            expires_at: Timestamp(9_000_000),
            destinations: vec![at("n1"), at("n2")],
            recipients: Vec::new(),
            wants,
            task: None,
            ignored: Vec::new(),
            look_at: Some(Timestamp(2000)),
            ended_at: None,
            sent: None,
            timings: Timings::default(),
        }
    }

    #[test]
    fn answers_only_lead_on_and_the_last_one_ends_it() {
        use AnswerKind::{Accepted, Failed, Processed};
        type Said = (&'static str, AnswerKind, bool);
        let table: [(Wants, &[Said], bool); 6] = [
            (Wants::Acceptance, &[("n1", Accepted, true)], false),
            (
                Wants::Acceptance,
                &[("n1", Accepted, true), ("n2", Accepted, true)],
                true,
            ),
            (
                Wants::Outcome,
                &[("n1", Accepted, true), ("n2", Accepted, true)],
                false,
            ),
            (
                Wants::Outcome,
                &[("n1", Processed, true), ("n2", Failed, true)],
                true,
            ),
            (
                Wants::Acceptance,
                &[
                    ("n1", Processed, true),
                    ("n1", Accepted, false),
                    ("n1", Failed, false),
                ],
                false,
            ),
            (Wants::Acceptance, &[("n3", Accepted, false)], false),
        ];
        for (wants, answers, ended) in table {
            let mut order = order(wants);
            for (node, answer, counts) in answers {
                let counted = order.answer(&(*node).into(), *answer, None, Timestamp(1500));
                assert_eq!(counted, *counts, "{wants} {node} {answer}");
            }
            assert_eq!(order.ended_at.is_some(), ended, "{wants} {answers:?}");
            assert_eq!(order.look_at.is_none(), ended, "{wants} {answers:?}");
        }
    }

    #[test]
    fn waits_grow_to_a_bound_and_are_spread_by_a_fifth() {
        let event = EventId::from("evt_1");
        for (attempt, seconds) in [
            (1, 2),
            (2, 4),
            (5, 32),
            (8, 256),
            (9, 300),
            (15, 300),
            (99, 300),
        ] {
            let waited = backoff(attempt, &event).as_millis();
            let base = seconds * 1000;
            assert!(
                (base * 8 / 10..=base * 12 / 10).contains(&waited),
                "{attempt}: {waited}"
            );
        }
        let spread: std::collections::BTreeSet<_> = (0..50)
            .map(|n| backoff(1, &format!("evt_{n}").into()))
            .collect();
        assert!(spread.len() > 40);
    }
}
