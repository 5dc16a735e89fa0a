//! Everything a worker's side of the bus knows and decides, without a socket and by a time that is told to it.
//!
//! The loop in `run` feeds it what the worker says and what the director says, writes the frames it gives out, and calls
//! again at [`Desk::due_at`].

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_wire::agentbus::Stage;
use switchboard_wire::agentbus::message::{
    AgentMessage, CatalogDelta, CatalogSnapshot, EngramContent, Heartbeat, Inbound, Outbound,
    TaskAssigned, TaskRevoked, Welcome, WorkerState,
};
use switchboard_wire::agentbus::parts::Gather;
use switchboard_wire::agentbus::session::HEARTBEAT_EVERY;

use super::outbox::Outbox;
use super::seen::{Arrival, Assignments, Mail};
use super::{Said, WorkerEvent};
use crate::bus::clock;
use crate::bus::telemetry::Telemetry;
use crate::bus::throttle::Throttle;

/// Questions that wait for a connection; beyond it the oldest is dropped.
const QUESTIONS_MAX: usize = 16;

pub(super) struct Desk {
    /// The configured interval; the director's counts where it is longer.
    every: Option<Duration>,
    throttle: Throttle,
    telemetry: Telemetry,
    outbox: Outbox,
    questions: VecDeque<Inbound<'static>>,
    assignments: Assignments,
    mail: Mail,
    probed: bool,
    parts: Parts,
}

/// Messages that come in parts; begun anew with each connection.
#[derive(Default)]
struct Parts {
    tasks: Gather<TaskAssigned>,
    mail: Gather<AgentMessage>,
    catalogs: Gather<CatalogSnapshot>,
    deltas: Gather<CatalogDelta>,
    engrams: Gather<EngramContent>,
}

impl Desk {
    pub fn new(every: Option<Duration>, first: WorkerState<'static>) -> Self {
        Self {
            every,
            throttle: Throttle::new(every.unwrap_or(HEARTBEAT_EVERY), first),
            telemetry: Telemetry::default(),
            outbox: Outbox::default(),
            questions: VecDeque::new(),
            assignments: Assignments::default(),
            mail: Mail::default(),
            probed: false,
            parts: Parts::default(),
        }
    }

    /// Whether the worker has to wait before it says more.
    pub fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    /// Whether something waits that must not get lost.
    pub fn has_unsent(&self) -> bool {
        self.outbox.has_unsent()
    }

    /// Whether a result waits for its answer.
    pub fn has_unanswered(&self) -> bool {
        self.outbox.has_unanswered()
    }

    /// The worker says something.
    pub fn say(&mut self, said: Said) {
        match said {
            Said::State(state) => {
                self.telemetry.superseded(&state);
                self.throttle.offer(state);
            }
            Said::Progress(progress) => self.telemetry.progress(progress),
            Said::Memory(event) => self.telemetry.memory(event),
            Said::Urgent(message) => {
                self.note(&message);
                self.outbox.push(message);
            }
            Said::Question(message) => {
                if self.questions.len() >= QUESTIONS_MAX {
                    self.questions.pop_front();
                }
                self.questions.push_back(message);
            }
        }
    }

    fn note(&mut self, message: &Inbound<'static>) {
        self.assignments.answered(message);
        self.mail.answered(message);
        match message {
            Inbound::TaskAccepted(told) if self.throttle.latest().issue_number == 0 => {
                // Whoever says nothing else is at it, and must not be taken for idle.
                let state = clock::state(Stage::Start, told.issue_number, 0);
                self.throttle.offer(state);
            }
            Inbound::TaskResult(told) => self.through_with(told.issue_number),
            Inbound::WorkerError(told) => self.through_with(told.error.issue_number),
            _ => {}
        }
    }

    /// Nothing more is said of a task.
    fn through_with(&mut self, issue_number: u64) {
        self.telemetry.forget(issue_number);
        if self.throttle.latest().issue_number == issue_number {
            self.throttle.offer(clock::state(Stage::Start, 0, 0));
        }
    }

    /// A connection was made and welcomed.
    pub fn opened(&mut self, welcome: &Welcome) {
        self.parts = Parts::default();
        self.probed = false;
        let theirs = welcome
            .limits
            .map(|limits| Duration::from_secs(limits.heartbeat_interval_seconds.max(1)));
        let every = self.every.max(theirs).unwrap_or(HEARTBEAT_EVERY);
        self.throttle.set_every(every);
    }

    /// The connection ended.
    pub fn cut(&mut self, now: u64) {
        self.outbox.cut(now);
    }

