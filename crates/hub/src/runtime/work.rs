//! Carries events between this node and the others, while that is this coordinator's duty.
//!
//! Each node that has an address is read from where its cursor is. A node that has none cannot read this one's outbox
//! itself, nor can one whose address is behind a router: where this node has no address it brings its events. Which agents
//! are here is told as they come and go.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::cursor::{Announced, Cursor, CursorStatus, Subscriber};
use switchboard_core::duty::Fence;
use switchboard_core::node::Node;
use switchboard_core::outbox::Control;
use switchboard_core::query::{AgentFilter, Page};
use switchboard_core::verb::{
    Announce, HearNode, NoteReader, Reset, ResetCursor, TellCapabilities, TellNodes, Vouch,
};
use switchboard_core::{AgentId, NodeId, limits};
use switchboard_wire::jetpack::ErrorBody;
use switchboard_wire::runtime::{
    ControlResponse, Event, OutboxPage, PushRequest, PushResponse, event_from_wire,
};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::outbox::{Place, look_again, page};
use super::{Own, Peer, Trouble, encoded, take_in};
use crate::call::Failure;
use crate::duty::Duty;
use crate::http::App;
use crate::hub::{Error, Hub};

/// A node is asked to hold its answer back for so long while it has nothing.
const POLL_SECONDS: u64 = 30;
/// Between two tries; it doubles, up to the most.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A cursor that a person must look at is looked at again so often.
const HALTED_EVERY: Duration = Duration::from_secs(2);
/// News of agents are gathered for this long.
const GATHERED_FOR: Duration = Duration::from_millis(100);
/// Agents that are announced in one step.
const ANNOUNCED_AT_ONCE: usize = 256;
/// Nodes and agents are looked at this often, whatever is heard of them.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(super) struct Work {
    pub app: Arc<App>,
    pub duty: Arc<Duty>,
    pub stopping: CancellationToken,
}

/// Until the hub stops.
pub(super) async fn run(work: Arc<Work>) {
    let kept = Arc::clone(&work.duty).keep(work.stopping.clone());
    tokio::join!(kept, work.exchange());
}

impl Work {
    fn hub(&self) -> &Hub {
        &self.app.hub
    }

    /// While the duty is held here, every node that is joined is read and brought what it cannot read.
    async fn exchange(self: &Arc<Self>) {
        loop {
            if self.duty.standing().is_held {
                let fence = self.duty.standing().fence;
                let held = self.while_held(fence);
                tokio::select! {
                    () = self.stopping.cancelled() => return,
                    () = self.duty.changed() => {}
                    () = held => {}
                }
            } else {
                tokio::select! {
                    () = self.stopping.cancelled() => return,
                    () = self.duty.changed() => {}
                }
            }
        }
    }

    async fn while_held(self: &Arc<Self>, fence: Option<Fence>) {
        let mut tasks = JoinSet::new();
        let mut running: Running = HashMap::new();
        let mut bell = self.hub().shared.agents_bell.subscribe();
        loop {
            bell.borrow_and_update();
            if let Ok(nodes) = self.hub().read(|reader| reader.nodes()).await {
                let has_joined = self.follow(&mut tasks, &mut running, &nodes, fence);
                if has_joined && let Err(error) = self.hub().run(TellCapabilities).await {
                    tracing::debug!(%error, "capabilities are told when they change");
                }
                if !running.is_empty()
                    && let Err(error) = self.announce_all(has_joined).await
                {
                    tracing::debug!(%error, "agents are announced with the next look");
                }
            }
            sleep(GATHERED_FOR).await;
            // What other coordinators write rings nowhere here.
            let _ = timeout(LOOK_EVERY, bell.changed()).await;
        }
    }

