//! One run of a program: fed, read, bounded in time, and ended with whatever it started.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::{Group, Program, end};

/// What a program left running may hold its output open; it is not waited for longer.
const DRAIN_WITHIN: Duration = Duration::from_secs(1);
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// A program that is to be run to its end.
#[derive(Debug, Default)]
pub struct Run {
    pub program: Program,
    /// What it reads; then its input is closed.
    pub input: Vec<u8>,
    /// It is ended when it takes longer.
    pub time_max: Option<Duration>,
    /// It is ended when it prints nothing for so long.
    pub quiet_max: Option<Duration>,
}

/// One that has begun; killed with whatever it started when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    group: Group,
    feed: JoinHandle<()>,
    readers: [JoinHandle<()>; 2],
    heard: watch::Receiver<()>,
    time_max: Option<Duration>,
    quiet_max: Option<Duration>,
}

/// Something that it printed. Where these are not read, the program waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub from: Pipe,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pipe {
    Stdout,
    Stderr,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub status: ExitStatus,
    pub cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// By itself.
    Itself,
    /// It was told to.
    Stopped,
    /// Its time was over.
    Overtime,
    /// It printed nothing for too long.
    Silent,
}

impl Run {
    /// Runs it until it ends, or `stop` comes. The pieces of its output are read by whoever has the other end.
    pub async fn to_end(
        self,
        pieces: mpsc::Sender<Piece>,
        stop: impl Future<Output = ()>,
    ) -> io::Result<Ended> {
        self.begin(pieces)?.to_end(stop).await
    }

    /// Begins it. What it prints is read from now on.
    pub fn begin(self, pieces: mpsc::Sender<Piece>) -> io::Result<Running> {
        let (mut child, group) = self.program.in_group()?;
        let given = child.stdin.take();
        let feed = tokio::spawn(async move {
            if let Some(mut given) = given {
                // A program that does not read its input is none the worse.
                let _ = given.write_all(&self.input).await;
            }
        });
        let (bell, heard) = watch::channel(());
        let readers = [
            watch(
                child.stdout.take(),
                Pipe::Stdout,
                pieces.clone(),
                bell.clone(),
            ),
            watch(child.stderr.take(), Pipe::Stderr, pieces, bell),
        ];
        Ok(Running {
            child,
            group,
            feed,
            readers,
            heard,
            time_max: self.time_max,
            quiet_max: self.quiet_max,
        })
    }
}

impl Running {
    /// The number of its process, which is that of its group.
    pub fn number(&self) -> Option<u32> {
        self.child.id()
    }

    /// Until it ends, or `stop` comes.
    pub async fn to_end(self, stop: impl Future<Output = ()>) -> io::Result<Ended> {
        let Running {
            mut child, group, ..
        } = self;
        let cause = tokio::select! {
            biased;
            status = child.wait() => Ended { status: status?, cause: Cause::Itself },
            () = stop => Ended { status: end(&mut child, &group).await?, cause: Cause::Stopped },
            () = over(self.time_max) => Ended { status: end(&mut child, &group).await?, cause: Cause::Overtime },
            () = silent(self.quiet_max, self.heard) => Ended { status: end(&mut child, &group).await?, cause: Cause::Silent },
        };
        group.bury();
        self.feed.abort();
        for reader in self.readers {
            let abort = reader.abort_handle();
            // What still has it open is gone or no longer ours.
            let _ = timeout(DRAIN_WITHIN, reader).await;
            abort.abort();
        }
        Ok(cause)
    }
}

async fn over(time_max: Option<Duration>) {
    match time_max {
        Some(time) => sleep(time).await,
        None => std::future::pending().await,
    }
}

async fn silent(quiet_max: Option<Duration>, mut heard: watch::Receiver<()>) {
    let Some(quiet) = quiet_max else {
        return std::future::pending().await;
    };
    loop {
        match timeout(quiet, heard.changed()).await {
            Ok(Ok(())) => {}
            // It closed its output and runs on.
            Ok(Err(_)) => return sleep(quiet).await,
            Err(_) => return,
        }
    }
}

fn watch(
    output: Option<impl AsyncRead + Send + Unpin + 'static>,
    from: Pipe,
    pieces: mpsc::Sender<Piece>,
    bell: watch::Sender<()>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let Some(mut output) = output else { return };
        let mut bytes = vec![0; PIECE_BYTES_MAX];
        loop {
            // An output that breaks has ended.
            let count = output.read(&mut bytes).await.unwrap_or(0);
            if count == 0 {
                return;
            }
            bell.send_replace(());
            let piece = Piece {
                from,
                bytes: bytes[..count].to_vec(),
            };
            // If nobody reads, the program may go on all the same.
            let _ = pieces.send(piece).await;
        }
    })
}
