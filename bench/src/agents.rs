//! Workers beside what their parts cost alone: a program's start with two calls, git's own worktrees, bare long polls.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::aims::{Aim, at_most};
use crate::hub_process::Hub;
use crate::idle::{AGENTS, Waiting};
use crate::report::{AgentsReport, DemoRow, RatioRow};
use crate::settings::Settings;

/// Tasks of each run.
const TASKS: usize = 40;
/// Slots of one worker process.
const SLOTS: usize = 50;
const PLAIN_RATIO_MAX: f64 = 1.5;
const TREE_RATIO_MAX: f64 = 1.2;
const IDLE_RATIO_MAX: f64 = 1.2;

/// The program that does nothing.
const PLAIN: &str = "worker with true";
const TREE: &str = "worktree of a worker";
const IDLE: &str = "hub's CPU with 200 idle slots";

pub fn measure(settings: &Settings, binary: &Path) -> anyhow::Result<AgentsReport> {
    let home = settings.new_home()?;
    let hub = Hub::start(binary, home.path())?;
    let project = home.path().join("project");
    repository(&project)?;
    crate::progress(format_args!(
        "{TASKS} tasks each: bare, by a worker, by a worker in worktrees"
    ));
    let bare = bare_spawn(&hub)?;
    let plain = worked(binary, &hub, &project, "custom", &["--no-worktree"])?;
    let trees = worked(binary, &hub, &project, "review", &[])?;
    let git = bare_trees(&project)?;
    let rows = vec![
        row(PLAIN, "ms", plain, bare),
        row(TREE, "ms", trees.saturating_sub(plain), git),
        idle(settings, binary)?,
    ];
    crate::progress(format_args!("the demo"));
    let demo = vec![demo(binary)?];
    Ok(AgentsReport { rows, demo })
}

pub fn judge(report: Option<&AgentsReport>, aims: &mut Vec<Aim>) {
    let beside = [
        "x a bare spawn with two calls",
        "x git's own add and remove",
        "x that of bare long polls",
    ];
    let most = [PLAIN_RATIO_MAX, TREE_RATIO_MAX, IDLE_RATIO_MAX];
    for ((of, beside), most) in [PLAIN, TREE, IDLE].into_iter().zip(beside).zip(most) {
        let row = report.and_then(|report| report.rows.iter().find(|row| row.of == of));
        aims.push(at_most(
            of.to_owned(),
            most,
            beside,
            row.map(|row| row.ratio),
        ));
    }
}

fn row(of: &str, unit: &str, ours: Duration, bare: Duration) -> RatioRow {
    let (ours, bare) = (ours.as_secs_f64() * 1000.0, bare.as_secs_f64() * 1000.0);
    RatioRow {
        of: of.to_owned(),
        unit: unit.to_owned(),
        ours,
        bare,
        ratio: ours / bare,
    }
}

/// A claim, a program that does nothing, a report: as little as there can be.
fn bare_spawn(hub: &Hub) -> anyhow::Result<Duration> {
    hub.register("bare")?;
    add(hub, "custom")?;
    let began = Instant::now();
    for _ in 0..TASKS {
        let (_, answer) = hub.post("/api/v1/tasks/claim", &json!({ "agentId": "bare" }))?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let id = answer["task"]["id"].as_str().context("there are tasks")?;
        ensure!(Command::new("true").status()?.success(), "true fails");
        let result = json!({ "filesCreated": [], "filesModified": [], "filesDeleted": [], "summary": "done" });
        let body = json!({ "agentId": "bare", "epoch": answer["task"]["epoch"], "result": result });
        hub.post(&format!("/api/v1/tasks/{id}/complete"), &body)?;
    }
    Ok(began.elapsed() / TASKS as u32)
}

fn add(hub: &Hub, kind: &str) -> anyhow::Result<()> {
    let tasks: Vec<Value> = (0..TASKS)
        .map(|number| json!({ "title": format!("{kind} {number}"), "type": kind }))
        .collect();
    let (status, _) = hub.post("/api/v1/tasks", &json!({ "tasks": tasks }))?;
    ensure!(status == 201, "cannot add tasks: {status}");
    Ok(())
}

