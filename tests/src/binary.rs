//! The binary under test, built once if nobody brought one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names a binary to test instead of building one.
const VARIABLE: &str = "SWITCHBOARD_BIN";

/// The real `switchboard`.
pub fn switchboard() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os(VARIABLE) {
        Some(given) => {
            let given = PathBuf::from(given);
            assert!(
                given.is_file(),
                "{VARIABLE} names {}, which is no file",
                given.display()
            );
            given
        }
        None => build(),
    })
}

fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--profile",
            "ci",
            "--workspace",
            "--bin",
            "switchboard",
        ])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(&root)
        .output()
        .expect("cargo can be started");
    assert!(
        built.status.success(),
        "the binary does not build:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    // Cargo knows where its target directory is; the artifact's line says where the binary went.
    let messages = String::from_utf8_lossy(&built.stdout);
    let executable = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executable.expect("cargo names the binary that it built")
}
