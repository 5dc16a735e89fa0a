//! A director that a test plays itself: the session of `wire` judges every frame, the test decides the answers.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::agentbus::codec::{Line, Lines};
use switchboard_wire::agentbus::envelope::{FrameWriter, Sender};
use switchboard_wire::agentbus::message::{
    Heartbeat, Hello, Inbound, Outbound, TaskAssigned, Welcome, WelcomeDirector, WelcomeLimits,
};
use switchboard_wire::agentbus::session::{Limits, Session};
use switchboard_wire::agentbus::{Role, UtcTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::bus::dial::{Dial, Dialing, Socket};
use crate::bus::{BackoffPolicy, BusError, WorkerConfig, WorkerEvent, WorkerEvents};

/// Nothing that should happen takes longer, on any machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
const PIPE_BYTES: usize = 64 * 1024;

/// Waits for something that has to happen.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what)
        .await
        .expect("it should have happened")
}

/// A director on a socket.
pub struct Director {
    listener: TcpListener,
}

impl Director {
    pub async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener }
    }

    pub fn addr(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    /// The next connection, before its hello.
    pub async fn accept(&self) -> Conn {
        Conn::new(Box::new(self.accept_raw().await))
    }

    pub async fn accept_raw(&self) -> tokio::net::TcpStream {
        soon(self.listener.accept()).await.unwrap().0
    }

    /// The next connection, welcomed.
    pub async fn welcome(&self) -> (Conn, Hello) {
        let mut conn = self.accept().await;
        let hello = conn.greet().await;
        (conn, hello)
    }
}

/// Connects by pipes, and only when the test lets it.
pub struct Pipes {
    tries: mpsc::UnboundedSender<Try>,
}

/// One try to connect; dropped, nobody answers.
pub struct Try {
    pub at: Instant,
    answer: tokio::sync::oneshot::Sender<Box<dyn Socket>>,
}

pub type Tries = mpsc::UnboundedReceiver<Try>;

impl Pipes {
    pub fn lay() -> (Box<dyn Dial>, Tries) {
        let (tries, receiver) = mpsc::unbounded_channel();
        (Box::new(Self { tries }), receiver)
    }
}

impl Dial for Pipes {
    fn addr(&self) -> &str {
        "pipe"
    }

    fn dial(&self) -> Dialing<'_> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let at = Instant::now();
        let sent = self.tries.send(Try { at, answer });
        Box::pin(async move {
            let failed = || BusError::of_dialing("pipe", std::io::ErrorKind::NotConnected.into());
            sent.map_err(|_| failed())?;
            answered.await.map_err(|_| failed())
        })
    }
}

impl Try {
    pub fn take(self) -> Conn {
        let (ours, theirs) = duplex(PIPE_BYTES);
        assert!(self.answer.send(Box::new(theirs)).is_ok());
        Conn::new(Box::new(ours))
    }

    pub async fn welcome(self) -> Conn {
        let mut conn = self.take();
        conn.greet().await;
        conn
    }
}

/// The director's side of one connection.
pub struct Conn {
    socket: Box<dyn Socket>,
    session: Session,
    lines: Lines,
    waiting: Vec<String>,
    writer: FrameWriter,
}

impl Conn {
    pub fn new(socket: Box<dyn Socket>) -> Self {
        let sender = Sender {
            role: Role::Director,
            id: "director".into(),
            run_id: Some("run_1".into()),
        };
        Self {
            socket,
            session: Session::new(Arc::new(Limits::default()), 0),
            lines: Lines::new(1024 * 1024),
            waiting: Vec::new(),
            writer: FrameWriter::new(sender),
        }
    }

    /// The hello, which has to be the first frame; answered by a welcome.
    pub async fn greet(&mut self) -> Hello {
        let hello = self.hello().await;
        let director = WelcomeDirector {
            run_id: "run_1".to_owned(),
            ..WelcomeDirector::default()
        };
        self.welcome_with(director, None).await;
        hello
    }

