//! The table of `docs/agentbus.md`: it has every member that a director takes, with the bound that holds.

use std::collections::BTreeSet;

use serde_json::Value;
use switchboard_wire::agentbus::message::{Inbound, MESSAGES};

use super::payload::read;
use super::{folder, golden, set, take};

struct Row {
    message: String,
    member: String,
    optional: bool,
    limit: String,
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(folder("../../docs/agentbus.md")).expect("the document");
    let begin = "| message | member | type | limit |\n";
    let table = text.split_once(begin).expect("the table is there").1;
    let mut message = String::new();
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let bare = |cell: &str| cell.replace('`', "");
        if !cells[1].is_empty() {
            message = bare(cells[1]);
        }
        let member = bare(cells[2]);
        Row {
            message: message.clone(),
            optional: member.ends_with('?'),
            member: member.trim_end_matches('?').to_owned(),
            limit: cells[4].to_owned(),
        }
    })
    .collect()
}

/// `a.b[].c` in a payload.
fn pointer(member: &str) -> String {
    format!("/{}", member.replace('.', "/").replace("[]", "/0"))
}

/// The number that a limit begins with, and what follows it.
fn bound(limit: &str) -> Option<(usize, &str)> {
    let limit = limit.strip_prefix("0 to ").unwrap_or(limit);
    let end = limit.find(|letter: char| !letter.is_ascii_digit() && letter != ',');
    let (number, rest) = limit.split_at(end.unwrap_or(limit.len()));
    let number = number.replace(',', "").parse().ok()?;
    Some((number, rest.trim_start()))
}

/// A value of this size, in place of the one that is there.
fn sized(there: &Value, unit: &str, size: usize) -> Value {
    match there {
        Value::Number(_) => size.into(),
        Value::Array(items) => vec![items[0].clone(); size].into(),
        Value::Object(_) if unit.starts_with("bytes") => {
            serde_json::json!({ "x": "x".repeat(size - r#"{"x":""}"#.len()) })
        }
        _ => "x".repeat(size).into(),
    }
}

#[test]
fn every_member_is_documented() {
    let known: BTreeSet<(String, String)> = rows()
        .into_iter()
        .map(|row| (row.message, row.member))
        .collect();
    let inbound = MESSAGES.iter().map(|usage| usage.message);
    for message in inbound.filter(|message| Inbound::includes(*message)) {
        let name = message.as_str();
        let mut members = Vec::new();
        collect(&golden(name)["payload"], "", &mut members);
        for member in members {
            // What is passed on as it is has members of its own, and the signature a table.
            let is_known = |place: &str| known.contains(&(name.to_owned(), place.to_owned()));
            let mut kept_whole = ["event.", "body.", "auth."].iter();
            let outer = kept_whole.find(|outer| member.starts_with(**outer));
            let place = outer.map_or(member.as_str(), |outer| outer.trim_end_matches('.'));
            assert!(is_known(place), "{name}: {member} is not in the table");
        }
    }
}

fn collect(value: &Value, place: &str, into: &mut Vec<String>) {
    if !place.is_empty() {
        into.push(place.to_owned());
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let dot = if place.is_empty() { "" } else { "." };
                collect(member, &format!("{place}{dot}{name}"), into);
            }
        }
        Value::Array(items) => collect(&items[0], &format!("{place}[]"), into),
        _ => {}
    }
}

#[test]
fn every_documented_bound_is_the_one_that_holds() {
    let mut bounds = 0;
    for row in rows() {
        let (name, at) = (row.message.as_str(), pointer(&row.member));
        let payload = golden(name)["payload"].take();
        let there = payload.pointer(&at).unwrap_or_else(|| panic!("{name}{at}"));
        if row.optional {
            let mut without = payload.clone();
            take(&mut without, &at);
            // A release needs one, and nothing else here depends on what it says.
            if (name, at.as_str()) != ("operator_command.v1", "/release") {
                read(name, &without).unwrap_or_else(|fault| panic!("{name}{at}: {fault}"));
            }
        }
        let Some((max, unit)) = bound(&row.limit).filter(|(_, unit)| !unit.contains("other"))
        else {
            continue;
        };
        bounds += 1;
        for (size, fits) in [(max, true), (max + 1, false)] {
            let mut changed = payload.clone();
            set(&mut changed, &at, sized(there, unit, size));
            assert_eq!(read(name, &changed).is_ok(), fits, "{name}{at} of {size}");
        }
    }
    assert!(bounds > 60, "the table has numbers: {bounds}");
}
