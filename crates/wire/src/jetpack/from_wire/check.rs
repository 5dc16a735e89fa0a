//! Ranges and lengths, each told with the field that broke it.

use std::time::Duration;

use switchboard_core::{AgentId, MessageId, TaskId, limits};

use crate::Malformed;

/// An id: not empty, not too long, printable.
pub(crate) fn id<'a>(field: &str, text: &'a str) -> Result<&'a str, Malformed> {
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
    Ok(text)
}

pub fn agent_id(field: &str, text: &str) -> Result<AgentId, Malformed> {
    id(field, text).map(AgentId::from)
}

pub fn task_id(field: &str, text: &str) -> Result<TaskId, Malformed> {
    id(field, text).map(TaskId::from)
}

pub fn message_id(field: &str, text: &str) -> Result<MessageId, Malformed> {
    id(field, text).map(MessageId::from)
}

/// The id in the path, in the body, or the same in both.
pub(super) fn path_or_body<'a>(
    field: &str,
    path: Option<&'a str>,
    body: Option<&'a str>,
) -> Result<&'a str, Malformed> {
    match (path, body) {
        (Some(path), Some(body)) if path != body => {
            Err(Malformed::field(field, "differs from the one in the path"))
        }
        (Some(named), _) | (None, Some(named)) => id(field, named),
        (None, None) => Err(Malformed::missing(field)),
    }
}

/// A text of at most so many bytes.
pub(crate) fn text(field: &str, text: &str, max: usize) -> Result<(), Malformed> {
    if text.len() > max {
        return Err(Malformed::field(
            field,
            format!("is longer than {max} bytes"),
        ));
    }
    Ok(())
}

/// A text that is not empty either.
pub(crate) fn filled(field: &str, given: &str, max: usize) -> Result<(), Malformed> {
    if given.trim().is_empty() {
        return Err(Malformed::field(field, "must not be empty"));
    }
    text(field, given, max)
}

/// A text that may be absent.
pub(crate) fn maybe_text(field: &str, given: Option<&String>, max: usize) -> Result<(), Malformed> {
    given.map_or(Ok(()), |given| text(field, given, max))
}

/// A list of at most so many items, each of which is checked under its own place.
pub(crate) fn each<T, R>(
    field: &str,
    items: &[T],
    max: usize,
    check: impl Fn(&str, &T) -> Result<R, Malformed>,
) -> Result<Vec<R>, Malformed> {
    if items.len() > max {
        return Err(Malformed::field(
            field,
            format!("has more than {max} items"),
        ));
    }
    items
        .iter()
        .enumerate()
        .map(|(index, item)| check(&format!("{field}[{index}]"), item))
        .collect()
}

/// Names of files: bounded, and otherwise taken as they are.
pub(super) fn files(field: &str, files: &[String]) -> Result<(), Malformed> {
    if files.len() > limits::FILES_MAX {
        return Err(Malformed::field(
            field,
            format!("has more than {} items", limits::FILES_MAX),
        ));
    }
    match files
        .iter()
        .position(|file| file.len() > limits::PATH_BYTES_MAX)
    {
        Some(index) => {
            let message = format!("is longer than {} bytes", limits::PATH_BYTES_MAX);
            Err(Malformed::field(format!("{field}[{index}]"), message))
        }
        None => Ok(()),
    }
}

/// Skills: bounded, and without control characters, which stand between the skills of a lane.
pub(crate) fn skills(
    field: &str,
    skills: &[String],
) -> Result<switchboard_core::Skills, Malformed> {
    each(field, skills, limits::SKILLS_MAX, |place, given| {
        skill(place, given)
    })?;
    Ok(switchboard_core::Skills::new(skills))
}

pub(super) fn skill(field: &str, given: &str) -> Result<String, Malformed> {
    filled(field, given, limits::SKILL_BYTES_MAX)?;
    if given.chars().any(char::is_control) {
        return Err(Malformed::field(field, "must not have control characters"));
    }
    Ok(given.to_owned())
}

/// 0 to 100, rounded to a whole number.
pub(super) fn percent(field: &str, value: f64) -> Result<u8, Malformed> {
    if !(0.0..=100.0).contains(&value) {
        return Err(Malformed::field(field, "must be from 0 to 100"));
    }
    Ok(value.round() as u8)
}

pub(super) fn at_most(field: &str, value: u32, max: u32) -> Result<u32, Malformed> {
    if value > max {
        return Err(Malformed::field(field, format!("must be at most {max}")));
    }
    Ok(value)
}

/// A span in milliseconds, above zero.
pub(super) fn span(field: &str, millis: i64) -> Result<Duration, Malformed> {
    match u64::try_from(millis) {
        Ok(millis) if millis > 0 => Ok(Duration::from_millis(millis)),
        Ok(_) | Err(_) => Err(Malformed::field(field, "must be above 0")),
    }
}

/// How long a call may wait; absent means not at all.
pub fn wait_for(seconds: Option<u32>) -> Result<Duration, Malformed> {
    let wait = Duration::from_secs(seconds.unwrap_or(0).into());
    if wait > limits::WAIT_MAX {
        let message = format!("must be at most {} seconds", limits::WAIT_MAX.as_secs());
        return Err(Malformed::field("wait", message));
    }
    Ok(wait)
}

/// What may be left out.
pub fn maybe<T>(
    field: &str,
    text: Option<String>,
    read: impl Fn(&str, &str) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    text.map(|text| read(field, &text)).transpose()
}

/// The size of a page.
pub fn page_size(limit: Option<u32>) -> Result<usize, Malformed> {
    match limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)) {
        None => Ok(limits::PAGE_DEFAULT),
        Some(limit) if (1..=limits::PAGE_MAX).contains(&limit) => Ok(limit),
        Some(_) => Err(Malformed::field(
            "limit",
            format!("must be from 1 to {}", limits::PAGE_MAX),
        )),
    }
}

/// An idempotency key, from the header or from `requestId`.
pub fn idempotency_key<'a>(field: &str, key: &'a str) -> Result<&'a str, Malformed> {
    let fits = (1..=limits::IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len());
    if !fits || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let max = limits::IDEMPOTENCY_KEY_BYTES_MAX;
        return Err(Malformed::field(
            field,
            format!("must be 1 to {max} visible ASCII characters"),
        ));
    }
    Ok(key)
}
