//! What each worker of this coordinator last said, kept in memory: for snapshots, and to be passed on to operators.
//!
//! Nothing here is the truth about tasks or liveness; that is in the ledger.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use switchboard_core::{AgentId, Timestamp};
use switchboard_wire::agentbus::Text;
use switchboard_wire::agentbus::message::{BranchState, StepProgress, WorkerState};
use tokio::sync::Notify;

/// Workers that are remembered after they left; past it those that left first are forgotten.
const GONE_KEPT: usize = 1024;

#[derive(Default)]
pub(super) struct Board {
    entries: Mutex<Entries>,
    /// Those who said something that operators have not seen.
    news: Mutex<Vec<Arc<Entry>>>,
    bell: Notify,
    /// Rung when a snapshot would look different.
    stir: Notify,
    /// Rung when somebody wants one and has to wait for it.
    ask: Notify,
    operators: AtomicUsize,
}

#[derive(Default)]
struct Entries {
    by_id: HashMap<AgentId, Arc<Entry>>,
    gone: std::collections::VecDeque<AgentId>,
}

#[derive(Default)]
pub(super) struct Entry {
    seen: Mutex<Seen>,
}

#[derive(Default)]
pub(super) struct Seen {
    pub connected: bool,
    /// By the director's clock.
    pub heard_at: Option<Timestamp>,
    pub state: Option<WorkerState<'static>>,
    /// The number it names is none that it holds here.
    pub foreign: bool,
    /// The last heartbeat as it came, while operators watch.
    line: String,
    is_news: bool,
}

impl Board {
    /// The entry of a worker that has just connected.
    pub fn enter(&self, id: &AgentId) -> Arc<Entry> {
        let mut entries = self.entries.lock();
        let entry = entries.by_id.entry(id.clone()).or_default();
        entry.seen.lock().connected = true;
        self.stir.notify_one();
        Arc::clone(entry)
    }

    pub fn leave(&self, id: &AgentId) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.by_id.get(id) {
            entry.seen.lock().connected = false;
        }
        self.stir.notify_one();
        entries.gone.push_back(id.clone());
        while entries.gone.len() > GONE_KEPT {
            let Some(oldest) = entries.gone.pop_front() else {
                break;
            };
            let is_back = |entry: &Arc<Entry>| entry.seen.lock().connected;
            if !entries.by_id.get(&oldest).is_some_and(is_back) {
                entries.by_id.remove(&oldest);
            }
        }
    }

    /// Looks at what a worker said, if it ever did.
    pub fn look<T>(&self, id: &AgentId, look: impl FnOnce(&Seen) -> T) -> Option<T> {
        let entry = self.entries.lock().by_id.get(id).cloned()?;
        let seen = entry.seen.lock();
        Some(look(&seen))
    }

    /// A heartbeat came; its text is kept only while somebody watches.
    pub fn heard(
        &self,
        entry: &Arc<Entry>,
        state: &WorkerState<'_>,
        foreign: bool,
        line: &str,
        now: Timestamp,
    ) {
        let watched = self.is_watched();
        let mut seen = entry.seen.lock();
        seen.heard_at = Some(now);
        seen.foreign = foreign;
        match &mut seen.state {
            Some(known) => absorb(known, state),
            None => seen.state = Some(state.clone().into_owned()),
        }
        if let Some(known) = &mut seen.state {
            known.last_update_at.get_or_insert(now.into());
        }
        if !watched {
            return;
        }
        seen.line.clear();
        seen.line.push_str(line);
        if !std::mem::replace(&mut seen.is_news, true) {
            drop(seen);
            self.news.lock().push(Arc::clone(entry));
            self.bell.notify_one();
            self.stir.notify_one();
        }
    }

    /// Waits for news.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Waits for news, or for someone who came or went.
    pub async fn stirred(&self) {
        self.stir.notified().await;
    }

    pub fn ask(&self) {
        self.ask.notify_one();
    }

    pub async fn asked(&self) {
        self.ask.notified().await;
    }

    /// The last heartbeat of each who sent one since the last call.
    pub fn take_news(&self) -> Vec<Arc<str>> {
        let news = std::mem::take(&mut *self.news.lock());
        let line = |entry: &Arc<Entry>| {
            let mut seen = entry.seen.lock();
            seen.is_news = false;
            Arc::from(std::mem::take(&mut seen.line))
        };
        news.iter().map(line).collect()
    }

    pub fn is_watched(&self) -> bool {
        self.operators.load(Ordering::Relaxed) > 0
    }

    pub fn operator_came(&self) {
        self.operators.fetch_add(1, Ordering::Relaxed);
    }

    pub fn operator_left(&self) {
        self.operators.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes over what changed; most heartbeats change a number or nothing, and cost no memory.
fn absorb(known: &mut WorkerState<'static>, said: &WorkerState<'_>) {
    known.stage = said.stage;
    known.issue_number = said.issue_number;
    known.attempt = said.attempt;
    known.last_update_at = said.last_update_at;
    match (&mut known.progress, &said.progress) {
        (Some(known), Some(said)) => {
            known.percent = said.percent;
            keep(&mut known.step, &said.step);
        }
        (known, said) => *known = said.clone().map(StepProgress::into_owned),
    }
    if known.repo != said.repo {
        known.repo = said.repo.clone().map(BranchState::into_owned);
    }
    match (&mut known.last_error_id, &said.last_error_id) {
        (Some(known), Some(said)) => keep(known, said),
        (known, said) => *known = said.clone().map(Text::into_owned),
    }
}

fn keep(known: &mut Text<'static>, said: &Text<'_>) {
    if known.as_str() != said.as_str() {
        *known = said.clone().into_owned();
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::agentbus::Stage;
    use switchboard_wire::agentbus::UtcTime;

    use super::*;

    fn state(percent: f64) -> WorkerState<'static> {
        WorkerState {
            stage: Stage::Code,
            issue_number: 7,
            attempt: 1,
            progress: Some(StepProgress {
                step: Text::from("writing"),
                percent,
            }),
            repo: None,
            last_error_id: None,
            last_update_at: Some(UtcTime(1)),
        }
    }

    #[test]
    fn operators_get_the_last_of_many_heartbeats_and_nothing_is_kept_while_none_watch() {
        let board = Board::default();
        let entry = board.enter(&"w".into());
        board.heard(&entry, &state(1.0), false, "unseen", Timestamp(1));
        assert!(board.take_news().is_empty());
        board.operator_came();
        for line in ["one", "two"] {
            board.heard(&entry, &state(2.0), false, line, Timestamp(2));
        }
        let news = board.take_news();
        assert_eq!(news.iter().map(|line| &**line).collect::<Vec<_>>(), ["two"]);
        assert!(board.take_news().is_empty());
        let percent = board.look(&"w".into(), |seen| {
            seen.state.as_ref().and_then(|state| state.progress.clone())
        });
        assert_eq!(
            percent.flatten().map(|progress| progress.percent),
            Some(2.0)
        );
    }

    #[test]
    fn those_who_left_are_remembered_up_to_a_bound() {
        let board = Board::default();
        for n in 0..=GONE_KEPT {
            let id = AgentId::from(format!("w{n}"));
            board.enter(&id);
            board.leave(&id);
        }
        assert!(board.look(&"w0".into(), |_| ()).is_none());
        assert!(board.look(&"w1".into(), |_| ()).is_some());
    }
}
