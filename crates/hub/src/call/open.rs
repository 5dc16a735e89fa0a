//! An envelope and what is in it, read in one pass over the bytes.
//!
//! The envelope's members stand beside the request's own. A tap on the parser takes them out on their way to the
//! request's type. Whatever the quick pass refuses is read again by `switchboard_wire`, which knows the field to blame.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use switchboard_wire::jetpack::{CreateTasksRequest, Envelope, Operation, Request, Version};
use switchboard_wire::{Malformed, parse};

use super::Failure;

/// Reads a message and the envelope around it.
pub fn open<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<(Envelope, T), Failure> {
    match quick(bytes) {
        Some(read) => Ok(read),
        None => Ok((envelope(bytes)?, parse(bytes)?)),
    }
}

/// Reads the request of an operation that is known.
pub fn operation(operation: Operation, bytes: &[u8]) -> Result<(Envelope, Request), Failure> {
    if let Some(read) = quick_request(operation, bytes) {
        return Ok(read);
    }
    Ok((envelope(bytes)?, Request::parse(operation, bytes)?))
}

/// Reads an envelope that has to name its operation.
pub fn enveloped(bytes: &[u8]) -> Result<(Envelope, Request), Failure> {
    if let Some(hint) = named_operation(bytes)
        && let Some((envelope, request)) = quick_request(hint, bytes)
        && envelope.operation == Some(hint)
    {
        return Ok((envelope, request));
    }
    let envelope = envelope(bytes)?;
    let operation = envelope
        .operation
        .ok_or_else(|| Malformed::missing("operation"))?;
    Ok((envelope, Request::parse(operation, bytes)?))
}

/// Reads one new task or several.
pub fn new_tasks(bytes: &[u8]) -> Result<(Envelope, CreateTasksRequest), Failure> {
    let one = !text(bytes).contains("\"tasks\"");
    if one && let Some((envelope, task)) = quick(bytes) {
        return Ok((envelope, CreateTasksRequest::One(Box::new(task))));
    }
    Ok((envelope(bytes)?, CreateTasksRequest::parse(bytes)?))
}

/// Reads a message whose parts are checked one by one later, so that its depth need not be looked at here.
pub fn outer<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<(Envelope, T), Failure> {
    match tapped(bytes) {
        Some(read) => Ok(read),
        None => Ok((envelope(bytes)?, parse(bytes)?)),
    }
}

/// A version that is not spoken here is told before anything else is found wrong.
fn envelope(bytes: &[u8]) -> Result<Envelope, Failure> {
    let envelope: Envelope = parse(bytes)?;
    lacks_version(&envelope, None)?;
    Ok(envelope)
}

/// Whether nobody said which version is spoken, neither in the envelope nor `beside` it.
pub fn lacks_version(envelope: &Envelope, beside: Option<&str>) -> Result<bool, Failure> {
    match envelope.version(beside) {
        Version::Supported => Ok(false),
        Version::Missing => Ok(true),
        Version::Unsupported(version) => Err(Failure::UnsupportedVersion(version)),
    }
}

fn quick_request(operation: Operation, bytes: &[u8]) -> Option<(Envelope, Request)> {
    fn read<'de, T: Deserialize<'de>>(
        bytes: &'de [u8],
        of: fn(T) -> Request,
    ) -> Option<(Envelope, Request)> {
        quick(bytes).map(|(envelope, request)| (envelope, of(request)))
    }
    match operation {
        Operation::Register => read(bytes, Request::Register),
        Operation::Heartbeat => read(bytes, Request::Heartbeat),
        Operation::Claim => read(bytes, Request::Claim),
        Operation::Progress => read(bytes, Request::Progress),
        Operation::Complete => read(bytes, Request::Complete),
        Operation::Fail => read(bytes, Request::Fail),
        Operation::SendMessage => read(bytes, Request::SendMessage),
        Operation::ReceiveMessages => read(bytes, Request::ReceiveMessages),
        Operation::AcquireLease => read(bytes, Request::AcquireLease),
        Operation::ReleaseLease => read(bytes, Request::ReleaseLease),
    }
}

/// Few messages have that many brackets; those that do are looked at more closely.
const BRACKETS_MAX: usize = 127;

fn quick<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Option<(Envelope, T)> {
    let brackets = bytes.iter().filter(|byte| **byte | 0x20 == b'{').count();
    if brackets > BRACKETS_MAX {
        return None;
    }
    tapped(bytes)
}

