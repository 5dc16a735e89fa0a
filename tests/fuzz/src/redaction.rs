//! Secrets in texts and in JSON: none is left, and everything else is.

use serde_json::Value;
use switchboard_wire::redact;

/// One of each kind that is known by its own looks.
const TOKENS: &[&str] = &[
    "sbt_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "sbk_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "ghp_0123456789abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "dop_v1_0123456789abcdef",
    "AGE-SECRET-KEY-1QYQSZQGPQYQSZQGP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
];

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for clean in [redact::text(&text), redact::said(&text)] {
        is_clean(&clean);
        assert!(clean.len() <= 16 + 4 * text.len());
        let shorter = clean.len() < text.len();
        assert!(!shorter || redact::count(&clean) > 0);
    }
    planted(bytes, &text);
    if let Ok(given) = serde_json::from_str::<Value>(&text) {
        for clean in [redact::json(&text), redact::said_json(&text)] {
            let read: Value = serde_json::from_str(&clean).expect("JSON stays JSON");
            like(&given, &read);
        }
    }
}

/// No token is left on either side of what was taken out.
fn is_clean(text: &str) {
    let mut left = text.split(redact::REDACTED);
    assert!(!left.any(redact::holds_token), "{text:?}");
}

/// Nothing around a token hides it.
fn planted(bytes: &[u8], text: &str) {
    let [at, which] = [0, 1].map(|place| usize::from(bytes.get(place).copied().unwrap_or(0)));
    let token = TOKENS[which % TOKENS.len()];
    let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
    let (before, after) = text.split_at(at);
    let text = format!("{before} {token} {after}");
    // Within a longer word it is no token, so the text may have had some that stay.
    let gone = |given: &str, clean: &str| {
        let [before, after] = [given, clean].map(|text| text.matches(token).count());
        assert!(after < before, "{clean:?}");
    };
    gone(&text, &redact::text(&text));
    gone(&text, &redact::said(&text));
    let json = Value::from(text.as_str()).to_string();
    gone(&json, &redact::json(&json));
    gone(&json, &redact::said_json(&json));
}

/// The same structure, with nothing but strings changed.
fn like(given: &Value, clean: &Value) {
    match (given, clean) {
        (Value::String(_), Value::String(clean)) => is_clean(clean),
        (Value::Array(given), Value::Array(clean)) => {
            assert_eq!(given.len(), clean.len());
            given
                .iter()
                .zip(clean)
                .for_each(|(given, clean)| like(given, clean));
        }
        (Value::Object(given), Value::Object(clean)) => {
            assert!(given.keys().eq(clean.keys()));
            given
                .values()
                .zip(clean.values())
                .for_each(|(given, clean)| like(given, clean));
        }
        _ => assert_eq!(given, clean),
    }
}
