//! What the demo stands on: a directory, a repository in it, and the processes that run there. Dropped, all of it is gone.
//!
//! The hub and the workers are this binary, as children. Each has a guard before it that ends it once the demo's end of
//! a pipe is closed: even a killed demo leaves no process, only its directory.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use ulid::Ulid;

use crate::context::{Context, Options};
use crate::discover::{DATA_DIR, Found, HubFile};
use crate::failure::Failure;

/// How directories of demos begin, below the system's temporary directory.
const PREFIX: &str = "switchboard-demo-";
const STARTED_WITHIN: Duration = Duration::from_secs(20);
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Of a log, so many of its last bytes are shown.
const TAIL_BYTES: usize = 2000;
/// What would steer the children from outside.
const FOREIGN: [&str; 6] = [
    "SWITCHBOARD_",
    "GIT_",
    "TELEGRAM_",
    "HM_SEND_PORT",
    "JETPACK_",
    "LOGIST_",
];
/// Runs the arguments until they end or the standard input does.
const GUARD: &str = r#"exec 3<&0
"$@" </dev/null 3<&- & child=$!
{ read -r _ <&3; kill "$child"; } 2>/dev/null & guard=$!
wait "$child"; status=$?
kill "$guard" 2>/dev/null
exit $status"#;
/// Silence counts after seconds here, not minutes, and nothing is limited: a minute has to do.
const SETTINGS: &str = r#"[agent_bus]
heartbeat_interval_seconds = 1

[timeouts]
worker_heartbeat_ttl_seconds = 3

[retry]
backoff_initial_seconds = 1
backoff_max_seconds = 1

[limits]
enabled = false

[log]
filter = "warn"
"#;

