//! Where agents are: here, at another node, or nowhere.

use crate::agent::Agent;
use crate::capability::{Capability, is_granted};
use crate::cursor::{Cursor, FarAgent, Neighbour};
use crate::id::{AgentId, NodeId};
use crate::limits;
use crate::node::{Gateway, Node};
use crate::order::{Delivered, Destination};
use crate::outbox::Route;
use crate::refusal::{NoRoute, Refusal};
use crate::time::Timestamp;
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

/// Why named agents are nobody: there may be nodes that this one does not reach, nor they it.
pub(crate) fn nobody(want: &mut Want<'_>) -> NoRoute {
    let has_address = want
        .private::<Gateway>("")
        .is_some_and(|own| own.endpoint.is_some());
    let nodes = want.privates::<Node>(&Node::all());
    // Who followed an invite of this node knows where it is.
    let is_cut = |node: &&Node| node.endpoint.is_none() && node.vouched_by.is_some();
    let mut nodes = nodes.into_iter().filter(is_cut);
    match !has_address && nodes.any(|node| !is_read(want, &node.node_id)) {
        true => NoRoute::Unreachable,
        false => NoRoute::InvalidTargets,
    }
}

/// Whether anything of it was ever read.
fn is_read(want: &mut Want<'_>, node: &NodeId) -> bool {
    want.private::<Cursor>(node.to_string()).is_some()
}

/// The next node for what needs a capability, after those that were tried. Only others: it is not moved back here.
pub(crate) fn next_node(want: &mut Want<'_>, capability: &str, tried: &[NodeId]) -> Option<NodeId> {
    let known = want.private::<Capability>(capability.to_lowercase());
    let nodes = known.filter(|known| known.is_active())?.nodes();
    let mut others = nodes.into_iter().filter(|node| !tried.contains(node));
    others.find(|node| is_joined(want, node)).cloned()
}

/// This node. A hub makes it at its first start.
pub(crate) fn gateway<'a>(want: &mut Want<'a>) -> Result<&'a Gateway, Refusal> {
    want.private::<Gateway>("")
        .ok_or(Refusal::NoRoute(NoRoute::Unreachable))
}

/// Where something goes that needs capabilities.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chosen {
    /// `None` is this node.
    pub node: Option<NodeId>,
    /// Those of the node who may do it, as far as an index says so.
    pub agents: Vec<AgentId>,
    /// The capability that chose it.
    pub by: Option<Box<Capability>>,
}

/// The node that does what needs these capabilities: the owner of the first of them while
/// that is heard of, then those that stand in for it, then any with an agent that is eligible.
pub(crate) fn by_capability(
    want: &mut Want<'_>,
    required: &[String],
    now: Timestamp,
) -> Result<Chosen, Refusal> {
    if required.is_empty() {
        return Err(Refusal::NoRoute(NoRoute::MissingRouteFields));
    }
    let unavailable = Refusal::NoRoute(NoRoute::CapabilityUnavailable);
    let (named, plain): (Vec<&String>, Vec<&String>) =
        required.iter().partition(|word| is_granted(word));
    let rows = named
        .iter()
        .map(|id| want.private::<Capability>(id.to_lowercase()));
    let rows: Vec<Option<&Capability>> = rows.collect();
    let known: Vec<&Capability> = rows.iter().flatten().copied().collect();
    let is_known = known.len() == named.len() && known.iter().all(|one| one.is_active());
    let [first, ..] = &known[..] else {
        let present = want.present_agents().unwrap_or_default();
        let mut able = present.iter().filter_map(|id| want.agent(id));
        let is_able = named.is_empty() && able.any(|agent| is_eligible(agent, required));
        return is_able.then(Chosen::default).ok_or(unavailable);
    };
    let here = gateway(want)?;
    let mut is_unreached = false;
    for node in first.nodes().into_iter().filter(|_| is_known) {
        let is_here = *node == here.node_id;
        if !(is_here || plain.is_empty() && is_heard(want, node, now)) {
            continue;
        }
        let mut agents = first.eligible_at(node).to_vec();
        agents.retain(|id| {
            let is_named = |one: &&Capability| one.eligible_at(node).contains(id);
            known.iter().all(is_named)
                && match is_here {
                    true => want.agent(id).is_some_and(|one| is_eligible(one, required)),
                    false => is_live_at(want, id, node),
                }
        });
        let there = want.private::<Node>(node.to_string());
        let is_reached = is_here || there.is_some_and(|there| reaches(here, there));
        if !agents.is_empty() && is_reached {
            return Ok(Chosen {
                node: (!is_here).then(|| node.clone()),
                agents,
                by: Some(Box::new((*first).clone())),
            });
        }
        is_unreached |= !agents.is_empty();
    }
    Err(match is_unreached {
        true => Refusal::NoRoute(NoRoute::Unreachable),
        false => unavailable,
    })
}

/// Whether events come from one to the other. Those that joined each other found a way; others need an address.
fn reaches(here: &Gateway, there: &Node) -> bool {
    there.vouched_by.is_none() || there.endpoint.is_some() || here.endpoint.is_some()
}

/// Whether what a node owns is still its own: it was heard of, or has just joined.
fn is_heard(want: &mut Want<'_>, node: &NodeId, now: Timestamp) -> bool {
    let floor = want.slice().head.floor;
    let known = want.private::<Neighbour>(node.to_string());
    let joined = want.private::<Node>(node.to_string());
    let Some(joined) = joined.filter(|joined| joined.is_joined()) else {
        return false;
    };
    // While nobody served the ledger nobody could be heard of.
    let heard_at = known.map_or(joined.joined_at, |known| known.heard_at);
    now < heard_at.max(floor) + limits::OWNER_LEASE_FOR
}

/// Whether an agent that a node calls so is there.
fn is_live_at(want: &mut Want<'_>, agent: &AgentId, node: &NodeId) -> bool {
    let names = [agent.to_string(), format!("{agent}@{node}")];
    let mut found = names
        .into_iter()
        .filter_map(|name| want.private::<FarAgent>(name));
    found.any(|far| far.node == *node && far.home_id == *agent && far.is_live)
}

/// Whether an agent of this node may be given what needs these capabilities.
pub(crate) fn is_eligible(agent: &Agent, required: &[String]) -> bool {
    agent.is_live()
        && required
            .iter()
            .all(|skill| agent.skills.contains(&skill.to_lowercase()))
}
