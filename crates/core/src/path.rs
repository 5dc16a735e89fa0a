//! What a lease covers: a file, a directory with everything below it, or a glob.
//!
//! Paths are relative to the project. A path is a glob if it has `*`, `?` or `{`; only then do `[` and `]`
//! mean a class, so that `app/[id]/page.tsx` stays the file it names.

use std::fmt;
use std::sync::Arc;

use crate::limits;

mod glob;

/// A normalised path or glob.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeasePath {
    text: Arc<str>,
    /// Bytes of the leading part without wildcards, in whole segments.
    literal: usize,
}

impl LeasePath {
    /// Reads a path as an agent wrote it; `root` is the project's absolute directory.
    pub fn parse(text: &str, root: &str) -> Result<LeasePath, String> {
        if text.is_empty() {
            return Err("the path is empty".to_owned());
        }
        if text.len() > limits::PATH_BYTES_MAX {
            return Err(format!(
                "the path is longer than {} bytes",
                limits::PATH_BYTES_MAX
            ));
        }
        if text.chars().any(char::is_control) {
            return Err("the path has a control character".to_owned());
        }
        // No two systems agree on which way a slash leans.
        let slashed = text.replace('\\', "/");
        let relative = match slashed.strip_prefix('/') {
            None => &*slashed,
            Some(_) => below(&slashed, root)
                .ok_or_else(|| format!("{text} is outside the project; use a path inside it"))?,
        };
        let segments = normalise(relative)
            .ok_or_else(|| format!("{text} leads outside the project; use a path inside it"))?;
        if segments.len() > limits::PATH_SEGMENTS_MAX {
            return Err(format!(
                "the path has more than {} segments",
                limits::PATH_SEGMENTS_MAX
            ));
        }
        let joined = if segments.is_empty() {
            ".".to_owned()
        } else {
            segments.join("/")
        };
        if glob::is_glob(&joined) {
            glob::check(&joined)?;
        }
        Ok(LeasePath::stored(&joined))
    }

    /// A path that was normalised when it was stored.
    pub fn stored(text: &str) -> LeasePath {
        let literal = if glob::is_glob(text) {
            let mut end = 0;
            let mut at = 0;
            for segment in text.split('/') {
                if glob::has_wildcard(segment) {
                    break;
                }
                at += segment.len();
                end = at;
                at += 1;
            }
            end
        } else {
            text.len()
        };
        LeasePath {
            text: text.into(),
            literal: if text == "." { 0 } else { literal },
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The leading part without wildcards: two leases can only overlap if one's prefix lies at or above the other's.
    pub fn prefix(&self) -> &str {
        &self.text[..self.literal]
    }

    /// The prefix and all directories above it, up to the project itself (`""`).
    pub fn prefix_ancestors(&self) -> impl Iterator<Item = &str> {
        let prefix = self.prefix();
        let parents = prefix.match_indices('/').map(move |(at, _)| &prefix[..at]);
        let root = (!prefix.is_empty()).then_some("");
        std::iter::once(prefix).chain(parents).chain(root)
    }

    /// Whether some file is covered by both.
    pub fn overlaps(&self, other: &LeasePath) -> bool {
        self == other || glob::overlap(&self.text, &other.text)
    }
}

fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let root = root.trim_end_matches('/');
    let rest = path.strip_prefix(root)?;
    if rest.is_empty() {
        Some(".")
    } else {
        rest.strip_prefix('/')
    }
}

/// Drops `.` and empty segments and resolves `..`; `None` if it leads above the start.
fn normalise(path: &str) -> Option<Vec<&str>> {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            name => segments.push(name),
        }
    }
    Some(segments)
}

