//! Secrets out of texts: what looks like a token, a key or a password becomes `[redacted]`.
//!
//! Used for everything of a payload that is stored, passed on or logged. It errs on the side of hiding; what must
//! survive is what the swarm works with: git shas, `sha256:` hashes, container ids, ULIDs, batch ids, paths.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// Beginnings by which a token is known, and how much has to follow.
const PREFIXES: &[(&str, usize)] = &[
    ("ghp_", 10),
    ("gho_", 10),
    ("ghu_", 10),
    ("ghs_", 10),
    ("ghr_", 10),
    ("github_pat_", 10),
    ("glpat-", 10),
    ("sbt_", 16),
    ("npm_", 20),
    ("hf_", 20),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxe-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("AIza", 30),
];
/// Names of which any part is enough.
const SECRET_PARTS: &[&str] = &["passw", "passphrase", "secret", "credential"];
/// What makes the name of a key that of a secret one.
const SECRET_KEYS: &[&str] = &["api", "access", "private", "signing"];
/// Names that have to end so; `tokens` are counted, not kept secret.
const SECRET_ENDS: &[&str] = &["token", "authorization", "pwd"];
/// A shorter value of a secret name is no secret.
const VALUE_BYTES_MIN: usize = 4;
const NAME_BYTES_MAX: usize = 64;
/// A run of letters and digits that long may be a key.
const RUN_BYTES_MIN: usize = 32;
/// Lengths of hexadecimal runs that are ids and hashes: UUIDs, git's SHA-1, SHA-256.
const HEX_KEPT: [usize; 3] = [32, 40, 64];
const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_KEY: &str = "PRIVATE KEY-----";

/// The text without its secrets.
pub fn text(given: &str) -> Cow<'_, str> {
    without(given, Scan::plain(given))
}

/// The same for what people write to each other: only what cannot be anything but a token or a key.
pub fn tokens(given: &str) -> Cow<'_, str> {
    let mut scan = Scan::plain(given);
    scan.only_tokens = true;
    without(given, scan)
}

/// The same within the strings of JSON text.
pub fn json_tokens(given: &str) -> Cow<'_, str> {
    if matches!(tokens(given), Cow::Borrowed(_)) && !given.contains("\\u") {
        return Cow::Borrowed(given);
    }
    let Ok(mut parsed) = serde_json::from_str::<Value>(given) else {
        return Cow::Owned(Value::from(tokens(given)).to_string());
    };
    hide_tokens(&mut parsed);
    Cow::Owned(parsed.to_string())
}

