//! Streams in the documented form of each program, with the version that they are of in the file's name.

use super::*;

fn read(format: Format, text: &str) -> (Told, Vec<String>) {
    let mut told = Told::new(format);
    let shown = text.lines().filter_map(|line| told.line(line)).collect();
    (told, shown)
}

#[test]
fn a_claude_stream_tells_session_words_tools_tokens_cost_and_progress() {
    let (told, shown) = read(Format::Claude, include_str!("golden/claude-2.1.jsonl"));
    assert_eq!(
        shown,
        [
            "I will look at the parser first.",
            "TodoWrite",
            "Edit src/parser.rs"
        ]
    );
    let session = "5f0c2b7e-8a55-4f5e-9d3c-0b6a1f2f7d10";
    let summary = "The parser reads comments now.";
    assert_eq!(told.session.as_deref(), Some(session));
    assert_eq!(told.summary.as_deref(), Some(summary));
    assert_eq!((told.tokens, told.cost_usd), (Some(23912), Some(0.1875)));
    assert_eq!(
        (told.percent, told.error, told.limit),
        (Some(25), None, None)
    );
}

#[test]
fn a_codex_stream_tells_session_words_commands_tokens_and_progress_and_no_cost() {
    let (told, shown) = read(Format::Codex, include_str!("golden/codex-0.60.jsonl"));
    let summary = "The parser reads comments now.";
    assert_eq!(shown, ["$ bash -lc ls", "changed src/parser.rs", summary]);
    let session = "0199a213-81c0-7800-8aa1-bbab2a035a53";
    assert_eq!(told.session.as_deref(), Some(session));
    assert_eq!(told.summary.as_deref(), Some(summary));
    assert_eq!((told.tokens, told.cost_usd), (Some(24885), None));
    assert_eq!(
        (told.percent, told.error, told.limit),
        (Some(50), None, None)
    );
}

#[test]
fn a_gemini_stream_tells_session_words_and_tokens_and_no_progress() {
    let (told, shown) = read(Format::Gemini, include_str!("golden/gemini-0.21.jsonl"));
    let expected = [
        "Looking.",
        "read_file src/parser.rs",
        "The parser reads ",
        "comments now.",
    ];
    assert_eq!(shown, expected);
    assert_eq!(told.session.as_deref(), Some("gem-1"));
    let summary = "The parser reads comments now.";
    assert_eq!(told.summary.as_deref(), Some(summary));
    assert_eq!(
        (told.tokens, told.percent, told.error),
        (Some(250), None, None)
    );
}

#[test]
fn a_usage_limit_is_told_with_its_reset_where_the_program_says_it() {
    let at = |seconds| {
        Some(Limit {
            reset: Some(Reset::At(seconds)),
        })
    };
    let table = [
        (
            Format::Claude,
            include_str!("golden/claude-2.1-limit.jsonl"),
            at(1_794_000_000),
        ),
        (
            Format::Claude,
            include_str!("golden/claude-1.0-limit.jsonl"),
            at(1_762_952_400),
        ),
        (
            Format::Codex,
            include_str!("golden/codex-0.60-limit.jsonl"),
            at(1_794_000_000),
        ),
        (
            Format::Gemini,
            include_str!("golden/gemini-0.21-limit.jsonl"),
            Some(Limit { reset: None }),
        ),
    ];
    for (format, text, limit) in table {
        let (told, _) = read(format, text);
        assert_eq!(told.limit, limit, "{text}");
        assert!(told.error.is_some(), "{text}");
    }
}

#[test]
fn what_is_no_event_is_shown_and_changes_nothing() {
    for format in [Format::Claude, Format::Codex, Format::Gemini] {
        let mut told = Told::new(format);
        for line in [
            "npm warn deprecated",
            "{\"type\":",
            "[1,2]",
            "\u{fffd}\u{0}",
        ] {
            assert_eq!(told.line(line).as_deref(), Some(line));
        }
        for line in ["{}", "{\"type\":7}", "{\"type\":\"unheard_of\",\"x\":[]}"] {
            assert_eq!(told.line(line), None, "{line}");
        }
        assert_eq!(told, Told::new(format));
    }
    // It would be an option of the program.
    let (told, _) = read(Format::Claude, r#"{"type":"system","session_id":"--yolo"}"#);
    assert_eq!(told.session, None);
}

#[test]
fn the_last_line_of_a_plain_program_is_its_summary() {
    let (told, shown) = read(Format::Text, "one\n two \n\n");
    assert_eq!(told.summary.as_deref(), Some("two"));
    assert_eq!(shown.len(), 3);
}

#[test]
fn a_long_answer_is_kept_whole_and_its_summary_is_short() {
    let long = "x".repeat(TEXT_CHARS_MAX + 1);
    for (format, line) in [
        (
            Format::Claude,
            format!(r#"{{"type":"result","result":"{long}"}}"#),
        ),
        (
            Format::Codex,
            format!(
                r#"{{"type":"item.completed","item":{{"type":"agent_message","text":"{long}"}}}}"#
            ),
        ),
        (
            Format::Gemini,
            format!(r#"{{"type":"message","role":"assistant","content":"{long}"}}"#),
        ),
    ] {
        let mut told = Told::new(format);
        told.line(&line);
        assert_eq!(told.answer.as_deref(), Some(&*long), "{format:?}");
        let summary = told.summary.expect("it said something");
        assert_eq!(summary.len(), TEXT_CHARS_MAX);
    }
}
