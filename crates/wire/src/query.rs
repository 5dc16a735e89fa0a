//! Query strings: typed parameters, read with the name of the one to blame, and printed by the client.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::Malformed;

/// The parameters of one list or lookup.
pub trait Query: Sized {
    /// What may be asked, for the OpenAPI document.
    const PARAMETERS: &'static [Parameter];

    /// Reads `a=1&b=x,y`; unknown names are tolerated.
    fn from_query(text: &str) -> Result<Self, Malformed>;

    /// Prints it again, without the leading `?`.
    fn to_query(&self) -> String;
}

/// One query parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: fn() -> Value,
}

/// One value in a query.
pub(crate) trait Scalar: Sized {
    fn read(text: &str) -> Result<Self, String>;
    fn write(&self) -> String;
    fn schema() -> Value;
}

/// A member of a query structure: optional, or a comma list.
pub(crate) trait Slot: Default {
    fn fill(&mut self, text: &str) -> Result<(), String>;
    fn print(&self) -> Option<String>;
    fn schema() -> Value;
}

impl<T: Scalar> Slot for Option<T> {
    fn fill(&mut self, text: &str) -> Result<(), String> {
        if self.is_some() {
            return Err("is given more than once".to_owned());
        }
        *self = Some(T::read(text)?);
        Ok(())
    }

    fn print(&self) -> Option<String> {
        self.as_ref().map(T::write)
    }

    fn schema() -> Value {
        T::schema()
    }
}

impl<T: Scalar> Slot for Vec<T> {
    fn fill(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',').map(str::trim) {
            if part.is_empty() {
                return Err("has an empty item".to_owned());
            }
            self.push(T::read(part)?);
        }
        Ok(())
    }

    fn print(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.iter().map(T::write).collect::<Vec<_>>().join(","))
    }

    fn schema() -> Value {
        json!({ "type": "array", "minItems": 1, "items": T::schema() })
    }
}

impl Scalar for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn write(&self) -> String {
        self.clone()
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl Scalar for bool {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("expected true or false".to_owned()),
        }
    }

    fn write(&self) -> String {
        self.to_string()
    }

    fn schema() -> Value {
        json!({ "type": "boolean" })
    }
}

macro_rules! whole_numbers {
    ($($number:ty),+) => {$(
        impl Scalar for $number {
            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("expected a whole number from 0 to {}", <$number>::MAX))
            }

            fn write(&self) -> String {
                self.to_string()
            }

            fn schema() -> Value {
                json!({ "type": "integer", "minimum": 0, "maximum": <$number>::MAX })
            }
        }
    )+};
}

whole_numbers!(u32, u64);

/// Declares a query structure from a table of its parameters.
macro_rules! query {
    ($(#[$meta:meta])* pub struct $name:ident { $($param:literal => $member:ident: $kind:ty, $about:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $(#[doc = $about] pub $member: $kind,)+ }

        impl $crate::Query for $name {
            const PARAMETERS: &'static [$crate::Parameter] = &[
                $($crate::Parameter { name: $param, about: $about, schema: <$kind as $crate::query::Slot>::schema }),+
            ];

            fn from_query(text: &str) -> Result<Self, $crate::Malformed> {
                let mut query = Self::default();
                for (name, value) in $crate::query::pairs(text)? {
                    let filled = match name.as_str() {
                        $($param => $crate::query::Slot::fill(&mut query.$member, &value),)+
                        _ => Ok(()),
                    };
                    filled.map_err(|message| $crate::Malformed::field(name, message))?;
                }
                Ok(query)
            }

            fn to_query(&self) -> String {
                let mut text = String::new();
                $($crate::query::append(&mut text, $param, $crate::query::Slot::print(&self.$member));)+
                text
            }
        }
    };
}

pub(crate) use query;

/// Splits and decodes a query string.
pub(crate) fn pairs(text: &str) -> Result<Vec<(String, String)>, Malformed> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decode(name), decode(value)) {
                (Some(name), Some(value)) => Ok((name, value)),
                (Some(name), None) if !name.is_empty() => {
                    Err(Malformed::field(name, "is not valid percent-encoded UTF-8"))
                }
                (Some(_) | None, _) => Err(Malformed::whole(
                    "the query is not valid percent-encoded UTF-8",
                )),
            }
        })
        .collect()
}

/// Adds `name=value` if there is a value.
pub(crate) fn append(text: &mut String, name: &str, value: Option<String>) {
    let Some(value) = value else { return };
    if !text.is_empty() {
        text.push('&');
    }
    text.push_str(name);
    text.push('=');
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b','
            | b'/'
            | b':' => {
                text.push(char::from(byte));
            }
            _ => write!(text, "%{byte:02X}").expect("a String takes any text"),
        }
    }
}

fn decode(text: &str) -> Option<String> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    query! {
        /// For the tests.
        pub struct Sample {
            "names" => names: Vec<String>, "Names.";
            "limit" => limit: Option<u32>, "Limit.";
            "all" => all: Option<bool>, "All.";
        }
    }

    #[test]
    fn what_is_printed_is_read_again() {
        let sample = Sample {
            names: vec!["a b".into(), "ü&=".into()],
            limit: Some(7),
            all: Some(false),
        };
        assert_eq!(
            sample.to_query(),
            "names=a%20b,%C3%BC%26%3D&limit=7&all=false"
        );
        assert_eq!(Sample::from_query(&sample.to_query()), Ok(sample));
    }

    #[test]
    fn the_parameter_to_blame_is_named() {
        for (text, field) in [
            ("limit=x", "limit"),
            ("limit=-1", "limit"),
            ("all=maybe", "all"),
            ("all", "all"),
            ("names=", "names"),
            ("names=a,,b", "names"),
            ("limit=1&limit=2", "limit"),
            ("names=%zz", "names"),
        ] {
            assert_eq!(
                Sample::from_query(text).expect_err(text).field.as_deref(),
                Some(field),
                "{text}"
            );
        }
        for text in ["=%zz", "%zz=1"] {
            let nameless = Sample::from_query(text).expect_err(text);
            assert_eq!(nameless.field, None, "{text}");
        }
        assert_eq!(
            Sample::from_query("unknown=1&&all=true"),
            Ok(Sample {
                all: Some(true),
                ..Sample::default()
            })
        );
    }
}
