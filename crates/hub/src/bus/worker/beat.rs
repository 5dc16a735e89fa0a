//! Heartbeats: most change nothing and cost no verb.

use std::time::Duration;

use switchboard_core::verb::{AdoptIssue, Heartbeat, ReportedTask};
use switchboard_core::{Doing, Phase, Refusal, limits};
use switchboard_wire::agentbus::Stage;
use switchboard_wire::agentbus::message::{Accomplished, StepProgress, WorkerState};
use tokio::time::Instant;

use super::super::server::Shared;
use super::{Held, Worker};
use crate::hub::Error;

/// The ledger hears of progress within one phase no more often than this.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What the ledger last heard.
#[derive(Default)]
pub(super) struct LastBeat {
    number: u64,
    phase: Option<Phase>,
    percent: Option<u8>,
    at: Option<Instant>,
    /// It has said that it is idle since then, while the ledger says that it is at a task.
    idle_since: Option<Instant>,
    /// Numbers of others that were asked for once are not asked for again.
    strange: u64,
    pub told_to_stop: bool,
}

/// What a heartbeat asks for.
pub(in super::super) enum Deed {
    /// A sign of life, and how far it is.
    Pulse(Option<ReportedTask>),
    /// The task is done.
    Done { number: u64, summary: String },
    /// It cannot go on without a person.
    Blocked {
        number: u64,
        attempt: u32,
        why: String,
    },
    /// An issue that the ledger does not know, and how far it is.
    Adopt {
        number: u64,
        phase: Option<Phase>,
        percent: Option<u8>,
    },
    /// It knows nothing of what it holds.
    Idle,
    /// It revealed something new about its branch.
    Drift,
}

impl Worker {
    /// Takes note of a heartbeat; the deed, if the ledger must hear of it.
    pub fn heartbeat(&mut self, bus: &Shared, state: &WorkerState<'_>, line: &str) -> Option<Deed> {
        let number = state.issue_number;
        if number != 0 {
            self.beat.is_busy();
        }
        let held = self.held(number);
        let is_foreign = number != 0 && held.is_none();
        let task = held.map(|held| held.task.clone());
        let accepted = held.is_none_or(|held| held.accepted);
        let is_idle = number == 0 && self.has_forgotten(bus);
        let now = bus.hub.time();
        bus.board.heard(&self.entry, state, is_foreign, line, now);
        let step = state
            .progress
            .as_ref()
            .map(|progress| progress.step.as_str());
        if task.is_some() {
            match state.stage {
                Stage::Done => {
                    let summary = step.unwrap_or("done").to_owned();
                    return Some(Deed::Done { number, summary });
                }
                Stage::Blocked => {
                    let why = step.unwrap_or("the worker is blocked").to_owned();
                    let attempt = state.attempt;
                    return Some(Deed::Blocked {
                        number,
                        attempt,
                        why,
                    });
                }
                _ => {}
            }
        } else if is_foreign && bus.config.adopt_issues && self.beat.strange != number {
            self.beat.strange = number;
            return Some(Deed::Adopt {
                number,
                phase: state.stage.phase(),
                percent: state.progress.as_ref().map(StepProgress::points),
            });
        }
        if is_idle {
            return Some(Deed::Idle);
        }
        if let Some(repo) = &state.repo
            && self.sync.reveals(
                repo.main_ancestor_sha.as_deref(),
                repo.catalog_hash_seen.as_deref(),
            )
        {
            return Some(Deed::Drift);
        }
        let phase = state.stage.phase();
        let percent = state.progress.as_ref().map(StepProgress::points);
        let news = self.beat.news(number, phase, percent, bus.pulse_every());
        if !news && accepted {
            return None;
        }
        self.beat.told(number, phase, percent);
        let task = task.map(|id| ReportedTask { id, percent, phase });
        Some(Deed::Pulse(task))
    }

