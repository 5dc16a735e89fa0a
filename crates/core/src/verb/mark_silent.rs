//! Caretaker: agents without a sign of life lose their tasks and leases.

use super::ending::GiveBack;
use super::{Step, Verb};
use crate::agent::{Agent, CommandKind, Presence};
use crate::changes::Changes;
use crate::event::Event;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkSilent;

/// Agents looked at in one step; each may hold many tasks.
const STEP: usize = 16;
const LOST: GiveBack = GiveBack {
    crashed: true,
    why: "its agent fell silent",
};

impl Verb for MarkSilent {
    type Reply = Step;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        for agent in silent(want, now) {
            let _ = want.leases_of_agent(&agent.id);
            for id in &agent.holds {
                if let Some(task) = want.task(id) {
                    LOST.asks(want, task);
                }
            }
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Step, Changes), Refusal> {
        let mut changes = Changes::default();
        let silent = silent(&mut Want::new(slice), now);
        for known in &silent {
            let mut agent = (*known).clone();
            changes.event(Event::AgentSilent {
                agent: known.id.clone(),
            });
            for task in known.holds.iter().filter_map(|id| slice.task(id)) {
                LOST.apply(slice, &mut changes, task, &mut agent, now);
            }
            for lease in Want::new(slice).leases_of_agent(&known.id) {
                if !changes.ended_leases.contains(&lease.path) {
                    changes.ended_leases.push(lease.path.clone());
                    changes.event(Event::LeaseExpired {
                        path: lease.path.to_string(),
                        agent: lease.agent.clone(),
                    });
                }
            }
            agent
                .commands
                .retain(|command| !matches!(command.kind, CommandKind::Shutdown { .. }));
            agent.current = None;
            agent.presence = Presence::Silent {
                since: known.seen_at,
            };
            changes.agents.push(agent);
        }
        let done = silent.len();
        Ok((
            Step {
                done,
                more: done == STEP,
            },
            changes,
        ))
    }
}

fn silent<'a>(want: &mut Want<'a>, now: Timestamp) -> Vec<&'a Agent> {
    let floor = want.slice().head.floor;
    let since = now - limits::SILENT_AFTER;
    if floor >= since {
        return Vec::new();
    }
    let quiet = want.quiet_agents(since, STEP);
    let rows: Vec<_> = quiet.iter().filter_map(|id| want.agent(id)).collect();
    rows.into_iter()
        .filter(|agent| agent.is_live() && agent.is_silent(floor, now))
        .collect()
}
