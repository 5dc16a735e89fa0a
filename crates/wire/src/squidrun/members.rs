//! A JSON object whose members keep their order, and their values their bytes.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use crate::Json;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Members(Vec<(String, Json)>);

impl Members {
    /// The members of an object; none of anything else.
    pub(super) fn of(json: &Json) -> Members {
        json.read().unwrap_or_default()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Json> {
        let found = self.0.iter().find(|(member, _)| member == name);
        found.map(|(_, value)| value)
    }

    /// Puts a member in its place, or at the end.
    pub(super) fn set(&mut self, name: &str, value: impl Into<Json>) {
        let value = value.into();
        match self.0.iter_mut().find(|(member, _)| member == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    pub(super) fn mark(&mut self, name: &str) {
        self.set(name, Value::Bool(true));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(member, _)| member != name);
    }

    /// The object, unless it is empty.
    pub(super) fn json(&self) -> Option<Json> {
        let there = !self.0.is_empty();
        there.then(|| Json::of(self).expect("its members are JSON"))
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// JSON without the spaces between its values.
pub(super) fn compact(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let mut keep = |letter: &char| {
        match letter {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => return in_string || !letter.is_ascii_whitespace(),
        }
        true
    };
    json.chars().filter(|letter| keep(letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_their_bytes() {
        let text = r#"{"z": 1.50,"a":{"y" : [1, 2]},"m":"\u00e9"}"#;
        let mut members = Members::of(&Json::stored(text));
        let printed = |members: &Members| members.json().map(|json| json.get().to_owned());
        let same = r#"{"z":1.50,"a":{"y" : [1, 2]},"m":"\u00e9"}"#;
        assert_eq!(printed(&members).as_deref(), Some(same));
        members.set("a", Value::from(2));
        members.mark("new");
        members.remove("m");
        let changed = r#"{"z":1.50,"a":2,"new":true}"#;
        assert_eq!(printed(&members).as_deref(), Some(changed));
        for nothing in ["{}", "null", "[1]", "\"x\""] {
            assert_eq!(printed(&Members::of(&Json::stored(nothing))), None);
        }
    }

    #[test]
    fn only_spaces_between_values_are_left_out() {
        let text = "{ \"a b\" : [ 1 ,\n2 ] , \"c\\\" d\\\\\" : \" x \" }";
        assert_eq!(compact(text), r#"{"a b":[1,2],"c\" d\\":" x "}"#);
    }
}
