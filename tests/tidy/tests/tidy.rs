//! What STYLE.md and ARCHITECTURE.md promise.
//!
//! A rule says what breaks it, as `path: what`. What breaks it today stands in `known.txt`, under the rule's name; a line there that is
//! no longer needed fails as well, so that the list only shrinks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use switchboard_tidy::{File, ROOT, files};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 80;
const COLUMNS_MAX: usize = 120;

type Broken = BTreeSet<String>;

/// Folders, and what their code may not name.
const USES: &[(&str, &[&str])] = &[
    (
        "crates/core/src",
        &[
            "std::time::Instant",
            "std::time::SystemTime",
            "std::fs",
            "std::net",
            "std::env",
            "std::thread",
            "std::process",
            "rand::",
            "tokio",
            "serde_json",
            "axum",
            "rusqlite",
            "switchboard_",
        ],
    ),
    (
        "crates/store/src",
        &["axum", "switchboard_wire", "switchboard_hub"],
    ),
    (
        "crates/wire/src",
        &[
            "tokio",
            "axum",
            "rusqlite",
            "std::fs",
            "std::thread",
            "switchboard_store",
            "switchboard_hub",
        ],
    ),
    (
        "crates/client/src",
        &["switchboard_store", "switchboard_hub", "rusqlite"],
    ),
    // Surfaces: every change is a verb, every list is a query of the hub.
    ("crates/hub/src/http", &["switchboard_store"]),
    ("crates/hub/src/bus", &["switchboard_store"]),
    ("crates/hub/src/files", &["switchboard_store"]),
    ("crates/hub/src/sql", &["switchboard_store"]),
    ("crates/hub/src/memory", &["switchboard_store"]),
    ("crates/hub/src/call", &["axum", "switchboard_store"]),
    ("crates/hub/src/stream", &["axum", "switchboard_store"]),
];

/// Words of one protocol, which the rules do not know outside of this folder.
const DOORS: &str = "crates/core/src/doors/";
const BANNED_IN_CORE: [&str; 6] = [
    "jetpack", "agentbus", "squidrun", "logist", "hrana", "libsql",
];

/// Names that say nothing.
const EMPTY_NAMES: [&str; 9] = [
    "utils",
    "common",
    "helper",
    "manager",
    "handler",
    "service",
    "processor",
    "misc",
    "v2",
];

#[test]
fn each_folder_uses_what_it_may() {
    let mut broken = Broken::new();
    for (folder, forbidden) in USES {
        for file in product(folder) {
            let code = file.code();
            for word in forbidden.iter().filter(|word| code.contains(**word)) {
                broken.insert(format!("{}: {word}", file.path));
            }
        }
    }
    hold("uses", &broken);
}

#[test]
fn core_knows_no_protocol() {
    let mut broken = Broken::new();
    for file in product("crates/core/src").filter(|file| !file.path.starts_with(DOORS)) {
        let code = file.code();
        let lower = code.to_lowercase();
        for word in BANNED_IN_CORE.iter().filter(|word| lower.contains(**word)) {
            broken.insert(format!("{}: {word}", file.path));
        }
        // Members of their messages are theirs to name; the record's own are spelled by serde.
        for word in code
            .split('"')
            .skip(1)
            .step_by(2)
            .filter(|word| is_camel(word))
        {
            broken.insert(format!("{}: {word}", file.path));
        }
    }
    hold("protocols in core", &broken);
}

fn is_camel(word: &str) -> bool {
    let small = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_lowercase());
    let is_word = word != "camelCase"
        && word
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '.');
    let mut before = None;
    let inner = |letter: char| small(before.replace(letter)) && letter.is_ascii_uppercase();
    is_word && word.chars().any(inner)
}

#[test]
fn no_name_says_nothing() {
    let mut broken = Broken::new();
    for file in all() {
        let stem = Path::new(&file.path).file_stem().expect("a name");
        if EMPTY_NAMES.contains(&&*stem.to_string_lossy()) {
            broken.insert(format!("{}: its name", file.path));
        }
    }
    hold("names", &broken);
}

#[test]
fn files_and_functions_can_be_read_in_one_sitting() {
    let (mut long_files, mut long_functions) = (Broken::new(), Broken::new());
    for file in all() {
        if file.text.lines().count() > FILE_LINES_MAX {
            long_files.insert(format!("{}: too long", file.path));
        }
    }
    // Tests tell a story, and tables of cases are as long as they are.
    for file in product("crates") {
        for (name, lines) in file.functions() {
            if lines > FUNCTION_LINES_MAX {
                long_functions.insert(format!("{}: fn {name}", file.path));
            }
        }
    }
    hold("long files", &long_files);
    hold("long functions", &long_functions);
}

#[test]
fn every_module_says_what_it_is() {
    let mut broken = Broken::new();
    for file in all() {
        if !file.text.starts_with("//!") {
            broken.insert(format!("{}: no //!", file.path));
        }
    }
    hold("modules without a sentence", &broken);
}

