//! A program in the user's terminal, with its role's messages typed into it.
//!
//! What the program prints goes to the user's terminal and nowhere else: the hub never hears of it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use switchboard_child::typing::{PasteMode, Typed, may_type_at};
use switchboard_child::{END_WITHIN, Output, Program, Pty};
use switchboard_client::broker::{Arrived, Heard, Receiver};
use switchboard_wire::squidrun::{header, tags};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::terminal::{self, Raw};

/// Messages that wait for the person to pause; more wait on their way.
const WAITING_MAX: usize = 64;
/// Pieces of what the person typed.
const PIECES_MAX: usize = 16;
const PIECE_BYTES: usize = 4096;
/// For the last words of a program that has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How it came to an end.
pub struct Ended {
    pub code: u8,
    /// Messages that arrived and were not typed any more.
    pub untyped: usize,
}

/// Runs a program to its end, or to ours.
pub async fn run(program: &Program, mut hub: Receiver) -> io::Result<Ended> {
    let stopped = stopped()?;
    let mut resized = signal(SignalKind::window_change())?;
    let raw = Raw::enter()?;
    let (pty, output) = program.in_terminal(terminal::size())?;
    let pastes = Arc::new(AtomicBool::new(false));
    let shown = show(output, Arc::clone(&pastes));
    let mut typist = Typist::new(pastes);
    let code = tokio::select! {
        status = pty.wait() => {
            // Whoever still holds the terminal is not waited for.
            let _ = timeout(LAST_WORDS, shown).await;
            if status.signal().is_some() {
                terminal::calm();
            }
            exit_code(status)
        }
        number = stopped => {
            pty.end(END_WITHIN).await;
            let _ = timeout(LAST_WORDS, shown).await;
            terminal::calm();
            128 + number
        }
        never = typist.work(&pty, &mut hub, keys()) => match never {},
        never = resize(&pty, &mut resized) => match never {},
    };
    drop(raw);
    hub.close().await;
    let untyped = typist.waiting.len();
    Ok(Ended { code, untyped })
}

/// As a shell has it.
fn exit_code(status: ExitStatus) -> u8 {
    let by_signal = status.signal().map(|number| 128 + number);
    let code = status.code().or(by_signal).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// What is typed, and when.
struct Typist {
    /// Oldest first, each with the time of its arrival.
    waiting: VecDeque<(Instant, Arrived)>,
    /// Of everything that arrived.
    known: Typed,
    /// A program that has just begun is let alone like a person who has just typed.
    keyed_at: Instant,
    /// Whether the program takes bracketed pastes.
    pastes: Arc<AtomicBool>,
}

impl Typist {
    fn new(pastes: Arc<AtomicBool>) -> Typist {
        Typist {
            waiting: VecDeque::new(),
            known: Typed::default(),
            keyed_at: Instant::now(),
            pastes,
        }
    }

    /// The only one who writes to the program: a message's text and its Enter have no key of the person between them.
    async fn work(
        &mut self,
        pty: &Pty,
        hub: &mut Receiver,
        mut keys: mpsc::Receiver<Vec<u8>>,
    ) -> Infallible {
        loop {
            let first = self.waiting.front();
            let due = first.map(|(since, _)| may_type_at(*since, Some(self.keyed_at)));
            tokio::select! {
                biased;
                Some(bytes) = keys.recv() => {
                    self.keyed_at = Instant::now();
                    // A program that is gone has ended, which is noticed elsewhere.
                    let _ = pty.write(bytes).await;
                }
                heard = hub.next(), if self.waiting.len() < WAITING_MAX => self.hear(heard, hub),
                () = sleep_until(due.unwrap_or(self.keyed_at)), if due.is_some() => {
                    self.type_first(pty, hub).await;
                }
            }
        }
    }

    fn hear(&mut self, heard: Heard, hub: &Receiver) {
        match heard {
            Heard::Message(message) => {
                if self.known.is_new(&id(&message)) {
                    self.waiting.push_back((Instant::now(), message));
                } else if !self.waiting.iter().any(|(_, it)| id(it) == id(&message)) {
                    // It was typed, and the receipt got lost.
                    confirm(&message, hub);
                }
            }
            // The terminal is the program's; the receiver goes on by itself.
            Heard::Registered { .. } | Heard::Lost(_) => {}
        }
    }

    async fn type_first(&mut self, pty: &Pty, hub: &Receiver) {
        let Some((_, message)) = self.waiting.front() else {
            return;
        };
        let pastes = self.pastes.load(Ordering::Relaxed);
        if pty.type_in(&message.content, pastes).await.is_ok() {
            confirm(message, hub);
            self.waiting.pop_front();
        } else {
            // The program has ended.
            std::future::pending::<()>().await;
        }
    }
}

/// Two messages may have one trace, and one number in two ledgers.
fn id(message: &Arrived) -> String {
    format!("{} {}", message.event_id, message.trace_id)
}

/// The receipt. What must be acknowledged is left to the program: that it was typed does not mean that it was read.
fn confirm(message: &Arrived, hub: &Receiver) {
    let content = &*message.content;
    let body = header::parse(content).map_or(content, |header| header.body);
    if !tags::parse(body).0.ack_required {
        hub.received(&message.trace_id);
    }
}

/// Copies what the program prints to the terminal, until it prints no more.
fn show(mut output: Output, pastes: Arc<AtomicBool>) -> oneshot::Receiver<()> {
    let (done, shown) = oneshot::channel();
    thread::spawn(move || {
        let (mut mode, mut out) = (PasteMode::default(), io::stdout());
        while let Some(piece) = output.blocking_recv() {
            mode.watch(&piece);
            pastes.store(mode.is_on(), Ordering::Relaxed);
            // Where nobody looks any more, the program goes on all the same.
            let _ = out.write_all(&piece).and_then(|()| out.flush());
        }
        let _ = done.send(());
    });
    shown
}

/// What the person types. Its end does not end the program, which lives for its messages too.
fn keys() -> mpsc::Receiver<Vec<u8>> {
    let (typed, keys) = mpsc::channel(PIECES_MAX);
    thread::spawn(move || {
        let mut piece = [0; PIECE_BYTES];
        while let Ok(count @ 1..) = io::stdin().read(&mut piece) {
            if typed.blocking_send(piece[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    keys
}

async fn resize(pty: &Pty, resized: &mut Signal) -> Infallible {
    loop {
        resized.recv().await;
        // One that is closed has no size.
        let _ = pty.resize(terminal::size());
    }
}

/// The number of the first signal that asks us to stop. They are listened to from the call on.
fn stopped() -> io::Result<impl Future<Output = u8>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        let kind = tokio::select! {
            _ = hangup.recv() => SignalKind::hangup(),
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = quit.recv() => SignalKind::quit(),
            _ = terminate.recv() => SignalKind::terminate(),
        };
        u8::try_from(kind.as_raw_value()).unwrap_or_default()
    })
}
