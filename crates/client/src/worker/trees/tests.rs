//! Worktrees of real repositories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use switchboard_wire::jetpack::TaskType;
use tempfile::TempDir;

use super::*;

/// A repository in a directory with a space in its name.
struct Repo {
    _home: TempDir,
    root: PathBuf,
}

fn sh(dir: &Path, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-euc", script])
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .expect("sh runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Repo {
    fn new() -> Repo {
        Repo::in_form("files")
    }

    /// One that keeps its branches in this form.
    fn in_form(form: &str) -> Repo {
        let home = tempfile::tempdir().expect("a directory");
        let root = home.path().join("my project");
        fs::create_dir(&root).expect("made");
        let root = root.canonicalize().expect("it is there");
        sh(&root, &format!("git init -q -b main --ref-format={form}"));
        sh(
            &root,
            "git config user.name S; git config user.email s@example.invalid",
        );
        sh(
            &root,
            "echo 1 > one; echo .env > .gitignore; git add .; git commit -qm begin",
        );
        Repo { _home: home, root }
    }

    async fn trees(&self) -> Trees {
        Trees::around(&self.root).await.expect("it is a repository")
    }
}

fn task(id: &str, number: u64, title: &str) -> Task {
    let text = format!(
        r#"{{"id":"{id}","number":{number},"title":"","description":null,"status":"claimed","priority":"low","type":"code",
        "assignedAgent":"a","claimedAt":null,"dependencies":[],"blockers":[],"requiredSkills":[],"files":[],"startedAt":null,
        "completedAt":null,"estimatedMinutes":null,"actualMinutes":null,"retryCount":0,"maxRetries":2,"lastError":null,
        "failureType":null,"nextRetryAt":null,"previousAgents":[],"result":null,"branch":null,"qualitySnapshotId":null,
        "createdAt":"2026-01-19T10:00:00.000Z","updatedAt":"2026-01-19T10:00:00.000Z","epoch":3,"corrId":"c","audience":[],
        "onDependencyFailure":"block","progress":null}}"#
    );
    let task: Task = serde_json::from_str(&text).expect("it is one");
    Task {
        title: title.to_owned(),
        kind: TaskType::Code,
        ..task
    }
}

fn by<'a>(task: &'a Task, summary: &'a str) -> Authorship<'a> {
    Authorship {
        task,
        agent: "claude-1",
        summary,
    }
}

async fn commit(trees: &Trees, tree: &Tree, task: &Task) -> String {
    match trees
        .commit(tree, &by(task, "did it"))
        .await
        .expect("git runs")
    {
        Committed::At(commit) => commit,
        Committed::Refused(why) => panic!("{why}"),
    }
}

#[tokio::test]
async fn a_tree_is_made_committed_removed_and_gone_on_with() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    let task = task("tsk_1", 12, "Fix -- the \"Parser\"!");
    let tree = trees.open(&task, None).await.expect("it is made");
    assert_eq!(tree.branch, "sb/12-fix-the-parser");
    assert_eq!(
        tree.path,
        repo.root.join(".switchboard/worktrees/12-fix-the-parser")
    );
    assert_eq!(
        sh(&repo.root, "git status --porcelain"),
        "",
        "git does not see it"
    );
    let odd = tree.path.join(OsStr::from_bytes(b"b\xff d\nx"));
    fs::write(&odd, "x").expect("written");
    fs::write(tree.path.join("one"), "2").expect("written");
    assert!(!trees.is_clean(&tree).await.expect("git runs"));
    let at = commit(&trees, &tree, &task).await;
    assert!(trees.is_clean(&tree).await.expect("git runs"));
    assert_eq!(
        commit(&trees, &tree, &task).await,
        at,
        "there is nothing more to commit"
    );
    let changed = trees.changed(&tree, &at).await.expect("git runs");
    assert_eq!(changed.modified, ["one"]);
    assert_eq!(changed.created, ["b\u{fffd} d\nx"]);
    let path = tree.path.clone();
    assert_eq!(trees.close(tree).await, Ok(None));
    assert!(!path.exists());
    let again = trees.open(&task, None).await.expect("it is gone on with");
    assert_eq!(again.branch, "sb/12-fix-the-parser");
    assert_eq!(sh(&again.path, "git rev-parse HEAD").trim(), at);
    assert_eq!(
        trees.changed(&again, &at).await.expect("git runs").modified,
        ["one"],
        "since the task began"
    );
}

