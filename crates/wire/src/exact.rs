//! A JSON value that every reader takes for the same, so that what is signed is what is read.
//!
//! Of two members of one name some readers take the first and some the last. Numbers are doubles to many, so that of two
//! neighbours beyond 2^53 they know only one.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::number::WHOLE_MAX;

/// Any value without members given twice, and without numbers beyond ±2^53.
pub(crate) struct Exact(pub(crate) Value);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ExactVisitor).map(Exact)
    }
}

struct ExactVisitor;

fn number<E: Error>(number: impl Into<Number>, fits: bool) -> Result<Value, E> {
    match fits {
        true => Ok(Value::Number(number.into())),
        false => Err(E::custom(
            "must not be beyond ±2^53 in a signed body; send it as text",
        )),
    }
}

impl<'de> Visitor<'de> for ExactVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        number(value, value <= WHOLE_MAX as u64)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        number(value, value.unsigned_abs() <= WHOLE_MAX as u64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let read = Number::from_f64(value).ok_or_else(|| E::custom("is not a number"))?;
        number(read, value.abs() <= WHOLE_MAX)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Exact(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let Exact(value) = members.next_value()?;
            if all.contains_key(&name) {
                return Err(A::Error::custom(format_args!(
                    "has the member {name:?} twice"
                )));
            }
            all.insert(name, value);
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse;

    fn blamed(text: &str) -> Option<(Option<String>, String)> {
        let read = parse::<Exact>(text.as_bytes());
        read.err().map(|wrong| (wrong.field, wrong.message))
    }

    #[test]
    fn a_member_that_is_given_twice_is_refused_wherever_it_stands() {
        for (text, field) in [
            (r#"{"a":1,"a":1}"#, None),
            (r#"{"a":1,"b":2,"\u0061":1}"#, None),
            (r#"{"a":{"b":[0,{"c":1,"c":2}]}}"#, Some("a.b[1]")),
        ] {
            let (found, message) = blamed(text).unwrap();
            assert_eq!(found.as_deref(), field, "{text}");
            assert!(message.contains("twice"), "{message}");
        }
        assert_eq!(blamed(r#"{"a":{"a":1},"b":[{"a":1},{"a":1}]}"#), None);
    }

    #[test]
    fn a_number_is_within_what_a_double_tells_apart() {
        for (number, fits) in [
            ("9007199254740991", true),
            ("9007199254740992", true),
            ("9007199254740993", false),
            ("-9007199254740992", true),
            ("-9007199254740993", false),
            ("18446744073709551615", false),
            ("123456789012345678901234567890", false),
            ("1e300", false),
            ("0.1", true),
            ("-1.5e-300", true),
        ] {
            let text = format!(r#"{{"a":{{"n":{number}}}}}"#);
            let field = blamed(&text).map(|(field, _)| field.unwrap());
            assert_eq!(field, (!fits).then(|| "a.n".to_owned()), "{number}");
        }
    }

    proptest! {
        #[test]
        fn what_it_takes_it_takes_as_anyone_would(text in ".{0,20}", n in -(1_i64 << 53)..=1 << 53, f in -1e15..1e15) {
            let value = serde_json::json!({ "t": text.clone(), "l": [n, f, null, true], "o": { text: n } });
            let Exact(read) = parse(value.to_string().as_bytes()).unwrap();
            prop_assert_eq!(read, value);
        }
    }
}
