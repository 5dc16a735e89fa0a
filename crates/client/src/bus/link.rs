//! One connection: the hello first, then frames both ways.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_wire::IsoTime;
use switchboard_wire::agentbus::codec::{Line, Lines};
use switchboard_wire::agentbus::envelope::{self, FrameWriter, Sender};
use switchboard_wire::agentbus::message::{Credential, Hello, Inbound, Message, Outbound, Welcome};
use switchboard_wire::agentbus::{ErrorCode, UtcTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use ulid::Ulid;

use super::clock;
use super::dial::{Dial, Socket};
use super::error::{BusError, CLOSED};

/// The hello has to be answered within this time.
pub(super) const WELCOME_WITHIN: Duration = Duration::from_secs(10);
/// A director that takes nothing for so long is given up.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
/// How long a connection that is closed waits for the other side to close it, too.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// The longest line that is read; a director cuts its messages into parts far shorter.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
const CHUNK_BYTES: usize = 16 * 1024;

/// A frame of the director, or one of a worker that the director passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub from: Sender<'static>,
    /// By the sender's clock.
    pub sent_at: UtcTime,
    pub message: Outbound<'static>,
}

/// Which way a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Sent,
    Received,
}

/// Whether lines are kept as they are, beside what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Lines,
    Nothing,
}

/// What every connection of one sender begins with.
pub(super) struct Greeting {
    pub sender: Sender<'static>,
    pub hello: Hello,
    /// What to sign it with, for a director that asks who it is.
    pub credential: Option<Credential>,
}

impl Greeting {
    /// The hello for one connection: a signature counts once.
    fn hello(&self) -> Hello {
        let Sender { role, id, .. } = &self.sender;
        let auth = self.credential.as_ref().map(|credential| {
            let nonce = Ulid::generate().to_string();
            credential.sign(*role, id, IsoTime(clock::now().0), nonce)
        });
        Hello {
            auth,
            ..self.hello.clone()
        }
    }
}

/// An open connection.
pub(super) struct Link {
    addr: String,
    socket: Box<dyn Socket>,
    lines: Lines,
    chunk: Box<[u8]>,
    frames: VecDeque<Frame>,
    writer: FrameWriter,
    out: Vec<u8>,
    keep: Keep,
    kept: Vec<(Way, String)>,
}

impl Link {
    /// Connects, says hello, and waits for the welcome.
    pub async fn open(
        dial: &dyn Dial,
        greeting: &Greeting,
        keep: Keep,
    ) -> Result<(Link, Welcome), BusError> {
        let mut link = Link {
            addr: dial.addr().to_owned(),
            socket: dial.dial().await?,
            lines: Lines::new(LINE_BYTES_MAX),
            chunk: vec![0; CHUNK_BYTES].into(),
            frames: VecDeque::new(),
            writer: FrameWriter::new(greeting.sender.clone()),
            out: Vec::new(),
            keep,
            kept: Vec::new(),
        };
        link.write(&greeting.hello());
        link.flush().await?;
        let until = Instant::now() + WELCOME_WITHIN;
        let unanswered = || BusError::NoWelcome {
            addr: dial.addr().to_owned(),
        };
        loop {
            let frame = match timeout_at(until, link.next()).await {
                Ok(Ok(frame)) => frame,
                Ok(Err(BusError::Lost { .. })) | Err(_) => return Err(unanswered()),
                Ok(Err(error)) => return Err(error),
            };
            match frame.message {
                Outbound::Welcome(welcome) => return Ok((link, welcome)),
                Outbound::Incompatible(told) => return Err(BusError::Incompatible(told)),
                Outbound::Error(told) => return Err(refused(told)),
                // Nothing else has a place before the welcome.
                _ => {}
            }
        }
    }

    /// Puts a frame behind those that wait to be written, and tells its number.
    pub fn push(&mut self, message: &Inbound<'_>) -> u64 {
        self.write(message);
        self.writer.seq()
    }

