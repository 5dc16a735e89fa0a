//! The handle everything goes through: changes by [`Hub::run`], lists by [`Hub::read`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use switchboard_core::changes::Nonce;
use switchboard_core::verb::{Retention, Serve, ServeRoot};
use switchboard_core::{
    Agent, AgentId, GatePolicy, LedgerEpoch, NodeId, Refusal, Timestamp, Verb, limits,
};
use switchboard_store::{Engine, Error as StoreError, Readable, Reader, Tail};
use tokio::sync::{Notify, oneshot, watch};

use crate::call::{Guard, Ids, Outcome, VerbJob};
use crate::caretaker;
use crate::readers::Readers;
use crate::sequencer::{Adoption, Input, Sequencer};
use crate::stream;
use crate::tail::Follower;
use crate::time::LedgerTime;
use crate::wakeups::Wakeups;
use crate::{config, runtime};

mod heard;

/// A cheap handle to the one hub of this process.
#[derive(Clone)]
pub struct Hub {
    pub(crate) shared: Arc<HubState>,
}

#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Verbs that may wait for the writer; past it callers are told to come back.
    pub queue: usize,
    pub readers: usize,
    pub keep: Retention,
    /// A claim that its agent has left behind for this long goes back.
    pub stale_after: Duration,
    /// What completions that were written by hand are held against.
    pub policy: Arc<GatePolicy>,
    /// The project's absolute directory, which paths in messages that were written by hand are relative to.
    pub root: String,
    /// Which node the ledger is.
    pub runtime: config::Runtime,
    /// Called when the ledger can no longer be made durable. Must end the process.
    pub on_fatal: fn(&StoreError) -> !,
}

impl Default for HubConfig {
    fn default() -> Self {
        HubConfig {
            queue: 4096,
            readers: 2,
            keep: Retention::default(),
            stale_after: limits::STALE_AFTER,
            policy: Arc::default(),
            root: "/".to_owned(),
            runtime: config::Runtime::default(),
            on_fatal: end_process,
        }
    }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("the ledger cannot be used: {0}")]
    Unavailable(String),
    #[error("the ledger became unavailable during the commit, the outcome is unknown: {0}")]
    InDoubt(String),
    #[error("the hub is overloaded; retry in a moment")]
    Overloaded,
    #[error("the hub is stopping")]
    Stopping,
    #[error("internal error of the hub; nothing was changed")]
    Broken,
    #[error("'after' must be the 'next' of the previous page")]
    BadCursor,
}

impl Error {
    /// Nothing was changed, and the same may work in a moment: whoever waits anyway need not hear of it.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Error::Unavailable(_) | Error::Overloaded => true,
            Error::Refused(_)
            | Error::InDoubt(_)
            | Error::Stopping
            | Error::Broken
            | Error::BadCursor => false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub waiting: usize,
    pub capacity: usize,
    pub verbs: u64,
    pub batches: u64,
    pub commits: u64,
    pub commit_micros: u64,
    /// Batches that were not written, or that nobody can tell of.
    pub failures: u64,
    /// The last batch that had something to write was written.
    pub writes: bool,
}

