//! What an event of another node does here, by its kind, and what that node is answered.

use super::super::distribute::{installed_by, parts, take_up};
use super::super::publish::{create, sign, terms};
use super::super::{Send, Verb, Vouch};
use super::Consume;
use super::orders::is_overloaded;
use crate::changes::Changes;
use crate::cursor::{Cursor, FarAgent, Neighbour};
use crate::distribution::Distribution;
use crate::id::{AgentId, MessageId, NodeId};
use crate::incident::Alarm;
use crate::limits;
use crate::message::{Afar, Meaning, Message, Sender, To};
use crate::node::{Gateway, Node};
use crate::outbox::{Answer, AnswerKind, Commission, Control, Declined, Dispatch, Letter, News};
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

/// What the source is told of its event.
pub(super) struct Reply {
    pub answer: AnswerKind,
    pub by: Vec<AgentId>,
    pub eta_at: Option<Timestamp>,
    pub reason: Option<String>,
}

impl Reply {
    pub fn accepted(by: Vec<AgentId>) -> Reply {
        Reply {
            answer: AnswerKind::Accepted,
            by,
            eta_at: None,
            reason: None,
        }
    }

    pub fn failed(reason: &str) -> Reply {
        Reply {
            answer: AnswerKind::Failed,
            by: Vec::new(),
            eta_at: None,
            reason: Some(reason.to_owned()),
        }
    }
}

impl Consume {
    pub(super) fn ask_effects(&self, want: &mut Want<'_>, now: Timestamp) {
        self.declined(want);
        match &self.event.news {
            News::Message(letter) => {
                self.used_twice().asks(want);
                want.message(&self.message_id());
                let node = here(want);
                let here = ours(want, letter.at(&node));
                if let Some(send) = self.send(want, letter, here.well) {
                    send.asks(want, now);
                }
            }
            News::TaskCreate(task) => {
                self.used_twice().asks(want);
                want.task(&task.task);
                let audience = audience(want, task);
                let corr_id = &self.event.corr_id;
                match &task.installs {
                    Some(_) => {
                        want.private::<Distribution>(task.task.to_string());
                        parts(task, &audience, corr_id).asks(want, now);
                    }
                    None => create(task, &audience, corr_id).asks(want, now),
                }
                terms(want, task);
                is_overloaded(want, task, &audience, now);
            }
            News::Signal {
                record: Control::Agent { agent, .. },
                ..
            } => {
                want.agent(agent);
                want.private::<FarAgent>(agent.to_string());
                want.private::<FarAgent>(full_name(agent, &self.source));
                want.private::<Neighbour>(self.source.to_string());
                want.privates::<Neighbour>(&Neighbour::all());
                self.clash(agent).asks(want);
                self.too_many().asks(want);
            }
            News::Signal {
                rev,
                record: Control::Node(node),
            } => self.vouch(*rev, node).asks(want, now),
            News::Signal { record, .. } => self.ask_catalog(want, record),
            News::Ack(answer) => self.ask_order(want, &answer.to, now),
            News::Reply { to, .. } => self.ask_order(want, to, now),
            News::TaskAccept { task, .. }
            | News::TaskUpdate { task, .. }
            | News::TaskComplete { task, .. }
            | News::TaskFailed { task, .. } => self.ask_task_order(want, task, now),
            News::Other {
                kind,
                wrong: Some(wrong),
                ..
            } => self.malformed(kind, wrong).asks(want),
            News::DeadLetter { .. } | News::Other { .. } => {}
        }
    }

    /// An event's id that somebody else had before: the first one keeps it.
    fn used_twice(&self) -> Alarm {
        let what = format!("its event {} has the id of another one", self.event.id);
        Alarm {
            subject: format!("{} {}", self.source, self.event.id),
            ..self.alarm("event_id_clash", &what)
        }
    }

    fn malformed(&self, kind: &str, wrong: &str) -> Alarm {
        let what = format!("its {kind} {} counts for nothing: {wrong}", self.event.id);
        self.alarm("malformed_event", &what)
    }

