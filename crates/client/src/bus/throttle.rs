//! When a heartbeat goes out: every interval, never sooner, with the latest state there is.

use std::time::Duration;

use switchboard_wire::agentbus::message::WorkerState;

/// Holds heartbeats back; `now` is any count of milliseconds that does not go back.
///
/// It outlives connections: coming back is no reason for a heartbeat sooner than the interval.
#[derive(Clone, Debug)]
pub struct Throttle {
    every: u64,
    sent_at: Option<u64>,
    latest: WorkerState<'static>,
}

/// No interval is shorter, whatever was configured.
pub const HEARTBEAT_EVERY_MIN: Duration = Duration::from_millis(10);

impl Throttle {
    /// The first heartbeat is due at once.
    pub fn new(every: Duration, first: WorkerState<'static>) -> Self {
        let mut throttle = Self {
            every: 0,
            sent_at: None,
            latest: first,
        };
        throttle.set_every(every);
        throttle
    }

    /// Another interval holds from now on.
    pub fn set_every(&mut self, every: Duration) {
        let every = every.max(HEARTBEAT_EVERY_MIN).as_millis();
        self.every = u64::try_from(every).unwrap_or(u64::MAX);
    }

    /// The worker's state has changed; what was not sent yet is forgotten. No change is worth a heartbeat of its own.
    pub fn offer(&mut self, state: WorkerState<'static>) {
        self.latest = state;
    }

    /// The state that the next heartbeat will tell.
    pub fn latest(&self) -> &WorkerState<'static> {
        &self.latest
    }

    /// When the next heartbeat goes out.
    pub fn due_at(&self) -> u64 {
        self.sent_at.map_or(0, |at| at.saturating_add(self.every))
    }

    /// The state to send, if its time has come.
    pub fn take(&mut self, now: u64) -> Option<WorkerState<'static>> {
        (now >= self.due_at()).then(|| self.answer(now))
    }

    /// The state to send now, because the director asked.
    pub fn answer(&mut self, now: u64) -> WorkerState<'static> {
        self.sent_at = Some(now);
        self.latest.clone()
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::agentbus::Stage;

    use super::super::clock::state;
    use super::*;

    const EVERY: Duration = Duration::from_secs(15);

    #[test]
    fn no_heartbeat_goes_out_sooner_than_the_interval() {
        // agentbus.limits.heartbeat_throttle
        let mut throttle = Throttle::new(EVERY, state(Stage::Start, 0, 0));
        assert!(throttle.take(0).is_some(), "the first one goes at once");
        for now in 1..15_000 {
            // Not even news about the stage or the issue.
            throttle.offer(state(Stage::Code, now, 1));
            assert_eq!(throttle.take(now), None, "{now}");
        }
        let told = throttle.take(15_000).unwrap();
        assert_eq!((told.stage, told.issue_number), (Stage::Code, 14_999));
        assert_eq!(throttle.take(29_999), None);
        assert!(throttle.take(30_000).is_some(), "the same state again");
    }

    #[test]
    fn a_late_heartbeat_moves_the_next_one() {
        let mut throttle = Throttle::new(EVERY, state(Stage::Start, 0, 0));
        assert!(throttle.take(100_000).is_some());
        assert_eq!(throttle.due_at(), 115_000);
        assert_eq!(throttle.take(114_999), None);
    }

    #[test]
    fn a_question_is_answered_at_once_and_counts_as_a_heartbeat() {
        let mut throttle = Throttle::new(EVERY, state(Stage::Start, 0, 0));
        throttle.take(0);
        throttle.offer(state(Stage::Validate, 7, 1));
        assert_eq!(throttle.answer(1_000).stage, Stage::Validate);
        assert_eq!(throttle.due_at(), 16_000);
    }

    #[test]
    fn an_interval_of_nothing_is_not_believed() {
        let mut throttle = Throttle::new(Duration::ZERO, state(Stage::Start, 0, 0));
        throttle.take(0);
        assert_eq!(throttle.due_at(), 10);
        throttle.set_every(Duration::MAX);
        assert_eq!(throttle.due_at(), u64::MAX);
    }
}