pub(crate) struct HubState {
    input: Mutex<Option<SyncSender<Input>>>,
    is_shared: bool,
    /// What this process is called among those that serve one ledger.
    pub(crate) name: String,
    /// Where the project is.
    root: String,
    pub(crate) runtime: config::Runtime,
    readers: Readers,
    wakeups: Wakeups,
    pulses: RwLock<HashMap<AgentId, (Timestamp, u64)>>,
    latest: watch::Sender<u64>,
    epoch: Mutex<LedgerEpoch>,
    time: LedgerTime,
    /// Why the last batch was not written, until one is.
    trouble: Mutex<Option<String>>,
    /// Since when the commit that is under way is waited for.
    committing: Mutex<Option<Instant>>,
    /// Tells other coordinators how far this one has written.
    announce: Option<Announce>,
    /// The writer was asked to look for hand writes.
    looking: AtomicBool,
    /// The earliest known instant at which the caretaker has work, and its bell.
    pub(crate) due: AtomicI64,
    pub(crate) due_bell: Notify,
    /// Rings when agents or nodes come and go by what this process writes.
    pub(crate) agents_bell: watch::Sender<()>,
    /// Rings when this process tells other nodes something.
    pub(crate) outbox_bell: watch::Sender<()>,
    /// See [`crate::runtime::node_id`].
    pub(crate) node_id: OnceLock<NodeId>,
    pub(crate) keep: Retention,
    pub(crate) stale_after: Duration,
    on_fatal: fn(&StoreError) -> !,
    waiting: AtomicUsize,
    capacity: usize,
    verbs: AtomicU64,
    batches: AtomicU64,
    commits: AtomicU64,
    commit_micros: AtomicU64,
    failures: AtomicU64,
    writer: Mutex<Option<JoinHandle<()>>>,
    follower: Mutex<Option<Follower>>,
    caretaker: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

/// How soon it is tried again to begin on a ledger that takes no writes yet.
const BEGIN_AGAIN_AFTER: Duration = Duration::from_secs(1);

type Announce = Box<dyn Fn(u64) + Send + Sync>;

fn end_process(error: &StoreError) -> ! {
    let next = match error {
        StoreError::Corrupt(_) => {
            "it writes nothing more; keep a copy of the ledger's files, run 'switchboard doctor', and restore a backup"
        }
        StoreError::Unavailable(_)
        | StoreError::Fatal(_)
        | StoreError::InDoubt(_)
        | StoreError::NewerSchema { .. }
        | StoreError::BadCursor(_)
        | StoreError::Moved(_)
        | StoreError::ClockInDoubt { .. }
        | StoreError::Open(_) => "what it acknowledged is in the ledger: restart it",
    };
    tracing::error!("{error}; the hub ends here: {next}");
    eprintln!("switchboard: {error}; the hub ends here: {next}");
    std::process::exit(74)
}

impl Hub {
    /// Starts the writer, the readers and the caretaker, and begins to serve the ledger.
    pub async fn start(engine: Box<dyn Engine>, config: HubConfig) -> Result<Hub, Error> {
        // An engine may have to wait for a connection, and may do so on a runtime of its own.
        let opened = tokio::task::spawn_blocking(move || Opened::of(engine, config.readers)).await;
        let opened = opened.map_err(|_| Error::Broken)?.map_err(world)?;
        let (is_shared, tail) = (opened.engine.is_shared(), opened.tail);
        let is_writable = opened.engine.is_writable();
        let (sender, receiver) = sync_channel(config.queue);
        let announce = tail.as_ref().map(|tail| tail.announcer());
        let readers = Readers::start(opened.readers);
        let shared = Arc::new(HubState::new(sender, readers, is_shared, announce, &config));
        let adoption = Adoption::new(Arc::clone(&config.policy), config.root);
        let sequencer = Sequencer::new(opened.engine, receiver, Arc::clone(&shared), adoption);
        let writer = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || sequencer.run())
            .map_err(|error| no_thread("writer", &error))?;
        *shared.writer.lock() = Some(writer);
        let hub = Hub { shared };
        if !is_writable {
            hub.begin_later().await;
            return Ok(hub);
        }
        match hub.begin(is_shared, tail).await {
            Ok(()) => Ok(hub),
            Err(error) => {
                hub.stop().await;
                Err(error)
            }
        }
    }

    async fn begin(&self, is_shared: bool, tail: Option<Box<dyn Tail>>) -> Result<(), Error> {
        // Others may have served a shared ledger all the time: then silence goes on to count. Signs of life were
        // held back by nobody, and a gap tells by itself.
        let starting = !is_shared;
        self.run(Serve { starting }).await?;
        self.run(ServeRoot::new(&self.shared.root)).await?;
        self.run(runtime::opens(self).await?).await?;
        match is_shared {
            true => stream::attend(self).await?,
            false => stream::end_all(self).await,
        }
        let head = self.read(|reader| reader.head()).await?;
        self.shared.entered(head.epoch, head.seq);
        self.shared.reached(head.seq);
        if let Some(tail) = tail {
            let follower = Follower::start(tail, Arc::clone(&self.shared), head.seq)
                .map_err(|error| no_thread("tail", &error))?;
            *self.shared.follower.lock() = Some(follower);
        }
        *self.shared.caretaker.lock() = Some(tokio::spawn(caretaker::run(self.clone())));
        Ok(())
    }

    /// Serves a ledger that takes no writes yet: what can be read is read, and it begins as soon as it may.
    async fn begin_later(&self) {
        if let Ok(head) = self.read(|reader| reader.head()).await {
            let (now, at) = (head.last_at, Instant::now());
            self.shared.time.heard(now, now, at);
            self.shared.entered(head.epoch, head.seq);
            self.shared.reached(head.seq);
        }
        let hub = self.clone();
        let later = async move {
            loop {
                match hub.begin(false, None).await {
                    Ok(()) | Err(Error::Stopping) => return,
                    Err(error) => tracing::debug!(%error, "the hub starts later"),
                }
                tokio::time::sleep(BEGIN_AGAIN_AFTER).await;
            }
        };
        *self.shared.caretaker.lock() = Some(tokio::spawn(later));
    }

