//! A node with its agents, its caretaker and the steward who looks after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::super::super::testing::{Swarm, complete, fail, joined_as, progress, register};
use super::super::super::super::{
    Acknowledge, Announce, ChaseOrders, Claim, Claimed, CompactOutbox, Deregister, EndDeadlines,
    EndOverdue, ExpireMessages, Filter, Heartbeat, MarkSilent, Publish, Published, Receive,
    ReleaseRetries, Serve,
};
use super::super::{Gap, cursor, outbox};
use super::Draw;
use crate::agent::Doing;
use crate::cursor::{Announced, Cursor, Watermark};
use crate::doors::Door;
use crate::id::{AgentId, EventId, MessageId, NodeId, TaskId};
use crate::incident::Incident;
use crate::message::Sender;
use crate::node::Gateway;
use crate::order::Order;
use crate::outbox::Outgoing;
use crate::record::{Listed, Record};
use crate::task::Task;
use crate::time::Timestamp;

/// How long an event is kept that somebody has not read.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

pub struct Station {
    pub id: NodeId,
    pub swarm: Swarm,
    pub facts: Facts,
    /// By how many milliseconds its clock is ahead.
    pub ahead_ms: i64,
    /// Others read its outbox; otherwise it brings them its events.
    pub is_reached: bool,
    pub gap: Gap,
    /// Nobody serves it until then.
    pub away_until: Option<Timestamp>,
    /// Numbers of its outbox that it never shows, as one that is broken would not.
    pub hidden: BTreeSet<u64>,
    pub was_restored: bool,
    /// How far others have what it brings them, as they said; lost when it is started anew.
    pub places: BTreeMap<NodeId, u64>,
    backup: Option<(Swarm, Facts)>,
    epochs: u32,
}

/// What happened outside of its ledger, or had to.
#[derive(Clone, Default)]
pub struct Facts {
    pub published: BTreeMap<EventId, (Publish, Published)>,
    pub received: BTreeMap<(AgentId, MessageId), u32>,
    pub completed: BTreeMap<TaskId, u32>,
    /// Agents that signed off at least once.
    pub left: BTreeSet<AgentId>,
}

/// What a source answers to who asks for what comes next.
pub enum Answer {
    Page(Vec<Outgoing>),
    Mismatch,
    Expired { oldest: u64 },
}

impl Station {
    /// The node with this id, which knows of the others.
    pub fn new(id: &str, others: &[&str], agents: &[String]) -> Station {
        let mut swarm = Swarm::new();
        for other in others {
            joined_as(&mut swarm, id, other);
        }
        for agent in agents {
            swarm.join(agent, &["rust"]);
        }
        Station {
            id: id.into(),
            swarm,
            facts: Facts::default(),
            ahead_ms: 0,
            is_reached: true,
            gap: Gap::default(),
            away_until: None,
            hidden: BTreeSet::new(),
            was_restored: false,
            places: BTreeMap::new(),
            backup: None,
            epochs: 1,
        }
    }

    pub fn set_clock(&mut self, now: Timestamp) {
        self.swarm.now = Timestamp(now.0 + self.ahead_ms);
    }

