//! Who waits for what. Being woken is a hint; looking again is what counts.
//!
//! One new task wakes one waiting agent. A waiter that was woken but goes away, or finds nothing, passes it on.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::lane::Rep;
use switchboard_core::verb::Filter;
use switchboard_core::{
    Agent, AgentId, Changes, Event, JobId, LaneKey, Logged, Refusal, Slice, TaskId, Timestamp,
    Verb, Want,
};
use tokio::sync::{Notify, broadcast, watch};

use crate::hub::HubState;

#[derive(Default)]
pub(crate) struct Wakeups {
    claims: Mutex<Claims>,
    inboxes: Bells,
    /// Streams on which agents are told whatever concerns them.
    streams: Bells,
    /// Counts keys and tokens that ended.
    credentials: watch::Sender<u64>,
    news: News,
    jobs: Jobs,
}

/// Jobs of which the log told something. `None` where some may have gone by unseen.
struct Jobs {
    bell: watch::Sender<()>,
    told: Mutex<Option<HashSet<JobId>>>,
    /// The same for whoever follows phases in the queue, which tasks tell of, too.
    phases: Mutex<Option<HashSet<JobId>>>,
}

impl Default for Jobs {
    fn default() -> Self {
        Jobs {
            bell: watch::Sender::new(()),
            told: Mutex::new(None),
            phases: Mutex::new(None),
        }
    }
}

/// What the log has for streams: releases, and that a message of one of their agents was acknowledged. `None` where some
/// may have gone by unseen.
struct News(broadcast::Sender<Option<Logged>>);

impl Default for News {
    fn default() -> Self {
        /// About as many as a batch may bring.
        const KEPT: usize = 512;
        News(broadcast::Sender::new(KEPT))
    }
}

#[derive(Default)]
struct Claims {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    by_rep: HashMap<Rep, BTreeSet<u64>>,
    /// Those for whom there is something, but others come first.
    withheld: BTreeSet<u64>,
    /// How often one of those others may have become busy.
    busied: u64,
}

struct Waiting {
    agent: Agent,
    filter: Filter,
    bell: Arc<Notify>,
    woken_for: Option<Call>,
    /// `busied` when it last began to look.
    looked_at: u64,
}

/// Tasks of a lane wait, and these waiters were told already.
#[derive(Clone)]
struct Call {
    lane: LaneKey,
    told: Vec<u64>,
}

/// One agent in the queue for a task. Dropping it leaves the queue.
pub(crate) struct ClaimWaiter {
    shared: Arc<HubState>,
    id: u64,
    bell: Arc<Notify>,
}

/// What a waiter was woken for. Whoever drops it unsettled passes it on to the next one.
pub(crate) struct Errand {
    shared: Arc<HubState>,
    call: Call,
    settled: bool,
}

/// Any number of bells for one agent; all of them are rung.
#[derive(Clone, Default)]
struct Bells(Arc<Mutex<HashMap<AgentId, Vec<Arc<Notify>>>>>);

/// One of them. Dropping it takes it down.
pub(crate) struct Bell {
    bells: Bells,
    agent: AgentId,
    bell: Arc<Notify>,
}

impl Bells {
    fn hang(&self, agent: &AgentId) -> Bell {
        let bell = Arc::new(Notify::new());
        let mut bells = self.0.lock();
        bells
            .entry(agent.clone())
            .or_default()
            .push(Arc::clone(&bell));
        Bell {
            bells: self.clone(),
            agent: agent.clone(),
            bell,
        }
    }

    fn ring(&self, agents: &[AgentId]) {
        let bells = self.0.lock();
        if bells.is_empty() {
            return;
        }
        for agent in agents {
            let theirs = bells.get(agent).into_iter().flatten();
            theirs.for_each(|bell| bell.notify_one());
        }
    }

    fn ring_all(&self) {
        let bells = self.0.lock();
        bells.values().flatten().for_each(|bell| bell.notify_one());
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    fn has(&self, agent: &AgentId) -> bool {
        self.0.lock().contains_key(agent)
    }
}

impl Bell {
    pub async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut bells = self.bells.0.lock();
        if let Some(theirs) = bells.get_mut(&self.agent) {
            theirs.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
            if theirs.is_empty() {
                bells.remove(&self.agent);
            }
        }
    }
}

/// The task of which this is an end, if a message delegated it: its sender wants to hear.
pub(crate) fn ends_errand(event: &Event) -> Option<&TaskId> {
    let (Event::TaskCompleted { task, .. }
    | Event::TaskNeedsPerson { task, .. }
    | Event::TaskFailed { task, .. }
    | Event::TaskCanceled { task, .. }) = event
    else {
        return None;
    };
    Some(task).filter(|task| task.as_str().starts_with("sq:"))
}

impl Wakeups {
    /// Rings whenever the agent's row changes or a message waits for it.
    pub fn watch_agent(&self, agent: &AgentId) -> Bell {
        self.streams.hang(agent)
    }

