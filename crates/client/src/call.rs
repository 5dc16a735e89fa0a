//! One call as it is meant: where to, with what, and whether it may change something.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use serde::Serialize;

use crate::error::Error;

/// What to send.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path segments as they are meant, not yet encoded.
    pub(crate) path: Vec<String>,
    pub(crate) query: String,
    pub(crate) body: Option<Bytes>,
    /// How long the hub may hold the answer back on purpose.
    pub(crate) wait: Duration,
    /// Outside `/api/v1`.
    pub(crate) bare: bool,
    /// Whether it may change something, so that sending it twice has to count once.
    pub(crate) mutates: bool,
}

impl Call {
    pub(crate) fn get(path: &[&str]) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn delete(path: &[&str]) -> Self {
        Self::new(Method::DELETE, path)
    }

    pub(crate) fn post<B: Serialize>(path: &[&str], body: &B) -> Result<Self, Error> {
        Self::new(Method::POST, path).with_body(body)
    }

    pub(crate) fn put<B: Serialize>(path: &[&str], body: &B) -> Result<Self, Error> {
        Self::new(Method::PUT, path).with_body(body)
    }

    pub(crate) fn patch<B: Serialize>(path: &[&str], body: &B) -> Result<Self, Error> {
        Self::new(Method::PATCH, path).with_body(body)
    }

    pub(crate) fn query(mut self, query: String) -> Self {
        self.query = query;
        self
    }

    pub(crate) fn wait(mut self, seconds: Option<u32>) -> Self {
        self.wait = Duration::from_secs(u64::from(seconds.unwrap_or(0)));
        self
    }

    /// Not under `/api/v1`.
    pub(crate) fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// A GET that changes something: what it hands out is marked as handed out.
    pub(crate) fn mutating(mut self) -> Self {
        self.mutates = true;
        self
    }

    fn new(method: Method, path: &[&str]) -> Self {
        let path = path.iter().map(|segment| (*segment).to_owned()).collect();
        let mutates = method != Method::GET;
        Self {
            method,
            path,
            query: String::new(),
            body: None,
            wait: Duration::ZERO,
            bare: false,
            mutates,
        }
    }

    fn with_body<B: Serialize>(mut self, body: &B) -> Result<Self, Error> {
        let bytes = serde_json::to_vec(body)
            .map_err(|error| Error::Invalid(format!("the request is not JSON: {error}")))?;
        self.body = Some(bytes.into());
        Ok(self)
    }
}
