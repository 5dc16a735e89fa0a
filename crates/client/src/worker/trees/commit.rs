//! What a program left in its worktree becomes a commit.

use std::path::Path;
use std::sync::atomic::Ordering;

use switchboard_child::git::{Done, git, identity, is_full, line, paths, try_git, why};
use switchboard_wire::jetpack::Task;

use super::{Tree, Trees};

/// How a commit went.
pub(in super::super) enum Committed {
    /// Everything that was there is in this commit.
    At(String),
    /// A hook refused, with these words.
    Refused(String),
}

/// Who commits, and for what.
pub(in super::super) struct Authorship<'a> {
    pub task: &'a Task,
    pub agent: &'a str,
    pub summary: &'a str,
}

/// How a worktree is.
struct Status {
    head: String,
    is_clean: bool,
}

impl Trees {
    /// Commits whatever is there. What the agent committed itself gets the trailers too.
    pub(in super::super) async fn commit(
        &self,
        tree: &Tree,
        by: &Authorship<'_>,
    ) -> Result<Committed, String> {
        tree.is_as_seen.store(false, Ordering::Relaxed);
        let trailers = [
            format!("Switchboard-Task: {}", by.task.id),
            format!("Switchboard-Epoch: {}", by.task.epoch),
            format!("Switchboard-Agent: {}", by.agent),
        ];
        let status = status(&tree.path).await?;
        if !status.is_clean {
            git(&tree.path, &["add", "--all"]).await?;
            let message = format!(
                "{}\n\n{}\n\n{}\n",
                one_line(&by.task.title),
                by.summary.trim(),
                trailers.join("\n")
            );
            let args = ["--cleanup=whitespace", "--file=-"].map(str::to_owned);
            let done = self.git_commit(tree, by.agent, &args, &message).await?;
            if done.code == Some(0) {
                return self.at_head(tree).await;
            }
            // What cannot be committed here, as a change within a submodule, is no refusal.
            let staged = ["diff", "--cached", "--quiet"];
            if try_git(&tree.path, &staged, &[], b"").await?.code != Some(0) {
                return Ok(refused(&done));
            }
        }
        tree.is_as_seen.store(status.is_clean, Ordering::Relaxed);
        if status.head == tree.base {
            return Ok(Committed::At(status.head));
        }
        let said = line(&tree.path, &["log", "-1", "--format=%B"]).await?;
        if trailers.iter().all(|trailer| said.contains(trailer)) {
            return Ok(Committed::At(status.head));
        }
        // A hook may run in it now.
        tree.is_as_seen.store(false, Ordering::Relaxed);
        let mut args = ["--amend", "--no-edit", "--no-verify"]
            .map(str::to_owned)
            .to_vec();
        args.extend(trailers.map(|trailer| format!("--trailer={trailer}")));
        let done = self.git_commit(tree, by.agent, &args, "").await?;
        match done.code {
            Some(0) => self.at_head(tree).await,
            _ => Ok(refused(&done)),
        }
    }

    async fn git_commit(
        &self,
        tree: &Tree,
        agent: &str,
        more: &[String],
        message: &str,
    ) -> Result<Done, String> {
        // Once git knows who commits here, that holds.
        let ours = match self.has_identity.load(Ordering::Relaxed) {
            true => Vec::new(),
            false => identity(&tree.path, agent, &[]).await?,
        };
        self.has_identity.store(ours.is_empty(), Ordering::Relaxed);
        let env: Vec<(&str, &str)> = ours.iter().map(|(name, value)| (*name, &**value)).collect();
        let mut args = ["commit", "--quiet"].map(str::to_owned).to_vec();
        args.extend_from_slice(more);
        let done = try_git(&tree.path, &args, &env, message.as_bytes()).await?;
        if done.code != Some(0) {
            let why = why(&self.dir, done.stderr.clone());
            if is_full(&why) {
                return Err(why);
            }
        }
        Ok(done)
    }

    async fn at_head(&self, tree: &Tree) -> Result<Committed, String> {
        Ok(Committed::At(match self.refs.head_of(&tree.path) {
            Some(commit) => commit,
            None => line(&tree.path, &["rev-parse", "HEAD"]).await?,
        }))
    }
}

/// One call tells the commit and whether anything is not in it.
async fn status(path: &Path) -> Result<Status, String> {
    let args = [
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=none",
    ];
    let printed = git(path, &args).await?;
    let mut status = Status {
        head: String::new(),
        is_clean: true,
    };
    for part in paths(&printed) {
        let part = part.to_string_lossy();
        match part.strip_prefix("# ") {
            Some(header) => {
                if let Some(commit) = header.strip_prefix("branch.oid ") {
                    status.head = commit.to_owned();
                }
            }
            None => status.is_clean = false,
        }
    }
    Ok(status)
}

/// Whether everything in it is committed.
pub(super) async fn is_clean(path: &Path) -> Result<bool, String> {
    Ok(status(path).await?.is_clean)
}

fn refused(done: &Done) -> Committed {
    let printed = String::from_utf8_lossy(&done.stdout);
    Committed::Refused(format!("{}\n{printed}", done.stderr))
}

fn one_line(title: &str) -> String {
    let words: Vec<&str> = title.split_whitespace().collect();
    words.join(" ")
}
