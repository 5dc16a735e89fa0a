//! Reads the repository's own source, as text: files by folder, code without comments and tests, functions with their length.

use std::path::{Path, PathBuf};

/// The repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A file, by its path below the repository.
pub struct File {
    pub path: String,
    pub text: String,
}

/// What no check looks at.
const PASSED_OVER: [&str; 3] = ["target", "node_modules", "corpus"];

/// Every file below a folder whose name ends so, in order.
pub fn files(below: &str, ending: &str) -> Vec<File> {
    let mut found = Vec::new();
    collect(&Path::new(ROOT).join(below), ending, &mut found);
    found.sort();
    let read = |path: PathBuf| File {
        text: std::fs::read_to_string(&path).expect("source is text"),
        path: path
            .strip_prefix(ROOT)
            .expect("below it")
            .to_string_lossy()
            .into_owned(),
    };
    found.into_iter().map(read).collect()
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    // A folder that is not there yet has no files.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !PASSED_OVER.contains(&&*name) {
                collect(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

impl File {
    pub fn is_test(&self) -> bool {
        let folders = ["/tests/", "/testing/", "/conformance/"];
        let names = ["tests.rs", "testing.rs"];
        folders.iter().any(|folder| self.path.contains(folder))
            || names.iter().any(|name| self.path.ends_with(name))
    }

    /// What is compiled into the product: without comments, and without the tests at the end.
    pub fn code(&self) -> String {
        let code = self
            .before_tests()
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default());
        code.flat_map(|line| [line, "\n"]).collect()
    }

    fn before_tests(&self) -> &str {
        let before = self.text.split("#[cfg(test)]\nmod tests {").next();
        before.unwrap_or_default()
    }

    /// Each function outside of tests with its name and the number of its lines.
    pub fn functions(&self) -> Vec<(String, usize)> {
        let lines: Vec<&str> = self.before_tests().lines().collect();
        let mut found = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let Some(name) = function_name(line) else {
                continue;
            };
            // As it is formatted: the brace that ends it stands below its first letter.
            let ends = |line: &&str| line.len() == indent + 1 && line.ends_with('}');
            if let Some(length) = lines[at..].iter().position(ends) {
                found.push((name.to_owned(), length + 1));
            }
        }
        found
    }
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let words = ["pub", "async", "const", "unsafe", "extern"];
    let is_head = before
        .split_whitespace()
        .all(|word| words.iter().any(|start| word.starts_with(start)) || word.starts_with('"'));
    let end = after.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = &after[..end.unwrap_or(after.len())];
    let has_body = !line.trim_end().ends_with([';', '}']);
    (is_head && !name.is_empty() && has_body).then_some(name)
}
