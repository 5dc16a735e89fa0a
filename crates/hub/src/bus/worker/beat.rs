//! Heartbeats: most change nothing and cost no verb.

use std::time::Duration;

use switchboard_core::said::{Follows, Named};
use switchboard_core::verb::{AdoptIssue, Complete, Heartbeat, ReportError, ReportedTask};
use switchboard_core::{Doing, Phase, Refusal, limits};
use switchboard_wire::agentbus::from_wire;
use switchboard_wire::agentbus::message::{StepProgress, WorkerState};
use tokio::time::Instant;

use super::super::server::BusState;
use super::Worker;
use crate::hub::Error;

/// The ledger hears of progress within one phase no more often than this.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What the ledger last heard.
#[derive(Default)]
pub(super) struct LastBeat {
    number: u64,
    phase: Option<Phase>,
    percent: Option<u8>,
    step: String,
    at: Option<Instant>,
    /// It has said that it is idle since then, while the ledger says that it is at a task.
    idle_since: Option<Instant>,
    /// Numbers of others that were asked for once are not asked for again.
    strange: u64,
}

/// What a heartbeat asks for.
pub(in super::super) enum Deed {
    /// A sign of life, and how far it is.
    Pulse(Option<ReportedTask>),
    /// The task of this number is done.
    Done(u64, Box<Complete>),
    /// It cannot go on without a person.
    Blocked(Box<ReportError>),
    /// It names an issue that the ledger does not know.
    Adopt(Box<WorkerState<'static>>),
    /// It knows nothing of what it holds.
    Forgotten,
    /// It revealed something new about its branch.
    Drift,
}

impl Worker {
    /// Takes note of a heartbeat; the deed, if the ledger must hear of it.
    pub fn heartbeat(
        &mut self,
        bus: &BusState,
        state: &WorkerState<'_>,
        line: &str,
    ) -> Option<Deed> {
        let is_foreign = self.named(state.issue_number) == Named::Foreign;
        let now = bus.hub.time();
        bus.board.heard(&self.entry, state, is_foreign, line, now);
        self.follow(bus, state)
    }

    fn named(&self, number: u64) -> Named {
        match (number, self.stream.held(number)) {
            (0, _) => Named::None,
            (_, Some(_)) => Named::Own,
            (_, None) => Named::Foreign,
        }
    }

    fn follow(&mut self, bus: &BusState, state: &WorkerState<'_>) -> Option<Deed> {
        let number = state.issue_number;
        let named = self.named(number);
        if named != Named::None {
            self.beat.is_busy();
        }
        match state.stage.said().follows(named) {
            Follows::Complete => {
                let claim = self.claim(number)?;
                let mut fresh = |kind| bus.ids.fresh(kind);
                let complete = from_wire::done(claim, state, &mut bus.context(&mut fresh));
                return Some(Deed::Done(number, Box::new(complete)));
            }
            Follows::AskPerson => {
                let report = from_wire::blocked(self.claim(number)?, state);
                return Some(Deed::Blocked(Box::new(report)));
            }
            Follows::Adopt if bus.config.adopt_issues && self.beat.strange != number => {
                self.beat.strange = number;
                return Some(Deed::Adopt(Box::new(state.clone().into_owned())));
            }
            Follows::Idle if self.has_forgotten(bus) => return Some(Deed::Forgotten),
            Follows::Adopt | Follows::Idle | Follows::Pulse => {}
        }
        if let Some(repo) = &state.repo
            && self.sync.reveals(
                repo.main_ancestor_sha.as_deref(),
                repo.catalog_hash_seen.as_deref(),
            )
        {
            return Some(Deed::Drift);
        }
        let held = self.stream.held(number);
        let accepted = held.is_none_or(|held| held.accepted);
        if accepted && !self.beat.is_news(state, bus.pulse_every()) {
            return None;
        }
        let task = held.map(|held| from_wire::reported(&held.task, state));
        self.beat.told(state);
        Some(Deed::Pulse(task))
    }

