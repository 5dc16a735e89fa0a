//! How instants and lists stand in text columns.

use std::borrow::Cow;

use switchboard_core::{Timestamp, iso};

/// `2026-01-19T10:00:00.000Z`: what direct clients write and compare as text.
pub(crate) struct Iso(iso::Printed);

impl Iso {
    pub fn new(at: Timestamp) -> Iso {
        Iso(iso::Printed::new(at))
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// A JSON array of strings.
pub(crate) fn list<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Cow<'static, str> {
    let mut items = items.into_iter().peekable();
    if items.peek().is_none() {
        return Cow::Borrowed("[]");
    }
    let mut text = String::from("[");
    for item in items {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&serde_json::Value::from(item.as_ref()).to_string());
    }
    text.push(']');
    Cow::Owned(text)
}

/// The strings of a JSON array; what is not one is left out, because direct clients write these too.
pub(crate) fn unlist(text: &str) -> Vec<String> {
    if text == "[]" {
        return Vec::new();
    }
    serde_json::from_str(text).unwrap_or_default()
}

/// FNV-1a: enough to notice an edited text.
pub(crate) fn checksum(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
