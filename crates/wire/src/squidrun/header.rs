//! The role header: `(ROLE #N): body`.

use switchboard_core::limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// As it was written; whose word it is, [`super::Roles::by_header`] knows.
    pub role: &'a str,
    pub number: u32,
    /// What follows, without leading spaces.
    pub body: &'a str,
}

/// The header at the beginning of a text, if it has one.
pub fn parse(text: &str) -> Option<Header<'_>> {
    let (inner, rest) = text.trim_start().strip_prefix('(')?.split_once(')')?;
    let (role, number) = inner.split_once('#')?;
    let word = role.trim();
    let parted = role.ends_with(|letter: char| letter.is_whitespace());
    Some(Header {
        role: Some(word).filter(|word| parted && is_word(word))?,
        number: digits(number.trim_end())?,
        body: rest.strip_prefix(':')?.trim_start(),
    })
}

/// Letters, digits, `-` and `_`, a letter or digit first, within the bound.
pub(super) fn is_word(word: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    word.len() <= limits::ROLE_WORD_BYTES_MAX
        && word.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && word.bytes().all(fits)
}

/// A number that consists of digits and nothing else.
pub(super) fn digits<N: std::str::FromStr>(text: &str) -> Option<N> {
    let all = text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_parses_into_role_number_and_body() {
        for (text, role, number, body) in [
            (
                "(ARCH #1): Roll call. Report status.",
                "ARCH",
                1,
                "Roll call. Report status.",
            ),
            (
                "(BUILDER #42): Implementation complete. Running tests.",
                "BUILDER",
                42,
                "Implementation complete. Running tests.",
            ),
            ("(BUILDER-BG-1 #2): x", "BUILDER-BG-1", 2, "x"),
            ("  (arch  #7 ):x", "arch", 7, "x"),
            ("(ARCH #4294967295):\n\nlater", "ARCH", u32::MAX, "later"),
            ("(ARCH #0): (BUILDER #1): x", "ARCH", 0, "(BUILDER #1): x"),
            ("(A #1):", "A", 1, ""),
        ] {
            assert_eq!(parse(text), Some(Header { role, number, body }), "{text}");
        }
    }

    #[test]
    fn what_is_no_header_is_text() {
        for text in [
            "",
            "plain",
            "(ARCH 1): x",
            "(ARCH#1): x",
            "(ARCH #1) x",
            "(ARCH #x): x",
            "(ARCH #): x",
            "(ARCH #+1): x",
            "(ARCH #-1): x",
            "(ARCH #4294967296): x",
            "(ARCH #1 #2): x",
            "(ARCH LEAD #1): x",
            "( #1): x",
            "(-A #1): x",
            "(ÄRCH #1): x",
            "ARCH #1: x",
            "x (ARCH #1): x",
            "[URGENT] (ARCH #1): x",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let word = |bytes: usize| format!("({} #1): x", "A".repeat(bytes));
        let max = limits::ROLE_WORD_BYTES_MAX;
        for (bytes, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
            assert_eq!(parse(&word(bytes)).is_some(), fits, "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_header_of_its_own_or_none(text in "[(]?[A-Z ]{0,6}#?[0-9]{0,12}[)]?:?\\PC{0,20}") {
            if let Some(header) = parse(&text) {
                prop_assert!(is_word(header.role) && text.ends_with(header.body));
                let again = format!("({} #{}): {}", header.role, header.number, header.body);
                prop_assert_eq!(parse(&again), Some(header));
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