    pub async fn after_beat(&mut self, bus: &BusState, deed: Deed) {
        let deed = match deed {
            Deed::Adopt(state) => {
                self.adopt(bus, state.issue_number).await;
                // What it says of the issue counts from the first time on.
                self.follow(bus, &state)
            }
            deed => Some(deed),
        };
        match deed {
            Some(Deed::Pulse(task)) => self.pulse(bus, task).await,
            Some(Deed::Done(number, complete)) => self.done(number, *complete).await,
            Some(Deed::Blocked(report)) => self.report_error(bus, *report).await,
            Some(Deed::Forgotten) => {
                self.beat.is_busy();
                let reason = "two heartbeats reported that the worker is idle";
                self.stream.take_back_forgotten(reason).await;
            }
            Some(Deed::Drift) => {
                self.check_drift(bus);
                self.pulse(bus, None).await;
            }
            Some(Deed::Adopt(_)) | None => {}
        }
    }

    /// Whether it said twice, an interval apart, that it is idle, and in between nothing of the task that it accepted.
    fn has_forgotten(&mut self, bus: &BusState) -> bool {
        if !self.stream.is_under_way() {
            self.beat.idle_since = None;
            return false;
        }
        let since = self.beat.idle_since.get_or_insert_with(Instant::now);
        // Intervals are kept by the worker's clock, and frames take their time.
        since.elapsed() >= bus.config.heartbeat_interval * 9 / 10
    }

    /// A sign of life; a task that it names counts as accepted.
    pub(super) async fn pulse(&mut self, bus: &BusState, task: Option<ReportedTask>) {
        if let Some(reported) = &task {
            self.stream.names(&reported.id);
        }
        let doing = match self.stream.is_free() {
            true => Doing::Idle,
            false => Doing::Busy,
        };
        let beat = bus.hub.run(Heartbeat {
            agent: self.id().clone(),
            doing,
            task,
            metrics: None,
        });
        let beat = beat.await;
        if let Err(Error::Refused(Refusal::AgentNotRegistered { .. })) = beat {
            return self.stream.sign_off();
        }
        if let Err(error) = beat {
            // The next one will do.
            tracing::debug!(%error, "a heartbeat of the bus was not stored");
            self.beat.at = None;
        }
    }

    async fn adopt(&mut self, bus: &BusState, number: u64) {
        let adopted = bus.hub.run(AdoptIssue {
            agent: self.id().clone(),
            number,
            max_retries: bus.config.director.max_retries,
            cap: bus.config.watchdog,
            stale_after: bus.config.claim_stale,
        });
        match adopted.await {
            Ok(Some(task)) => self.stream.adopts(&task),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "an external issue was not adopted as a task"),
        }
    }
}

impl LastBeat {
    /// Whether the ledger does not know this yet, or has not heard anything for long.
    fn is_news(&self, state: &WorkerState<'_>, pulse_every: Duration) -> bool {
        let Some(at) = self.at else { return true };
        let ago = at.elapsed();
        let (percent, step) = progress(state);
        ago >= pulse_every
            || self.number != state.issue_number
            || self.phase != state.stage.said().phase()
            || ((self.percent != percent || self.step != step) && ago >= PROGRESS_EVERY)
    }

    /// It said something of a task.
    pub fn is_busy(&mut self) {
        self.idle_since = None;
    }

    fn told(&mut self, state: &WorkerState<'_>) {
        let (percent, step) = progress(state);
        (self.number, self.percent) = (state.issue_number, percent);
        self.phase = state.stage.said().phase();
        step.clone_into(&mut self.step);
        self.at = Some(Instant::now());
    }
}

fn progress<'a>(state: &'a WorkerState<'_>) -> (Option<u8>, &'a str) {
    let progress = state.progress.as_ref();
    let step = progress.map_or("", |progress| progress.step.as_str());
    (progress.map(StepProgress::points), step)
}

impl BusState {
    /// How often the ledger hears that a worker lives, whatever it says.
    fn pulse_every(&self) -> Duration {
        limits::PULSE_EVERY.min(self.config.heartbeat_ttl / 6)
    }
}
