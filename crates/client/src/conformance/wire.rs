//! Calls as they are, and what was answered, whatever it was.

use std::fmt;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::time::timeout;

use super::findings::Stop;
use crate::call::Call;
use crate::client::Client;
use crate::sse::{Frame, Parser};

/// What was answered to a call.
#[derive(Debug)]
pub(super) struct Answer {
    /// The call, for a report.
    pub sent: String,
    pub status: u16,
    pub body: Value,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            Value::Null => write!(f, "status {}", self.status),
            body => write!(f, "status {}: {body}", self.status),
        }
    }
}

impl Answer {
    pub fn code(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }

    pub fn text(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_default()
    }

    /// The hub understood the call, and said no.
    pub fn is_refused(&self) -> bool {
        (400..500).contains(&self.status) && !self.is_missing()
    }

    /// Nobody knows such a call there.
    fn is_missing(&self) -> bool {
        match self.status {
            405 | 501 => true,
            404 => matches!(self.code(), "" | "not_found"),
            _ => false,
        }
    }

    /// Ends a story if there is no such endpoint.
    pub fn found(self) -> Result<Answer, Stop> {
        match self.is_missing() {
            true => Err(Stop::Missing {
                came: self.to_string(),
                sent: self.sent,
            }),
            false => Ok(self),
        }
    }

    /// Ends a story if it is not this status.
    pub fn expect(self, status: u16) -> Result<Answer, Stop> {
        let answer = self.found()?;
        match answer.status == status {
            true => Ok(answer),
            false => Err(Stop::Unknown(format!(
                "{} was answered with {answer}",
                answer.sent
            ))),
        }
    }
}

/// One call, with a node's ticket. `path` may have a query, and its segments are sent as they are.
pub(super) async fn call(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
    ticket: Option<&str>,
) -> Result<Answer, Stop> {
    let shown = bearer(ticket)?;
    show(client, method, path, body, shown).await
}

/// The same with whatever is shown.
pub(super) async fn show(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
    shown: HeaderMap,
) -> Result<Answer, Stop> {
    let mut sent = format!("{method} {path}");
    if let Some(body) = body {
        sent = format!("{sent} {body}");
    }
    let call = written(&method, path, body)?;
    let answer = client.transport.ask(&call, shown).await;
    let (status, bytes) = answer.map_err(Stop::unknown)?;
    Ok(Answer {
        sent,
        status,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    })
}

fn bearer(ticket: Option<&str>) -> Result<HeaderMap, Stop> {
    let shown = ticket.map(|ticket| HeaderValue::from_str(&format!("Bearer {ticket}")));
    let shown = shown.transpose().map_err(Stop::unknown)?;
    Ok(HeaderMap::from_iter(
        shown.map(|shown| (AUTHORIZATION, shown)),
    ))
}

fn written(method: &Method, path: &str, body: Option<&Value>) -> Result<Call, Stop> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let call = match (*method == Method::GET, body) {
        (true, _) => Call::get(&segments),
        (false, None) => Call::delete(&segments),
        (false, Some(body)) => Call::post(&segments, body).map_err(Stop::unknown)?,
    };
    let mut call = call.query(query.to_owned()).bare();
    call.wait = Duration::from_secs(WAIT_SECONDS);
    Ok(call)
}

/// The first event of a stream that begins after a place: its id and what it says. None of anything but a stream.
pub(super) async fn first_of_stream(
    client: &Client,
    path: &str,
    ticket: &str,
    after: u64,
    within: Duration,
) -> Result<Option<Frame>, Stop> {
    let mut shown = bearer(Some(ticket))?;
    shown.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    shown.insert("last-event-id", HeaderValue::from(after));
    let call = written(&Method::GET, path, None)?;
    let read = async {
        let mut response = client
            .transport
            .asked(&call, shown)
            .await
            .map_err(Stop::unknown)?;
        let kind = response.headers().get(CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            return Ok(None);
        }
        let (mut parser, mut frames) = (Parser::default(), Vec::new());
        while let Some(bytes) = response.chunk().await.map_err(Stop::unknown)? {
            if parser.feed(&bytes, &mut frames).is_err() {
                return Ok(None);
            }
            if let Some(frame) = frames.drain(..).next() {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    };
    timeout(within, read).await.unwrap_or(Ok(None))
}

/// The hub is asked to hold an answer back for so long.
pub(super) const WAIT_SECONDS: u64 = 1;
