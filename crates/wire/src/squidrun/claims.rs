//! Lines of a text that claim something: `DECISION: …`, `TASK: …`, `FINDING: …`, `BLOCKER: …`.

use switchboard_core::assertion::AssertionKind;

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

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in "((TASK|FINDING|BLOCKER|DECISION)?:?\\PC{0,5}\n?){0,20}") {
            prop_assert!(of(&text).count() <= text.lines().count());
        }
    }
}