    /// The director says something; what comes back is for the worker.
    pub fn hear(&mut self, message: Outbound<'static>) -> Option<WorkerEvent> {
        match message {
            Outbound::TaskAssigned(part) => {
                let task = self.parts.tasks.add(part)?;
                let arrival = self.assignments.arrive(&task);
                self.deliver(arrival, WorkerEvent::Assigned(task))
            }
            Outbound::AgentMessage(part) => {
                let message = self.parts.mail.add(part)?;
                let arrival = self.mail.arrive(&message.message_id);
                self.deliver(arrival, WorkerEvent::Message(message))
            }
            Outbound::TaskRevoked(told) => self.revoked(told),
            Outbound::TaskResultAck(told) => {
                self.outbox.drop_if(|waiting| {
                    matches!(waiting, Inbound::TaskResult(said)
                        if (said.issue_number, said.epoch) == (told.issue_number, told.epoch))
                });
                Some(WorkerEvent::ResultTaken(told))
            }
            Outbound::AgentMessageAck(ack) => {
                self.outbox.drop_if(|waiting| {
                    matches!(waiting, Inbound::AgentMessage(sent) if sent.message_id == ack.message_id)
                });
                Some(WorkerEvent::MessageState(ack))
            }
            Outbound::BudgetGrant(grant) => {
                // One that is queued is asked for again after a cut, under the same id.
                self.outbox.drop_if(|waiting| {
                    grant.grant_id.is_some()
                        && matches!(waiting, Inbound::BudgetRequest(asked) if asked.request_id == grant.request_id)
                });
                Some(WorkerEvent::Budget(grant))
            }
            Outbound::Probe(_) => {
                self.probed = true;
                None
            }
            Outbound::SyncRequired(told) => Some(WorkerEvent::SyncRequired(told)),
            Outbound::EngramAnnounce(told) => Some(WorkerEvent::EngramAnnounced(told)),
            Outbound::CatalogSnapshot(part) => {
                let whole = self.parts.catalogs.add(part)?;
                Some(WorkerEvent::Catalog(whole))
            }
            Outbound::CatalogDelta(part) => {
                let whole = self.parts.deltas.add(part)?;
                Some(WorkerEvent::CatalogChanged(whole))
            }
            Outbound::EngramContent(part) => {
                let whole = self.parts.engrams.add(part)?;
                Some(WorkerEvent::Engram(whole))
            }
            Outbound::OperatorCommand(told) => Some(WorkerEvent::Commanded(told)),
            Outbound::ReleasePublished(told) => Some(WorkerEvent::Released(told)),
            Outbound::Error(told) => Some(WorkerEvent::Refused(told)),
            // For operators, or dealt with where the connection is.
            Outbound::Heartbeat(_)
            | Outbound::TaskProgress(_)
            | Outbound::TaskAccepted(_)
            | Outbound::TaskDeclined(_)
            | Outbound::TaskResult(_)
            | Outbound::WorkerLeaving(_)
            | Outbound::WorkerError(_)
            | Outbound::Welcome(_)
            | Outbound::Incompatible(_)
            | Outbound::Snapshot(_)
            | Outbound::OperatorAck(_) => None,
        }
    }

    fn deliver(&mut self, arrival: Arrival, event: WorkerEvent) -> Option<WorkerEvent> {
        match arrival {
            Arrival::New => Some(event),
            Arrival::Again(answer) => {
                if let Some(answer) = answer {
                    self.outbox.push(*answer);
                }
                None
            }
        }
    }

    fn revoked(&mut self, told: TaskRevoked) -> Option<WorkerEvent> {
        let lost = (told.issue_number, told.epoch);
        self.outbox.drop_if(|waiting| match waiting {
            Inbound::TaskAccepted(told) => (told.issue_number, told.epoch) == lost,
            Inbound::TaskDeclined(told) => (told.issue_number, told.epoch) == lost,
            Inbound::TaskResult(told) => (told.issue_number, told.epoch) == lost,
            _ => false,
        });
        self.through_with(told.issue_number);
        self.assignments
            .revoke(&told)
            .then_some(WorkerEvent::Revoked(told))
    }

    /// When there is something to write, if nothing else happens.
    pub fn due_at(&self) -> u64 {
        if self.probed || self.outbox.has_unsent() || !self.questions.is_empty() {
            return 0;
        }
        self.throttle.due_at()
    }

    /// What is to be written now: the urgent first, then questions, then a heartbeat with everything that waited for it.
    pub fn frames(&mut self, now: u64) -> Vec<Inbound<'static>> {
        let mut frames = self.outbox.unsent(now);
        frames.extend(self.questions.drain(..));
        let beat = if std::mem::take(&mut self.probed) {
            Some(self.throttle.answer(now))
        } else {
            self.throttle.take(now)
        };
        if let Some(mut state) = beat {
            let joined = self.telemetry.join(&mut state);
            frames.push(Heartbeat { state }.into());
            frames.extend(joined);
        }
        frames
    }

    /// What is left to be said before the worker goes.
    pub fn last_frames(&mut self, now: u64) -> Vec<Inbound<'static>> {
        let mut frames = self.outbox.unsent(now);
        // Into no heartbeat: it may not be due.
        let mut nobody = clock::state(self.throttle.latest().stage, u64::MAX, 0);
        frames.extend(self.telemetry.join(&mut nobody));
        frames
    }
}