fn tapped<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Option<(Envelope, T)> {
    let mut envelope = Envelope::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let message = T::deserialize(Tap {
        inner: &mut reader,
        envelope: &mut envelope,
    })
    .ok()?;
    reader.end().ok()?;
    // Who signs also says as whom; that member may be the request's own.
    if envelope.signature.is_some() {
        envelope = parse(bytes).ok()?;
    }
    Some((envelope, message))
}

/// The first operation that the text names, wherever: a guess, to be checked against what was read.
fn named_operation(bytes: &[u8]) -> Option<Operation> {
    let (_, rest) = text(bytes).split_once("\"operation\"")?;
    let rest = rest
        .trim_start()
        .strip_prefix(':')?
        .trim_start()
        .strip_prefix('"')?;
    let (word, _) = rest.split_once('"')?;
    Operation::ALL
        .iter()
        .copied()
        .find(|operation| operation.as_str() == word)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

#[derive(Clone, Copy)]
enum Member {
    ProtocolVersion,
    Operation,
    RequestId,
    Timestamp,
    Nonce,
    Signature,
}

impl Member {
    fn named(name: &str) -> Option<Member> {
        Some(match name {
            "protocolVersion" => Member::ProtocolVersion,
            "operation" => Member::Operation,
            "requestId" => Member::RequestId,
            "timestamp" => Member::Timestamp,
            "nonce" => Member::Nonce,
            "signature" => Member::Signature,
            _ => return None,
        })
    }

    fn take<'de, A: MapAccess<'de>>(
        self,
        envelope: &mut Envelope,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match self {
            Member::ProtocolVersion => envelope.protocol_version = map.next_value()?,
            Member::Operation => envelope.operation = map.next_value()?,
            Member::RequestId => envelope.request_id = map.next_value()?,
            Member::Timestamp => envelope.timestamp = map.next_value()?,
            Member::Nonce => envelope.nonce = map.next_value()?,
            Member::Signature => envelope.signature = map.next_value()?,
        }
        Ok(())
    }
}

/// Which of the envelope's members were there, `null` or not; the agent is one that requests may have, too.
#[derive(Default)]
struct Seen(u8);

impl Seen {
    const AGENT: u8 = 7;

    fn once<E: serde::de::Error>(&mut self, member: u8) -> Result<(), E> {
        if self.0 & 1 << member != 0 {
            return Err(E::custom("given twice"));
        }
        self.0 |= 1 << member;
        Ok(())
    }
}

/// A parser that keeps the envelope's members for itself.
struct Tap<'e, D> {
    inner: D,
    envelope: &'e mut Envelope,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Tap<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(TapVisitor {
            visitor,
            envelope: self.envelope,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct TapVisitor<'e, V> {
    visitor: V,
    envelope: &'e mut Envelope,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for TapVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(TapMap {
            map,
            envelope: self.envelope,
            seen: Seen::default(),
        })
    }
}

