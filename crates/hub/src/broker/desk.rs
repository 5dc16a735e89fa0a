//! The desk of one role: who is connected under it, and what is on its way to them.
//!
//! Every message goes to all its sockets. It counts as handed over once one that is no passing sender has it; what is
//! written to a young connection is settled a moment later, when it is known which of the two it is. What the ledger has
//! to be told is [`run`]'s business, so that nobody who sends waits for it.

mod run;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::verb::TakeUp;
use switchboard_core::{AgentId, Message, MessageId, TaskId};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::sync::CancellationToken;

use super::socket::{Frame, Socket};
use super::state::Broker;
use crate::stream::{Ended, OnItsWay};

/// What is written to a young connection is settled after this.
const SETTLE_AFTER: Duration = Duration::from_secs(2);
/// Written and not settled; past it messages wait for their turn.
const LETTERS_MAX: usize = 1024;
/// Traces that are remembered for receipts.
const TRACES_MAX: usize = 256;
/// A client waits 3 s for its `registered`.
const OPEN_WITHIN: Duration = Duration::from_millis(2500);

pub(super) struct Desk {
    pub role: AgentId,
    /// What its stream is called in the ledger.
    stream: String,
    on_its_way: Arc<OnItsWay>,
    state: Mutex<State>,
    bell: Notify,
    /// Whether the role has signed on, or why not.
    door: watch::Sender<Door>,
    /// What it had is settled, and it takes nothing more.
    pub over: CancellationToken,
}

#[derive(Default)]
struct State {
    sockets: Vec<Arc<Socket>>,
    /// Those that wait for the door.
    entering: usize,
    /// Those that came a moment ago.
    newcomers: Vec<Arc<Socket>>,
    letters: HashMap<MessageId, Letter>,
    /// Who waits for a message that is still to come with the mail.
    awaited: HashMap<MessageId, Vec<oneshot::Sender<u32>>>,
    /// Tasks that were claimed with a message that is not settled yet.
    claimed: HashMap<MessageId, TaskId>,
    /// Messages whose trace is not their id, as they are known by in receipts. Oldest first.
    traces: VecDeque<(String, MessageId)>,
    /// To be told to the ledger: written, or nobody's.
    settled: Vec<MessageId>,
    returned: Vec<MessageId>,
    /// More may wait in the ledger than is known here.
    looks: bool,
    /// Nobody sits here any more.
    is_over: bool,
}

/// A message on its way.
#[derive(Default)]
struct Letter {
    /// Sockets that have it and did not write it yet.
    on: Vec<u64>,
    /// How many got it.
    count: u32,
    /// Young ones that wrote it.
    young: Vec<Arc<Socket>>,
    settle_at: Option<Instant>,
    waiting: Vec<oneshot::Sender<u32>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Door {
    Closed,
    Open,
    Refused(String),
}

impl Broker {
    /// Sits down at a role's desk once the role has signed on. The reason, if it cannot.
    pub(super) async fn enter(
        self: &Arc<Self>,
        role: &AgentId,
        socket: &Arc<Socket>,
    ) -> Result<Arc<Desk>, String> {
        let desk = self.desk_for(role);
        let mut door = desk.door.subscribe();
        desk.looks_again();
        let opened = timeout(OPEN_WITHIN, door.wait_for(|door| *door != Door::Closed)).await;
        let refused = match opened {
            Ok(Ok(door)) => match &*door {
                Door::Open | Door::Closed => return Ok(Arc::clone(&desk)),
                Door::Refused(why) => why.clone(),
            },
            Ok(Err(_)) | Err(_) => "the ledger does not answer; try again".to_owned(),
        };
        desk.state.lock().entering -= 1;
        desk.looks_again();
        tracing::debug!(agent.id = %role, client = socket.id, "a client could not register: {refused}");
        Err(refused)
    }

