//! What the ledger hears of a desk: that its role is there, what was written, what nobody took; and what it has for it.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::query::TaskRef;
use switchboard_core::verb::{
    CloseDoor, Handed, Join, Joined, OpenMailbox, ReleaseTask, TakeBack, Verb,
};
use switchboard_core::{
    AgentId, Door as CoreDoor, MessageId, Priority, Received, Skills, Task, TaskId,
};
use switchboard_wire::squidrun::to_wire;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Desk, Door, SETTLE_AFTER, State};
use crate::broker::socket::{Frame, Socket, print};
use crate::broker::state::Broker;
use crate::hub::Error;
use crate::stream::{self, Ended, Errand, Held, Offer, Outbox, Stream, Terms, Voice};

/// What is written is told to the ledger in one go: nobody waits for it, and each telling is a commit. Mail that waits for
/// its turn is not held up by this.
const TURN_EVERY: Duration = Duration::from_millis(10);

/// Until nobody sits at it any more.
pub(super) async fn run(broker: Arc<Broker>, desk: Arc<Desk>) {
    let mut work = Work {
        broker,
        desk,
        stream: None,
    };
    loop {
        let began_at = Instant::now();
        work.turn().await;
        if work.is_over() {
            work.desk.over.cancel();
            return;
        }
        if !work.desk.on_its_way.is_behind() {
            sleep_until(began_at + TURN_EVERY).await;
        }
        work.wait().await;
    }
}

struct Work {
    broker: Arc<Broker>,
    desk: Arc<Desk>,
    /// While the role has signed on.
    stream: Option<Stream<Clerk>>,
}

/// What a desk is to see to.
#[derive(Default)]
struct Due {
    opens: bool,
    is_present: bool,
    looks: bool,
    newcomers: Vec<Arc<Socket>>,
    settled: Vec<MessageId>,
    returned: Vec<MessageId>,
    /// Claims of what was returned.
    released: Vec<TaskId>,
}

impl State {
    fn due(&mut self) -> Due {
        self.settle(Instant::now());
        for id in &self.settled {
            self.claimed.remove(id);
        }
        let unclaimed = |id: &MessageId| self.claimed.remove(id);
        let released = self.returned.iter().filter_map(unclaimed).collect();
        let is_present = self.is_present();
        Due {
            opens: is_present || self.entering > 0,
            is_present,
            // What was returned may be for others who are here.
            looks: is_present && (std::mem::take(&mut self.looks) || !self.returned.is_empty()),
            newcomers: std::mem::take(&mut self.newcomers),
            settled: std::mem::take(&mut self.settled),
            returned: std::mem::take(&mut self.returned),
            released,
        }
    }
}

impl Work {
    /// Gives up the desk, unless somebody is there or about to be. By then the role has left.
    fn is_over(&self) -> bool {
        let mut desks = self.broker.desks.lock();
        let mut state = self.desk.state.lock();
        let is_empty = state.sockets.is_empty() && state.entering == 0;
        let has_nothing = self.stream.is_none() && self.desk.on_its_way.count() == 0;
        state.is_over = is_empty && has_nothing;
        if state.is_over {
            let own = |desk: &&Arc<Desk>| Arc::ptr_eq(desk, &self.desk);
            if desks.get(&self.desk.role).filter(own).is_some() {
                desks.remove(&self.desk.role);
            }
        }
        state.is_over
    }

    async fn turn(&mut self) {
        let mut due = self.desk.state.lock().due();
        // Where it left elsewhere it is still here.
        let is_open = self.stream.as_ref().is_some_and(Stream::is_open);
        if due.opens && !is_open {
            self.open().await;
            due.looks = due.is_present;
        }
        // There may be more than went at once.
        due.looks |= !due.settled.is_empty();
        self.account(&mut due).await;
        if !due.opens {
            self.close().await;
        }
        if let Some(stream) = self.stream.as_mut().filter(|_| due.looks) {
            stream.refresh().await;
        }
        for socket in due.newcomers {
            self.remind(&socket).await;
        }
        self.hand_out().await;
    }

