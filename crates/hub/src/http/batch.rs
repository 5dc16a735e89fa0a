//! Many operations in one call, each in its envelope.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use serde_json::value::RawValue;
use switchboard_core::limits;
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::IncomingBatch;

use super::call::{Call, KEY, VERSION};
use super::error::Failure;
use super::reply::{Reply, may_come_again};
use super::{App, AppState};
use crate::auth::{Caller, Evidence};
use crate::call::{self, Asked, Seal, open};

/// Each operation acts by itself, in order; each is answered by itself.
pub async fn batch(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (envelope, batch) = open::outer::<IncomingBatch<'_>>(&call.body)?;
    if batch.operations.len() > limits::BATCH_OPERATIONS_MAX {
        let message = format!("has more than {} items", limits::BATCH_OPERATIONS_MAX);
        return Err(Malformed::field("operations", message).into());
    }
    call.seal(&envelope).keys()?;
    let outer = Outer {
        app: &app,
        call: &call,
        spoken: !open::lacks_version(&envelope, call.header(VERSION))?,
        whole: whole(&app, &call).await?,
    };
    let mut parts = Vec::with_capacity(batch.operations.len());
    for operation in &batch.operations {
        parts.push(outer.part(operation).await);
    }
    Ok(outer.run(parts).await)
}

/// Who sent the whole batch, by its headers; `None` if each operation shows that for itself.
async fn whole(app: &App, call: &Call) -> Result<Option<Caller>, Failure> {
    let signed = call.headers.contains_key("authorization")
        || call.headers.contains_key("switchboard-signature");
    if app.auth.is_asked_for() && !signed {
        return Ok(None);
    }
    call.caller(app, None).await.map(Some)
}

/// A batch, as far as it is the same for all its operations.
struct Outer<'a> {
    app: &'a App,
    call: &'a Call,
    /// It says which version all of it speaks.
    spoken: bool,
    whole: Option<Caller>,
}

/// One operation of a batch, read; and its own sender, where the batch has none.
type Part<'a> = (&'a [u8], Asked, Option<Caller>);

impl<'a> Outer<'a> {
    async fn part(&self, operation: &'a RawValue) -> Result<Part<'a>, Failure> {
        let body = operation.get().as_bytes();
        let mut asked = self.app.read(body, None)?;
        asked.versionless &= !self.spoken;
        // Whoever waits would hold up all the others.
        asked.call = asked.call.at_once();
        let caller = match &self.whole {
            Some(_) => None,
            None => {
                let evidence = Evidence {
                    body,
                    ..self.call.evidence(Some(&asked.envelope))
                };
                Some(self.app.auth.caller(&self.app.hub, evidence).await?)
            }
        };
        Ok((body, asked, caller))
    }

    /// Starts the operations in order without waiting for each other; a read waits for the changes before it.
    async fn run(&self, parts: Vec<Result<Part<'a>, Failure>>) -> Reply {
        let mut answers = Answers::new(parts.len());
        let mut versionless = false;
        let mut running = FuturesOrdered::new();
        for (index, part) in parts.into_iter().enumerate() {
            versionless |= part.as_ref().is_ok_and(|(_, asked, _)| asked.versionless);
            let reads = part
                .as_ref()
                .is_ok_and(|(_, asked, _)| asked.call.is_read());
            if reads {
                while let Some(reply) = running.next().await {
                    answers.push(&reply);
                }
            }
            running.push_back(self.perform(index, part));
        }
        while let Some(reply) = running.next().await {
            answers.push(&reply);
        }
        let mut reply = Reply::bytes(200, answers.finish());
        reply.versionless = versionless;
        reply
    }

    async fn perform(&self, index: usize, part: Result<Part<'a>, Failure>) -> Reply {
        let performed = async {
            let (body, asked, caller) = part?;
            let caller = caller.as_ref().or(self.whole.as_ref());
            let caller = caller.ok_or_else(|| {
                call::Failure::Unauthenticated("this operation is not signed".to_owned())
            })?;
            let seal = Seal {
                place: ["POST", "operation"],
                body,
                envelope: &asked.envelope,
                header_key: self.call.header(KEY),
                part: Some(index),
                signed_part: self.whole.is_some().then_some(index),
            };
            let (what, from) = ((asked.operation, asked.call), self.call.peer.ip);
            let performed = self.app.perform(caller, what, seal, from).await;
            let reply =
                performed.map_or_else(|failure| Failure::from(failure).into_reply(), Reply::from);
            if let Some(mark) = caller.mark.filter(|_| may_come_again(reply.status)) {
                self.app.auth.forgive(mark);
            }
            Ok(reply)
        };
        performed.await.unwrap_or_else(Failure::into_reply)
    }
}

/// `{"success":true,"results":[{"status":200,"body":…},…]}`, written as the answers come.
struct Answers(Vec<u8>);

impl Answers {
    fn new(count: usize) -> Self {
        let mut out = Vec::with_capacity(64 + count * 256);
        out.extend_from_slice(br#"{"success":true,"results":["#);
        Answers(out)
    }

    fn push(&mut self, reply: &Reply) {
        let out = &mut self.0;
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"status":"#);
        out.extend_from_slice(reply.status.to_string().as_bytes());
        out.extend_from_slice(br#","body":"#);
        out.extend_from_slice(&reply.body);
        out.push(b'}');
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"]}");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_one_json_object_in_order() {
        let mut answers = Answers::new(2);
        answers.push(&Reply::bytes(200, &b"{\"a\":1}"[..]));
        answers.push(&Reply::bytes(404, &b"{}"[..]));
        let text = String::from_utf8(answers.finish()).unwrap();
        assert_eq!(
            text,
            r#"{"success":true,"results":[{"status":200,"body":{"a":1}},{"status":404,"body":{}}]}"#
        );
        assert_eq!(
            Answers::new(0).finish(),
            br#"{"success":true,"results":[]}"#
        );
    }
}
