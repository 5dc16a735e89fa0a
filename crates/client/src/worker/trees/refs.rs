//! Where branches are, read from git's own files: a process of git's for each question would cost more than the answer.
//!
//! Where the files do not tell, as in a repository that keeps its branches in another form, git has to be asked.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The branches of a repository.
#[derive(Debug, Clone)]
pub(super) struct Refs {
    /// What all worktrees share.
    pub common: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Branch {
    At(String),
    Missing,
    /// The files do not tell.
    Unknown,
}

impl Refs {
    pub(super) fn branch(&self, name: &str) -> Branch {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        let heads = self.common.join("refs/heads");
        if !name.split('/').all(is_plain)
            || !heads.is_dir()
            || self.common.join("reftable").exists()
        {
            return Branch::Unknown;
        }
        // A branch is in the list before its own file goes, so the file is looked at first.
        match fs::read_to_string(heads.join(name)) {
            Ok(text) => return hash(&text).map_or(Branch::Unknown, Branch::At),
            Err(error) if is_absent(error.kind()) => {}
            Err(_) => return Branch::Unknown,
        }
        let packed = match fs::read(self.common.join("packed-refs")) {
            Ok(packed) => packed,
            Err(error) if error.kind() == ErrorKind::NotFound => return Branch::Missing,
            Err(_) => return Branch::Unknown,
        };
        let end = format!(" refs/heads/{name}").into_bytes();
        let mut lines = packed.split(|byte| *byte == b'\n');
        match lines.find_map(|line| line.strip_suffix(&end[..])) {
            Some(found) => {
                hash(&String::from_utf8_lossy(found)).map_or(Branch::Unknown, Branch::At)
            }
            None => Branch::Missing,
        }
    }

    /// The commit that the main worktree is at.
    pub(super) fn main_head(&self) -> Option<String> {
        self.head(&self.common)
    }

    /// The commit that a worktree is at.
    pub(super) fn head_of(&self, tree: &Path) -> Option<String> {
        let link = fs::read_to_string(tree.join(".git")).ok()?;
        let git_dir = link.strip_prefix("gitdir: ")?.trim_end_matches('\n');
        self.head(&tree.join(git_dir))
    }

    fn head(&self, git_dir: &Path) -> Option<String> {
        let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
        let Some(branch) = head.trim_end().strip_prefix("ref: refs/heads/") else {
            return hash(&head);
        };
        match self.branch(branch) {
            Branch::At(commit) => Some(commit),
            Branch::Missing | Branch::Unknown => None,
        }
    }

    /// Whether git may know a worktree of this name.
    pub(super) fn may_have_tree(&self, name: &std::ffi::OsStr) -> bool {
        let entry = self.common.join("worktrees").join(name);
        !matches!(entry.try_exists(), Ok(false))
    }
}

/// What is there instead may be a directory of branches, or above it a branch.
fn is_absent(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory
    )
}

fn hash(text: &str) -> Option<String> {
    let text = text.trim_end();
    let is_hash = matches!(text.len(), 40 | 64) && text.bytes().all(|c| c.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned())
}
