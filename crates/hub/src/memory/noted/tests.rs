//! What of an event is worth a record.

use std::convert::Infallible;

use switchboard_core::{Phase, Priority};

use super::*;

fn logged(event: Event) -> Logged {
    Logged {
        seq: 7,
        at: Timestamp(1000),
        event,
    }
}

fn task(title: &str, result: Option<&str>) -> Task {
    Task {
        result: result.map(Into::into),
        ..super::super::testing::task(21, title)
    }
}

fn noted_with(event: Event, task: Option<Task>) -> Option<Noted> {
    let found = note(&logged(event), |_| Ok::<_, Infallible>(task));
    let Ok(noted) = found;
    noted
}

fn completed() -> Event {
    Event::TaskCompleted {
        task: "T".into(),
        number: 21,
        agent: "builder-1".into(),
        epoch: 1,
    }
}

#[test]
fn a_completion_with_a_summary_is_a_decision() {
    let done = task(
        "Fix the login",
        Some(r#"{"summary":"Sessions\nare cookies"}"#),
    );
    let noted = noted_with(completed(), Some(done)).unwrap();
    assert_eq!(
        noted.fact,
        "done: #21 Fix the login: by builder-1: Sessions are cookies"
    );
    let decision = noted.decision.unwrap();
    assert_eq!(decision.title, "Fix the login");
    assert_eq!(decision.rationale, "Sessions are cookies");
    assert_eq!(noted.topics, ["rust", "fix", "login"]);
    assert_eq!(noted.links[0].target, "#21");
    assert_eq!((noted.seq, noted.at), (7, Timestamp(1000)));
    assert_eq!(Weight::of(&noted.fact), Weight::Done);
}

#[test]
fn a_task_that_is_gone_or_says_nothing_still_leaves_its_number() {
    let noted = noted_with(completed(), None).unwrap();
    assert_eq!(noted.fact, "done: #21: by builder-1");
    assert_eq!(noted.decision, None);
    for result in [None, Some("{}"), Some("7"), Some(r#"{"summary":" "}"#)] {
        let noted = noted_with(completed(), Some(task("Fix", result))).unwrap();
        assert_eq!(noted.fact, "done: #21 Fix: by builder-1", "{result:?}");
        assert_eq!(noted.decision, None);
    }
}

#[test]
fn each_event_worth_remembering_has_its_line() {
    let cases = [
        (
            Event::TaskFailed {
                task: "T".into(),
                number: 21,
                kind: FailureKind::QualityFailure,
                message: "two tests fail".to_owned(),
            },
            "failed: #21 Fix: quality_failure: two tests fail",
            Weight::Failed,
        ),
        (
            Event::TaskNeedsPerson {
                task: "T".into(),
                number: 21,
                agent: "a".into(),
                why: "no metrics".to_owned(),
                error_type: None,
                stage: None,
                attempts: None,
                remedy: None,
            },
            "person: #21 Fix: needs a person: no metrics",
            Weight::Person,
        ),
        (
            Event::LearningStored {
                text: "the build needs clang".to_owned(),
                task: Some("T".into()),
                agent: Some("a".into()),
            },
            "learned: a (#21 Fix): the build needs clang",
            Weight::Learned,
        ),
        (
            Event::ErrorReported {
                agent: "worker-3".into(),
                error: "20260212-004102Z-worker-3-attempt-2".to_owned(),
                task: Some("T".into()),
                number: 21,
                stage: "VALIDATE".to_owned(),
                error_type: "tests_failed".to_owned(),
                attempt: 2,
                message: "exit 1".to_owned(),
            },
            "error: #21 Fix: tests_failed of worker-3 at VALIDATE, attempt 2: exit 1",
            Weight::Error,
        ),
        (
            Event::ReleasePublished {
                by: "operator".to_owned(),
                release: "v1.2".to_owned(),
                main_sha: Some("0123abcd".to_owned()),
                image_tag: None,
            },
            "release: v1.2: published by operator, main 0123abcd",
            Weight::Release,
        ),
        (
            Event::MemoryNoted {
                agent: "worker-3".into(),
                event_type: "task_progress.v1".to_owned(),
                text: "flaky on Tuesdays".to_owned(),
            },
            "note: worker-3, task_progress.v1: flaky on Tuesdays",
            Weight::Note,
        ),
        (
            Event::BaselineSet {
                by: "steward".to_owned(),
                snapshot: None,
            },
            "baseline: set by steward",
            Weight::Other,
        ),
        (
            Event::WriteUndone {
                table: "tasks".to_owned(),
                key: "T".to_owned(),
                why: "no such status".to_owned(),
            },
            "undone: T in tasks: no such status",
            Weight::Other,
        ),
    ];
    for (event, fact, weight) in cases {
        let kind = event.kind().to_owned();
        let noted = noted_with(event, Some(task("Fix", None))).unwrap();
        assert_eq!(
            (noted.fact.as_str(), noted.event_type.as_str()),
            (fact, kind.as_str())
        );
        assert_eq!(Weight::of(&noted.fact), weight, "{fact}");
    }
}

#[test]
fn signs_of_life_claims_progress_and_the_memory_itself_are_not_worth_a_line() {
    let idle = [
        Event::TaskClaimed {
            task: "T".into(),
            number: 1,
            agent: "a".into(),
            epoch: 1,
        },
        Event::TaskProgressed {
            task: "T".into(),
            number: 1,
            agent: None,
            epoch: 1,
            phase: Phase::Testing,
            percent: 50,
            note: String::new(),
        },
        Event::TaskCreated {
            task: "T".into(),
            number: 1,
            title: String::new(),
            priority: Priority::Low,
            status: "ready".to_owned(),
        },
        Event::AgentSilent { agent: "a".into() },
        Event::EngramEvicted { engram: "e".into() },
    ];
    for event in idle {
        assert_eq!(noted_with(event.clone(), None), None, "{event:?}");
    }
}

#[test]
fn nothing_secret_is_noted_wherever_it_stands() {
    // agentbus.security.no_secrets
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let with = |text: &str| format!("{text} {token} {text}");
    let result = serde_json::json!({"summary": with("cloned")}).to_string();
    let done = task(&with("clone"), Some(&result));
    let told = [
        noted_with(completed(), Some(done.clone())),
        noted_with(
            Event::MemoryNoted {
                agent: "a".into(),
                event_type: token.clone(),
                text: with("x"),
            },
            None,
        ),
        noted_with(
            Event::ReleasePublished {
                by: "a".to_owned(),
                release: token.clone(),
                main_sha: None,
                image_tag: None,
            },
            None,
        ),
        noted_with(
            Event::LearningStored {
                text: with("x"),
                task: Some("T".into()),
                agent: None,
            },
            Some(done),
        ),
    ];
    for noted in told {
        let noted = format!("{:?}", noted.unwrap());
        assert!(!noted.contains("ghp_"), "{noted}");
        assert!(!noted.to_lowercase().contains("a1b2a1b2"), "{noted}");
    }
}

#[test]
fn lines_are_bounded_whatever_an_event_says() {
    let long = "word ".repeat(4000);
    let result = serde_json::json!({"summary": long}).to_string();
    let noted = noted_with(completed(), Some(task(&long, Some(&result)))).unwrap();
    assert!(noted.fact.len() <= FACT_BYTES_MAX);
    let decision = noted.decision.unwrap();
    assert!(decision.title.len() <= FACT_TITLE_BYTES_MAX);
    assert!(decision.rationale.len() <= RATIONALE_BYTES_MAX);
    assert!(noted.topics.len() <= TOPICS_PER_RECORD);
}
