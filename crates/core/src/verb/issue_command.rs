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
        changes.put(agent);
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

#[cfg(test)]
mod tests {
    use super::super::testing::{Standing, Swarm, order, word};
    use super::*;
    use crate::id::TaskId;
    use crate::task::TaskStatus;

    fn release(task: &str) -> CommandKind {
        CommandKind::ReleaseTask {
            task: task.into(),
            reason: "stuck".to_owned(),
        }
    }

    #[test]
    fn who_may_be_ordered_by_standing() {
        // jetpack.heartbeat.command_enum
        for standing in Standing::ALL {
            let outcome = Swarm::with_agent(standing).run(order("A", CommandKind::Ping));
            let expected = match standing {
                Standing::Unknown | Standing::Gone => "agent_not_registered",
                Standing::Live | Standing::Stopping | Standing::Silent => "ok",
            };
            assert_eq!(word(&outcome), expected, "{standing:?}");
        }
    }

    #[test]
    fn only_what_an_agent_holds_can_be_ordered_back() {
        let mut swarm = Swarm::with_task(TaskStatus::Claimed);
        assert_eq!(word(&swarm.run(order("B", release("T")))), "not_holder");
        assert_eq!(word(&swarm.run(order("A", release("T")))), "ok");
    }

    #[test]
    fn the_same_order_twice_is_one() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        let first = swarm.ok(order("A", CommandKind::Ping));
        let second = swarm.ok(IssueCommand {
            id: "o2".into(),
            ..order("A", CommandKind::Ping)
        });
        assert_eq!(second.id, first.id);
        assert!(swarm.said().is_empty());
        assert_eq!(swarm.agent("A").commands.len(), 1);
    }

    #[test]
    fn a_shutdown_shows_in_the_status() {
        let swarm = Swarm::with_agent(Standing::Stopping);
        assert_eq!(swarm.agent("A").status(), "shutting_down");
    }

    #[test]
    fn waiting_commands_are_bounded() {
        let mut swarm = Swarm::with_agent(Standing::Live);
        let most = limits::COMMANDS_PER_AGENT_MAX;
        let agent = swarm
            .agents
            .get_mut(&AgentId::from("A"))
            .expect("A is there");
        agent.holds = (0..=most)
            .map(|at| TaskId::from(format!("T{at}")))
            .collect();
        for at in 0..=most {
            let outcome = swarm.run(order("A", release(&format!("T{at}"))));
            let expected = if at < most { "ok" } else { "too_many" };
            assert_eq!(word(&outcome), expected, "command {at}");
        }
    }
}
