//! This node's outbox as a stream of server-sent events.
//!
//! Its reader says by opening it how far it is; what it is sent meanwhile counts as read when it asks again. Whatever a
//! page would refuse ends the stream: the next call is told why.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use switchboard_core::EventId;
use switchboard_core::verb::NoteReader;
use switchboard_wire::runtime::{Event, OutboxPage};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::AppState;
use super::error::Failure;
use super::streams::OpenStream;
use crate::auth::{Caller, Vigil};
use crate::call::to_json;
use crate::runtime::{Place, look_again, page};

/// A quiet stream says this often that it is still there.
const BEAT_EVERY: Duration = Duration::from_secs(15);
/// A stream looks into the outbox at most this often, however often something is published.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Begins with a page that was found, for a caller that may read on.
pub(super) fn stream(
    app: AppState,
    caller: &Caller,
    found: &OutboxPage,
    (place, limit, reader): (Place, usize, Option<NoteReader>),
    bell: watch::Receiver<()>,
) -> Result<Response, Failure> {
    let known = app.auth.is_asked_for().then(|| caller.principal.clone());
    let seat = app.streams.take(known)?;
    let mut feed = Feed {
        vigil: app.auth.begin_vigil(&app.hub)(caller),
        renew_at: Instant::now() + app.hub.shared.runtime.cursor_lease / 2,
        place,
        limit,
        reader,
        bell,
        rest_until: Instant::now(),
        look_at: Instant::now(),
        beat_at: Instant::now(),
        first: None,
        app,
        _seat: seat,
    };
    feed.first = feed.frames(&found.events);
    let pieces = unfold(feed, |mut feed| async move {
        feed.piece()
            .await
            .map(|piece| (Ok::<_, std::io::Error>(piece), feed))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// One reader. It looks only when its connection has room, so a slow one holds a single piece.
struct Feed {
    app: AppState,
    /// Of what the caller showed.
    vigil: Option<Vigil>,
    place: Place,
    limit: usize,
    /// A node, with the place that it opened the stream at: so long that is what it has.
    reader: Option<NoteReader>,
    renew_at: Instant,
    bell: watch::Receiver<()>,
    rest_until: Instant,
    look_at: Instant,
    /// When the next sign of life is due; at the start at once.
    beat_at: Instant,
    first: Option<Bytes>,
    _seat: OpenStream,
}

impl Feed {
    async fn piece(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            if Instant::now() >= self.beat_at {
                self.beat_at = Instant::now() + BEAT_EVERY;
                return Some(Bytes::from_static(b": still here\n\n"));
            }
            if !self.wait().await? {
                continue;
            }
            self.renew().await?;
            let found = page(&self.app.hub, self.place.clone(), self.limit).await;
            let found = found.inspect_err(|why| {
                let why = &why.answer().0.message;
                tracing::debug!("a stream of the outbox ends: {why}");
            });
            let found = found.ok()?;
            self.rest_until = Instant::now() + LOOK_EVERY;
            if let Some(frames) = self.frames(&found.events) {
                // There may be more.
                self.look_at = self.rest_until;
                return Some(frames);
            }
            self.look_at = look_again(&self.app.hub);
        }
    }

    /// Until it is time to look, or to check something else; `None` ends the stream.
    async fn wait(&mut self) -> Option<bool> {
        let rung = async {
            match &mut self.vigil {
                Some(vigil) => vigil.rung().await,
                None => std::future::pending().await,
            }
        };
        let news = async {
            sleep_until(self.rest_until).await;
            tokio::select! {
                changed = self.bell.changed() => drop(changed),
                () = sleep_until(self.look_at) => {}
            }
        };
        tokio::select! {
            biased;
            () = self.app.stopping.cancelled() => return None,
            () = rung => {}
            () = news => return Some(true),
            () = sleep_until(self.beat_at) => return Some(false),
        }
        let vigil = self.vigil.as_mut()?;
        let holds = vigil.holds(&self.app.auth, &self.app.hub).await;
        holds.then_some(false)
    }

    /// What a node has not read is kept for it while it listens.
    async fn renew(&mut self) -> Option<()> {
        let due = self
            .reader
            .as_ref()
            .filter(|_| Instant::now() >= self.renew_at);
        if let Some(reader) = due {
            self.app.hub.run(reader.clone()).await.ok()?;
            self.renew_at = Instant::now() + reader.lease_for / 2;
        }
        Some(())
    }

    /// Goes on behind these.
    fn frames(&mut self, events: &[Event]) -> Option<Bytes> {
        let last = events.last()?;
        self.place = Place {
            after: Some(last.seq),
            last: Some(EventId::from(last.event_id.as_str())),
        };
        self.beat_at = Instant::now() + BEAT_EVERY;
        let mut text = Vec::new();
        for event in events {
            let begins = format!("id: {}\nevent: {}\ndata: ", event.seq, event.kind);
            text.extend_from_slice(begins.as_bytes());
            text.extend(to_json(event));
            text.extend_from_slice(b"\n\n");
        }
        Some(text.into())
    }
}