    /// Begins with nodes that are new or changed, and ends with those that left. Tells whether one is new.
    fn follow(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
        running: &mut Running,
        nodes: &[Node],
        fence: Option<Fence>,
    ) -> bool {
        let before: HashSet<NodeId> = running.keys().cloned().collect();
        running.retain(|_, (known, handles)| {
            // Which record of it counted last is nothing that its reader has to know.
            let is_it = |node: &Node| {
                let rev = known.rev;
                *known
                    == Node {
                        rev,
                        ..node.clone()
                    }
            };
            let is_same = nodes.iter().any(is_it);
            if !is_same {
                handles.iter().for_each(AbortHandle::abort);
            }
            is_same
        });
        let mut has_joined = false;
        for node in nodes {
            if running.contains_key(&node.node_id) {
                continue;
            }
            has_joined |= !before.contains(&node.node_id);
            let mut handles = Vec::new();
            if node.endpoint.is_some() {
                let (work, there) = (Arc::clone(self), node.clone());
                handles.push(tasks.spawn(async move { work.pull(&there, fence).await }));
                let (work, there) = (Arc::clone(self), node.clone());
                handles.push(tasks.spawn(async move { work.bring(&there).await }));
            }
            running.insert(node.node_id.clone(), (node.clone(), handles));
        }
        has_joined
    }

    /// Reads a node's outbox from where its cursor is, until it leaves.
    async fn pull(&self, node: &Node, fence: Option<Fence>) {
        let mut pause = Pause::new(format!("node {} cannot be read", node.node_id));
        let mut heard_at: Option<Instant> = None;
        let mut has_learned = false;
        loop {
            let pulled = async {
                if !has_learned {
                    self.learn(node).await?;
                    has_learned = true;
                }
                self.pull_once(node, fence).await
            };
            match pulled.await {
                Ok(rest) => {
                    pause.is_over();
                    if heard_at.is_none_or(|at| at.elapsed() >= limits::HEARD_EVERY) {
                        let node = node.node_id.clone();
                        let heard = self.hub().run(HearNode { node }).await;
                        heard_at = heard.is_ok().then(Instant::now);
                    }
                    if let Some(rest) = rest {
                        sleep(rest).await;
                    }
                }
                Err(trouble) => pause.rest(&trouble).await,
            }
        }
    }

    /// Which nodes that one knows: they may have joined before its outbox begins.
    async fn learn(&self, node: &Node) -> Result<(), Trouble> {
        let peer = self.app.peers.of(self.hub(), node)?;
        let read = match peer.get("/runtime/v1/control").await {
            // Not everybody has it.
            Err(Trouble::Refused { status: 404, .. }) => return Ok(()),
            read => read?,
        };
        let said: ControlResponse = serde_json::from_slice(&read)
            .map_err(|error| Trouble::Unreadable(error.to_string()))?;
        for record in said.records {
            let rev = record.rev;
            if let Ok(Control::Node(known)) =
                event_from_wire::control(record, node.node_id.as_str())
            {
                let known = Node {
                    rev,
                    left: None,
                    ..*known
                };
                let source = node.node_id.clone();
                self.hub()
                    .run(Vouch {
                        source,
                        node: known,
                    })
                    .await?;
            }
        }
        Ok(())
    }

    /// Tells how long to wait before the next look, if something holds it up.
    async fn pull_once(
        &self,
        node: &Node,
        fence: Option<Fence>,
    ) -> Result<Option<Duration>, Trouble> {
        let peer = self.app.peers.of(self.hub(), node)?;
        let id = node.node_id.to_string();
        let cursor = self.hub().read(move |reader| reader.private::<Cursor>(id));
        let cursor = cursor.await?;
        let status = cursor.as_ref().map(|cursor| cursor.status);
        if matches!(status, Some(CursorStatus::Halted | CursorStatus::Expired)) {
            return Ok(Some(HALTED_EVERY));
        }
        let after = cursor.as_ref().map_or(0, |cursor| cursor.last_seq);
        let last = cursor
            .as_ref()
            .and_then(|cursor| cursor.last_event.as_ref());
        let last = last.map_or(String::new(), |id| {
            format!("&last={}", encoded(id.as_str()))
        });
        let path = format!(
            "/runtime/v1/outbox?after={after}{last}&limit={}&wait={POLL_SECONDS}",
            limits::OUTBOX_PAGE_MAX
        );
        let asked_at = Instant::now();
        let read = match self.read_page(&peer, &path).await {
            Ok(read) => read,
            Err(Trouble::Refused { code, .. }) if code == "epoch_mismatch" => {
                self.reset(node, Reset::Mismatch).await?;
                return Ok(None);
            }
            Err(Trouble::Refused { code, body, .. }) if code == "cursor_expired" => {
                let said: Option<ErrorBody> = serde_json::from_slice(&body).ok();
                let oldest = said.and_then(|said| said.oldest_seq).unwrap_or(1);
                self.reset(node, Reset::Expired { oldest }).await?;
                return Ok(Some(PAUSE));
            }
            Err(trouble) => return Err(trouble),
        };
        if read.node_id != node.node_id.as_str() {
            let why = format!("it says that it is node {}", read.node_id);
            return Err(Trouble::Unreadable(why));
        }
        let known = cursor.and_then(|cursor| cursor.epoch);
        if known.is_some_and(|epoch| epoch != read.epoch) {
            self.reset(node, Reset::Mismatch).await?;
            return Ok(None);
        }
        let taken = take_in(self.hub(), &node.node_id, &read.epoch, &read.events, fence).await;
        let taken = taken.map_err(of_failure)?;
        if taken.status != CursorStatus::Active {
            return Ok(Some(HALTED_EVERY));
        }
        // One that does not hold its answers back is not asked all the time.
        let is_hasty = read.events.is_empty() && asked_at.elapsed() < PAUSE;
        Ok(is_hasty.then_some(PAUSE))
    }

