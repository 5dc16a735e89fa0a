//! What is said, by frame and by file, as the verb.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_core::assertion::AssertionKind;
use switchboard_core::talk::Gist;
use switchboard_core::{Priority, TaskKind, To, limits};
use switchboard_wire::Json;
use switchboard_wire::squidrun::{Addressees, Roles, Saying, Status, from_wire, trigger};

use super::{SESSION, golden, say, saying, spoken, try_say};

fn by_file(name: &str, text: &str) -> Saying {
    let roles = Roles::default();
    let to = trigger::target_of(name, &roles).expect("a target");
    let text = trigger::decode(text.as_bytes()).expect("a text");
    Saying::by_file(text, to, &roles)
}

#[test]
fn a_send_becomes_the_verb() {
    let roles = Roles::default();
    let say = say(Saying::by_send(
        spoken(&golden("in.send")),
        roles.speaker("1"),
    ));
    assert_eq!(
        (say.id.as_str(), say.from.id().as_str()),
        ("hm-1794728661198-ol187i", "architect")
    );
    assert_eq!(say.to, To::One("builder".into()));
    assert_eq!(say.corr_id.as_str(), "hm-1794728661198-ol187i");
    assert_eq!(
        (say.number, say.header_role),
        (Some(5), Some("architect".into()))
    );
    assert_eq!(
        (say.priority, say.ack_required, say.once),
        (Priority::Critical, false, true)
    );
    assert!(say.task.is_none() && say.bound_to.is_none() && say.take_up.is_empty());
    let text = "(ARCH #5): [URGENT] Build is failing on main. Oracle, investigate.";
    let body = format!(r#"{{"text":"{text}""#);
    assert_eq!(&say.payload[..say.body_bytes], body);
    let about = r#","role":"architect","seq":5,"tags":["URGENT"],"metadata":{"envelope_version":"hm-envelope-v1","envelope":{"target":{"role":"builder"}},"attempt":1},"session":3}"#;
    assert_eq!(&say.payload[say.body_bytes..], about);
}

#[test]
fn the_same_message_by_file_is_the_same_body_under_the_same_id() {
    let text = "(BUILDER #2): FINDING: test\nand \"more\"";
    let frame = |content: &str| {
        let mut saying = saying("builder", "arch", content);
        saying.id = Some("hm-1".to_owned());
        say(saying)
    };
    let file = format!(
        "\u{feff}[HM-MESSAGE-ID:hm-1]\r\n{text}\r\n[PROJECT CONTEXT] name=demo | path=/home/u/demo\r\n"
    );
    let by_file = say(by_file("1.txt", &file));
    for content in [
        text,
        &format!("{text}\n"),
        &format!("{text}\n[PROJECT CONTEXT] name=x"),
        &file,
    ] {
        let said = frame(content);
        assert_eq!(
            (&said.id, &said.from, &said.to),
            (&by_file.id, &by_file.from, &by_file.to)
        );
        let body = |say: &switchboard_core::verb::Say| say.payload[..say.body_bytes].to_owned();
        assert_eq!(body(&said), body(&by_file), "{content}");
    }
    let payload: Value = serde_json::from_str(&by_file.payload).expect("JSON");
    let project = json!({ "name": "demo", "path": "/home/u/demo" });
    assert_eq!(
        payload["metadata"],
        json!({ "fallback": true, "project": project })
    );
    assert!(!by_file.once);
    let metadata = Some(json!({ "project": { "session_id": "s" } }).into());
    let told = say(Saying {
        metadata,
        ..saying("2", "1", &file)
    });
    let payload: Value = serde_json::from_str(&told.payload).expect("JSON");
    assert_eq!(
        payload["metadata"]["project"],
        json!({ "session_id": "s" }),
        "the frame says more"
    );
}

#[test]
fn a_line_of_a_file_or_its_header_says_who_speaks() {
    for (text, from) in [
        ("(ARCH #1): x", "architect"),
        ("[HM-MESSAGE-ID:a]\n(ANA #1): x", "oracle"),
        ("(BUILDER-BG-2 #1): x", "builder-bg-2"),
        ("(HUB #1): x", "cli"),
        ("(NOBODY #1): x", "cli"),
        ("x", "cli"),
        ("[HM-MESSAGE-ID:a]\n[HM-FROM:devops]\nx", "builder"),
        ("[HM-FROM:oracle]\n(ARCH #1): x", "oracle"),
        ("[HM-FROM:user]\nx", "cli"),
        ("[HM-FROM:nobody]\n(ARCH #1): x", "architect"),
        ("x\n[HM-FROM:oracle]", "cli"),
    ] {
        assert_eq!(
            say(by_file("2.txt", text)).from.id().as_str(),
            from,
            "{text}"
        );
    }
}

#[test]
fn a_message_without_a_header_is_said_and_marked() {
    let without = say(saying("builder", "oracle", "[FYI] look at #3 and #4"));
    let payload: Value = serde_json::from_str(&without.payload).expect("JSON");
    assert_eq!(payload["metadata"], json!({ "unsequenced": true }));
    assert_eq!(
        (&payload["role"], &payload["seq"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (without.number, without.names, without.priority),
        (None, vec![3, 4], Priority::Low)
    );
}

#[test]
fn a_header_of_another_role_is_said_and_marked() {
    for (text, role, mark) in [
        ("(ORACLE #1): x", json!("oracle"), true),
        ("(DEVOPS #1): x", json!("builder"), false),
        ("(NOBODY #1): x", json!("NOBODY"), false),
    ] {
        let payload = say(saying("builder", "1", text)).payload;
        let payload: Value = serde_json::from_str(&payload).expect("JSON");
        assert_eq!(payload["role"], role, "{text}");
        assert_eq!(
            payload["metadata"]["headerMismatch"] == json!(true),
            mark,
            "{text}"
        );
    }
}

#[test]
fn every_kind_of_addressee_becomes_its_recipients() {
    let to = |to: Addressees, from: &str| {
        let said = try_say(Saying {
            to,
            ..saying(from, "", "(X #1): x")
        });
        said.map(|say| (say.to, say.bound_to.map(|owner| owner.to_string())))
    };
    let one = |word: &str| Addressees::One(word.to_owned());
    for (addressees, from, recipients, owner) in [
        (one("devops"), "1", To::One("builder".into()), None),
        (one("user"), "1", To::One("user".into()), None),
        (one("telegram"), "1", To::One("telegram".into()), None),
        (
            one("bg-2-3"),
            "2",
            To::One("builder-bg-3".into()),
            Some("builder".to_owned()),
        ),
        (Addressees::All, "1", To::Everyone, None),
        (
            Addressees::Others("builder".into()),
            "builder",
            To::Several(vec!["architect".into(), "oracle".into()]),
            None,
        ),
        (
            Addressees::Others("builder".into()),
            "oracle",
            To::One("architect".into()),
            None,
        ),
    ] {
        assert_eq!(to(addressees, from).ok(), Some((recipients, owner)));
    }
    let refused = to(one("nobody"), "builder").expect_err("an unknown target");
    assert_eq!(refused.status, Status::InvalidTarget);
    assert_eq!(
        refused.why.to_string(),
        "target: nobody is called \"nobody\""
    );
    let unsaid = to(one(" "), "builder").expect_err("no target");
    assert_eq!(unsaid.why.to_string(), "target: is required");
    assert_eq!(unsaid.status, Status::InvalidTarget);
    let record = refused.record.expect("it has an id");
    assert_eq!(
        (record.message.as_str(), record.to.as_str()),
        ("m1", "nobody")
    );
    assert_eq!(
        (record.from.as_str(), record.reason),
        ("builder", "invalid_target")
    );
    assert!(record.payload.starts_with(r#"{"text":"(X #1): x","#));
}

#[test]
fn the_rules_refusal_is_kept_with_what_was_said() {
    let said = say(saying("builder-bg-1", "architect", "x"));
    let record = from_wire::refuse(&said, Status::OwnerBindingViolation);
    assert_eq!(
        (record.from.as_str(), record.to.as_str()),
        ("builder-bg-1", "architect")
    );
    assert_eq!(
        (record.reason, record.payload),
        ("owner_binding_violation", said.payload)
    );
}

#[test]
fn priorities_come_from_tags_and_then_from_the_frame() {
    let priority = |said: Option<&str>, text: &str| {
        let priority = said.map(str::to_owned);
        say(Saying {
            priority,
            ..saying("1", "2", text)
        })
        .priority
    };
    for (said, text, is) in [
        (None, "x", Priority::Medium),
        (Some("normal"), "x", Priority::Medium),
        (Some("whatever"), "x", Priority::Medium),
        (Some("Urgent"), "x", Priority::Critical),
        (Some("critical"), "x", Priority::Critical),
        (Some("high"), "x", Priority::High),
        (Some("low"), "x", Priority::Low),
        (Some("low"), "(A #1): [URGENT] x", Priority::Critical),
        (Some("urgent"), "[FYI] x", Priority::Low),
        (Some("high"), "x [URGENT]", Priority::High),
    ] {
        assert_eq!(priority(said, text), is, "{said:?} {text}");
    }
}

#[test]
fn a_task_is_made_of_its_text() {
    let task = |text: &str| say(saying("1", "2", text)).task;
    assert_eq!(task("(ARCH #1): fix it [TASK]"), None);
    let long = format!("{}{}", "ä".repeat(80), "b");
    for (text, title, description) in [
        ("(ARCH #1): [TASK] fix the build", "fix the build", None),
        (
            "[URGENT] [TASK] fix\nthe build",
            "fix",
            Some("fix\nthe build"),
        ),
        (&format!("[TASK] {long}"), &*"ä".repeat(80), Some(&*long)),
        ("[TASK]", "task", None),
    ] {
        let task = task(text).expect("a task");
        assert_eq!((task.id.as_str(), task.corr_id.as_str()), ("sq:m1", "m1"));
        assert_eq!(
            (&*task.about.title, task.about.description.as_deref()),
            (title, description)
        );
        assert_eq!(
            (task.about.max_retries, task.about.kind),
            (0, TaskKind::Custom)
        );
    }
    let urgent = task("[URGENT] [TASK] x").expect("a task");
    assert_eq!(urgent.about.priority, Priority::Critical);
}

#[test]
fn acknowledgements_are_asked_for_and_given_in_the_text() {
    let asks = say(saying("1", "2", "(ARCH #4): [ACK REQUIRED] stop"));
    assert!(asks.ack_required && !asks.is_ack && asks.names.is_empty());
    let tells = say(saying("1", "2", "(ARCH #5): [FYI] all is well"));
    assert!(!tells.ack_required && !tells.is_ack);
    let gives = say(saying("2", "1", "(BUILDER #9): [FYI] ACK #4"));
    assert!(gives.is_ack && !gives.ack_required);
    assert_eq!(gives.names, [4]);
}

#[test]
fn a_check_in_and_words_that_say_nothing_are_noticed() {
    for (text, gist) in [
        (
            "(BUILDER #1): Builder online. Standing by.",
            Some(Gist::CheckIn),
        ),
        ("[FYI] devops ONLINE", Some(Gist::CheckIn)),
        ("Oracle online", None),
        ("Builder is online", None),
        ("Builder", None),
        ("Okay.", Some(Gist::EmptyAck)),
        ("(BUILDER #2): Received!", Some(Gist::EmptyAck)),
        ("Got it", Some(Gist::EmptyAck)),
        ("ACK #4", None),
        ("Okay, tests pass", None),
    ] {
        assert_eq!(say(saying("builder", "1", text)).gist, gist, "{text}");
    }
}

#[test]
fn an_id_is_given_in_the_frame_or_in_the_text_or_made() {
    let with = |id: Option<&str>, text: &str| {
        let id = id.map(str::to_owned);
        try_say(Saying {
            id,
            ..saying("1", "2", text)
        })
    };
    let id = |id: Option<&str>, text: &str| with(id, text).map(|say| say.id.to_string());
    assert_eq!(id(Some("a"), "[HM-MESSAGE-ID:b]\nx").as_deref(), Ok("a"));
    assert_eq!(id(None, "[HM-MESSAGE-ID:b]\nx").as_deref(), Ok("b"));
    assert_eq!(id(None, "x").as_deref(), Ok("msg_fresh"));
    let max = limits::ID_BYTES_MAX - 3;
    for (bytes, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
        assert_eq!(id(Some(&"x".repeat(bytes)), "x").is_ok(), fits, "{bytes}");
    }
    let refused = with(None, "[HM-MESSAGE-ID:a b]\nx").expect_err("no id");
    assert_eq!(
        (refused.status, refused.record),
        (Status::InvalidMessage, None)
    );
}

#[test]
fn what_says_nothing_or_too_much_is_refused() {
    for text in [
        "",
        " \n",
        "\u{0}\u{1b}",
        "[HM-MESSAGE-ID:a]\n[PROJECT CONTEXT] name=x",
    ] {
        let refused = try_say(saying("1", "2", text)).expect_err("nothing is said");
        assert_eq!(refused.why.to_string(), "content: must not be empty");
        assert_eq!(refused.status, Status::InvalidMessage);
    }
    let empty = say(saying("1", "2", "x")).payload.len() - 1;
    let max = limits::PAYLOAD_BYTES_MAX - empty;
    for (bytes, fits) in [(max - 1, true), (max, true), (max + 1, false)] {
        let said = try_say(saying("1", "2", &"x".repeat(bytes)));
        assert_eq!(said.is_ok(), fits, "{bytes}");
        if let Some(record) = said.err().and_then(|refused| refused.record) {
            let kept: Value = serde_json::from_str(&record.payload).expect("JSON");
            let text = kept["text"].as_str().map_or(0, str::len);
            assert_eq!(text, limits::DETAILS_BYTES_MAX);
        }
    }
}

#[test]
fn a_trace_is_the_correlation() {
    let roles = Roles::default();
    let say = say(Saying::by_broadcast(
        spoken(&golden("in.broadcast")),
        roles.speaker("1"),
    ));
    assert_eq!((say.corr_id.as_str(), say.to), ("trace-1", To::Everyone));
}

proptest! {
    #[test]
    fn anything_said_is_bounded_or_refused(
        content in "(\\[HM-MESSAGE-ID:\\PC{0,5}\\]\n)?(\\(ARCH #[0-9]{0,3}\\): )?(\\[(TASK|FYI)\\] ?)?(\\PC|\n|\u{0}){0,40}",
        metadata in prop::sample::select(vec!["{}", "{\"envelope\":{\"content\":1}}", "{\"envelope\":2,\"a\":[ ]}"]),
    ) {
        let metadata = Json::from_text(metadata.to_owned()).ok();
        let saying = Saying { id: None, metadata, ..saying("1", "2", &content) };
        match try_say(saying) {
            Err(refused) => prop_assert_eq!(refused.status, Status::InvalidMessage),
            Ok(say) => {
                let payload: Value = serde_json::from_str(&say.payload).expect("JSON");
                prop_assert_eq!(&payload["session"], &json!(SESSION));
                let text = serde_json::to_string(&payload["text"]).expect("JSON");
                let body = format!("{{\"text\":{text}");
                prop_assert_eq!(&say.payload[..say.body_bytes], body);
                prop_assert!(say.names.len() <= limits::NAMED_NUMBERS_MAX);
            }
        }
    }
}

#[test]
fn lines_that_claim_something_are_told_apart() {
    let text = "(ARCH #1): [FYI] DECISION: ship it\nbecause\nBLOCKER: disk\n  TASK: mend it";
    let said = say(saying("architect", "builder", text)).claims;
    let said: Vec<_> = said.iter().map(|it| (it.kind, it.text.as_str())).collect();
    let expected = [
        (AssertionKind::Decision, "ship it"),
        (AssertionKind::Blocker, "disk"),
        (AssertionKind::Task, "mend it"),
    ];
    assert_eq!(said, expected);
    let most = limits::ASSERTIONS_PER_MESSAGE_MAX;
    for (lines, kept) in [(most - 1, most - 1), (most, most), (most + 1, most)] {
        let text = "FINDING: x\n".repeat(lines);
        assert_eq!(say(saying("oracle", "1", &text)).claims.len(), kept);
    }
}

#[test]
fn an_escalation_is_known_by_its_first_error_and_its_log_is_only_a_log() {
    let text = "[URGENT] [ESCALATE] builder: deploy fails\nfirst error: no space left\n\nend of the log:\nTASK: x #4";
    let said = say(saying("builder", "architect", text));
    assert_eq!(said.failed.as_deref(), Some("no space left"));
    assert_eq!((said.claims, said.names), (vec![], vec![]));
    assert_eq!(said.priority, Priority::Critical);
    let said = say(saying(
        "builder",
        "architect",
        "(BUILDER #1): [ESCALATE] no key\nx",
    ));
    assert_eq!(said.failed.as_deref(), Some("no key"), "by hand");
    let said = say(saying("builder", "architect", "please [ESCALATE] this"));
    assert_eq!(said.failed, None);
}
