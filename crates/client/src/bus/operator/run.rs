//! The one task that owns an operator's connection.

use std::collections::VecDeque;

use switchboard_wire::agentbus::message::{
    CatalogDelta, CatalogSnapshot, EngramContent, OperatorAck, Outbound, ProjectStateSnapshot,
};
use switchboard_wire::agentbus::parts::Gather;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::{ORDERS_MAX, OperatorEvent, Order};
use crate::bus::backoff::{Backoff, GOOD_AFTER};
use crate::bus::dial::Dial;
use crate::bus::error::BusError;
use crate::bus::link::{self, Frame, Greeting, Keep, Link};
use crate::bus::pending::Pending;

/// Commands that wait for their answer at a time; no more are taken meanwhile.
const UNANSWERED_MAX: usize = 64;

pub(super) struct Runner {
    pub dial: Box<dyn Dial>,
    pub greeting: Greeting,
    pub keep: Keep,
    pub orders: mpsc::Receiver<Order>,
    pub pending: Pending<OperatorEvent>,
    pub backoff: Backoff,
    /// What was wanted while there was no connection.
    pub waiting: VecDeque<Order>,
    pub unanswered: Vec<Unanswered>,
}

/// A command by the number of its frame.
pub(super) struct Unanswered {
    seq: u64,
    answer: oneshot::Sender<Result<OperatorAck, BusError>>,
}

/// Messages that come in parts; begun anew with each connection.
#[derive(Default)]
struct Parts {
    snapshots: Gather<ProjectStateSnapshot>,
    catalogs: Gather<CatalogSnapshot>,
    deltas: Gather<CatalogDelta>,
    engrams: Gather<EngramContent>,
}

enum End {
    Cut(BusError),
    Closed(Option<oneshot::Sender<()>>),
}

impl Runner {
    pub async fn run(mut self) {
        let told = loop {
            let error = match self.connect().await {
                Ok(link) => {
                    let since = Instant::now();
                    let end = self.serve(link).await;
                    if since.elapsed() >= GOOD_AFTER {
                        self.backoff.reset();
                    }
                    end
                }
                Err(end) => end,
            };
            let error = match error {
                End::Closed(told) => break told,
                End::Cut(error) => error,
            };
            for asked in self.unanswered.drain(..) {
                // Whoever asked may be gone.
                let _ = asked.answer.send(Err(error.clone()));
            }
            if error.is_final() {
                self.pending.push(OperatorEvent::Ended(error));
                break None;
            }
            if let Err(told) = self.wait(error).await {
                break told;
            }
        };
        self.orders.close();
        if let Some(told) = told {
            // Whoever asked may be gone.
            let _ = told.send(());
        }
        while self.pending.is_waiting() {
            self.pending.hand_over().await;
        }
    }

    /// One try to connect. Commands wait until there is a connection.
    async fn connect(&mut self) -> Result<Link, End> {
        let Self {
            dial,
            greeting,
            keep,
            orders,
            pending,
            waiting,
            ..
        } = self;
        let (mut link, welcome) = {
            let open = Link::open(dial.as_ref(), greeting, *keep);
            tokio::pin!(open);
            loop {
                tokio::select! {
                    opened = &mut open => break opened.map_err(End::Cut)?,
                    order = orders.recv(), if waiting.len() < ORDERS_MAX => {
                        postpone(order, waiting).map_err(End::Closed)?;
                    }
                    () = pending.hand_over(), if pending.is_waiting() => {}
                }
            }
        };
        self.show(&mut link);
        self.pending.push(OperatorEvent::Connected(welcome));
        Ok(link)
    }

    async fn serve(&mut self, mut link: Link) -> End {
        let mut parts = Parts::default();
        while let Some(order) = self.waiting.pop_front() {
            self.take(Some(order), &mut link);
        }
        if let Err(error) = link.flush().await {
            return End::Cut(error);
        }
        loop {
            self.show(&mut link);
            tokio::select! {
                order = self.orders.recv(), if self.unanswered.len() < UNANSWERED_MAX => {
                    if let Some(told) = self.take(order, &mut link) {
                        link.close().await;
                        return End::Closed(told);
                    }
                    if let Err(error) = link.flush().await {
                        return End::Cut(error);
                    }
                }
                frame = link.next(), if !self.pending.is_waiting() => match frame {
                    Ok(frame) => if let Some(error) = self.hear(frame, &mut parts) {
                        self.show(&mut link);
                        return End::Cut(error);
                    },
                    Err(error) => return End::Cut(error),
                },
                () = self.pending.hand_over(), if self.pending.is_waiting() => {}
            }
        }
    }

