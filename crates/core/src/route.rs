//! Where agents are: here, at another node, or nowhere.

use crate::agent::Agent;
use crate::cursor::FarAgent;
use crate::id::{AgentId, NodeId};
use crate::node::{Gateway, Node};
use crate::order::{Delivered, Destination};
use crate::outbox::Route;
use crate::refusal::{NoRoute, Refusal};
use crate::want::Want;

/// Agents by the node that they are at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    /// At this node, as they are called here.
    pub here: Vec<AgentId>,
    /// At others, as they are called there.
    pub far: Vec<Destination>,
    /// Nobody is called so, or whoever is has left.
    pub nobody: Vec<AgentId>,
    /// The node of the first one that is live, else of the first: `None` is this one.
    first: Option<Option<NodeId>>,
    is_first_live: bool,
}

impl Whereabouts {
    /// Looks up each of them, once.
    pub fn of(want: &mut Want<'_>, agents: &[AgentId]) -> Whereabouts {
        let mut found = Whereabouts::default();
        for agent in agents {
            found.look_up(want, agent);
        }
        found
    }

    fn look_up(&mut self, want: &mut Want<'_>, id: &AgentId) {
        let row = want.agent(id).filter(|row| !row.is_gone());
        if let Some(row) = row {
            if !self.here.contains(id) {
                self.here.push(id.clone());
                self.note(None, row.is_live());
            }
            return;
        }
        let far = want.private::<FarAgent>(id.to_string());
        let far = far.filter(|far| is_joined(want, &far.node));
        match far {
            Some(far) => self.add_far(far),
            None if !self.nobody.contains(id) => self.nobody.push(id.clone()),
            None => {}
        }
    }

    pub fn add_far(&mut self, far: &FarAgent) {
        let at = self.far.iter().position(|one| one.node == far.node);
        let at = at.unwrap_or_else(|| {
            self.far.push(Destination {
                node: far.node.clone(),
                agents: Vec::new(),
                state: Delivered::Emitted,
                reason: None,
            });
            self.far.len() - 1
        });
        let agents = &mut self.far[at].agents;
        if !agents.contains(&far.home_id) {
            agents.push(far.home_id.clone());
            self.note(Some(far.node.clone()), far.is_live);
        }
    }

    fn note(&mut self, node: Option<NodeId>, is_live: bool) {
        if self.first.is_none() || (is_live && !self.is_first_live) {
            self.first = Some(node);
            self.is_first_live = is_live;
        }
    }

    /// The node that a task for them goes to; `None` is this one.
    pub fn node(&self) -> Option<Option<&NodeId>> {
        self.first.as_ref().map(Option::as_ref)
    }

    /// The same by node.
    pub fn routes(&self, here: &NodeId) -> Vec<Route> {
        let far = self.far.iter().map(|one| Route {
            node: one.node.clone(),
            agents: one.agents.clone(),
        });
        let here = (!self.here.is_empty()).then(|| Route {
            node: here.clone(),
            agents: self.here.clone(),
        });
        here.into_iter().chain(far).collect()
    }

    /// All of them, wherever they are.
    pub fn all(&self) -> Vec<AgentId> {
        let far = self.far.iter().flat_map(|one| &one.agents);
        self.here.iter().chain(far).cloned().collect()
    }
}

pub(crate) fn is_joined(want: &mut Want<'_>, node: &NodeId) -> bool {
    let node = want.private::<Node>(node.to_string());
    node.is_some_and(Node::is_joined)
}

/// This node. A hub makes it at its first start.
pub(crate) fn gateway<'a>(want: &mut Want<'a>) -> Result<&'a Gateway, Refusal> {
    want.private::<Gateway>("")
        .ok_or(Refusal::NoRoute(NoRoute::Unreachable))
}

/// Whether an agent of this node may be given what needs these capabilities.
pub(crate) fn is_eligible(agent: &Agent, required: &[String]) -> bool {
    agent.is_live()
        && required
            .iter()
            .all(|skill| agent.skills.contains(&skill.to_lowercase()))
}
