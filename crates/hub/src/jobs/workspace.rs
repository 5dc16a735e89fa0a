//! The directory that a job's agents work in: a git worktree on a branch of the job's own, or a repository of its own.
//!
//! Checkpoints are commits on that branch and never on one of the user's; nothing is rewritten, merged or pushed. Which
//! checkpoint belongs to which step the ledger knows.

use std::fs;
use std::io;
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

/// What git says of a worktree.
struct Status {
    /// None before the first commit.
    head: Option<String>,
    branch: Option<String>,
    is_clean: bool,
}

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
            Some(repository) if there.next().is_none() && has_commit(repository).await => {
                self.add_to(repository).await
            }
            Some(_) | None => {
                let branch = format!("--initial-branch={}", self.branch);
                self.git(&["init", "--quiet", "--template=", &branch])
                    .await?;
                self.checkpoint("the workspace as it was").await.map(drop)
            }
        }
    }

    async fn add_to(&self, repository: &Path) -> Result<(), String> {
        let env = trusted(repository);
        let path = self.path.to_string_lossy();
        let run = async |args: &[&str]| try_git(repository, args, &borrowed(&env), b"").await;
        let reference = format!("refs/heads/{}", self.branch);
        let known = run(&["rev-parse", "--verify", "--quiet", &reference]).await?;
        // One whose directory was removed is forgotten first.
        run(&["worktree", "remove", "--force", &path]).await?;
        let mut args = vec!["worktree", "add", "--quiet"];
        match known.code {
            Some(0) => args.extend([&*path, &self.branch]),
            Some(_) | None => args.extend(["--no-track", "-b", &self.branch, &*path, "HEAD"]),
        }
        succeeded("worktree", run(&args).await?).map(drop)
    }

    /// Commits whatever is there; the commit that the job's branch is at.
    pub async fn checkpoint(&self, message: &str) -> Result<String, String> {
        let status = self.status().await?;
        let is_ours = status.branch.as_deref() == Some(&self.branch);
        if !is_ours {
            self.back_to_branch().await?;
        }
        match status.head {
            Some(head) if is_ours && status.is_clean => Ok(head),
            Some(_) | None => self.commit(message).await,
        }
    }

    async fn commit(&self, message: &str) -> Result<String, String> {
        self.unlock();
        self.git(&["add", "--all"]).await?;
        let mut env = trusted(&self.path);
        env.extend(identity(&self.path, COMMITTER, &borrowed(&env)).await?);
        let args = [
            "commit",
            "--quiet",
            "--no-verify",
            "--allow-empty",
            "--cleanup=whitespace",
            "--file=-",
        ];
        let done = try_git(&self.path, &args, &borrowed(&env), message.as_bytes()).await?;
        succeeded("commit", done)?;
        self.head().await
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

    /// What was changed between two checkpoints.
    pub async fn changed(&self, from: &str, to: &str) -> Result<Vec<String>, String> {
        if from == to {
            return Ok(Vec::new());
        }
        let args = ["diff", "--name-only", "--no-renames", "-z", from, to, "--"];
        let printed = self.git(&args).await?;
        Ok(paths(&printed)
            .map(|path| path.to_string_lossy().into_owned())
            .collect())
    }

    pub async fn head(&self) -> Result<String, String> {
        let printed = self.git(&["rev-parse", "HEAD"]).await?;
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

    async fn status(&self) -> Result<Status, String> {
        let args = ["status", "--porcelain=v2", "--branch", "-z"];
        let printed = self.git(&args).await?;
        let mut status = Status {
            head: None,
            branch: None,
            is_clean: true,
        };
        for part in paths(&printed) {
            let line = part.to_string_lossy();
            match line.strip_prefix("# ") {
                None => status.is_clean = false,
                Some(header) => match header.split_once(' ') {
                    Some(("branch.oid", oid)) if oid != "(initial)" => {
                        status.head = Some(oid.to_owned());
                    }
                    Some(("branch.head", name)) => status.branch = Some(name.to_owned()),
                    Some(_) | None => {}
                },
            }
        }
        Ok(status)
    }

    /// Whatever branch an agent switched to: its files stay, and what is committed goes to the job's branch.
    async fn back_to_branch(&self) -> Result<(), String> {
        let reference = format!("refs/heads/{}", self.branch);
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
        let dot_git = self.path.join(".git");
        let dir = match fs::read_to_string(&dot_git) {
            Ok(text) => {
                let named = text.trim().strip_prefix("gitdir: ").unwrap_or_default();
                self.path.join(named)
            }
            Err(_) => dot_git,
        };
        for name in ["index.lock", "HEAD.lock"] {
            // There is none, as a rule.
            let _ = fs::remove_file(dir.join(name));
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