    /// The desk of a role, with a place kept for one more.
    fn desk_for(self: &Arc<Self>, role: &AgentId) -> Arc<Desk> {
        let mut desks = self.desks.lock();
        if let Some(desk) = desks.get(role) {
            let mut state = desk.state.lock();
            if !state.is_over {
                state.entering += 1;
                return Arc::clone(desk);
            }
        }
        let desk = Arc::new(Desk {
            role: role.clone(),
            stream: self.hub.stream_name(&self.ids.fresh("str")),
            on_its_way: Arc::default(),
            state: Mutex::new(State {
                entering: 1,
                ..State::default()
            }),
            bell: Notify::new(),
            door: watch::Sender::new(Door::Closed),
            over: CancellationToken::new(),
        });
        desk.on_its_way.set_behind(true);
        desks.insert(role.clone(), Arc::clone(&desk));
        self.tasks
            .spawn(run::run(Arc::clone(self), Arc::clone(&desk)));
        desk
    }
}

impl Desk {
    /// From here on it gets the role's mail, after its `first` frame.
    pub fn seat(&self, socket: &Arc<Socket>, first: Option<Frame>) {
        let mut state = self.state.lock();
        first.map(|first| socket.outbox.push(first));
        if state.sockets.iter().all(|known| known.id != socket.id) {
            state.sockets.push(Arc::clone(socket));
            state.newcomers.push(Arc::clone(socket));
            state.looks = true;
            state.entering = state.entering.saturating_sub(1);
        }
        drop(state);
        self.looks_again();
    }

    /// It gets nothing more; what only it had waits again.
    pub fn left(&self, socket: &Arc<Socket>) {
        let mut state = self.state.lock();
        state.sockets.retain(|known| known.id != socket.id);
        let State {
            letters, returned, ..
        } = &mut *state;
        letters.retain(|id, letter| {
            letter.on.retain(|on| *on != socket.id);
            let is_somebodys = !letter.on.is_empty() || !letter.young.is_empty();
            if !is_somebodys {
                returned.push(id.clone());
            }
            is_somebodys
        });
        drop(state);
        self.looks_again();
    }

    pub fn looks_again(&self) {
        self.bell.notify_one();
    }

    /// How the ledger is told that this desk takes a message up with its commit, unless others are to come first.
    pub fn takes_up(&self) -> Option<TakeUp> {
        let state = self.state.lock();
        let has_room = state.letters.len() < LETTERS_MAX && !self.on_its_way.is_behind();
        let is_there = state.is_present() && *self.door.borrow() == Door::Open;
        (has_room && is_there).then(|| TakeUp {
            agent: self.role.clone(),
            stream: self.stream.clone(),
        })
    }

    /// A message is about to be taken up: nobody else hands it to this desk meanwhile.
    pub fn expects(self: &Arc<Self>, id: &MessageId) -> Expected {
        Expected {
            is_ours: self.on_its_way.add(id),
            desk: Arc::clone(self),
            id: id.clone(),
        }
    }

    /// Puts a message that this desk has in hand on its way to everyone here.
    fn deliver(&self, id: MessageId, text: &Utf8Bytes, told: Option<oneshot::Sender<u32>>) {
        let mut state = self.state.lock();
        let mut letter = state.letters.remove(&id).unwrap_or_default();
        let awaited = state.awaited.remove(&id).into_iter().flatten();
        letter.waiting.extend(awaited.chain(told));
        for socket in state.sockets.iter().filter(|socket| socket.reads()) {
            let frame = Frame {
                text: text.clone(),
                mail: Some(id.clone()),
            };
            if socket.outbox.push(frame) {
                letter.on.push(socket.id);
            }
        }
        letter.count = u32::try_from(letter.on.len()).unwrap_or(u32::MAX);
        if letter.on.is_empty() {
            state.returned.push(id);
            drop(state);
            return self.looks_again();
        }
        state.letters.insert(id, letter);
    }

    /// Tells how many got a message, once it is written, if it waits for its turn here.
    pub fn word_to_come(&self, id: &MessageId) -> Option<oneshot::Receiver<u32>> {
        let mut state = self.state.lock();
        if !state.is_present() {
            return None;
        }
        let (told, word) = oneshot::channel();
        match state.letters.get_mut(id) {
            Some(letter) if !letter.young.is_empty() => {
                let _ = told.send(letter.count);
            }
            Some(letter) => letter.waiting.push(told),
            None => {
                state.awaited.retain(|_, waiting| {
                    waiting.retain(|waits| !waits.is_closed());
                    !waiting.is_empty()
                });
                state.awaited.entry(id.clone()).or_default().push(told);
            }
        }
        Some(word)
    }

