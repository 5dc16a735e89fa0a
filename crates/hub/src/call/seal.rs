//! The key under which a change happens once, and what is the same each time it is asked for.

use aws_lc_rs::digest;
use serde_json::Value;
use switchboard_core::idempotency::Key;
use switchboard_wire::jetpack::{Envelope, from_wire};
use switchboard_wire::{Malformed, canonical, parse};

use super::Guard;
use crate::auth::Caller;

/// Members that differ each time the same request is signed.
const FLEETING: [&str; 3] = ["timestamp", "nonce", "signature"];

/// One change as it stands in a request.
#[derive(Clone, Copy)]
pub struct Seal<'a> {
    /// What of the request is always the same: its method and path.
    pub place: [&'a str; 2],
    pub body: &'a [u8],
    pub envelope: &'a Envelope,
    /// The key that is told beside the body, and stands over the body's.
    pub header_key: Option<&'a str>,
    /// Its place in a batch.
    pub part: Option<usize>,
    /// The same, if one signature stands over the whole batch.
    pub signed_part: Option<usize>,
}

impl Seal<'_> {
    /// What is committed with a change of `operation` that acts as `actor`.
    pub fn guard(
        &self,
        caller: &Caller,
        actor: Option<&str>,
        operation: &'static str,
    ) -> Result<Guard, Malformed> {
        let (nonce, pass) = (caller.nonce(self.signed_part), caller.pass.clone());
        let (header, own) = self.keys()?;
        let key = match (header, own, self.part) {
            (_, Some(own), Some(_)) | (None, Some(own), None) => own.into(),
            (Some(header), _, None) => header.into(),
            // One header stands over a whole batch.
            (Some(header), None, Some(part)) => format!("{header}/{part}").into(),
            (None, None, _) => {
                return Ok(Guard {
                    nonce,
                    pass,
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
            pass,
            keeps_refusal: None,
        })
    }

    /// The keys beside the body and in it.
    pub fn keys(&self) -> Result<(Option<&str>, Option<&str>), Malformed> {
        let header = self.header_key;
        let header = header.map(|key| from_wire::idempotency_key("Idempotency-Key", key));
        let own = self.envelope.request_id.as_deref();
        let own = own.map(|key| from_wire::idempotency_key("requestId", key));
        Ok((header.transpose()?, own.transpose()?))
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
