//! What a worker refuses, by name and with nothing changed.

use std::fs;
use std::process::Command;

use serde_json::json;
use switchboard_tests::{API, switchboard, until};

use super::kit::{Work, git};

#[test]
fn what_cannot_work_is_refused_before_anything_is_registered() {
    let work = Work::new();
    let empty = tempfile::tempdir().expect("a directory");
    let url = format!("http://{}", work.hub_addr());
    let refused = |dir: &std::path::Path, args: &[&str], words: &str| {
        let output = Command::new(switchboard())
            .args(["worker", "--url", &url])
            .args(args)
            .current_dir(dir)
            .env("XDG_STATE_HOME", empty.path().join("state"))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(words),
            "{args:?}: {said}"
        );
    };
    refused(
        work.root(),
        &["--exec", "no-such-program --x"],
        "'no-such-program' is not installed",
    );
    refused(
        work.root(),
        &["--exec", "true", "--gate", "no-such-gate"],
        "'no-such-gate' is not installed",
    );
    refused(work.root(), &["nobody"], "there is no preset 'nobody'");
    refused(work.root(), &["--exec", "true 'x"], "is a quote left open?");
    refused(work.root(), &[], "name a preset");
    refused(
        empty.path(),
        &["--exec", "true"],
        "is not in a git repository",
    );
    git(empty.path(), &["init", "-q"]);
    refused(empty.path(), &["--exec", "true"], "has no commit");
    let agents = work.hub().get(&format!("{API}/agents")).expect(200);
    assert_eq!(agents["agents"], json!([]));
    assert!(!work.tree("").exists() || fs::read_dir(work.tree("")).expect("there").count() <= 1);
}

#[test]
fn a_locked_worktree_gives_the_task_back_and_others_are_unaffected() {
    let work = Work::new();
    let task = work.add(json!({"title": "t", "type": "code"}));
    let script = work.script("cat > /dev/null; echo x > made.txt");
    let first = work
        .worker(&["--once", "--keep", "--exec", &script])
        .ended();
    assert!(first.is_good, "{}", first.said);
    let tree = work.tree("1-t");
    git(work.root(), &["worktree", "lock", &tree.to_string_lossy()]);
    work.hub()
        .post(&format!("{API}/tasks/{task}/retry"), &json!({}));
    let other = work.add(json!({"title": "u", "type": "code"}));
    let said = work.switchboard(&["worker", "clean"]);
    assert!(said.contains("it is locked") && tree.exists(), "{said}");
    let worker = work.worker(&["--exec", &script]);
    until("the other is done", || {
        (work.task(&other)["status"] == "completed").then_some(())
    });
    worker.terminate();
    assert!(worker.ended().is_good);
    git(
        work.root(),
        &["worktree", "unlock", &tree.to_string_lossy()],
    );
    let said = work.switchboard(&["worker", "clean"]);
    assert!(said.contains("removed") && !tree.exists(), "{said}");
}

#[test]
fn two_workers_of_one_id_are_told_apart() {
    let work = Work::new();
    let made = work.switchboard(&["agent", "add", "solo"]);
    let key = made
        .split(|c: char| !c.is_ascii_hexdigit())
        .find(|word| word.len() == 64);
    let Some(key) = key else {
        panic!("no key in {made}");
    };
    let env = [("SWITCHBOARD_AGENT", "solo"), ("SWITCHBOARD_KEY", key)];
    let first = work.worker_with(&["--exec", "true"], &env);
    until("it is there", || {
        first.said().contains("solo ready").then_some(())
    });
    let second = work.worker_with(&["--exec", "true"], &env).ended();
    assert!(
        !second.is_good
            && second
                .said
                .contains("agent solo is served by another worker"),
        "{}",
        second.said
    );
    first.terminate();
    assert!(first.ended().is_good);
}
