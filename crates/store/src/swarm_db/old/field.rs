//! One field of an old row, whichever form some version of Jetpack's tools wrote it in.
//!
//! A field that is absent, `NULL` or empty is nothing; one that makes no sense is a reason to leave the row out.

use std::collections::HashMap;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use switchboard_core::{Timestamp, iso, limits};

/// The fields of one row, by name. Columns that this file does not have are nothing.
pub struct Fields<'a> {
    row: &'a Row<'a>,
    columns: &'a HashMap<String, usize>,
}

/// Why a row cannot come along.
pub type Reason = String;

/// Instants as numbers: from here on milliseconds, below seconds. As milliseconds it is in 1973, as seconds in 5138.
const MILLISECONDS_FROM: f64 = 100_000_000_000.0;
/// What makes no sense is shown up to this many characters.
const SHOWN_MAX: usize = 60;

impl<'a> Fields<'a> {
    pub fn new(row: &'a Row<'a>, columns: &'a HashMap<String, usize>) -> Self {
        Fields { row, columns }
    }

    fn value(&self, name: &str) -> ValueRef<'a> {
        let column = self.columns.get(name);
        column
            .and_then(|column| self.row.get_ref(*column).ok())
            .unwrap_or(ValueRef::Null)
    }

    /// Text of at most so many bytes.
    pub fn text(&self, name: &str, max: usize) -> Result<Option<String>, Reason> {
        let text = match self.value(name) {
            ValueRef::Null => return Ok(None),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => number.to_string(),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) if bytes.len() > max => {
                return Err(format!("{name} is longer than {max} bytes"));
            }
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.replace('\0', ""),
                Err(_) => return Err(format!("{name} is not text")),
            },
        };
        Ok((!text.is_empty()).then_some(text))
    }

    /// The beginning of a text that may be long.
    pub fn start(&self, name: &str, max: usize) -> Result<Option<String>, Reason> {
        let text = self.text(name, usize::MAX)?;
        Ok(text.map(|mut text| {
            text.truncate(text.floor_char_boundary(max));
            text
        }))
    }

    /// An id, as the hub takes it from anyone.
    pub fn id(&self, name: &str) -> Result<Option<String>, Reason> {
        let id = self.text(name, limits::ID_BYTES_MAX)?;
        match id {
            Some(id) if is_id(&id) => Ok(Some(id)),
            Some(_) => Err(format!("{name} has spaces or control characters")),
            None => Ok(None),
        }
    }

    pub fn own_id(&self) -> Result<String, Reason> {
        self.id("id")?.ok_or_else(|| "it has no id".to_owned())
    }

    /// How a row that makes no sense is called.
    pub fn shown(&self, name: &str) -> String {
        match self.value(name) {
            ValueRef::Null => "without an id".to_owned(),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => number.to_string(),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                let end = bytes.len().min(4 * SHOWN_MAX);
                shown(&String::from_utf8_lossy(&bytes[..end]))
            }
        }
    }

    /// One of some words, in any case.
    pub fn word<T>(&self, name: &str, parse: fn(&str) -> Option<T>) -> Result<Option<T>, Reason> {
        let Some(text) = self.text(name, limits::NAME_BYTES_MAX)? else {
            return Ok(None);
        };
        match parse(&text.trim().to_ascii_lowercase()) {
            Some(word) => Ok(Some(word)),
            None => Err(format!("{name} {:?} is unknown", shown(&text))),
        }
    }

    /// Text in either form that these files have, or a number of seconds or milliseconds.
    pub fn instant(&self, name: &str) -> Result<Option<Timestamp>, Reason> {
        // A column of text keeps a number as its digits.
        let Some(text) = self.text(name, limits::NAME_BYTES_MAX)? else {
            return Ok(None);
        };
        if let Ok(number) = text.trim().parse::<f64>() {
            return Ok(Some(from_number(number)));
        }
        let wrong = || format!("{name} {:?} is not a time", shown(&text));
        iso::parse(text.trim()).map(Some).ok_or_else(wrong)
    }

    /// A JSON array of texts.
    pub fn list(&self, name: &str, most: usize, each_max: usize) -> Result<Vec<String>, Reason> {
        let text_max = most.saturating_mul(each_max.saturating_mul(6).saturating_add(4));
        let Some(text) = self.text(name, text_max)? else {
            return Ok(Vec::new());
        };
        let wrong = || format!("{name} {:?} is not a JSON array of texts", shown(&text));
        let items: Vec<serde_json::Value> = serde_json::from_str(&text).map_err(|_| wrong())?;
        if items.len() > most {
            return Err(format!("{name} has more than {most} items"));
        }
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let item = match item {
                serde_json::Value::String(text) => text,
                serde_json::Value::Number(number) => number.to_string(),
                serde_json::Value::Null
                | serde_json::Value::Bool(_)
                | serde_json::Value::Array(_)
                | serde_json::Value::Object(_) => return Err(wrong()),
            };
            if item.len() > each_max || item.chars().any(char::is_control) {
                return Err(format!(
                    "{name} has {:?}, which is too long or not printable",
                    shown(&item)
                ));
            }
            if !item.is_empty() && !list.contains(&item) {
                list.push(item);
            }
        }
        Ok(list)
    }

    /// A JSON array of ids.
    pub fn ids(&self, name: &str, most: usize) -> Result<Vec<String>, Reason> {
        let list = self.list(name, most, limits::ID_BYTES_MAX)?;
        match list.iter().find(|id| !is_id(id)) {
            None => Ok(list),
            Some(id) => Err(format!(
                "{name} has {:?}, which is not a valid id",
                shown(id)
            )),
        }
    }

    /// JSON as text, whichever value.
    pub fn json(&self, name: &str, max: usize) -> Result<Option<String>, Reason> {
        let text = self.text(name, max)?;
        // Plain text is told as a JSON text.
        Ok(text.map(
            |text| match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(_) => text,
                Err(_) => serde_json::Value::from(text).to_string(),
            },
        ))
    }

    /// A whole number, at least 0.
    pub fn count(&self, name: &str) -> Result<Option<u64>, Reason> {
        let number = match self.value(name) {
            ValueRef::Null => return Ok(None),
            ValueRef::Integer(number) => number,
            #[allow(clippy::cast_possible_truncation)]
            ValueRef::Real(number) => number.round() as i64,
            ValueRef::Text(_) | ValueRef::Blob(_) => {
                let Some(text) = self.text(name, limits::NAME_BYTES_MAX)? else {
                    return Ok(None);
                };
                let wrong = || format!("{name} {:?} is not a number", shown(&text));
                text.trim().parse().map_err(|_| wrong())?
            }
        };
        let wrong = || format!("{name} is {number}, which is below 0");
        u64::try_from(number).map(Some).map_err(|_| wrong())
    }

    /// A whole number up to a bound, and what is above it is taken as the bound.
    pub fn count_to(&self, name: &str, max: u32) -> Result<Option<u32>, Reason> {
        let fit = |count: u64| u32::try_from(count).map_or(max, |count| count.min(max));
        Ok(self.count(name)?.map(fit))
    }

    pub fn yes(&self, name: &str) -> Result<Option<bool>, Reason> {
        let text = self.text(name, limits::NAME_BYTES_MAX)?;
        let Some(text) = text else {
            return Ok(None);
        };
        match text.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" => Ok(Some(true)),
            "0" | "false" | "no" => Ok(Some(false)),
            _ => Err(format!("{name} {:?} is neither 0 nor 1", shown(&text))),
        }
    }

    pub fn real(&self, name: &str) -> Result<Option<f64>, Reason> {
        let number = match self.value(name) {
            ValueRef::Null => return Ok(None),
            #[allow(clippy::cast_precision_loss)]
            ValueRef::Integer(number) => number as f64,
            ValueRef::Real(number) => number,
            ValueRef::Text(_) | ValueRef::Blob(_) => {
                let Some(text) = self.text(name, limits::NAME_BYTES_MAX)? else {
                    return Ok(None);
                };
                let wrong = || format!("{name} {:?} is not a number", shown(&text));
                text.trim().parse().map_err(|_| wrong())?
            }
        };
        if number.is_finite() {
            Ok(Some(number))
        } else {
            Err(format!("{name} is not a number"))
        }
    }
}