fn hide_tokens(given: &mut Value) {
    match given {
        Value::String(string) => {
            if let Cow::Owned(clean) = tokens(string) {
                *string = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide_tokens),
        Value::Object(members) => members.values_mut().for_each(hide_tokens),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn without<'a>(given: &'a str, mut scan: Scan<'_>) -> Cow<'a, str> {
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

/// JSON text without the secrets in its strings; unchanged, and not even read, where there seem to be none.
pub fn json(given: &str) -> Cow<'_, str> {
    // Letters written as escapes would hide a secret from the scan; the strings themselves do not.
    let hidden = given.contains("\\u") || given.contains("\\/");
    if !hidden && Scan::escaped(given).next().is_none() {
        return Cow::Borrowed(given);
    }
    let Ok(mut parsed) = serde_json::from_str::<Value>(given) else {
        return Cow::Owned(Value::from(text(given)).to_string());
    };
    if value(&mut parsed) {
        Cow::Owned(parsed.to_string())
    } else {
        Cow::Borrowed(given)
    }
}

/// Every string in a value, and whether any changed.
pub fn value(given: &mut Value) -> bool {
    match given {
        Value::String(string) => match text(string) {
            Cow::Borrowed(_) => false,
            Cow::Owned(clean) => {
                *string = clean;
                true
            }
        },
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |changed, item| value(item) | changed),
        Value::Object(members) => members.iter_mut().fold(false, |changed, (name, member)| {
            member_value(name, member) | changed
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn member_value(name: &str, member: &mut Value) -> bool {
    match member {
        Value::String(string) if is_secret_name(name) && is_worth_hiding(string) => {
            *string = REDACTED.to_owned();
            true
        }
        Value::String(_)
        | Value::Array(_)
        | Value::Object(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_) => value(member),
    }
}

/// Goes through a text from secret to secret.
struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// In JSON text a letter after `\` ends a line or the like and belongs to no word.
    escapes: bool,
    /// What only looks random, and what stands behind the name of a secret, is let be.
    only_tokens: bool,
}

impl<'a> Scan<'a> {
    fn plain(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            escapes: false,
            only_tokens: false,
        }
    }

    fn escaped(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            escapes: true,
            only_tokens: false,
        }
    }

    fn next(&mut self) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            let at = self.at;
            let found = match bytes[at] {
                b'\\' if self.escapes => {
                    self.at = at + 2;
                    continue;
                }
                b'=' | b':' if self.only_tokens => None,
                b'=' => self.value_after(at),
                b':' => password_in_url(self.text, at).or_else(|| self.value_after(at)),
                b'-' if self.begins_word(at) => private_key(self.text, at),
                byte if byte.is_ascii_alphanumeric() && self.begins_word(at) => {
                    let run = run_end(bytes, at);
                    let found = token(self.text, at);
                    let found = match self.only_tokens {
                        true => found,
                        false => found.or_else(|| random(&bytes[at..run], at)),
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
            match found {
                Some(secret) => {
                    self.at = secret.end;
                    return Some(secret);
                }
                None => self.at = at + 1,
            }
        }
        None
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
        value_from(self.text, separator + 1)
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

/// Tokens that say what they are.
fn token(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[at..];
    // Every beginning below starts with one of these; most words do not.
    if !matches!(
        bytes.first(),
        Some(b'g' | b's' | b'n' | b'h' | b'x' | b'A' | b'e' | b'b' | b'B')
    ) {
        return None;
    }
    for (prefix, min) in PREFIXES {
        if let Some(after) = bytes.strip_prefix(prefix.as_bytes()) {
            let len = token_len(after);
            if len >= *min {
                return Some(at..at + prefix.len() + len);
            }
        }
    }
    if let Some(after) = bytes.strip_prefix(b"sk-") {
        let len = token_len(after);
        if len >= 16 && after[..len].iter().any(u8::is_ascii_digit) {
            return Some(at..at + 3 + len);
        }
    }
    if bytes.starts_with(b"AKIA") || bytes.starts_with(b"ASIA") {
        let fits = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        let len = bytes.iter().take_while(|byte| fits(byte)).count();
        if len == 20 && word_len(bytes) == 20 {
            return Some(at..at + 20);
        }
    }
    if bytes.starts_with(b"eyJ") {
        return web_token(bytes).map(|len| at..at + len);
    }
    bearer(bytes).map(|(start, end)| at + start..at + end)
}

/// Three parts of base64 with dots between them, the last of which may be empty.
fn web_token(bytes: &[u8]) -> Option<usize> {
    let head = token_len(bytes);
    let body = token_len(bytes.get(head + 1..)?);
    if head < 10 || body < 8 || bytes[head] != b'.' {
        return None;
    }
    let mut len = head + 1 + body;
    if bytes.get(len) == Some(&b'.') {
        len += 1 + token_len(&bytes[len + 1..]);
    }
    Some(len)
}

/// What follows `Bearer` or `Basic`.
fn bearer(bytes: &[u8]) -> Option<(usize, usize)> {
    let scheme = ["bearer ", "basic "].into_iter().find(|scheme| {
        bytes
            .get(..scheme.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(scheme.as_bytes()))
    })?;
    let after = &bytes[scheme.len()..];
    let fits = |byte: &u8| is_token(*byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=');
    let len = after.iter().take_while(|byte| fits(byte)).count();
    let value = &after[..len];
    let odd = value
        .iter()
        .any(|byte| byte.is_ascii_digit() || *byte == b'=');
    (len >= 20 || (len >= 8 && odd)).then_some((scheme.len(), scheme.len() + len))
}

/// A PEM block with a private key, up to its end or that of the text.
fn private_key(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let label = rest.strip_prefix(PEM_BEGIN)?;
    let key = label.find(PEM_KEY)?;
    if label[..key].contains(['-', '\n']) {
        return None;
    }
    let body = at + PEM_BEGIN.len() + key + PEM_KEY.len();
    let end = text[body..]
        .find(PEM_KEY)
        .map_or(text.len(), |end| body + end + PEM_KEY.len());
    Some(at..end)
}

/// The value after a separator, without its quotes.
fn value_from(text: &str, mut start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    while matches!(bytes.get(start), Some(b' ' | b'\t' | b'=' | b':' | b'>')) {
        start += 1;
    }
    if bytes.get(start) == Some(&b'\\') {
        start += 1;
    }
    let quote = bytes
        .get(start)
        .copied()
        .filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
    start += usize::from(quote.is_some());
    let ends = |byte: &u8| match quote {
        Some(quote) => *byte == quote || matches!(byte, b'\\' | b'\n'),
        None => {
            byte.is_ascii_whitespace()
                || matches!(
                    byte,
                    b',' | b';' | b'&' | b'"' | b'\'' | b'`' | b'}' | b')' | b']' | b'\\'
                )
        }
    };
    let end = start
        + bytes
            .get(start..)?
            .iter()
            .position(ends)
            .unwrap_or(bytes.len() - start);
    // A scheme in front of the secret is left to `bearer`.
    let value = &text[start..end];
    let scheme = ["bearer", "basic"]
        .iter()
        .any(|scheme| value.eq_ignore_ascii_case(scheme));
    (!scheme && is_worth_hiding(value)).then_some(start..end)
}

/// The name that ends before a separator, with its quote or blank left out.
fn name_before(head: &[u8]) -> Range<usize> {
    let mut end = head.len();
    while end > 0 && matches!(head[end - 1], b' ' | b'"' | b'\'' | b'`' | b'\\') {
        end -= 1;
    }
    let len = head[..end]
        .iter()
        .rev()
        .take(NAME_BYTES_MAX)
        .take_while(|byte| is_token(**byte))
        .count();
    end - len..end
}

fn is_secret_name(name: &str) -> bool {
    let mut lower = [0; NAME_BYTES_MAX];
    let Some(lower) = lower.get_mut(..name.len()) else {
        return false;
    };
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    let has = |part: &&str| memchr::memmem::find(lower, part.as_bytes()).is_some();
    SECRET_ENDS
        .iter()
        .any(|end| lower.ends_with(end.as_bytes()))
        || SECRET_PARTS.iter().any(has)
        || (lower.ends_with(b"key") && SECRET_KEYS.iter().any(has))
}

fn is_worth_hiding(value: &str) -> bool {
    let plain = ["true", "false", "null", "none", REDACTED];
    value.len() >= VALUE_BYTES_MIN
        && !plain.iter().any(|word| value.eq_ignore_ascii_case(word))
        && !value.starts_with("[redacted")
        && !value.starts_with('$')
        && !value.bytes().all(|byte| byte == b'*')
}

/// `scheme://user:password@host`: the password.
fn password_in_url(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text[at..].strip_prefix("://")?;
    let end = rest
        .find(|letter: char| letter.is_whitespace() || matches!(letter, '/' | '"' | '\'' | '?'))
        .unwrap_or(rest.len());
    let host = rest[..end].rfind('@')?;
    let colon = rest[..host].find(':')?;
    let (start, end) = (at + 3 + colon + 1, at + 3 + host);
    (start < end && &text[start..end] != REDACTED).then_some(start..end)
}

/// A long run that no person would write.
fn random(run: &[u8], at: usize) -> Option<Range<usize>> {
    let core = word_len(run);
    let is_hex = |run: &[u8]| run.iter().all(u8::is_ascii_hexdigit);
    if core >= RUN_BYTES_MIN && is_hex(&run[..core]) && run[..core].iter().any(u8::is_ascii_digit) {
        let all_digits = run[..core].iter().all(u8::is_ascii_digit);
        return (!HEX_KEPT.contains(&core) && !all_digits).then_some(at..at + core);
    }
    if run.len() < RUN_BYTES_MIN || !run.iter().any(u8::is_ascii_digit) {
        return None;
    }
    // Base64 goes from upper to lower case and back at every third letter; ids and names hardly do.
    let turns = run
        .windows(2)
        .filter(|pair| {
            (pair[0].is_ascii_uppercase() && pair[1].is_ascii_lowercase())
                || (pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        })
        .count();
    (turns * 6 >= run.len()).then_some(at..at + run.len())
}

#[cfg(test)]
mod tests;
