//! What the ledger says of a stream's agent right now, and what it must be told for it.

use switchboard_core::query::TaskRef;
use switchboard_core::verb::ReleaseTask;
use switchboard_core::{
    Agent, AgentId, Changes, CommandKind, Refusal, Slice, Task, TaskId, TaskState, Timestamp, Verb,
    Want,
};

use super::{Ended, Held, Stream, Voice};

impl<V: Voice> Stream<V> {
    /// Puts right what is held here: what the ledger took away is revoked, what it gave is known.
    pub async fn refresh(&mut self) {
        if self.voice.outbox().ended() == Some(Ended::Left) {
            return;
        }
        let agent = self.agent.id.clone();
        let (agent, tasks) = match self.hub.run(Look { agent }).await {
            Ok(Some((agent, tasks))) if !agent.is_gone() || agent.is_reached() => (agent, tasks),
            Ok(_) => return self.sign_off(),
            Err(error) => return self.looks_again_after(&error),
        };
        // Another stream has the agent, wherever it is connected: this one gets nothing more.
        let is_other = agent
            .stream
            .name
            .as_ref()
            .is_some_and(|it| *it != self.name);
        if is_other && self.terms.door.policy().one_stream {
            return self.voice.outbox().end(Ended::Replaced);
        }
        let is_held = |held: &Held| {
            tasks
                .iter()
                .any(|task| task.id == held.task && task.epoch == held.epoch)
        };
        let (kept, lost) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(is_held);
        self.held = kept;
        if !agent.is_described_as(&self.agent) {
            // It stands in the queue as what it was.
            self.waiter = None;
        }
        *self.agent = agent;
        for task in &tasks {
            self.know_held(task);
        }
        for held in lost {
            let reason = self.why_lost(held.task.clone()).await;
            self.voice.revoke(&held, reason);
            self.give_way();
        }
        self.hear_orders().await;
        self.hand_mail().await;
        self.seek_work().await;
    }

    /// What a person ordered: to stop, or to let go of a task.
    async fn hear_orders(&mut self) {
        for order in &self.agent.commands {
            match &order.kind {
                CommandKind::Shutdown { reason } => {
                    if !std::mem::replace(&mut self.told_to_stop, true) {
                        self.voice.stop(&self.agent.id, reason);
                    }
                }
                CommandKind::ReleaseTask { task, .. } => {
                    // A stream needs not be asked twice: it is taken away, and the agent is told.
                    let release = ReleaseTask {
                        task: task.clone(),
                        agent: None,
                        epoch: None,
                    };
                    if let Err(error) = self.hub.run(release).await {
                        tracing::debug!(%error, "a command to release a task came too late");
                    }
                }
                // Any frame answers it.
                CommandKind::Ping => {}
            }
        }
    }

    /// Why a task is no longer the agent's, in words for it.
    async fn why_lost(&self, task: TaskId) -> String {
        let which = TaskRef::Id(task);
        match self.hub.read(move |ledger| ledger.task(&which)).await {
            Ok(Some(task)) => what_became(&task, &self.agent.id),
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
pub(super) struct Look {
    pub agent: AgentId,
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
