//! Operations in envelopes: one at a time, or many in one call.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use serde_json::value::RawValue;
use switchboard_core::limits;
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::from_wire::{self, Fetch};
use switchboard_wire::jetpack::{Envelope, IncomingBatch, Version};

use super::call::Call;
use super::error::Failure;
use super::operation::perform;
use super::reply::Reply;
use super::seal::{self, Seal};
use super::{App, Shared, open};
use crate::auth::{Caller, Evidence};

/// One operation in its envelope, read and understood, whichever door it came through.
pub struct Enveloped {
    pub envelope: Envelope,
    pub asked: from_wire::Call,
    /// It did not say which version it speaks.
    pub versionless: bool,
}

impl Enveloped {
    /// `beside` is the version that is told outside of the body.
    pub fn read(app: &App, body: &[u8], beside: Option<&str>) -> Result<Self, Failure> {
        let (envelope, request) = open::enveloped(body)?;
        let versionless = seal::lacks_version(&envelope, beside)?;
        let mut fresh = |kind| app.ids.fresh(kind);
        let asked = from_wire::Call::new(request, None, &mut app.context(&mut fresh))?;
        Ok(Enveloped {
            envelope,
            asked,
            versionless,
        })
    }
}

pub async fn protocol(app: Shared, call: Call) -> Result<Reply, Failure> {
    let Enveloped {
        envelope,
        asked,
        versionless,
    } = Enveloped::read(&app, &call.body, call.header(seal::VERSION))?;
    let caller = call.caller(&app, Some(&envelope)).await?;
    let mut reply = perform(
        &app,
        &caller,
        asked,
        Seal::of(&call, &envelope),
        call.peer.ip,
    )
    .await?;
    reply.versionless = versionless;
    Ok(reply)
}

/// Each operation acts by itself, in order; each is answered by itself.
pub async fn batch(app: Shared, call: Call) -> Result<Reply, Failure> {
    let (envelope, batch) = open::outer::<IncomingBatch<'_>>(&call.body)?;
    if batch.operations.len() > limits::BATCH_OPERATIONS_MAX {
        let message = format!("has more than {} items", limits::BATCH_OPERATIONS_MAX);
        return Err(Malformed::field("operations", message).into());
    }
    let outer = Outer {
        app: &app,
        call: &call,
        spoken: spoken(&call, &envelope)?,
        whole: whole(&app, &call).await?,
    };
    let mut parts = Vec::with_capacity(batch.operations.len());
    for operation in &batch.operations {
        parts.push(outer.part(operation).await);
    }
    Ok(outer.run(parts).await)
}

/// The version that the whole batch speaks, if it says so.
fn spoken(call: &Call, envelope: &Envelope) -> Result<bool, Failure> {
    seal::is_versionless(call, envelope).map(|versionless| !versionless)
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
    spoken: bool,
    whole: Option<Caller>,
}

/// One operation of a batch, read and attributed.
struct Part<'a> {
    body: &'a [u8],
    envelope: Envelope,
    asked: from_wire::Call,
    /// Its own sender, where the batch has none.
    caller: Option<Caller>,
    versionless: bool,
}

impl<'a> Outer<'a> {
    async fn part(&self, operation: &'a RawValue) -> Result<Part<'a>, Failure> {
        let body = operation.get().as_bytes();
        let (envelope, request) = open::enveloped(body)?;
        let versionless = match envelope.version(None) {
            Version::Supported => false,
            Version::Missing => !self.spoken,
            Version::Unsupported(version) => return Err(Failure::UnsupportedVersion(version)),
        };
        let app = self.app;
        let asked = from_wire::Call::new(
            request,
            None,
            &mut app.context(&mut |kind| app.ids.fresh(kind)),
        )?;
        let caller = match &self.whole {
            Some(_) => None,
            None => {
                let evidence = Evidence {
                    body,
                    ..self.call.evidence(Some(&envelope))
                };
                Some(app.auth.caller(&app.hub, evidence).await?)
            }
        };
        Ok(Part {
            body,
            envelope,
            asked: at_once(asked),
            caller,
            versionless,
        })
    }

    /// Starts the operations in order without waiting for each other; a read waits for the changes before it.
    async fn run(&self, parts: Vec<Result<Part<'a>, Failure>>) -> Reply {
        let mut answers = Answers::new(parts.len());
        let mut versionless = false;
        let mut running = FuturesOrdered::new();
        for (index, part) in parts.into_iter().enumerate() {
            versionless |= part.as_ref().is_ok_and(|part| part.versionless);
            let reads = part.as_ref().is_ok_and(|part| is_read(&part.asked));
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
            let Part {
                body,
                envelope,
                asked,
                caller,
                ..
            } = part?;
            let caller = caller.as_ref().or(self.whole.as_ref());
            let caller =
                caller.ok_or_else(|| Failure::Unauthenticated("nobody signed this".to_owned()))?;
            let seal = Seal {
                place: ["POST", "operation"],
                body,
                envelope: &envelope,
                header_key: self.call.header("idempotency-key"),
                part: Some(index),
                signed_part: self.whole.is_some().then_some(index),
            };
            let performed = perform(self.app, caller, asked, seal, self.call.peer.ip).await;
            let reply = performed.unwrap_or_else(Failure::into_reply);
            if let Some(mark) = caller.mark.filter(|_| reply.may_come_again()) {
                self.app.auth.forgive(mark);
            }
            Ok(reply)
        };
        performed.await.unwrap_or_else(Failure::into_reply)
    }
}

/// The same without waiting: in a batch that would hold up all the others.
pub fn at_once(asked: from_wire::Call) -> from_wire::Call {
    use from_wire::Call as Asked;
    match asked {
        Asked::Claim { claim, .. } => Asked::Claim {
            claim,
            wait_for: Duration::ZERO,
        },
        Asked::Receive { fetch, .. } => Asked::Receive {
            fetch,
            wait_for: Duration::ZERO,
        },
        Asked::Register(_)
        | Asked::Heartbeat(_)
        | Asked::Progress(_)
        | Asked::Complete(_)
        | Asked::Fail(_)
        | Asked::Send(_)
        | Asked::AcquireLease(_)
        | Asked::ReleaseLease { .. } => asked,
    }
}

/// Whether it only reads: then nothing is kept of its answer.
pub fn is_read(asked: &from_wire::Call) -> bool {
    matches!(
        asked,
        from_wire::Call::Receive {
            fetch: Fetch::Since { .. },
            ..
        }
    )
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
