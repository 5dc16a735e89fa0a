//! A git worktree per task: made, gone on with, committed and removed, and never one that no worker made.
//!
//! The repository's own configuration remembers, per branch, for which task it was made, where its worktree is and what
//! it started from. Nothing is merged or pushed. Each call of git is a process, which is most of what a worktree costs.

mod commit;
mod refs;

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use switchboard_child::git::{git, line, maybe, paths, try_git};
use switchboard_child::{Piece, Program, Run, Tail};
use switchboard_wire::jetpack::Task;
use switchboard_wire::limits::{FILES_MAX, PATH_BYTES_MAX};
use tokio::sync::mpsc;

use super::WorkerError;
use super::error::TreeError;
use refs::{Branch, Refs};

pub(super) use commit::{Authorship, Committed};

/// Branches of one name that several ledgers may have.
const NAMESAKES_MAX: u32 = 99;
const SLUG_CHARS_MAX: usize = 40;
/// Files that `.worktreeinclude` may name.
const INCLUDED_MAX: usize = 10_000;
const SETUP_TAIL_BYTES: usize = 8 * 1024;

/// Where the worktrees of a repository are.
#[derive(Debug, Clone)]
pub struct Trees {
    /// The main worktree.
    pub repository: PathBuf,
    /// Below it, hidden from git.
    pub dir: PathBuf,
    /// Run in each new worktree.
    pub setup: Option<Program>,
    /// Leave worktrees where they are.
    pub keep: bool,
    refs: Refs,
    has_identity: Arc<AtomicBool>,
}

/// A worktree at work; nobody else works in it while this exists.
#[derive(Debug)]
pub(super) struct Tree {
    pub path: PathBuf,
    pub branch: String,
    /// The commit that the branch started from.
    pub base: String,
    /// It was clean when it was last looked at, and nothing ran in it since.
    is_as_seen: AtomicBool,
    _lock: File,
}

/// What became of a worktree that is not in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    pub path: PathBuf,
    /// Why it stays, if it does.
    pub kept: Option<String>,
}

/// What an attempt changed, by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    pub created: Vec<String>,
    pub modified: Vec<String>,
    pub deleted: Vec<String>,
}

impl Trees {
    /// Of the repository around `dir`, with its worktrees in `.switchboard/worktrees` of the main one.
    pub async fn around(dir: &Path) -> Result<Trees, WorkerError> {
        let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = line(dir, &common).await;
        let common = common.map_err(|_| WorkerError::NoRepository(dir.to_owned()))?;
        let list = git(dir, &["worktree", "list", "--porcelain", "-z"]).await;
        let list = list.map_err(WorkerError::Git)?;
        let main = entries(&list).into_iter().next().map(|entry| entry.path);
        let repository = main.unwrap_or_else(|| PathBuf::from(&common));
        let head = maybe(
            &repository,
            &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"],
        )
        .await;
        if head.map_err(WorkerError::Git)?.is_none() {
            return Err(WorkerError::NoCommit(repository));
        }
        Ok(Trees {
            dir: repository.join(".switchboard/worktrees"),
            repository,
            setup: None,
            keep: false,
            refs: Refs {
                common: PathBuf::from(common),
            },
            has_identity: Arc::default(),
        })
    }

