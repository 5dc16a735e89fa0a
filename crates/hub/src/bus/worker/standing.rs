//! What the ledger says of a worker right now, and what it must be told for it.

use switchboard_core::verb::ReleaseTask;
use switchboard_core::{
    Agent, AgentId, Changes, CommandKind, Refusal, Slice, Task, TaskStatus, Timestamp, Verb, Want,
};
use switchboard_wire::agentbus::OperatorOrder;
use switchboard_wire::agentbus::message::{OperatorCommand, TaskRevoked};
use tokio::time::Instant;

use super::super::connection::send;
use super::super::server::Shared;
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
            Some(held) if is_accepted => (held.accepted, held.answer_by) = (true, None),
            Some(_) => {}
            // Pushed to it on a connection that was replaced, or in a commit of which nobody heard.
            None if is_pushed && !is_accepted => self.offer(bus, task),
            None => self.held.push(Held::of(task)),
        }
    }

    /// Tells it that a task is no longer its own.
    async fn revoke(&self, bus: &Shared, held: &Held) {
        let task = held.task.clone();
        let became = bus.hub.run(WhatBecame { task }).await;
        let reason = match became {
            Ok(Some(task)) => match task.holder() {
                Some(holder) if *holder != self.id => format!("now held by {holder}"),
                Some(_) => "claimed anew".to_owned(),
                None => task.status().as_str().to_owned(),
            },
            Ok(None) => "no longer there".to_owned(),
            Err(_) => "taken away".to_owned(),
        };
        self.tell_revoked(held, reason);
    }

    pub(super) fn tell_revoked(&self, held: &Held, reason: String) {
        send(
            &self.outbox,
            TaskRevoked {
                issue_number: held.number,
                epoch: held.epoch,
                reason,
                corr_id: Some(held.corr_id.clone()),
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
                    let mut command =
                        OperatorCommand::plain(OperatorOrder::ShutdownWorker, reason.clone());
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