    fn write<M: Message>(&mut self, message: &M) {
        let start = self.out.len();
        self.writer.write(clock::now(), message, &mut self.out);
        if self.keep == Keep::Lines {
            let line = String::from_utf8_lossy(&self.out[start..]);
            self.kept.push((Way::Sent, line.trim_end().to_owned()));
        }
    }

    /// Writes what waits. Not to be given up half-way: a frame would be torn.
    pub async fn flush(&mut self) -> Result<(), BusError> {
        if self.out.is_empty() {
            return Ok(());
        }
        let writing = async {
            self.socket.write_all(&self.out).await?;
            self.socket.flush().await
        };
        let written = timeout(WRITE_WITHIN, writing).await;
        self.out.clear();
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(BusError::of_talking(&self.addr, &error)),
            Err(_) => Err(BusError::Lost {
                reason: "the director accepts no more data".to_owned(),
            }),
        }
    }

    /// The next frame; may be given up at any time.
    pub async fn next(&mut self) -> Result<Frame, BusError> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(frame);
            }
            match self.socket.read(&mut self.chunk).await {
                Ok(0) => {
                    return Err(BusError::Lost {
                        reason: CLOSED.to_owned(),
                    });
                }
                Ok(count) => self.take(count),
                Err(error) => return Err(BusError::of_talking(&self.addr, &error)),
            }
        }
    }

    /// The lines that went by since the last call, if they are kept.
    pub fn kept(&mut self) -> Vec<(Way, String)> {
        std::mem::take(&mut self.kept)
    }

    /// Ends the connection after everything written was taken, so that nothing of it is lost.
    pub async fn close(mut self) {
        let ending = async {
            self.socket.shutdown().await?;
            while self.socket.read(&mut self.chunk).await? > 0 {}
            std::io::Result::Ok(())
        };
        // Whether the other side closes in time or not, it is over.
        let _ = timeout(CLOSE_WITHIN, ending).await;
    }

    fn take(&mut self, count: usize) {
        let mut feed = self.lines.feed(&self.chunk[..count]);
        while let Some(line) = feed.next() {
            let line = match line {
                Line::Whole(line) => line,
                Line::Oversize { bytes_seen } => {
                    tracing::debug!("a line of more than {bytes_seen} bytes was dropped");
                    continue;
                }
            };
            if self.keep == Keep::Lines {
                let text = String::from_utf8_lossy(line).into_owned();
                self.kept.push((Way::Received, text));
            }
            match read(line) {
                Ok(Some(frame)) => self.frames.push_back(frame),
                Ok(None) => tracing::debug!("a frame of an unknown kind is ignored"),
                Err(reason) => tracing::debug!("a frame cannot be read: {reason}"),
            }
        }
    }
}

/// A line that is no frame is none of ours; a newer director may say what we do not know.
fn read(line: &[u8]) -> Result<Option<Frame>, String> {
    let envelope = envelope::decode(line).map_err(|fault| fault.to_string())?;
    let Some(decoded) = Outbound::decode(&envelope) else {
        return Ok(None);
    };
    let message = decoded.map_err(|fault| fault.to_string())?.into_owned();
    Ok(Some(Frame {
        from: envelope.sender.into_owned(),
        sent_at: envelope.sent_at,
        message,
    }))
}

/// What a refusal means to the one who is refused.
pub(super) fn refused(told: switchboard_wire::agentbus::message::ProtocolError) -> BusError {
    match told.code {
        ErrorCode::Replaced => BusError::Replaced,
        ErrorCode::BadJson
        | ErrorCode::BadEnvelope
        | ErrorCode::BadSeq
        | ErrorCode::TooLarge
        | ErrorCode::HelloRequired
        | ErrorCode::RoleForbidden
        | ErrorCode::RateLimited => BusError::Refused(told),
    }
}
