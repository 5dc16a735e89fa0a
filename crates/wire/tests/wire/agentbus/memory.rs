//! Engrams and catalogs: hashes, names, paths and deltas.

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_wire::agentbus::catalog::{CATALOG_PATH, Catalog, CatalogEntry};
use switchboard_wire::agentbus::engram::{
    self, Decision, Engram, Link, Provenance, SourceWindow, batch_id, batch_time, content_hash,
};
use switchboard_wire::agentbus::message::{CatalogVersion, Payload};
use switchboard_wire::agentbus::{Scope, UtcTime};
use switchboard_wire::canonical;

fn engram(index: u32, scope: Scope) -> Engram {
    let at = UtcTime(1_770_768_000_000 + i64::from(index) * 1000);
    Engram {
        engram_id: format!("e_{index:03}"),
        version: batch_id(at),
        scope,
        created_at: at,
        source_window: SourceWindow {
            start_ts: UtcTime(0),
            end_ts: at,
        },
        hash: String::new(),
        topics: vec!["größe".to_owned(), "git".to_owned()],
        facts: vec!["task #21 completed".to_owned()],
        decisions: vec![Decision {
            title: "bounded lines".to_owned(),
            rationale: "memory".to_owned(),
        }],
        links: vec![Link {
            kind: "task".to_owned(),
            target: "#21".to_owned(),
        }],
        provenance: Provenance {
            created_by: "director".to_owned(),
            run_id: "run_1".to_owned(),
        },
    }
    .sealed()
}

fn catalog(indexes: &[u32]) -> Catalog {
    let entries = indexes
        .iter()
        .map(|index| CatalogEntry::from(&engram(*index, Scope::Short)))
        .collect();
    let version = batch_id(UtcTime(1_770_900_000_000));
    Catalog::new(version, UtcTime(1_770_900_000_000), entries)
}

