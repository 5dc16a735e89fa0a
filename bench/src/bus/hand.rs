//! A worker that takes whatever task it is given, accepts it and finishes it at once.

use std::net::SocketAddr;

use anyhow::{anyhow, bail, ensure};
use memchr::memchr;
use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::envelope;
use switchboard_wire::agentbus::message::{
    Accomplished, Message, MessageType, Quality, TaskAccepted, TaskAssigned, TaskResult, read,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::frames::{FIRST_SEQ, Manner, print, worker_hello, worker_name};
use super::link::{Link, told};

/// A connected worker; needs an event loop around it.
pub struct Hand {
    stream: TcpStream,
    arrived: Vec<u8>,
    id: String,
    seq: u64,
}

impl Hand {
    /// Connects, and is welcome.
    pub fn enter(bus: SocketAddr, number: usize) -> anyhow::Result<Self> {
        let id = worker_name(number);
        let link = Link::enter(bus, &worker_hello(&id, Manner::Waits))?;
        let (stream, arrived) = link.into_parts();
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: TcpStream::from_std(stream)?,
            arrived,
            id,
            seq: FIRST_SEQ,
        })
    }

    /// The next task that it is given.
    pub async fn assigned(&mut self) -> anyhow::Result<TaskAssigned> {
        loop {
            while let Some(end) = memchr(b'\n', &self.arrived) {
                let line: Vec<u8> = self.arrived.drain(..=end).collect();
                if let Some(task) = read_task(line.trim_ascii_end())? {
                    return Ok(task);
                }
            }
            let count = self.stream.read_buf(&mut self.arrived).await?;
            ensure!(count > 0, "the hub closed the connection");
        }
    }

    /// Says that the task is taken, and that it is done.
    pub async fn finish(&mut self, task: &TaskAssigned) -> anyhow::Result<()> {
        let accepted = TaskAccepted {
            issue_number: task.issue_number,
            epoch: task.epoch,
            corr_id: None,
        };
        self.say(&accepted).await?;
        let result = TaskResult {
            issue_number: task.issue_number,
            epoch: task.epoch,
            result: Accomplished {
                summary: "One function changed.".to_owned(),
                files_modified: task.files.clone(),
                ..Accomplished::default()
            },
            quality: None::<Quality>,
            corr_id: None,
        };
        self.say(&result).await
    }

    async fn say(&mut self, message: &impl Message) -> anyhow::Result<()> {
        self.seq += 1;
        let frame = print(Role::Worker, &self.id, self.seq, message);
        Ok(self.stream.write_all(&frame).await?)
    }
}

/// The task in a frame, if it is about one that is given.
fn read_task(line: &[u8]) -> anyhow::Result<Option<TaskAssigned>> {
    let envelope = envelope::decode(line).map_err(|fault| anyhow!("{fault:?}: {}", told(line)))?;
    match envelope.message_type.parse() {
        Ok(MessageType::TaskAssigned) => {
            let task: TaskAssigned = read(envelope.payload)?;
            ensure!(task.parts == 1, "a small task came in {} parts", task.parts);
            Ok(Some(task))
        }
        Ok(MessageType::TaskRevoked | MessageType::ProtocolError) => {
            bail!("the hub refused: {}", told(line))
        }
        _ => Ok(None),
    }
}