#[tokio::test]
async fn branches_are_found_wherever_git_keeps_them() {
    for (form, pack) in [
        ("files", "true"),
        ("files", "git pack-refs --all"),
        ("reftable", "true"),
    ] {
        let repo = Repo::in_form(form);
        let trees = repo.trees().await;
        let head = || sh(&repo.root, "git rev-parse HEAD").trim().to_owned();
        let known = |branch: Branch| match form {
            "files" => branch,
            _ => Branch::Unknown,
        };
        sh(&repo.root, pack);
        assert_eq!(trees.refs.branch("main"), known(Branch::At(head())));
        assert_eq!(trees.refs.branch("mai"), known(Branch::Missing));
        assert_eq!(trees.refs.branch("sb"), known(Branch::Missing));
        assert_eq!(trees.refs.branch("../heads/main"), Branch::Unknown);
        let task = task("tsk_1", 1, "t");
        let tree = trees.open(&task, None).await.expect("made");
        assert_eq!(tree.base, head(), "{form}");
        fs::write(tree.path.join("one"), "2").expect("written");
        let at = commit(&trees, &tree, &task).await;
        assert_eq!(at, sh(&tree.path, "git rev-parse HEAD").trim(), "{form}");
        assert_eq!(trees.close(tree).await, Ok(None));
        sh(&repo.root, pack);
        assert_eq!(trees.refs.branch("sb"), known(Branch::Missing));
        assert_eq!(trees.refs.branch("sb/1-t"), known(Branch::At(at.clone())));
        let again = trees.open(&task, None).await.expect("gone on with");
        assert_eq!(again.branch, "sb/1-t", "{form}");
        sh(&again.path, "git checkout -q --detach");
        assert_eq!(commit(&trees, &again, &task).await, at, "{form}");
    }
}

#[tokio::test]
async fn a_tree_that_cannot_be_made_leaves_neither_a_directory_nor_a_branch() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    let hook = repo.root.join(".git/hooks/post-checkout");
    fs::write(&hook, "#!/bin/sh\necho not today >&2\nexit 1\n").expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("set");
    let task = task("tsk_1", 1, "t");
    let error = trees.open(&task, None).await.expect_err("the hook fails");
    assert!(error.to_string().contains("not today"), "{error}");
    assert!(!trees.dir.join("1-t").exists());
    assert_eq!(sh(&repo.root, "git branch --list 'sb/*'"), "");
    fs::remove_file(&hook).expect("removed");
    let tree = trees.open(&task, None).await.expect("it is made");
    assert_eq!(tree.branch, "sb/1-t", "and not another one");
}

#[tokio::test]
async fn a_tree_that_was_seen_to_be_clean_is_looked_at_again_once_something_ran_in_it() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    let task = task("tsk_1", 1, "t");
    let tree = trees.open(&task, None).await.expect("made");
    commit(&trees, &tree, &task).await;
    Trees::disturb(&tree);
    fs::write(tree.path.join("new"), "x").expect("written");
    assert!(!trees.is_clean(&tree).await.expect("git runs"));
    let path = tree.path.clone();
    let kept = trees.close(tree).await.expect("git runs");
    assert!(kept.is_some() && path.join("new").exists());
}

#[tokio::test]
async fn a_submodule_that_is_dirty_within_is_no_hooks_refusal() {
    let repo = Repo::new();
    let library = Repo::new();
    let clone = format!("git clone -q '{}' lib", library.root.display());
    sh(
        &repo.root,
        &format!("{clone}; git add lib; git commit -qm lib"),
    );
    let trees = repo.trees().await;
    let task = task("tsk_1", 1, "t");
    let tree = trees.open(&task, None).await.expect("made");
    sh(&tree.path, &clone);
    fs::write(tree.path.join("lib/one"), "2").expect("written");
    assert_eq!(commit(&trees, &tree, &task).await, tree.base);
    let kept = trees.close(tree).await.expect("git runs");
    assert!(kept.is_some(), "what is in the submodule is nowhere else");
}

#[tokio::test]
async fn another_ledgers_branch_of_that_name_is_left_alone() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    sh(&repo.root, "git branch sb/1-t");
    let mine = task("tsk_1", 1, "t");
    let tree = trees.open(&mine, None).await.expect("it is made");
    assert_eq!(tree.branch, "sb/1-t-2");
    let theirs = task("tsk_9", 1, "t");
    let other = trees.open(&theirs, None).await.expect("it is made");
    assert_eq!(other.branch, "sb/1-t-3");
}

