//! What is signed is what is read, and counts for nothing else: no other key, text, sender, time or nonce.
//!
//! As a body the bytes are read whole; for the other forms each of the first lines is one of their parts.

use serde_json::{Value, json};
use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::message::Credential;
use switchboard_wire::jetpack::Request;
use switchboard_wire::signature::{AgentKey, MasterKey, SignedRequest, body_to_sign};
use switchboard_wire::{IsoTime, canonical};

use crate::bodies::told;

pub fn check(bytes: &[u8]) {
    body(bytes);
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.splitn(5, '\n');
    let [method, target, time, nonce, rest] = [(); 5].map(|()| lines.next().unwrap_or_default());
    request(&SignedRequest {
        method,
        path_and_query: target,
        timestamp: time,
        nonce: Some(nonce),
        body: rest.as_bytes(),
    });
    hello(method, target, nonce);
}

fn keys() -> [AgentKey; 3] {
    let master = MasterKey::new([7; 32]);
    let other = MasterKey::new([8; 32]);
    [
        master.agent_key("a1", 1),
        master.agent_key("a1", 2),
        other.agent_key("a1", 1),
    ]
}

/// Whether nobody but the signer signed this, and nothing but this.
fn counts_once(text: &str, other_texts: &[String]) {
    let [key, others @ ..] = keys();
    let signature = key.sign(text);
    assert!(key.verify(text, &signature));
    assert!(!key.verify(text, &signature[2..]));
    assert!(!key.verify(text, &format!("{signature}00")));
    for other in others {
        assert!(!other.verify(text, &signature));
    }
    for other in other_texts {
        assert!(other == text || !key.verify(other, &signature), "{other:?}");
    }
}

fn body(bytes: &[u8]) {
    let signed = match body_to_sign(bytes) {
        Ok(signed) => signed,
        Err(malformed) => return told(bytes, &malformed),
    };
    // The signed form is one of its own, and reads back to the same value.
    assert_eq!(body_to_sign(signed.as_bytes()).as_ref(), Ok(&signed));
    let value: Value = serde_json::from_str(&signed).unwrap();
    assert_eq!(canonical(&value), signed);
    counts_once(&signed, &[format!("{signed} "), signed.replace('a', "b")]);
    // Whoever reads the body reads what was signed.
    if let Ok((_, request)) = Request::parse_envelope(bytes) {
        let (_, covered) = Request::parse_envelope(signed.as_bytes()).unwrap();
        let plain = |request: &Request| canonical(&serde_json::to_value(request).unwrap());
        assert_eq!(plain(&request), plain(&covered));
    }
    // A signature beside it changes nothing.
    let mut sealed = value;
    if let Value::Object(members) = &mut sealed {
        members.insert("signature".to_owned(), json!(keys()[0].sign(&signed)));
        assert_eq!(body_to_sign(sealed.to_string().as_bytes()), Ok(signed));
    }
}

fn request(request: &SignedRequest<'_>) {
    let longer = format!("{}x", request.path_and_query);
    let body = [request.body, b" "].concat();
    let others = [
        SignedRequest {
            method: "TRACE",
            ..*request
        },
        SignedRequest {
            path_and_query: &longer,
            ..*request
        },
        SignedRequest {
            timestamp: "2026-01-19T10:00:00.001Z",
            ..*request
        },
        SignedRequest {
            nonce: Some("another"),
            ..*request
        },
        SignedRequest {
            body: &body,
            ..*request
        },
    ];
    // Everything moved by one line is another text: the lines cannot be told apart otherwise.
    let shifted = SignedRequest {
        method: request.path_and_query,
        path_and_query: request.timestamp,
        timestamp: request.nonce.unwrap_or_default(),
        nonce: Some(request.method),
        body: request.body,
    };
    let same = [shifted.method, shifted.path_and_query, shifted.timestamp]
        == [request.method, request.path_and_query, request.timestamp];
    let texts = others
        .iter()
        .map(SignedRequest::to_sign)
        .collect::<Vec<_>>();
    counts_once(&request.to_sign(), &texts);
    assert_eq!(same, shifted.to_sign() == request.to_sign());
}

fn hello(id: &str, other_id: &str, nonce: &str) {
    let [key, others @ ..] = keys();
    let now = IsoTime(1_768_816_800_000);
    let auth = Credential::Key(key.clone()).sign(Role::Worker, id, now, nonce.to_owned());
    assert!(auth.is_of(&key, Role::Worker, id));
    assert!(!auth.is_of(&key, Role::Operator, id));
    assert!(id == other_id || !auth.is_of(&key, Role::Worker, other_id));
    for other in others {
        assert!(!auth.is_of(&other, Role::Worker, id));
    }
    let mut later = auth.clone();
    later.timestamp = IsoTime(now.0 + 1).to_string();
    assert!(!later.is_of(&key, Role::Worker, id));
    let mut renewed = auth;
    renewed.nonce.push('x');
    assert!(!renewed.is_of(&key, Role::Worker, id));
}
