//! With real repositories.

use std::process::Command;

use super::*;

struct Kit {
    home: tempfile::TempDir,
}

/// Nothing of whoever runs the tests is looked at.
fn git(dir: &Path, args: &[&str]) -> String {
    let done = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
        .args(["-c", "commit.gpgSign=false", "-c", "safe.directory=*"])
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

impl Kit {
    fn new() -> Kit {
        let home = tempfile::tempdir().unwrap();
        let kit = Kit { home };
        fs::create_dir(kit.repository()).unwrap();
        fs::create_dir_all(kit.job()).unwrap();
        kit
    }

    /// With one commit on `main`.
    fn with_repository() -> Kit {
        let kit = Kit::new();
        let dir = kit.repository();
        git(&dir, &["init", "--quiet", "--initial-branch=main"]);
        fs::write(dir.join("README"), "one\n").unwrap();
        git(&dir, &["add", "."]);
        git(&dir, &["commit", "--quiet", "-m", "one"]);
        kit
    }

    fn repository(&self) -> PathBuf {
        self.home.path().canonicalize().unwrap().join("repo")
    }

    fn job(&self) -> PathBuf {
        self.home.path().canonicalize().unwrap().join("jobs/j1")
    }

    fn workspace(&self) -> Workspace {
        Workspace::of(&self.job(), &JobId::from("j1"))
    }

    async fn open(&self) -> Workspace {
        let workspace = self.workspace();
        workspace.open(Some(&self.repository())).await.unwrap();
        workspace
    }
}

#[tokio::test]
async fn a_job_works_on_a_branch_of_its_own_and_the_users_branch_stays_as_it_is() {
    let kit = Kit::with_repository();
    let repository = kit.repository();
    let main = git(&repository, &["rev-parse", "main"]);
    let workspace = kit.open().await;
    assert_eq!(
        fs::read_to_string(workspace.path.join("README")).unwrap(),
        "one\n"
    );
    assert_eq!(workspace.head().await.unwrap(), main);
    assert_eq!(workspace.checkpoint("nothing new").await.unwrap(), main);
    let before = Stamp::of(&workspace);
    fs::write(workspace.path.join("new file"), "x").unwrap();
    assert_eq!(workspace.changed().await.unwrap(), ["new file"]);
    let after = Stamp::of(&workspace);
    assert_eq!(before.changed(&after), Some(vec!["new file".to_owned()]));
    let first = workspace.checkpoint("phase one").await.unwrap();
    assert_ne!(first, main);
    assert!(workspace.changed().await.unwrap().is_empty());
    assert_eq!(git(&repository, &["rev-parse", "job-j1"]), first);
    assert_eq!(git(&repository, &["rev-parse", "main"]), main);
    assert_eq!(git(&repository, &["status", "--porcelain"]), "");
    // Again, as after a restart.
    workspace.open(Some(&repository)).await.unwrap();
    assert_eq!(workspace.head().await.unwrap(), first);
}

#[tokio::test]
async fn without_a_repository_or_a_commit_the_workspace_is_a_repository_of_its_own() {
    for with_repository in [false, true] {
        let kit = Kit::new();
        if with_repository {
            git(&kit.repository(), &["init", "--quiet"]);
        }
        let around = repository_around(&kit.repository()).await;
        assert_eq!(around, None);
        let workspace = kit.workspace();
        workspace.open(around.as_deref()).await.unwrap();
        let start = workspace.head().await.unwrap();
        fs::write(workspace.path.join("a"), "1").unwrap();
        let next = workspace.checkpoint("a").await.unwrap();
        assert_ne!(next, start);
        assert_eq!(workspace.head().await.unwrap(), next);
        assert_eq!(
            git(&workspace.path, &["branch", "--show-current"]),
            "job-j1"
        );
    }
}

#[tokio::test]
async fn files_that_were_there_before_are_the_start_of_a_repository_of_their_own() {
    let kit = Kit::with_repository();
    let workspace = kit.workspace();
    fs::create_dir_all(&workspace.path).unwrap();
    fs::write(workspace.path.join("mine"), "x").unwrap();
    workspace.open(Some(&kit.repository())).await.unwrap();
    assert_eq!(git(&workspace.path, &["ls-files"]), "mine");
}

#[tokio::test]
async fn the_repository_around_is_found_from_below_and_through_links() {
    let kit = Kit::with_repository();
    let below = kit.repository().join("src/deep");
    fs::create_dir_all(&below).unwrap();
    assert_eq!(repository_around(&below).await, Some(kit.repository()));
    let link = kit.home.path().join("link");
    std::os::unix::fs::symlink(&below, &link).unwrap();
    assert_eq!(repository_around(&link).await, Some(kit.repository()));
    assert_eq!(repository_around(&kit.home.path().join("none")).await, None);
}

#[tokio::test]
async fn files_are_put_back_to_a_checkpoint_and_what_was_there_stays_in_history() {
    let kit = Kit::with_repository();
    let workspace = kit.open().await;
    let path = |name: &str| workspace.path.join(name);
    fs::create_dir(path("tests")).unwrap();
    fs::write(path("tests/a"), "1").unwrap();
    fs::write(path("keep"), "1").unwrap();
    let point = workspace.checkpoint("point").await.unwrap();
    fs::write(path("keep"), "2").unwrap();
    fs::remove_dir_all(path("tests")).unwrap();
    fs::write(path("more"), "2").unwrap();
    let later = workspace.checkpoint("later").await.unwrap();
    fs::write(path("unsaved"), "3").unwrap();
    let back = workspace
        .restore(&point, "resume from point")
        .await
        .unwrap();
    assert_eq!(fs::read_to_string(path("keep")).unwrap(), "1");
    assert_eq!(fs::read_to_string(path("tests/a")).unwrap(), "1");
    assert!(!path("more").exists() && !path("unsaved").exists());
    assert_eq!(git(&workspace.path, &["diff", "--stat", &point, &back]), "");
    // Twice is once: a crash in between may repeat it.
    assert_eq!(workspace.restore(&point, "again").await.unwrap(), back);
    let log = git(&workspace.path, &["log", "--format=%H"]);
    assert!(log.contains(&later) && log.contains(&point));
    let unsaved = git(&workspace.path, &["show", "HEAD~1:unsaved"]);
    assert_eq!(unsaved, "3");
    let none = workspace.restore(&"0".repeat(40), "x").await.unwrap_err();
    assert!(none.contains("has no commit 0000"), "{none}");
}

#[tokio::test]
async fn an_agent_that_switched_branches_or_was_killed_in_a_commit_is_no_obstacle() {
    let kit = Kit::with_repository();
    let workspace = kit.open().await;
    git(
        &workspace.path,
        &["checkout", "--quiet", "-b", "agents-own"],
    );
    fs::write(workspace.path.join("a"), "1").unwrap();
    let dir = git(&workspace.path, &["rev-parse", "--git-dir"]);
    fs::write(Path::new(&dir).join("index.lock"), "").unwrap();
    let point = workspace.checkpoint("point").await.unwrap();
    assert_eq!(git(&workspace.path, &["rev-parse", "job-j1"]), point);
    assert_eq!(git(&workspace.path, &["show", "job-j1:a"]), "1");
    git(&workspace.path, &["checkout", "--quiet", "--detach"]);
    assert_eq!(workspace.checkpoint("again").await.unwrap(), point);
    let branch = git(&workspace.path, &["branch", "--show-current"]);
    assert_eq!(branch, "job-j1");
}

#[tokio::test]
async fn commits_run_no_hook_ask_for_no_signature_and_bring_an_identity() {
    let kit = Kit::with_repository();
    let repository = kit.repository();
    let workspace = kit.open().await;
    for (key, value) in [
        ("commit.gpgSign", "true"),
        ("gpg.program", "/bin/false"),
        ("user.email", ""),
    ] {
        git(&repository, &["config", key, value]);
    }
    let hook = repository.join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&hook, mode).unwrap();
    git(&repository, &["config", "--unset", "user.email"]);
    fs::write(workspace.path.join("a"), "1").unwrap();
    let point = workspace.checkpoint("point").await.unwrap();
    let author = git(&workspace.path, &["log", "-1", "--format=%ae", &point]);
    assert!(author.contains('@'), "{author}");
}