    /// Changes whenever a key or a token ended.
    pub fn credentials(&self) -> watch::Receiver<u64> {
        self.credentials.subscribe()
    }

    pub fn has_credentials(&self) -> bool {
        self.credentials.receiver_count() > 0
    }

    /// Rings when the log tells of a job.
    pub fn jobs_bell(&self) -> watch::Receiver<()> {
        self.jobs.bell.subscribe()
    }

    /// Those of which it told since this was last asked. `None` at first, and where some may have gone by unseen.
    pub fn jobs_told(&self) -> Option<HashSet<JobId>> {
        self.jobs.told.lock().replace(HashSet::new())
    }

    /// They are looked at again.
    pub fn jobs_untold(&self, jobs: Option<HashSet<JobId>>) {
        let mut told = self.jobs.told.lock();
        match (&mut *told, jobs) {
            (Some(told), Some(jobs)) => told.extend(jobs),
            (told, _) => *told = None,
        }
    }

    /// Jobs whose phases in the queue it told of since this was last asked, as [`Wakeups::jobs_told`].
    pub fn phases_told(&self) -> Option<HashSet<JobId>> {
        self.jobs.phases.lock().replace(HashSet::new())
    }

    /// All are looked at the next time.
    pub fn phases_untold(&self) {
        *self.jobs.phases.lock() = None;
    }

    pub fn news(&self) -> broadcast::Receiver<Option<Logged>> {
        self.news.0.subscribe()
    }

    pub fn has_news(&self) -> bool {
        self.news.0.receiver_count() > 0
    }

    /// Tells those whom it concerns that the log says that a key or a token ended, or has news for streams.
    pub fn logged(&self, events: &[Logged]) {
        let ends = |logged: &Logged| logged.event.ends_credential();
        if self.has_credentials() && events.iter().any(ends) {
            self.credentials.send_modify(|ended| *ended += 1);
        }
        let phases = events.iter().filter_map(|logged| logged.event.phase());
        let mut phases = phases.peekable();
        if phases.peek().is_some() {
            if let Some(told) = &mut *self.jobs.phases.lock() {
                told.extend(phases);
            }
            let jobs = events.iter().filter_map(|logged| logged.event.job());
            if let Some(told) = &mut *self.jobs.told.lock() {
                told.extend(jobs.cloned());
            }
            self.jobs.bell.send_replace(());
        }
        if self.has_news() {
            let is_news = |logged: &&Logged| match &logged.event {
                Event::ReleasePublished { .. } => true,
                Event::FailureRecurred { .. } => true,
                event if ends_errand(event).is_some() => true,
                Event::MessageAcknowledged { from, .. } => {
                    from.as_ref().is_some_and(|from| self.streams.has(from))
                }
                _ => false,
            };
            for logged in events.iter().filter(is_news) {
                // Whoever listened may just have gone.
                let _ = self.news.0.send(Some(logged.clone()));
            }
        }
    }

    pub fn agents_changed(&self, agents: &[AgentId]) {
        self.streams.ring(agents);
    }

    pub fn all_agents_changed(&self) {
        self.streams.ring_all();
    }

    pub fn wait_for_task(shared: &Arc<HubState>, agent: Agent, filter: Filter) -> ClaimWaiter {
        let bell = Arc::new(Notify::new());
        let mut claims = shared.wakeups().claims.lock();
        claims.next += 1;
        let id = claims.next;
        for rep in Rep::all_for(&agent) {
            claims.by_rep.entry(rep).or_default().insert(id);
        }
        claims.waiting.insert(
            id,
            Waiting {
                agent,
                filter,
                bell: Arc::clone(&bell),
                woken_for: None,
                looked_at: 0,
            },
        );
        ClaimWaiter {
            shared: Arc::clone(shared),
            id,
            bell,
        }
    }

    pub fn task_is_ready(&self, lane: &LaneKey) {
        let call = Call {
            lane: lane.clone(),
            told: Vec::new(),
        };
        self.claims.lock().wake_one(call);
    }

    /// Whoever let an idle agent go first may have its turn.
    pub fn others_are_busy(&self) {
        let mut claims = self.claims.lock();
        claims.busied += 1;
        for id in std::mem::take(&mut claims.withheld) {
            if let Some(waiting) = claims.waiting.get(&id) {
                waiting.bell.notify_one();
            }
        }
    }

    pub fn wake_all_claims(&self) {
        for waiting in self.claims.lock().waiting.values() {
            waiting.bell.notify_one();
        }
    }

    /// For when nobody can tell what has changed.
    pub fn wake_all(&self) {
        self.wake_all_claims();
        self.all_agents_changed();
        self.credentials.send_modify(|ended| *ended += 1);
        self.inboxes.ring_all();
        let _ = self.news.0.send(None);
        *self.jobs.told.lock() = None;
        *self.jobs.phases.lock() = None;
        self.jobs.bell.send_replace(());
    }

    pub fn has_claims(&self) -> bool {
        !self.claims.lock().waiting.is_empty()
    }