#[test]
fn a_limit_is_named_once() {
    let limits = files("crates/core/src", "limits.rs");
    let name = |line: &str| {
        let name = line.trim().strip_prefix("pub const ")?.split(':').next()?;
        Some(name.to_owned())
    };
    let named: BTreeSet<String> = limits[0].text.lines().filter_map(name).collect();
    assert!(named.len() > 20, "the limits are read: {named:?}");
    let mut broken = Broken::new();
    for file in product("crates").filter(|file| file.path != limits[0].path) {
        for line in file.code().lines() {
            let words = line.split_once("const ").map(|(_, rest)| rest);
            let name = words.and_then(|rest| rest.split(':').next());
            if let Some(name) = name.filter(|name| named.contains(*name)) {
                broken.insert(format!("{}: {name}", file.path));
            }
        }
    }
    hold("limits", &broken);
}

#[test]
fn every_dependency_is_used() {
    let mut broken = Broken::new();
    for manifest in files("", "Cargo.toml") {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        if folder.is_empty() || folder == "fuzz/" {
            continue;
        }
        let table: toml::Table = manifest.text.parse().expect("a manifest is TOML");
        let everything: String = files(folder, ".rs")
            .iter()
            .map(|file| file.text.clone())
            .collect();
        // What only tests use of a product's crate is a dependency of its tests.
        let product: String = match folder.starts_with("crates/") {
            true => product(folder).map(|file| file.code()).collect(),
            false => everything.clone(),
        };
        let mut sections: Vec<&toml::Table> = vec![&table];
        let targets = table.get("target").and_then(toml::Value::as_table);
        sections.extend(
            targets
                .into_iter()
                .flat_map(|all| all.values().filter_map(toml::Value::as_table)),
        );
        for section in sections {
            for (kind, code) in [
                ("dependencies", &product),
                ("dev-dependencies", &everything),
            ] {
                let listed = section.get(kind).and_then(toml::Value::as_table);
                for name in listed.into_iter().flat_map(toml::Table::keys) {
                    let name = name.replace('-', "_");
                    let is_used = [
                        format!("{name}::"),
                        format!("use {name}"),
                        format!("{name};"),
                    ]
                    .iter()
                    .any(|word| code.contains(word));
                    if !is_used {
                        broken.insert(format!("{}: {name}", manifest.path));
                    }
                }
            }
        }
    }
    hold("unused dependencies", &broken);
}

#[test]
fn docs_are_wrapped() {
    let mut pages = files("docs", ".md");
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "STYLE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "bench/README.md",
    ] {
        pages.extend(
            files("", ".md")
                .into_iter()
                .filter(|file| file.path == page),
        );
    }
    let mut broken = Broken::new();
    for page in pages {
        let mut in_code = false;
        for line in page.text.lines() {
            in_code ^= line.starts_with("```");
            let is_code = in_code || line.starts_with("    ");
            let is_table = line.trim_start().starts_with('|');
            let is_long = line.chars().count() > COLUMNS_MAX && !line.contains("](");
            if is_long && !is_code && !is_table {
                broken.insert(format!("{}: longer than {COLUMNS_MAX} columns", page.path));
            }
        }
    }
    hold("docs", &broken);
}

/// Rust of the whole repository.
fn all() -> impl Iterator<Item = File> {
    let folders = ["crates", "tests", "bench"];
    folders.into_iter().flat_map(|folder| files(folder, ".rs"))
}

/// What is compiled into the product.
fn product(folder: &str) -> impl Iterator<Item = File> {
    files(folder, ".rs")
        .into_iter()
        .filter(|file| !file.is_test())
}

/// Compares what breaks a rule with what is known to.
fn hold(rule: &str, broken: &Broken) {
    let known = known();
    let none = Broken::new();
    let known = known.get(rule).unwrap_or(&none);
    let new: Vec<&String> = broken.difference(known).collect();
    let gone: Vec<&String> = known.difference(broken).collect();
    assert!(
        new.is_empty(),
        "{rule}: this breaks what STYLE.md or ARCHITECTURE.md promise: {new:#?}"
    );
    assert!(
        gone.is_empty(),
        "{rule}: this holds now; take it out of tests/tidy/known.txt: {gone:#?}"
    );
}

/// What `known.txt` says of each rule.
fn known() -> BTreeMap<String, Broken> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("tests/tidy/known.txt"));
    let mut rules: BTreeMap<String, Broken> = BTreeMap::new();
    let mut rule = String::new();
    for line in text.expect("the list is there").lines() {
        match line.strip_prefix("# ") {
            Some(name) => rule = name.to_owned(),
            None if line.is_empty() => {}
            None => {
                rules
                    .entry(rule.clone())
                    .or_default()
                    .insert(line.to_owned());
            }
        }
    }
    rules
}