#[tokio::test]
async fn a_tree_starts_from_the_tasks_branch_else_the_dependencys_else_head() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    sh(
        &repo.root,
        "git branch old; echo 2 > one; git commit -qam two; git branch dep; echo 3 > one; git commit -qam three",
    );
    let at = |name: &str| {
        sh(&repo.root, &format!("git rev-parse {name}"))
            .trim()
            .to_owned()
    };
    let named = Task {
        branch: Some("old".to_owned()),
        ..task("a", 1, "a")
    };
    let table = [
        (named.clone(), Some("dep"), at("old")),
        (task("b", 2, "b"), Some("dep"), at("dep")),
        (task("c", 3, "c"), Some("no-such"), at("HEAD")),
        (task("d", 4, "d"), None, at("HEAD")),
    ];
    for (task, dependency, base) in table {
        let tree = trees.open(&task, dependency).await.expect("it is made");
        assert_eq!(tree.base, base, "{}", task.id);
    }
    let missing = Task {
        branch: Some("--upload-pack=x".to_owned()),
        ..task("e", 5, "e")
    };
    let error = trees.open(&missing, None).await.expect_err("there is none");
    assert!(
        error.to_string().contains("which the task names"),
        "{error}"
    );
}

#[tokio::test]
async fn what_no_worker_made_or_somebody_holds_is_refused_by_name() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    let one = task("tsk_1", 1, "one");
    let tree = trees.open(&one, None).await.expect("it is made");
    let error = trees.open(&one, None).await.expect_err("it is held");
    assert!(matches!(error, TreeError::InUse(_)), "{error}");
    let path = tree.path.clone();
    drop(tree);
    sh(
        &repo.root,
        &format!("git worktree lock '{}'", path.display()),
    );
    let error = trees.open(&one, None).await.expect_err("it is locked");
    assert!(matches!(error, TreeError::Locked(_)), "{error}");
    let two = task("tsk_2", 2, "two");
    let there = trees.dir.join("2-two");
    fs::create_dir(&there).expect("made");
    fs::write(there.join("mine"), "x").expect("written");
    let error = trees.open(&two, None).await.expect_err("it is in the way");
    assert!(matches!(error, TreeError::InTheWay(_)), "{error}");
    assert!(there.join("mine").exists());
}

#[tokio::test]
async fn clean_removes_what_is_clean_and_ours_and_nothing_else() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    let (clean, dirty, busy) = (
        task("c", 1, "clean"),
        task("d", 2, "dirty"),
        task("b", 3, "busy"),
    );
    drop(trees.open(&clean, None).await.expect("made"));
    let tree = trees.open(&dirty, None).await.expect("made");
    fs::write(tree.path.join("new"), "x").expect("written");
    drop(tree);
    let _held = trees.open(&busy, None).await.expect("made");
    let theirs = trees.dir.join("theirs");
    sh(
        &repo.root,
        &format!("git worktree add -q -b theirs '{}'", theirs.display()),
    );
    let gone = task("g", 4, "gone");
    let tree = trees.open(&gone, None).await.expect("made");
    fs::remove_dir_all(&tree.path).expect("somebody removed it");
    drop(tree);
    let mut cleaned: Vec<_> = trees
        .clean()
        .await
        .expect("git runs")
        .into_iter()
        .map(|one| {
            (
                one.path
                    .file_name()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned(),
                one.kept,
            )
        })
        .collect();
    cleaned.sort();
    let kept: Vec<&str> = cleaned
        .iter()
        .filter(|one| one.1.is_some())
        .map(|one| one.0.as_str())
        .collect();
    assert_eq!(kept, ["2-dirty", "3-busy", "theirs"], "{cleaned:?}");
    assert!(!trees.dir.join("1-clean").exists() && theirs.exists());
    assert!(
        sh(&repo.root, "git branch --list sb/1-clean").contains("sb/1-clean"),
        "the branch stays"
    );
    let again = trees.open(&gone, None).await.expect("it is made anew");
    assert!(again.path.join("one").exists());
}

