//! The event log: in pages, and as a stream of server-sent events.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use serde_json::json;
use switchboard_core::{Event, Head, Logged, iso, limits};
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::{EventPage, EventPlace, EventQuery, from_wire, to_wire};
use tokio::sync::watch;
use tokio::time::Instant;

use super::AppState;
use super::call::Call;
use super::error::Failure;
use super::reply::Reply;
use super::streams::OpenStream;
use crate::auth::Caller;
use crate::hub;

/// A quiet stream says this often that it is still there.
const BEAT_EVERY: Duration = Duration::from_secs(15);
/// A stream looks into the log at most this often, however often something is committed.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// A ledger that is away is looked for this often, and given this long to answer: signs of life go on meanwhile.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(500);
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// Events that are sent in one piece.
const EVENTS_PER_PIECE: usize = 64;
/// What a stream says whose reader has seen what the ledger no longer has.
const REWOUND: &str = "ledger_rewound";

pub async fn events(app: AppState, call: Call) -> Result<Response, Failure> {
    let caller = app.reader(&call).await?;
    let query: EventQuery = call.query()?;
    if query.types.len() > limits::EVENT_TYPES_MAX {
        let message = format!("has more than {} items", limits::EVENT_TYPES_MAX);
        return Err(Malformed::field("types", message).into());
    }
    let is_known = |kind: &&String| Event::KINDS.contains(&kind.as_str()) || *kind == REWOUND;
    if let Some(unknown) = query.types.iter().find(|kind| !is_known(kind)) {
        let message = format!("there are no events of type {unknown:?}; docs/events.md lists all");
        return Err(Malformed::field("types", message).into());
    }
    let streams = call
        .header("accept")
        .is_some_and(|accept| accept.contains("text/event-stream"));
    if streams {
        return stream(app, &call, caller, query).await;
    }
    page(app, query).await.map(Reply::into_response)
}

async fn page(app: AppState, query: EventQuery) -> Result<Reply, Failure> {
    let limit = from_wire::page_size(query.limit)?;
    let (place, types) = (query.after.unwrap_or_default(), query.types);
    let page = app
        .hub
        .read(move |reader| {
            let head = reader.head()?;
            let latest = head.seq;
            let rewinds = rewinds(place, &head);
            let mut after = rewinds.unwrap_or(place.number);
            let mut found: Vec<Logged> = Vec::new();
            let mut looked_at = 0;
            // A rare type is looked for in bounded steps; the caller goes on where a step ended.
            while found.len() < limit && looked_at < limits::PAGE_SCAN_MAX {
                let step = if types.is_empty() {
                    limit
                } else {
                    limits::PAGE_MAX
                };
                let events = reader.events(after, step)?;
                let Some(last) = events.last() else { break };
                let end = last.seq;
                looked_at += events.len();
                for event in events {
                    if found.len() == limit {
                        break;
                    }
                    after = event.seq;
                    if is_wanted(&types, &event) {
                        found.push(event);
                    }
                }
                if after < end {
                    break;
                }
            }
            Ok(EventPage {
                success: true,
                events: found.iter().map(to_wire::event).collect(),
                next: (after < latest).then_some(after),
                latest,
                epoch: Some(head.epoch.number),
                ledger_rewound: rewinds.is_some(),
            })
        })
        .await?;
    Ok(Reply::ok(&page))
}

/// After which event to go on for one who comes from a place of another epoch. A plain number is taken as it is.
fn rewinds(place: EventPlace, head: &Head) -> Option<u64> {
    let epoch = place.epoch?;
    head.epoch.rewinds(epoch, place.number, head.seq)
}

fn is_wanted(types: &[String], event: &Logged) -> bool {
    types.is_empty() || types.iter().any(|kind| kind == event.event.kind())
}

