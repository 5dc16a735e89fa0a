//! The directory that a job's agents work in: a git worktree on a branch of the job's own, or a repository of its own.
//!
//! Checkpoints are commits on that branch and never on one of the user's; nothing is rewritten, merged or pushed. Which
//! checkpoint belongs to which step the ledger knows.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use switchboard_child::git::{Done, identity, paths, try_git};
use switchboard_core::JobId;

/// Below the job's directory.
const WORKSPACE: &str = "workspace";
/// Commits are made in this name where git has none.
const COMMITTER: &str = "switchboard";

#[derive(Clone, Debug)]
pub struct Workspace {
    pub path: PathBuf,
    branch: String,
}

/// What tells each file of a workspace from another one, without reading it.
pub(super) struct Stamp(Option<BTreeMap<PathBuf, Mark>>);

/// Of one file: its number, its length, and when it was changed.
type Mark = (u64, u64, (i64, i64));

/// Where more is, git is asked.
const STAMPED_MAX: usize = 2000;

/// The git worktree around a directory, if it has a commit that work can start from.
pub async fn repository_around(dir: &Path) -> Option<PathBuf> {
    let dir = dir.canonicalize().ok()?;
    let root = dir.ancestors().find(|dir| dir.join(".git").exists())?;
    has_commit(root).await.then(|| root.to_owned())
}

async fn has_commit(root: &Path) -> bool {
    let env = trusted(root);
    let args = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"];
    let done = try_git(root, &args, &borrowed(&env), b"").await;
    done.is_ok_and(|done| done.code == Some(0))
}

/// Git's environment where a directory may belong to somebody else, and no hook is to run.
pub(super) fn trusted(dir: &Path) -> Vec<(&'static str, String)> {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let above = dir.parent().unwrap_or(&dir);
    vec![
        ("GIT_CEILING_DIRECTORIES", above.display().to_string()),
        ("GIT_CONFIG_COUNT", "2".to_owned()),
        ("GIT_CONFIG_KEY_0", "safe.directory".to_owned()),
        ("GIT_CONFIG_VALUE_0", dir.display().to_string()),
        ("GIT_CONFIG_KEY_1", "core.hooksPath".to_owned()),
        ("GIT_CONFIG_VALUE_1", "/dev/null".to_owned()),
    ]
}

fn borrowed<'a>(env: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    env.iter().map(|(name, value)| (*name, &**value)).collect()
}

impl Workspace {
    pub fn of(directory: &Path, job: &JobId) -> Workspace {
        Workspace {
            path: directory.join(WORKSPACE),
            branch: format!("job-{job}"),
        }
    }

