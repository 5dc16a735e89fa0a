//! A repository with a hub, and workers in it.

use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use switchboard_tests::{API, Client, Hub, Project, switchboard, until};

pub struct Work {
    project: Option<Project>,
    hub: Option<Hub>,
    addr: SocketAddr,
    root: PathBuf,
    scripts: tempfile::TempDir,
}

impl Work {
    pub fn new() -> Work {
        Work::of(Project::new())
    }

    pub fn of(project: Project) -> Work {
        let root = project.root().to_owned();
        repository(&root);
        let hub = project.start();
        let addr = hub.addr();
        Work {
            project: Some(project.at(addr)),
            hub: Some(hub),
            addr,
            root,
            scripts: tempfile::tempdir().expect("a directory"),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn hub(&self) -> Client {
        Client::new(self.addr)
    }

    pub fn hub_addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn kill_hub(&mut self) {
        self.hub.take().expect("it runs").kill();
    }

    /// At the same address.
    pub fn restart_hub(&mut self) {
        self.hub = Some(self.project.as_ref().expect("it is there").start());
    }

    pub fn tree(&self, name: &str) -> PathBuf {
        self.root.join(".switchboard/worktrees").join(name)
    }

    pub fn state(&self, name: &str) -> PathBuf {
        self.root.join(".switchboard").join(name)
    }

    /// The id of a new task.
    pub fn add(&self, task: Value) -> String {
        let made = self.hub().post(&format!("{API}/tasks"), &task).expect(201);
        made["task"]["id"].as_str().expect("an id").to_owned()
    }

    pub fn task(&self, id: &str) -> Value {
        self.hub().task(id)
    }

    pub fn details(&self, id: &str) -> Value {
        self.hub().get(&format!("{API}/tasks/{id}")).expect(200)
    }

    /// So that nobody takes it again.
    pub fn cancel(&self, id: &str) {
        // It may have been canceled before.
        let _ = self.hub().post(
            &format!("{API}/tasks/{id}/cancel"),
            &Value::Object(Default::default()),
        );
    }

    pub fn cancel_by(&self, task: &Value) {
        self.cancel(task["id"].as_str().expect("an id"));
    }

    /// The command line of a program that does this.
    pub fn script(&self, text: &str) -> String {
        let number = fs::read_dir(self.scripts.path())
            .expect("it is there")
            .count();
        let file = self.scripts.path().join(format!("{number}.sh"));
        fs::write(&file, format!("set -eu\n{text}\n")).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("set");
        format!("sh {}", file.display())
    }

    pub fn switchboard(&self, args: &[&str]) -> String {
        let output = Command::new(switchboard())
            .args(args)
            .current_dir(&self.root)
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    pub fn worker(&self, args: &[&str]) -> Worker {
        self.worker_with(args, &[])
    }

    pub fn worker_with(&self, args: &[&str], env: &[(&str, &str)]) -> Worker {
        let mut child = Command::new(switchboard())
            .arg("worker")
            .args(args)
            .current_dir(&self.root)
            .env("NO_COLOR", "1")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = Arc::new(Mutex::new(String::new()));
        let readers = [
            listen(child.stdout.take().expect("piped"), &said),
            listen(child.stderr.take().expect("piped"), &said),
        ];
        Worker {
            child,
            said,
            readers: Vec::from(readers),
        }
    }
}

fn listen(
    mut from: impl std::io::Read + Send + 'static,
    said: &Arc<Mutex<String>>,
) -> thread::JoinHandle<()> {
    let said = Arc::clone(said);
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            said.lock()
                .expect("nobody panics")
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    })
}

pub struct Worker {
    child: Child,
    said: Arc<Mutex<String>>,
    readers: Vec<thread::JoinHandle<()>>,
}

pub struct Out {
    pub is_good: bool,
    pub said: String,
}

impl Worker {
    pub fn said(&self) -> String {
        self.said.lock().expect("nobody panics").clone()
    }

    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("it runs");
        kill_process(pid, signal).expect("it is ours");
    }

    #[track_caller]
    pub fn ended(mut self) -> Out {
        let status = until(&format!("it ends; it said {}", self.said()), || {
            self.child.try_wait().expect("ours")
        });
        for reader in self.readers.drain(..) {
            reader.join().expect("it reads");
        }
        Out {
            is_good: status.success(),
            said: self.said(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes it a repository with one commit.
pub fn repository(root: &Path) {
    git(root, &["init", "-q", "-b", "main"]);
    git(root, &["config", "user.name", "Somebody"]);
    git(root, &["config", "user.email", "somebody@example.invalid"]);
    fs::write(
        root.join(".gitignore"),
        ".switchboard/\n.jetpack/\n.squidrun/\n.agent-bus/\nconfig/\nagent-memory/\n",
    )
    .expect("written");
    fs::write(root.join("README"), "read me\n").expect("written");
    git(root, &["add", "."]);
    git(root, &["commit", "-qm", "begin"]);
}

#[track_caller]
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .output()
        .expect("git runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn is_dead(pid: &str) -> bool {
    let Ok(mut stat) = fs::File::open(format!("/proc/{pid}/stat")) else {
        return true;
    };
    let mut text = String::new();
    let _ = stat.read_to_string(&mut text);
    text.rsplit(") ")
        .next()
        .is_none_or(|rest| rest.starts_with('Z'))
}
