//! Responses of every kind, good and bad.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const ROOT: &str = "/w";

/// A workspace with `a.txt`, `tests/`, `in` (a link to `a.txt`) and `out` (a link to `/etc`).
fn leads(path: &Path) -> Option<PathBuf> {
    let links: HashMap<&str, &str> = HashMap::from([
        ("/w", "/w"),
        ("/w/a.txt", "/w/a.txt"),
        ("/w/./a.txt", "/w/a.txt"),
        ("/w/tests/../a.txt", "/w/a.txt"),
        ("/w/tests", "/w/tests"),
        ("/w/in", "/w/a.txt"),
        ("/w/out", "/etc"),
        ("/w/out/passwd", "/etc/passwd"),
        ("/", "/"),
    ]);
    links.get(path.to_str()?).map(PathBuf::from)
}

fn judged(raw: &str) -> Judgement {
    let workspace = Workspace {
        root: Path::new(ROOT),
        leads: &leads,
    };
    let terms = Terms {
        workspace: Some(&workspace),
        ..Terms::default()
    };
    judge(raw, &terms)
}

fn response(change: impl Fn(&mut Value)) -> String {
    let mut whole = json!({
        "action": "COMPLETED", "evidence_files": ["a.txt"], "summary_for_supervisor": "Done.",
    });
    change(&mut whole);
    whole.to_string()
}

fn faults(raw: &str) -> Vec<Violation> {
    judged(raw)
        .faults
        .into_iter()
        .map(|fault| fault.violation)
        .collect()
}

#[test]
fn a_valid_response_is_what_it_says() {
    // logist.response.schema_action_enum, logist.response.more_members
    for action in JobAction::ALL {
        let raw = response(|it| {
            it["action"] = action.as_str().into();
            it["metrics"] = json!({ "cost_usd": 0.0034, "token_input": 10, "model": "m" });
            it["notes"] = json!(["x"]);
        });
        let found = judged(&raw);
        assert_eq!(
            (found.action, found.faults.len(), found.warnings.len()),
            (*action, 0, 0)
        );
        assert_eq!(found.evidence_files, ["a.txt"]);
        assert_eq!(found.summary, "Done.");
        assert_eq!(found.reported.cost_micros, Some(3400));
        assert_eq!(found.reported.tokens.map(|tokens| tokens.input), Some(10));
        assert_eq!(found.reported.model.as_deref(), Some("m"));
    }
    // logist.response.schema_evidence
    assert_eq!(faults(&response(|it| it["evidence_files"] = json!([]))), []);
}