    pub(super) fn check(&self) -> Result<(), WorkerError> {
        let made = || -> std::io::Result<()> {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&self.dir)?;
            let ignore = self.dir.join(".gitignore");
            match ignore.exists() {
                true => Ok(()),
                false => fs::write(&ignore, "*\n").inspect_err(|_| {
                    // An empty one would hide nothing.
                    let _ = fs::remove_file(&ignore);
                }),
            }
        };
        made().map_err(|error| WorkerError::Git(format!("{}: {error}", self.dir.display())))
    }

    /// The worktree of this task: a new one, or that of an earlier attempt. `dependency` is the branch of its only one.
    pub(super) async fn open(
        &self,
        task: &Task,
        dependency: Option<&str>,
    ) -> Result<Tree, TreeError> {
        self.check()
            .map_err(|error| TreeError::Git(error.to_string()))?;
        let _turn = self.turn().await?;
        let mark = format!("{} {}", task.id, task.created_at);
        let (branch, known_base) = self.branch_for(task, &mark).await?;
        let path = self
            .dir
            .join(branch.trim_start_matches("sb/").replace('/', "-"));
        let lock = lock_of(&path)?;
        let is_there = path.exists();
        let name = path.file_name().unwrap_or_default();
        if is_there || self.refs.may_have_tree(name) {
            self.make_way(&path, &branch, is_there).await?;
        }
        let base = match known_base {
            Some(base) if is_there => base,
            Some(base) => {
                let args = [
                    "worktree".as_ref(),
                    "add".as_ref(),
                    "--quiet".as_ref(),
                    path.as_os_str(),
                    branch.as_ref(),
                ];
                self.git(&args).await?;
                base
            }
            None => self.begin(&path, &branch, task, dependency, &mark).await?,
        };
        let tree = Tree {
            path,
            branch,
            base,
            is_as_seen: AtomicBool::new(false),
            _lock: lock,
        };
        if !is_there && let Err(error) = self.furnish(&tree).await {
            // Half a worktree is of no use to the next attempt.
            let path = tree.path.as_os_str();
            self.git(&[
                "worktree".as_ref(),
                "remove".as_ref(),
                "--force".as_ref(),
                path,
            ])
            .await?;
            return Err(error);
        }
        Ok(tree)
    }

    /// What is at the place already: the worktree of this branch, or in the way.
    async fn make_way(&self, path: &Path, branch: &str, is_there: bool) -> Result<(), TreeError> {
        let list = self.git(&["worktree", "list", "--porcelain", "-z"]).await?;
        let known = entries(&list).into_iter().find(|entry| entry.path == path);
        if let Some(entry) = &known {
            if entry.is_locked {
                return Err(TreeError::Locked(path.to_owned()));
            }
            if entry.branch.as_deref() != Some(branch) {
                return Err(TreeError::InTheWay(path.to_owned()));
            }
        }
        match (&known, is_there) {
            (None, true) => Err(TreeError::InTheWay(path.to_owned())),
            // Its directory is gone: forgotten, and made anew on its branch.
            (Some(_), false) => self.git(&["worktree", "prune"]).await.map(drop),
            (Some(_), true) | (None, false) => Ok(()),
        }
    }

    /// Something runs in it, so what was seen of it no longer holds.
    pub(super) fn disturb(tree: &Tree) {
        tree.is_as_seen.store(false, Ordering::Relaxed);
    }

    /// Whether everything in it is committed. What was just found out is not asked again.
    pub(super) async fn is_clean(&self, tree: &Tree) -> Result<bool, String> {
        match tree.is_as_seen.load(Ordering::Relaxed) {
            true => Ok(true),
            false => commit::is_clean(&tree.path).await,
        }
    }

    /// What the branch changed from its start to this commit.
    pub(super) async fn changed(&self, tree: &Tree, commit: &str) -> Result<Changed, String> {
        let mut changed = Changed::default();
        if commit == tree.base {
            return Ok(changed);
        }
        let args = [
            "diff",
            "--name-status",
            "--no-renames",
            "-z",
            &tree.base,
            commit,
        ];
        let printed = git(&tree.path, &args).await?;
        let mut parts = paths(&printed);
        while let (Some(kind), Some(path)) = (parts.next(), parts.next()) {
            let list = match kind.to_str() {
                Some("A") => &mut changed.created,
                Some("D") => &mut changed.deleted,
                _ => &mut changed.modified,
            };
            let path = path.to_string_lossy().into_owned();
            if list.len() < FILES_MAX && path.len() <= PATH_BYTES_MAX {
                list.push(path);
            }
        }
        Ok(changed)
    }

    /// Removes a worktree whose work is committed; why it stays, if it does.
    pub(super) async fn close(&self, tree: Tree) -> Result<Option<String>, String> {
        if self.keep {
            return Ok(Some("worktrees are kept".to_owned()));
        }
        let _turn = self.turn().await.map_err(|error| error.to_string())?;
        match tree.is_as_seen.load(Ordering::Relaxed) {
            // Git would look once more.
            true => self.force_out(&tree.path).await.map(|()| None),
            false => self.remove(&tree.path).await,
        }
    }

    /// Removes every worktree that a worker made, that is clean and not in use.
    pub async fn clean(&self) -> Result<Vec<Cleaned>, WorkerError> {
        let failed = |error: TreeError| WorkerError::Git(error.to_string());
        self.check()?;
        let _turn = self.turn().await.map_err(failed)?;
        let list = self
            .git(&["worktree", "list", "--porcelain", "-z"])
            .await
            .map_err(failed)?;
        let mut cleaned = Vec::new();
        for entry in entries(&list)
            .into_iter()
            .filter(|entry| entry.path.starts_with(&self.dir))
        {
            let kept = self.clean_one(&entry).await.map_err(WorkerError::Git)?;
            cleaned.push(Cleaned {
                path: entry.path,
                kept,
            });
        }
        Ok(cleaned)
    }

    async fn clean_one(&self, entry: &Entry) -> Result<Option<String>, String> {
        let is_ours = match &entry.branch {
            Some(branch) => {
                let key = format!("branch.{branch}.switchboard-task");
                maybe(&self.repository, &["config", &key]).await?.is_some()
            }
            None => false,
        };
        if !is_ours {
            return Ok(Some("no worker made it".to_owned()));
        }
        if entry.is_locked {
            return Ok(Some("it is locked".to_owned()));
        }
        match lock_of(&entry.path) {
            Ok(_lock) => self.remove(&entry.path).await,
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    async fn remove(&self, path: &Path) -> Result<Option<String>, String> {
        let remove = ["worktree".as_ref(), "remove".as_ref(), path.as_os_str()];
        let removed = try_git(&self.repository, &remove, &[], b"").await?;
        if removed.code != Some(0) {
            if path.exists() && !commit::is_clean(path).await? {
                return Ok(Some("something in it is not committed".to_owned()));
            }
            // It is clean; only submodules keep git from it.
            return self.force_out(path).await.map(|()| None);
        }
        // If it stays, it is taken again.
        let _ = fs::remove_file(lock_file(path));
        Ok(None)
    }

    /// Removes a worktree that is known to be clean. One that is locked stays all the same.
    async fn force_out(&self, path: &Path) -> Result<(), String> {
        let words = ["worktree", "remove", "--force"];
        let mut args: Vec<&std::ffi::OsStr> = words.iter().map(std::ffi::OsStr::new).collect();
        args.push(path.as_os_str());
        git(&self.repository, &args).await?;
        // If it stays, it is taken again.
        let _ = fs::remove_file(lock_file(path));
        Ok(())
    }

    /// The branch for this task, and what it started from unless it is yet to be made.
    async fn branch_for(
        &self,
        task: &Task,
        mark: &str,
    ) -> Result<(String, Option<String>), TreeError> {
        let plain = format!("sb/{}-{}", task.number, slug(&task.title));
        for count in 1..=NAMESAKES_MAX {
            let name = match count {
                1 => plain.clone(),
                count => format!("{plain}-{count}"),
            };
            if !self.has_branch(&name).await? {
                return Ok((name, None));
            }
            let key = format!("branch.{name}.switchboard-task");
            let made_for = maybe(&self.repository, &["config", &key]).await;
            let made_for = made_for.map_err(TreeError::Git)?.unwrap_or_default();
            if let Some((base, _)) = made_for.split_once(' ').filter(|(_, made)| *made == mark) {
                return Ok((name, Some(base.to_owned())));
            }
        }
        Err(TreeError::Git(format!(
            "there are {NAMESAKES_MAX} branches named {plain}; delete some"
        )))
    }

    async fn has_branch(&self, name: &str) -> Result<bool, TreeError> {
        let reference = format!("refs/heads/{name}");
        let args = ["rev-parse", "--verify", "--quiet", &reference];
        match self.refs.branch(name) {
            Branch::At(_) => Ok(true),
            Branch::Missing => Ok(false),
            Branch::Unknown => {
                let found = maybe(&self.repository, &args).await;
                Ok(found.map_err(TreeError::Git)?.is_some())
            }
        }
    }

    /// A new branch in a new worktree; what it started from.
    async fn begin(
        &self,
        path: &Path,
        branch: &str,
        task: &Task,
        dependency: Option<&str>,
        mark: &str,
    ) -> Result<String, TreeError> {
        let base = self.start(task, dependency).await?;
        let words = ["worktree", "add", "--quiet", "--no-track", "-b", branch];
        let mut args: Vec<&std::ffi::OsStr> = words.iter().map(std::ffi::OsStr::new).collect();
        args.extend([path.as_os_str(), base.as_ref()]);
        let key = format!("branch.{branch}.switchboard-task");
        let value = format!("{base} {mark}");
        let was_missing = self.refs.branch(branch) == Branch::Missing;
        let was_there = path.exists();
        let made = match self.git(&args).await {
            Ok(_) => self.git(&["config", &key, &value]).await,
            Err(error) => Err(error),
        };
        if let Err(error) = made {
            if !was_there && path.exists() {
                // What it says of this matters less than why it came to this.
                let _ = self.force_out(path).await;
            }
            // Git makes the branch before it finds out that there is no room for the files.
            if was_missing && self.refs.branch(branch) == Branch::At(base.clone()) {
                let reference = format!("refs/heads/{branch}");
                let _ = self.git(&["update-ref", "-d", &reference, &base]).await;
            }
            return Err(error);
        }
        Ok(base)
    }

    /// The commit to start from: the task's branch, else its only dependency's, else HEAD.
    async fn start(&self, task: &Task, dependency: Option<&str>) -> Result<String, TreeError> {
        let commit = async |name: &str| {
            if let Branch::At(commit) = self.refs.branch(name) {
                return Ok(Some(commit));
            }
            let name = format!("{name}^{{commit}}");
            let args = [
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &name,
            ];
            maybe(&self.repository, &args).await.map_err(TreeError::Git)
        };
        if let Some(branch) = &task.branch {
            let found = commit(branch).await?;
            return found.ok_or_else(|| {
                TreeError::Git(format!("there is no branch {branch}, which the task names"))
            });
        }
        if let Some(branch) = dependency
            && let Some(found) = commit(branch).await?
        {
            return Ok(found);
        }
        if let Some(head) = self.refs.main_head() {
            return Ok(head);
        }
        let head = commit("HEAD").await?;
        head.ok_or_else(|| TreeError::Git("the repository has no commit".to_owned()))
    }

    /// What a new worktree needs beyond its checkout.
    async fn furnish(&self, tree: &Tree) -> Result<(), TreeError> {
        if tree.path.join(".gitmodules").is_file() {
            let args = ["submodule", "update", "--init", "--recursive", "--quiet"];
            git(&tree.path, &args).await.map_err(TreeError::Git)?;
        }
        self.include(tree).await?;
        match &self.setup {
            Some(setup) => set_up(setup, tree).await,
            None => Ok(()),
        }
    }

    /// Copies what `.worktreeinclude` names and git ignores.
    async fn include(&self, tree: &Tree) -> Result<(), TreeError> {
        if !self.repository.join(".worktreeinclude").is_file() {
            return Ok(());
        }
        let named = [
            "ls-files",
            "-z",
            "--others",
            "--ignored",
            "--exclude-from=.worktreeinclude",
        ];
        let ignored = [
            "ls-files",
            "-z",
            "--others",
            "--ignored",
            "--exclude-standard",
        ];
        let ignored = self.git(&ignored).await?;
        let ignored: std::collections::HashSet<_> = paths(&ignored).collect();
        let named = self.git(&named).await?;
        for path in paths(&named)
            .filter(|path| ignored.contains(path))
            .take(INCLUDED_MAX)
        {
            let (from, to) = (self.repository.join(&path), tree.path.join(&path));
            let is_file = from.symlink_metadata().is_ok_and(|meta| meta.is_file());
            if !is_file || from.starts_with(&self.dir) || to.exists() {
                continue;
            }
            if let Some(dir) = to.parent() {
                fs::create_dir_all(dir).map_err(TreeError::file(dir))?;
            }
            fs::copy(&from, &to).map_err(TreeError::file(&from))?;
        }
        Ok(())
    }

    /// One process at a time changes the list of worktrees.
    async fn turn(&self) -> Result<File, TreeError> {
        let file = self.dir.join("turn.lock");
        let open = File::create(&file).map_err(TreeError::file(&file))?;
        let waited = tokio::task::spawn_blocking(move || open.lock().map(|()| open)).await;
        let locked = waited.map_err(|error| TreeError::Git(error.to_string()))?;
        locked.map_err(TreeError::file(&file))
    }

    async fn git<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Result<Vec<u8>, TreeError> {
        git(&self.repository, args).await.map_err(TreeError::Git)
    }
}

/// One of the list that git prints.
struct Entry {
    path: PathBuf,
    branch: Option<String>,
    is_locked: bool,
}

fn entries(printed: &[u8]) -> Vec<Entry> {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut entries: Vec<Entry> = Vec::new();
    for part in paths(printed) {
        let bytes = part.as_bytes();
        if let Some(path) = bytes.strip_prefix(b"worktree ") {
            let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
            entries.push(Entry {
                path,
                branch: None,
                is_locked: false,
            });
        } else if let Some(entry) = entries.last_mut() {
            if let Some(branch) = bytes.strip_prefix(b"branch refs/heads/") {
                entry.branch = Some(String::from_utf8_lossy(branch).into_owned());
            }
            entry.is_locked |= bytes == b"locked" || bytes.starts_with(b"locked ");
        }
    }
    entries
}

fn lock_file(path: &Path) -> PathBuf {
    path.with_added_extension("lock")
}

/// Held while somebody works there.
fn lock_of(path: &Path) -> Result<File, TreeError> {
    let file = lock_file(path);
    let open = File::create(&file).map_err(TreeError::file(&file))?;
    match open.try_lock() {
        Ok(()) => Ok(open),
        Err(fs::TryLockError::WouldBlock) => Err(TreeError::InUse(path.to_owned())),
        Err(fs::TryLockError::Error(error)) => Err(TreeError::file(&file)(error)),
    }
}

async fn set_up(setup: &Program, tree: &Tree) -> Result<(), TreeError> {
    let run = Run {
        program: Program {
            dir: Some(tree.path.clone()),
            ..setup.clone()
        },
        ..Run::default()
    };
    let (pieces, mut printed) = mpsc::channel::<Piece>(16);
    let mut tail = Tail::new(SETUP_TAIL_BYTES);
    let read = async {
        while let Some(piece) = printed.recv().await {
            tail.push(&piece.bytes);
        }
    };
    let (ended, ()) = tokio::join!(run.to_end(pieces, std::future::pending()), read);
    let ended = ended.map_err(|error| TreeError::Setup(error.to_string()))?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(TreeError::Setup(format!(
            "{}\n{}",
            ended.status,
            tail.text().unwrap_or_default()
        ))),
    }
}

/// A title as part of a branch's name.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for letter in title.to_lowercase().chars() {
        match letter {
            'a'..='z' | '0'..='9' => slug.push(letter),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
        if slug.len() >= SLUG_CHARS_MAX {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() {
        "task".to_owned()
    } else {
        slug.to_owned()
    }
}

#[cfg(test)]
mod tests;