    pub(super) fn take_effect(
        &self,
        slice: &Slice,
        here: &Gateway,
        changes: &mut Changes,
        cursor: &mut Cursor,
        now: Timestamp,
    ) {
        let news = &self.event.news;
        if let Some(known) = self.declined(&mut Want::new(slice)) {
            return self.tell(here, Reply::failed(&known.reason), changes, now);
        }
        let is_for_others = match &self.event.to_node {
            Some(node) => *node != here.node_id,
            None => false,
        };
        let reply = match news {
            News::Reply { .. }
            | News::TaskAccept { .. }
            | News::TaskUpdate { .. }
            | News::TaskComplete { .. }
            | News::TaskFailed { .. }
                if is_for_others =>
            {
                None
            }
            News::Message(letter) => self.deliver(slice, here, letter, changes, now),
            News::TaskCreate(task) => self.create(slice, here, task, changes, now),
            News::Reply { to, .. } => self.replied(slice, to, changes, now),
            News::Ack(answer) => {
                self.answered(slice, answer, changes, now);
                None
            }
            News::TaskAccept { .. } | News::TaskUpdate { .. } => {
                self.task_moved(slice, changes, now);
                None
            }
            News::TaskComplete { .. } | News::TaskFailed { .. } => {
                self.task_moved(slice, changes, now)
            }
            News::Signal { rev, record } => {
                self.note(slice, *rev, record, changes, now);
                None
            }
            News::DeadLetter { .. } => None,
            News::Other { kind, wrong, .. } => {
                cursor.passed_over += 1;
                if let Some(wrong) = wrong {
                    self.malformed(kind, wrong).raise(slice, changes, now);
                }
                None
            }
        };
        if let Some(reply) = reply {
            self.note_declined(&reply, changes, now);
            self.tell(here, reply, changes, now);
        }
    }