    pub fn rows<'a, T: Listed + 'a>(&'a self) -> impl Iterator<Item = &'a T> {
        self.swarm.records.values().filter_map(T::of)
    }

    pub fn epoch(&self) -> String {
        let own = self.rows::<Gateway>().next().expect("it is a node");
        own.route_epoch.clone()
    }

    pub fn cursor(&self, source: &NodeId) -> Cursor {
        cursor(&self.swarm, source.as_str())
    }

    pub fn order(&self, event: &EventId) -> Option<&Order> {
        self.rows::<Order>().find(|order| order.event == *event)
    }

    pub fn agents(&self) -> Vec<AgentId> {
        self.swarm.agents.keys().cloned().collect()
    }

    /// What an incident of this kind is about.
    pub fn alarms(&self, kind: &str) -> impl Iterator<Item = &str> {
        let of = self.rows::<Incident>().filter(move |one| one.kind == kind);
        of.map(|one| one.subject.as_str())
    }

    /// Tasks that another node or this one gave, by the event that did.
    pub fn given(&self) -> impl Iterator<Item = (&EventId, &Task)> {
        let tasks = self.swarm.tasks.values();
        tasks.filter_map(|task| Some((&task.contract.as_ref()?.event, task)))
    }

    /// As a hub answers who has read up to here.
    pub fn page(&self, after: Option<u64>, last: Option<&EventId>, limit: usize) -> Answer {
        let watermark = self.rows::<Watermark>().next().cloned().unwrap_or_default();
        let from = after.unwrap_or(watermark.seq);
        if from > self.swarm.head.outbox {
            return Answer::Mismatch;
        }
        if from < watermark.seq {
            let oldest = watermark.seq + 1;
            return Answer::Expired { oldest };
        }
        let rows = outbox(&self.swarm);
        if let (Some(last), 1..) = (last, from)
            && !self.hidden.contains(&from)
        {
            let there = match from == watermark.seq {
                true => watermark.event.clone(),
                false => {
                    let row = rows.iter().find(|row| row.seq == from);
                    row.map(|row| row.event.id.clone())
                }
            };
            if there.as_ref() != Some(last) {
                return Answer::Mismatch;
            }
        }
        let rows = rows.into_iter();
        let rows = rows.filter(|row| row.seq > from && !self.hidden.contains(&row.seq));
        Answer::Page(rows.take(limit).collect())
    }

    /// Does what is due, as the caretaker does, and tells who came and went.
    pub fn sweep(&mut self) {
        let swarm = &mut self.swarm;
        while swarm.ok(ReleaseRetries).more {}
        while swarm.ok(ExpireMessages).more {}
        while swarm.ok(EndOverdue).more {}
        while swarm.ok(MarkSilent).more {}
        while swarm.ok(EndDeadlines).more {}
        while swarm.ok(ChaseOrders).more {}
        while swarm.ok(CompactOutbox { keep: KEEP }).more {}
        let known = self.rows::<Announced>().map(|known| known.agent.clone());
        let mut agents: Vec<AgentId> = known.collect();
        agents.extend(self.agents());
        let again = false;
        self.swarm.ok(Announce { agents, again });
    }

    /// An agent does what agents do.
    pub fn work(&mut self, draw: &mut Draw) {
        let Some(agent) = draw.one(&self.agents()) else {
            return;
        };
        if self.swarm.agent(agent.as_str()).is_gone() {
            if draw.percent(30) {
                self.swarm.ok(register(agent.as_str(), &["rust"]));
            }
            return;
        }
        match draw.below(10) {
            0..3 => self.receive(&agent, draw, true),
            3..6 => self.labour(&agent, draw, true),
            6 => self.beat(&agent),
            7 if draw.percent(30) => {
                self.swarm.ok(Deregister {
                    agent: agent.clone(),
                });
                self.facts.left.insert(agent);
            }
            _ => {}
        }
    }

    /// Everybody comes back and does all that is there to be done.
    pub fn work_off(&mut self, draw: &mut Draw) {
        for agent in self.agents() {
            if self.swarm.agent(agent.as_str()).is_gone() {
                self.swarm.ok(register(agent.as_str(), &["rust"]));
            }
            self.beat(&agent);
            while self.swarm.agent(agent.as_str()).inbox > 0 {
                self.receive(&agent, draw, false);
            }
            // Takes one, and ends it; then there is none.
            for _ in 0..2 * self.swarm.tasks.len() {
                self.labour(&agent, draw, false);
            }
        }
    }

    fn beat(&mut self, agent: &AgentId) {
        self.swarm.ok(Heartbeat {
            agent: agent.clone(),
            doing: Doing::Idle,
            task: None,
            metrics: None,
        });
    }

    fn receive(&mut self, agent: &AgentId, draw: &mut Draw, is_chaos: bool) {
        let received = self.swarm.ok(Receive {
            agent: agent.clone(),
            kinds: Vec::new(),
            limit: 1 + draw.below(8),
            via: Door::Jetpack,
        });
        for one in received {
            let id = one.message.id;
            let key = (agent.clone(), id.clone());
            *self.facts.received.entry(key).or_default() += 1;
            if one.message.ack_required && (!is_chaos || draw.percent(60)) {
                let (agent, via) = (agent.clone(), Door::Jetpack);
                let message = id;
                self.swarm.ok(Acknowledge {
                    agent,
                    message,
                    via,
                });
            }
        }
    }

    /// Goes on with what it holds, or takes something.
    fn labour(&mut self, agent: &AgentId, draw: &mut Draw, is_chaos: bool) {
        let id = agent.as_str();
        let holds = self.swarm.agent(id).holds.clone();
        let Some(task) = draw.one(&holds) else {
            let claimed = self.swarm.ok(Claim {
                agent: agent.clone(),
                filter: Filter::default(),
                task: None,
            });
            debug_assert!(matches!(claimed, Claimed::Task(_) | Claimed::None(_)));
            return;
        };
        match draw.below(if is_chaos { 6 } else { 1 }) {
            0..3 => {
                self.swarm.ok(complete(id, task.as_str()));
                *self.facts.completed.entry(task).or_default() += 1;
            }
            3 => {
                let mut failed = fail(id, task.as_str());
                failed.recoverable = draw.percent(70);
                self.swarm.ok(failed);
            }
            _ => {
                self.swarm.ok(progress(id, task.as_str()));
            }
        }
    }

    /// One of its agents publishes; what was accepted must be seen through.
    pub fn publish(&mut self, publish: &Publish) -> Option<Published> {
        let published = self.swarm.run(publish.clone()).ok()?;
        let known = (publish.clone(), published.clone());
        let before = self.facts.published.insert(publish.event.clone(), known);
        if let Some((_, mut before)) = before {
            // It may have been sent again since.
            before.seq = published.seq;
            assert_eq!(published, before, "the same publication");
        }
        Some(published)
    }

    pub fn speaker(&self, draw: &mut Draw) -> Option<Sender> {
        let agents = self.swarm.agents.values();
        let agents = agents.filter(|agent| !agent.is_gone());
        let agents: Vec<AgentId> = agents.map(|agent| agent.id.clone()).collect();
        draw.one(&agents).map(Sender::Agent)
    }

    pub fn save(&mut self) {
        self.backup = Some((self.swarm.clone(), self.facts.clone()));
    }

    /// Goes back to the last backup, if there is one. All that only it knew since then is lost.
    pub fn restore(&mut self, with_new_epoch: bool, now: Timestamp) -> bool {
        let Some((swarm, facts)) = self.backup.clone() else {
            return false;
        };
        self.swarm = swarm;
        let left = std::mem::take(&mut self.facts.left);
        self.facts = facts;
        self.facts.left.extend(left);
        self.was_restored = true;
        self.set_clock(now);
        let upto = self.swarm.head.outbox;
        self.hidden.retain(|seq| *seq <= upto);
        if with_new_epoch {
            self.epochs += 1;
            let mut own = self.rows::<Gateway>().next().expect("it is a node").clone();
            own.route_epoch = format!("route-epoch-{}-{}", self.id, self.epochs);
            let own = Record::from(own);
            self.swarm.records.insert(own.key(), own);
        }
        self.start();
        true
    }

    /// A hub begins to serve it.
    pub fn start(&mut self) {
        self.away_until = None;
        self.places.clear();
        self.swarm.ok(Serve { starting: true });
    }
}
