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
const SECRET_PARTS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "api_key",
    "api-key",
    "apikey",
    "access_key",
    "access-key",
    "accesskey",
    "private_key",
    "private-key",
    "privatekey",
];
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
    let mut out = String::new();
    let mut done = 0;
    let mut scan = Scan::plain(given);
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
    let hidden = given.contains("\\u00");
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
}

impl<'a> Scan<'a> {
    fn plain(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            escapes: false,
        }
    }

    fn escaped(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            escapes: true,
        }
    }

    fn next(&mut self) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            let at = self.at;
            let found = match bytes[at] {
                b'=' => value_after(self.text, at),
                b':' => password_in_url(self.text, at).or_else(|| value_after(self.text, at)),
                b'-' if self.begins_word(at) => private_key(self.text, at),
                byte if byte.is_ascii_alphanumeric() && self.begins_word(at) => {
                    let run = run_at(bytes, at);
                    let found = token(self.text, at).or_else(|| random(&bytes[at..run], at));
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
fn run_at(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..]
        .iter()
        .take_while(|byte| is_token(**byte) || matches!(byte, b'+' | b'='))
        .count()
}

/// Tokens that say what they are.
fn token(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let bytes = rest.as_bytes();
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

/// `name=value` and `name: value` with a name that says it is secret.
fn value_after(text: &str, separator: usize) -> Option<Range<usize>> {
    let name = name_before(&text.as_bytes()[..separator]);
    if !is_secret_name(&text[name]) {
        return None;
    }
    let bytes = text.as_bytes();
    let mut start = separator + 1;
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
    if name.len() < 3 || name.len() > NAME_BYTES_MAX {
        return false;
    }
    let name = name.to_ascii_lowercase();
    SECRET_ENDS.iter().any(|end| name.ends_with(end))
        || SECRET_PARTS.iter().any(|part| name.contains(part))
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
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const HIDDEN: &[&str] = &[
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "gho_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0abcdefghijkl_MNOPqrstuvwxyz0123456789",
        "glpat-abcdefghij0123456789",
        "sk-proj-abcdEFGH0123456789abcdEFGH",
        "xoxb-123456789012-abcdefghijkl",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "AIzaSyA0123456789abcdefghijklmnopqrstuv",
        "qZ8kLmN3pRsTuV5wXyZ1aBcDeFgHiJkL2mNoPq",
        "0123456789abcdef0123456789abcdef0123456789abcdef",
        "sbt_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    ];

    #[test]
    fn tokens_are_hidden_wherever_they_stand() {
        // agentbus.security.no_secrets
        for secret in HIDDEN {
            for (before, after) in [
                ("", ""),
                ("clone failed: ", " was refused"),
                ("(", ")"),
                ("a\n", "\nb"),
                ("url?x=", "&y=1"),
                ("\"", "\""),
            ] {
                let given = format!("{before}{secret}{after}");
                let clean = text(&given);
                assert!(!clean.contains(secret), "{clean}");
                assert_eq!(clean, format!("{before}{REDACTED}{after}"), "{given}");
            }
        }
    }

    #[test]
    fn values_of_secret_names_are_hidden() {
        for (given, clean) in [
            ("password=hunter2", "password=[redacted]"),
            ("DB_PASSWORD=hunter2 next", "DB_PASSWORD=[redacted] next"),
            ("api_key: 'abcd efgh' x", "api_key: '[redacted]' x"),
            (
                "{\"client_secret\":\"abcd\",\"n\":1}",
                "{\"client_secret\":\"[redacted]\",\"n\":1}",
            ),
            ("githubToken => abcd1", "githubToken => [redacted]"),
            ("?token=abcd1&x=2", "?token=[redacted]&x=2"),
            (
                "Authorization: Bearer abcdef0123456789xyz",
                "Authorization: Bearer [redacted]",
            ),
            (
                "authorization: basic dXNlcjpwYXNz=",
                "authorization: basic [redacted]",
            ),
            (
                "https://bot:s3cret@example.org/x",
                "https://bot:[redacted]@example.org/x",
            ),
        ] {
            assert_eq!(text(given), clean);
        }
    }

    #[test]
    fn a_private_key_is_hidden_to_its_end() {
        let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----";
        assert_eq!(text(&format!("a {key} b")), "a [redacted] b");
        assert_eq!(text("a -----BEGIN PRIVATE KEY-----\nMII"), "a [redacted]");
        let public = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----";
        assert_eq!(text(public), public);
    }

    #[test]
    fn what_the_swarm_works_with_survives() {
        for given in [
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "123e4567-e89b-12d3-a456-426614174000",
            "engram_e_01J0Z3NDEKTSV4RRFFQ69G5FAV.json",
            "memory/st/20260211-000000Z/engram_e_01J0Z3NDEKTSV4RRFFQ69G5FAV.json",
            "20260212-004102Z-worker-3-attempt-2",
            "worker-3-1707600000",
            "crates/wire/src/agentbus/message/protocol_incompatibility.rs",
            "max_tokens=4096, tokens: 512, tokenizer=fast",
            "the token is missing; password required",
            "secret=$SECRET password=**** token: null token: true",
            "ThisIsAVeryLongCamelCaseIdentifierOfAClass",
            "a_very_long_snake_case_name_of_a_test_function_number_12",
            "2026-02-12T00:00:00Z",
            "Basic authentication and a bearer of news",
            "https://example.org:8080/a@b",
            "größe=wichtig: ja",
            "disk-0123456789abcdef is full",
            "1234567890123456789012345678901234567890123",
        ] {
            assert_eq!(text(given), given);
        }
    }

    #[test]
    fn json_is_cleaned_string_by_string_and_stays_json() {
        let given = r#"{"a":"x\nghp_0123456789abcdefghij","password":"p\"q\"r","n":1.5,"list":["sk-abcdefgh0123456789"]}"#;
        let clean: Value = serde_json::from_str(&json(given)).expect("JSON");
        assert_eq!(
            clean,
            json!({ "a": "x\n[redacted]", "password": "[redacted]", "n": 1.5, "list": ["[redacted]"] })
        );
        let hidden = r#"{"a":"\u0067hp_0123456789abcdefghij"}"#;
        assert_eq!(json(hidden), r#"{"a":"[redacted]"}"#);
        let plain = r#"{"state":{"stage":"CODE", "issue_number":21}}"#;
        assert!(matches!(json(plain), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic_and_cleaning_twice_changes_nothing(given in "(\\PC|password|token|=|:|\"|://|@|Bearer |eyJ|ghp_|\n){0,24}") {
            let once = text(&given).into_owned();
            prop_assert_eq!(text(&once).into_owned(), once.clone());
            let printed = Value::from(given.as_str()).to_string();
            let cleaned: Value = serde_json::from_str(&json(&printed)).expect("JSON");
            prop_assert_eq!(cleaned, Value::from(once));
        }
    }
}