    /// What is sent again, and was answered with no.
    fn declined<'a>(&self, want: &mut Want<'a>) -> Option<&'a Declined> {
        if self.event.attempt == 1 {
            return None;
        }
        let known = want.private::<Declined>(self.event.id.to_string());
        known.filter(|known| known.source == self.source)
    }

    fn note_declined(&self, reply: &Reply, changes: &mut Changes, now: Timestamp) {
        if let (AnswerKind::Failed, Some(reason)) = (reply.answer, &reply.reason) {
            changes.put(Declined {
                event: self.event.id.clone(),
                source: self.source.clone(),
                reason: reason.clone(),
                at: now,
            });
        }
    }

    /// Clocks differ: it is given a moment more than it asks for. What was taken in before counts however late it comes
    /// again.
    fn is_over(&self, now: Timestamp) -> bool {
        now > self.event.expires_at + limits::DISPATCH_SKEW
    }

    pub(super) fn message_id(&self) -> MessageId {
        MessageId::from(self.event.id.as_str())
    }

    fn tell(&self, here: &Gateway, reply: Reply, changes: &mut Changes, now: Timestamp) {
        let answer = Answer {
            to: self.event.id.clone(),
            kind: self.event.news.kind().to_owned(),
            answer: reply.answer,
            by: reply.by,
            at: now,
            eta_at: reply.eta_at,
            reason: reply.reason,
            accepts: None,
        };
        let salt = format!("{}|{}", self.source, self.seq);
        let corr_id = self.event.corr_id.clone();
        let news = News::Ack(answer);
        let told = Dispatch::own(&here.node_id, &salt, corr_id, news, now);
        changes.dispatches.push(told);
    }

    /// To those of its recipients that are at this node; once, however often it comes.
    fn deliver(
        &self,
        slice: &Slice,
        here: &Gateway,
        letter: &Letter,
        changes: &mut Changes,
        now: Timestamp,
    ) -> Option<Reply> {
        let mut want = Want::new(slice);
        let found = ours(&mut want, letter.at(&here.node_id));
        if let Some(known) = slice.message(&self.message_id()) {
            let is_same = known.payload == letter.payload
                && known
                    .afar
                    .as_ref()
                    .is_some_and(|afar| afar.node == self.source);
            if !is_same {
                self.used_twice().raise(slice, changes, now);
            }
            return match is_same {
                true => Some(Reply::accepted(found.well)),
                false => Some(Reply::failed("event_exists")),
            };
        }
        let Some(send) = self.send(&mut want, letter, found.well.clone()) else {
            // Of its recipients none is at this node: somebody else answers.
            let reason = found.unwell?;
            return Some(Reply::failed(reason));
        };
        if self.is_over(now) {
            return Some(Reply::failed("expired"));
        }
        match send.decide(slice, now) {
            Ok((_, mut sent)) => {
                for message in sent.rows_mut::<Message>() {
                    message.afar = Some(Box::new(Afar {
                        node: self.source.clone(),
                        here: here.node_id.clone(),
                        timings: here.timings,
                    }));
                }
                changes.puts.extend(sent.puts);
                changes.events.extend(sent.events);
                Some(Reply::accepted(found.well))
            }
            Err(refusal) => Some(Reply::failed(word(&refusal))),
        }
    }

    fn send(&self, want: &mut Want<'_>, letter: &Letter, agents: Vec<AgentId>) -> Option<Send> {
        let to = To::agents(agents.iter().cloned())?;
        let (to, meaning) = match to.is_beyond() {
            None => (to, Meaning::Nothing),
            Some(_) => (To::Everyone, Meaning::Among(agents)),
        };
        Some(Send {
            id: self.message_id(),
            from: Sender::Person(self.name_of(want, &self.event.from)),
            to,
            kind: "custom".to_owned(),
            payload: letter.payload.clone(),
            ack_required: letter.expects_reply,
            priority: letter.priority,
            expires_in: None,
            corr_id: self.event.corr_id.clone(),
            meaning,
            claims: Vec::new(),
        })
    }

    /// A task that was given to this node is one like any other here.
    fn create(
        &self,
        slice: &Slice,
        here: &Gateway,
        task: &Commission,
        changes: &mut Changes,
        now: Timestamp,
    ) -> Option<Reply> {
        let audience = audience(&mut Want::new(slice), task);
        match &self.event.to_node {
            Some(node) if *node != here.node_id => return None,
            Some(_) => {}
            None if audience.is_empty() => return None,
            None => {}
        }
        let by = terms(&mut Want::new(slice), task);
        let able = |audience: Vec<AgentId>| match by {
            Some(by) if audience.is_empty() => by.eligible_at(&here.node_id).to_vec(),
            Some(_) | None => audience,
        };
        if let Some(known) = slice.task(&task.task) {
            let contract = known.contract.as_ref();
            let contract = contract.filter(|contract| contract.event == self.event.id);
            let is_same = contract.is_some_and(|contract| contract.origin == self.source);
            if contract.is_some() && !is_same {
                self.used_twice().raise(slice, changes, now);
            }
            return match is_same {
                true => Some(Reply::accepted(able(audience))),
                false => Some(Reply::failed("task_exists")),
            };
        }
        if self.is_over(now) {
            return Some(Reply::failed("expired"));
        }
        if audience.is_empty() && !task.to.is_empty() {
            return Some(Reply::failed("invalid_target"));
        }
        if task.installs.is_some() {
            return Some(self.distribute(slice, here, task, audience, changes, now));
        }
        if task.to.is_empty()
            && by.is_some_and(|by| !by.is_active() || by.eligible_at(&here.node_id).is_empty())
        {
            return Some(Reply::failed("capability_unavailable"));
        }
        if is_overloaded(&mut Want::new(slice), task, &audience, now) {
            return Some(Reply::failed("overloaded"));
        }
        let made = create(task, &audience, &self.event.corr_id).decide(slice, now);
        let made = match made {
            Ok((_, made)) => made,
            Err(refusal) => return Some(Reply::failed(word(&refusal))),
        };
        changes.puts.extend(made.puts);
        changes.events.extend(made.events);
        let origin = (here, &self.source, &self.event.id);
        let eta_at = sign(slice, changes, task, &self.event.corr_id, origin, now);
        Some(Reply {
            eta_at: Some(eta_at),
            ..Reply::accepted(able(audience))
        })
    }

    /// Each of its agents here is asked to install a skill.
    fn distribute(
        &self,
        slice: &Slice,
        here: &Gateway,
        task: &Commission,
        audience: Vec<AgentId>,
        changes: &mut Changes,
        now: Timestamp,
    ) -> Reply {
        let known = Want::new(slice).private::<Distribution>(task.task.to_string());
        let origin = (&self.source, &self.event.id, &self.event.corr_id);
        let is_taken = match known {
            Some(known) => known.event == self.event.id,
            None => take_up(slice, here, task, origin, &audience, changes, now),
        };
        match is_taken {
            true => Reply {
                eta_at: installed_by(task),
                ..Reply::accepted(audience)
            },
            false => Reply::failed("task_exists"),
        }
    }

    fn vouch(&self, rev: u64, node: &Node) -> Vouch {
        Vouch {
            source: self.source.clone(),
            node: Node {
                rev,
                ..node.clone()
            },
        }
    }

    /// What all nodes know, as its writer says it is.
    fn note(
        &self,
        slice: &Slice,
        rev: u64,
        record: &Control,
        changes: &mut Changes,
        now: Timestamp,
    ) {
        let (agent, is_live) = match record {
            Control::Agent { agent, is_live } => (agent, is_live),
            Control::Node(node) => {
                if let Ok((_, made)) = self.vouch(rev, node).decide(slice, now) {
                    changes.puts.extend(made.puts);
                    changes.events.extend(made.events);
                    changes.dispatches.extend(made.dispatches);
                }
                return;
            }
            Control::Catalog { .. }
            | Control::Index { .. }
            | Control::Routing { .. }
            | Control::Other { .. } => {
                return self.note_capability(slice, rev, record, changes, now);
            }
        };
        let mut want = Want::new(slice);
        let by_name = want.private::<FarAgent>(agent.to_string());
        let other = by_name.filter(|known| known.node != self.source);
        let is_ours = slice.agent(agent).is_some_and(|known| !known.is_gone());
        // Of two nodes the one whose id sorts first has the name, whichever came first.
        let is_taken = is_ours || other.is_some_and(|other| other.node < self.source);
        let name = match is_taken {
            true => full_name(agent, &self.source),
            false => agent.to_string(),
        };
        let known = want.private::<FarAgent>(name.clone());
        let known = known.filter(|known| known.node == self.source);
        if known.is_some_and(|known| known.rev >= rev) {
            return;
        }
        if known.is_none() && !self.counts_one_more(slice, changes, now) {
            return;
        }
        if let Some(other) = other.filter(|_| !is_taken) {
            changes.put(FarAgent {
                agent: full_name(agent, &other.node).into(),
                ..other.clone()
            });
        }
        if (is_taken || other.is_some()) && *is_live && known.is_none() {
            self.clash(agent).raise(slice, changes, now);
        }
        changes.put(FarAgent {
            agent: name.into(),
            home_id: agent.clone(),
            node: self.source.clone(),
            rev,
            is_live: *is_live,
        });
    }

    /// So many agents of other nodes are known here, and no more.
    fn counts_one_more(&self, slice: &Slice, changes: &mut Changes, now: Timestamp) -> bool {
        let mut want = Want::new(slice);
        let all = want.privates::<Neighbour>(&Neighbour::all());
        let count: usize = all.iter().map(|one| one.agents as usize).sum();
        if count >= limits::FAR_AGENTS_MAX {
            self.too_many().raise(slice, changes, now);
            return false;
        }
        let known = want.private::<Neighbour>(self.source.to_string()).cloned();
        let known = known.unwrap_or_else(|| Neighbour::new(self.source.clone(), now));
        changes.put(Neighbour {
            agents: known.agents + 1,
            ..known
        });
        true
    }

    fn too_many(&self) -> Alarm {
        let max = limits::FAR_AGENTS_MAX;
        let what = format!("it has agents that are not known here: {max} of other nodes are");
        self.alarm("too_many_agents", &what)
    }

    /// What somebody at the source is called here: by its own name only if the source said that it has this agent, and
    /// nobody here ever had the name.
    pub(super) fn name_of(&self, want: &mut Want<'_>, agent: &AgentId) -> AgentId {
        let is_here = want.agent(agent).is_some();
        let far = want.private::<FarAgent>(agent.to_string());
        let is_theirs = far.is_some_and(|far| far.node == self.source && far.home_id == *agent);
        match is_theirs && !is_here && !agent.is_reserved() {
            true => agent.clone(),
            false => full_name(agent, &self.source).into(),
        }
    }

    fn clash(&self, agent: &AgentId) -> Alarm {
        let name = full_name(agent, &self.source);
        let what = format!(
            "its agent {agent} has a name that is taken; the one whose node's id sorts later is called <agent>@<node> here"
        );
        Alarm {
            subject: name,
            ..self.alarm("agent_id_clash", &what)
        }
    }
}