    pub fn has_inboxes(&self) -> bool {
        !self.inboxes.is_empty() || !self.streams.is_empty()
    }

    pub fn wait_for_message(&self, agent: &AgentId) -> Bell {
        self.inboxes.hang(agent)
    }

    pub fn message_waits(&self, agent: &AgentId) {
        let agent = std::slice::from_ref(agent);
        self.streams.ring(agent);
        self.inboxes.ring(agent);
    }
}

impl Claims {
    /// Wakes the first sleeping waiter that the lane suits and that was not told yet; first those who have not
    /// failed it. A call goes round once and ends.
    fn wake_one(&mut self, mut call: Call) {
        let lane = &call.lane;
        let fits = |waiting: &Waiting| waiting.woken_for.is_none() && suits(lane, waiting);
        let reps = reps_of(lane);
        let candidates = || {
            reps.iter()
                .filter_map(|rep| self.by_rep.get(rep))
                .flatten()
                .copied()
        };
        let mut found = None;
        for id in candidates().filter(|id| !call.told.contains(id)) {
            let Some(waiting) = self.waiting.get(&id) else {
                continue;
            };
            if !fits(waiting) {
                continue;
            }
            if !lane.failed_by(&waiting.agent.id) {
                found = Some(id);
                break;
            }
            found = found.or(Some(id));
        }
        if let Some(id) = found
            && let Some(waiting) = self.waiting.get_mut(&id)
        {
            call.told.push(id);
            waiting.woken_for = Some(call);
            waiting.bell.notify_one();
        }
    }

    fn leave(&mut self, id: u64) -> Option<Call> {
        self.withheld.remove(&id);
        let waiting = self.waiting.remove(&id)?;
        for rep in Rep::all_for(&waiting.agent) {
            if let Some(ids) = self.by_rep.get_mut(&rep) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_rep.remove(&rep);
                }
            }
        }
        waiting.woken_for
    }
}

/// Every word under which a waiter for this lane may be found; whichever one the lane is filed under.
fn reps_of(lane: &LaneKey) -> Vec<Rep> {
    if lane.audience.is_empty() && !lane.skills.is_empty() {
        // Whoever qualifies has all the skills, so any one of them finds every candidate.
        return lane
            .skills
            .iter()
            .take(1)
            .map(|skill| Rep(skill.clone()))
            .collect();
    }
    vec![lane.rep(|_| 0)]
}

fn suits(lane: &LaneKey, waiting: &Waiting) -> bool {
    let filter = &waiting.filter;
    lane.admits(&waiting.agent) && filter.wants(lane)
}

impl ClaimWaiter {
    pub async fn woken(&self) {
        self.bell.notified().await;
    }

    /// What it was woken for, if it was. To be taken up before it looks.
    pub fn errand(&self) -> Option<Errand> {
        let mut claims = self.shared.wakeups().claims.lock();
        claims.withheld.remove(&self.id);
        let busied = claims.busied;
        let waiting = claims.waiting.get_mut(&self.id)?;
        waiting.looked_at = busied;
        let call = waiting.woken_for.take()?;
        Some(Errand {
            shared: Arc::clone(&self.shared),
            call,
            settled: false,
        })
    }

    /// What it found goes to others first: it is woken once one of them may be busy.
    pub fn lets_others_go_first(&self) {
        let mut claims = self.shared.wakeups().claims.lock();
        let busied = claims.busied;
        let Some(waiting) = claims.waiting.get(&self.id) else {
            return;
        };
        if waiting.looked_at == busied {
            claims.withheld.insert(self.id);
        } else {
            // It has happened since.
            waiting.bell.notify_one();
        }
    }
}

impl Errand {
    pub fn lane(&self) -> &LaneKey {
        &self.call.lane
    }

    /// The task is taken: nothing to pass on.
    pub fn settle(mut self) {
        self.settled = true;
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        if !self.settled {
            self.shared
                .wakeups()
                .claims
                .lock()
                .wake_one(self.call.clone());
        }
    }
}

impl Drop for ClaimWaiter {
    fn drop(&mut self) {
        let mut claims = self.shared.wakeups().claims.lock();
        if let Some(call) = claims.leave(self.id) {
            claims.wake_one(call);
        }
    }
}

/// The agent as the writer sees it now; changes nothing.
pub(crate) struct Describe {
    pub agent: AgentId,
}

impl Verb for Describe {
    type Reply = Option<Agent>;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.agent(&self.agent);
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<(Option<Agent>, Changes), Refusal> {
        Ok((slice.agent(&self.agent).cloned(), Changes::default()))
    }
}

/// Whether tasks of a lane still wait; changes nothing.
pub(crate) struct StillReady {
    pub lane: LaneKey,
}

impl Verb for StillReady {
    type Reply = bool;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.lane_for(&self.lane);
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<(bool, Changes), Refusal> {
        let lane = Want::new(slice).lane_for(&self.lane);
        Ok((lane.is_some_and(|lane| lane.ready > 0), Changes::default()))
    }
}
