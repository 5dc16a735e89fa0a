//! `switchboard demo`: every task is accounted for, and nothing is left behind, however it ends.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use switchboard_tests::{switchboard, until};
use tempfile::TempDir;

const QUICK: [&str; 5] = ["demo", "--tasks", "24", "--speed", "20"];

/// A demo whose directory is made in this place.
fn demo(place: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(switchboard());
    command
        .args(QUICK)
        .args(flags)
        .env("TMPDIR", place)
        .env("SWITCHBOARD_URL", "http://127.0.0.1:1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Processes of a demo in this place.
fn processes(place: &Path) -> HashSet<i32> {
    let mark = format!("TMPDIR={}", place.display()).into_bytes();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|one| one == mark)
    })
    .collect()
}

fn names(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).expect("it is a directory").flatten();
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(name).collect()
}

/// Starts one, and waits until agents are at work.
fn begun(place: &Path) -> Child {
    let mut child = demo(place, &[]).spawn().expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
    let is_on = |line: String| line.contains("and hangs");
    assert!(lines.map_while(Result::ok).any(is_on), "it never began");
    assert!(processes(place).len() > 1, "the hub is another process");
    child
}

#[test]
fn every_task_is_accounted_for_and_nothing_is_left() {
    let place = TempDir::new().unwrap();
    let done = demo(place.path(), &["--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let summary: Value = serde_json::from_slice(&done.stdout).expect("it is one JSON value");
    assert_eq!(
        (&summary["success"], &summary["tasks"]),
        (&true.into(), &24.into())
    );
    let figures = summary["figures"].as_array().unwrap();
    let count = |what: &str| {
        let figure = figures.iter().find(|figure| figure["what"] == what);
        figure.unwrap_or_else(|| panic!("no {what} in {summary}"))["hub"]
            .as_u64()
            .unwrap()
    };
    for figure in figures {
        assert_eq!(figure["demo"], figure["hub"], "{figure}");
    }
    assert_eq!((count("tasks"), count("done, one by one")), (24, 24));
    // What the demo is there to show has happened.
    assert!(count("failed and tried again") >= 2, "{summary}");
    assert_eq!(count("sent to review"), 2);
    assert!(summary["silent"].as_u64() >= Some(1) && summary["refusedEdits"].as_u64() >= Some(1));
    let shares = summary["agents"].as_array().unwrap();
    let done: u64 = shares
        .iter()
        .filter_map(|share| share["done"].as_u64())
        .sum();
    assert_eq!(done, 24, "{summary}");
    let ways: HashSet<_> = shares
        .iter()
        .filter_map(|share| share["by"].as_str())
        .collect();
    assert_eq!(ways.len(), 9, "{ways:?}");
    let (first, end) = (summary["firstDoneMs"].as_u64(), summary["endMs"].as_u64());
    assert!(first > Some(0) && first < end);
    assert_eq!(names(place.path()), [""; 0]);
    assert!(processes(place.path()).is_empty());
}

#[test]
fn ctrl_c_in_the_middle_leaves_nothing() {
    let place = TempDir::new().unwrap();
    let mut child = begun(place.path());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(place.path()), [""; 0]);
    assert!(processes(place.path()).is_empty());
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_and_a_directory_that_is_named_after_it() {
    let place = TempDir::new().unwrap();
    let mut child = begun(place.path());
    child.kill().unwrap();
    child.wait().unwrap();
    until("its processes end", || {
        processes(place.path()).is_empty().then_some(())
    });
    let left = names(place.path());
    assert!(
        matches!(&left[..], [name] if name.starts_with("switchboard-demo-")),
        "{left:?}"
    );
}
