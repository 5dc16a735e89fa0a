//! The handle everything goes through: changes by [`Hub::run`], lists by [`Hub::read`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use switchboard_core::changes::Nonce;
use switchboard_core::idempotency::{Key, Remembered};
use switchboard_core::verb::{Claim, Claimed, Receive, Retention, Serve};
use switchboard_core::{Agent, AgentId, Changes, Message, Refusal, Slice, Timestamp, Verb, Want};
use switchboard_store::{Engine, Error as StoreError, Reader};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::caretaker;
use crate::readers::Readers;
use crate::sequencer::{Committed, Failure, Input, Job, Listener, Sequencer};
use crate::wakeups::{ClaimWaiter, Describe, Errand, StillReady, Wakeups};

/// A cheap handle to the one hub of this process.
#[derive(Clone)]
pub struct Hub {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Verbs that may wait for the writer; past it callers are told to come back.
    pub queue: usize,
    pub readers: usize,
    pub keep: Retention,
    /// Called when the ledger can no longer be made durable. Must end the process.
    pub on_fatal: fn(&StoreError) -> !,
}

impl Default for HubConfig {
    fn default() -> Self {
        HubConfig {
            queue: 4096,
            readers: 2,
            keep: Retention::default(),
            on_fatal: end_process,
        }
    }
}

/// What is committed together with a change: the key that makes it happen once, the signature that must not come again.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    pub key: Option<(Key, [u8; 32])>,
    pub nonce: Option<Nonce>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<R> {
    Fresh(R),
    /// The same call came before; these are the bytes of its answer.
    Replayed(Arc<[u8]>),
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("{0}")]
    Unavailable(String),
    #[error("the hub has more to do than it can queue; try again in a moment")]
    Overloaded,
    #[error("the hub is stopping")]
    Stopping,
    #[error("the hub made a mistake; nothing was changed")]
    Broken,
    #[error("'after' must be the 'next' of the page before")]
    BadCursor,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub waiting: usize,
    pub capacity: usize,
    pub verbs: u64,
    pub batches: u64,
    pub commits: u64,
    pub commit_micros: u64,
}

pub(crate) struct Shared {
    input: Mutex<Option<SyncSender<Input>>>,
    readers: Readers,
    wakeups: Wakeups,
    pulses: RwLock<HashMap<AgentId, (Timestamp, u64)>>,
    latest: watch::Sender<u64>,
    now: AtomicI64,
    /// The earliest known instant at which the caretaker has work, and its bell.
    pub(crate) due: AtomicI64,
    pub(crate) due_bell: Notify,
    pub(crate) keep: Retention,
    on_fatal: fn(&StoreError) -> !,
    waiting: AtomicUsize,
    capacity: usize,
    verbs: AtomicU64,
    batches: AtomicU64,
    commits: AtomicU64,
    commit_micros: AtomicU64,
    writer: Mutex<Option<JoinHandle<()>>>,
    caretaker: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

fn end_process(error: &StoreError) -> ! {
    tracing::error!("{error}; the hub ends here, the file is the truth: start it again");
    eprintln!("switchboard: {error}; the hub ends here, the file is the truth: start it again");
    std::process::exit(74)
}

impl Hub {
    /// Starts the writer, the readers and the caretaker, and begins to serve the ledger.
    pub async fn start(engine: Box<dyn Engine>, config: HubConfig) -> Result<Hub, Error> {
        let readers: Result<Vec<_>, _> = (0..config.readers.max(1))
            .map(|_| engine.reader())
            .collect();
        let readers = Readers::start(readers.map_err(world)?);
        let (sender, receiver) = sync_channel(config.queue);
        let shared = Arc::new(Shared {
            input: Mutex::new(Some(sender)),
            readers,
            wakeups: Wakeups::default(),
            pulses: RwLock::default(),
            latest: watch::Sender::new(0),
            now: AtomicI64::new(0),
            due: AtomicI64::new(0),
            due_bell: Notify::new(),
            keep: config.keep,
            on_fatal: config.on_fatal,
            waiting: AtomicUsize::new(0),
            capacity: config.queue,
            verbs: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            commit_micros: AtomicU64::new(0),
            writer: Mutex::new(None),
            caretaker: Mutex::new(None),
        });
        let sequencer = Sequencer {
            engine,
            slice: Slice::default(),
            input: receiver,
            listener: Arc::clone(&shared),
        };
        let writer = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || sequencer.run());
        let writer = writer
            .map_err(|error| Error::Unavailable(format!("no thread for the writer: {error}")))?;
        *shared.writer.lock() = Some(writer);
        let hub = Hub { shared };
        hub.run(Serve { starting: true }).await?;
        let head = hub.read(|reader| reader.head()).await?;
        hub.shared.latest.send_replace(head.seq);
        let caretaker = tokio::spawn(caretaker::run(hub.clone()));
        *hub.shared.caretaker.lock() = Some(caretaker);
        Ok(hub)
    }

