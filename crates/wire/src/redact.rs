//! Secrets out of texts: what looks like a token, a key or a password becomes `[redacted]`.
//!
//! Used for everything of a payload that is stored, passed on or logged. What the swarm works with survives: git shas,
//! `sha256:` hashes, container ids, ULIDs, batch ids, paths. Texts *about* the work (errors, reasons, progress, memory) are
//! redacted in full. What agents say to each other, which may be code, loses tokens and keys, and a password only where it
//! is written out; a reference to one (`$TOKEN`, `os.environ["TOKEN"]`, a type) stays.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

mod kinds;
mod values;

use kinds::{option, password_in_url, private_key, random, token};
use values::{is_hidden, is_secret_name, name_before, value_from};

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// How much is taken for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Also what only looks random, and whatever stands behind the name of a secret.
    Full,
    /// What agents say to each other.
    Said,
    /// Nothing but tokens and keys.
    Tokens,
}

/// The text without its secrets.
pub fn text(given: &str) -> Cow<'_, str> {
    without(given, Mode::Full)
}

/// Takes the secrets out of a text.
pub fn clean(given: &mut String) {
    if let Cow::Owned(clean) = text(given) {
        *given = clean;
    }
}

/// What agents say to each other, without the secrets in it.
pub fn said(given: &str) -> Cow<'_, str> {
    without(given, Mode::Said)
}

/// The same within the strings of JSON text.
pub fn said_json(given: &str) -> Cow<'_, str> {
    json_in(given, Mode::Said)
}

/// JSON text without the secrets in its strings; unchanged, and not even read, where there seem to be none.
pub fn json(given: &str) -> Cow<'_, str> {
    json_in(given, Mode::Full)
}

/// Every string in a value, and whether any changed.
pub fn value(given: &mut Value) -> bool {
    value_in(given, Mode::Full)
}

/// Whether an identifier holds a token or a key.
pub fn holds_token(given: &str) -> bool {
    Scan::new(given, Mode::Tokens).next().is_some()
}

/// How many secrets were taken out of a text, here or before.
pub fn count(clean: &str) -> u32 {
    let found = memchr::memmem::find_iter(clean.as_bytes(), REDACTED).count();
    u32::try_from(found).unwrap_or(u32::MAX)
}

fn json_in(given: &str, mode: Mode) -> Cow<'_, str> {
    // Letters written as escapes would hide a secret from the scan; the strings themselves do not.
    let hidden = given.contains("\\u") || given.contains("\\/");
    if !hidden && Scan::escaped(given, mode).next().is_none() {
        return Cow::Borrowed(given);
    }
    let Ok(mut parsed) = serde_json::from_str::<Value>(given) else {
        return Cow::Owned(Value::from(without(given, mode)).to_string());
    };
    if value_in(&mut parsed, mode) {
        Cow::Owned(parsed.to_string())
    } else {
        Cow::Borrowed(given)
    }
}

