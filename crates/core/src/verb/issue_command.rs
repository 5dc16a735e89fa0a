//! A person orders an agent to stop, to let go of a task, or to answer.

use super::Verb;
use crate::agent::{Command, CommandKind, Doing, Presence};
use crate::changes::Changes;
use crate::event::Event;
use crate::id::{AgentId, CommandId};
use crate::limits;
use crate::refusal::{NotYours, Refusal};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueCommand {
    pub agent: AgentId,
    pub id: CommandId,
    pub kind: CommandKind,
}

impl Verb for IssueCommand {
    type Reply = Command;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Command, Changes), Refusal> {
        let mut agent = super::speaker(slice, &self.agent)?.clone();
        if let Some(same) = agent
            .commands
            .iter()
            .find(|pending| same_order(&pending.kind, &self.kind))
        {
            return Ok((same.clone(), Changes::default()));
        }
        if agent.commands.len() >= limits::COMMANDS_PER_AGENT_MAX {
            return Err(Refusal::TooMany {
                what: "commands waiting for one agent",
                limit: limits::COMMANDS_PER_AGENT_MAX,
            });
        }
        let order = match &self.kind {
            CommandKind::Shutdown { .. } => {
                if agent.is_live() {
                    agent.presence = Presence::Live(Doing::Stopping);
                }
                "SHUTDOWN"
            }
            CommandKind::ReleaseTask { task, .. } => {
                if !agent.holds.contains(task) {
                    let why = NotYours::NotHolder { holder: None };
                    return Err(Refusal::TaskNotYours {
                        task: task.clone(),
                        why,
                    });
                }
                "RELEASE_TASK"
            }
            CommandKind::Ping => "PING",
        };
        let command = Command {
            id: self.id.clone(),
            kind: self.kind.clone(),
            at: now,
            handed: false,
        };
        agent.commands.push(command.clone());
        let mut changes = Changes::default();
        changes.event(Event::CommandIssued {
            agent: self.agent.clone(),
            command: self.id.clone(),
            order: order.to_owned(),
        });
        changes.agents.push(agent);
        Ok((command, changes))
    }
}

fn same_order(left: &CommandKind, right: &CommandKind) -> bool {
    match (left, right) {
        (CommandKind::Shutdown { .. }, CommandKind::Shutdown { .. })
        | (CommandKind::Ping, CommandKind::Ping) => true,
        (
            CommandKind::ReleaseTask { task: one, .. },
            CommandKind::ReleaseTask { task: other, .. },
        ) => one == other,
        (CommandKind::Shutdown { .. } | CommandKind::Ping | CommandKind::ReleaseTask { .. }, _) => {
            false
        }
    }
}
