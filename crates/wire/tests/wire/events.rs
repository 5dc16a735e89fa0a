//! `docs/events.md`: every event with its members, printed from the enum and checked against what the hub says.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use switchboard_core::{Event, Logged, Timestamp};
use switchboard_wire::jetpack::to_wire;

const SOURCE: &str = include_str!("../../../core/src/event.rs");

const HEAD: &str = "\
# Events

Every event of the log, as in `GET /api/v1/events` and its stream. Beside these members each has `seq` (its
number), `at` (ISO 8601) and `type`. Printed from `crates/core/src/event.rs`; `UPDATE_SNAPSHOTS=1 cargo test -p
switchboard-wire events` writes it anew. How to read the log: [http-api.md](http-api.md#events).

| type | members | what happened |
|---|---|---|
";

struct Variant {
    name: String,
    about: String,
    members: Vec<(String, String)>,
}

/// The variants of the enum as they are written.
fn variants() -> Vec<Variant> {
    let (_, body) = SOURCE.split_once("pub enum Event {\n").expect("the enum");
    let (body, _) = body.split_once("\n}\n").expect("its end");
    let mut found: Vec<Variant> = Vec::new();
    let (mut about, mut is_left_out) = (Vec::new(), false);
    for line in body.lines() {
        let (indent, text) = (line.len() - line.trim_start().len(), line.trim());
        if let Some(words) = text.strip_prefix("/// ") {
            about.push(words.to_owned());
        } else if let (4, Some((name, members))) = (indent, text.split_once(" {")) {
            let members = members.trim_end_matches([',', '}', ' ']);
            found.push(Variant {
                name: name.to_owned(),
                about: std::mem::take(&mut about).join(" "),
                members: members.split(", ").filter_map(member).collect(),
            });
        } else if text.starts_with("#[serde(") {
            is_left_out = text.contains("skip_serializing_if");
        } else if let (8, Some((name, kind))) = (indent, member(text)) {
            let kind = match std::mem::take(&mut is_left_out) {
                true => kind.replace("Option<", "Maybe<"),
                false => kind,
            };
            found
                .last_mut()
                .expect("a variant")
                .members
                .push((name, kind));
            about.clear();
        }
    }
    // That of a newer build has the words that it brings.
    found.retain(|variant| variant.name != "Newer");
    let words = switchboard_core::Event::KINDS.len();
    assert_eq!(found.len(), words, "every event has a word");
    found
}

/// The name of a member as it is told, and its type.
fn member(text: &str) -> Option<(String, String)> {
    let (name, kind) = text.split_once(": ")?;
    Some((camel(name.trim()), kind.trim_end_matches(',').to_owned()))
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |so_far, word| {
        let (head, tail) = word.split_at(1);
        so_far + &head.to_uppercase() + tail
    })
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

/// What a reader sees of a type, and an example of it in the ledger's own record.
fn shown(kind: &str) -> (String, Value) {
    if let Some(inner) = kind.strip_prefix("Option<") {
        let (words, example) = shown(inner.trim_end_matches('>'));
        return (format!("{words} or null"), example);
    }
    if let Some(inner) = kind.strip_prefix("Maybe<") {
        let (words, example) = shown(inner.trim_end_matches('>'));
        return (format!("{words}, if any"), example);
    }
    let (words, example) = match kind {
        "u8" | "u32" | "u64" | "usize" => ("number", json!(7)),
        "bool" => ("boolean", json!(true)),
        "String" => ("text", json!("words")),
        "Vec<String>" => ("texts", json!(["words"])),
        "Vec<AgentId>" => ("agent ids, if any", json!(["x-1"])),
        "Timestamp" => ("ISO 8601", json!(1_768_816_800_000_i64)),
        "Priority" => ("priority", json!("high")),
        "Phase" => ("phase", json!("testing")),
        "FailureKind" => ("failure type", json!("task_error")),
        "JobState" => ("job state", json!("PENDING")),
        "JobRole" => ("role", json!("Worker")),
        "JobAction" => ("action", json!("RETRY")),
        "RunStatus" => ("`SUCCESS`, `ERROR` or `TIMEOUT`", json!("SUCCESS")),
        "Halt" => ("`cost`, `time` or `iteration`", json!("cost")),
        "Resource" => ("`github` or `model`", json!("github")),
        id if id.ends_with("Id") => {
            return (snake(id.trim_end_matches("Id")) + " id", json!("x-1"));
        }
        other => panic!("say in this test how {other} is shown"),
    };
    (words.to_owned(), example)
}

/// The event as the hub tells it, made of an example of each member.
fn told(variant: &Variant) -> Map<String, Value> {
    let examples = variant
        .members
        .iter()
        .map(|(name, kind)| (name.clone(), shown(kind).1));
    let mut record: Map<String, Value> = examples.collect();
    record.insert("type".to_owned(), snake(&variant.name).into());
    let event: Event = serde_json::from_value(record.into())
        .unwrap_or_else(|error| panic!("{} is read otherwise: {error}", variant.name));
    let at = Timestamp(1_768_816_800_000);
    let event = to_wire::event(&Logged { seq: 1, at, event });
    assert_eq!(event.kind, snake(&variant.name));
    event.members
}

fn printed() -> String {
    let mut page = HEAD.to_owned();
    for variant in variants() {
        assert!(
            !variant.about.is_empty(),
            "{} has no sentence",
            variant.name
        );
        let members = told(&variant);
        let named: Vec<&String> = variant.members.iter().map(|(name, _)| name).collect();
        let mut found: Vec<&String> = members.keys().collect();
        found.sort_unstable_by_key(|name| named.iter().position(|it| it == name));
        assert_eq!(found, named, "the members of {}", variant.name);
        let cells = variant.members.iter().map(|(name, kind)| {
            let (words, _) = shown(kind);
            let is_text = members[name].is_string();
            assert!(
                is_text || !words.starts_with("ISO"),
                "{name} of {}",
                variant.name
            );
            format!("`{name}`: {words}")
        });
        let cells: Vec<String> = cells.collect();
        let (kind, about) = (snake(&variant.name), &variant.about);
        writeln!(page, "| `{kind}` | {} | {about} |", cells.join("; ")).expect("a string takes it");
    }
    page
}

#[test]
fn the_page_of_events_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    let printed = printed();
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &printed).expect("docs/events.md is writable");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == printed,
        "docs/events.md differs from the code; look at the change, then run the test with UPDATE_SNAPSHOTS=1"
    );
}
