//! Values behind the name of a secret: which names those are, and which values are written out.

use std::ops::Range;

use super::{Mode, REDACTED, is_token};

/// Names of which any part is enough.
const SECRET_PARTS: &[&str] = &["passw", "passphrase", "secret", "credential"];
/// What makes the name of a key that of a secret one.
const SECRET_KEYS: &[&str] = &["api", "access", "private", "signing"];
/// Names that have to end so; `tokens` are counted, not kept secret.
const SECRET_ENDS: &[&str] = &["token", "authorization", "pwd"];
/// A shorter value of a secret name is no secret.
const VALUE_BYTES_MIN: usize = 4;
/// The same in what agents say to each other.
const LITERAL_BYTES_MIN: usize = 8;
const SECRET_NAME_BYTES_MAX: usize = 64;
/// Values that stand for none.
const PLAIN: &[&str] = &["true", "false", "null", "none", "undefined", REDACTED];

/// The value after a separator, without its quotes.
pub fn value_from(text: &str, mut start: usize, mode: Mode) -> Option<Range<usize>> {
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
    (!scheme && is_hidden(value, quote.is_some(), mode)).then_some(start..end)
}

/// The name that ends before a separator, with its quote or blank left out.
pub fn name_before(head: &[u8]) -> Range<usize> {
    let mut end = head.len();
    while end > 0 && matches!(head[end - 1], b' ' | b'"' | b'\'' | b'`' | b'\\') {
        end -= 1;
    }
    let len = head[..end]
        .iter()
        .rev()
        .take(SECRET_NAME_BYTES_MAX)
        .take_while(|byte| is_token(**byte))
        .count();
    end - len..end
}

pub fn is_secret_name(name: &str) -> bool {
    let mut lower = [0; SECRET_NAME_BYTES_MAX];
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

/// Whether the value of a secret name is the secret.
pub fn is_hidden(value: &str, is_quoted: bool, mode: Mode) -> bool {
    let is_plain = PLAIN.iter().any(|word| value.eq_ignore_ascii_case(word))
        || value.starts_with("[redacted")
        || value.starts_with('$')
        || value.bytes().all(|byte| byte == b'*');
    match mode {
        _ if is_plain => false,
        Mode::Full => value.len() >= VALUE_BYTES_MIN,
        Mode::Said => is_literal(value, is_quoted),
        Mode::Tokens => false,
    }
}

/// Whether a value is written out, not looked up somewhere: `hunter2hunter2`, but not `os.environ["PASSWORD"]`,
/// `Option<String>`, `self.token`, `<your token>`, `/run/secrets/token` or prose.
fn is_literal(value: &str, is_quoted: bool) -> bool {
    let bytes = value.as_bytes();
    if bytes.len() < LITERAL_BYTES_MIN || !value.is_ascii() {
        return false;
    }
    let looks_up = |byte: &u8| {
        byte.is_ascii_whitespace()
            || matches!(
                byte,
                b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b'$' | b'|' | b'%'
            )
    };
    let is_place = matches!(bytes[0], b'/' | b'.' | b'~' | b'@' | b'&' | b'*' | b'#')
        || value.contains("://")
        || value.contains("::");
    // A name of a secret is no secret: `new_password`, `API_TOKEN`.
    if bytes.iter().any(looks_up) || is_place || names_secret(value) {
        return false;
    }
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    if digits == bytes.len() {
        return false;
    }
    let is_path = value.contains('.') && value.split('.').all(is_name);
    match is_quoted {
        true => digits > 0 || !bytes.iter().all(|byte| is_token(*byte) || *byte == b'.'),
        false => {
            !is_path
                && (digits > 0
                    || bytes
                        .iter()
                        .any(|byte| matches!(byte, b'!' | b'#' | b'^' | b'+' | b'/' | b'?' | b'-')))
        }
    }
}

fn names_secret(value: &str) -> bool {
    let has = |part: &&str| {
        value
            .as_bytes()
            .windows(part.len())
            .any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
    };
    SECRET_PARTS.iter().chain(SECRET_ENDS).any(has) || has(&"key")
}

/// A word as programs use them for names.
fn is_name(part: &str) -> bool {
    let is_head = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    part.starts_with(is_head) && part.bytes().all(super::is_word)
}