async fn stream(
    app: AppState,
    call: &Call,
    caller: Caller,
    query: EventQuery,
) -> Result<Response, Failure> {
    let known = app.auth.is_asked_for().then(|| caller.principal.clone());
    let seat = app.streams.take(known)?;
    // Subscribed before anything is read, so that an event committed in between still wakes the stream.
    let latest = app.hub.latest();
    let place: Option<EventPlace> = match call.header("last-event-id") {
        Some(id) => {
            let place = id.trim().parse();
            Some(place.map_err(|why: String| Malformed::field("Last-Event-ID", why))?)
        }
        None => query.after,
    };
    let (epoch, after, is_rewound) = match place {
        Some(EventPlace {
            epoch: None,
            number,
        }) => (app.hub.epoch().number, number, false),
        Some(place) => {
            let head = app.hub.read(|reader| reader.head()).await?;
            let rewinds = rewinds(place, &head);
            let after = rewinds.unwrap_or(place.number);
            (head.epoch.number, after, rewinds.is_some())
        }
        None => {
            let head = app.hub.read(|reader| reader.head()).await?;
            (head.epoch.number, head.seq, false)
        }
    };
    let follow = Follow {
        replacements: app.auth.replacements(),
        app,
        caller,
        epoch,
        after,
        is_rewound,
        types: query.types,
        latest,
        beat_at: Instant::now(),
        check_at: Instant::now() + BEAT_EVERY,
        look_at: Instant::now(),
        _seat: seat,
    };
    let pieces = unfold(follow, |mut follow| async move {
        follow.piece().await.map(|piece| (piece, follow))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// One reader of the log. It reads only when its connection has room, so a slow one holds a single piece.
struct Follow {
    app: AppState,
    caller: Caller,
    /// Of the ledger, when `after` was its place in the log.
    epoch: u64,
    after: u64,
    /// It has to be told that it was sent back.
    is_rewound: bool,
    types: Vec<String>,
    latest: watch::Receiver<u64>,
    /// Of the master key.
    replacements: watch::Receiver<u64>,
    /// When the next sign of life is due; at the start at once.
    beat_at: Instant,
    /// When the caller has to be known again, however busy the stream is.
    check_at: Instant,
    look_at: Instant,
    _seat: OpenStream,
}

impl Follow {
    async fn piece(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        loop {
            self.follow_epoch();
            if std::mem::take(&mut self.is_rewound) {
                let told = self.rewound();
                return Some(Ok(self.beat(told)));
            }
            let mut events = self.look().await?;
            // The log tells when a key or a token ends; whoever came with it does not hear the rest. The same when the key
            // that all follow from was replaced.
            let is_replaced = self.replacements.has_changed().unwrap_or(false);
            if is_replaced || events.iter().any(|logged| logged.event.ends_credential()) {
                self.replacements.mark_unchanged();
                self.check_at = Instant::now();
            }
            if !self.is_known().await? {
                // Nothing is told until that can be asked; then these are read again.
                events.clear();
            }
            self.after = events.last().map_or(self.after, |last| last.seq);
            let text: String = events
                .iter()
                .filter(|event| is_wanted(&self.types, event))
                .map(|event| frame(self.epoch, event))
                .collect();
            if !text.is_empty() {
                return Some(Ok(self.beat(text)));
            }
            if Instant::now() >= self.beat_at {
                return Some(Ok(self.beat(": still here\n\n".to_owned())));
            }
            if events.is_empty() {
                self.rest().await?;
            }
        }
    }

    /// What was sent of an epoch that has ended may not hold: goes back to where the ledger still does.
    fn follow_epoch(&mut self) {
        let epoch = self.app.hub.epoch();
        if epoch.number > self.epoch {
            let latest = *self.latest.borrow();
            let rewinds = epoch.rewinds(self.epoch, self.after, latest);
            self.after = rewinds.unwrap_or(self.after);
            self.epoch = epoch.number;
            self.is_rewound = true;
        }
    }

    /// Not an event of the log, but told in the same shape: whoever goes on after it misses nothing.
    fn rewound(&self) -> String {
        let (epoch, after) = (self.epoch, self.after);
        let at = iso::Printed::new(self.app.hub.time());
        let data = json!({"seq": after, "at": at.as_str(), "type": REWOUND, "epoch": epoch});
        format!("id: {epoch}.{after}\nevent: {REWOUND}\ndata: {data}\n\n")
    }

    /// The next events, if any; `None` when there will be no more.
    async fn look(&mut self) -> Option<Vec<Logged>> {
        tokio::select! {
            biased;
            () = self.app.stopping.cancelled() => return None,
            () = tokio::time::sleep_until(self.look_at) => {}
        }
        self.latest.mark_unchanged();
        let after = self.after;
        let read = self.app.hub.read(move |ledger| {
            let events = ledger.events(after, EVENTS_PER_PIECE)?;
            // After them: if the epoch is still the same, they are of it.
            let head = events.last().map(|_| ledger.head()).transpose()?;
            Ok((events, head))
        });
        match in_time(read).await {
            Ok((_, Some(head))) if head.epoch.number > self.epoch => {
                self.app.hub.shared.entered(head.epoch, head.seq);
                self.latest.mark_changed();
                Some(Vec::new())
            }
            Ok((events, _)) => {
                // Whoever is behind catches up without a pause.
                if events.len() < EVENTS_PER_PIECE {
                    self.look_at = Instant::now() + LOOK_EVERY;
                }
                Some(events)
            }
            Err(error) => {
                self.bears(&error)?;
                Some(Vec::new())
            }
        }
    }

    /// Asks who is there, when that is due. False if nobody can tell just now; `None` if the caller would no longer
    /// be let in.
    async fn is_known(&mut self) -> Option<bool> {
        if Instant::now() < self.check_at {
            return Some(true);
        }
        let asked = self.app.auth.still_knows(&self.app.hub, &self.caller);
        match in_time(asked).await {
            Ok(true) => {
                self.check_at = Instant::now() + BEAT_EVERY;
                Some(true)
            }
            Ok(false) => {
                let name = self.caller.name();
                tracing::debug!("the event stream of {name} ends: its key or token was revoked");
                None
            }
            Err(error) => {
                self.bears(&error)?;
                Some(false)
            }
        }
    }

    /// Too many readers at a time, or the ledger is away: the log does not run away. `None` ends the stream.
    fn bears(&mut self, error: &hub::Error) -> Option<()> {
        if !error.may_pass() {
            tracing::debug!("an event stream ends: {error}");
            return None;
        }
        let pause = if matches!(error, hub::Error::Overloaded) {
            LOOK_EVERY
        } else {
            LOOK_AGAIN_AFTER
        };
        self.look_at = Instant::now() + pause;
        self.latest.mark_changed();
        Some(())
    }

    fn beat(&mut self, text: String) -> Bytes {
        self.beat_at = Instant::now() + BEAT_EVERY;
        text.into()
    }

    /// Until there is something new, or a sign of life is due; `None` when the hub stops.
    async fn rest(&mut self) -> Option<()> {
        tokio::select! {
            changed = self.latest.changed() => changed.ok(),
            Ok(()) = self.replacements.changed() => {
                self.replacements.mark_changed();
                Some(())
            }
            () = tokio::time::sleep_until(self.beat_at.min(self.check_at)) => Some(()),
            () = self.app.stopping.cancelled() => None,
        }
    }
}

/// What takes too long is as good as away.
async fn in_time<T>(asked: impl Future<Output = Result<T, hub::Error>>) -> Result<T, hub::Error> {
    match tokio::time::timeout(LOOK_WITHIN, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(hub::Error::Unavailable(format!(
            "it did not answer within {LOOK_WITHIN:?}"
        ))),
    }
}

fn frame(epoch: u64, event: &Logged) -> String {
    format!(
        "id: {epoch}.{}\nevent: {}\ndata: {}\n\n",
        event.seq,
        event.event.kind(),
        to_wire::event_json(event)
    )
}
