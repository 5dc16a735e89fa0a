//! A JSON value that nobody here looks into: kept and printed byte for byte.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Any JSON value, verbatim.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The text as it came.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Takes text that must be one JSON value.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// Prints a value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// Takes text that was stored; what is no JSON, because someone wrote it by hand, becomes a string.
    pub fn stored(text: &str) -> Self {
        RawValue::from_string(text.to_owned())
            .map_or_else(|_| serde_json::Value::from(text).into(), Self)
    }

    /// True for `null`.
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }

    /// Reads it as a type of the caller's choice.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }
}

impl Default for Json {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self(RawValue::from_string(value.to_string()).expect("a printed value is JSON"))
    }
}

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}