#[test]
fn each_layer_names_what_it_finds() {
    // logist.validate.layers, logist.response.schema_required, logist.validate.action, logist.validate.summary
    use Violation::{Action, Malformed, Schema, Summary};
    let without = |member: &str| {
        response(|it| {
            it.as_object_mut().unwrap().remove(member);
        })
    };
    let with = |member: &str, value: Value| response(|it| it[member] = value.clone());
    let table: &[(String, &[Violation], &str)] = &[
        (
            without("action"),
            &[Action],
            "action_invalid: action: expected exactly one of COMPLETED, STUCK, RETRY, found none",
        ),
        (
            with("action", json!("completed")),
            &[Action],
            "found \"completed\"",
        ),
        (
            with("action", json!(["COMPLETED"])),
            &[Action],
            "found [\"COMPLETED\"]",
        ),
        (with("action", json!(7)), &[Action], "found 7"),
        (
            without("evidence_files"),
            &[Schema],
            "schema_violation: evidence_files: is required",
        ),
        (
            with("evidence_files", json!("a.txt")),
            &[Schema],
            "evidence_files: \"a.txt\" is not of type \"array\"",
        ),
        (
            with("evidence_files", json!(["a.txt", 1])),
            &[Schema],
            "evidence_files.1: 1 is not of type \"string\"",
        ),
        (
            without("summary_for_supervisor"),
            &[Summary],
            "summary_missing: summary_for_supervisor: is missing or blank",
        ),
        (
            with("summary_for_supervisor", json!(" \n\u{1}")),
            &[Summary],
            "is missing or blank",
        ),
        (
            with("summary_for_supervisor", json!(["x"])),
            &[Schema],
            "is not of type \"string\"",
        ),
        (
            with("summary_for_supervisor", json!("x".repeat(501))),
            &[Schema],
            "is longer than 500 characters",
        ),
        (
            "{}".to_owned(),
            &[Schema, Action, Summary],
            "evidence_files: is required",
        ),
        (
            String::new(),
            &[Malformed],
            "malformed_json: the response is empty; expected exactly one JSON object",
        ),
    ];
    for (raw, violations, why) in table {
        let found = judged(raw);
        assert_eq!(faults(raw), *violations, "{raw}");
        assert_eq!(found.action, JobAction::Stuck, "{raw}");
        let error = found.error().unwrap();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_summary_of_500_characters_passes() {
    // logist.response.schema_summary: characters, not bytes
    for (text, fits) in [
        ("ä".repeat(499), true),
        ("ä".repeat(500), true),
        ("ä".repeat(501), false),
    ] {
        let raw = response(|it| it["summary_for_supervisor"] = text.clone().into());
        assert_eq!(faults(&raw).is_empty(), fits, "{}", text.chars().count());
    }
}

#[test]
fn exactly_one_object_is_taken_and_nothing_around_it() {
    // logist.output.single_object, logist.output.no_extra_text
    let one = response(|_| {});
    let deep = format!("{{\"action\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    for (raw, why) in [
        (format!("{one}\n{one}"), "more than one JSON object"),
        (format!("Here you are: {one}"), "begins with \"Here you are"),
        (format!("{one} Done!"), "followed by \"Done!\""),
        (format!("\u{feff}{one}"), "begins with a byte order mark"),
        (format!("[{one}]"), "is a list"),
        (
            one[..one.len() - 1].to_owned(),
            "ends before the JSON object does",
        ),
        ("{\"action\": COMPLETED}".to_owned(), "is not valid JSON"),
        (
            "{\"action\":\"STUCK\",\"action\":\"COMPLETED\"}".to_owned(),
            "\"action\" is given twice",
        ),
        ("\"COMPLETED\"".to_owned(), "begins with"),
        (deep, "nested too deeply"),
        (format!("```json\n{one}\n```\nThat is all."), "begins with"),
        (
            format!("```json\n{one}\n```\n```json\n{one}\n```"),
            "followed by",
        ),
    ] {
        let found = judged(&raw);
        assert_eq!(found.faults.len(), 1, "{raw}");
        assert_eq!(found.faults[0].violation, Violation::Malformed, "{raw}");
        assert!(
            found.error().unwrap().contains(why),
            "{why}: {:?}",
            found.error()
        );
    }
    for fenced in [format!("```json\n{one}\n```"), format!("  ```\n{one}```\n")] {
        let found = judged(&fenced);
        assert_eq!(
            (found.action, found.faults.len()),
            (JobAction::Completed, 0),
            "{fenced}"
        );
        assert!(
            found.warnings[0].contains("code fence"),
            "{:?}",
            found.warnings
        );
    }
}

#[test]
fn evidence_lies_in_the_workspace_whatever_links_are_there() {
    // logist.response.evidence_relative, logist.validate.evidence, logist.error.file_invalid
    for (path, outside, is_missing) in [
        ("a.txt", false, false),
        ("./a.txt", false, false),
        ("tests/../a.txt", false, false),
        ("tests", false, false),
        ("in", false, false),
        ("gone.txt", false, true),
        ("tests/gone.txt", false, true),
        ("/w/a.txt", true, false),
        ("../a.txt", true, false),
        ("tests/../../a.txt", true, false),
        ("out", true, false),
        ("out/passwd", true, false),
        ("out/gone", true, false),
        ("", true, false),
        ("a\0", true, false),
    ] {
        let raw = response(|it| it["evidence_files"] = json!([path]));
        let found = judged(&raw);
        let is_violated = found
            .faults
            .iter()
            .any(|fault| fault.violation == Violation::Schema);
        assert_eq!(
            (is_violated, !found.missing.is_empty()),
            (outside, is_missing),
            "{path:?}"
        );
        assert_eq!(found.evidence_files.is_empty(), outside, "{path:?}");
        let is_told = found
            .warnings
            .iter()
            .any(|line| line.starts_with("file_path_invalid: "));
        assert_eq!(is_told, is_missing, "{:?}", found.warnings);
    }
}

#[test]
fn the_validator_says_yes_or_no_and_is_strict_if_asked() {
    // logist.testing.validator, logist.testing.validator_files
    let workspace = Workspace {
        root: Path::new(ROOT),
        leads: &leads,
    };
    let terms = Terms {
        workspace: Some(&workspace),
        ..Terms::default()
    };
    let gone = response(|it| it["evidence_files"] = json!(["gone"]));
    assert_eq!(validate(&gone, &terms, false), Ok(()));
    let why = validate(&gone, &terms, true).unwrap_err();
    assert_eq!(
        why,
        ["file_path_invalid: evidence_files[0]: \"gone\" does not exist in the workspace"]
    );
    assert_eq!(validate(&gone, &Terms::default(), true), Ok(()));
    assert!(validate("nonsense", &terms, false).is_err());
}

#[test]
fn only_accepted_formats_count() {
    let terms = Terms {
        accepted: &[JobAction::Stuck],
        ..Terms::default()
    };
    let found = judge(&response(|_| {}), &terms);
    assert_eq!(found.faults[0].violation, Violation::Action);
    assert!(
        found
            .error()
            .unwrap()
            .contains("one of STUCK, found \"COMPLETED\"")
    );
}

#[test]
fn the_wrapper_of_the_schema_before_is_still_taken() {
    // logist.evolution.compat_window
    let wrapped = |chars: usize| {
        let inner: Value = serde_json::from_str(&response(|it| {
            it["summary_for_supervisor"] = "x".repeat(chars).into()
        }))
        .unwrap();
        json!({ "response": inner }).to_string()
    };
    for (chars, fits, warnings) in [
        (500, true, 1),
        (501, true, 2),
        (1000, true, 2),
        (1001, false, 1),
    ] {
        let found = judged(&wrapped(chars));
        assert_eq!(
            (found.faults.is_empty(), found.warnings.len()),
            (fits, warnings),
            "{chars}: {found:?}"
        );
    }
}

#[test]
fn a_long_winded_summary_is_taken_with_a_warning() {
    // logist.output.summary_sentences
    for (text, warns) in [
        ("One. Two! Three?", false),
        ("One. Two. Three. Four", true),
        ("v1.2.3 is out", false),
    ] {
        let raw = response(|it| it["summary_for_supervisor"] = text.into());
        let found = judged(&raw);
        assert_eq!(
            (found.faults.len(), !found.warnings.is_empty()),
            (0, warns),
            "{text}"
        );
    }
    let raw = response(|it| it["summary_for_supervisor"] = "a\u{7}b\nc".into());
    assert_eq!(judged(&raw).summary, "ab c");
}

#[test]
fn evidence_is_kept_up_to_a_bound() {
    let most = limits::JOB_EVIDENCE_MAX;
    for (count, warns) in [(most - 1, false), (most, false), (most + 1, true)] {
        let raw = response(|it| it["evidence_files"] = vec!["a.txt"; count].into());
        let found = judged(&raw);
        assert_eq!(
            (found.evidence_files.len(), !found.warnings.is_empty()),
            (count.min(most), warns)
        );
    }
}

#[test]
fn a_stored_response_has_no_secrets_and_is_judged_the_same() {
    // logist.security.sanitize
    let token = "ghp_0123456789abcdefghij";
    let raw = response(|it| it["summary_for_supervisor"] = format!("Used {token}.").into());
    let clean = sanitized(&raw);
    assert!(!clean.contains(token));
    assert_eq!(judged(&clean).summary, "Used [redacted].");
    assert_eq!(
        sanitized(&format!("no JSON, but {token}")),
        "no JSON, but [redacted]"
    );
    let plain = response(|_| {});
    assert_eq!(sanitized(&plain), plain);
}

proptest! {
    #[test]
    fn whatever_is_printed_is_judged(raw in "(\\PC|\\{|\\}|\"action\"|\"COMPLETED\"|:|,|```|\n|\u{feff}|\\[|\\]|\"response\"){0,40}") {
        let found = judged(&raw);
        prop_assert!(found.faults.is_empty() || found.action == JobAction::Stuck);
        prop_assert_eq!(judged(&sanitized(&raw)).faults.is_empty(), found.faults.is_empty());
    }

    #[test]
    fn any_members_are_judged(action in any::<Option<String>>(), files in prop::collection::vec("\\PC{0,8}", 0..4), text in ".{0,600}", cost in any::<f64>()) {
        let raw = response(|it| {
            it["action"] = action.clone().into();
            it["evidence_files"] = files.clone().into();
            it["summary_for_supervisor"] = text.clone().into();
            it["metrics"] = json!({ "cost_usd": cost, "token_output": cost });
        });
        let found = judged(&raw);
        prop_assert!(found.summary.chars().count() <= 600);
        prop_assert!(found.faults.is_empty() || found.action == JobAction::Stuck);
    }
}
