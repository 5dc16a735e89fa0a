//! The one task that owns a worker's connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use switchboard_wire::agentbus::message::{Inbound, Outbound, Welcome, WorkerLeaving};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::desk::Desk;
use super::{Order, WorkerEvent};
use crate::bus::backoff::{Backoff, GOOD_AFTER};
use crate::bus::dial::Dial;
use crate::bus::error::BusError;
use crate::bus::link::{self, Greeting, Keep, Link};
use crate::bus::pending::Pending;

/// Who closes without a connection waits so long for one, if something urgent is left.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// So long a worker that leaves waits for the answer to its last result, and again for the end of the connection.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

pub(super) struct Runner {
    pub dial: Box<dyn Dial>,
    pub greeting: Greeting,
    pub keep: Keep,
    pub orders: mpsc::Receiver<Order>,
    pub pending: Pending<WorkerEvent>,
    pub desk: Desk,
    pub backoff: Backoff,
    pub line_max: Arc<AtomicUsize>,
    pub began: Instant,
}

/// The worker wants to go.
#[derive(Default)]
struct Leaving {
    until: Option<Instant>,
    told: Vec<oneshot::Sender<()>>,
}

/// How a connection ended.
enum End {
    Cut(BusError),
    Closed,
}

impl Runner {
    pub async fn run(mut self) {
        let mut leaving = Leaving::default();
        loop {
            let error = match self.connect(&mut leaving).await {
                Ok(None) => break,
                Ok(Some(link)) => {
                    let since = Instant::now();
                    let end = self.serve(link, &mut leaving).await;
                    self.desk.cut(self.now());
                    if since.elapsed() >= GOOD_AFTER {
                        self.backoff.reset();
                    }
                    match end {
                        End::Closed => break,
                        End::Cut(error) => error,
                    }
                }
                Err(error) => error,
            };
            if error.is_final() {
                self.pending.push(WorkerEvent::Ended(error));
                break;
            }
            if !self.wait(error, &mut leaving).await {
                break;
            }
        }
        self.orders.close();
        for told in leaving.told {
            // Whoever asked may be gone.
            let _ = told.send(());
        }
        while self.pending.is_waiting() {
            self.pending.hand_over().await;
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn at(&self, due: u64) -> Instant {
        // Far enough for anything that is due at all, near enough to be an instant.
        const FAR: u64 = 365 * 24 * 3600 * 1000;
        self.began + Duration::from_millis(due.min(self.now().saturating_add(FAR)))
    }

    /// One try to connect; the worker is listened to meanwhile. `None` if it left.
    async fn connect(&mut self, leaving: &mut Leaving) -> Result<Option<Link>, BusError> {
        let Self {
            dial,
            greeting,
            keep,
            orders,
            pending,
            desk,
            ..
        } = self;
        let (mut link, welcome) = {
            let open = Link::open(dial.as_ref(), greeting, *keep);
            tokio::pin!(open);
            loop {
                tokio::select! {
                    opened = &mut open => break opened?,
                    order = orders.recv(), if leaving.takes_more(desk) => {
                        if take(order, desk, leaving) && !desk.has_unsent() {
                            return Ok(None);
                        }
                    }
                    () = leaving.patience() => return Ok(None),
                    () = pending.hand_over(), if pending.is_waiting() => {}
                }
            }
        };
        self.opened(&welcome);
        self.show(&mut link);
        self.pending.push(WorkerEvent::Connected(welcome));
        Ok(Some(link))
    }

    fn opened(&mut self, welcome: &Welcome) {
        self.desk.opened(welcome);
        if let Some(limits) = welcome.limits {
            let max = usize::try_from(limits.max_message_bytes).unwrap_or(usize::MAX);
            self.line_max.store(max, Ordering::Relaxed);
        }
    }

    /// Frames both ways, until the connection ends.
    async fn serve(&mut self, mut link: Link, leaving: &mut Leaving) -> End {
        loop {
            if leaving.until.is_some() {
                return self.leave(link).await;
            }
            let now = self.now();
            if self.desk.due_at() <= now {
                for frame in self.desk.frames(now) {
                    link.push(&frame);
                }
                self.show(&mut link);
                if let Err(error) = link.flush().await {
                    return End::Cut(error);
                }
            }
            let due = self.at(self.desk.due_at());
            let Self {
                orders,
                pending,
                desk,
                ..
            } = self;
            tokio::select! {
                order = orders.recv(), if !desk.is_full() => {
                    take(order, desk, leaving);
                }
                frame = link.next(), if !pending.is_waiting() => match frame {
                    Ok(frame) => {
                        if let Some(error) = last_word(&frame.message) {
                            self.show(&mut link);
                            return End::Cut(error);
                        }
                        let heard = desk.hear(frame.message);
                        self.show(&mut link);
                        if let Some(event) = heard {
                            self.pending.push(event);
                        }
                    }
                    Err(error) => return End::Cut(error),
                },
                () = pending.hand_over(), if pending.is_waiting() => {}
                () = sleep_until(due) => {}
            }
        }
    }

    /// Says the last things, waits for what is owed to them, and leaves: the director gives back what the worker holds
    /// and ends the connection.
    async fn leave(&mut self, mut link: Link) -> End {
        let until = Instant::now() + LEAVE_WITHIN;
        for frame in self.desk.last_frames(self.now()) {
            link.push(&frame);
        }
        let mut said = false;
        loop {
            if !said && (!self.desk.has_unanswered() || Instant::now() >= until) {
                said = true;
                let reason = Some("the worker was stopped".to_owned());
                link.push(&Inbound::from(WorkerLeaving { reason }));
            }
            self.show(&mut link);
            if let Err(error) = link.flush().await {
                return if said { End::Closed } else { End::Cut(error) };
            }
            let until = if said { until + LEAVE_WITHIN } else { until };
            match timeout_at(until, link.next()).await {
                // Nothing more is begun.
                Ok(Ok(frame)) => match self.desk.hear(frame.message) {
                    Some(WorkerEvent::Assigned(_)) | None => {}
                    Some(event) => self.pending.push(event),
                },
                Ok(Err(_)) | Err(_) if said => break,
                Ok(Err(error)) => return End::Cut(error),
                Err(_) => {}
            }
        }
        self.show(&mut link);
        link.close().await;
        End::Closed
    }

    /// Waits before the next try; `false` if the worker left meanwhile.
    async fn wait(&mut self, error: BusError, leaving: &mut Leaving) -> bool {
        let retry_after = self.backoff.draw();
        let over = |event: &WorkerEvent| matches!(event, WorkerEvent::Disconnected { .. });
        let event = WorkerEvent::Disconnected { error, retry_after };
        self.pending.replace_last(event, over);
        if leaving.until.is_some() && !self.desk.has_unsent() {
            return false;
        }
        let until = Instant::now() + retry_after;
        let Self {
            orders,
            pending,
            desk,
            ..
        } = self;
        loop {
            tokio::select! {
                () = sleep_until(until) => return true,
                order = orders.recv(), if leaving.takes_more(desk) => {
                    if take(order, desk, leaving) && !desk.has_unsent() {
                        return false;
                    }
                }
                () = leaving.patience() => return false,
                () = pending.hand_over(), if pending.is_waiting() => {}
            }
        }
    }

    /// Hands the lines that went by to whoever wants to see them.
    fn show(&mut self, link: &mut Link) {
        for (way, text) in link.kept() {
            self.pending.push(WorkerEvent::Line { way, text });
        }
    }
}

impl Leaving {
    /// Nothing more is taken from a worker that leaves.
    fn takes_more(&self, desk: &Desk) -> bool {
        self.until.is_none() && !desk.is_full()
    }

    /// Ends when there was enough waiting; never for a worker that stays.
    async fn patience(&self) {
        match self.until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    }
}

/// Takes what the worker wants; `true` if that is to leave.
fn take(order: Option<Order>, desk: &mut Desk, leaving: &mut Leaving) -> bool {
    match order {
        Some(Order::Say(said)) => {
            desk.say(*said);
            return false;
        }
        Some(Order::Close(told)) => leaving.told.push(told),
        None => {}
    }
    leaving.until.get_or_insert(Instant::now() + CLOSE_WITHIN);
    true
}

/// Whether the director says with this that the connection is over for good.
fn last_word(message: &Outbound<'static>) -> Option<BusError> {
    match message {
        Outbound::Incompatible(told) => Some(BusError::Incompatible(told.clone())),
        Outbound::Error(told) => match link::refused(told.clone()) {
            BusError::Replaced => Some(BusError::Replaced),
            _ => None,
        },
        _ => None,
    }
}