    async fn wait(&mut self) {
        let (is_present, due) = {
            let state = self.desk.state.lock();
            (state.is_present(), state.due_at())
        };
        let stream_due = self.stream.as_ref().and_then(Stream::due_at);
        let due = due.into_iter().chain(stream_due).min();
        let errand = async {
            match self.stream.as_mut().filter(|_| is_present) {
                Some(stream) => stream.next().await,
                None => std::future::pending().await,
            }
        };
        let errand: Option<Errand> = tokio::select! {
            () = self.desk.bell.notified() => return,
            errand = errand => Some(errand),
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => None,
        };
        if let Some(stream) = &mut self.stream {
            match errand {
                Some(errand) => stream.on(errand).await,
                None => stream.on_time().await,
            }
        }
    }

    /// The role signs on.
    async fn open(&mut self) {
        let joined = match self.sign_on().await {
            Ok(joined) => joined,
            Err(error) => {
                self.desk
                    .door
                    .send_replace(Door::Refused(error.to_string()));
                return;
            }
        };
        if let Err(error) = self.broker.look_at_session().await {
            tracing::debug!(%error, "the session could not be read; the one before counts");
        }
        if self.stream.is_some() {
            return;
        }
        let (hub, name) = (&self.broker.hub, self.desk.stream.clone());
        let mut stream = Stream::new(hub, name, joined, Clerk::new(), terms(&self.broker));
        stream.shares(&self.desk.on_its_way);
        self.stream = Some(stream);
        self.desk.door.send_replace(Door::Open);
    }

    /// As an agent; who is none has its mailbox opened.
    async fn sign_on(&self) -> Result<Joined, Error> {
        let (hub, role) = (&self.broker.hub, self.desk.role.clone());
        if role.is_no_agent() {
            let mailbox = hub.run(OpenMailbox { of: role }).await?;
            return Ok(Joined {
                resumed: true,
                agent: Box::new(mailbox),
                holds: Vec::new(),
                handed_over: Vec::new(),
            });
        }
        let known = self.broker.role(&role);
        let skills = known.map(|role| Skills::new(&role.skills));
        let join = Join {
            skills: skills.unwrap_or_default(),
            ..Join::by(CoreDoor::Squidrun, role)
        };
        hub.run(join).await
    }