    /// Carries out what the operator wants; `Some` if that is to leave.
    fn take(
        &mut self,
        order: Option<Order>,
        link: &mut Link,
    ) -> Option<Option<oneshot::Sender<()>>> {
        match order {
            // Whoever gave it does not wait any more, and thinks it was not carried out.
            Some(Order::Command(_, answer)) if answer.is_closed() => None,
            Some(Order::Command(command, answer)) => {
                self.unanswered
                    .retain(|waiting| !waiting.answer.is_closed());
                let seq = link.push(&command);
                self.unanswered.push(Unanswered { seq, answer });
                None
            }
            Some(Order::Send(message)) => {
                link.push(&message);
                None
            }
            Some(Order::Close(told)) => Some(Some(told)),
            None => Some(None),
        }
    }

    /// Takes a frame; what comes back ends the connection.
    fn hear(&mut self, frame: Frame, parts: &mut Parts) -> Option<BusError> {
        match &frame.message {
            Outbound::OperatorAck(ack) => self.answer(ack.ref_seq, Ok(ack.clone())),
            Outbound::Incompatible(told) => return Some(BusError::Incompatible(told.clone())),
            Outbound::Error(told) => {
                let error = link::refused(told.clone());
                if error.is_final() {
                    return Some(error);
                }
                if let Some(seq) = told.ref_seq {
                    self.answer(seq, Err(error));
                }
            }
            _ => {}
        }
        let Frame {
            from,
            sent_at,
            message,
        } = frame;
        if let Some(message) = parts.whole(message) {
            self.pending.push(OperatorEvent::Frame(Frame {
                from,
                sent_at,
                message,
            }));
        }
        None
    }

    fn answer(&mut self, seq: u64, answer: Result<OperatorAck, BusError>) {
        let place = self.unanswered.iter().position(|asked| asked.seq == seq);
        if let Some(place) = place {
            // Whoever asked may be gone.
            let _ = self.unanswered.swap_remove(place).answer.send(answer);
        }
    }

    /// Waits before the next try, unless the operator leaves meanwhile.
    async fn wait(&mut self, error: BusError) -> Result<(), Option<oneshot::Sender<()>>> {
        let retry_after = self.backoff.draw();
        let over = |event: &OperatorEvent| matches!(event, OperatorEvent::Disconnected { .. });
        let event = OperatorEvent::Disconnected { error, retry_after };
        self.pending.replace_last(event, over);
        let until = Instant::now() + retry_after;
        let Self {
            orders,
            pending,
            waiting,
            ..
        } = self;
        loop {
            tokio::select! {
                () = sleep_until(until) => return Ok(()),
                order = orders.recv(), if waiting.len() < ORDERS_MAX => postpone(order, waiting)?,
                () = pending.hand_over(), if pending.is_waiting() => {}
            }
        }
    }

    fn show(&mut self, link: &mut Link) {
        for (way, text) in link.kept() {
            self.pending.push(OperatorEvent::Line { way, text });
        }
    }
}

/// Keeps what was wanted for later; an operator that leaves does so now.
fn postpone(
    order: Option<Order>,
    waiting: &mut VecDeque<Order>,
) -> Result<(), Option<oneshot::Sender<()>>> {
    match order {
        Some(Order::Close(told)) => Err(Some(told)),
        Some(order @ (Order::Command(..) | Order::Send(_))) => {
            waiting.push_back(order);
            Ok(())
        }
        None => Err(None),
    }
}

impl Parts {
    fn whole(&mut self, message: Outbound<'static>) -> Option<Outbound<'static>> {
        match message {
            Outbound::Snapshot(part) => self.snapshots.add(part).map(Into::into),
            Outbound::CatalogSnapshot(part) => self.catalogs.add(part).map(Into::into),
            Outbound::CatalogDelta(part) => self.deltas.add(part).map(Into::into),
            Outbound::EngramContent(part) => self.engrams.add(part).map(Into::into),
            other => Some(other),
        }
    }
}
