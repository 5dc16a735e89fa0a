//! Clause coverage: every clause of the protocol and every settled question names a test that exists, or what it waits for.
//!
//! `docs/clauses/*.txt` list what is to be proven, one id a line; `docs/jetpack-clauses.md`, `docs/agentbus.md`,
//! `docs/squidrun.md`, `docs/runtime.md` and `docs/logist.md` have a table row for each. This test does not know whether a proof is good; a reviewer does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a row says about its clause.
#[derive(Debug, PartialEq)]
enum Proof {
    /// `path/to/file.rs::test_name`
    Test { file: String, name: String },
    /// `tests/scenarios/name.scene`
    Scene { file: String },
    /// It comes with a later issue, or with the agents' side.
    Open,
}

/// The part of the agents' side that has no issue of its own yet.
const WORKER_LOOP: &str = "open: client worker loop";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    let full = root().join(path);
    std::fs::read_to_string(&full).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The ids of a list: the first word of each line that is no comment.
fn ids(list: &str) -> BTreeSet<String> {
    let lines = list
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let ids = lines.filter_map(|line| line.split('\t').next());
    ids.map(str::to_owned).collect()
}

/// Rows of tables whose first cell is an id in backticks: the id and the last cell.
fn rows(document: &str, prefix: &str) -> Result<BTreeMap<String, String>, String> {
    let mut rows = BTreeMap::new();
    for (index, line) in document.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        let first = cells.first().map_or("", |cell| cell.trim());
        let Some(id) = first.strip_prefix('`').and_then(|id| id.strip_suffix('`')) else {
            continue;
        };
        let is_row = line.starts_with('|') && id.starts_with(prefix);
        if is_row && cells.len() < 2 {
            return Err(format!("line {}: {id} has no second cell", index + 1));
        }
        let proofs = cells.last().map_or("", |cell| cell.trim()).to_owned();
        if is_row && rows.insert(id.to_owned(), proofs).is_some() {
            return Err(format!("line {}: {id} has two rows", index + 1));
        }
    }
    Ok(rows)
}

/// Proofs are parted by semicolons; tests and scenes stand in backticks, what is open does not.
fn proofs(cell: &str) -> Result<Vec<Proof>, String> {
    cell.split(';').map(|one| proof(one.trim())).collect()
}

fn proof(text: &str) -> Result<Proof, String> {
    if let Some(open) = text.strip_prefix("open: ") {
        let issue = open.strip_prefix("issue ").unwrap_or_default();
        let numbered = issue.starts_with(|letter: char| letter.is_ascii_digit());
        if numbered || text.starts_with(WORKER_LOOP) {
            return Ok(Proof::Open);
        }
        return Err(format!("`{text}` names no issue"));
    }
    let quoted = text
        .strip_prefix('`')
        .and_then(|text| text.strip_suffix('`'));
    let quoted = quoted.ok_or_else(|| format!("`{text}` is neither a test nor open"))?;
    match quoted.split_once("::") {
        Some((file, name)) => Ok(Proof::Test {
            file: file.to_owned(),
            name: name.to_owned(),
        }),
        None if quoted.ends_with(".scene") => Ok(Proof::Scene {
            file: quoted.to_owned(),
        }),
        None => Err(format!("`{quoted}` names no test in its file")),
    }
}

/// What is wrong with a proof, as far as the source tells.
fn missing(proof: &Proof) -> Option<String> {
    match proof {
        Proof::Open => None,
        Proof::Scene { file } => {
            let there = file.starts_with("tests/scenarios/") && root().join(file).is_file();
            (!there).then(|| format!("there is no scene {file}"))
        }
        Proof::Test { file, name } => {
            let source = std::fs::read_to_string(root().join(file));
            let Ok(source) = source else {
                return Some(format!("there is no file {file}"));
            };
            let there = is_test(&source, name);
            (!there).then(|| format!("{file} has no test {name}"))
        }
    }
}

/// A function of this name right below a test attribute, or inside `proptest!`.
fn is_test(source: &str, name: &str) -> bool {
    let opening = format!("fn {name}(");
    let mut marked = false;
    for line in source.lines().map(str::trim_start) {
        if line.contains(&opening) {
            return marked;
        }
        // Attributes and comments may stand between the mark and the function.
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            marked = false;
        }
    }
    false
}

/// Everything that is wrong with one table.
fn complaints(list: &str, document: &str, prefix: &str) -> Vec<String> {
    let wanted = ids(&read(list));
    assert!(wanted.len() > 20, "{list} is nearly empty");
    let rows = match rows(&read(document), prefix) {
        Ok(rows) => rows,
        Err(complaint) => return vec![format!("{document}: {complaint}")],
    };
    let mut complaints = Vec::new();
    for id in &wanted {
        if !rows.contains_key(id) {
            complaints.push(format!("{id} of {list} has no row"));
        }
    }
    for (id, cell) in &rows {
        if !wanted.contains(id) {
            complaints.push(format!("{id} has a row and is not in {list}"));
        }
        match proofs(cell) {
            Err(complaint) => complaints.push(format!("{id}: {complaint}")),
            Ok(proofs) => {
                let broken = proofs.iter().filter_map(missing);
                complaints.extend(broken.map(|complaint| format!("{id}: {complaint}")));
            }
        }
    }
    complaints
}

