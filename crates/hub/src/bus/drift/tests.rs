//! Real repositories in temporary directories.

use std::path::Path;
use std::process::Command;

use switchboard_wire::agentbus::SyncReason;

use super::*;
use crate::config::Config;

struct Repository {
    dir: tempfile::TempDir,
    /// The time of the next commit.
    clock: i64,
}

impl Repository {
    fn new() -> Repository {
        let repository = Repository {
            dir: tempfile::tempdir().unwrap(),
            clock: 1_700_000_000,
        };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn git(&self, args: &[&str]) -> String {
        let time = format!("{} +0000", self.clock);
        let mut command = Command::new("git");
        for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
            command.env_remove(name);
        }
        let done = command
            .current_dir(self.path())
            .envs([
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ])
            .envs([
                ("GIT_AUTHOR_NAME", "ann"),
                ("GIT_AUTHOR_EMAIL", "ann@localhost"),
            ])
            .envs([
                ("GIT_COMMITTER_NAME", "ann"),
                ("GIT_COMMITTER_EMAIL", "ann@localhost"),
            ])
            .env("GIT_COMMITTER_DATE", &time)
            // Authors may have written long ago; the committer's time is what counts.
            .env("GIT_AUTHOR_DATE", "1000000000 +0000")
            .args(args)
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "git {args:?}: {err}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn commit(&mut self, after: i64) -> String {
        self.clock += after;
        self.git(&["commit", "--quiet", "--allow-empty", "--message=x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    async fn drift(&self) -> Drift {
        Drift::start(&settings(self.path(), "main")).await
    }
}

fn settings(repository: &Path, branch: &str) -> SyncMain {
    let mut settings = Config::for_project(repository.to_owned()).bus.sync_main;
    branch.clone_into(&mut settings.branch);
    settings
}

fn by(commits: u32, seconds: u64) -> Behind {
    Behind::By { commits, seconds }
}

// agentbus.hello.main_ancestor
#[tokio::test]
async fn commits_and_seconds_behind_are_counted_where_the_branch_left_main() {
    let mut repository = Repository::new();
    let first = repository.commit(0);
    let second = repository.commit(100);
    repository.git(&["switch", "--quiet", "--create=work"]);
    let own = repository.commit(5);
    repository.git(&["switch", "--quiet", "main"]);
    repository.clock -= 5;
    repository.commit(1000);
    let head = repository.commit(1);
    let drift = repository.drift().await;
    assert_eq!(drift.main_sha(), Some(head.clone()));
    assert_eq!(drift.behind(&head).await, by(0, 0));
    assert_eq!(drift.behind(&second).await, by(2, 1001));
    assert_eq!(drift.behind(&first).await, by(3, 1101));
    // A commit of the worker's own counts as where its branch left main.
    assert_eq!(drift.behind(&own).await, by(2, 1001));
    assert_eq!(drift.behind(&second.to_uppercase()).await, by(2, 1001));
}

#[tokio::test]
async fn whatever_the_repository_does_not_know_is_a_stranger() {
    let mut repository = Repository::new();
    repository.commit(0);
    let tree = repository.git(&["rev-parse", "HEAD^{tree}"]);
    repository.git(&["switch", "--quiet", "--orphan", "elsewhere"]);
    let unrelated = repository.commit(1);
    repository.git(&["switch", "--quiet", "main"]);
    let drift = repository.drift().await;
    let nobody = "0123456789abcdef0123456789abcdef01234567";
    for sha in [
        nobody, &tree, &unrelated, "main", "HEAD", "", "--help", "-x",
    ] {
        assert_eq!(drift.behind(sha).await, Behind::Stranger, "{sha}");
    }
}

#[tokio::test]
async fn twenty_commits_pass_and_twenty_one_do_not() {
    let mut repository = Repository::new();
    let old: Vec<String> = (0..22).map(|_| repository.commit(60)).collect();
    let drift = repository.drift().await;
    let policy = Policy::new(&settings(repository.path(), "main"));
    let expected = Expected {
        main_sha: drift.main_sha(),
        catalog_hash: None,
    };
    for (sha, reason) in [(&old[1], None), (&old[0], Some(SyncReason::BehindMain))] {
        let seen = Seen {
            behind: Some(drift.behind(sha).await),
            ..Seen::default()
        };
        assert_eq!(policy.judge(&seen, &expected).reason(), reason, "{seen:?}");
    }
}

#[tokio::test]
async fn main_is_seen_to_move_and_old_answers_are_forgotten() {
    let mut repository = Repository::new();
    let first = repository.commit(0);
    let git = Git::new(repository.path().to_owned());
    let often = Duration::from_millis(10);
    let drift = Drift::start_with(git, "main".to_owned(), often).await;
    assert_eq!(drift.behind(&first).await, by(0, 0));
    let second = repository.commit(30);
    let mut main = drift.watch();
    let moved = main.wait_for(|main| main.as_ref().is_some_and(|main| main.sha == second));
    timeout(Duration::from_secs(60), moved)
        .await
        .expect("it is looked at again and again")
        .unwrap();
    assert_eq!(drift.main_sha(), Some(second));
    assert_eq!(drift.behind(&first).await, by(1, 30));
}

#[tokio::test]
async fn without_repository_or_branch_nothing_is_known() {
    let empty = tempfile::tempdir().unwrap();
    let mut repository = Repository::new();
    let sha = repository.commit(0);
    let gone = empty.path().join("gone");
    let cases = [
        (empty.path(), "main"),
        (&gone, "main"),
        (repository.path(), "trunk"),
    ];
    for (path, branch) in cases {
        let drift = Drift::start(&settings(path, branch)).await;
        assert_eq!(drift.main_sha(), None, "{path:?} {branch}");
        assert_eq!(drift.behind(&sha).await, Behind::Unanswered);
    }
}

#[tokio::test]
async fn a_repository_that_fails_later_does_not_unsay_what_was_seen() {
    let mut repository = Repository::new();
    let first = repository.commit(0);
    let head = repository.commit(0);
    let drift = repository.drift().await;
    std::fs::remove_dir_all(repository.path().join(".git")).unwrap();
    assert_eq!(drift.behind(&first).await, Behind::Unanswered);
    assert_eq!(drift.main_sha(), Some(head));
}

#[tokio::test]
async fn a_branch_that_was_fetched_can_be_the_main_one() {
    let mut repository = Repository::new();
    let head = repository.commit(0);
    let clone = Repository::new();
    let from = repository.path().to_str().unwrap();
    clone.git(&["remote", "add", "origin", from]);
    clone.git(&["fetch", "--quiet", "origin"]);
    let drift = Drift::start(&settings(clone.path(), "origin/main")).await;
    assert_eq!(drift.main_sha(), Some(head));
}

#[tokio::test]
async fn a_git_that_hangs_is_ended_and_nothing_is_known() {
    let mut repository = Repository::new();
    let sha = repository.commit(0);
    // Nobody ever writes into this, so whoever reads it waits.
    let config = repository.path().join(".git/config");
    std::fs::remove_file(&config).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&config)
            .status()
            .unwrap()
            .success()
    );
    let git = Git::new(repository.path().to_owned()).within(Duration::from_millis(100));
    let drift = Drift::start_with(git, "main".to_owned(), LOOK_EVERY).await;
    assert_eq!(drift.main_sha(), None);
    assert_eq!(drift.behind(&sha).await, Behind::Unanswered);
}

#[tokio::test]
async fn the_task_ends_with_its_last_handle() {
    let mut repository = Repository::new();
    repository.commit(0);
    let drift = repository.drift().await;
    let mut main = drift.watch();
    main.mark_unchanged();
    drop(drift);
    assert!(main.changed().await.is_err());
}

#[tokio::test]
async fn strangers_in_any_number_keep_nobody_from_a_known_answer() {
    let mut repository = Repository::new();
    let head = repository.commit(0);
    let drift = repository.drift().await;
    assert_eq!(drift.behind(&head).await, by(0, 0));
    let mut flood = tokio::task::JoinSet::new();
    for number in 0..4 * QUESTIONS_MAX {
        let drift = drift.clone();
        flood.spawn(async move { drift.behind(&format!("{number:040x}")).await });
    }
    tokio::task::yield_now().await;
    // Answered before git has been asked about any of them.
    assert_eq!(drift.behind(&head).await, by(0, 0));
    assert!(drift.ask.capacity() < QUESTIONS_MAX);
    flood.abort_all();
}
