//! The workers that `docs/agentbus.md` shows, run as they stand there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use switchboard_test_cluster::Missing;
use switchboard_tests::{Hub, Project, switchboard, until};

use super::peer::Peer;

/// The port that the page connects to.
const PORT: &str = "8731";
/// Short, so that a worker is soon asked whether it is there.
const SETTINGS: &str = "[timeouts]\nworker_heartbeat_ttl_seconds = 4\n";

/// The block after a comment such as `<!-- python: worker -->`.
fn shown(kind: &str, what: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/agentbus.md");
    let text = fs::read_to_string(path).expect("docs/agentbus.md can be read");
    let opening = format!("<!-- {kind}: {what} -->\n```{kind}\n");
    let (_, rest) = text.split_once(&opening).expect("the page shows it");
    let (block, _) = rest
        .split_once("```")
        .expect("a block that was opened is closed");
    block.to_owned()
}

/// The worker, made to connect to this port.
fn block(kind: &str, port: u16) -> String {
    let block = shown(kind, "worker");
    assert_eq!(block.matches(PORT).count(), 1, "it connects once:\n{block}");
    block.replace(PORT, &port.to_string())
}

/// A program that is ended with everything it started.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Program {
        let command = command.stdin(Stdio::null()).process_group(0);
        Program(command.spawn().expect("it starts"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn the_worker_in_twenty_lines_of_python_does_tasks_stays_alive_and_comes_back() {
    let found = Command::new("python3").arg("--version").output();
    if !found.is_ok_and(|found| found.status.success()) {
        return Missing::Python.skip("the worker in twenty lines of Python");
    }
    assert!(block("python", 1).lines().count() <= 20);
    let worker = works("twenty-lines", "did ", |port, _| {
        let mut python = Command::new("python3");
        python.arg("-c").arg(block("python", port));
        python
    });
    // A connection of the same id ends its own, and it ends that one in turn.
    let mut other = Peer::worker(worker.hub.bus(), "twenty-lines", &[]);
    other.hear_such("protocol_error.v1", |told| told["code"] == "replaced");
    worker.does("third");
}

#[test]
fn the_worker_in_python_signs_its_hello_as_the_page_shows() {
    let found = Command::new("python3").arg("--version").output();
    if !found.is_ok_and(|found| found.status.success()) {
        return Missing::Python.skip("the worker in Python that signs");
    }
    let mut project = Project::new().with_bus();
    project.give_flags(&["--auth", "hmac"]);
    let hub = project.start();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(switchboard());
        let ended = command
            .args(arguments)
            .arg("--json")
            .current_dir(project.root())
            .output();
        let ended = ended.expect("it starts");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{arguments:?}: {said}");
        serde_json::from_slice::<Value>(&ended.stdout).expect("it is JSON")
    };
    let text = |value: &Value| value.as_str().expect("it is text").to_owned();
    let token = [
        "token",
        "create",
        "--scope",
        "agent",
        "--agent",
        "twenty-lines",
    ];
    for secret in [
        text(&run(&["agent", "add", "twenty-lines"])["key"]),
        text(&run(&token)["token"]["secret"]),
    ] {
        let made = run(&["task", "add", "signed"]);
        let task = text(&made["task"]["id"]);
        let hello = r#""repo": {}"#;
        let signed =
            format!(r#"{hello}, "auth": auth("worker", me["id"], os.environ["SWITCHBOARD_KEY"])"#);
        let worker = block("python", hub.bus().port());
        assert_eq!(worker.matches(hello).count(), 1, "{worker}");
        let program = shown("python", "auth") + &worker.replace(hello, &signed);
        let mut python = Command::new("python3");
        python
            .arg("-c")
            .arg(program)
            .env("SWITCHBOARD_KEY", &secret);
        let _program = Program::start(&mut python);
        let done = until("it does its task", || {
            let shown = run(&["task", "show", &task])["task"].take();
            (shown["status"] == "completed").then_some(shown)
        });
        assert_eq!(done["assignedAgent"], "twenty-lines", "{done}");
    }
}

#[test]
fn the_worker_with_nc_does_tasks_and_stays_alive() {
    works("nc", "done with nc", |port, root| {
        let mut shell = Command::new("sh");
        shell.arg("-ec").arg(block("sh", port));
        let found = Command::new("sh")
            .args(["-c", "command -v nc"])
            .stdout(Stdio::null())
            .status();
        if !found.is_ok_and(|found| found.success()) {
            shell.env("PATH", with_a_plain_nc(root));
        }
        shell
    });
}

/// Where there is no `nc`: what it does here is to copy both ways.
fn with_a_plain_nc(root: &Path) -> String {
    const NC: &str = "#!/bin/bash\nexec 5<>\"/dev/tcp/$1/$2\"\ncat <&5 &\ncat >&5\n";
    let folder = root.join("bin");
    fs::create_dir(&folder).expect("a folder can be made");
    let nc = folder.join("nc");
    fs::write(&nc, NC).expect("a script can be written");
    fs::set_permissions(&nc, fs::Permissions::from_mode(0o755)).expect("it can be run");
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", folder.display())
}

/// A worker of the page at work.
struct Works {
    hub: Hub,
    id: &'static str,
    summary: &'static str,
    _project: Project,
    _program: Program,
}

impl Works {
    /// Gives it a task and waits until it is done.
    fn does(&self, task: &str) {
        let mut client = self.hub.client();
        client.create(task);
        let shown = until(&format!("{} does {task}", self.id), || {
            Some(client.task(task)).filter(|shown| shown["status"] == "completed")
        });
        assert_eq!(shown["assignedAgent"], self.id, "{shown}");
        let said = shown["result"]["summary"].as_str().unwrap_or_default();
        assert!(said.starts_with(self.summary), "{shown}");
    }
}

/// It does a task, is asked whether it is there and says so, and does another.
fn works(
    id: &'static str,
    summary: &'static str,
    program: impl Fn(u16, &Path) -> Command,
) -> Works {
    let project = Project::new().with_bus();
    fs::write(project.root().join("switchboard.toml"), SETTINGS).expect("it can be written");
    let hub = project.start();
    let mut operator = Peer::operator(hub.bus(), "watch");
    let mut command = program(hub.bus().port(), project.root());
    let program = Program::start(command.current_dir(project.root()));
    let works = Works {
        hub,
        id,
        summary,
        _project: project,
        _program: program,
    };
    works.does("first");
    // It has nothing to do, so it only speaks when it is asked.
    operator.hear("heartbeat.v1");
    works.does("second");
    let events = works.hub.client().events();
    let lost = events.iter().find(|event| event["type"] == "agent_silent");
    assert_eq!(lost, None, "it was never given up");
    works
}