#[test]
fn every_clause_of_jetpack_names_its_test_or_what_it_waits_for() {
    let complaints = complaints(
        "docs/clauses/jetpack.txt",
        "docs/jetpack-clauses.md",
        "jetpack.",
    );
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_settled_question_of_jetpack_names_its_test_or_what_it_waits_for() {
    let complaints = complaints(
        "docs/clauses/jetpack-settled.txt",
        "docs/jetpack-clauses.md",
        "settled.",
    );
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_clause_of_the_bus_names_its_test() {
    let list = "docs/clauses/agentbus.txt";
    let complaints = complaints(list, "docs/agentbus.md", "agentbus.");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_clause_of_squidrun_names_its_test_or_what_it_waits_for() {
    let list = "docs/clauses/squidrun.txt";
    let complaints = complaints(list, "docs/squidrun.md", "squidrun.");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_clause_of_runtime_names_its_test_or_what_it_waits_for() {
    let list = "docs/clauses/runtime.txt";
    let complaints = complaints(list, "docs/runtime.md", "runtime.");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_clause_of_logist_names_its_test_or_what_it_waits_for() {
    let list = "docs/clauses/logist.txt";
    let complaints = complaints(list, "docs/logist.md", "logist.");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Each role, status and golden frame has its line in the tables of the page.
#[test]
fn every_role_status_and_frame_of_squidrun_is_described() {
    use switchboard_wire::squidrun::{CheckStatus, HealthStatus, Roles, Status};

    let document = read("docs/squidrun.md");
    let statuses = [Status::WORDS, HealthStatus::WORDS, CheckStatus::WORDS].concat();
    let words = statuses.into_iter().map(str::to_owned);
    let roles = Roles::default();
    let words = words.chain(roles.iter().flat_map(|role| {
        let words = role.aliases.iter().chain(&role.header);
        words.chain([&role.pane]).cloned().collect::<Vec<_>>()
    }));
    let golden = std::fs::read_dir(root().join("crates/wire/golden/squidrun"));
    let frames = golden.expect("the golden frames").map(|entry| {
        let frame = std::fs::read_to_string(entry.expect("a file").path()).expect("a frame");
        let frame: serde_json::Value = serde_json::from_str(&frame).expect("JSON");
        frame["type"].as_str().expect("a type").to_owned()
    });
    // Any other type with a requestId.
    let frames = frames.filter(|kind| kind != "team-memory");
    for word in words.chain(frames) {
        let is_row = |line: &str| line.starts_with('|') && line.contains(&format!("`{word}`"));
        assert!(document.lines().any(is_row), "{word} is missing");
    }
}

/// Each message has its line in the table of the page.
#[test]
fn every_message_of_the_bus_is_described() {
    let document = read("docs/agentbus.md");
    for message in switchboard_wire::agentbus::message::MESSAGES {
        let row = format!("| `{}` |", message.message);
        assert!(document.contains(&row), "{row} is missing");
    }
}

#[test]
fn every_scene_proves_something() {
    let pages = [
        "docs/jetpack-clauses.md",
        "docs/agentbus.md",
        "docs/squidrun.md",
        "docs/runtime.md",
        "docs/logist.md",
    ];
    let document = pages.map(read).concat();
    let folder = std::fs::read_dir(root().join("tests/scenarios")).expect("scenes can be listed");
    for entry in folder {
        let name = entry.expect("scenes can be listed").file_name();
        let name = name.to_string_lossy();
        let named = document.contains(&format!("`tests/scenarios/{name}`"));
        assert!(
            named || !name.ends_with(".scene"),
            "{name} is named nowhere in {pages:?}"
        );
    }
}

#[test]
fn rows_are_judged_by_what_the_source_holds() {
    let here = "tests/tests/suite/clauses.rs";
    let good = [
        format!("`{here}::rows_are_judged_by_what_the_source_holds`"),
        "`tests/scenarios/silent-agent.scene`; open: issue 4 (files)".to_owned(),
        "open: client worker loop".to_owned(),
    ];
    for cell in good {
        let found = proofs(&cell).unwrap_or_else(|complaint| panic!("{complaint}"));
        assert!(found.iter().all(|proof| missing(proof).is_none()), "{cell}");
    }
    let bad = [
        format!("`{here}::no_such_test`"),
        // A function, and no test.
        format!("`{here}::complaints`"),
        "`tests/scenarios/no-such.scene`".to_owned(),
        "`no/such/file.rs::test`".to_owned(),
    ];
    for cell in bad {
        let found = proofs(&cell).unwrap_or_else(|complaint| panic!("{complaint}"));
        assert!(found.iter().any(|proof| missing(proof).is_some()), "{cell}");
    }
    for cell in ["open: later", "open: issue", "soon", "`file.rs`", ""] {
        assert!(proofs(cell).is_err(), "{cell}");
    }
    let twice = "| `a.b` | x |\n| `a.b` | y |";
    assert!(rows(twice, "a.").is_err());
}
