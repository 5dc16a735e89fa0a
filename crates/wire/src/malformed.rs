//! Bytes that are not the message they should be, told with the field to blame.

use serde::Deserialize;
use serde_path_to_error::{Path, Segment};

use crate::object::Object;

/// What is wrong with a message, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", self.place())]
pub struct Malformed {
    /// Path of the member to blame, such as `agent.capabilities.skills[2]`.
    pub field: Option<String>,
    /// What was expected there, for a person.
    pub message: String,
}

impl Malformed {
    /// Blames one member.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            message: message.into(),
        }
    }

    /// Blames the message as a whole.
    pub fn whole(message: impl Into<String>) -> Self {
        Self {
            field: None,
            message: message.into(),
        }
    }

    /// A member that has to be there is not.
    pub fn missing(field: impl Into<String>) -> Self {
        Self::field(field, "is required")
    }

    fn place(&self) -> String {
        self.field
            .as_ref()
            .map(|field| format!("{field}: "))
            .unwrap_or_default()
    }
}

/// Reads one JSON message; an empty body counts as `{}`.
///
/// The plain parser goes first. Only a message that it refuses is read again by the slower one that knows where it is.
pub fn parse<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Malformed> {
    let bytes = if bytes.trim_ascii().is_empty() {
        b"{}"
    } else {
        bytes
    };
    if too_deep(bytes) {
        return Err(Malformed::whole(TOO_DEEP));
    }
    match serde_json::from_slice::<Object<T>>(bytes) {
        Ok(Object(message)) => Ok(message),
        Err(plain) => Err(locate::<T>(bytes, &plain)),
    }
}

/// As deep as serde_json goes; what it skips or keeps verbatim is held to the same.
const DEPTH_MAX: usize = 127;
pub(crate) const TOO_DEEP: &str = "the JSON is nested too deeply (at most 127 levels)";

pub(crate) fn too_deep(bytes: &[u8]) -> bool {
    // Few messages have that many brackets at all, and counting them is nearly free.
    let brackets = bytes.iter().filter(|byte| **byte | 0x20 == b'{').count();
    brackets > DEPTH_MAX && depth(bytes) > DEPTH_MAX
}

fn depth(bytes: &[u8]) -> usize {
    let (mut deepest, mut now) = (0, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' if !in_string => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn locate<'de, T: Deserialize<'de>>(bytes: &'de [u8], plain: &serde_json::Error) -> Malformed {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, Object<T>>(&mut reader) {
        Err(error) => explain(error.path(), error.inner()),
        // The value itself is fine, so what follows it is not.
        Ok(_) => Malformed::whole(syntax(plain)),
    }
}

fn explain(path: &Path, error: &serde_json::Error) -> Malformed {
    if !error.is_data() {
        return Malformed::whole(syntax(error));
    }
    let said = error.to_string();
    let place = print_path(path);
    if let Some(member) = missing(&said) {
        return Malformed::missing(if place.is_empty() {
            member.to_owned()
        } else {
            format!("{place}.{member}")
        });
    }
    let message = in_words(&said);
    if place.is_empty() {
        Malformed::whole(message)
    } else {
        Malformed::field(place, message)
    }
}

/// What the parser says, in the words of JSON instead of a program's, and without its position.
pub fn in_words(said: &str) -> String {
    let said = strip_position(said);
    if let Some(member) = missing(said) {
        return format!("{member} is required");
    }
    let wrong = said
        .strip_prefix("invalid type: ")
        .or_else(|| said.strip_prefix("invalid value: "));
    if let Some((found, expected)) = wrong.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("expected {}, not {}", wanted(expected), got(found));
    }
    if let Some((word, known)) = said
        .strip_prefix("unknown variant `")
        .and_then(|rest| rest.rsplit_once("`, expected "))
    {
        return format!("expected {}, not {}", known.replace('`', ""), shown(word));
    }
    if said.starts_with("data did not match any variant of") {
        return "has none of the forms that are allowed here".to_owned();
    }
    said.to_owned()
}

/// The member that is not there, if that is what is wrong.
fn missing(said: &str) -> Option<&str> {
    let rest = strip_position(said).strip_prefix("missing field `")?;
    rest.strip_suffix('`')
}

/// What a program calls a type, as a person does.
fn wanted(expected: &str) -> &str {
    if let Some((_, words)) = TYPES.iter().find(|(name, _)| *name == expected) {
        return words;
    }
    let begins = |names: &[&str]| names.iter().any(|name| expected.starts_with(name));
    match expected {
        _ if begins(&["struct ", "internally tagged", "adjacently tagged", "enum "]) => "an object",
        _ if begins(&["tuple ", "a tuple "]) => "a list",
        known => known,
    }
}

/// What is there instead.
fn got(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit value" | "Option value" => "null".to_owned(),
        _ => {
            if let Some(text) = found.strip_prefix("string \"") {
                return shown(text.strip_suffix('"').unwrap_or(text));
            }
            let Some((kind, value)) = found.split_once('`') else {
                return found.to_owned();
            };
            // For who sends 2.0 where a whole number is meant, the digits alone would tell nothing.
            let the = if kind == "floating point " {
                "the decimal "
            } else {
                ""
            };
            format!("{the}{}", value.replace('`', ""))
        }
    }
}

/// A text that was sent, as far as it helps to see it.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("\"{}…\"", &text[..end]),
        None => format!("\"{text}\""),
    }
}

const SHOWN_CHARS_MAX: usize = 60;