    async fn read_page(&self, peer: &Peer, path: &str) -> Result<OutboxPage, Trouble> {
        let bytes = peer.get(path).await?;
        serde_json::from_slice(&bytes).map_err(|error| Trouble::Unreadable(error.to_string()))
    }

    async fn reset(&self, node: &Node, to: Reset) -> Result<(), Trouble> {
        let source = node.node_id.clone();
        self.hub().run(ResetCursor { source, to }).await?;
        Ok(())
    }

    /// Brings this node's events to one that cannot read them here.
    async fn bring(&self, node: &Node) {
        let mut pause = Pause::new(format!("node {} cannot be brought events", node.node_id));
        let mut bell = self.hub().shared.outbox_bell.subscribe();
        let mut place = None;
        loop {
            bell.borrow_and_update();
            match self.bring_once(node, &mut place).await {
                Ok(true) => pause.is_over(),
                Ok(false) => {
                    pause.is_over();
                    let _ = tokio::time::timeout_at(look_again(self.hub()), bell.changed()).await;
                }
                Err(trouble) => {
                    place = None;
                    pause.rest(&trouble).await;
                }
            }
        }
    }

    /// Tells whether there may be more at once. Where it is, the node says itself: an empty page asks.
    async fn bring_once(&self, node: &Node, place: &mut Option<u64>) -> Result<bool, Trouble> {
        let own = Own::read(self.hub()).await?;
        let (gateway, id) = (own.gateway.clone(), node.node_id.to_string());
        let is_found = self.hub().read(move |reader| {
            let reads = reader.private::<Subscriber>(id)?;
            Ok(gateway.endpoint.is_some() && gateway.is_found_by(reads.as_ref()))
        });
        if is_found.await? {
            sleep(PAUSE_MAX).await;
            return Ok(false);
        }
        let peer = self.app.peers.of(self.hub(), node)?;
        let path = format!(
            "/runtime/v1/nodes/{}/outbox",
            encoded(own.gateway.node_id.as_str())
        );
        let epoch = own.gateway.route_epoch;
        let found = self.events_after(*place).await?;
        let latest = found.latest_seq;
        // A node that has more than there is read another outbox: it is told, and halts.
        let is_another = place.is_some_and(|place| place > latest);
        if let Some(place) = *place
            && found.events.is_empty()
            && !is_another
        {
            // It is as far as it can be; what comes next is kept for it.
            self.note(node, place).await?;
            return Ok(false);
        }
        let brought = PushRequest {
            epoch,
            oldest_seq: Some(found.oldest_seq),
            latest_seq: Some(latest),
            after: *place,
            events: found.events,
        };
        let bytes = peer.post(&path, &brought).await?;
        let said: PushResponse = serde_json::from_slice(&bytes)
            .map_err(|error| Trouble::Unreadable(error.to_string()))?;
        let is_stuck = *place == Some(said.last_seq);
        *place = Some(said.last_seq);
        // One that has more than there is has halted: it read another outbox.
        if said.last_seq <= latest {
            self.note(node, said.last_seq).await?;
        }
        if is_stuck {
            sleep(HALTED_EVERY).await;
        }
        Ok(true)
    }