    /// Every change to the ledger. Answers only after commit.
    pub async fn run<V>(&self, verb: V) -> Result<V::Reply, Error>
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        self.run_signed(verb, None).await
    }

    /// The same with a signature that is committed together with the change.
    pub(crate) async fn run_signed<V>(
        &self,
        verb: V,
        nonce: Option<Nonce>,
    ) -> Result<V::Reply, Error>
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        let guard = Guard {
            nonce,
            ..Guard::default()
        };
        // Without a key nothing is printed.
        match self.call(verb, guard, |_| Vec::new()).await? {
            Outcome::Fresh(reply, _) => Ok(reply),
            Outcome::Replayed(_) => Err(Error::Broken),
        }
    }

    /// Whether other coordinators may write the same ledger.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_shared
    }

    /// The same with a key or a signature that are committed together with the change.
    pub async fn call<V>(
        &self,
        verb: V,
        guard: Guard,
        render: fn(&V::Reply) -> Vec<u8>,
    ) -> Result<Outcome<V::Reply>, Error>
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        let (job, answer) = VerbJob::boxed(verb, guard, render);
        self.send(Input::Job(job))?;
        answer.await.map_err(|_| Error::Stopping)?
    }

    /// Verbs that belong together, in order: they are one commit.
    pub(crate) async fn run_together<V>(
        &self,
        verbs: impl IntoIterator<Item = V>,
    ) -> Result<Vec<V::Reply>, Error>
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        let jobs = verbs.into_iter();
        let jobs = jobs.map(|verb| VerbJob::boxed(verb, Guard::default(), |_| Vec::new()));
        let (jobs, answers): (Vec<_>, Vec<_>) = jobs.unzip();
        self.send(Input::Jobs(jobs))?;
        let mut replies = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer.await.map_err(|_| Error::Stopping)?? {
                Outcome::Fresh(reply, _) => replies.push(reply),
                Outcome::Replayed(_) => return Err(Error::Broken),
            }
        }
        Ok(replies)
    }

    /// Every list. Runs on the reader threads.
    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn Readable<Error = StoreError>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.shared.readers.submit(Box::new(move |reader| {
            // Whoever asked may have gone while others were answered.
            if !reply.is_closed() {
                let _ = reply.send(reader.check().and_then(|()| query(reader)));
            }
        }))?;
        answer.await.map_err(|_| Error::Stopping)?.map_err(world)
    }

    /// Adds signs of life that are newer than the stored row.
    pub fn freshen(&self, agent: &mut Agent) {
        if let Some((at, heartbeats)) = self.shared.pulses.read().get(&agent.id) {
            agent.seen_at = agent.seen_at.max(*at);
            agent.heartbeats = agent.heartbeats.max(*heartbeats);
        }
    }

    /// The latest committed event's number; changes when there are new ones.
    pub fn latest(&self) -> watch::Receiver<u64> {
        self.shared.latest.subscribe()
    }

    /// The ledger's epoch. When it changes, so does [`Hub::latest`].
    pub fn epoch(&self) -> LedgerEpoch {
        *self.shared.epoch.lock()
    }

    /// What time it is on the ledger: that of the last batch, carried on by the monotonic clock. Never goes back.
    pub fn time(&self) -> Timestamp {
        self.shared.time.now()
    }

    /// What the wall clock shows, the machine's or the database's.
    pub fn wall(&self) -> Timestamp {
        self.shared.time.wall()
    }

    /// How far the wall clock is ahead of the ledger's; the ledger's goes towards it slowly.
    pub fn wall_ahead_ms(&self) -> i64 {
        self.shared.time.wall_ahead_ms()
    }

    /// Why the last batch could not be written, if it could not.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().clone()
    }

    /// How long the commit that is under way has been waited for.
    pub fn commit_waits(&self) -> Duration {
        let since = *self.shared.committing.lock();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        Stats {
            waiting: shared.waiting.load(Ordering::Relaxed),
            capacity: shared.capacity,
            verbs: shared.verbs.load(Ordering::Relaxed),
            batches: shared.batches.load(Ordering::Relaxed),
            commits: shared.commits.load(Ordering::Relaxed),
            commit_micros: shared.commit_micros.load(Ordering::Relaxed),
            failures: shared.failures.load(Ordering::Relaxed),
            writes: shared.trouble.lock().is_none(),
        }
    }

    /// Answers what was accepted, writes what was held back, and ends. Later calls are refused.
    pub async fn stop(&self) {
        if let Some(caretaker) = self.shared.caretaker.lock().take() {
            caretaker.abort();
        }
        let input = self.shared.input.lock().take();
        let writer = self.shared.writer.lock().take();
        let follower = self.shared.follower.lock().take();
        let shared = Arc::clone(&self.shared);
        let _ = tokio::task::spawn_blocking(move || {
            // Before the writer, so that the engine is the last to let go of the ledger.
            if let Some(follower) = follower {
                follower.stop();
            }
            shared.readers.stop();
            if let Some(input) = input {
                let _ = input.send(Input::Stop);
            }
            if let Some(writer) = writer {
                let _ = writer.join();
            }
        })
        .await;
    }

    pub(crate) async fn next_due(&self) -> Option<Timestamp> {
        let (reply, answer) = oneshot::channel();
        self.send(Input::NextDue(reply)).ok()?;
        answer.await.ok().flatten()
    }

    fn send(&self, input: Input) -> Result<(), Error> {
        self.shared.send(input)
    }
}