    /// Makes it unless it is there: on the repository if there is one with a commit, else as one of its own.
    pub async fn open(&self, repository: Option<&Path>) -> Result<(), String> {
        if self.path.join(".git").exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.path).map_err(|error| told(&self.path, &error))?;
        let mut there = fs::read_dir(&self.path).map_err(|error| told(&self.path, &error))?;
        match repository {
            // Files that are there already become the start of a repository of their own.
            Some(repository) if there.next().is_none() => self.add_to(repository).await,
            Some(_) | None => self.begin().await,
        }
    }

    async fn begin(&self) -> Result<(), String> {
        let branch = format!("--initial-branch={}", self.branch);
        self.git(&["init", "--quiet", "--template=", &branch])
            .await?;
        self.checkpoint("the workspace as it was").await.map(drop)
    }

    async fn add_to(&self, repository: &Path) -> Result<(), String> {
        let env = trusted(repository);
        let path = self.path.to_string_lossy();
        let run = async |args: &[&str]| try_git(repository, args, &borrowed(&env), b"").await;
        let add = ["worktree", "add", "--quiet"];
        let anew = ["--no-track", "-b", &self.branch, &*path, "HEAD"];
        if run(&[&add[..], &anew[..]].concat()).await?.code == Some(0) {
            return Ok(());
        }
        if !has_commit(repository).await {
            return self.begin().await;
        }
        // One whose directory was removed is forgotten first; git does not take an empty one for it.
        let _ = fs::remove_dir(&self.path);
        run(&["worktree", "remove", "--force", &path]).await?;
        let reference = self.reference();
        let known = run(&["rev-parse", "--verify", "--quiet", &reference]).await?;
        let words: &[&str] = match known.code {
            Some(0) => &[&*path, &self.branch],
            Some(_) | None => &anew,
        };
        succeeded("worktree", run(&[&add[..], words].concat()).await?).map(drop)
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// Commits whatever is there; the commit that the job's branch is at.
    pub async fn checkpoint(&self, message: &str) -> Result<String, String> {
        let head = fs::read_to_string(self.git_dir().join("HEAD")).unwrap_or_default();
        if head.trim_end().strip_prefix("ref: ") != Some(&self.reference()) {
            self.back_to_branch().await?;
        }
        self.unlock();
        self.git(&["add", "--all"]).await?;
        let done = self.commit(&[], message).await?;
        let done = match (done.code, self.head().await) {
            // There was nothing to commit, unless nothing was ever committed.
            (Some(0 | 1), Ok(head)) => return Ok(head),
            (Some(1), Err(_)) => self.commit(&["--allow-empty"], message).await?,
            (_, _) => done,
        };
        succeeded("commit", done)?;
        self.head().await
    }

    /// In our name only if git has none: most of the time it has, and need not be asked.
    async fn commit(&self, more: &[&str], message: &str) -> Result<Done, String> {
        let words = [
            "commit",
            "--quiet",
            "--no-verify",
            "--cleanup=whitespace",
            "--file=-",
        ];
        let args = [&words[..], more].concat();
        let mut env = trusted(&self.path);
        let done = try_git(&self.path, &args, &borrowed(&env), message.as_bytes()).await?;
        if matches!(done.code, Some(0 | 1)) {
            return Ok(done);
        }
        env.extend(identity(&self.path, COMMITTER, &borrowed(&env)).await?);
        try_git(&self.path, &args, &borrowed(&env), message.as_bytes()).await
    }

    /// Puts every file back to that commit. What is there is committed first, and stays in the branch's history.
    pub async fn restore(&self, commit: &str, message: &str) -> Result<String, String> {
        let name = format!("{commit}^{{commit}}");
        let known = self.try_git(&["cat-file", "-e", &name]).await?;
        if known.code != Some(0) {
            return Err(format!(
                "the workspace {} has no commit {commit}; resume from another checkpoint",
                self.path.display()
            ));
        }
        self.checkpoint(message).await?;
        self.git(&["read-tree", "-u", "--reset", commit]).await?;
        self.checkpoint(message).await
    }

    /// What is not committed, without what git ignores.
    pub async fn changed(&self) -> Result<Vec<String>, String> {
        let args = [
            "status",
            "--porcelain",
            "--untracked-files=all",
            "--no-renames",
            "-z",
        ];
        let printed = self.git(&args).await?;
        let entries = paths(&printed).map(|entry| entry.to_string_lossy().into_owned());
        Ok(entries
            .filter_map(|entry| entry.get(3..).map(str::to_owned))
            .collect())
    }

    /// Those that git ignores.
    pub async fn ignored(&self, files: &[&str]) -> Result<HashSet<String>, String> {
        let env = trusted(&self.path);
        let (args, input) = (["check-ignore", "-z", "--stdin"], files.join("\0"));
        let done = try_git(&self.path, &args, &borrowed(&env), input.as_bytes()).await?;
        Ok(paths(&done.stdout)
            .map(|path| path.to_string_lossy().into_owned())
            .collect())
    }

    /// The commit that the job's branch is at.
    pub async fn head(&self) -> Result<String, String> {
        let dir = self.git_dir();
        let common = fs::read_to_string(dir.join("commondir"));
        let common = common.map_or_else(|_| dir.clone(), |common| dir.join(common.trim_end()));
        if let Ok(commit) = fs::read_to_string(common.join(self.reference())) {
            return Ok(commit.trim_end().to_owned());
        }
        // It lies elsewhere.
        let reference = self.reference();
        let printed = self
            .git(&["rev-parse", "--verify", "--quiet", &reference])
            .await?;
        Ok(String::from_utf8_lossy(&printed).trim_end().to_owned())
    }

    /// What a person reads of it.
    pub async fn told(&self) -> Result<String, String> {
        let printed = self.git(&["status", "--short", "--branch"]).await?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    /// Removes it; its commits stay on the job's branch where the repository is another's.
    pub async fn remove(&self) -> Result<(), String> {
        if self.path.join(".git").is_file() {
            let path = self.path.to_string_lossy();
            self.git(&["worktree", "remove", "--force", &path]).await?;
        }
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(told(&self.path, &error)),
            _ => Ok(()),
        }
    }

    /// Whatever branch an agent switched to: its files stay, and what is committed goes to the job's branch.
    async fn back_to_branch(&self) -> Result<(), String> {
        let reference = self.reference();
        let known = self
            .try_git(&["rev-parse", "--verify", "--quiet", &reference])
            .await?;
        if known.code != Some(0) {
            // It begins where the workspace is, if that is anywhere.
            self.try_git(&["update-ref", &reference, "HEAD"]).await?;
        }
        self.git(&["symbolic-ref", "HEAD", &reference])
            .await
            .map(drop)
    }

    /// Whoever was killed in the middle of a change left a lock. Nobody works here while checkpoints are made.
    fn unlock(&self) {
        let dir = self.git_dir();
        for name in ["index.lock", "HEAD.lock"] {
            // There is none, as a rule.
            let _ = fs::remove_file(dir.join(name));
        }
    }

    /// Where git keeps what is this worktree's own.
    fn git_dir(&self) -> PathBuf {
        let dot_git = self.path.join(".git");
        match fs::read_to_string(&dot_git) {
            Ok(text) => {
                let named = text.trim_end().strip_prefix("gitdir: ").unwrap_or_default();
                self.path.join(named)
            }
            Err(_) => dot_git,
        }
    }

    async fn try_git(&self, args: &[&str]) -> Result<Done, String> {
        if !self.path.is_dir() {
            return Err(format!("the workspace {} is gone", self.path.display()));
        }
        let env = trusted(&self.path);
        try_git(&self.path, args, &borrowed(&env), b"").await
    }

    async fn git(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let done = self.try_git(args).await?;
        succeeded(args.first().copied().unwrap_or_default(), done)
    }
}

