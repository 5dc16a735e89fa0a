//! A value of SQLite as JSON: integers are text, because JavaScript's numbers do not hold them.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::base64;

/// One argument, or one cell of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Value {
    Null,
    Integer {
        #[serde(with = "decimal")]
        #[schemars(with = "String", regex(pattern = r"^[+-]?[0-9]{1,19}$"))]
        value: i64,
    },
    Float {
        #[serde(serialize_with = "float")]
        value: f64,
    },
    Text {
        value: String,
    },
    Blob {
        #[serde(rename = "base64", with = "blob")]
        #[schemars(
            with = "String",
            regex(pattern = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?$")
        )]
        bytes: Vec<u8>,
    },
}

/// JSON has no word for infinity, but a number that no double can hold is read as it everywhere.
fn float<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() {
        return serializer.serialize_f64(*value);
    }
    let text = if *value < 0.0 { "-1e999" } else { "1e999" };
    RawValue::from_string(text.to_owned())
        .map_err(S::Error::custom)?
        .serialize(serializer)
}

mod decimal {
    use super::*;

    pub fn serialize<S: Serializer>(value: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|_| D::Error::custom("an integer of 64 bits, as text"))
    }
}

mod blob {
    use super::*;

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64::encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        base64::decode(&text).ok_or_else(|| D::Error::custom("a blob must be Base64"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_as_they_are_read() {
        for (value, text) in [
            (Value::Null, json!({ "type": "null" })),
            (
                Value::Integer { value: i64::MIN },
                json!({ "type": "integer", "value": "-9223372036854775808" }),
            ),
            (
                Value::Float { value: 0.5 },
                json!({ "type": "float", "value": 0.5 }),
            ),
            (
                Value::Text { value: "ü".into() },
                json!({ "type": "text", "value": "ü" }),
            ),
            (
                Value::Blob { bytes: vec![1] },
                json!({ "type": "blob", "base64": "AQ" }),
            ),
        ] {
            assert_eq!(serde_json::to_value(&value).unwrap(), text);
            assert_eq!(serde_json::from_value::<Value>(text).unwrap(), value);
        }
        let whole: Value = serde_json::from_str(r#"{"type":"float","value":3}"#).unwrap();
        assert_eq!(whole, Value::Float { value: 3.0 });
    }

    #[test]
    fn infinity_is_a_number_that_every_reader_takes_for_it() {
        for (value, text) in [(f64::INFINITY, "1e999"), (f64::NEG_INFINITY, "-1e999")] {
            let printed = serde_json::to_string(&Value::Float { value }).unwrap();
            assert_eq!(printed, format!(r#"{{"type":"float","value":{text}}}"#));
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in [
            r#"{"type":"integer","value":1}"#,
            r#"{"type":"integer","value":"9223372036854775808"}"#,
            r#"{"type":"integer","value":""}"#,
            r#"{"type":"float","value":"1"}"#,
            r#"{"type":"blob","base64":"*"}"#,
            r#"{"type":"date","value":"x"}"#,
            r#"{}"#,
        ] {
            assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
        }
    }
}
