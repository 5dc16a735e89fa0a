//! What something is about, as a few lower-case words. Knows no language but a handful of empty words.

use std::collections::BTreeMap;

/// Words that one record gives at most.
pub const TOPICS_PER_RECORD: usize = 8;
/// Words that one engram is filed under at most.
pub const TOPICS_PER_ENGRAM: usize = 16;
const WORD_CHARS_MIN: usize = 3;
pub const WORD_BYTES_MAX: usize = 32;

/// Words that say nothing about what a text is about.
const EMPTY: &[&str] = &[
    "add", "all", "and", "are", "but", "can", "did", "does", "each", "every", "for", "from", "has",
    "have", "how", "into", "its", "make", "more", "must", "new", "not", "now", "off", "one",
    "only", "our", "out", "redacted", "should", "some", "task", "than", "that", "the", "their",
    "them", "then", "there", "they", "this", "too", "two", "use", "was", "were", "what", "when",
    "which", "who", "will", "with", "you", "your",
];

/// The telling words of a text, in its order.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter_map(word)
}

/// One word as a topic, if it can be one.
pub fn word(text: &str) -> Option<String> {
    let word = text.trim_matches('_').to_lowercase();
    let fits = word.chars().count() >= WORD_CHARS_MIN && word.len() <= WORD_BYTES_MAX;
    let says = word.chars().any(char::is_alphabetic) && !EMPTY.contains(&word.as_str());
    (fits && says).then_some(word)
}

/// How often each topic came up.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<String, usize>);

impl Tally {
    pub fn add<'a>(&mut self, topics: impl IntoIterator<Item = &'a String>) {
        for topic in topics {
            *self.0.entry(topic.clone()).or_default() += 1;
        }
    }

    /// The most frequent ones; among equals the first of the alphabet.
    pub fn top(self, most: usize) -> Vec<String> {
        let mut ranked: Vec<(String, usize)> = self.0.into_iter().collect();
        ranked.sort_by(|(a, many), (b, more)| more.cmp(many).then_with(|| a.cmp(b)));
        ranked.truncate(most);
        ranked.into_iter().map(|(topic, _)| topic).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_case_and_telling() {
        let cases: [(&str, &[&str]); 6] = [
            ("Fix the OAuth login", &["fix", "oauth", "login"]),
            ("tests_failed in CI", &["tests_failed"]),
            ("#21: 2026 42", &[]),
            ("[redacted] a-b __x__", &[]),
            ("Überprüfung für 日本語", &["überprüfung", "für", "日本語"]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            let found: Vec<String> = words(text).collect();
            assert_eq!(found, expected, "{text}");
        }
        for (length, fits) in [(WORD_BYTES_MAX, true), (WORD_BYTES_MAX + 1, false)] {
            assert_eq!(word(&"x".repeat(length)).is_some(), fits, "{length}");
        }
        for (length, fits) in [(WORD_CHARS_MIN - 1, false), (WORD_CHARS_MIN, true)] {
            assert_eq!(word(&"x".repeat(length)).is_some(), fits, "{length}");
        }
    }

    #[test]
    fn the_most_frequent_topics_come_first_and_no_more_than_asked_for() {
        let mut tally = Tally::default();
        let topic = |word: &str| word.to_owned();
        tally.add(&[topic("build"), topic("login")]);
        tally.add(&[topic("login"), topic("api")]);
        assert_eq!(tally.top(2), ["login", "api"]);
    }
}
