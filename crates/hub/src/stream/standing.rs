//! What the ledger says of a stream's agent right now, and what became of a task that it had.

use switchboard_core::query::TaskRef;
use switchboard_core::{
    Agent, AgentId, Changes, Refusal, Slice, Task, TaskId, TaskState, Timestamp, Verb, Want,
};

use super::Stream;
use crate::hub::Error;

/// How an agent and its stream stand.
pub(crate) enum Standing {
    /// The agent was signed off.
    Gone,
    /// Another stream has the agent, wherever it is connected: this one gets nothing more.
    Replaced,
    /// The agent, and the tasks that it holds.
    Here(Box<Agent>, Vec<Task>),
}

impl Stream {
    pub async fn standing(&self) -> Result<Standing, Error> {
        let agent = self.agent.clone();
        let Some((agent, tasks)) = self.hub.run(Look { agent }).await? else {
            return Ok(Standing::Gone);
        };
        let name = agent.stream.name.as_ref();
        Ok(match name.is_some_and(|name| *name != self.name) {
            _ if agent.is_gone() => Standing::Gone,
            true => Standing::Replaced,
            false => Standing::Here(Box::new(agent), tasks),
        })
    }

    /// Why a task is no longer the agent's, in words for it.
    pub async fn why_lost(&self, task: TaskId) -> String {
        let which = TaskRef::Id(task);
        match self.hub.read(move |ledger| ledger.task(&which)).await {
            Ok(Some(task)) => what_became(&task, &self.agent),
            Ok(None) => "it no longer exists".to_owned(),
            Err(_) => "taken away".to_owned(),
        }
    }
}

/// What became of a task that is not under the claim it was, in words for the one who had it.
pub(crate) fn what_became(task: &Task, agent: &AgentId) -> String {
    let failed = || {
        let failure = task.last_failure.as_ref();
        failure.map_or(String::new(), |failure| format!(": {}", failure.message))
    };
    match &task.state {
        TaskState::Claimed { by, .. } | TaskState::InProgress { by, .. } if by != agent => {
            format!("now held by {by}")
        }
        TaskState::Claimed { .. } | TaskState::InProgress { .. } => {
            format!(
                "that claim has ended, the current one is claim {}",
                task.epoch
            )
        }
        TaskState::Waiting => "taken back; it waits for its dependencies".to_owned(),
        TaskState::Ready => "taken back; it is ready for any agent".to_owned(),
        TaskState::RetryWait { .. } => format!("it will be retried later{}", failed()),
        TaskState::NeedsPerson { .. } => format!("it waits for a person{}", failed()),
        TaskState::Completed { by, .. } => format!("completed by {by}"),
        TaskState::Failed { .. } => format!("failed{}", failed()),
        TaskState::Canceled { .. } => "canceled".to_owned(),
    }
}

/// The agent and the tasks it holds; changes nothing.
struct Look {
    agent: AgentId,
}

impl Verb for Look {
    type Reply = Option<(Agent, Vec<Task>)>;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        if let Some(agent) = want.agent(&self.agent) {
            for task in &agent.holds {
                want.task(task);
            }
        }
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<(Self::Reply, Changes), Refusal> {
        let standing = slice.agent(&self.agent).map(|agent| {
            let holds = agent.holds.iter().filter_map(|id| slice.task(id).cloned());
            (agent.clone(), holds.collect())
        });
        Ok((standing, Changes::default()))
    }
}
