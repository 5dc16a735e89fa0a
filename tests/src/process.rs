//! The real binary at work in a project of its own.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::binary::switchboard;
use crate::http::Client;
use crate::wait::{PATIENCE, until};

/// A directory with a hub's state in it. Hubs come and go; the state stays until the project is dropped.
#[derive(Debug)]
pub struct Project {
    home: TempDir,
    environment: Vec<(OsString, OsString)>,
    /// A command line to put before the hub's.
    wrapper: Vec<OsString>,
    http: SocketAddr,
    /// Where the bus listens, if it shall.
    bus: Option<SocketAddr>,
    /// Nothing is said of the bus.
    is_bus_plain: bool,
    data_dir: PathBuf,
    /// Where the ledger is, if not in the data directory.
    store: Option<String>,
    /// More words for the command line of `up`.
    flags: Vec<OsString>,
}

/// A hub that serves. Dropping it kills it.
#[derive(Debug)]
pub struct Hub {
    child: Child,
    addr: SocketAddr,
    bus: Option<SocketAddr>,
    said: Said,
    printed: Text,
}

/// A hub that was just begun.
struct Spawned {
    child: Child,
    said: Said,
    printed: Text,
    serves: mpsc::Receiver<Addresses>,
}

/// What a thread writes down.
type Text = Arc<Mutex<String>>;

fn lock(text: &Text) -> MutexGuard<'_, String> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a hub serves, and where its bus is.
type Addresses = (SocketAddr, Option<SocketAddr>);

/// How a hub ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Everything on its standard error.
    pub stderr: String,
}

impl Default for Project {
    fn default() -> Self {
        Self::new()
    }
}

impl Project {
    pub fn new() -> Project {
        let home = TempDir::new().expect("a temporary directory can be made");
        Project {
            data_dir: home.path().join(".switchboard"),
            home,
            environment: Vec::new(),
            wrapper: Vec::new(),
            http: SocketAddr::from(([127, 0, 0, 1], 0)),
            bus: None,
            is_bus_plain: false,
            store: None,
            flags: Vec::new(),
        }
    }

    /// A project whose hubs keep their ledger at this address.
    pub fn on(store: impl Into<String>) -> Project {
        Project {
            store: Some(store.into()),
            ..Project::new()
        }
    }

    /// One more variable in the environment of its hubs.
    pub fn with_variable(
        mut self,
        name: impl Into<OsString>,
        value: impl Into<OsString>,
    ) -> Project {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Hubs are started through this command, which must end by becoming its arguments.
    pub fn through<S: Into<OsString>>(mut self, command: impl IntoIterator<Item = S>) -> Project {
        self.wrapper = command.into_iter().map(Into::into).collect();
        self
    }

    /// Listens here instead of on a port that is free.
    pub fn at(mut self, http: SocketAddr) -> Project {
        self.http = http;
        self
    }

    /// With a bus, on a port that is free.
    pub fn with_bus(self) -> Project {
        self.with_bus_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    pub fn with_bus_at(mut self, bus: SocketAddr) -> Project {
        self.bus = Some(bus);
        self
    }

    /// With a bus wherever a hub opens one by itself.
    pub fn with_plain_bus(mut self) -> Project {
        self.is_bus_plain = true;
        self
    }

    /// Keeps its state here instead of in the project.
    pub fn in_data_dir(mut self, path: impl Into<PathBuf>) -> Project {
        self.data_dir = path.into();
        self
    }

    /// Its next hubs keep their state here.
    pub fn move_data_dir(&mut self, path: impl Into<PathBuf>) {
        self.data_dir = path.into();
    }

    /// Its next hubs keep their ledger at this address, or in their data directory.
    pub fn move_store(&mut self, store: Option<&str>) {
        self.store = store.map(str::to_owned);
    }

    /// Its next hubs are started with these words more.
    pub fn give_flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(Into::into).collect();
    }

    pub fn root(&self) -> &Path {
        self.home.path()
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub fn database(&self) -> PathBuf {
        self.data_dir().join("switchboard.db")
    }

    /// Starts a hub and waits until it serves.
    #[track_caller]
    pub fn start(&self) -> Hub {
        match self.try_start() {
            Ok(hub) => hub,
            Err(ended) => panic!(
                "the hub did not start ({}):\n{}",
                ended.status, ended.stderr
            ),
        }
    }

    /// Starts a hub that must refuse to.
    #[track_caller]
    pub fn start_in_vain(&self) -> Ended {
        match self.try_start() {
            Ok(hub) => panic!("the hub serves {}, which it must not", hub.addr),
            Err(ended) => ended,
        }
    }

    /// Starts a hub without waiting for it, and kills it after a look at the watch of the caller's choice.
    pub fn start_and_kill(&self, mut wait: impl FnMut()) {
        let Spawned { mut child, .. } = self.spawn();
        wait();
        // It may have ended by itself, which the next start will tell.
        let _ = child.kill();
        let _ = child.wait();
    }

    #[track_caller]
    pub fn try_start(&self) -> Result<Hub, Ended> {
        let Spawned {
            mut child,
            mut said,
            printed,
            serves,
        } = self.spawn();
        match serves.recv_timeout(PATIENCE) {
            Ok((addr, bus)) => Ok(Hub {
                child,
                addr,
                bus,
                said,
                printed,
            }),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = ends(&mut child);
                let stderr = said.all();
                Err(Ended { status, stderr })
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("the hub neither serves nor ends:\n{}", said.so_far());
            }
        }
    }

    fn spawn(&self) -> Spawned {
        let mut line = self.wrapper.clone();
        line.push(switchboard().into());
        let mut command = Command::new(&line[0]);
        let bus = self.bus.map_or("off".to_owned(), |bus| bus.to_string());
        let bus = ["--bus", &bus];
        command
            .args(&line[1..])
            .args(["up", "--http", &self.http.to_string()])
            .args(bus.iter().filter(|_| !self.is_bus_plain))
            .arg("--project")
            .arg(self.root())
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(self.store.iter().flat_map(|url| ["--store", url]))
            .args(&self.flags)
            .current_dir(self.root())
            .env("SWITCHBOARD_LIMITS_ENABLED", "false")
            .env("SWITCHBOARD_BROKER_LISTEN", "off")
            .env("NO_COLOR", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", line[0].display()));
        let stdout = child.stdout.take().expect("it is piped");
        let stderr = child.stderr.take().expect("it is piped");
        let (serves, address) = mpsc::channel();
        let printed = Text::default();
        let theirs = Arc::clone(&printed);
        // Goes on reading, so that the hub never writes into a broken pipe.
        thread::spawn(move || {
            let mut bus = None;
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                lock(&theirs).push_str(&format!("{line}\n"));
                let found = line.strip_prefix("the bus is at ");
                bus = found.and_then(|addr| addr.parse().ok()).or(bus);
                let found = line.strip_prefix("switchboard serves http");
                let found = found.and_then(|url| url.split_once("://"));
                if let Some(addr) = found.and_then(|(_, addr)| addr.parse().ok()) {
                    let _ = serves.send((addr, bus));
                }
            }
        });
        Spawned {
            child,
            said: Said::listen(stderr),
            printed,
            serves: address,
        }
    }
}

impl Hub {
    /// Where its bus is.
    #[track_caller]
    pub fn bus(&self) -> SocketAddr {
        self.bus.expect("the project has a bus")
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn client(&self) -> Client {
        Client::new(self.addr)
    }

    /// What it printed up to now.
    pub fn stdout(&self) -> String {
        lock(&self.printed).clone()
    }

    /// What it wrote to its standard error up to now.
    pub fn stderr(&self) -> String {
        self.said.so_far()
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal)
            .expect("a child that is not waited for can be signalled");
    }

