//! What is built in: every licence is one that `deny.toml` allows, and everything comes from the one public registry.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let host = Command::new(rustc).args(["--print", "host-tuple"]).output();
    let host = String::from_utf8(host.expect("rustc starts").stdout).expect("it is a name");
    // What was built for this machine is there; nothing is fetched.
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .args(["--filter-platform", host.trim()])
        .current_dir(ROOT)
        .output()
        .expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut found: Value = serde_json::from_slice(&output.stdout).expect("one object");
    let packages = found["packages"].take();
    serde_json::from_value(packages).expect("a list")
}

fn allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("deny.toml")).expect("it is there");
    let rules: toml::Table = text.parse().expect("it is TOML");
    let list = rules["licenses"]["allow"].as_array().expect("a list");
    let names = list.iter().filter_map(toml::Value::as_str);
    names.map(str::to_owned).collect()
}

/// Whether an SPDX expression can be met by what is allowed.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words, allowed);
    assert!(words.next().is_none(), "{expression} cannot be read");
    met
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let met = any(words, allowed);
        assert_eq!(words.next(), Some(")"));
        return met;
    }
    let met = words.next().is_some_and(|name| allowed.contains(name));
    // An exception grants more than the licence alone.
    if words.next_if_eq(&"WITH").is_some() {
        words.next();
    }
    met
}

#[test]
fn licence_expressions_are_read_as_they_are_meant() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "ISC".to_owned()]);
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("GPL-3.0-only/MIT", true),
        ("GPL-3.0-only AND MIT", false),
        ("ISC AND (GPL-3.0-only OR MIT)", true),
        ("(MIT OR ISC) AND GPL-3.0-only", false),
        ("MIT WITH Some-exception AND ISC", true),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression}");
    }
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed_and_comes_from_the_registry() {
    let allowed = allowed();
    let packages = packages();
    assert!(packages.len() > 100, "only {} were found", packages.len());
    let mut sources = BTreeSet::new();
    for package in &packages {
        let name = &package["name"];
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(
            is_met(licence, &allowed),
            "{name} has the licence {licence:?}"
        );
        // Our own have none.
        if let Some(source) = package["source"].as_str() {
            assert!(
                source.starts_with("registry+"),
                "{name} comes from {source}"
            );
            sources.insert(source);
        }
    }
    assert_eq!(sources.len(), 1, "{sources:?}");
}
