//! A cable to the database that breaks at the worst moment: while a commit is under way.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// On which way the next commit is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It never reaches the database.
    There,
    /// It is done, and nobody hears of it.
    Back,
    /// The same, with the words of a pooler whose server went away.
    BackWithWords,
}

/// Passes everything on between coordinators and a database, until it is told to break.
pub struct Cable {
    addr: SocketAddr,
    next: Arc<Mutex<Option<Cut>>>,
}

/// How both sides end their transactions, as they stand on the wire.
const COMMIT: &[u8] = b"COMMIT\0";

impl Cable {
    /// To a server on this machine.
    pub fn to(port: u16) -> Cable {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let addr = listener.local_addr().expect("it is bound");
        let next = Arc::new(Mutex::new(None));
        let theirs = Arc::clone(&next);
        // Ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is away is the client's to notice.
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                    lay(client, server, &theirs);
                }
            }
        });
        Cable { addr, next }
    }

    /// The same address by way of this cable.
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgres://switchboard@{}/{database}?sslmode=disable",
            self.addr
        )
    }

    /// The next commit is cut off, whoever's it is.
    pub fn cut(&self, cut: Cut) {
        *lock(&self.next) = Some(cut);
    }

    /// Whether a commit was cut off since it was told to.
    pub fn has_cut(&self) -> bool {
        lock(&self.next).is_none()
    }
}

fn lay(client: TcpStream, server: TcpStream, next: &Arc<Mutex<Option<Cut>>>) {
    for end in [&client, &server] {
        let _ = end.set_nodelay(true);
    }
    let both = || (copy(&client), copy(&server));
    let (there, back) = (both(), both());
    let (next, swallow) = (Arc::clone(next), Arc::new(Mutex::new(None)));
    let theirs = Arc::clone(&swallow);
    thread::spawn(move || {
        let (mut client, mut server) = there;
        pass_on(&mut client, &mut server, |server, bytes, ends| {
            let cut = if ends { lock(&next).take() } else { None };
            if cut == Some(Cut::There) {
                return Then::HangUp;
            }
            // Set before the server can answer.
            *lock(&swallow) = cut;
            Then::after(server.write_all(bytes))
        });
    });
    thread::spawn(move || {
        let (mut client, mut server) = back;
        pass_on(&mut server, &mut client, |client, bytes, ends| {
            let cut = *lock(&theirs);
            if cut.is_none() || !ends {
                return Then::after(client.write_all(bytes));
            }
            // What the statements before it were answered arrives.
            let _ = client.write_all(&bytes[..start_of_commit(bytes)]);
            if cut == Some(Cut::BackWithWords) {
                let _ = client.write_all(&fatal("server conn crashed?"));
                return Then::FallSilent;
            }
            Then::HangUp
        });
    });
}

enum Then {
    GoOn,
    HangUp,
    /// The words are the end; who hears them hangs up.
    FallSilent,
}

impl Then {
    fn after(written: io::Result<()>) -> Then {
        written.map_or(Then::HangUp, |()| Then::GoOn)
    }
}

/// Reads here and tells `pass`, which sends it there, whether a transaction ends with it.
fn pass_on(
    from: &mut TcpStream,
    to: &mut TcpStream,
    pass: impl Fn(&mut TcpStream, &[u8], bool) -> Then,
) {
    let mut piece = [0; 64 * 1024];
    let mut seen: Vec<u8> = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut piece) {
        // The word may come in two pieces.
        seen.extend(&piece[..read]);
        let ends = seen.windows(COMMIT.len()).any(|word| word == COMMIT);
        seen.drain(..seen.len().saturating_sub(COMMIT.len() - 1));
        match pass(to, &piece[..read], ends) {
            Then::GoOn => {}
            Then::HangUp => break,
            Then::FallSilent => return,
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

/// Where the message begins that says that a commit is done: a letter and its length before the word.
fn start_of_commit(bytes: &[u8]) -> usize {
    let word = bytes
        .windows(COMMIT.len())
        .position(|word| word == COMMIT)
        .unwrap_or_default();
    word.saturating_sub(5)
}

/// The message with which a server, or a pooler in its place, ends a connection.
fn fatal(why: &str) -> Vec<u8> {
    let fields = format!("SFATAL\0VFATAL\0C08P01\0M{why}\0\0");
    let length = u32::try_from(fields.len() + 4).expect("it is short");
    let mut message = vec![b'E'];
    message.extend(length.to_be_bytes());
    message.extend(fields.bytes());
    message
}

fn copy(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a handle can be had")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
