//! The OpenAPI document against the hub that serves it, and against linters. Exceptions are listed in `tests/openapi`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use switchboard_test_cluster::Missing;
use switchboard_tests::{Project, switchboard};

fn tests() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a program that says by its end whether it found something.
#[track_caller]
fn finds_nothing(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    assert!(
        output.status.success(),
        "{command:?} ended with {}:\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn linters_find_nothing_in_the_document() {
    let node = tests().join("node");
    let packages = ["@redocly/openapi-core", "@stoplight/spectral-cli"];
    let are_here = packages.map(|name| node.join("node_modules").join(name).is_dir());
    if are_here.contains(&false) {
        return Missing::Node.skip("linting of the OpenAPI document");
    }
    let document = tests().join("../docs/openapi.json");
    let rules = |name: &str| tests().join("openapi").join(name);
    finds_nothing(
        Command::new("node")
            .arg(node.join("lint.mjs"))
            .args([&document, &rules("redocly.yaml")]),
    );
    finds_nothing(
        Command::new(node.join("node_modules/.bin/spectral"))
            .args(["lint", "--quiet", "--fail-severity=hint", "--ruleset"])
            .args([&rules("spectral.yaml"), &document]),
    );
}

/// Where `scripts/test` puts it.
fn schemathesis() -> PathBuf {
    tests().join("../target/schemathesis/bin/schemathesis")
}

/// The secret of a new token.
fn token(project: &Project, scope: &str) -> String {
    let output = Command::new(switchboard())
        .args(["token", "create", "--scope", scope])
        .current_dir(project.root())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = said.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let secret = words.find(|word| word.starts_with("sbt_"));
    secret
        .unwrap_or_else(|| panic!("no token in {said}"))
        .to_owned()
}

#[test]
fn the_hub_takes_what_the_document_says_and_nothing_else() {
    if !schemathesis().is_file() {
        return Missing::Schemathesis.skip("the comparison of the OpenAPI document with the hub");
    }
    let project = Project::new();
    let settings = "[auth]\nmode = \"hmac\"\n[limits]\nenabled = false\n";
    std::fs::write(project.root().join("switchboard.toml"), settings).expect("it is written");
    let hub = project.start();
    finds_nothing(
        Command::new(schemathesis())
            .arg("--config-file")
            .arg(tests().join("openapi/schemathesis.toml"))
            .args(["run", "--no-color"])
            .arg(format!("http://{}/openapi.json", hub.addr()))
            .current_dir(project.root())
            .env("SCHEMATHESIS_HOOKS", tests().join("openapi/exceptions.py"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SWITCHBOARD_TOKEN", token(&project, "steward"))
            .env("SWITCHBOARD_SQL_TOKEN", token(&project, "sql:steward")),
    );
}
