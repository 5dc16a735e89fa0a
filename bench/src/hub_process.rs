//! The real hub in a child process: started, asked, weighed and stopped from outside, as a user would.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::connection::Connection;
use crate::cpu;
use crate::http::Requests;
use crate::load::Script as _;
use crate::scripts::Prepared;

/// A hub that is not ready by then never will be.
const READY_WITHIN: Duration = Duration::from_secs(120);
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// How often a process that should change its state is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const CONFIG: &str =
    "# Written by the bench.\n[limits]\nenabled = false\n[bus]\nframes_per_second = 0\n";

/// A running hub; it is killed when this value goes.
pub struct Hub {
    child: Child,
    pub server: SocketAddr,
    /// Where its bus listens, if it has one.
    pub bus: Option<SocketAddr>,
    /// Where its broker listens, if it has one.
    pub broker: Option<SocketAddr>,
    /// From the start of the process to the first good answer of `/readyz`.
    pub ready_after: Duration,
}

impl Hub {
    /// Starts a hub whose project, configuration and data live below `home`.
    pub fn start(binary: &Path, home: &Path) -> anyhow::Result<Self> {
        Self::launch(binary, home, &[])
    }

    /// Starts a hub whose ledger is at this address; what else it keeps lives below `home`.
    pub fn start_on(binary: &Path, home: &Path, store: &str) -> anyhow::Result<Self> {
        Self::launch(binary, home, &["--store", store])
    }

    fn launch(binary: &Path, home: &Path, more: &[&str]) -> anyhow::Result<Self> {
        let data_dir = home.join("data");
        let project = home.join("project");
        std::fs::create_dir_all(&project)?;
        std::fs::write(project.join("switchboard.toml"), CONFIG)?;
        let log = File::create(home.join("hub.log"))?;
        let started_at = Instant::now();
        let mut command = Command::new(binary);
        command
            .args(["up", "--http", "127.0.0.1:0", "--bus", "127.0.0.1:0"])
            .args(["--broker", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(&data_dir)
            .arg("--project")
            .arg(&project)
            .args(more)
            .current_dir(&project)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SWITCHBOARD_") {
                command.env_remove(name);
            }
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let mut hub = Self {
            child,
            server: SocketAddr::from(([127, 0, 0, 1], 0)),
            bus: None,
            broker: None,
            ready_after: Duration::ZERO,
        };
        let ready = hub.await_ready(&data_dir.join("hub.json"), started_at);
        ready.with_context(|| format!("the hub did not start{}", last_words(home)))?;
        Ok(hub)
    }

    fn await_ready(&mut self, card: &Path, started_at: Instant) -> anyhow::Result<()> {
        while started_at.elapsed() < READY_WITHIN {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}");
            }
            if let Some((server, bus, broker)) = read_card(card, self.child.id()) {
                (self.server, self.bus, self.broker) = (server, bus, broker);
                if let Ok((200, _)) = self.get("/readyz") {
                    self.ready_after = started_at.elapsed();
                    return Ok(());
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("it was not ready within {READY_WITHIN:?}");
    }

    pub fn get(&self, path: &str) -> anyhow::Result<(u16, Vec<u8>)> {
        let mut request = Vec::new();
        Requests::new(self.server).get(&mut request, format_args!("{path}"));
        self.exchange(&request)
    }

    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<(u16, Vec<u8>)> {
        let mut request = Vec::new();
        let body = body.to_string();
        Requests::new(self.server).post(&mut request, format_args!("{path}"), body.as_bytes());
        self.exchange(&request)
    }

    /// Registers an agent with one skill, `rust`.
    pub fn register(&self, agent: &str) -> anyhow::Result<()> {
        let body = serde_json::json!({"protocolVersion": "1.0", "agent": {
            "id": agent, "name": agent, "type": "custom",
            "capabilities": {"skills": ["rust"], "maxTaskMinutes": 60, "canRunTests": true, "canRunBuild": true, "canAccessBrowser": false}}});
        let (status, answer) = self.post("/api/v1/agents/register", &body)?;
        let answer = String::from_utf8_lossy(&answer);
        ensure!(
            status == 200 || status == 201,
            "cannot register {agent}: {status} {answer}"
        );
        Ok(())
    }

    /// Says that an agent is alive.
    pub fn heartbeat(&self, agent: &str) -> anyhow::Result<()> {
        let mut request = Vec::new();
        Prepared::heartbeat(self.server, agent).request(&mut request);
        let (status, answer) = self.exchange(&request)?;
        let answer = String::from_utf8_lossy(&answer);
        ensure!(status == 200, "no heartbeat of {agent}: {status} {answer}");
        Ok(())
    }

    fn exchange(&self, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
        Connection::open(self.server)?.exchange(request)
    }

    /// One of the figures that the hub tells about itself, without the prefix of its name.
    pub fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let (_, text) = self.get("/metrics")?;
        let text = String::from_utf8_lossy(&text);
        metric_of(&text, name).with_context(|| format!("the hub tells no metric {name}"))
    }

    /// Resident memory in megabytes (10^6 bytes).
    pub fn resident_mb(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).context("cannot read the hub's memory")?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_ascii_whitespace().nth(1));
        let kib: f64 = kib.context("the hub has no VmRSS")?.parse()?;
        Ok(kib * 1024.0 / 1e6)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time that the process used since it began.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        cpu::of_process(self.pid())
    }

    /// Waits until the hub is done with what it does behind the scenes, such as checkpoints.
    pub fn settle(&self) -> anyhow::Result<()> {
        cpu::settle(|| self.cpu_time())
    }

    /// Stops the hub as a service manager would, and waits until it is gone.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        let asked_at = Instant::now();
        while asked_at.elapsed() < STOP_WITHIN {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the hub was still running {STOP_WITHIN:?} after SIGTERM");
    }

    /// Ends the hub with SIGKILL, as a power failure would.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The addresses in `hub.json`, then those of the bus and of the broker, once this process has written it.
