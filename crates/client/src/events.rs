//! The event log: in pages, and followed as it grows.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use reqwest::Response;
use serde::de::DeserializeOwned;
use switchboard_wire::Query;
use switchboard_wire::jetpack::{Event, EventPage, EventPlace, EventQuery};
use tracing::debug;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::sse::{Frame, Parser};

/// A stream that says nothing for this long, not even a comment, is taken for cut.
const CUT_AFTER: Duration = Duration::from_secs(90);

/// The type of what a hub says when the ledger has lost what was told before.
pub const REWOUND: &str = "ledger_rewound";

/// Calls about the event log.
#[derive(Debug, Clone, Copy)]
pub struct Events<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about the event log.
    pub fn events(&self) -> Events<'_> {
        Events { client: self }
    }
}

impl Events<'_> {
    /// One page of the log.
    pub async fn list(self, query: &EventQuery) -> Result<EventPage, Error> {
        self.client
            .transport
            .send(Call::get(&["events"]).query(query.to_query()))
            .await
    }

    /// Every event after `after` (`None`: from now on), in order, without end.
    ///
    /// A cut stream is taken up again where it broke off. It ends with an error only when the hub refuses, or when
    /// it cannot be reached in the first place. If the ledger has lost what was told before, that comes as an event of
    /// the type `ledger_rewound`, and what follows it goes on after its `seq`: numbers that came before may come again.
    pub fn follow(
        self,
        after: Option<u64>,
    ) -> impl Stream<Item = Result<Event, Error>> + Send + use<> {
        self.follow_types(after.map(EventPlace::from), Vec::new())
    }

    /// As [`follow`](Self::follow), only events of these types; none means all.
    pub fn follow_types(
        self,
        after: Option<EventPlace>,
        types: Vec<String>,
    ) -> impl Stream<Item = Result<Event, Error>> + Send + use<> {
        let query = EventQuery {
            types,
            ..EventQuery::default()
        };
        let call = Call::get(&["events"]).query(query.to_query());
        follow(self.client.clone(), call, after)
    }
}

/// What a stream brings, one after the other.
pub(crate) trait Numbered: DeserializeOwned + Send + 'static {
    /// Without a place it begins with what comes from now on; otherwise with the oldest.
    const FROM_NOW: bool;

    fn number(&self) -> u64;

    /// It says that what was told before is lost: numbers may come again.
    fn rewinds(&self) -> bool {
        false
    }
}

impl Numbered for Event {
    const FROM_NOW: bool = true;

    fn number(&self) -> u64 {
        self.seq
    }

    fn rewinds(&self) -> bool {
        self.kind == REWOUND
    }
}

pub(crate) fn follow<T: Numbered>(
    client: Client,
    call: Call,
    after: Option<EventPlace>,
) -> impl Stream<Item = Result<T, Error>> + Send {
    let state = Follow::new(client, call, after);
    unfold(Some(state), |state| async move {
        let mut state = state?;
        match state.next().await {
            Ok(event) => Some((Ok(event), Some(state))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

/// One followed log.
struct Follow<T> {
    client: Client,
    call: Call,
    /// The last event handed out: where to go on.
    last: Option<EventPlace>,
    open: Option<(Response, Parser)>,
    ready: VecDeque<(EventPlace, T)>,
    /// Whether this connection brought an event.
    fruitful: bool,
    /// The waits before the next reconnect; `None` until the first connection stood.
    waits: Option<Box<dyn Iterator<Item = Duration> + Send>>,
}

impl<T: Numbered> Follow<T> {
    fn new(client: Client, call: Call, after: Option<EventPlace>) -> Self {
        Self {
            client,
            call,
            last: after,
            open: None,
            ready: VecDeque::new(),
            fruitful: false,
            waits: None,
        }
    }

    async fn next(&mut self) -> Result<T, Error> {
        loop {
            if let Some((place, event)) = self.ready.pop_front() {
                self.last = Some(place);
                return Ok(event);
            }
            match &mut self.open {
                None => {
                    self.begin().await?;
                    self.connect().await?;
                }
                Some((response, parser)) => {
                    let mut frames = Vec::new();
                    let more = match tokio::time::timeout(CUT_AFTER, response.chunk()).await {
                        Ok(Ok(Some(bytes))) => parser.feed(&bytes, &mut frames).is_ok(),
                        Ok(Ok(None) | Err(_)) | Err(_) => false,
                    };
                    self.take(frames)?;
                    if !more {
                        debug!(
                            after = ?self.last,
                            "the event stream was disconnected; resuming"
                        );
                        self.open = None;
                        self.rest().await;
                    }
                }
            }
        }
    }

    /// Fixes where "from now on" is, so that a cut before the first event loses nothing.
    async fn begin(&mut self) -> Result<(), Error> {
        if T::FROM_NOW && self.last.is_none() {
            let query = EventQuery {
                limit: Some(1),
                ..EventQuery::default()
            };
            let newest = self.client.events().list(&query).await?;
            self.last = Some(EventPlace {
                epoch: newest.epoch,
                number: newest.latest,
            });
        }
        Ok(())
    }

    /// Connects; the first time as the policy says, later for as long as it takes.
    async fn connect(&mut self) -> Result<(), Error> {
        let transport = &self.client.transport;
        let mut first = transport.retry.waits();
        loop {
            let error = match transport.open(&self.call, self.last).await {
                Ok(response) => {
                    self.open = Some((response, Parser::default()));
                    self.waits
                        .get_or_insert_with(|| Box::new(transport.retry.endless_waits()));
                    return Ok(());
                }
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            let wait = match &mut self.waits {
                Some(waits) => waits.next(),
                None => first.next(),
            };
            let Some(wait) = wait else { return Err(error) };
            debug!(
                after = ?self.last,
                "reconnecting to the event stream in {wait:?}: {error}"
            );
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits before a reconnect, unless the stream that was cut had brought something.
    async fn rest(&mut self) {
        if std::mem::take(&mut self.fruitful) {
            return;
        }
        if let Some(wait) = self.waits.as_mut().and_then(Iterator::next) {
            tokio::time::sleep(wait).await;
        }
    }

    fn take(&mut self, frames: Vec<Frame>) -> Result<(), Error> {
        let transport = &self.client.transport;
        for frame in frames {
            let event: T = serde_json::from_str(&frame.data).map_err(|error| {
                transport.unreadable(format!("an event cannot be parsed: {error}"))
            })?;
            let id = frame.id.as_deref().and_then(|id| id.parse().ok());
            let place: EventPlace = id.unwrap_or_else(|| event.number().into());
            // What was already handed out before a cut may come again.
            let newest = self.ready.back().map(|(place, _)| *place).or(self.last);
            let is_new = newest.is_none_or(|newest| is_after(place, newest));
            if is_new || event.rewinds() {
                self.ready.push_back((place, event));
            }
            self.fruitful = true;
            self.waits = Some(Box::new(transport.retry.endless_waits()));
        }
        Ok(())
    }
}

/// Whether an event comes after another. Numbers of different epochs of the ledger say nothing of that.
fn is_after(event: EventPlace, other: EventPlace) -> bool {
    let both = event.epoch.zip(other.epoch);
    both.is_some_and(|(one, other)| one != other) || event.number > other.number
}
