//! Lines of a text that claim something: `DECISION: …`, `TASK: …`, `FINDING: …`, `BLOCKER: …`.

use switchboard_core::assertion::{Asserted, AssertionKind};
use switchboard_core::limits;

use super::tags;
use super::to_wire::text;

/// What a line begins with to be one of these.
pub const fn word(kind: AssertionKind) -> &'static str {
    match kind {
        AssertionKind::Decision => "DECISION",
        AssertionKind::Task => "TASK",
        AssertionKind::Finding => "FINDING",
        AssertionKind::Blocker => "BLOCKER",
    }
}

/// What a text, without header and tags, claims, in the order of its lines.
pub fn of(text: &str) -> impl Iterator<Item = (AssertionKind, &str)> {
    text.lines().filter_map(|line| {
        AssertionKind::ALL.iter().find_map(|kind| {
            let rest = line.trim_start().strip_prefix(word(*kind))?;
            let said = rest.strip_prefix(':')?.trim();
            (!said.is_empty()).then_some((*kind, said))
        })
    })
}

/// The same, as the rules take it.
pub(super) fn asserted(text: &str) -> Vec<Asserted> {
    let stated = of(text).map(|(kind, text)| Asserted {
        kind,
        text: text.to_owned(),
    });
    stated.take(limits::ASSERTIONS_PER_MESSAGE_MAX).collect()
}

/// What a message of another dialect claims.
pub fn of_payload(payload: &str) -> Vec<Asserted> {
    // Most claim nothing, and are not read.
    let mut words = AssertionKind::ALL.iter().map(|kind| word(*kind));
    if !words.any(|word| payload.contains(word)) {
        return Vec::new();
    }
    let text = text(payload);
    let (tags, rest) = tags::parse(&text);
    match tags.escalate {
        true => Vec::new(),
        false => asserted(rest),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_that_begin_with_a_word_and_a_colon_claim_something() {
        let text = "Summary\n DECISION: use SQLite \nTASK:x\nFINDING: a\nBLOCKER: b: c\n";
        let found: Vec<_> = of(text).collect();
        let expected = [
            (AssertionKind::Decision, "use SQLite"),
            (AssertionKind::Task, "x"),
            (AssertionKind::Finding, "a"),
            (AssertionKind::Blocker, "b: c"),
        ];
        assert_eq!(found, expected);
        for text in [
            "",
            "TASK x",
            "[TASK] x",
            "decision: x",
            "no DECISION: x",
            "TASK:",
            "SUBTASK: x",
        ] {
            assert_eq!(of(text).count(), 0, "{text}");
        }
    }

    #[test]
    fn a_message_of_another_dialect_claims_what_its_text_says() {
        for (payload, expected) in [
            (r#"{"text":"see\nDECISION: a\nTASK: b"}"#, &["a", "b"][..]),
            (r#"{"text":"[FYI] FINDING: a"}"#, &["a"]),
            (r#"{"subject":"BLOCKER","body":"no disk"}"#, &["no disk"]),
            (r#""TASK: a""#, &["a"]),
            (r#"{"text":"[ESCALATE] builder: x\nTASK: a"}"#, &[]),
            (r#"{"note":"TASK: a"}"#, &[]),
            (r#"{"text":"a task"}"#, &[]),
            ("null", &[]),
            ("TASK: a", &["a"]),
        ] {
            let found = of_payload(payload);
            let found: Vec<&str> = found.iter().map(|one| &*one.text).collect();
            assert_eq!(found, expected, "{payload}");
        }
        let many = format!(r#"{{"text":"{}"}}"#, "TASK: a\\n".repeat(100));
        assert_eq!(of_payload(&many).len(), limits::ASSERTIONS_PER_MESSAGE_MAX);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in "((TASK|FINDING|BLOCKER|DECISION)?:?\\PC{0,5}\n?){0,20}") {
            prop_assert!(of(&text).count() <= text.lines().count());
        }
    }
}
