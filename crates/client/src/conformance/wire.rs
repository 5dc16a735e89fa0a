//! Calls as they are, and what was answered, whatever it was.

use std::fmt;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::findings::Stop;
use crate::call::Call;
use crate::client::Client;

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

/// One call. `path` may have a query, and its segments are sent as they are.
pub(super) async fn call(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
    ticket: Option<&str>,
) -> Result<Answer, Stop> {
    let mut sent = format!("{method} {path}");
    if let Some(body) = body {
        sent = format!("{sent} {body}");
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let call = match (method == Method::GET, body) {
        (true, _) => Call::get(&segments),
        (false, None) => Call::delete(&segments),
        (false, Some(body)) => Call::post(&segments, body).map_err(Stop::unknown)?,
    };
    let mut call = call.query(query.to_owned()).bare();
    call.wait = Duration::from_secs(WAIT_SECONDS);
    let answer = client.transport.ask(&call, ticket).await;
    let (status, bytes) = answer.map_err(Stop::unknown)?;
    Ok(Answer {
        sent,
        status,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    })
}

/// The hub is asked to hold an answer back for so long.
pub(super) const WAIT_SECONDS: u64 = 1;