const TYPES: &[(&str, &str)] = &[
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number, 0 or more"),
    ("u64", "a whole number, 0 or more"),
    ("usize", "a whole number, 0 or more"),
    ("i32", "a whole number"),
    ("i64", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
    ("a sequence", "a list"),
    ("a map", "an object"),
    ("a boolean", "true or false"),
    ("a borrowed string", "a string"),
    ("unit", "null"),
    ("option", "a value or null"),
];

fn syntax(error: &serde_json::Error) -> String {
    let message = error.to_string();
    if message.starts_with("recursion limit exceeded") {
        return TOO_DEEP.to_owned();
    }
    format!("not valid JSON: {message}")
}

/// Positions are for syntax errors; a data error names its field instead.
fn strip_position(message: &str) -> &str {
    message
        .rfind(" at line ")
        .map_or(message, |at| &message[..at])
}

fn print_path(path: &Path) -> String {
    let mut text = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("[{index}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Segment::Unknown => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Outer {
        inner: Inner,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Inner {
        list: Vec<String>,
        count: u32,
    }

    fn blame(text: &str) -> (Option<String>, String) {
        let malformed = parse::<Outer>(text.as_bytes()).expect_err(text);
        (malformed.field, malformed.message)
    }

    #[test]
    fn the_field_is_named_by_its_path() {
        let cases = [
            (
                r#"{"inner":{"list":["a",1],"count":1}}"#,
                "inner.list[1]",
                "expected a string",
            ),
            (
                r#"{"inner":{"list":[],"count":"x"}}"#,
                "inner.count",
                "expected a whole number, 0 or more",
            ),
            (r#"{"inner":{"list":[]}}"#, "inner.count", "is required"),
            (r#"{}"#, "inner", "is required"),
            ("", "inner", "is required"),
            ("  \n", "inner", "is required"),
        ];
        for (text, field, message) in cases {
            let (blamed, said) = blame(text);
            assert_eq!(blamed.as_deref(), Some(field), "{text}");
            assert!(said.contains(message), "{text}: {said}");
            assert!(!said.contains("line"), "{text}: {said}");
        }
    }

    #[test]
    fn no_word_of_a_program_is_in_what_a_person_reads() {
        let long = "x".repeat(1000);
        for (said, told) in [
            (
                "invalid type: string \"x\", expected struct Raw at line 1 column 3",
                "expected an object, not \"x\"",
            ),
            (
                "invalid type: floating point `1.5`, expected u64",
                "expected a whole number, 0 or more, not the decimal 1.5",
            ),
            (
                "invalid value: integer `-1`, expected u8",
                "expected a whole number from 0 to 255, not -1",
            ),
            (
                "invalid type: sequence, expected internally tagged enum Step",
                "expected an object, not a list",
            ),
            (
                "invalid type: map, expected a sequence",
                "expected a list, not an object",
            ),
            (
                "invalid type: null, expected a string",
                "expected a string, not null",
            ),
            (
                "invalid type: boolean `true`, expected f64",
                "expected a number, not true",
            ),
            (
                "unknown variant `urgent`, expected one of `high`, `low`",
                "expected one of high, low, not \"urgent\"",
            ),
            (
                "data did not match any variant of untagged enum To",
                "has none of the forms that are allowed here",
            ),
            (
                "missing field `title` at line 1 column 2",
                "title is required",
            ),
            ("its own words", "its own words"),
        ] {
            assert_eq!(in_words(said), told);
        }
        let cut = in_words(&format!("invalid type: string \"{long}\", expected u8"));
        assert!(cut.len() < 200, "{cut}");
    }

    #[test]
    fn garbage_depth_and_trailing_bytes_are_told_apart() {
        let deep = format!("{{\"inner\":{}", "[".repeat(100_000));
        for (text, part) in [
            ("{", "not valid JSON"),
            ("\u{1}", "not valid JSON"),
            ("[1,2]", "expected"),
            (
                r#"{"inner":{"list":[],"count":1}} x"#,
                "trailing characters",
            ),
        ] {
            let (field, said) = blame(text);
            assert_eq!(field, None, "{text}");
            assert!(said.contains(part), "{text}: {said}");
        }
        let unread = format!(
            "{{\"inner\":{{\"list\":[],\"count\":1}},\"x\":{}",
            "[".repeat(100_000)
        );
        for text in [deep, unread] {
            assert!(parse::<Outer>(text.as_bytes()).is_err());
        }
        let nested = format!("{{\"inner\":{}{}}}", "[".repeat(200), "]".repeat(200));
        let said = parse::<serde_json::Value>(nested.as_bytes())
            .expect_err("too deep")
            .message;
        assert!(said.contains("too deeply"), "{said}");
    }

    #[test]
    fn depth_is_bounded_also_in_what_is_kept_verbatim() {
        #[derive(Deserialize)]
        struct Kept {
            kept: crate::Json,
        }

        for (levels, fits) in [
            (DEPTH_MAX - 2, true),
            (DEPTH_MAX - 1, true),
            (DEPTH_MAX, false),
        ] {
            let text = format!("{{\"kept\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
            let read = parse::<Kept>(text.as_bytes());
            assert_eq!(
                read.map(|kept| kept.kept.get().len()).is_ok(),
                fits,
                "{levels}"
            );
            assert_eq!(
                parse::<serde_json::Value>(text.as_bytes()).is_ok(),
                fits,
                "{levels}"
            );
        }
        let flat = format!(
            "{{\"kept\":[{}\"{}\\\"[\"]}}",
            "[],{},".repeat(100),
            "[".repeat(300)
        );
        assert!(parse::<Kept>(flat.as_bytes()).is_ok());
    }

    #[test]
    fn invalid_utf8_is_refused() {
        assert!(parse::<Outer>(b"{\"inner\":\"\xff\"}").is_err());
    }
}