#[test]
fn the_hash_is_over_the_canonical_form_without_itself() {
    // agentbus.engram.id_hash, agentbus.catalog.identity
    assert_eq!(
        content_hash(&json!({ "b": 1, "a": "x", "hash": "anything" })),
        // printf '{"a":"x","b":1}' | sha256sum
        "sha256:cdab067e9f3beb32d1252cfd63e492592fecbf591b0d08cadb24bb17f3864246"
    );
    let engram = engram(1, Scope::Short);
    assert!(engram.is_sound());
    let mut value = serde_json::to_value(&engram).expect("JSON");
    value.as_object_mut().expect("an object").remove("hash");
    assert!(canonical(&value).starts_with(r#"{"created_at":"#));
    let mut changed = engram.clone();
    changed.facts.push("more".to_owned());
    assert!(!changed.is_sound());
    assert_ne!(changed.sealed().hash, engram.hash);
}

#[test]
fn a_file_is_read_back_and_a_damaged_one_is_not() {
    let engram = engram(1, Scope::Long);
    let text = engram.to_text();
    assert_eq!(Engram::from_text(text.as_bytes()), Ok(engram));
    let damaged = text.replace("bounded", "unbounded");
    let malformed = Engram::from_text(damaged.as_bytes()).expect_err("damaged");
    assert_eq!(malformed.field.as_deref(), Some("hash"));
    // Members of a later version are covered by the hash too.
    let mut later: Value = serde_json::from_str(&text).expect("JSON");
    later["new"] = json!(1);
    assert!(Engram::from_text(later.to_string().as_bytes()).is_err());
    later["hash"] = json!(content_hash(&later));
    assert!(Engram::from_text(later.to_string().as_bytes()).is_ok());
    assert!(Engram::from_text(&text.as_bytes()[..text.len() / 2]).is_err());
}

#[test]
fn batch_ids_are_instants_in_utc() {
    // agentbus.engram.batch_id
    assert_eq!(batch_id(UtcTime(1_770_854_462_999)), "20260212-000102Z");
    assert_eq!(
        batch_time("20260212-000102Z"),
        Some(UtcTime(1_770_854_462_000))
    );
    for text in [
        "",
        "20260212-000102",
        "20260212T000102Z",
        "20260230-000000Z",
        "20260212-240000Z",
        "20260212-000060Z",
        "2026021２-00010Z",
        "20260212-000102z",
        "../../etc/passwd",
    ] {
        assert_eq!(batch_time(text), None, "{text}");
    }
}

#[test]
fn ids_and_paths_stay_within_the_memory_folder() {
    // agentbus.engram.path
    let engram = engram(7, Scope::Long);
    assert_eq!(
        engram.path(),
        format!("memory/lt/{}/engram_e_007.json", engram.version)
    );
    for (id, fits) in [
        ("e_01J0Z3NDEKTSV4RRFFQ69G5FAV", true),
        ("A-z_9", true),
        ("", false),
        ("..", false),
        ("a/b", false),
        ("a.b", false),
        ("é", false),
        ("a b", false),
    ] {
        assert_eq!(engram::is_id(id), fits, "{id}");
    }
    assert!(engram::is_id(&"x".repeat(128)) && !engram::is_id(&"x".repeat(129)));
}

#[test]
fn a_catalog_does_not_depend_on_the_order_of_its_entries() {
    let one = catalog(&[3, 1, 2]);
    assert_eq!(one, catalog(&[1, 2, 3]));
    assert!(one.is_sound());
    assert_ne!(one.hash, catalog(&[1, 2]).hash);
    assert_eq!(
        Catalog::from_text(one.to_text().as_bytes()),
        Ok(one.clone())
    );
    let damaged = one.to_text().replace("e_001", "e_009");
    assert!(Catalog::from_text(damaged.as_bytes()).is_err());

    // agentbus.catalog.identity, agentbus.catalog.entries
    let snapshot = one.to_snapshot();
    assert_eq!(snapshot.catalog_path, CATALOG_PATH);
    assert_eq!(snapshot.catalog_hash, one.hash);
    assert_eq!(
        snapshot.catalog_version,
        CatalogVersion::Text(one.catalog_version.clone())
    );
    assert_eq!(snapshot.check(), Ok(()));
    for entry in &one.entries {
        assert_eq!(entry.to_announce().check(), Ok(()));
    }
}

#[test]
fn a_delta_from_elsewhere_is_not_followed() {
    let delta = catalog(&[1]).delta(&catalog(&[1, 2]));
    assert_eq!(catalog(&[2]).apply(&delta), None);
}

proptest! {
    #[test]
    fn a_delta_leads_from_one_catalog_to_the_other(
        before in prop::collection::btree_set(0_u32..40, 0..30),
        after in prop::collection::btree_set(0_u32..40, 0..30),
    ) {
        let before = catalog(&before.into_iter().collect::<Vec<_>>());
        let mut after = catalog(&after.into_iter().collect::<Vec<_>>());
        // One engram under its old id with other content.
        if let Some(entry) = after.entries.first_mut() {
            entry.hash = "sha256:other".to_owned();
        }
        let after = Catalog::new(after.catalog_version, after.created_at, after.entries);
        let delta = before.delta(&after);
        prop_assert_eq!(delta.check(), Ok(()));
        let reached = before.apply(&delta).expect("it begins there");
        prop_assert_eq!(reached.entries, after.entries);
        prop_assert_eq!(reached.hash, after.hash);
        let nothing = before.delta(&before);
        prop_assert!(nothing.added.is_empty() && nothing.removed.is_empty());
    }

    #[test]
    fn batch_ids_sort_like_their_instants(a in 0_i64..4_000_000_000, b in 0_i64..4_000_000_000) {
        let (a, b) = (UtcTime(a * 1000), UtcTime(b * 1000));
        prop_assert_eq!(batch_time(&batch_id(a)), Some(a));
        prop_assert_eq!(batch_id(a).cmp(&batch_id(b)), a.cmp(&b));
    }
}
