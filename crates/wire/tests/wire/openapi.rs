//! The OpenAPI document: complete, closed under `$ref`, and the same as the copy in `docs`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use switchboard_wire::jetpack::ROUTES;
use switchboard_wire::openapi::Served;

fn document() -> Value {
    switchboard_wire::openapi::document(Served::DEFAULT)
}

#[test]
fn the_copy_in_docs_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let printed = format!(
        "{}\n",
        serde_json::to_string_pretty(&document()).expect("printable")
    );
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &printed).expect("docs/openapi.json is writable");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == printed,
        "docs/openapi.json differs from the routes; look at the change, then run the test with UPDATE_SNAPSHOTS=1"
    );
}

#[test]
fn every_reference_resolves() {
    let document = document();
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    assert!(references.len() > 60, "{}", references.len());
    for reference in references {
        let pointer = reference
            .strip_prefix('#')
            .unwrap_or_else(|| panic!("{reference} leads outside"));
        assert!(
            document.pointer(pointer).is_some(),
            "{reference} leads nowhere"
        );
    }
}

fn collect(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                references.insert(reference.clone());
            }
            members
                .values()
                .for_each(|member| collect(member, references));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn routes_are_unique_and_described() {
    let mut places = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for route in ROUTES {
        assert!(
            places.insert((route.path, route.method)),
            "{} {} twice",
            route.method.as_str(),
            route.path
        );
        assert!(
            ids.insert(route.operation_id),
            "{} twice",
            route.operation_id
        );
        assert!(
            !route.tag.is_empty() && route.summary.ends_with('.'),
            "{}",
            route.operation_id
        );
        let outside = ["probes", "sql", "nodes", "external", "capabilities"].contains(&route.tag);
        assert!(route.is_api() != outside, "{}", route.path);
    }
}

/// Both tables of `docs/http-api.md` and the lines below them.
#[test]
fn every_route_of_the_contract_is_in_the_table_and_no_other() {
    let contract = include_str!("../../../../docs/http-api.md");
    let mut named = BTreeSet::new();
    let tables = contract.lines().filter(|line| line.starts_with('|'));
    let tables = tables.map(|row| (false, row.split('|').nth(1).unwrap_or_default()));
    let paragraphs = contract.split("\n\n");
    let outside = paragraphs.filter(|text| text.starts_with("Outside `/api/v1`"));
    for (outside, place) in tables.chain(outside.map(|text| (true, text))) {
        let mut method = String::new();
        let mut path = String::new();
        for code in place.split('`').skip(1).step_by(2) {
            let (word, rest) = code.split_once(' ').unwrap_or(("", code));
            if word.is_empty() && !path.is_empty() && rest.starts_with('/') {
                // `POST /tasks/:id/approve`, `/reject`: the last part changes.
                path = format!(
                    "{}{rest}",
                    path.rsplit_once('/').map_or("", |(parent, _)| parent)
                );
            } else if word.chars().all(|c| c.is_ascii_uppercase()) && !word.is_empty() {
                method = word.to_owned();
                path = rest.split('?').next().unwrap_or_default().to_owned();
            } else {
                continue;
            }
            let full = if outside {
                path.clone()
            } else {
                format!("/api/v1{path}")
            };
            let braced: Vec<String> = full
                .split('/')
                .map(|part| {
                    part.strip_prefix(':')
                        .map_or(part.to_owned(), |name| format!("{{{name}}}"))
                })
                .collect();
            named.insert(format!("{method} {}", braced.join("/")));
        }
    }
    let served: BTreeSet<String> = ROUTES
        .iter()
        .map(|route| format!("{} {}", route.method.as_str(), route.path))
        .collect();
    assert_eq!(named, served);
}

#[test]
fn messages_that_travel_both_ways_have_one_schema() {
    let document = document();
    let schemas = document["components"]["schemas"]
        .as_object()
        .expect("schemas");
    for shared in [
        "Capabilities",
        "Machine",
        "Metrics",
        "Progress",
        "ErrorBody",
        "Envelope",
    ] {
        assert!(schemas.contains_key(shared), "{shared}");
    }
    let required = |name: &str| {
        schemas[name]["required"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    assert!(required("AcquireLeaseRequest").contains(&"taskId".into()));
    let task = &schemas["AcquireLeaseRequest"]["properties"]["taskId"]["type"];
    assert_eq!(*task, serde_json::json!(["string", "null"]));
    assert!(!required("ClaimRequest").contains(&"filter".into()));
    assert!(required("Task").contains(&"description".into()));
}
