//! The bus seen from outside: golden frames, envelopes and payloads by table, sessions in virtual time. Noise is in `tests/fuzz`.

mod documented;
mod envelope;
mod golden;
mod memory;
mod parts;
mod payload;
mod session;

use std::path::PathBuf;

use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The golden files, by name without `.json`.
pub fn golden_names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder("golden/agentbus"))
        .expect("the folder of golden files")
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.into_string().expect("a name"))
        .map(|name| name.strip_suffix(".json").expect("only JSON").to_owned())
        .collect();
    names.sort();
    names
}

/// One golden frame, with the end of its line.
pub fn golden_line(name: &str) -> Vec<u8> {
    std::fs::read(folder("golden/agentbus").join(format!("{name}.json")))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn golden(name: &str) -> Value {
    serde_json::from_slice(&golden_line(name)).expect("JSON")
}

/// Sets a member.
pub fn set(value: &mut Value, pointer: &str, new: Value) {
    let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
    match value.pointer_mut(parent).expect("the parent is there") {
        Value::Object(members) => {
            members.insert(member.to_owned(), new);
        }
        Value::Array(items) => items[member.parse::<usize>().expect("an index")] = new,
        other => panic!("{parent} is {other}"),
    }
}

/// Takes a member out.
pub fn take(value: &mut Value, pointer: &str) -> Value {
    let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
    value
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .and_then(|members| members.remove(member))
        .unwrap_or_else(|| panic!("{pointer} is not there"))
}