#[tokio::test]
async fn a_directory_of_somebody_else_is_trusted_by_name_alone() {
    let kit = Kit::with_repository();
    let workspace = kit.open().await;
    let foreign = ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    let refused = try_git(&workspace.path, &["status"], &[foreign], b"")
        .await
        .unwrap();
    assert_ne!(refused.code, Some(0), "git looks at owners");
    for dir in [&workspace.path, &kit.repository()] {
        let env = trusted(dir);
        let mut env = borrowed(&env);
        env.push(foreign);
        let done = try_git(dir, &["status"], &env, b"").await.unwrap();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
}

#[tokio::test]
async fn a_workspace_that_was_removed_is_made_again_on_its_branch() {
    let kit = Kit::with_repository();
    let workspace = kit.open().await;
    fs::write(workspace.path.join("a"), "1").unwrap();
    let point = workspace.checkpoint("point").await.unwrap();
    fs::remove_dir_all(&workspace.path).unwrap();
    let gone = workspace.checkpoint("x").await.unwrap_err();
    assert!(gone.contains("is gone"), "{gone}");
    let again = kit.open().await;
    assert_eq!(again.head().await.unwrap(), point);
    again.remove().await.unwrap();
    assert!(!again.path.exists());
    assert_eq!(git(&kit.repository(), &["rev-parse", "job-j1"]), point);
    assert!(!git(&kit.repository(), &["worktree", "list"]).contains("j1"));
}

#[test]
fn a_stamp_tells_what_was_made_changed_and_removed() {
    let kit = Kit::new();
    let workspace = kit.workspace();
    let path = |name: &str| workspace.path.join(name);
    fs::create_dir_all(path("a/b")).unwrap();
    fs::create_dir_all(path(".git")).unwrap();
    for name in ["a/b/kept", "a/changed", "gone", ".git/x"] {
        fs::write(path(name), "1").unwrap();
    }
    let before = Stamp::of(&workspace);
    assert_eq!(before.changed(&Stamp::of(&workspace)), Some(Vec::new()));
    fs::write(path("a/changed"), "22").unwrap();
    fs::write(path("new"), "1").unwrap();
    fs::write(path(".git/x"), "22").unwrap();
    fs::remove_file(path("gone")).unwrap();
    let changed = before.changed(&Stamp::of(&workspace)).unwrap();
    assert_eq!(changed, ["a/changed", "new", "gone"]);
    for number in 0..STAMPED_MAX {
        fs::write(path(&format!("f{number}")), "").unwrap();
    }
    assert_eq!(before.changed(&Stamp::of(&workspace)), None);
}
