//! Picks the few facts that scripts need out of the hub's answers, without parsing them.

use memchr::memmem;

/// A task that an agent holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub id: String,
    pub epoch: Option<u64>,
}

/// Finds the task in the answer to one claim, reusing the memory of the one before.
pub fn claimed_task(body: &[u8], held: &mut Held) -> Option<()> {
    next_task(body, held).map(|_| ())
}

/// Finds every task that a batch of claims brought.
pub fn claimed_tasks(mut body: &[u8], held: &mut Vec<Held>) {
    held.clear();
    loop {
        let mut task = Held::default();
        let Some(rest) = next_task(body, &mut task) else {
            return;
        };
        held.push(task);
        body = rest;
    }
}

/// How often a piece of text occurs.
pub fn count_of(body: &[u8], text: &str) -> u64 {
    memmem::find_iter(body, text).count() as u64
}

/// The text of the first field with this name.
pub fn text_of<'a>(body: &'a [u8], name: &str) -> Option<&'a str> {
    let value = after(body, &format!(r#""{name}":""#))?;
    let end = memchr::memchr(b'"', value)?;
    std::str::from_utf8(&value[..end]).ok()
}

fn next_task<'a>(body: &'a [u8], held: &mut Held) -> Option<&'a [u8]> {
    let task = after(body, r#""task":{"#)?;
    let id = after(task, r#""id":""#)?;
    let end = memchr::memchr(b'"', id)?;
    held.id.clear();
    held.id.push_str(std::str::from_utf8(&id[..end]).ok()?);
    let rest = &id[end..];
    // The epoch may stand anywhere in this task, but not in the next one.
    let this_task = &rest[..memmem::find(rest, br#""task":{"#).unwrap_or(rest.len())];
    held.epoch = after(this_task, r#""epoch":"#).and_then(number);
    Some(rest)
}

fn after<'a>(body: &'a [u8], text: &str) -> Option<&'a [u8]> {
    memmem::find(body, text.as_bytes()).map(|at| &body[at + text.len()..])
}

fn number(body: &[u8]) -> Option<u64> {
    let end = body.iter().position(|byte| !byte.is_ascii_digit());
    let digits = &body[..end.unwrap_or(body.len())];
    std::str::from_utf8(digits).ok()?.parse().ok()
}