#[tokio::test]
async fn a_hook_that_refuses_is_told_and_nobody_is_asked_for_a_name() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    sh(
        &repo.root,
        "git config --unset user.name; git config --unset user.email; git config commit.gpgsign true; git config gpg.program /bin/false",
    );
    let task = task("tsk_1", 1, "t");
    let tree = trees.open(&task, None).await.expect("made");
    fs::write(tree.path.join("one"), "2").expect("written");
    let hook = repo.root.join(".git/hooks/pre-commit");
    fs::write(&hook, "#!/bin/sh\necho no tabs here >&2\nexit 1\n").expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("set");
    match trees
        .commit(&tree, &by(&task, "s"))
        .await
        .expect("git runs")
    {
        Committed::Refused(why) => assert!(why.contains("no tabs here"), "{why}"),
        Committed::At(_) => panic!("the hook refused"),
    }
    let path = tree.path.clone();
    let kept = trees.close(tree).await.expect("git runs");
    assert!(
        kept.is_some() && path.exists(),
        "what is not committed is not removed"
    );
    fs::remove_file(&hook).expect("removed");
    let tree = trees.open(&task, None).await.expect("gone on with");
    commit(&trees, &tree, &task).await;
    let said = sh(&tree.path, "git log -1 --format='%an <%ae>%n%B'");
    let wanted =
        "t\n\ndid it\n\nSwitchboard-Task: tsk_1\nSwitchboard-Epoch: 3\nSwitchboard-Agent: claude-1";
    assert!(said.contains(wanted), "{said}");
}

#[tokio::test]
async fn what_the_agent_committed_itself_gets_the_trailers() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    let task = task("tsk_1", 1, "t");
    let tree = trees.open(&task, None).await.expect("made");
    let begin = commit(&trees, &tree, &task).await;
    assert_eq!(begin, tree.base, "nothing was done");
    sh(&tree.path, "echo 2 > one; git commit -qam 'by itself'");
    let at = commit(&trees, &tree, &task).await;
    let said = sh(&tree.path, "git log -1 --format=%B");
    assert!(
        said.starts_with("by itself\n\nSwitchboard-Task: tsk_1\n"),
        "{said}"
    );
    assert_eq!(commit(&trees, &tree, &task).await, at);
}

#[tokio::test]
async fn a_new_tree_has_included_files_and_its_setup() {
    let repo = Repo::new();
    sh(
        &repo.root,
        "echo SECRET > .env; mkdir sub; echo deep > sub/.env; echo no > untracked; ln -s /etc/passwd link",
    );
    sh(
        &repo.root,
        "printf '.env\nuntracked\nlink\n' > .worktreeinclude",
    );
    let setup = Program::parse("sh -c 'test -e .env && echo set up > done.txt'");
    let trees = Trees {
        setup,
        ..repo.trees().await
    };
    let tree = trees
        .open(&task("tsk_1", 1, "t"), None)
        .await
        .expect("made");
    assert_eq!(
        fs::read_to_string(tree.path.join("sub/.env")).expect("it is copied"),
        "deep\n"
    );
    assert!(
        !tree.path.join("untracked").exists() && !tree.path.join("link").exists(),
        "only what git ignores"
    );
    assert!(tree.path.join("done.txt").exists());
}

#[tokio::test]
async fn a_setup_that_fails_leaves_no_half_tree() {
    let repo = Repo::new();
    let trees = Trees {
        setup: Program::parse("sh -c 'echo broken; exit 3'"),
        ..repo.trees().await
    };
    let task = task("tsk_1", 1, "t");
    let error = trees.open(&task, None).await.expect_err("it fails");
    assert!(error.to_string().contains("broken"), "{error}");
    assert!(!trees.dir.join("1-t").exists());
    let trees = Trees {
        setup: None,
        ..trees
    };
    assert!(trees.open(&task, None).await.is_ok());
}

#[tokio::test]
async fn many_trees_are_made_at_a_time() {
    let repo = Repo::new();
    let trees = repo.trees().await;
    let tasks: Vec<Task> = (1..=8).map(|n| task(&format!("t{n}"), n, "same")).collect();
    let opened =
        futures_util::future::join_all(tasks.iter().map(|task| trees.open(task, None))).await;
    for tree in opened {
        let tree = tree.expect("it is made");
        assert_eq!(trees.close(tree).await, Ok(None));
    }
}

#[tokio::test]
async fn where_there_is_no_repository_or_no_commit_that_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(matches!(
        Trees::around(dir.path()).await,
        Err(WorkerError::NoRepository(_))
    ));
    sh(dir.path(), "git init -q");
    assert!(matches!(
        Trees::around(dir.path()).await,
        Err(WorkerError::NoCommit(_))
    ));
}

#[test]
fn a_title_becomes_a_part_of_a_branchs_name() {
    for (title, slugged) in [
        ("Fix the parser", "fix-the-parser"),
        ("--Ünïcode!! ..", "n-code"),
        ("日本", "task"),
        ("a/../../b.lock", "a-b-lock"),
    ] {
        assert_eq!(slug(title), slugged, "{title}");
    }
    assert!(slug(&"word ".repeat(40)).len() <= SLUG_CHARS_MAX);
}