fn is_id(text: &str) -> bool {
    !text.is_empty()
        && !text
            .chars()
            .any(|letter| letter.is_control() || letter.is_whitespace())
}

/// Beyond the years that can be printed, the first or the last of them.
#[allow(clippy::cast_possible_truncation)]
fn from_number(number: f64) -> Timestamp {
    let ms = if number.abs() < MILLISECONDS_FROM {
        number * 1000.0
    } else {
        number
    };
    Timestamp((ms as i64).clamp(0, iso::LATEST_MS))
}

/// Short and printable.
fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(SHOWN_MAX)
        .collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `read` makes of a value that stands in the column `x`.
    fn of<T>(
        value: impl rusqlite::ToSql,
        read: impl Fn(&Fields<'_>) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        let columns = HashMap::from([("x".to_owned(), 0)]);
        db.query_row("SELECT ?1", [value], |row| {
            Ok(read(&Fields::new(row, &columns)))
        })
        .unwrap()
    }

    #[test]
    fn instants_are_read_in_every_form_that_tools_write() {
        let at = |value: &dyn rusqlite::ToSql| of(value, |fields| fields.instant("x"));
        let ten = Some(Timestamp(1_767_261_600_000));
        for value in [
            "2026-01-01T10:00:00.000Z",
            "2026-01-01 10:00:00",
            "2026-01-01T12:00:00+02:00",
            "1767261600",
            " 1767261600000 ",
        ] {
            assert_eq!(at(&value), Ok(ten), "{value}");
        }
        assert_eq!(at(&1_767_261_600_i64), Ok(ten));
        assert_eq!(at(&1_767_261_600.0_f64), Ok(ten));
        assert_eq!(at(&i64::MAX), Ok(Some(Timestamp(iso::LATEST_MS))));
        assert_eq!(at(&i64::MIN), Ok(Some(Timestamp(0))));
        assert_eq!(at(&""), Ok(None));
        assert_eq!(at(&Option::<String>::None), Ok(None));
        assert_eq!(at(&"soon").unwrap_err(), "x \"soon\" is not a time");
    }

    #[test]
    fn lists_are_json_arrays_of_texts_within_their_bounds() {
        let list = |value: &str| of(value, |fields| fields.list("x", 3, 4));
        assert_eq!(list("[]"), Ok(vec![]));
        assert_eq!(list(""), Ok(vec![]));
        assert_eq!(
            list(r#"["a", 7, "a", ""]"#).unwrap_err(),
            "x has more than 3 items"
        );
        assert_eq!(
            list(r#"["a", 7, "a"]"#),
            Ok(vec!["a".to_owned(), "7".to_owned()])
        );
        assert_eq!(list(r#"["abcd"]"#), Ok(vec!["abcd".to_owned()]));
        for wrong in [
            r#"["abcde"]"#,
            r#"["a\n"]"#,
            "{}",
            "a",
            r#"[["a"]]"#,
            "[true]",
        ] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn texts_are_taken_up_to_their_bound_and_ids_without_spaces() {
        let text = |value: &str| of(value, |fields| fields.text("x", 4));
        assert_eq!(text("abc"), Ok(Some("abc".to_owned())));
        assert_eq!(text("abcd"), Ok(Some("abcd".to_owned())));
        assert_eq!(text("abcde").unwrap_err(), "x is longer than 4 bytes");
        assert!(of(vec![0xff_u8], |fields| fields.text("x", 4)).is_err());
        assert_eq!(
            of(7, |fields| fields.text("x", 4)),
            Ok(Some("7".to_owned()))
        );
        let start = of("aäää", |fields| fields.start("x", 4));
        assert_eq!(start, Ok(Some("aä".to_owned())));
        let longest = "i".repeat(limits::ID_BYTES_MAX);
        assert!(of(&longest, |fields| fields.id("x")).is_ok());
        assert!(of(format!("{longest}i"), |fields| fields.id("x")).is_err());
        assert!(of("a b", |fields| fields.id("x")).is_err());
        assert_eq!(of("", |fields| fields.id("x")), Ok(None));
    }

    #[test]
    fn numbers_and_flags_come_as_numbers_or_texts() {
        let count = |value: &dyn rusqlite::ToSql| of(value, |fields| fields.count_to("x", 9));
        assert_eq!(count(&7), Ok(Some(7)));
        assert_eq!(count(&"8"), Ok(Some(8)));
        assert_eq!(count(&10), Ok(Some(9)));
        assert_eq!(count(&f64::INFINITY), Ok(Some(9)));
        assert!(count(&-1).is_err());
        assert!(count(&"many").is_err());
        let yes = |value: &dyn rusqlite::ToSql| of(value, |fields| fields.yes("x"));
        assert_eq!(yes(&1), Ok(Some(true)));
        assert_eq!(yes(&"FALSE"), Ok(Some(false)));
        assert!(yes(&2).is_err());
        assert_eq!(of("1.5", |fields| fields.real("x")), Ok(Some(1.5)));
        assert!(of(f64::INFINITY, |fields| fields.real("x")).is_err());
    }

    #[test]
    fn json_is_kept_and_other_text_becomes_json() {
        let json = |value: &str| of(value, |fields| fields.json("x", 100));
        assert_eq!(json("{\"a\":1}"), Ok(Some("{\"a\":1}".to_owned())));
        assert_eq!(json("done"), Ok(Some("\"done\"".to_owned())));
        assert_eq!(json(""), Ok(None));
    }
}