fn read_card(
    path: &Path,
    pid: u32,
) -> Option<(SocketAddr, Option<SocketAddr>, Option<SocketAddr>)> {
    let card: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    if card["pid"] != pid {
        return None;
    }
    let address = card["http"].as_str()?;
    let server = address.trim_start_matches("http://").parse().ok()?;
    let door = |name: &str| card[name].as_str().and_then(|addr| addr.parse().ok());
    Some((server, door("bus"), door("broker")))
}

fn metric_of(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix("switchboard_")?.strip_prefix(name)?;
        value.strip_prefix(' ')?.parse().ok()
    })
}

fn last_words(home: &Path) -> String {
    let log = std::fs::read_to_string(home.join("hub.log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let told = lines[lines.len().saturating_sub(5)..].iter();
    told.map(|line| format!("\n    {line}")).collect()
}

/// Finds the hub's binary, and builds it first when this run came from `cargo run`.
pub fn find_binary(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        ensure!(path.is_file(), "there is no hub at {}", path.display());
        return Ok(path.canonicalize()?);
    }
    let this_program = std::env::current_exe().context("cannot find this program's file")?;
    let built_in = this_program
        .parent()
        .context("this program has no directory")?;
    if let Some(cargo) = std::env::var_os("CARGO") {
        let profile = match built_in.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        crate::progress(format_args!("building the hub (profile {profile})"));
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--workspace", "--bin"])
            .args(["switchboard", "--profile", profile])
            .status()
            .context("cannot run cargo")?;
        ensure!(status.success(), "the hub does not build");
    }
    let path = built_in.join("switchboard");
    ensure!(
        path.is_file(),
        "there is no hub beside the bench; build it with 'cargo build --release', or name one with '--hub'"
    );
    Ok(path)
}
