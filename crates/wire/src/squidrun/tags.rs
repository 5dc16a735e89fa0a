//! Tags: what a text asks for, directly after its header. The same words later in the text are text.

use switchboard_core::limits;

use super::header::digits;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags<'a> {
    pub ack_required: bool,
    pub urgent: bool,
    pub fyi: bool,
    pub task: bool,
    /// It tells of a failure.
    pub escalate: bool,
    pub ends: Option<Ending<'a>>,
}

/// A task's end, as its holder tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending<'a> {
    pub how: End,
    pub number: u64,
    /// Summary or reason: what follows the tags.
    pub text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Failed,
    Blocked,
}

pub(super) const ACK_REQUIRED: &str = "ACK REQUIRED";
pub(super) const TASK: &str = "TASK";
/// Ours: what follows is a failure that its speaker cannot get past.
pub const ESCALATE: &str = "ESCALATE";
/// In front of the line that such a failure is known by; without one it is the first line.
pub const FIRST_ERROR: &str = "first error: ";
const ENDS: [(&str, End); 3] = [
    ("DONE", End::Done),
    ("FAILED", End::Failed),
    ("BLOCKED", End::Blocked),
];

/// The tags that a body begins with, any number of them, and the text after them.
pub fn parse(body: &str) -> (Tags<'_>, &str) {
    let mut tags = Tags::default();
    let mut rest = body.trim_start();
    while let Some((tag, after)) = rest.strip_prefix('[').and_then(|it| it.split_once(']')) {
        if !tags.take(tag.trim()) {
            break;
        }
        rest = after.trim_start();
    }
    if let Some(ending) = &mut tags.ends {
        ending.text = rest;
    }
    (tags, rest)
}

impl Tags<'_> {
    fn take(&mut self, tag: &str) -> bool {
        let is = |word: &str| tag.eq_ignore_ascii_case(word);
        let flag = match () {
            () if is(ACK_REQUIRED) => &mut self.ack_required,
            () if is("URGENT") => &mut self.urgent,
            () if is("FYI") => &mut self.fyi,
            () if is(TASK) => &mut self.task,
            () if is(ESCALATE) => &mut self.escalate,
            () => return self.ends.is_none() && self.take_end(tag).is_some(),
        };
        *flag = true;
        true
    }

    fn take_end(&mut self, tag: &str) -> Option<()> {
        let (word, number) = tag.split_once('#')?;
        let known = |(name, _): &&(&str, End)| word.trim_end().eq_ignore_ascii_case(name);
        let (_, how) = ENDS.iter().find(known)?;
        let number = digits(number)?;
        let (how, text) = (*how, "");
        self.ends = Some(Ending { how, number, text });
        Some(())
    }

    /// As other dialects see them.
    pub fn words(&self) -> Vec<String> {
        let flags = [
            (self.ack_required, ACK_REQUIRED),
            (self.urgent, "URGENT"),
            (self.fyi, "FYI"),
            (self.task, TASK),
            (self.escalate, ESCALATE),
        ];
        let set = flags.into_iter().filter(|(is_set, _)| *is_set);
        let ends = self.ends.iter().flat_map(|ending| {
            let named = ENDS.iter().filter(|(_, how)| *how == ending.how);
            named.map(|(name, _)| format!("{name} #{}", ending.number))
        });
        set.map(|(_, word)| word.to_owned()).chain(ends).collect()
    }
}

/// The line that a failure is known by.
pub fn first_error(text: &str) -> &str {
    let named = text.lines().find_map(|line| line.strip_prefix(FIRST_ERROR));
    let line = named.or_else(|| text.lines().next());
    line.unwrap_or_default().trim()
}

/// Every `#N` in a text, each once, the first ones if there are too many.
pub fn names(text: &str) -> Vec<u32> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices('#') {
        let rest = &text[at + 1..];
        let end = rest.find(|letter: char| !letter.is_ascii_digit());
        let number = digits(&rest[..end.unwrap_or(rest.len())]);
        let inside = text[..at].ends_with(char::is_alphanumeric);
        names.extend(number.filter(|number| !inside && !names.contains(number)));
        if names.len() == limits::NAMED_NUMBERS_MAX {
            break;
        }
    }
    names
}

