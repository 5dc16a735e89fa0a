//! What is a secret by its own looks.

use std::ops::Range;

use super::{REDACTED, is_token, token_len, word_len};

/// Beginnings by which a token is known, and how much has to follow.
const PREFIXES: &[(&str, usize)] = &[
    ("AGE-SECRET-KEY-", 16),
    ("AIza", 30),
    ("dop_v1_", 16),
    ("doo_v1_", 16),
    ("dor_v1_", 16),
    ("ghp_", 10),
    ("gho_", 10),
    ("ghu_", 10),
    ("ghs_", 10),
    ("ghr_", 10),
    ("github_pat_", 10),
    ("glpat-", 10),
    ("hf_", 20),
    ("hvb.", 16),
    ("hvs.", 16),
    ("npm_", 20),
    ("pypi-", 16),
    ("rk_live_", 10),
    ("sbi_", 16),
    ("sbk_", 16),
    ("sbn_", 16),
    ("sbr_", 16),
    ("sbt_", 16),
    ("sk-", 16),
    ("sk_live_", 10),
    ("sk_test_", 10),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxe-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
];
/// Those that ordinary names begin with, too: without a digit it is none.
const WORDY: &[&str] = &["hvb.", "hvs.", "pypi-", "sk-"];
/// A run of letters and digits that long may be a key.
const RUN_BYTES_MIN: usize = 32;
/// Lengths of hexadecimal runs that are ids and hashes: UUIDs, git's SHA-1, SHA-256.
const HEX_KEPT: [usize; 3] = [32, 40, 64];
const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_KEY: &str = "PRIVATE KEY-----";
/// Commands with a password in an option: after the user's name, or right behind the letter.
const LOGIN_COMMANDS: &[&str] = &["curl", "wget", "http"];
const PASSWORD_COMMANDS: &[&str] = &["mysql", "mariadb"];
/// How far back the command is looked for.
const COMMAND_BYTES_MAX: usize = 512;

/// Tokens that say what they are.
pub fn token(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = &text.as_bytes()[at..];
    // Every beginning below starts with one of these; most words do not.
    if !matches!(
        bytes.first(),
        Some(b'A' | b'B' | b'b' | b'd' | b'e' | b'g' | b'h' | b'n' | b'p' | b'r' | b's' | b'x')
    ) {
        return None;
    }
    for (prefix, min) in PREFIXES {
        if let Some(after) = bytes.strip_prefix(prefix.as_bytes()) {
            let len = token_len(after);
            let is_plain = after[..len].iter().all(|byte| !byte.is_ascii_digit());
            if len >= *min && !(is_plain && WORDY.contains(prefix)) {
                return Some(at..at + prefix.len() + len);
            }
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
pub fn private_key(text: &str, at: usize) -> Option<Range<usize>> {
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

/// The password in `curl -u user:password` and `mysql -ppassword`. Of JSON text only that there may be one.
pub fn option(text: &str, at: usize, escaped: bool) -> Option<Range<usize>> {
    let rest = &text.as_bytes()[at..];
    let (start, commands, is_login) = if let Some(after) = [&b"-u "[..], b"--user ", b"--user="]
        .iter()
        .find(|option| rest.starts_with(option))
    {
        (at + after.len(), LOGIN_COMMANDS, true)
    } else if rest.starts_with(b"-p") && rest.get(2).is_some_and(|byte| !byte.is_ascii_whitespace())
    {
        (at + 2, PASSWORD_COMMANDS, false)
    } else {
        return None;
    };
    let before = &text.as_bytes()[at.saturating_sub(COMMAND_BYTES_MAX)..at];
    let line = before.iter().rposition(|byte| *byte == b'\n');
    let line = &before[line.map_or(0, |newline| newline + 1)..];
    let is_meant = |command: &&str| memchr::memmem::find(line, command.as_bytes()).is_some();
    if !commands.iter().any(is_meant) {
        return None;
    }
    if escaped {
        return Some(at..at + 1);
    }
    let (start, end) = argument(text, start);
    let start = match is_login {
        true => start + text[start..end].find(':')? + 1,
        false => start,
    };
    (start < end).then_some(start..end)
}

/// Where an argument begins and ends, without its quotes.
fn argument(text: &str, mut start: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    while bytes.get(start) == Some(&b' ') {
        start += 1;
    }
    let quote = bytes
        .get(start)
        .copied()
        .filter(|byte| matches!(byte, b'"' | b'\''));
    start += usize::from(quote.is_some());
    let ends = |byte: &u8| match quote {
        Some(quote) => *byte == quote || *byte == b'\n',
        None => byte.is_ascii_whitespace() || matches!(byte, b';' | b'|' | b'`' | b')' | b'"'),
    };
    let len = bytes[start..].iter().position(ends);
    (start, start + len.unwrap_or(bytes.len() - start))
}

/// `scheme://user:password@host`: the password.
pub fn password_in_url(text: &str, at: usize) -> Option<Range<usize>> {
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
pub fn random(run: &[u8], at: usize) -> Option<Range<usize>> {
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