/// What an agent of a node is called where somebody else has its name.
fn full_name(agent: &AgentId, node: &NodeId) -> String {
    format!("{agent}@{node}")
}

/// This node; nobody, while it is not loaded.
fn here(want: &mut Want<'_>) -> NodeId {
    let own = want.private::<Gateway>("");
    own.map_or_else(|| NodeId::from(""), |own| own.node_id.clone())
}

/// Those who may take a task, as far as they are here.
fn audience(want: &mut Want<'_>, task: &Commission) -> Vec<AgentId> {
    let known = task.to.iter().filter_map(|id| want.agent(id));
    let here = known.filter(|agent| !agent.is_gone());
    here.map(|agent| agent.id.clone()).collect()
}

/// Recipients of this node.
struct Ours {
    /// Those that can be handed something.
    well: Vec<AgentId>,
    /// Why the others cannot, if there are any.
    unwell: Option<&'static str>,
}

fn ours(want: &mut Want<'_>, agents: &[AgentId]) -> Ours {
    let mut ours = Ours {
        well: Vec::new(),
        unwell: None,
    };
    for id in agents {
        match want.agent(id) {
            None => {}
            Some(row) if row.is_gone() => ours.unwell = Some("invalid_target"),
            Some(row) if row.inbox >= limits::INBOX_MAX => ours.unwell = Some("overloaded"),
            Some(row) => ours.well.push(row.id.clone()),
        }
    }
    ours
}