/// Whether a text, without header and tags, begins by acknowledging.
pub fn is_ack(text: &str) -> bool {
    let end = text.find(|letter: char| !letter.is_alphanumeric());
    let first = &text[..end.unwrap_or(text.len())];
    let words = ["ACK", "ACKED", "ACKNOWLEDGED"];
    words.iter().any(|word| first.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::squidrun::header;

    fn read(body: &str) -> (Vec<String>, &str) {
        let (tags, rest) = parse(body);
        (tags.words(), rest)
    }

    #[test]
    fn a_tag_counts_only_directly_after_the_header() {
        for (text, tags, rest) in [
            ("x", &[][..], "x"),
            ("[URGENT] x", &["URGENT"], "x"),
            ("[urgent][FYI]x", &["URGENT", "FYI"], "x"),
            (
                " [ACK REQUIRED]\n[ TASK ]  [URGENT] fix it",
                &["ACK REQUIRED", "URGENT", "TASK"],
                "fix it",
            ),
            ("[FYI] [FYI]", &["FYI"], ""),
            ("please [URGENT] x", &[], "please [URGENT] x"),
            ("[SOON] [URGENT] x", &[], "[SOON] [URGENT] x"),
            ("[URGENT] [SOON] [FYI]", &["URGENT"], "[SOON] [FYI]"),
            ("[URGENT x", &[], "[URGENT x"),
            ("[DONE #3] it works", &["DONE #3"], "it works"),
            ("[FAILED #3]", &["FAILED #3"], ""),
            (
                "[ACK REQUIRED] [Blocked #18446744073709551615] no key",
                &["ACK REQUIRED", "BLOCKED #18446744073709551615"],
                "no key",
            ),
            ("[DONE] x", &[], "[DONE] x"),
            ("[DONE #x] x", &[], "[DONE #x] x"),
            ("[DONE #1] [DONE #2] x", &["DONE #1"], "[DONE #2] x"),
        ] {
            let (found, left) = read(text);
            assert_eq!(
                (found.as_slice(), left),
                (tags.map_owned().as_slice(), rest),
                "{text}"
            );
        }
    }

    trait Owned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl Owned for [&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|word| (*word).to_owned()).collect()
        }
    }

    #[test]
    fn the_sample_line_yields_its_parts() {
        let line = "(ARCH #5): [URGENT] Build is failing on main. Oracle, investigate.";
        let header = header::parse(line).expect("a header");
        assert_eq!((header.role, header.number), ("ARCH", 5));
        let (tags, rest) = parse(header.body);
        let urgent = true;
        assert_eq!(
            tags,
            Tags {
                urgent,
                ..Tags::default()
            }
        );
        assert_eq!(rest, "Build is failing on main. Oracle, investigate.");
    }

    #[test]
    fn an_end_has_what_follows_all_tags() {
        let (tags, rest) = parse("[DONE #7] [URGENT] shipped\nin two parts");
        let text = "shipped\nin two parts";
        let ends = Ending {
            how: End::Done,
            number: 7,
            text,
        };
        assert_eq!((tags.ends, rest), (Some(ends), text));
    }

    #[test]
    fn numbers_are_named_by_a_hash() {
        let max = limits::NAMED_NUMBERS_MAX;
        let many = |count: usize| (1..=count).map(|n| format!("#{n} ")).collect::<String>();
        for (text, found) in [
            ("", vec![]),
            ("#4", vec![4]),
            ("ACK #4, #5 (#6) and #4 again", vec![4, 5, 6]),
            ("issue#4 4# # #x #99999999999", vec![]),
            ("[DONE #3] ##8", vec![3, 8]),
        ] {
            assert_eq!(names(text), found, "{text}");
        }
        for (given, kept) in [(max - 1, max - 1), (max, max), (max + 1, max)] {
            assert_eq!(names(&many(given)).len(), kept, "{given}");
        }
    }

    #[test]
    fn an_acknowledgement_begins_with_ack() {
        for text in [
            "ACK",
            "ack: on it",
            "ACK #4",
            "Acknowledged.",
            "ACKED, next",
        ] {
            assert!(is_ack(text), "{text}");
        }
        for text in [
            "",
            "acknowledge this",
            "packs",
            "ACKLEY is out",
            "[ACK REQUIRED] x",
        ] {
            assert!(!is_ack(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_bounded_tags(text in "([\\[\\]# A-Z0-9]|\\[(TASK|FYI|DONE #1)\\]|\\PC){0,40}") {
            let (tags, rest) = parse(&text);
            prop_assert!(text.ends_with(rest) && tags.words().len() <= 6);
            prop_assert_eq!(parse(rest).0.ends.is_some() && tags.ends.is_none(), false);
            prop_assert!(names(&text).len() <= limits::NAMED_NUMBERS_MAX);
            let _ = is_ack(&text);
        }
    }
}