impl Stamp {
    pub fn of(workspace: &Workspace) -> Stamp {
        let (mut files, mut dirs) = (BTreeMap::new(), vec![PathBuf::new()]);
        while let Some(dir) = dirs.pop() {
            let entries = fs::read_dir(workspace.path.join(&dir))
                .into_iter()
                .flatten();
            for entry in entries.flatten() {
                let path = dir.join(entry.file_name());
                let Ok(found) = entry.metadata() else {
                    continue;
                };
                match found.is_dir() {
                    true if path == Path::new(".git") => {}
                    true => dirs.push(path),
                    false => {
                        let changed_at = (found.ctime(), found.ctime_nsec());
                        files.insert(path, (found.ino(), found.len(), changed_at));
                    }
                }
            }
            if files.len() + dirs.len() > STAMPED_MAX {
                return Stamp(None);
            }
        }
        Stamp(Some(files))
    }

    /// Files that differ; nothing if there are too many to say.
    pub fn changed(&self, after: &Stamp) -> Option<Vec<String>> {
        let (before, after) = (self.0.as_ref()?, after.0.as_ref()?);
        let new = after
            .iter()
            .filter(|(path, file)| before.get(*path) != Some(*file));
        let gone = before.keys().filter(|path| !after.contains_key(*path));
        let all = new.map(|(path, _)| path).chain(gone);
        Some(
            all.map(|path| path.to_string_lossy().into_owned())
                .collect(),
        )
    }
}

fn succeeded(what: &str, done: Done) -> Result<Vec<u8>, String> {
    match done.code {
        Some(0) => Ok(done.stdout),
        Some(_) | None => Err(format!("git {what} failed: {}", done.stderr)),
    }
}

fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests;
