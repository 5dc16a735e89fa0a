//! What the ledger says of a worker right now, and what it must be told for it.

use switchboard_core::verb::ReleaseTask;
use switchboard_core::{
    Agent, AgentId, Changes, CommandKind, Refusal, Slice, Task, TaskState, TaskStatus, Timestamp,
    Verb, Want,
};
use switchboard_wire::agentbus::message::{OperatorCommand, TaskRevoked};
use switchboard_wire::agentbus::{OperatorOrder, redact};
use tokio::time::Instant;

use super::super::connection::send;
use super::super::outbox::Ended;
use super::super::server::Shared;
use super::dispatch::Offer;
use super::{Held, RETRY_AFTER, Worker};

/// The agent and the tasks it holds; changes nothing.
#[derive(Clone)]
struct Standing {
    agent: AgentId,
}

impl Verb for Standing {
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

/// How a task that left its hands ended, for the one who had it.
#[derive(Clone)]
struct WhatBecame {
    task: switchboard_core::TaskId,
}

impl Verb for WhatBecame {
    type Reply = Option<Task>;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.task(&self.task);
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<(Option<Task>, Changes), Refusal> {
        Ok((slice.task(&self.task).cloned(), Changes::default()))
    }
}

impl Worker {
    /// Puts right what is held here: what the ledger took away is revoked, what it gave is known.
    pub(super) async fn refresh(&mut self, bus: &Shared) {
        if self.outbox.ended() == Some(Ended::Left) {
            return;
        }
        let agent = self.id.clone();
        let (agent, tasks) = match bus.hub.run(Standing { agent }).await {
            Ok(Some((agent, _))) if agent.is_gone() => return self.sign_off(),
            Ok(Some(standing)) => standing,
            Ok(None) => return self.sign_off(),
            Err(error) => {
                if error.may_pass() {
                    self.look_at = Some(Instant::now() + RETRY_AFTER);
                }
                return;
            }
        };
        // Another stream has the agent, wherever it is connected: this one gets nothing more.
        let stream = agent.stream.name.as_ref();
        if stream.is_some_and(|name| *name != self.stream) {
            return self.outbox.end(Ended::Replaced);
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
            self.know_held(bus, task);
        }
        for held in lost {
            self.revoke(bus, &held).await;
            self.give_way();
        }
        self.hear_orders(bus).await;
        if self.agent.inbox > 0 {
            self.hand_mail(bus).await;
        }
        self.seek_work(bus).await;
    }

    /// Takes note of a task that is its own by the ledger.
    fn know_held(&mut self, bus: &Shared, task: &Task) {
        let is_accepted = task.status() == TaskStatus::InProgress;
        let is_pushed = self.assigns && task.watch.is_some();
        match self.held_mut(task.number) {
            // One that is asked whether it still knows of it has to say so itself.
            Some(held) if is_accepted && !held.accepted => {
                (held.accepted, held.answer_by) = (true, None);
            }
            Some(_) => {}
            // Pushed to it on a connection that was replaced, or in a commit of which nobody heard.
            None if is_pushed && !is_accepted => self.offer(bus, task, Offer::New),
            None => self.held.push(Held::of(task)),
        }
    }

    /// Tells it that a task is no longer its own.
    async fn revoke(&self, bus: &Shared, held: &Held) {
        let task = held.task.clone();
        let became = bus.hub.run(WhatBecame { task }).await;
        let reason = match became {
            Ok(Some(task)) => self.what_became(&task),
            Ok(None) => "no longer there".to_owned(),
            Err(_) => "taken away".to_owned(),
        };
        self.tell_revoked(held, reason);
    }

    /// What became of a task that is not under the claim it was, in words for the one who had it.
    pub(super) fn what_became(&self, task: &Task) -> String {
        let failed = || {
            let failure = task.last_failure.as_ref();
            failure.map_or(String::new(), |failure| format!(": {}", failure.message))
        };
        match &task.state {
            TaskState::Claimed { by, .. } | TaskState::InProgress { by, .. } if *by != self.id => {
                format!("now held by {by}")
            }
            TaskState::Claimed { .. } | TaskState::InProgress { .. } => {
                format!("an earlier claim has ended, claim {} is held", task.epoch)
            }
            TaskState::Waiting => "taken back; it waits for other tasks".to_owned(),
            TaskState::Ready => "taken back; it waits for whoever comes next".to_owned(),
            TaskState::RetryWait { .. } => format!("it will be tried again later{}", failed()),
            TaskState::NeedsPerson { .. } => format!("it waits for a person{}", failed()),
            TaskState::Completed { by, .. } => format!("completed by {by}"),
            TaskState::Failed { .. } => format!("failed{}", failed()),
            TaskState::Canceled { .. } => "canceled".to_owned(),
        }
    }

    pub(super) fn tell_revoked(&self, held: &Held, mut reason: String) {
        redact::clean(&mut reason);
        send(
            &self.outbox,
            TaskRevoked {
                issue_number: held.number,
                epoch: held.epoch,
                reason,
                corr_id: Some(held.corr_id.clone()).filter(|id| !id.is_empty()),
            },
        );
    }

    /// What a person ordered: to stop, or to let go of a task.
    pub(super) async fn hear_orders(&mut self, bus: &Shared) {
        let orders = std::mem::take(&mut self.agent.commands);
        for order in &orders {
            match &order.kind {
                CommandKind::Shutdown { reason } => {
                    if self.beat.told_to_stop {
                        continue;
                    }
                    self.beat.told_to_stop = true;
                    let reason = redact::text(reason).into_owned();
                    let mut command = OperatorCommand::plain(OperatorOrder::ShutdownWorker, reason);
                    command.target = Some(self.id.to_string());
                    send(&self.outbox, command);
                }
                CommandKind::ReleaseTask { task, .. } => {
                    // A stream needs not be asked twice: it is taken away, and the worker is told.
                    let release = ReleaseTask {
                        task: task.clone(),
                        agent: None,
                        epoch: None,
                    };
                    if let Err(error) = bus.hub.run(release).await {
                        tracing::debug!(%error, "an order to let go of a task came too late");
                    }
                }
                // Any frame answers it.
                CommandKind::Ping => {}
            }
        }
        self.agent.commands = orders;
    }
}