    /// Nobody who reads is there any more: the role is away, and keeps what it has.
    async fn close(&mut self) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        self.desk.door.send_replace(Door::Closed);
        let mut due = {
            let mut state = self.desk.state.lock();
            state.settle(Instant::now() + SETTLE_AFTER);
            state.due()
        };
        self.account(&mut due).await;
        stream.end(Vec::new(), false).await;
        let (agent, door) = (self.desk.role.clone(), CoreDoor::Squidrun);
        if agent.is_no_agent() {
            return;
        }
        if let Err(error) = self.broker.hub.run(CloseDoor { agent, door }).await {
            tracing::debug!(%error, "a role that left is not marked as offline");
        }
    }

    /// Puts what was taken up on its way.
    async fn hand_out(&mut self) {
        loop {
            let Some(stream) = &self.stream else { return };
            if stream.voice.outbox.ended().is_some() {
                self.desk.end_all(Ended::Gone);
            }
            let Some(Post(received)) = stream.voice.outbox.next() else {
                return;
            };
            self.desk.note_trace(&received.message);
            let mut frame = to_wire::message(&received, self.broker.session());
            if let Some(task) = to_wire::task_of(&received.message)
                && let Some(number) = self
                    .broker
                    .claim(&self.desk, &received.message.id, task)
                    .await
            {
                frame = to_wire::with_task(frame, number);
            }
            self.desk.deliver(received.message.id, &print(&frame), None);
        }
    }

    /// Whoever comes hears of the tasks that the role still has in hand.
    async fn remind(&self, socket: &Socket) {
        let held: Vec<TaskId> = match &self.stream {
            Some(stream) => stream.holds().cloned().collect(),
            None => return,
        };
        for task in held {
            let Some(message) = task.as_str().strip_prefix("sq:") else {
                continue;
            };
            let id = MessageId::from(message);
            let read = self.broker.hub.read(move |ledger| ledger.message(&id));
            let task = self.broker.task(TaskRef::Id(task.clone())).await;
            let task = task.filter(|task| task.holder() == Some(&self.desk.role));
            if let (Ok(Some((message, deliveries))), Some(task)) = (read.await, task) {
                let priority = deliveries
                    .first()
                    .map_or(Priority::Medium, |it| it.priority);
                let received = Received {
                    message,
                    priority,
                    redelivered: true,
                };
                let frame = to_wire::message(&received, self.broker.session());
                socket
                    .outbox
                    .push(Frame::of(&to_wire::with_task(frame, task.number)));
            }
        }
    }

    /// Tells the ledger what became of messages: some were written, others reached nobody, nor did their tasks.
    async fn account(&self, due: &mut Due) {
        let (agent, stream) = (&self.desk.role, &self.desk.stream);
        let settled = std::mem::take(&mut due.settled);
        if !settled.is_empty() {
            let handed = Handed {
                agent: agent.clone(),
                stream: stream.clone(),
                messages: settled.clone(),
            };
            self.insist(handed).await;
            self.desk.on_its_way.remove(&settled);
        }
        for task in std::mem::take(&mut due.released) {
            let release = ReleaseTask {
                task,
                agent: Some(self.desk.role.clone()),
                epoch: None,
            };
            self.insist(release).await;
        }
        let returned = std::mem::take(&mut due.returned);
        if !returned.is_empty() {
            let take_back = TakeBack {
                agent: agent.clone(),
                stream: stream.clone(),
                messages: returned.clone(),
            };
            self.insist(take_back).await;
            self.desk.on_its_way.remove(&returned);
        }
    }

    /// Runs a verb until it is decided. What the ledger never hears of comes again once nobody holds it any more.
    async fn insist<V>(&self, verb: V)
    where
        V: Verb + Clone + Send + 'static,
        V::Reply: Send,
    {
        loop {
            match self.broker.hub.run(verb.clone()).await {
                Err(error) if error.may_pass() && !self.broker.stopping.is_cancelled() => {
                    tokio::time::sleep(stream::RETRY_AFTER).await;
                }
                Err(error) => {
                    return tracing::debug!(%error, "a desk could not tell what became of a message");
                }
                Ok(_) => return,
            }
        }
    }
}

fn terms(broker: &Broker) -> Terms {
    // Tasks come as messages here; nothing is pushed.
    let (_, open) = watch::channel(false);
    Terms {
        door: CoreDoor::Squidrun,
        tasks: false,
        mail: true,
        accept_within: Duration::MAX,
        cap: Duration::MAX,
        stale_after: Duration::MAX,
        slots: None,
        open,
        stopping: broker.stopping.clone(),
    }
}

/// Keeps what a stream hands out until the desk puts it on its way.
struct Clerk {
    outbox: Outbox<Post>,
}

struct Post(Received);

impl Clerk {
    fn new() -> Clerk {
        Clerk {
            // A stream takes up little at a time.
            outbox: Outbox::new(usize::MAX),
        }
    }
}

impl stream::Frame for Post {
    fn bytes(&self) -> usize {
        self.0.message.payload.len()
    }

    fn mail(&self) -> Option<&MessageId> {
        Some(&self.0.message.id)
    }
}

impl Voice for Clerk {
    type Frame = Post;

    fn outbox(&self) -> &Outbox<Post> {
        &self.outbox
    }

    fn mail(&self, mail: Received) {
        self.outbox.push(Post(mail));
    }

    // There are no words for these: a role hears of its tasks by messages.
    fn offer(&self, _task: &Task, _offer: Offer) {}

    fn revoke(&self, _held: &Held, _reason: String) {}

    fn stop(&self, _agent: &AgentId, _reason: &str) {}
}