    /// A socket has written these.
    pub fn wrote(&self, socket: &Arc<Socket>, mail: &[MessageId]) {
        if mail.is_empty() {
            return;
        }
        let is_young = socket.is_young();
        let mut state = self.state.lock();
        let State {
            letters, settled, ..
        } = &mut *state;
        for id in mail {
            let Some(letter) = letters.get_mut(id) else {
                continue;
            };
            letter.on.retain(|on| *on != socket.id);
            for waits in letter.waiting.drain(..) {
                let _ = waits.send(letter.count);
            }
            if is_young {
                letter.young.push(Arc::clone(socket));
                letter
                    .settle_at
                    .get_or_insert(Instant::now() + SETTLE_AFTER);
            } else {
                letters.remove(id);
                settled.push(id.clone());
            }
        }
        drop(state);
        self.looks_again();
    }

    /// The task of a message that is about to be delivered here is this role's from now on.
    pub fn claimed(&self, id: &MessageId, task: TaskId) {
        self.state.lock().claimed.insert(id.clone(), task);
    }

    /// Receipts will name a message by its trace.
    pub fn note_trace(&self, message: &Message) {
        if message.corr_id.as_str() == message.id.as_str() {
            return;
        }
        let traces = &mut self.state.lock().traces;
        if traces.len() >= TRACES_MAX {
            traces.pop_front();
        }
        traces.push_back((message.corr_id.to_string(), message.id.clone()));
    }

    pub fn traced(&self, trace: &str) -> Option<MessageId> {
        let state = self.state.lock();
        let found = state.traces.iter().rev().find(|(known, _)| known == trace);
        found.map(|(_, id)| id.clone())
    }

    /// Its recipient acknowledged it: there is nothing left to settle.
    pub fn confirmed(&self, id: &MessageId) {
        let mut state = self.state.lock();
        state.letters.remove(id);
        state.claimed.remove(id);
        drop(state);
        self.on_its_way.remove(std::slice::from_ref(id));
    }

    fn end_all(&self, why: Ended) {
        let state = self.state.lock();
        state
            .sockets
            .iter()
            .for_each(|socket| socket.outbox.end(why));
    }
}

impl State {
    /// Whether somebody is there who reads.
    fn is_present(&self) -> bool {
        self.sockets.iter().any(|socket| socket.reads())
    }

    /// What was written to young connections a moment ago: by now it is known which of them are passing senders.
    fn settle(&mut self, now: Instant) {
        let State {
            letters,
            settled,
            returned,
            ..
        } = self;
        letters.retain(|id, letter| {
            let Some(at) = letter.settle_at else {
                return true;
            };
            if letter.young.iter().any(|socket| !socket.has_sent()) {
                if at <= now {
                    settled.push(id.clone());
                }
                return at > now;
            }
            // Passing senders; others may still write it.
            (letter.settle_at, letter.young) = (None, Vec::new());
            if letter.on.is_empty() {
                returned.push(id.clone());
            }
            !letter.on.is_empty()
        });
    }

    /// When something is to be settled, or a passing sender turns out to stay.
    fn due_at(&self) -> Option<Instant> {
        let settles = self.letters.values().filter_map(|letter| letter.settle_at);
        let passing = self.sockets.iter().filter(|socket| socket.is_passing());
        settles
            .chain(passing.map(|socket| socket.young_until()))
            .min()
    }
}

/// A message that may come to a desk with the commit that is under way.
pub(super) struct Expected {
    pub desk: Arc<Desk>,
    id: MessageId,
    is_ours: bool,
}

impl Expected {
    /// It came.
    pub fn deliver(mut self, text: &Utf8Bytes) -> oneshot::Receiver<u32> {
        self.is_ours = false;
        let (told, word) = oneshot::channel();
        self.desk.deliver(self.id.clone(), text, Some(told));
        word
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        if self.is_ours {
            // If it is there after all, it comes with the mail.
            self.desk.on_its_way.remove(std::slice::from_ref(&self.id));
            self.desk.state.lock().looks = true;
            self.desk.looks_again();
        }
    }
}
