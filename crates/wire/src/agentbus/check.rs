//! Ranges and lengths of payloads, each told with the field that broke it.

use switchboard_core::limits;

use crate::Malformed;
use crate::redact;

/// Largest whole number that every JSON reader keeps exact.
pub const NUMBER_MAX: u64 = 1 << 53;
/// Longest span that a message may name, in seconds.
pub const SECONDS_MAX: u64 = 30 * 24 * 3600;

pub(super) type Checked = Result<(), Malformed>;

/// An id: not empty, not too long, printable.
pub(super) fn id(field: &str, text: &str) -> Checked {
    filled(field, text, limits::ID_BYTES_MAX)?;
    if text
        .chars()
        .any(|letter| letter.is_control() || letter.is_whitespace())
    {
        return Err(Malformed::field(
            field,
            "must not have spaces or control characters",
        ));
    }
    no_token(field, text)
}

/// What names something is passed on as it is, so it must not hold a secret.
fn no_token(field: &str, given: &str) -> Checked {
    match redact::holds_token(given) {
        false => Ok(()),
        true => Err(Malformed::field(
            field,
            "contains what looks like a token or a key; choose another value",
        )),
    }
}

pub(super) fn maybe_id(field: &str, text: Option<&str>) -> Checked {
    text.map_or(Ok(()), |text| id(field, text))
}

/// A text of at most so many bytes.
pub(super) fn text(field: &str, text: &str, max: usize) -> Checked {
    if text.len() > max {
        return Err(Malformed::field(
            field,
            format!("is longer than {max} bytes"),
        ));
    }
    Ok(())
}

pub(super) fn maybe_text(field: &str, given: Option<&str>, max: usize) -> Checked {
    given.map_or(Ok(()), |given| text(field, given, max))
}

/// A text that is not empty either.
pub(super) fn filled(field: &str, given: &str, max: usize) -> Checked {
    if given.trim().is_empty() {
        return Err(Malformed::field(field, "must not be empty"));
    }
    text(field, given, max)
}

/// A short word that goes into logs and labels: bounded and without control characters.
pub(super) fn word(field: &str, given: &str) -> Checked {
    text(field, given, limits::NAME_BYTES_MAX)?;
    if given.chars().any(char::is_control) {
        return Err(Malformed::field(field, "must not have control characters"));
    }
    no_token(field, given)
}

pub(super) fn maybe_word(field: &str, given: Option<&str>) -> Checked {
    given.map_or(Ok(()), |given| word(field, given))
}

/// A list of at most so many items, each of which is checked under its own place.
pub(super) fn each<T>(
    field: &str,
    items: &[T],
    max: usize,
    check: impl Fn(&str, &T) -> Checked,
) -> Checked {
    if items.len() > max {
        return Err(Malformed::field(
            field,
            format!("has more than {max} items"),
        ));
    }
    items
        .iter()
        .enumerate()
        .try_for_each(|(index, item)| check(&format!("{field}[{index}]"), item))
}

/// Names of files.
pub(super) fn files(field: &str, files: &[String]) -> Checked {
    each(field, files, limits::FILES_MAX, |place, file| {
        text(place, file, limits::PATH_BYTES_MAX)?;
        no_token(place, file)
    })
}

pub(super) fn number(field: &str, value: u64) -> Checked {
    at_most(field, value, NUMBER_MAX)
}

pub(super) fn seconds(field: &str, value: Option<u64>) -> Checked {
    value.map_or(Ok(()), |value| at_most(field, value, SECONDS_MAX))
}

pub(super) fn at_most(field: &str, value: u64, max: u64) -> Checked {
    if value > max {
        return Err(Malformed::field(field, format!("must be at most {max}")));
    }
    Ok(())
}

pub(super) fn percent(field: &str, value: f64) -> Checked {
    if !(0.0..=100.0).contains(&value) {
        return Err(Malformed::field(field, "must be from 0 to 100"));
    }
    Ok(())
}

/// A number of parts and which one this is, counted from 1.
pub(super) fn part(part: u32, parts: u32) -> Checked {
    if parts == 0 || part == 0 || part > parts {
        return Err(Malformed::field("part", "must be from 1 to parts"));
    }
    at_most("parts", parts.into(), super::parts::PARTS_MAX.into())
}
