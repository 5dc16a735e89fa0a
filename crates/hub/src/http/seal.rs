//! What goes around a change: the version it speaks, and the key under which it happens once.

use aws_lc_rs::digest;
use serde::Deserialize;
use serde_json::Value;
use switchboard_core::idempotency::Key;
use switchboard_core::{AgentId, Verb};
use switchboard_wire::jetpack::{Envelope, Version, from_wire};
use switchboard_wire::{Malformed, canonical, parse};

use super::call::Call;
use super::error::Failure;
use super::reply::Reply;
use super::{App, open, operation};
use crate::auth::Caller;
use crate::hub::Guard;
use crate::rate::Class;

const KEY: &str = "idempotency-key";
pub const VERSION: &str = "switchboard-protocol-version";
/// Members that differ each time the same request is signed.
const FLEETING: [&str; 3] = ["timestamp", "nonce", "signature"];

/// Whether the call says that it speaks our version; true if it says nothing at all.
pub fn is_versionless(call: &Call, envelope: &Envelope) -> Result<bool, Failure> {
    lacks_version(envelope, call.header(VERSION))
}

/// The same where no header, or another one, may say it beside the envelope.
pub fn lacks_version(envelope: &Envelope, beside: Option<&str>) -> Result<bool, Failure> {
    match envelope.version(beside) {
        Version::Supported => Ok(false),
        Version::Missing => Ok(true),
        Version::Unsupported(version) => Err(Failure::UnsupportedVersion(version)),
    }
}

/// A call whose envelope was read and whose sender is known.
pub struct Opened<'a> {
    pub app: &'a App,
    pub call: &'a Call,
    pub envelope: Envelope,
    pub caller: Caller,
    /// The call did not say which version it speaks.
    pub versionless: bool,
}

impl<'a> Opened<'a> {
    /// A call whose body says nothing beyond its envelope.
    pub async fn new(app: &'a App, call: &'a Call) -> Result<Self, Failure> {
        Self::around(app, call, parse(&call.body)?).await
    }

    /// A call with a message in its body.
    pub async fn read<T: Deserialize<'a>>(
        app: &'a App,
        call: &'a Call,
    ) -> Result<(Self, T), Failure> {
        let (envelope, message) = open::open(&call.body)?;
        Ok((Self::around(app, call, envelope).await?, message))
    }

    pub async fn around(app: &'a App, call: &'a Call, envelope: Envelope) -> Result<Self, Failure> {
        let versionless = is_versionless(call, &envelope)?;
        // A signature in the body says nothing of the path, and so counts only for what names itself in the body.
        let caller = call.caller(app, None).await?;
        Ok(Opened {
            app,
            call,
            envelope,
            caller,
            versionless,
        })
    }

    /// The call acts as this agent: it must be allowed to, and counts against the agent's allowance.
    pub fn acts_as(&self, agent: &AgentId) -> Result<(), Failure> {
        self.caller.may_act_as(agent)?;
        Ok(self.app.limits.agent(Class::Other, agent)?)
    }

    /// The call acts as nobody: only a caller that is an agent itself is counted.
    pub fn acts(&self) -> Result<(), Failure> {
        match self.caller.is_agent() {
            Some(agent) => Ok(self.app.limits.agent(Class::Other, agent)?),
            None => Ok(()),
        }
    }

    pub fn guard(
        &self,
        actor: Option<&AgentId>,
        operation: &'static str,
    ) -> Result<Guard, Failure> {
        let seal = Seal::of(self.call, &self.envelope);
        Ok(seal.guard(&self.caller, actor.map(AgentId::as_str), operation)?)
    }

    /// Runs a change under this call's key and prints its reply.
    pub async fn run<V>(
        &self,
        verb: V,
        guard: Guard,
        status: u16,
        render: fn(&V::Reply) -> Vec<u8>,
    ) -> Result<Reply, Failure>
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        let mut reply = operation::run(self.app, verb, guard, render).await?;
        reply.status = status;
        reply.versionless = self.versionless;
        Ok(reply)
    }
}

/// One change as it stands in a request.
#[derive(Clone, Copy)]
pub struct Seal<'a> {
    /// What of the request is always the same: its method and path.
    pub place: [&'a str; 2],
    pub body: &'a [u8],
    pub envelope: &'a Envelope,
    /// The header's key; it stands over the body's.
    pub header_key: Option<&'a str>,
    /// Its place in a batch.
    pub part: Option<usize>,
    /// The same, if one signature stands over the whole batch.
    pub signed_part: Option<usize>,
}

impl<'a> Seal<'a> {
    pub fn of(call: &'a Call, envelope: &'a Envelope) -> Self {
        Seal {
            place: [call.method.as_str(), call.target()],
            body: &call.body,
            envelope,
            header_key: call
                .headers
                .get(KEY)
                .map(|value| value.to_str().unwrap_or_default()),
            part: None,
            signed_part: None,
        }
    }