/// An engine with all that is opened beside it.
struct Opened {
    engine: Box<dyn Engine>,
    readers: Vec<Box<dyn Reader>>,
    tail: Option<Box<dyn Tail>>,
}

impl Opened {
    fn of(engine: Box<dyn Engine>, readers: usize) -> Result<Opened, StoreError> {
        let readers: Result<Vec<_>, _> = (0..readers.max(1)).map(|_| engine.reader()).collect();
        Ok(Opened {
            readers: readers?,
            tail: engine.tail()?,
            engine,
        })
    }
}

impl HubState {
    fn new(
        input: SyncSender<Input>,
        readers: Readers,
        is_shared: bool,
        announce: Option<Announce>,
        config: &HubConfig,
    ) -> Self {
        HubState {
            input: Mutex::new(Some(input)),
            is_shared,
            name: Ids::default().fresh("hub"),
            root: config.root.clone(),
            runtime: config.runtime.clone(),
            readers,
            wakeups: Wakeups::default(),
            pulses: RwLock::default(),
            latest: watch::Sender::new(0),
            epoch: Mutex::default(),
            time: LedgerTime::new(),
            trouble: Mutex::default(),
            committing: Mutex::default(),
            announce,
            looking: AtomicBool::new(false),
            due: AtomicI64::new(0),
            due_bell: Notify::new(),
            agents_bell: watch::Sender::new(()),
            outbox_bell: watch::Sender::new(()),
            node_id: OnceLock::new(),
            keep: config.keep,
            stale_after: config.stale_after,
            on_fatal: config.on_fatal,
            waiting: AtomicUsize::new(0),
            capacity: config.queue,
            verbs: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            commit_micros: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            writer: Mutex::new(None),
            follower: Mutex::new(None),
            caretaker: Mutex::new(None),
        }
    }

    fn send(&self, input: Input) -> Result<(), Error> {
        let sender = self.input.lock().clone().ok_or(Error::Stopping)?;
        // Counted first, so that the writer never takes away what was not added yet.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        sender.try_send(input).map_err(|error| {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            match error {
                TrySendError::Full(_) => Error::Overloaded,
                TrySendError::Disconnected(_) => Error::Stopping,
            }
        })
    }

    /// Has the writer take in what was written by hand; asked once until it has had a batch. A full queue needs no
    /// word: its batches look anyway.
    pub(crate) fn look(&self) {
        if !self.looking.swap(true, Ordering::Relaxed) && self.send(Input::Look).is_err() {
            self.looking.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }
}

fn no_thread(name: &str, error: &std::io::Error) -> Error {
    Error::Unavailable(format!("no thread for the {name}: {error}"))
}

fn world(error: StoreError) -> Error {
    match error {
        StoreError::BadCursor(_) => Error::BadCursor,
        StoreError::Unavailable(_)
        | StoreError::Fatal(_)
        | StoreError::InDoubt(_)
        | StoreError::Corrupt(_)
        | StoreError::NewerSchema { .. }
        | StoreError::Moved(_)
        | StoreError::ClockInDoubt { .. }
        | StoreError::Open(_) => Error::Unavailable(reason(&error)),
    }
}

/// Why, without the words that every answer about it begins with.
pub(crate) fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Unavailable(why) | StoreError::InDoubt(why) => why.clone(),
        StoreError::Fatal(_)
        | StoreError::Corrupt(_)
        | StoreError::NewerSchema { .. }
        | StoreError::Moved(_)
        | StoreError::ClockInDoubt { .. }
        | StoreError::BadCursor(_)
        | StoreError::Open(_) => error.to_string(),
    }
}
