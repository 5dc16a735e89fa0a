//! The other nodes are told which agents are here. Nobody is told what it was told before.

use super::Verb;
use crate::agent::Agent;
use crate::changes::Changes;
use crate::cursor::Announced;
use crate::id::{AgentId, CorrId};
use crate::node::{Gateway, Node, next_rev};
use crate::outbox::{Control, Dispatch, News};
use crate::refusal::Refusal;
use crate::route::gateway;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announce {
    pub agents: Vec<AgentId>,
    /// Also what was told before: somebody has joined who has not heard it.
    pub again: bool,
}

impl Verb for Announce {
    /// How many were news.
    type Reply = usize;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Gateway>("");
        want.privates::<Node>(&Node::all());
        for agent in &self.agents {
            want.agent(agent);
            want.private::<Announced>(agent.to_string());
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(usize, Changes), Refusal> {
        let mut want = Want::new(slice);
        let here = gateway(&mut want)?;
        let mut changes = Changes::default();
        if want.privates::<Node>(&Node::all()).is_empty() {
            return Ok((0, changes));
        }
        for agent in &self.agents {
            let is_live = slice.agent(agent).is_some_and(is_shown);
            let known = want.private::<Announced>(agent.to_string());
            let is_known = known.map_or(!is_live, |known| known.is_live == is_live);
            if is_known && !(self.again && is_live) {
                continue;
            }
            let rev = next_rev(known.map_or(0, |known| known.rev), now);
            let record = Control::Agent {
                agent: agent.clone(),
                is_live,
            };
            let salt = format!("{agent}|{rev}");
            let news = News::Signal { rev, record };
            let corr_id = CorrId::new(format!("corr_{}_{agent}", here.node_id));
            let told = Dispatch::own(&here.node_id, &salt, corr_id, news, now);
            changes.dispatches.push(told);
            changes.put(Announced {
                agent: agent.clone(),
                rev,
                is_live,
            });
        }
        Ok((changes.dispatches.len(), changes))
    }
}

/// Names of roles are each node's own: who is there as nothing else is not told elsewhere.
pub(super) fn is_shown(agent: &Agent) -> bool {
    let mut doors = agent.doors.iter();
    agent.is_live() && doors.any(|door| !door.policy().keeps)
}