impl fmt::Display for LeasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for LeasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised() {
        let table = [
            ("a", Ok("a")),
            ("./a", Ok("a")),
            ("a//b", Ok("a/b")),
            ("a/../a/b", Ok("a/b")),
            ("a/b/", Ok("a/b")),
            (r"a\b\.\c.rs", Ok("a/b/c.rs")),
            (r"..\b", Err("leads outside")),
            (".", Ok(".")),
            ("/home/p/src/x.rs", Ok("src/x.rs")),
            ("/home/p", Ok(".")),
            ("/home/pp/x", Err("outside")),
            ("/etc/passwd", Err("outside")),
            ("..", Err("leads outside")),
            ("a/../../b", Err("leads outside")),
            ("", Err("empty")),
            ("a\nb", Err("control")),
            ("src/[ab", Ok("src/[ab")),
            ("src/*[ab", Err("class")),
            ("src/{a,b", Err("no matching }")),
            ("src/a**b", Err("**")),
        ];
        for (text, expected) in table {
            match (LeasePath::parse(text, "/home/p"), expected) {
                (Ok(path), Ok(wanted)) => assert_eq!(path.as_str(), wanted, "{text}"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{text}: {message}"),
                (got, _) => panic!("{text}: {got:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn path_length_is_bounded() {
        for (length, fits) in [(1023, true), (1024, true), (1025, false)] {
            assert_eq!(
                LeasePath::parse(&"a".repeat(length), "/p").is_ok(),
                fits,
                "{length}"
            );
        }
        for (segments, fits) in [(63, true), (64, true), (65, false)] {
            let text = vec!["a"; segments].join("/");
            assert_eq!(LeasePath::parse(&text, "/p").is_ok(), fits, "{segments}");
        }
    }

    #[test]
    fn overlap_by_table_and_symmetric() {
        let table = [
            ("a", "a", true),
            ("a", "b", false),
            ("src", "src/a.rs", true),
            ("src", "srcs/a.rs", false),
            (".", "any/thing", true),
            ("src/**", "src/a.rs", true),
            ("src/**", "src", true),
            ("src/**/*.rs", "src/a/b.rs", true),
            ("src/**/*.rs", "src/a/b.ts", false),
            ("src/*.rs", "src/a/b.rs", false),
            ("src/*", "src/a/b.rs", false),
            ("src/*.rs", "src/main.*", true),
            ("src/*.rs", "lib/*.rs", false),
            ("**/*.md", "docs", true),
            ("*.{ts,tsx}", "a.tsx", true),
            ("*.{ts,tsx}", "a.rs", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*[0-9].log", "x7.log", true),
            ("*[0-9].log", "x.log", false),
            ("*[!0-9]", "x7", false),
            ("app/[id]/page.tsx", "app/i/page.tsx", false),
            ("app/[id]/page.tsx", "app/**", true),
            ("a/*/c", "a/b", true),
            ("a/**/z", "a/z", true),
            ("src/a.ts", "src/a.ts/x.rs", true),
            ("src/a.ts/*.rs", "src/a.ts", true),
            ("**/*.rs", "v1.2", true),
            ("**/*.rs", ".github", true),
            ("src/*/main.rs", "**/*.md", false),
            ("src/*/main.rs", "src/a/main.rs", true),
            ("src/**", "src/a.ts", true),
        ];
        for (left, right, expected) in table {
            let left = LeasePath::parse(left, "/p").expect(left);
            let right = LeasePath::parse(right, "/p").expect("valid");
            assert_eq!(left.overlaps(&right), expected, "{left} and {right}");
            assert_eq!(right.overlaps(&left), expected, "{right} and {left}");
        }
    }

    #[test]
    fn overlapping_leases_have_nested_prefixes() {
        let texts = [
            "a",
            "a/b",
            "a/*/c",
            "**",
            "*.rs",
            "a/b/{c,d}/e",
            ".",
            "a/b/c/d.rs",
        ];
        for left in texts.map(|text| LeasePath::parse(text, "/p").expect("valid")) {
            for right in texts.map(|text| LeasePath::parse(text, "/p").expect("valid")) {
                let nested = left.prefix_ancestors().any(|dir| dir == right.prefix())
                    || right.prefix_ancestors().any(|dir| dir == left.prefix());
                assert!(nested || !left.overlaps(&right), "{left} and {right}");
            }
        }
    }
}