fn value_in(given: &mut Value, mode: Mode) -> bool {
    match given {
        Value::String(string) => match without(string, mode) {
            Cow::Borrowed(_) => false,
            Cow::Owned(clean) => {
                *string = clean;
                true
            }
        },
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |changed, item| value_in(item, mode) | changed),
        Value::Object(members) => members.iter_mut().fold(false, |changed, (name, member)| {
            member_value(name, member, mode) | changed
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn member_value(name: &str, member: &mut Value, mode: Mode) -> bool {
    match member {
        Value::String(string) if is_secret_name(name) && is_hidden(string, true, mode) => {
            *string = REDACTED.to_owned();
            true
        }
        Value::String(_)
        | Value::Array(_)
        | Value::Object(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_) => value_in(member, mode),
    }
}

fn without(given: &str, mode: Mode) -> Cow<'_, str> {
    let mut scan = Scan::new(given, mode);
    let mut out = String::new();
    let mut done = 0;
    while let Some(secret) = scan.next() {
        out.push_str(&given[done..secret.start]);
        out.push_str(REDACTED);
        done = secret.end;
    }
    if done == 0 {
        return Cow::Borrowed(given);
    }
    out.push_str(&given[done..]);
    Cow::Owned(out)
}

/// Goes through a text from secret to secret.
struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// In JSON text a letter after `\` ends a line or the like and belongs to no word.
    escapes: bool,
    mode: Mode,
    /// A secret further on: what stands before it may be one, too.
    held: Option<Range<usize>>,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str, mode: Mode) -> Self {
        Self {
            text,
            at: 0,
            escapes: false,
            mode,
            held: None,
        }
    }

    fn escaped(text: &'a str, mode: Mode) -> Self {
        Self {
            escapes: true,
            ..Self::new(text, mode)
        }
    }

    fn next(&mut self) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            let at = self.at;
            if self.held.as_ref().is_some_and(|held| held.start <= at) {
                break;
            }
            let found = match bytes[at] {
                b'\\' if self.escapes => {
                    self.at = at + 2;
                    continue;
                }
                b'=' | b':' if self.mode == Mode::Tokens => None,
                b'=' => self.value_after(at),
                b':' => self.url_password(at).or_else(|| self.value_after(at)),
                b'-' if self.begins_word(at) => {
                    private_key(self.text, at).or_else(|| self.option_value(at))
                }
                byte if byte.is_ascii_alphanumeric() && self.begins_word(at) => {
                    let found = token(self.text, at);
                    let found = match self.mode {
                        Mode::Full => found.or_else(|| random(&bytes[at..run_end(bytes, at)], at)),
                        Mode::Said | Mode::Tokens => found,
                    };
                    if found.is_none() {
                        // No word begins within a word.
                        self.at = at + word_len(&bytes[at..]).max(1);
                        continue;
                    }
                    found
                }
                _ => None,
            };
            self.at = at + 1;
            match (found, &self.held) {
                // More than a sign and a letter lie between: `https://<token>:<password>@`.
                (Some(secret), None) if secret.start > at + 2 => self.held = Some(secret),
                (Some(secret), Some(held)) if secret.start >= held.start => {}
                (Some(secret), _) => return Some(self.hide(secret)),
                (None, _) => {}
            }
        }
        let held = self.held.take()?;
        self.at = self.at.max(held.end);
        Some(held)
    }

    /// A secret, and with it the one that is held, if they are not apart.
    fn hide(&mut self, mut secret: Range<usize>) -> Range<usize> {
        if let Some(held) = self.held.take_if(|held| secret.end > held.start) {
            secret.end = secret.end.max(held.end);
        }
        self.at = secret.end;
        secret
    }

    /// `name=value` and `name: value` with a name that says it is secret.
    fn value_after(&self, separator: usize) -> Option<Range<usize>> {
        let name = name_before(&self.text.as_bytes()[..separator]);
        if !is_secret_name(&self.text[name]) {
            return None;
        }
        if self.escapes {
            // Where the value begins and ends is not to be told from escaped text; that there is one is enough.
            return Some(separator..separator + 1);
        }
        value_from(self.text, separator + 1, self.mode)
    }

    fn url_password(&self, at: usize) -> Option<Range<usize>> {
        let found = password_in_url(self.text, at)?;
        let hides = self.escapes || is_hidden(&self.text[found.clone()], true, self.mode);
        (self.mode == Mode::Full || hides).then_some(found)
    }

    fn option_value(&self, at: usize) -> Option<Range<usize>> {
        if self.mode == Mode::Tokens {
            return None;
        }
        let found = option(self.text, at, self.escapes)?;
        let hides = self.escapes || is_hidden(&self.text[found.clone()], true, self.mode);
        hides.then_some(found)
    }

    fn begins_word(&self, at: usize) -> bool {
        let bytes = self.text.as_bytes();
        match at.checked_sub(1).map(|before| bytes[before]) {
            None => true,
            Some(b'_') => false,
            Some(before) if before.is_ascii_alphanumeric() => {
                self.escapes && at >= 2 && bytes[at - 2] == b'\\'
            }
            Some(_) => true,
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn word_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_word(**byte)).count()
}

/// Letters of keys and tokens.
fn is_token(byte: u8) -> bool {
    is_word(byte) || byte == b'-'
}

fn token_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_token(**byte)).count()
}

/// The end of a run of what base64 is made of.
fn run_end(bytes: &[u8], at: usize) -> usize {
    let letters = bytes[at..]
        .iter()
        .take_while(|byte| is_token(**byte) || **byte == b'+')
        .count();
    let end = at + letters;
    let padding = bytes[end..]
        .iter()
        .take(2)
        .take_while(|byte| **byte == b'=');
    end + padding.count()
}

#[cfg(test)]
mod tests;