    pub async fn after_beat(&mut self, bus: &Shared, deed: Deed) {
        match deed {
            Deed::Pulse(task) => self.pulse(bus, task).await,
            Deed::Done { number, summary } => {
                let result = Accomplished {
                    summary,
                    ..Accomplished::default()
                };
                self.done(bus, number, &result).await;
            }
            Deed::Blocked {
                number,
                attempt,
                why,
            } => self.blocked(bus, number, attempt, why).await,
            Deed::Adopt {
                number,
                phase,
                percent,
            } => {
                self.adopt(bus, number).await;
                let adopted = self.held(number).map(|held| held.task.clone());
                let task = adopted.map(|id| ReportedTask { id, percent, phase });
                self.pulse(bus, task).await;
            }
            Deed::Idle => self.take_back_forgotten(bus).await,
            Deed::Drift => {
                self.check_drift(bus);
                self.pulse(bus, None).await;
            }
        }
    }

    /// Whether it said twice, an interval apart, that it is idle, and in between nothing of the task that it accepted.
    fn has_forgotten(&mut self, bus: &Shared) -> bool {
        if !self.held.iter().any(Held::is_under_way) {
            self.beat.idle_since = None;
            return false;
        }
        let since = self.beat.idle_since.get_or_insert_with(Instant::now);
        // Intervals are kept by the worker's clock, and frames take their time.
        since.elapsed() >= bus.config.heartbeat_interval * 9 / 10
    }

    /// A sign of life; a task that it names counts as accepted.
    pub(super) async fn pulse(&mut self, bus: &Shared, task: Option<ReportedTask>) {
        if let Some(reported) = &task {
            let named = self.held.iter_mut().find(|held| held.task == reported.id);
            if let Some(held) = named {
                (held.accepted, held.answer_by) = (true, None);
                self.unanswered = 0;
            }
        }
        let doing = match self.held.is_empty() {
            true => Doing::Idle,
            false => Doing::Busy,
        };
        let beat = bus.hub.run(Heartbeat {
            agent: self.id.clone(),
            doing,
            task,
            metrics: None,
        });
        let beat = beat.await;
        if let Err(Error::Refused(Refusal::AgentNotRegistered { .. })) = beat {
            return self.sign_off();
        }
        if let Err(error) = beat {
            // The next one will do.
            tracing::debug!(%error, "a heartbeat of the bus was not stored");
            self.beat.at = None;
        }
    }

    async fn adopt(&mut self, bus: &Shared, number: u64) {
        let adopted = bus.hub.run(AdoptIssue {
            agent: self.id.clone(),
            number,
            max_retries: bus.config.director.max_retries,
            cap: bus.config.watchdog,
            stale_after: bus.config.claim_stale,
        });
        match adopted.await {
            Ok(Some(task)) => {
                let mut held = Held::of(&task);
                held.accepted = true;
                self.held.push(held);
                self.stream.leave_queue();
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "an external issue was not adopted as a task"),
        }
    }
}

impl LastBeat {
    /// Whether the ledger does not know this yet, or has not heard anything for long.
    fn news(
        &self,
        number: u64,
        phase: Option<Phase>,
        percent: Option<u8>,
        pulse_every: Duration,
    ) -> bool {
        let Some(at) = self.at else { return true };
        let ago = at.elapsed();
        ago >= pulse_every
            || self.number != number
            || self.phase != phase
            || (self.percent != percent && ago >= PROGRESS_EVERY)
    }

    /// It said something of a task.
    pub fn is_busy(&mut self) {
        self.idle_since = None;
    }

    fn told(&mut self, number: u64, phase: Option<Phase>, percent: Option<u8>) {
        (self.number, self.phase, self.percent) = (number, phase, percent);
        self.at = Some(Instant::now());
    }
}

impl Shared {
    /// How often the ledger hears that a worker lives, whatever it says.
    fn pulse_every(&self) -> Duration {
        limits::PULSE_EVERY.min(self.config.heartbeat_ttl / 6)
    }
}