    /// SIGTERM, and gone in good order when this returns.
    #[track_caller]
    pub fn stop(self) -> Ended {
        self.signal(Signal::TERM);
        let ended = self.wait();
        assert!(
            ended.status.success(),
            "the hub ended with {}:\n{}",
            ended.status,
            ended.stderr
        );
        ended
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let status = ends(&mut self.child);
        let stderr = self.said.all();
        Ended { status, stderr }
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Memory that it has in use, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .expect("a running process has a status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("a process has resident memory");
        let kilobytes: u64 = line
            .trim()
            .trim_end_matches("kB")
            .trim()
            .parse()
            .expect("it is a number of kilobytes");
        kilobytes * 1024
    }

    /// No file that it writes may grow beyond this; `None` lifts the limit.
    #[cfg(target_os = "linux")]
    pub fn limit_file_size(&self, bytes: Option<u64>) {
        use rustix::process::{Resource, Rlimit, prlimit};
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(self.process()), Resource::Fsize, limit).expect("own children can be limited");
    }

    fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address with one more parameter.
pub fn with_parameter(url: &str, parameter: &str) -> String {
    let glue = if url.contains('?') { '&' } else { '?' };
    format!("{url}{glue}{parameter}")
}

#[track_caller]
fn ends(child: &mut Child) -> ExitStatus {
    until("the hub ends", || {
        child.try_wait().expect("a child can be waited for")
    })
}

/// What a process says on its standard error.
#[derive(Debug)]
struct Said {
    text: Text,
    /// Taken when the process has ended.
    listener: Option<JoinHandle<()>>,
}

/// Enough of a log to understand a failure; the rest is read and dropped.
const SAID_BYTES_MAX: usize = 1024 * 1024;

impl Said {
    fn listen(mut stderr: impl std::io::Read + Send + 'static) -> Said {
        let text = Text::default();
        let theirs = Arc::clone(&text);
        let listener = thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(read @ 1..) = stderr.by_ref().read(&mut piece) {
                let mut text = lock(&theirs);
                if text.len() < SAID_BYTES_MAX {
                    text.push_str(&String::from_utf8_lossy(&piece[..read]));
                }
            }
        });
        Said {
            text,
            listener: Some(listener),
        }
    }

    fn so_far(&self) -> String {
        lock(&self.text).clone()
    }

    /// Everything, once the process has ended.
    fn all(&mut self) -> String {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        self.so_far()
    }
}
