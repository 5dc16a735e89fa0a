//! Small libraries put before the hub's C library.
//!
//! Needs a C compiler, which the embedded SQLite needs as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds one in this directory.
pub(crate) fn library(dir: &Path, name: &str, source: &str) -> PathBuf {
    let text = dir.join(format!("{name}.c"));
    let library = dir.join(format!("lib{name}.so"));
    fs::write(&text, source).expect("a file can be written");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &text])
        .args(["-ldl", "-lpthread"])
        .output()
        .expect("there is a C compiler");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    library
}