struct TapMap<'e, A> {
    map: A,
    envelope: &'e mut Envelope,
    seen: Seen,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for TapMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        loop {
            let tap = KeyTap {
                seed: &mut seed,
                seen: &mut self.seen,
            };
            match self.map.next_key_seed(tap)? {
                None => return Ok(None),
                Some(Key::Theirs(key)) => return Ok(Some(key)),
                Some(Key::Ours(member)) => member.take(self.envelope, &mut self.map)?,
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

enum Key<T> {
    Ours(Member),
    Theirs(T),
}

/// Looks at a key before the request's type does.
struct KeyTap<'s, K> {
    seed: &'s mut Option<K>,
    seen: &'s mut Seen,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeyTap<'_, K> {
    type Value = Key<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for KeyTap<'_, K> {
    type Value = Key<K::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        if let Some(member) = Member::named(name) {
            self.seen.once(member as u8)?;
            return Ok(Key::Ours(member));
        }
        if name == "agentId" {
            self.seen.once(Seen::AGENT)?;
        }
        let seed = self
            .seed
            .take()
            .expect("a seed is used for one key that is not ours");
        seed.deserialize(name.into_deserializer()).map(Key::Theirs)
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::jetpack::{HeartbeatRequest, IncomingBatch, NewTask};

    use super::*;

    fn both<'de, T: Deserialize<'de> + PartialEq + fmt::Debug>(text: &'de str) {
        let bytes = text.as_bytes();
        let plain: (Envelope, T) = (parse(bytes).unwrap(), parse(bytes).unwrap());
        let (mut envelope, message) =
            quick::<T>(bytes).unwrap_or_else(|| panic!("not read at once: {text}"));
        // The agent is the request's own member.
        envelope.agent_id.clone_from(&plain.0.agent_id);
        assert_eq!((envelope, message), plain, "{text}");
    }

    #[test]
    fn one_pass_reads_what_two_passes_read() {
        both::<NewTask>(r#"{"title":"T","x":{"signature":[1]},"requestId":"r"}"#);
        both::<NewTask>(
            r#"{"protocolVersion":"1.0","title":"T\u00fc","description":null,"operation":null}"#,
        );
        both::<HeartbeatRequest>(r#"{"agentId":"a","status":"idle","timestamp":"t","nonce":"n"}"#);
        both::<HeartbeatRequest>(
            r#"{"agentId":"a","status":"idle","operation":"HEARTBEAT","signature":"s","timestamp":"t"}"#,
        );
    }

    #[test]
    fn what_the_quick_pass_refuses_is_refused_with_its_field() {
        for (text, field) in [
            (r#"{"title":1}"#, Some("title")),
            (r#"{}"#, Some("title")),
            ("", Some("title")),
            (r#"{"title":"T","requestId":5}"#, Some("requestId")),
            (r#"{"title":"T","requestId":null,"requestId":"r"}"#, None),
            (r#"{"title":"T","agentId":"a","agentId":"b"}"#, None),
            (r#"{"title":"T"} x"#, None),
            ("[]", None),
            ("{", None),
        ] {
            match open::<NewTask>(text.as_bytes()) {
                Err(Failure::Malformed(malformed)) => {
                    assert_eq!(malformed.field.as_deref(), field, "{text}")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let deep = format!(
            r#"{{"title":"T","x":{}{}}}"#,
            "[".repeat(200),
            "]".repeat(200)
        );
        assert!(open::<NewTask>(deep.as_bytes()).is_err());
        let wide = format!(r#"{{"title":"T","x":[{}[]]}}"#, "[],".repeat(200));
        assert!(open::<NewTask>(wide.as_bytes()).is_ok());
    }

    #[test]
    fn a_foreign_version_is_told_before_a_wrong_field() {
        let foreign = br#"{"protocolVersion":"3.0","title":1}"#;
        assert!(matches!(
            open::<NewTask>(foreign),
            Err(Failure::UnsupportedVersion(_))
        ));
    }

    #[test]
    fn the_operation_is_found_wherever_it_stands() {
        for text in [
            r#"{"operation":"CLAIM","agentId":"a"}"#,
            r#"{"agentId":"a","operation" : "CLAIM"}"#,
            r#"{"x":{"operation":"FAIL"},"agentId":"a","operation":"CLAIM"}"#,
            r#"{"x":"\"operation\"","agentId":"a","operation":"CLAIM"}"#,
            r#"{"agentId":"a","op\u0065ration":"CLAIM"}"#,
        ] {
            let (envelope, request) = enveloped(text.as_bytes()).unwrap();
            assert_eq!(envelope.operation, Some(Operation::Claim), "{text}");
            assert!(matches!(request, Request::Claim(_)), "{text}");
        }
        for text in [
            r#"{"agentId":"a"}"#,
            r#"{"x":{"operation":"CLAIM"},"agentId":"a"}"#,
        ] {
            match enveloped(text.as_bytes()) {
                Err(Failure::Malformed(malformed)) => {
                    assert_eq!(malformed.field.as_deref(), Some("operation"))
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn one_task_and_several_are_told_apart() {
        let one = |text: &str| {
            matches!(
                new_tasks(text.as_bytes()).unwrap().1,
                CreateTasksRequest::One(_)
            )
        };
        assert!(one(r#"{"title":"T"}"#));
        assert!(one(r#"{"title":"T","description":"\"tasks\""}"#));
        assert!(!one(r#"{"tasks":[{"title":"T"}]}"#));
    }

    #[test]
    fn a_batch_keeps_its_parts_as_text() {
        let text = br#"{"requestId":"r","operations":[{"a":1}, 2]}"#;
        let (envelope, batch) = outer::<IncomingBatch<'_>>(text).unwrap();
        assert_eq!(envelope.request_id.as_deref(), Some("r"));
        assert_eq!(
            batch
                .operations
                .iter()
                .map(|part| part.get())
                .collect::<Vec<_>>(),
            [r#"{"a":1}"#, "2"]
        );
    }
}