pub struct Stage {
    dir: PathBuf,
    children: Vec<(&'static str, Child)>,
    pub keep: bool,
}

/// Where a hub can be reached.
pub struct Doors {
    pub bus: String,
    pub context: Context,
}

impl Stage {
    pub fn new(keep: bool) -> Result<Stage, Failure> {
        let tail = Ulid::generate().to_string().to_lowercase();
        let name = format!("{PREFIX}{}-{}", std::process::id(), &tail[16..]);
        let temporary = std::env::temp_dir();
        let dir = fs::canonicalize(&temporary).unwrap_or(temporary).join(name);
        let made = DirBuilder::new().mode(0o700).create(&dir);
        made.map_err(|error| {
            Failure::Failed(format!(
                "{} cannot be created: {error}; TMPDIR names another place",
                dir.display()
            ))
        })?;
        let stage = Stage {
            dir,
            children: Vec::new(),
            keep,
        };
        fs::create_dir(stage.project())?;
        fs::write(stage.file("switchboard.toml"), SETTINGS)?;
        stage.repository()?;
        Ok(stage)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn project(&self) -> PathBuf {
        self.file("project")
    }

    /// One commit to begin with.
    fn repository(&self) -> Result<(), Failure> {
        fs::write(self.project().join("README.md"), "# A project\n")?;
        let own = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"];
        for line in [
            &["init", "-q"][..],
            &["add", "README.md"],
            &["commit", "-q", "-m", "Begin"],
        ] {
            let done = self.command("git").args(own).args(line).output();
            let done = done.map_err(|error| {
                Failure::Failed(format!("git cannot be started: {error}; the demo needs it"))
            })?;
            if !done.status.success() {
                let said = String::from_utf8_lossy(&done.stderr);
                return Err(Failure::Failed(format!("git {}: {}", line[0], said.trim())));
            }
        }
        Ok(())
    }

    /// In the project, and steered by nothing from outside.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project());
        for (name, _) in std::env::vars_os() {
            let bytes = name.as_encoded_bytes();
            if FOREIGN.iter().any(|it| bytes.starts_with(it.as_bytes())) {
                command.env_remove(&name);
            }
        }
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    /// Starts this binary with these arguments; what it says is in `<name>.log`.
    pub fn start(
        &mut self,
        name: &'static str,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<(), Failure> {
        let log = File::create(self.file(&format!("{name}.log")))?;
        let mut command = self.command("sh");
        command.args(["-c", GUARD, "switchboard-demo"]);
        command.arg(std::env::current_exe()?);
        command.args(args.into_iter().map(Into::into));
        command.process_group(0).stdin(Stdio::piped());
        command.stdout(log.try_clone()?).stderr(log);
        let started = command.spawn().map_err(|error| {
            Failure::Failed(format!("sh cannot be started: {error}; the demo needs it"))
        })?;
        self.children.push((name, started));
        Ok(())
    }

    /// Starts the hub and waits until it serves.
    pub async fn hub(&mut self) -> Result<Doors, Failure> {
        let project = self.project();
        let any = "127.0.0.1:0";
        let args: [&OsStr; 11] = [
            "up".as_ref(),
            "--project".as_ref(),
            project.as_ref(),
            "--config".as_ref(),
            &self.file("switchboard.toml").into_os_string(),
            "--http".as_ref(),
            any.as_ref(),
            "--bus".as_ref(),
            any.as_ref(),
            "--broker".as_ref(),
            any.as_ref(),
        ];
        self.start("hub", args)?;
        let context = Context::new(Options {
            data_dir: Some(project.join(DATA_DIR)),
            ..Options::default()
        })?;
        let until = Instant::now() + STARTED_WITHIN;
        loop {
            if let Some(bus) = bus(&context)
                && context.client()?.admin().ready().await.is_ok()
            {
                return Ok(Doors { bus, context });
            }
            self.check()?;
            if Instant::now() > until {
                return Err(self.failed("hub", "does not answer"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Whether all that was started still runs.
    pub fn check(&mut self) -> Result<(), Failure> {
        let mut ended: Option<(&'static str, ExitStatus)> = None;
        for (name, child) in &mut self.children {
            ended = ended.or(child.try_wait()?.map(|status| (*name, status)));
        }
        match ended {
            Some((name, status)) => Err(self.failed(name, &format!("ended ({status})"))),
            None => Ok(()),
        }
    }

    /// With the end of its log.
    pub fn failed(&self, name: &str, what: &str) -> Failure {
        let log = fs::read(self.file(&format!("{name}.log"))).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(TAIL_BYTES)..];
        let tail = String::from_utf8_lossy(tail);
        Failure::Failed(format!("the demo's {name} {what}:\n{}", tail.trim()))
    }

    /// Ends the processes whose names begin so, politely, and waits for them.
    pub fn stop(&mut self, prefix: &str) {
        let is_it = |(name, _): &mut (&'static str, Child)| name.starts_with(prefix);
        let mut ending: Vec<_> = self.children.extract_if(.., is_it).collect();
        for (_, child) in &mut ending {
            drop(child.stdin.take());
        }
        let until = Instant::now() + STOPPED_WITHIN;
        for (_, child) in &mut ending {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                thread::sleep(LOOK_EVERY);
            }
            if let (Ok(None), pid) = (child.try_wait(), Pid::from_child(child)) {
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = child.wait();
            }
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Workers first: they give back what they hold.
        self.stop("worker");
        self.stop("");
        if !self.keep {
            remove(&self.dir);
        }
    }
}

/// A file that somebody makes meanwhile is removed by the next try.
fn remove(dir: &Path) {
    for _ in 0..5 {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(LOOK_EVERY),
            Ok(()) | Err(_) => return,
        }
    }
}

fn bus(context: &Context) -> Option<String> {
    match context.find() {
        Found::Running { hub, .. } => {
            HubFile::bus_addr(&hub).filter(|_| hub.broker_url().is_some())
        }
        Found::Gone { .. } | Found::Unreadable { .. } | Found::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_demo_that_panics_leaves_nothing_behind() {
        let dir = std::sync::Mutex::new(PathBuf::new());
        let panicked = catch_unwind(|| {
            let stage = Stage::new(false).unwrap();
            *dir.lock().unwrap() = stage.dir().to_owned();
            assert!(stage.project().join(".git").is_dir());
            // Quietly, unlike a panic.
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        let dir = dir.into_inner().unwrap();
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with(PREFIX) && !dir.exists(), "{name}");
    }

    #[test]
    fn what_was_started_and_fails_is_told_with_its_last_words() {
        let mut stage = Stage::new(false).unwrap();
        // The test program itself, which knows no such option.
        stage.start("hub", ["--no-such-option"]).unwrap();
        let failure = loop {
            match stage.check() {
                Ok(()) => thread::yield_now(),
                Err(failure) => break failure.to_string(),
            }
        };
        assert!(
            failure.contains("hub ended") && failure.contains("no-such-option"),
            "{failure}"
        );
    }
}
