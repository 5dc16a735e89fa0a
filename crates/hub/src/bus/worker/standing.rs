//! What the ledger says of a worker right now, and what it must be told for it.

use switchboard_core::verb::ReleaseTask;
use switchboard_core::{CommandKind, Task, TaskStatus};
use switchboard_wire::agentbus::message::{OperatorCommand, TaskRevoked};
use switchboard_wire::agentbus::{OperatorOrder, redact};

use super::super::frame::send;
use super::super::server::Shared;
use super::dispatch::Offer;
use super::{Held, Worker};
use crate::stream::{Ended, Standing};

impl Worker {
    /// Puts right what is held here: what the ledger took away is revoked, what it gave is known.
    pub(super) async fn refresh(&mut self, bus: &Shared) {
        if self.outbox.ended() == Some(Ended::Left) {
            return;
        }
        let (agent, tasks) = match self.stream.standing().await {
            Ok(Standing::Here(agent, tasks)) => (agent, tasks),
            Ok(Standing::Gone) => return self.sign_off(),
            Ok(Standing::Replaced) => return self.outbox.end(Ended::Replaced),
            Err(error) => return self.looks_again_after(&error),
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
            self.stream.leave_queue();
        }
        self.agent = agent;
        for task in &tasks {
            self.know_held(bus, task);
        }
        for held in lost {
            let reason = self.stream.why_lost(held.task.clone()).await;
            self.tell_revoked(&held, reason);
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
                        tracing::debug!(%error, "a command to release a task came too late");
                    }
                }
                // Any frame answers it.
                CommandKind::Ping => {}
            }
        }
        self.agent.commands = orders;
    }
}