    /// Every change to the ledger. Answers only after commit.
    pub async fn run<V>(&self, verb: V) -> Result<V::Reply, Error>
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        match self.submit(verb, Guard::default(), None).await? {
            Outcome::Fresh(reply) => Ok(reply),
            Outcome::Replayed(_) => Err(Error::Broken),
        }
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
        self.submit(verb, guard, Some(render)).await
    }

    /// CLAIM, waiting for something that fits.
    pub async fn claim(
        &self,
        claim: Claim,
        guard: Guard,
        render: fn(&Claimed) -> Vec<u8>,
        wait: Duration,
    ) -> Result<Outcome<Claimed>, Error> {
        let deadline = Instant::now() + wait;
        let is_task = |claimed: &Claimed| matches!(claimed, Claimed::Task(_));
        if wait.is_zero() || claim.task.is_some() {
            return self.call(claim, guard, render).await;
        }
        // Registered before it looks, so that a task that comes in between still wakes it.
        let Some(waiter) = self.waiter(&claim).await? else {
            return self.call(claim, guard, render).await;
        };
        loop {
            // Taken up before it looks: from here on the next task rings again.
            let errand = waiter.errand();
            // An empty answer is not remembered while it waits: only the last one is what the caller hears.
            let over = Instant::now() >= deadline;
            let last = Last {
                verb: claim.clone(),
                keep_empty: over,
                is_something: is_task,
            };
            let outcome = self.submit(last, guard.clone(), Some(render)).await?;
            match &outcome {
                Outcome::Fresh(Claimed::None(_)) if !over => {}
                Outcome::Fresh(Claimed::Task(task)) => {
                    // A more urgent one may have come first: then what it was woken for is passed on.
                    let took = errand.filter(|errand| errand.lane().matches(task));
                    took.into_iter().for_each(Errand::settle);
                    return Ok(outcome);
                }
                Outcome::Fresh(Claimed::None(_)) | Outcome::Replayed(_) => return Ok(outcome),
            }
            if let Some(errand) = errand
                && !self
                    .run(StillReady {
                        lane: errand.lane().clone(),
                    })
                    .await?
            {
                errand.settle();
            }
            let _ = tokio::time::timeout_at(deadline, waiter.woken()).await;
        }
    }

    async fn waiter(&self, claim: &Claim) -> Result<Option<ClaimWaiter>, Error> {
        let agent = self
            .run(Describe {
                agent: claim.agent.clone(),
            })
            .await?;
        Ok(agent.map(|agent| Wakeups::wait_for_task(&self.shared, agent, claim.filter.clone())))
    }

    /// RECEIVE_MESSAGES, waiting for one to come.
    pub async fn receive(
        &self,
        receive: Receive,
        guard: Guard,
        render: fn(&Vec<Message>) -> Vec<u8>,
        wait: Duration,
    ) -> Result<Outcome<Vec<Message>>, Error> {
        let deadline = Instant::now() + wait;
        let has_some = |messages: &Vec<Message>| !messages.is_empty();
        loop {
            let waiter = self.shared.wakeups.wait_for_message(&receive.agent);
            let over = Instant::now() >= deadline;
            let last = Last {
                verb: receive.clone(),
                keep_empty: over,
                is_something: has_some,
            };
            let outcome = self.submit(last, guard.clone(), Some(render)).await?;
            match &outcome {
                Outcome::Fresh(messages) if messages.is_empty() && !over => {}
                Outcome::Fresh(_) | Outcome::Replayed(_) => return Ok(outcome),
            }
            let _ = tokio::time::timeout_at(deadline, waiter.woken()).await;
        }
    }

    /// Every list. Runs on the reader threads.
    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.shared.readers.submit(Box::new(move |reader| {
            let _ = reply.send(query(reader));
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

    /// The ledger's time as of the last batch.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.shared.now.load(Ordering::Relaxed))
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
        }
    }

    /// Answers what was accepted, writes what was held back, and ends. Later calls are refused.
    pub async fn stop(&self) {
        if let Some(caretaker) = self.shared.caretaker.lock().take() {
            caretaker.abort();
        }
        let input = self.shared.input.lock().take();
        let writer = self.shared.writer.lock().take();
        let shared = Arc::clone(&self.shared);
        let _ = tokio::task::spawn_blocking(move || {
            // Before the writer, so that the engine is the last to let go of the ledger.
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
        let sender = self.shared.input.lock().clone().ok_or(Error::Stopping)?;
        // Counted first, so that the writer never takes away what was not added yet.
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        sender.try_send(input).map_err(|error| {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            match error {
                TrySendError::Full(_) => Error::Overloaded,
                TrySendError::Disconnected(_) => Error::Stopping,
            }
        })
    }

    async fn submit<V>(
        &self,
        verb: V,
        guard: Guard,
        render: Option<Render<V::Reply>>,
    ) -> Result<Outcome<V::Reply>, Error>
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        let (reply, answer) = oneshot::channel();
        self.send(Input::Job(Box::new(VerbJob {
            verb,
            guard,
            render,
            reply,
            decided: None,
        })))?;
        answer.await.map_err(|_| Error::Stopping)?
    }
}

/// Prints a reply as the bytes that are kept under its key.
type Render<R> = fn(&R) -> Vec<u8>;

/// A verb whose empty reply is not worth remembering under its key.
struct Last<V: Verb> {
    verb: V,
    keep_empty: bool,
    is_something: fn(&V::Reply) -> bool,
}

impl<V: Verb> Verb for Last<V> {
    type Reply = V::Reply;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        self.verb.asks(want, now);
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(V::Reply, Changes), Refusal> {
        self.verb.decide(slice, now)
    }

    fn is_final(&self, reply: &V::Reply) -> bool {
        self.keep_empty || (self.is_something)(reply)
    }
}

struct VerbJob<V: Verb> {
    verb: V,
    guard: Guard,
    render: Option<Render<V::Reply>>,
    reply: oneshot::Sender<Result<Outcome<V::Reply>, Error>>,
    decided: Option<Result<Outcome<V::Reply>, Error>>,
}

impl<V> Job for VerbJob<V>
where
    V: Verb + Send,
    V::Reply: Send,
{
    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if let Some(nonce) = &self.guard.nonce {
            want.nonce_was_seen(nonce);
        }
        if let Some((key, _)) = &self.guard.key
            && want.remembered(key).is_some()
        {
            return;
        }
        self.verb.asks(want, now);
    }

    fn decide(&mut self, slice: &Slice, now: Timestamp) -> Option<Changes> {
        // Whoever asked has gone: a task handed out now would be held by nobody.
        if self.reply.is_closed() {
            return None;
        }
        let mut want = Want::new(slice);
        if let Some(nonce) = &self.guard.nonce
            && want.nonce_was_seen(nonce) == Some(true)
        {
            self.decided = Some(Err(Refusal::Replayed.into()));
            return None;
        }
        if let Some((key, body_hash)) = &self.guard.key
            && let Some(before) = want.remembered(key)
        {
            self.decided = Some(if before.body_hash == *body_hash {
                Ok(Outcome::Replayed(Arc::clone(&before.answer)))
            } else {
                Err(Refusal::KeyReused.into())
            });
            let nonces = self.guard.nonce.iter().cloned().collect();
            return Some(Changes {
                nonces,
                ..Changes::default()
            });
        }
        match self.verb.decide(slice, now) {
            Err(refusal) => {
                self.decided = Some(Err(refusal.into()));
                None
            }
            Ok((reply, mut changes)) => {
                let is_final = self.verb.is_final(&reply);
                changes
                    .nonces
                    .extend(self.guard.nonce.clone().filter(|_| is_final));
                if let (Some((key, body_hash)), Some(render)) = (&self.guard.key, self.render)
                    && is_final
                {
                    let answer = render(&reply).into();
                    changes.remembered.push((
                        key.clone(),
                        Remembered {
                            body_hash: *body_hash,
                            answer,
                            at: now,
                        },
                    ));
                }
                self.decided = Some(Ok(Outcome::Fresh(reply)));
                Some(changes)
            }
        }
    }

    fn answer(self: Box<Self>) {
        if let Some(decided) = self.decided {
            let _ = self.reply.send(decided);
        }
    }

    fn fail(self: Box<Self>, failure: &Failure) {
        let error = match failure {
            Failure::Unavailable(why) => Error::Unavailable(why.clone()),
            Failure::Panicked => Error::Broken,
        };
        let _ = self.reply.send(Err(error));
    }
}

