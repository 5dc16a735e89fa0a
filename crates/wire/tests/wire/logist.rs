//! Logist seen from outside: the document's examples, its schemas, and the files of older programs.

use std::path::PathBuf;

use serde_json::{Value, json};
use switchboard_core::job::JobState;
use switchboard_wire::logist::schemas::{CHAT, MANIFEST, PREVIOUS, Published, SCHEMAS, VERSION};
use switchboard_wire::logist::{Index, Request, files, history, manifest, spec, words};
use switchboard_wire::parse;

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/logist");
    std::fs::read(folder.join(format!("{name}.json")))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

/// Whether everything that is said here is said there.
fn assert_holds(whole: &Value, part: &Value, place: &str) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, member) in part {
                assert_holds(&whole[name], member, &format!("{place}.{name}"));
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            assert_eq!(whole.len(), part.len(), "{place}");
            for (at, (whole, part)) in whole.iter().zip(part).enumerate() {
                assert_holds(whole, part, &format!("{place}[{at}]"));
            }
        }
        (Value::String(whole), Value::String(part)) if part.ends_with('Z') => {
            assert_eq!(whole.replace(".000Z", "Z"), *part, "{place}");
        }
        (whole, part) => assert_eq!(whole, part, "{place}"),
    }
}

#[test]
fn the_request_of_the_document_is_printed_as_it_stands() {
    // logist.request.job_and_phase, logist.request.thresholds, logist.request.accepted_formats
    let given = golden("request");
    let request: Request = parse(&given).unwrap();
    assert_eq!(serde_json::to_value(&request).unwrap(), value(&given));
}

#[test]
fn the_history_of_the_document_is_read_and_printed_with_all_that_it_says() {
    // logist.history.file, logist.history.decision, logist.history.raw
    let given = golden("history");
    let read = history::read(&given, "x").unwrap();
    let printed = serde_json::to_value(&read).unwrap();
    assert_holds(&printed, &value(&given), "history");
    // logist.evolution.version_field
    assert_eq!(printed["schema_version"], VERSION);
    assert_eq!(printed["recovery_points"][0]["id"], "phase-1-complete");
}

#[test]
fn both_shapes_of_a_recovery_point_are_one() {
    // logist.recovery.point_fields, logist.recovery.resume_phase, logist.recovery.rollback_files, logist.recovery.metadata
    let mut given = value(&golden("recovery"));
    given["job_id"] = "j".into();
    let read = history::read(given.to_string().as_bytes(), "x").unwrap();
    let printed = serde_json::to_value(&read).unwrap();
    assert_holds(
        &printed["recovery_points"],
        &given["recovery_points"],
        "points",
    );
    assert_eq!(
        printed["recovery_points"][0]["checkpoint_id"],
        "phase-implementation-complete"
    );
}

#[test]
fn the_old_programs_bare_list_is_a_history_and_is_numbered() {
    let each = |sequence: Option<u64>| {
        let mut one = json!({ "timestamp": "2025-01-29T14:30:45", "response": { "status": "SUCCESS", "action": "RETRY" } });
        if let Some(sequence) = sequence {
            one["sequence"] = sequence.into();
        }
        one
    };
    for (first, second) in [(None, None), (Some(0), Some(1)), (Some(1), Some(2))] {
        let list = json!([each(first), each(second)]).to_string();
        let read = history::read(list.as_bytes(), "j").unwrap();
        let numbers: Vec<u64> = read.interactions.iter().map(|one| one.sequence).collect();
        assert_eq!((read.job_id.as_str(), numbers), ("j", vec![1, 2]));
    }
    assert!(history::read(b"[1]", "j").is_err());
    assert!(history::read(b"7", "j").is_err());
}

