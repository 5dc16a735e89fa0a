//! Every target on its kept corpus, then on what is made of it by chance. An input that finds something joins the corpus.

#![allow(clippy::unwrap_used)]

mod inputs;
mod ndjson;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use switchboard_fuzz as fuzz;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn root(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

/// The files of a folder, in the order of their names.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    files(&root("tests/fuzz/corpus").join(target))
}

/// So many inputs, or as many times more as the environment says.
fn cases(usual: u32) -> u32 {
    let times = std::env::var("SWITCHBOARD_FUZZ_TIMES");
    usual * times.map_or(1, |times| times.parse().expect("a number of times"))
}

/// The kept corpus first, then inputs made by chance.
fn run(target: &str, usual: u32, made: BoxedStrategy<Vec<u8>>, check: impl Fn(&[u8])) {
    let kept = corpus(target);
    for (name, bytes) in &kept {
        // Shown if it fails.
        println!("{target}/{name}");
        check(bytes);
    }
    let config = Config {
        cases: cases(usual),
        failure_persistence: None,
        ..Config::default()
    };
    let kept = kept.into_iter().map(|(_, bytes)| bytes).collect();
    let inputs = prop_oneof![inputs::mutated(kept), made];
    let law = TestRunner::new(config).run(&inputs, |bytes| {
        check(&bytes);
        Ok(())
    });
    match law {
        Ok(()) => {}
        Err(TestError::Fail(why, bytes)) => {
            panic!(
                "keep it in corpus/{target}: {:?}: {why}",
                bytes.escape_ascii().to_string()
            )
        }
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

#[test]
fn bodies() {
    run(
        "bodies",
        1000,
        inputs::json("golden/jetpack"),
        fuzz::bodies::check,
    );
}

#[test]
fn hrana() {
    run(
        "hrana",
        500,
        inputs::words(inputs::HRANA),
        fuzz::hrana::check,
    );
}

#[test]
fn queries() {
    run(
        "queries",
        1000,
        inputs::words(inputs::QUERY),
        fuzz::queries::check,
    );
}

#[test]
fn jobs() {
    run("jobs", 1000, inputs::words(inputs::JOB), fuzz::jobs::check);
}

#[test]
fn redaction() {
    run(
        "redaction",
        1000,
        inputs::words(inputs::SECRET),
        fuzz::redaction::check,
    );
}

#[test]
fn tokens() {
    run(
        "tokens",
        1000,
        inputs::words(inputs::TOKEN),
        fuzz::tokens::check,
    );
}

#[test]
fn signatures() {
    run(
        "signatures",
        1000,
        inputs::json("golden/jetpack"),
        fuzz::signatures::check,
    );
}

#[test]
fn squidrun() {
    run(
        "squidrun",
        1000,
        inputs::json("golden/squidrun"),
        fuzz::squidrun::check,
    );
}

#[test]
fn bus_lines() {
    run("ndjson", 300, ndjson::frames(), fuzz::ndjson::check);
}

#[test]
fn http_heads_and_bodies() {
    let stage = fuzz::http::Stage::default();
    run("http", 200, inputs::http(), |bytes| stage.check(bytes));
}

#[test]
fn certificates() {
    let stage = fuzz::certificates::Stage::default();
    let edits = prop::collection::vec(any::<u8>(), 3..24).boxed();
    run("certificates", 100, edits, |bytes| stage.check(bytes));
}

/// All at once, because what is no JSON is given its time to become it.
#[cfg(unix)]
#[test]
fn request_files() {
    use proptest::strategy::ValueTree as _;

    let mut bodies: Vec<Vec<u8>> = corpus("files")
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect();
    let mut runner = TestRunner::default();
    let inputs = prop_oneof![
        inputs::mutated(bodies.clone()),
        inputs::json("golden/jetpack")
    ];
    bodies.extend((0..cases(200)).map(|_| inputs.new_tree(&mut runner).unwrap().current()));
    let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
    fuzz::files::Stage::default().check(&bodies);
}

/// More of it is in the store, which keeps the corpus, too.
#[test]
fn sql_guard() {
    let stage = RefCell::new(fuzz::sql_guard::Stage::default());
    let kept = std::fs::read_to_string(root("crates/store/corpus/sql_guard.txt")).unwrap();
    let kept: Vec<String> = kept
        .lines()
        .map(|line| serde_json::from_str(line[1..].trim()).unwrap())
        .collect();
    let is_hit = |sql: &&String| !stage.borrow().touched(sql).is_empty();
    assert!(
        kept.iter().filter(is_hit).count() > 10,
        "the check is blind"
    );
    let kept: Vec<Vec<u8>> = kept.into_iter().map(String::into_bytes).collect();
    for sql in &kept {
        stage.borrow_mut().check(sql);
    }
    proptest!(|(sql in inputs::mutated(kept))| stage.borrow_mut().check(&sql));
}

#[test]
fn every_target_has_its_corpus_and_its_file_for_cargo_fuzz() {
    let manifest = std::fs::read_to_string(root("fuzz/Cargo.toml")).unwrap();
    let mut found: Vec<String> = Vec::new();
    for (name, text) in files(&root("fuzz/fuzz_targets")) {
        let target = name.strip_suffix(".rs").unwrap();
        let call = format!("switchboard_fuzz::{target}::check(bytes)");
        assert!(String::from_utf8(text).unwrap().contains(&call), "{name}");
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{name}");
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}\"")),
            "{name}"
        );
        assert!(
            target == "sql_guard" || corpus(target).len() >= 10,
            "{target}"
        );
        found.push(target.to_owned());
    }
    assert_eq!(found, fuzz::TARGETS);
}