    async fn note(&self, node: &Node, after: u64) -> Result<(), Trouble> {
        let noted = NoteReader {
            node: node.node_id.clone(),
            after,
            lease_for: self.hub().shared.runtime.cursor_lease,
        };
        self.hub().run(noted).await?;
        Ok(())
    }

    /// The next events, or the oldest that are left. The last one that the node has comes along: if it has another one
    /// there, this outbox was restored, and the node notices.
    /// Without a place nothing but where the outbox begins and ends.
    async fn events_after(&self, after: Option<u64>) -> Result<OutboxPage, Trouble> {
        let from = |after| Place { after, last: None };
        let before = after.map(|after| after.saturating_sub(1));
        let found = match page(self.hub(), from(before), limits::OUTBOX_PAGE_MAX).await {
            Err(Failure::CursorExpired { .. } | Failure::EpochMismatch) => {
                page(self.hub(), from(None), limits::OUTBOX_PAGE_MAX).await
            }
            found => found,
        };
        let mut found = found.map_err(of_failure)?;
        let is_news = |last: &Event| after.is_some_and(|after| last.seq > after);
        if !found.events.last().is_some_and(is_news) {
            found.events.clear();
        }
        Ok(found)
    }

    /// Where this node cannot be asked for its control plane, who is new hears of it in the outbox.
    async fn tell_nodes(&self) -> Result<(), Error> {
        if Own::read(self.hub()).await?.gateway.endpoint.is_none() {
            self.hub().run(TellNodes).await?;
        }
        Ok(())
    }

    async fn announce(&self, agents: Vec<AgentId>, again: bool) -> Result<(), Error> {
        for agents in agents.chunks(ANNOUNCED_AT_ONCE) {
            let agents = agents.to_vec();
            self.hub().run(Announce { agents, again }).await?;
        }
        Ok(())
    }

    /// Every agent that is here, and who was and is no longer.
    async fn announce_all(&self, again: bool) -> Result<(), Error> {
        if again {
            self.tell_nodes().await?;
        }
        let range = Announced::all(limits::FAR_AGENTS_MAX);
        let known = self
            .hub()
            .read(move |reader| reader.privates::<Announced>(&range));
        let known = known.await?.into_iter().map(|known| known.agent).collect();
        self.announce(known, false).await?;
        let mut page = Page::first();
        loop {
            let (filter, wanted) = (AgentFilter::default(), page.clone());
            let found = self
                .hub()
                .read(move |reader| reader.agents(&filter, &wanted));
            let found = found.await?;
            let agents = found.rows.into_iter().map(|agent| agent.id).collect();
            self.announce(agents, again).await?;
            match found.next {
                Some(next) => page.after = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// What goes on with each node that is joined.
type Running = HashMap<NodeId, (Node, Vec<AbortHandle>)>;

fn of_failure(failure: Failure) -> Trouble {
    match failure {
        Failure::Hub(error) => Trouble::Hub(error),
        other => Trouble::Unreadable(other.answer().0.message),
    }
}

/// Backoff with jitter, and what is wrong said once.
struct Pause {
    what: String,
    said: Option<String>,
    next: Duration,
}

impl Pause {
    fn new(what: String) -> Pause {
        Pause {
            what,
            said: None,
            next: PAUSE,
        }
    }

    fn is_over(&mut self) {
        self.next = PAUSE;
        if self.said.take().is_some() {
            tracing::info!("it is over that {}", self.what);
        }
    }

    async fn rest(&mut self, trouble: &Trouble) {
        let why = trouble.to_string();
        if self.said.as_ref() != Some(&why) {
            tracing::warn!("{}: {why}; it is tried again", self.what);
            self.said = Some(why);
        }
        // Nobody comes back at the same moment as all others.
        let spread = RandomState::new().hash_one(0_u8) % 256;
        sleep(self.next + self.next * u32::try_from(spread).unwrap_or(0) / 1024).await;
        self.next = (self.next * 2).min(PAUSE_MAX);
    }
}