#[test]
fn every_published_schema_is_one_of_draft_7_with_a_version() {
    // logist.response.schema_published, logist.evolution.version_field
    for schema in &SCHEMAS {
        let text = value(schema.text.as_bytes());
        assert_eq!(text["$schema"], "http://json-schema.org/draft-07/schema#");
        assert_eq!(text["type"], "object");
        let has_version = text["version"] == schema.version;
        assert_eq!(
            has_version,
            schema.version == VERSION,
            "the document's own has none"
        );
        assert_eq!(
            Published::find(schema.name, Some(schema.version))
                .unwrap()
                .text,
            schema.text
        );
    }
    assert_eq!(Published::find(CHAT, None).unwrap().version, VERSION);
    for (name, version, why) in [
        ("chat", None, "there is no schema \"chat\""),
        (CHAT, Some("0.9"), "older than what is read"),
        (CHAT, Some("2.0"), "newer than this program"),
        (CHAT, Some("x"), "not a version"),
    ] {
        let error = Published::find(name, version).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_manifest_is_held_to_the_documents_schema() {
    // logist.manifest.required, logist.manifest.identity, logist.manifest.status_enum, logist.manifest.current_phase,
    // logist.manifest.cost, logist.manifest.time, logist.manifest.history
    let whole = json!({
        "job_id": "j", "description": "d", "status": "DRAFT", "current_phase": null,
        "metrics": { "cumulative_cost": 0.34, "cumulative_time_seconds": 45.23 },
        "history": [{ "timestamp": "2025-01-29T14:30:45Z", "role": "Worker", "action": "COMPLETED", "evidence_files": [] }],
    });
    let strict = Published::find(MANIFEST, Some(PREVIOUS)).unwrap();
    let ours = Published::find(MANIFEST, None).unwrap();
    assert_eq!(strict.faults(&whole), []);
    assert_eq!(ours.faults(&whole), []);
    for (place, wrong) in [
        ("job_id", json!(7)),
        ("description", json!(7)),
        ("status", json!("FAILED")),
        ("current_phase", json!(1)),
        ("metrics.cumulative_cost", json!(-1)),
        ("metrics.cumulative_time_seconds", json!("1")),
        ("history.0.timestamp", json!("yesterday")),
        ("history.0.evidence_files.0", json!(1)),
    ] {
        let mut one = whole.clone();
        let pointer = format!("/{}", place.replace('.', "/"));
        match one.pointer_mut(&pointer) {
            Some(member) => *member = wrong,
            None => one["history"][0]["evidence_files"] = json!([wrong]),
        }
        for schema in [strict, ours] {
            let faults = schema.faults(&one);
            assert_eq!(faults[0].field.as_deref(), Some(place), "{faults:?}");
        }
    }
    for member in ["job_id", "status", "metrics"] {
        let mut one = whole.clone();
        one.as_object_mut().unwrap().remove(member);
        assert_eq!(
            ours.faults(&one)[0].to_string(),
            format!("{member}: is required")
        );
    }
    for state in JobState::ALL {
        let mut one = whole.clone();
        one["status"] = state.as_str().into();
        assert_eq!(ours.faults(&one), [], "{state}");
        one["status"] = words::strict(*state).as_str().into();
        assert_eq!(strict.faults(&one), [], "{state}");
    }
}

#[test]
fn older_files_are_brought_up_to_date_and_unknown_ones_refused() {
    // logist.evolution.migration
    let old = json!({ "job_id": "j", "status": "PAUSED", "mine": 1 });
    let new = files::migrate(old.to_string().as_bytes(), "j").unwrap();
    let expected = json!({ "job_id": "j", "status": "SUSPENDED", "mine": 1, "metrics": {}, "schema_version": "1.1" });
    assert_eq!(new, expected);
    assert_eq!(
        files::migrate(new.to_string().as_bytes(), "j").unwrap(),
        new
    );
    let index = files::migrate(br#"{"jobs":{},"queue":[],"current_job_id":null}"#, "j").unwrap();
    assert_eq!(index["schema_version"], VERSION);
    let list = files::migrate(b"[]", "j").unwrap();
    assert_eq!(
        (&list["job_id"], &list["interactions"]),
        (&json!("j"), &json!([]))
    );
    for (file, why) in [
        (
            r#"{"schema_version":"0.9","status":"DRAFT"}"#,
            "older than what is read",
        ),
        (
            r#"{"schema_version":1,"status":"DRAFT"}"#,
            "expected \"1.1\" or \"1.0\", not 1",
        ),
        (r#"{"status":"LOST"}"#, "expected one of DRAFT"),
        ("{}", "neither a manifest"),
        ("7", "expected"),
        ("{", "not valid JSON"),
    ] {
        let error = files::migrate(file.as_bytes(), "j")
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{file}: {error}");
    }
}

#[test]
fn states_are_read_by_their_old_names() {
    for (word, state) in [
        ("PAUSED", JobState::Suspended),
        ("FAILED", JobState::Canceled),
        ("PROVISIONING", JobState::InterventionRequired),
        ("EXECUTING", JobState::InterventionRequired),
        ("RECOVERING", JobState::InterventionRequired),
        ("HARVESTING", JobState::InterventionRequired),
    ] {
        let text = json!({ "job_id": "j", "status": word, "metrics": {} }).to_string();
        assert_eq!(
            manifest::read(text.as_bytes()).unwrap().status,
            state.as_str(),
            "{word}"
        );
    }
    for state in JobState::ALL {
        assert_eq!(words::state("status", state.as_str()), Ok(*state));
    }
}

#[test]
fn what_was_written_for_version_1_0_is_read_as_the_state_it_was() {
    let text =
        json!({ "job_id": "j", "status": "PENDING", "status_detail": "SUSPENDED", "metrics": {} })
            .to_string();
    let read = manifest::read(text.as_bytes()).unwrap();
    assert_eq!(
        (read.status.as_str(), read.status_detail.as_deref()),
        ("SUSPENDED", None)
    );
    let strict = manifest::strict(read);
    assert_eq!(
        (strict.status.as_str(), strict.status_detail.as_deref()),
        ("PENDING", Some("SUSPENDED"))
    );
    let plain = manifest::strict(
        manifest::read(br#"{"job_id":"j","status":"DRAFT","metrics":{}}"#).unwrap(),
    );
    assert_eq!(
        (plain.status.as_str(), plain.status_detail),
        ("DRAFT", None)
    );
}

#[test]
fn an_index_is_read_as_the_old_program_wrote_it() {
    let given = br#"{"current_job_id":null,"jobs":{"a":"/x/a"},"queue":["a"]}"#;
    let index = Index::read(given).unwrap();
    assert_eq!(index.jobs["a"], "/x/a");
    assert_eq!(serde_json::to_value(&index).unwrap(), value(given));
    assert_eq!(Index::read(b"{}").unwrap(), Index::default());
    for wrong in ["[]", "{", r#"{"jobs":[]}"#, r#"{"schema_version":"0.1"}"#] {
        Index::read(wrong.as_bytes()).expect_err(wrong);
    }
}

#[test]
fn a_spec_is_read_with_and_without_its_wrapper() {
    let inner = json!({
        "job_id": "j", "objective": "o", "phases": ["plan", { "name": "do", "worker_instructions": "now" }],
        "cost_threshold": 12.5, "mine": { "kept": true },
    });
    for text in [json!({ "job_spec": inner }).to_string(), inner.to_string()] {
        let read = spec::read(text.as_bytes()).unwrap();
        let id = spec::job_id("job_id", read.job_id.as_deref().unwrap()).unwrap();
        let limits = read.limits().unwrap();
        let core = read.over(spec::fresh(id)).unwrap();
        let names: Vec<&str> = core
            .phases
            .iter()
            .map(|phase| phase.name.as_str())
            .collect();
        assert_eq!((core.objective.as_str(), names), ("o", vec!["plan", "do"]));
        assert_eq!(core.phases[1].worker_instructions, "now");
        assert_eq!(limits.cost_micros, Some(125_000));
        assert_eq!(core.other.as_deref(), Some(r#"{"mine":{"kept":true}}"#));
    }
    let empty = spec::read(b"{}")
        .unwrap()
        .over(spec::fresh("j".into()))
        .unwrap();
    assert_eq!(empty.phases[0].name, "default");
}

#[test]
fn what_a_spec_may_not_say_is_named() {
    for (spec, field) in [
        (json!({ "phases": ["a", "a"] }), "phases[1].name"),
        (json!({ "phases": [" "] }), "phases[0].name"),
        (
            json!({ "phases": (0..201).map(|n| n.to_string()).collect::<Vec<_>>() }),
            "phases",
        ),
        (json!({ "roles": ["worker", "tester"] }), "roles[1]"),
        (json!({ "run": "later" }), "run"),
        (json!({ "run": "queue", "sensitive": true }), "run"),
        (json!({ "description": "x".repeat(262_145) }), "description"),
        (json!({ "mine": "x".repeat(65_536) }), "job_spec"),
    ] {
        let read = spec::read(spec.to_string().as_bytes()).unwrap();
        let error = read.over(spec::fresh("j".into())).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    for (spec, field) in [
        (json!({ "cost_threshold": -1 }), "cost_threshold"),
        (
            json!({ "time_threshold_minutes": 1e13 }),
            "time_threshold_minutes",
        ),
    ] {
        let error = spec::read(spec.to_string().as_bytes())
            .unwrap()
            .limits()
            .unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
    for (id, fits) in [
        ("a", true),
        ("", false),
        ("a b", false),
        ("ä", false),
        ("../a", false),
        (&*"x".repeat(100), true),
        (&*"x".repeat(101), false),
    ] {
        assert_eq!(spec::job_id("job_id", id).is_ok(), fits, "{id:?}");
    }
}
