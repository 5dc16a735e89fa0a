//! The words of a line: quotes, `key=value`, and spans of time.

use std::collections::BTreeMap;
use std::time::Duration;

/// Cuts a line into words. A quote at a word's beginning or after `=` keeps spaces together.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = next_word(rest)?;
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

fn next_word(rest: &str) -> Result<(String, &str), String> {
    let plain_end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let plain = &rest[..plain_end];
    let opening = match plain.find('"') {
        Some(0) => 0,
        Some(at) if plain[..at].ends_with('=') && !plain[..at].contains('{') => at,
        Some(_) | None => return Ok((plain.to_owned(), &rest[plain_end..])),
    };
    let quoted = &rest[opening + 1..];
    let Some(length) = quoted.find('"') else {
        return Err(format!("the quote in `{plain}` is not closed"));
    };
    let (inside, after) = (&quoted[..length], &quoted[length + 1..]);
    let comma = if after.starts_with(',') { "," } else { "" };
    let word = format!("{}{inside}{comma}", &rest[..opening]);
    Ok((word, &after[comma.len()..]))
}

/// What follows a step's name: words in order, and words with names.
#[derive(Debug, Default)]
pub struct Given {
    plain: std::collections::VecDeque<String>,
    named: BTreeMap<String, String>,
}

impl Given {
    pub fn new(words: &[String]) -> Self {
        let mut given = Given::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.split_once('=') {
                Some((name, value)) => {
                    given.named.insert(name.to_owned(), value.to_owned());
                }
                // `epoch 3` reads better than `epoch=3` and means the same.
                None if word == "epoch" => {
                    let value = rest.next().cloned().unwrap_or_default();
                    given.named.insert(word.clone(), value);
                }
                None => given.plain.push_back(word.clone()),
            }
        }
        given
    }

    /// The next plain word, which has to be there.
    pub fn next(&mut self, what: &str) -> Result<String, String> {
        self.plain
            .pop_front()
            .ok_or_else(|| format!("{what} is missing"))
    }

    pub fn maybe_next(&mut self) -> Option<String> {
        self.plain.pop_front()
    }

    /// Whether this word stands next.
    pub fn flag(&mut self, word: &str) -> bool {
        let there = self.plain.iter().position(|plain| plain == word);
        there.is_some_and(|at| self.plain.remove(at).is_some())
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        self.named.remove(name)
    }

    pub fn list(&mut self, name: &str) -> Option<Vec<String>> {
        let list = self.text(name)?;
        Some(
            list.split(',')
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }

    pub fn number(&mut self, name: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| format!("`{name}={text}` is not a number"))
    }

    pub fn whole(&mut self, name: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| format!("`{name}={text}` is not a whole number"))
    }

    pub fn yes(&mut self, name: &str) -> Result<Option<bool>, String> {
        match self.text(name).as_deref() {
            None => Ok(None),
            Some("yes") => Ok(Some(true)),
            Some("no") => Ok(Some(false)),
            Some(other) => Err(format!("`{name}={other}` must be yes or no")),
        }
    }

    /// In milliseconds.
    pub fn span(&mut self, name: &str) -> Result<Option<i64>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.strip_prefix('-') {
            Some(below) => Ok(Some(-millis(span(below)?))),
            None => Ok(Some(millis(span(&text)?))),
        }
    }

    /// Nothing may be left over: a word that means nothing is a mistake.
    pub fn finish(self) -> Result<(), String> {
        let unknown = self.plain.into_iter().next();
        let unknown = unknown.or_else(|| self.named.into_iter().next().map(|(name, _)| name + "="));
        unknown.map_or(Ok(()), |word| Err(format!("`{word}` means nothing here")))
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).expect("spans in scenes are short")
}

/// `2m01s`, `10m`, `1h`, `30d`, `500ms`, with or without a plus.
pub fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a span such as 2m01s, 500ms or 30d");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let count: u32 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit_end = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let unit = match &rest[..unit_end] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            "d" => Duration::from_secs(24 * 3600),
            _ => return Err(wrong()),
        };
        rest = &rest[unit_end..];
        total += unit * count;
    }
    Ok(total)
}

#[test]
fn quotes_keep_spaces_and_commas_stay_outside() {
    let cut = words(r#"memory x="a b", "c d" e={"k":"v"} f"#).expect("well formed");
    assert_eq!(cut, ["memory", "x=a b,", "c d", r#"e={"k":"v"}"#, "f"]);
    assert!(words(r#"x="a b"#).is_err());
}

#[test]
fn spans_are_read() {
    let table = [
        ("+2m01s", 121_000),
        ("500ms", 500),
        ("1h", 3_600_000),
        ("30d", 2_592_000_000),
        ("+0s", 0),
    ];
    for (text, expected) in table {
        assert_eq!(span(text).map(millis), Ok(expected), "{text}");
    }
    for text in ["", "+", "5", "m", "5x", "1m2"] {
        assert!(span(text).is_err(), "{text}");
    }
}
