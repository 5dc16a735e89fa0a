//! Values of rows, on their way from one engine to another.

use std::fmt;

use serde_json::Value as Json;

use super::tables::Table;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// One value per column of its table.
pub(super) type Row = Vec<Value>;

/// Memory that a value takes beside what it holds.
const VALUE_BYTES: usize = size_of::<Value>();

impl Value {
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Null | Value::Real(_) | Value::Text(_) | Value::Bytes(_) => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Null | Value::Int(_) | Value::Real(_) | Value::Bytes(_) => None,
        }
    }

    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Null | Value::Int(_) | Value::Real(_) | Value::Text(_) => None,
        }
    }

    pub fn size(&self) -> usize {
        VALUE_BYTES
            + match self {
                Value::Null | Value::Int(_) | Value::Real(_) => 0,
                Value::Text(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
            }
    }
}

impl PartialEq for Value {
    /// What is no number equals itself here.
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Int(left), Value::Int(right)) => left == right,
            (Value::Real(left), Value::Real(right)) => {
                left == right || (left.is_nan() && right.is_nan())
            }
            (Value::Text(left), Value::Text(right)) => left == right,
            (Value::Bytes(left), Value::Bytes(right)) => left == right,
            (
                Value::Null | Value::Int(_) | Value::Real(_) | Value::Text(_) | Value::Bytes(_),
                _,
            ) => false,
        }
    }
}

/// Text of others is cut after so many characters.
const SHOWN_CHARS: usize = 60;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("nothing"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Real(number) => write!(f, "{number}"),
            Value::Text(text) => match text.char_indices().nth(SHOWN_CHARS) {
                None => write!(f, "{text:?}"),
                Some((end, _)) => write!(f, "{:?}… ({} bytes)", &text[..end], text.len()),
            },
            Value::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

/// The values that tell a row from the others of its table.
pub(super) fn key<'a>(table: &Table, row: &'a [Value]) -> &'a [Value] {
    &row[..table.keys.min(row.len())]
}

/// A key for a person: `number=7, agent="ann"`.
pub(super) fn show_key(table: &Table, key: &[Value]) -> String {
    let parts = table.key_names().zip(key);
    let parts: Vec<String> = parts
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    parts.join(", ")
}

/// A key as it is kept to go on from there.
pub(super) fn write_key(key: &[Value]) -> String {
    let parts = key.iter().map(|value| match value {
        Value::Int(number) => Json::from(*number),
        Value::Text(text) => Json::from(text.as_str()),
        Value::Null | Value::Real(_) | Value::Bytes(_) => Json::Null,
    });
    Json::Array(parts.collect()).to_string()
}

pub(super) fn read_key(text: &str) -> Option<Vec<Value>> {
    let parts: Vec<Json> = serde_json::from_str(text).ok()?;
    let parts = parts.into_iter().map(|part| match part {
        Json::Number(number) => number.as_i64().map(Value::Int),
        Json::String(text) => Some(Value::Text(text)),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let key = [
            Value::Int(i64::MAX),
            Value::Text("ä\0\u{1a}\"\\".to_owned()),
            Value::Int(-1),
        ];
        let written = write_key(&key);
        assert!(!written.contains('\0'));
        assert_eq!(read_key(&written).as_deref(), Some(&key[..]));
        assert_eq!(read_key("[null]"), None);
        assert_eq!(read_key("x"), None);
    }

    #[test]
    fn what_is_shown_is_short() {
        let long = "x".repeat(SHOWN_CHARS + 1);
        assert_eq!(Value::Text("x".repeat(60)).to_string().len(), 62);
        assert!(Value::Text(long).to_string().ends_with("… (61 bytes)"));
        assert_eq!(Value::Bytes(vec![7; 32]).to_string(), "32 bytes");
        assert_eq!(Value::Null.to_string(), "nothing");
    }

    #[test]
    fn values_of_different_kinds_differ_and_no_number_equals_itself() {
        assert_eq!(Value::Real(f64::NAN), Value::Real(f64::NAN));
        assert_ne!(Value::Real(0.5), Value::Real(f64::NAN));
        assert_ne!(Value::Int(0), Value::Real(0.0));
        assert_ne!(Value::Null, Value::Text(String::new()));
    }
}
