//! A line between two nodes that cuts, delays and repeats.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use switchboard_tests::Random;

/// Passes on what both ends say, badly, until it is mended.
pub struct Line {
    addr: SocketAddr,
    state: Arc<State>,
}

struct State {
    to: SocketAddr,
    is_bad: AtomicBool,
    random: Mutex<Random>,
    cuts: AtomicUsize,
    repeats: AtomicUsize,
}

/// What happens to a piece.
#[derive(Clone, Copy)]
enum Fate {
    Passed,
    Late,
    /// Half of it arrives.
    Cut,
}

/// How many of a hundred pieces do not arrive whole, and how many are late.
const CUT_PERCENT: u64 = 6;
const LATE_PERCENT: u64 = 20;
const LATE_MS_MAX: u64 = 30;

impl Line {
    pub fn to(to: SocketAddr, random: Random) -> Line {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let addr = listener.local_addr().expect("it is bound");
        let state = Arc::new(State {
            to,
            is_bad: AtomicBool::new(false),
            random: Mutex::new(random),
            cuts: AtomicUsize::new(0),
            repeats: AtomicUsize::new(0),
        });
        let theirs = Arc::clone(&state);
        // Ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A hub that is away is the client's to notice.
                if let Ok(server) = TcpStream::connect(theirs.to) {
                    lay(client, server, &theirs);
                }
            }
        });
        Line { addr, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn set_bad(&self, is_bad: bool) {
        self.state.is_bad.store(is_bad, Ordering::Relaxed);
    }

    /// How often it cut something off, and how often it said something twice.
    pub fn told(&self) -> (usize, usize) {
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (read(&self.state.cuts), read(&self.state.repeats))
    }
}

impl State {
    fn chance(&self, percent: u64) -> bool {
        self.is_bad.load(Ordering::Relaxed) && self.random().percent(percent)
    }

    fn fate(&self) -> Fate {
        if self.chance(CUT_PERCENT) {
            Fate::Cut
        } else if self.chance(LATE_PERCENT) {
            Fate::Late
        } else {
            Fate::Passed
        }
    }

    fn random(&self) -> std::sync::MutexGuard<'_, Random> {
        self.random.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lay(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    for end in [&client, &server] {
        let _ = end.set_nodelay(true);
    }
    let there = (copy(&client), copy(&server));
    let theirs = Arc::clone(state);
    thread::spawn(move || {
        let (client, server) = there;
        let said = pass_on(client, server, &theirs);
        // Whoever was cut off takes it for lost, and it arrives all the same.
        let is_bad = theirs.is_bad.load(Ordering::Relaxed);
        if is_bad && say_again(&said, theirs.to).is_some() {
            theirs.repeats.fetch_add(1, Ordering::Relaxed);
        }
    });
    let theirs = Arc::clone(state);
    thread::spawn(move || pass_on(server, client, &theirs));
}

/// Passes pieces on to the end of the connection; what was said on it.
fn pass_on(mut from: TcpStream, mut to: TcpStream, state: &State) -> Vec<u8> {
    let mut piece = [0; 16 * 1024];
    let mut said = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut piece) {
        let piece = &piece[..read];
        said.extend(piece);
        let passed = match state.fate() {
            Fate::Passed => to.write_all(piece),
            Fate::Late => {
                let wait = state.random().below(LATE_MS_MAX);
                thread::sleep(Duration::from_millis(wait));
                to.write_all(piece)
            }
            Fate::Cut => {
                state.cuts.fetch_add(1, Ordering::Relaxed);
                let _ = to.write_all(&piece[..read / 2]);
                break;
            }
        };
        if passed.is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
    said
}

/// Says all of it on a connection of its own, and hears the answer out.
fn say_again(said: &[u8], to: SocketAddr) -> Option<()> {
    let mut server = TcpStream::connect(to).ok()?;
    server.write_all(said).ok()?;
    server.shutdown(Shutdown::Write).ok()?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).ok()?;
    (!answer.is_empty()).then_some(())
}

fn copy(end: &TcpStream) -> TcpStream {
    end.try_clone().expect("a socket can be shared")
}