    /// What is committed with a change of `operation` that acts as `actor`.
    pub fn guard(
        &self,
        caller: &Caller,
        actor: Option<&str>,
        operation: &'static str,
    ) -> Result<Guard, Malformed> {
        let nonce = caller.nonce(self.signed_part);
        let key = match (self.header_key, self.envelope.request_id.as_deref()) {
            (_, Some(own)) if self.part.is_some() => {
                from_wire::idempotency_key("requestId", own)?.into()
            }
            (Some(header), _) => {
                let header = from_wire::idempotency_key("Idempotency-Key", header)?;
                match self.part {
                    None => header.into(),
                    // One header stands over a whole batch.
                    Some(part) => format!("{header}/{part}").into(),
                }
            }
            (None, Some(own)) => from_wire::idempotency_key("requestId", own)?.into(),
            (None, None) => {
                return Ok(Guard {
                    nonce,
                    ..Guard::default()
                });
            }
        };
        let principal = actor.unwrap_or(caller.name()).into();
        Ok(Guard {
            key: Some((
                Key {
                    principal,
                    operation,
                    key,
                },
                self.hash()?,
            )),
            nonce,
            keeps_refusal: None,
        })
    }

    /// The same for the same request, however often it is signed.
    fn hash(&self) -> Result<[u8; 32], Malformed> {
        let mut context = digest::Context::new(&digest::SHA256);
        for part in self.place {
            context.update(part.as_bytes());
            context.update(b"\n");
        }
        let envelope = self.envelope;
        if envelope.timestamp.is_none() && envelope.nonce.is_none() && envelope.signature.is_none()
        {
            context.update(self.body);
        } else {
            let mut body: Value = parse(self.body)?;
            if let Value::Object(members) = &mut body {
                for name in FLEETING {
                    members.remove(name);
                }
            }
            context.update(canonical(&body).as_bytes());
        }
        Ok(context
            .finish()
            .as_ref()
            .try_into()
            .expect("SHA-256 gives 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(body: &str) -> Envelope {
        parse(body.as_bytes()).unwrap()
    }

    fn hash(place: [&str; 2], body: &str) -> [u8; 32] {
        let envelope = envelope(body);
        let seal = Seal {
            place,
            body: body.as_bytes(),
            envelope: &envelope,
            header_key: None,
            part: None,
            signed_part: None,
        };
        seal.hash().unwrap()
    }

    #[test]
    fn signing_anew_does_not_make_another_request() {
        let place = ["POST", "/api/v1/tasks/claim"];
        let first =
            r#"{"agentId":"a","timestamp":"2026-01-01T00:00:00Z","nonce":"1","signature":"aa"}"#;
        let again =
            r#"{"agentId":"a","timestamp":"2026-01-01T00:00:09Z","nonce":"2","signature":"bb"}"#;
        let other =
            r#"{"agentId":"b","timestamp":"2026-01-01T00:00:09Z","nonce":"2","signature":"bb"}"#;
        assert_eq!(hash(place, first), hash(place, again));
        assert_ne!(hash(place, first), hash(place, other));
        assert_ne!(
            hash(place, first),
            hash(["POST", "/api/v1/messages"], first)
        );
        assert_ne!(
            hash(place, first),
            hash(["PUT", "/api/v1/tasks/claim"], first)
        );
    }

    #[test]
    fn the_header_stands_over_the_body_and_each_part_of_a_batch_has_its_own_key() {
        let caller = Caller::steward();
        let with = envelope(r#"{"requestId":"own"}"#);
        let without = Envelope::default();
        let key = |envelope: &Envelope, header_key, part| {
            let seal = Seal {
                place: ["POST", "/"],
                body: b"{}",
                envelope,
                header_key,
                part,
                signed_part: None,
            };
            let guard = seal.guard(&caller, Some("a1"), "claim").unwrap();
            guard
                .key
                .map(|(key, _)| (key.principal.to_string(), key.key.to_string()))
        };
        let of = |key: &str| Some(("a1".to_owned(), key.to_owned()));
        assert_eq!(key(&without, None, None), None);
        assert_eq!(key(&with, None, None), of("own"));
        assert_eq!(key(&with, Some("head"), None), of("head"));
        assert_eq!(key(&with, Some("head"), Some(1)), of("own"));
        assert_eq!(key(&without, Some("head"), Some(1)), of("head/1"));
    }

    #[test]
    fn a_key_is_one_to_128_visible_characters() {
        let envelope = Envelope::default();
        for (key, fits) in [
            ("", false),
            ("a", true),
            ("a b", false),
            (&*"a".repeat(128), true),
            (&*"a".repeat(129), false),
        ] {
            let seal = Seal {
                place: ["POST", "/"],
                body: b"{}",
                envelope: &envelope,
                header_key: Some(key),
                part: None,
                signed_part: None,
            };
            assert_eq!(
                seal.guard(&Caller::steward(), None, "x").is_ok(),
                fits,
                "{key}"
            );
        }
    }
}