/// The word by which another node hears of a refusal.
pub(super) fn word(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::TooMany { .. } => "overloaded",
        Refusal::TaskAlreadyExists { .. } => "task_exists",
        Refusal::MessageAlreadyExists { .. } => "event_exists",
        Refusal::RecipientNotFound { .. } | Refusal::AgentNotRegistered { .. } => "invalid_target",
        Refusal::AgentAlreadyRegistered { .. }
        | Refusal::TaskNotFound { .. }
        | Refusal::TaskNotYours { .. }
        | Refusal::WrongState { .. }
        | Refusal::UnknownDependency { .. }
        | Refusal::DependencyCycle { .. }
        | Refusal::MessageNotFound { .. }
        | Refusal::NotARecipient { .. }
        | Refusal::OwnerBinding { .. }
        | Refusal::LeaseNotYours { .. }
        | Refusal::LeaseNotFound { .. }
        | Refusal::StaleFencingToken { .. }
        | Refusal::KeyReused
        | Refusal::Replayed
        | Refusal::TokenNotFound
        | Refusal::IncidentNotFound { .. }
        | Refusal::ClaimNotFound { .. }
        | Refusal::DutyLost { .. }
        | Refusal::SnapshotNotFound { .. }
        | Refusal::NodeNotFound { .. }
        | Refusal::NotAdmitted(_)
        | Refusal::EventAlreadyExists { .. }
        | Refusal::Denied(_)
        | Refusal::CapabilityNotFound { .. }
        | Refusal::VersionExists { .. }
        | Refusal::WrongNode { .. }
        | Refusal::ReviewNotFound { .. }
        | Refusal::Unjudged { .. }
        | Refusal::DeadLetterNotFound { .. }
        | Refusal::NoRoute(_)
        | Refusal::Job { .. }
        | Refusal::Invalid { .. } => "policy_blocked",
    }
}
