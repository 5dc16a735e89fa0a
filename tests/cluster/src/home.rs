//! A temporary directory with a server in it that ends when we do.
//!
//! Beside the server runs a small shell that reads from a pipe of ours. The kernel closes the pipe when this process
//! is gone, also after SIGKILL and for statics that nobody drops; then the shell stops the server and clears up.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The user `nobody` and its group, wherever Linux is: servers refuse to run as root.
const NOBODY: u32 = 65_534;

/// Below the range from which the kernel takes ports for outgoing connections. A client that keeps calling a stopped
/// server could otherwise be given the server's own port and be connected to itself.
const PORTS: std::ops::Range<u16> = 15_000..31_000;

/// How many taken ports are passed over before we give up.
pub(crate) const PORT_TRIES: usize = 20;

/// The directory, who owns it, and the shell that outlives us.
#[derive(Debug)]
pub(crate) struct Home {
    dir: TempDir,
    user: Option<u32>,
    guard: Option<Child>,
}

impl Home {
    pub(crate) fn new() -> Home {
        let dir = TempDir::with_prefix("switchboard-").expect("a temporary directory can be made");
        let user = match owner(dir.path()) {
            0 => Some(NOBODY),
            _ => None,
        };
        let home = Home {
            dir,
            user,
            guard: None,
        };
        home.hand_over(home.path());
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file that the server can read and nobody else can.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, content)
            .unwrap_or_else(|error| panic!("{} cannot be written: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
            .expect("our own file takes a mode");
        self.hand_over(&path);
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// A command that runs here as the server's user, untouched by the caller's environment.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = plain(program.as_ref());
        command.current_dir(self.path());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Runs a shell script at our end: its first line or lines may start a server, `read` waits for us.
    pub(crate) fn guard(&mut self, script: &str, arguments: &[&Path]) {
        self.leave();
        let mut shell = self.command("sh");
        shell
            .arg("-c")
            .arg(format!("trap '' HUP INT TERM\n{script}"))
            .arg("guard")
            .args(arguments);
        // A group of its own, so that neither Ctrl-C nor a runner that ends the test's group reaches it.
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        self.guard = Some(shell.spawn().expect("sh is there"));
    }

    /// Lets the guard's script go on and waits for its end.
    pub(crate) fn leave(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }

    fn hand_over(&self, path: &Path) {
        if let Some(user) = self.user {
            chown(path, Some(user), Some(user)).expect("root may give files away");
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A command with nothing of our environment but the path, speaking English.
pub(crate) fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C").stdin(Stdio::null());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Runs a command to its end: what it printed, or why it failed.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?} does not start: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!(
        "{command:?} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&said).trim()
    ))
}

/// A port that is free at this moment; whoever starts a server on it must be ready to ask again.
pub(crate) fn free_port() -> u16 {
    let random = RandomState::new();
    let ports = u64::from(PORTS.end - PORTS.start);
    (0..1_000_u32)
        .map(|nth| {
            PORTS.start + u16::try_from(random.hash_one(nth) % ports).expect("a remainder of a u16")
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("one of a thousand ports is free")
}

/// Who made this file; of a file just made, who we are.
fn owner(path: &Path) -> u32 {
    let metadata: io::Result<fs::Metadata> = path.metadata();
    metadata
        .expect("a directory just made can be looked at")
        .uid()
}
