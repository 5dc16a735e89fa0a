//! What a task costs beside its program: calls of git, each a process.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use switchboard_tests::until;

use super::kit::{Work, Worker};

/// Calls of git that a worker made, which go through a program of that name in front of the path.
struct Calls<'a> {
    work: &'a Work,
    path: String,
    seen: usize,
}

impl Calls<'_> {
    fn of(work: &Work) -> Calls<'_> {
        let dir = work.state("bin");
        fs::create_dir_all(&dir).expect("made");
        let path = std::env::var("PATH").expect("there is one");
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> '{}/calls.txt'\nPATH='{path}'\nexec git \"$@\"\n",
            dir.display()
        );
        let file = dir.join("git");
        fs::write(&file, script).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("set");
        Calls {
            work,
            path: format!("{}:{path}", dir.display()),
            seen: 0,
        }
    }

    /// A worker that runs what the description of a task says.
    fn worker(&mut self, args: &[&str]) -> Worker {
        let args = [&["sh"], args].concat();
        let worker = self.work.worker_with(&args, &[("PATH", &self.path)]);
        until("it is there", || {
            worker.said().contains("ready").then_some(())
        });
        self.since();
        worker
    }

    /// What a new task of this kind costs that does this.
    fn of_task(&mut self, kind: &str, does: &str) -> Vec<String> {
        let task = json!({"title": "t", "type": kind, "description": does, "maxRetries": 0});
        let task = self.work.add(task);
        until("it is done", || {
            (self.work.task(&task)["status"] == "completed").then_some(())
        });
        self.since()
    }

    fn since(&mut self) -> Vec<String> {
        let text = fs::read_to_string(self.work.state("bin/calls.txt")).expect("it was called");
        let calls = text.lines().skip(self.seen).map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            // Before it stand settings, each of two words.
            let at = words
                .iter()
                .position(|word| !word.starts_with('-') && !word.contains('='));
            match &words[at.expect("a command")..] {
                ["worktree", what, ..] => format!("worktree {what}"),
                [command, ..] => (*command).to_owned(),
                [] => unreachable!("it has a command"),
            }
        });
        let calls: Vec<String> = calls.collect();
        self.seen += calls.len();
        calls
    }
}

#[test]
fn a_worktree_costs_no_call_of_git_that_tells_nothing_new() {
    let work = Work::new();
    let mut calls = Calls::of(&work);
    let worker = calls.worker(&[]);
    // Git's own part is the first and the last; that the branch is this task's has to be noted, and what was done seen.
    let nothing = ["worktree add", "config", "status", "worktree remove"];
    assert_eq!(calls.of_task("review", "true"), nothing);
    let first = [
        "worktree add",
        "config",
        "status",
        "add",
        "config",
        "commit",
        "diff",
        "worktree remove",
    ];
    assert_eq!(calls.of_task("code", "echo x > made.txt"), first);
    let later = [
        "worktree add",
        "config",
        "status",
        "add",
        "commit",
        "diff",
        "worktree remove",
    ];
    assert_eq!(calls.of_task("code", "echo x > made.txt"), later);
    worker.terminate();
    assert!(worker.ended().is_good);
    let worker = calls.worker(&["--gate", "true"]);
    let gated = [&first[..7], &["status", "worktree remove"]].concat();
    assert_eq!(calls.of_task("code", "echo x > made.txt"), gated);
    let unchanged = calls.of_task("review", "true");
    assert_eq!(unchanged, nothing, "the gate came after the look");
    worker.terminate();
    assert!(worker.ended().is_good);
}