impl Listener for Arc<Shared> {
    fn taken(&self, inputs: usize) {
        let _ = self
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                Some(waiting.saturating_sub(inputs))
            });
    }

    fn committed(&self, batch: &Committed<'_>) {
        self.now.store(batch.now.0, Ordering::Relaxed);
        self.verbs.fetch_add(batch.verbs as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        if batch.wrote {
            self.commits.fetch_add(1, Ordering::Relaxed);
            let micros = u64::try_from(batch.took.as_micros()).unwrap_or(u64::MAX);
            self.commit_micros.fetch_add(micros, Ordering::Relaxed);
        }
        self.share_pulses(batch);
        if let Some(last) = batch.log.last() {
            self.latest.send_replace(last.seq);
        }
        if let Some(due) = batch.notices.due
            && due.0 < self.due.fetch_min(due.0, Ordering::Relaxed)
        {
            self.due_bell.notify_one();
        }
        for lane in batch.readied() {
            self.wakeups.task_is_ready(lane);
        }
        if batch.notices.agents_left {
            self.wakeups.wake_all_claims();
        }
        for agent in &batch.notices.inboxes {
            self.wakeups.message_waits(agent);
        }
    }

    fn fatal(&self, error: &StoreError) -> ! {
        (self.on_fatal)(error)
    }
}

impl Shared {
    fn share_pulses(&self, batch: &Committed<'_>) {
        let pulsed = &batch.notices.pulsed;
        let none_held = !batch.slice.holds_pulses();
        if pulsed.is_empty() && !(none_held && batch.wrote) {
            return;
        }
        let mut pulses = self.pulses.write();
        if none_held {
            pulses.clear();
        }
        for agent in pulsed {
            match batch.slice.held_pulse(agent) {
                Some(pulse) => pulses.insert(agent.clone(), pulse),
                None => pulses.remove(agent),
            };
        }
    }

    pub(crate) fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }
}

fn world(error: StoreError) -> Error {
    match error {
        StoreError::BadCursor(_) => Error::BadCursor,
        StoreError::Unavailable(_)
        | StoreError::Fatal(_)
        | StoreError::InDoubt(_)
        | StoreError::Corrupt(_)
        | StoreError::NewerSchema { .. }
        | StoreError::Open(_) => Error::Unavailable(error.to_string()),
    }
}