    pub async fn welcome_with(&mut self, director: WelcomeDirector, limits: Option<WelcomeLimits>) {
        self.session.welcomed(0);
        self.send(Welcome {
            protocol_version: "0.1".to_owned(),
            director,
            limits,
        })
        .await;
    }

    pub async fn hello(&mut self) -> Hello {
        match self.next().await {
            Some(Inbound::Hello(hello)) => hello,
            other => panic!("the first frame was {other:?}"),
        }
    }

    pub fn peer(&self) -> &str {
        &self.session.peer().expect("it said hello").id
    }

    /// The next frame; none when the client hung up.
    pub async fn next(&mut self) -> Option<Inbound<'static>> {
        let line = soon(self.line()).await?;
        let step = self.session.line(line.as_bytes(), 0);
        assert!(step.flags.is_empty(), "{line}: {:?}", step.flags);
        Some(step.accept.expect("sound").message.into_owned())
    }

    /// The next frame that is not a heartbeat.
    pub async fn next_report(&mut self) -> Inbound<'static> {
        loop {
            match self.next().await.expect("a frame") {
                Inbound::Heartbeat(_) => {}
                other => return other,
            }
        }
    }

    /// The next heartbeat; nothing else may come before it.
    pub async fn next_beat(&mut self) -> Heartbeat<'static> {
        match self.next().await {
            Some(Inbound::Heartbeat(beat)) => beat,
            other => panic!("{other:?}"),
        }
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if !self.waiting.is_empty() {
                return Some(self.waiting.remove(0));
            }
            let mut chunk = vec![0; 4096];
            let count = self.socket.read(&mut chunk).await.unwrap_or(0);
            if count == 0 {
                return None;
            }
            let mut feed = self.lines.feed(&chunk[..count]);
            while let Some(line) = feed.next() {
                let Line::Whole(line) = line else {
                    panic!("{line:?}")
                };
                self.waiting.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
    }

    pub async fn send(&mut self, message: impl Into<Outbound<'static>>) {
        let mut out = Vec::new();
        self.writer.write(UtcTime(0), &message.into(), &mut out);
        self.send_bytes(&out).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        soon(self.socket.write_all(bytes)).await.unwrap();
        soon(self.socket.flush()).await.unwrap();
    }

    /// Passes a worker's frame on, as a director does for operators.
    pub async fn relay(&mut self, worker: &str, message: &Inbound<'static>) {
        let mut of_worker = FrameWriter::new(Sender {
            role: Role::Worker,
            id: worker.to_owned().into(),
            run_id: None,
        });
        let mut line = Vec::new();
        of_worker.write(UtcTime(0), message, &mut line);
        line.pop();
        let envelope = switchboard_wire::agentbus::envelope::decode(&line).unwrap();
        let mut out = Vec::new();
        self.writer.pass_on(&envelope, &mut out);
        self.send_bytes(&out).await;
    }

    /// Hangs up, without a word.
    pub fn cut(self) {}
}

/// A worker that takes tasks, comes back quickly and beats seldom.
pub fn config(addr: &str) -> WorkerConfig {
    WorkerConfig {
        backoff: BackoffPolicy {
            first: Duration::from_millis(5),
            max: Duration::from_millis(20),
        },
        heartbeat_every: Some(Duration::from_secs(3600)),
        ..WorkerConfig::new(addr, "worker-3").taking_tasks(["rust"])
    }
}

pub fn task(issue_number: u64, epoch: u64) -> TaskAssigned {
    TaskAssigned {
        issue_number,
        redacted: 0,
        task_id: format!("tsk_{issue_number}"),
        epoch,
        attempt: 1,
        title: "Fix the parser".to_owned(),
        description: String::new(),
        files: Vec::new(),
        branch: None,
        deadline: None,
        corr_id: None,
        resumed: false,
        part: 0,
        parts: 1,
    }
}

/// The next event that is not about the connection.
pub async fn news(events: &mut WorkerEvents) -> WorkerEvent {
    loop {
        match soon(events.recv()).await.expect("an event") {
            WorkerEvent::Connected(_) | WorkerEvent::Disconnected { .. } => {}
            other => return other,
        }
    }
}
