//! A program in a terminal of its own. Its output and input go through threads: a terminal cannot be waited for
//! otherwise without code that our lints forbid.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use portable_pty::{CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::group::pid;
use crate::{Program, typing};

/// Pieces of output that wait to be read; the program waits with them.
const PIECES_MAX: usize = 16;
const PIECE_BYTES_MAX: usize = 4 * 1024;
/// For programs that ask, where nothing else is said.
const TERM: &str = "xterm-256color";

/// What the program prints, piece by piece; none once it has closed its terminal.
pub type Output = mpsc::Receiver<Vec<u8>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub rows: u16,
    pub columns: u16,
}

/// The terminal of a program, seen from outside. Dropped, it kills the program.
pub struct Pty {
    master: Mutex<Box<dyn MasterPty + Send>>,
    input: mpsc::Sender<(Vec<u8>, oneshot::Sender<io::Result<()>>)>,
    leader: Arc<Mutex<Option<Pid>>>,
    exit: watch::Receiver<Option<ExitStatus>>,
}

pub(crate) fn start(program: &Program, size: Size) -> io::Result<(Pty, Output)> {
    let pair = native_pty_system()
        .openpty(size.into())
        .map_err(io::Error::other)?;
    let mut command = CommandBuilder::from_argv(program.argv.clone());
    if program.argv.is_empty() {
        return Err(io::Error::other("there is no program"));
    }
    // Elsewhere it would begin at home.
    let dir = match &program.dir {
        Some(dir) => std::fs::canonicalize(dir)?,
        None => std::env::current_dir()?,
    };
    command.cwd(dir);
    if let Some(kept) = program.inherited() {
        command.env_clear();
        for (name, value) in kept {
            command.env(name, value);
        }
    }
    if command
        .get_env("TERM")
        .is_none_or(|term| term == OsStr::new("dumb"))
    {
        command.env("TERM", TERM);
    }
    for (name, value) in &program.env {
        command.env(name, value);
    }
    let (read, write) = (pair.master.try_clone_reader(), pair.master.take_writer());
    let (read, write) = (
        read.map_err(io::Error::other)?,
        write.map_err(io::Error::other)?,
    );
    let child = pair
        .slave
        .spawn_command(command)
        .map_err(io::Error::other)?;
    drop(pair.slave);
    let leader = Arc::new(Mutex::new(pid(child.process_id())));
    let (input, given) = mpsc::channel(PIECES_MAX);
    let (printed, output) = mpsc::channel(PIECES_MAX);
    let (ended, exit) = watch::channel(None);
    thread::spawn(move || pour(read, &printed));
    thread::spawn(move || feed(write, given));
    let theirs = Arc::clone(&leader);
    thread::spawn(move || {
        let _ = ended.send(Some(bury(child, &theirs)));
    });
    let master = Mutex::new(pair.master);
    let pty = Pty {
        master,
        input,
        leader,
        exit,
    };
    Ok((pty, output))
}

impl Pty {
    /// Returns once the terminal took all of it. A program that does not read may keep it waiting.
    pub async fn write(&self, bytes: Vec<u8>) -> io::Result<()> {
        let (done, word) = oneshot::channel();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.input.send((bytes, done)).await.map_err(|_| gone())?;
        word.await.map_err(|_| gone())?
    }

    /// Types a text as a person would, and Enter in a write of its own a moment later.
    pub async fn type_in(&self, text: &str, is_paste: bool) -> io::Result<()> {
        self.write(typing::keys(text, is_paste)).await?;
        sleep(typing::ENTER_AFTER).await;
        self.write(typing::ENTER.to_vec()).await
    }

    pub fn resize(&self, size: Size) -> io::Result<()> {
        let resized = self.master.lock().resize(size.into());
        resized.map_err(io::Error::other)
    }

    pub fn pid(&self) -> Option<u32> {
        self.leader
            .lock()
            .map(|pid| pid.as_raw_pid().unsigned_abs())
    }

    /// How the program ended, once it has.
    pub async fn wait(&self) -> ExitStatus {
        let mut exit = self.exit.clone();
        let ended = exit.wait_for(Option::is_some).await;
        ended.ok().and_then(|status| *status).unwrap_or_default()
    }

    /// Hangs up, and kills what is still there after the grace.
    pub async fn end(&self, grace: Duration) -> ExitStatus {
        self.signal(Signal::HUP);
        if let Ok(status) = timeout(grace, self.wait()).await {
            return status;
        }
        self.signal(Signal::KILL);
        self.wait().await
    }

    /// To its group, and to the one in the foreground of its terminal.
    fn signal(&self, signal: Signal) {
        let leader = self.leader.lock();
        let Some(group) = *leader else { return };
        let front = self
            .master
            .lock()
            .process_group_leader()
            .and_then(Pid::from_raw);
        for group in front
            .filter(|front| *front != group)
            .into_iter()
            .chain([group])
        {
            // One that is gone needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl From<Size> for PtySize {
    fn from(size: Size) -> PtySize {
        PtySize {
            rows: size.rows,
            cols: size.columns,
            ..PtySize::default()
        }
    }
}

fn pour(mut read: Box<dyn Read + Send>, printed: &mpsc::Sender<Vec<u8>>) {
    let mut piece = [0; PIECE_BYTES_MAX];
    // A terminal that breaks has ended.
    while let Ok(count @ 1..) = read.read(&mut piece) {
        if printed.blocking_send(piece[..count].to_vec()).is_err() {
            return;
        }
    }
}

fn feed(
    mut write: Box<dyn Write + Send>,
    mut given: mpsc::Receiver<(Vec<u8>, oneshot::Sender<io::Result<()>>)>,
) {
    while let Some((bytes, done)) = given.blocking_recv() {
        let written = write.write_all(&bytes).and_then(|()| write.flush());
        // Whoever does not wait does not need the answer.
        let _ = done.send(written);
    }
}

/// Waits for the end. What is left of the group goes with its leader, while the leader's number is still its own.
fn bury(
    mut child: Box<dyn portable_pty::Child + Send + Sync>,
    leader: &Mutex<Option<Pid>>,
) -> ExitStatus {
    let group = *leader.lock();
    let status = group.map(wait_for).unwrap_or_default();
    if let Some(group) = leader.lock().take() {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // How it ended is known.
    let _ = child.wait();
    status
}

/// Leaves it unburied.
fn wait_for(pid: Pid) -> ExitStatus {
    loop {
        match waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        ) {
            Ok(Some(ended)) => {
                let code = ended.exit_status().map(|code| code << 8);
                return ExitStatus::from_raw(code.or(ended.terminating_signal()).unwrap_or(0));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return ExitStatus::default(),
        }
    }
}