/// The time of one task, from the first claim to the last report.
fn worked(
    binary: &Path,
    hub: &Hub,
    project: &Path,
    kind: &str,
    more: &[&str],
) -> anyhow::Result<Duration> {
    add(hub, kind)?;
    let mut worker = Worker::start(binary, hub, project, 1, more)?;
    let output = worker.0.stdout.take().context("it is piped")?;
    let (mut began, mut done) = (None, 0);
    for line in BufReader::new(output).lines() {
        let notice: Value = serde_json::from_str(&line?)?;
        match notice["what"].as_str() {
            Some("claimed") => {
                began.get_or_insert_with(Instant::now);
            }
            Some("done") => done += 1,
            Some("failed" | "lost" | "trouble") => anyhow::bail!("the worker says {notice}"),
            _ => {}
        }
        if done == TASKS {
            break;
        }
    }
    let began = began.context("the worker claimed nothing")?;
    Ok(began.elapsed() / TASKS as u32)
}

/// Killed when it goes.
struct Worker(Child);

impl Worker {
    fn start(
        binary: &Path,
        hub: &Hub,
        project: &Path,
        slots: usize,
        more: &[&str],
    ) -> anyhow::Result<Worker> {
        let child = Command::new(binary)
            .args([
                "worker",
                "--json",
                "--exec",
                "true",
                "--url",
                &format!("http://{}", hub.server),
            ])
            .args(["--slots", &slots.to_string()])
            .args(more)
            .current_dir(project)
            .env("XDG_STATE_HOME", project.join(".switchboard"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Worker(child))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Git's own part: a worktree on a new branch, and its removal.
fn bare_trees(project: &Path) -> anyhow::Result<Duration> {
    let began = Instant::now();
    for number in 0..TASKS {
        let (path, branch) = (
            format!(".switchboard/bare-{number}"),
            format!("bare-{number}"),
        );
        git(
            project,
            &["worktree", "add", "--quiet", "-b", &branch, &path],
        )?;
        git(project, &["worktree", "remove", &path])?;
    }
    Ok(began.elapsed() / TASKS as u32)
}

fn repository(project: &Path) -> anyhow::Result<()> {
    git(project, &["init", "--quiet"])?;
    git(project, &["config", "user.name", "bench"])?;
    git(project, &["config", "user.email", "bench@example.invalid"])?;
    std::fs::write(
        project.join(".gitignore"),
        ".switchboard/\n.jetpack/\n.squidrun/\n",
    )?;
    git(project, &["add", "."])?;
    git(project, &["commit", "--quiet", "--message", "begin"])
}

fn git(project: &Path, args: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("git")
        .args(args)
        .current_dir(project)
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "git {args:?} failed");
    Ok(())
}

/// The hub's CPU time with agents that wait: bare connections, and slots of real workers.
fn idle(settings: &Settings, binary: &Path) -> anyhow::Result<RatioRow> {
    crate::progress(format_args!(
        "{AGENTS} bare long polls, then {AGENTS} idle slots"
    ));
    let home = settings.new_home()?;
    let hub = Hub::start(binary, home.path())?;
    let waiting = Waiting::on(&hub)?;
    let bare = used(settings, &hub)?;
    waiting.ensure_nobody_was_answered()?;
    drop((waiting, hub));
    let home = settings.new_home()?;
    let hub = Hub::start(binary, home.path())?;
    let project = home.path().join("project");
    let workers = (0..AGENTS / SLOTS)
        .map(|_| Worker::start(binary, &hub, &project, SLOTS, &["--no-worktree"]));
    let workers = workers.collect::<anyhow::Result<Vec<_>>>()?;
    let registered = || -> anyhow::Result<usize> {
        let (_, answer) = hub.get("/api/v1/agents?limit=1000")?;
        let answer: Value = serde_json::from_slice(&answer)?;
        Ok(answer["agents"].as_array().map_or(0, Vec::len))
    };
    while registered()? < AGENTS {
        std::thread::sleep(Duration::from_millis(50));
    }
    let ours = used(settings, &hub)?;
    drop(workers);
    Ok(row(IDLE, "ms of CPU", ours, bare))
}

fn used(settings: &Settings, hub: &Hub) -> anyhow::Result<Duration> {
    hub.settle()?;
    let before = hub.cpu_time()?;
    std::thread::sleep(settings.idle_for);
    Ok(hub.cpu_time()?.saturating_sub(before))
}

/// Seconds to the first finished task, and to the end.
fn demo(binary: &Path) -> anyhow::Result<DemoRow> {
    let output = Command::new(binary)
        .args(["demo", "--json"])
        .stdin(Stdio::null())
        .output()?;
    ensure!(
        output.status.success(),
        "the demo failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let total: Value = serde_json::from_str(text.lines().last().context("it says nothing")?)?;
    let seconds = |name: &str| total[name].as_f64().map(|ms| ms / 1000.0);
    Ok(DemoRow {
        first_done_s: seconds("firstDoneMs").unwrap_or_default(),
        took_s: seconds("endMs").context("it ended")?,
    })
}
