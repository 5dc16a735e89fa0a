//! Agents that stay connected to the bus: the hub brings them their tasks. One of them falls silent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_client::bus::{Worker, WorkerConfig, WorkerEvent, WorkerHandle};
use switchboard_wire::agentbus::envelope::{FrameWriter, Sender};
use switchboard_wire::agentbus::message::{
    Accomplished, CAPABILITY_ASSIGN, ErrorReport, Hello, HelloWorker, Message, TaskAccepted,
    TaskAssigned,
};
use switchboard_wire::agentbus::{PROTOCOL_VERSION, Role, Stage, UtcTime};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

use super::plan::{Fate, Random};
use super::world::{Told, World, stuck};
use crate::failure::Failure;
use crate::show::now;

/// Connects, and works until it is stopped.
pub async fn work(
    world: Arc<World>,
    addr: String,
    agent: String,
    skills: &'static [&'static str],
) -> Result<(), Failure> {
    let failed = |error| stuck(&agent, error);
    let mut random = Random::new(world.seed, &agent);
    let config = WorkerConfig::new(addr, &agent).taking_tasks(skills.iter().copied());
    let (worker, mut events) = Worker::connect(config).map_err(failed)?;
    while let Some(event) = events.recv().await {
        match event {
            WorkerEvent::Assigned(task) => {
                worker
                    .accept(task.issue_number, task.epoch)
                    .await
                    .map_err(failed)?;
                let number = task.issue_number;
                world.work(&mut random).await;
                world.work(&mut random).await;
                if world.fate(number) == Some(Fate::Fails) {
                    fail(&worker, &task).await.map_err(failed)?;
                    world.tell(Told::Failed).await;
                } else {
                    let result = Accomplished {
                        summary: format!("done by {agent}"),
                        ..Accomplished::default()
                    };
                    let told = worker.result(number, task.epoch, result, None).await;
                    told.map_err(failed)?;
                }
            }
            WorkerEvent::ResultTaken(told) if told.accepted => {
                world.tell(Told::Done(told.issue_number)).await;
            }
            WorkerEvent::Message(message) if message.ack_required => {
                worker.ack(message.message_id).await.map_err(failed)?;
                world.tell(Told::Acknowledged).await;
            }
            WorkerEvent::Ended(error) => return Err(failed(error)),
            _ => {}
        }
    }
    Ok(())
}

async fn fail(
    worker: &WorkerHandle,
    task: &TaskAssigned,
) -> Result<(), switchboard_client::bus::BusError> {
    let report = ErrorReport {
        error_id: format!("demo-{}-{}", task.issue_number, task.epoch),
        worker_id: worker.worker_id().to_owned(),
        issue_number: task.issue_number,
        stage: Stage::Code,
        attempt: task.attempt,
        error_type: "build_failed".to_owned(),
        is_transient: true,
        should_retry: true,
        escalate_to_human: false,
        message: "it did not compile".to_owned(),
        exit_code: Some(1),
        container_id: None,
        worktree_path: None,
        last_stdout_tail: None,
        last_stderr_tail: None,
        retry_after_seconds: None,
    };
    worker.error(report).await
}

/// Takes the first task that it gets, and then hangs with it, its connection open.
///
/// Spoken by hand: the client proper would not stop to say that it lives.
pub async fn hang(
    world: Arc<World>,
    addr: String,
    agent: String,
    skills: &'static [&'static str],
) -> Result<(), Failure> {
    let failed = |error| stuck(&agent, error);
    let stream = TcpStream::connect(&addr).await.map_err(failed)?;
    let (read, mut write) = stream.into_split();
    let mut writer = FrameWriter::new(Sender {
        role: Role::Worker,
        id: agent.clone().into(),
        run_id: None,
    });
    let own = [CAPABILITY_ASSIGN]
        .into_iter()
        .chain(skills.iter().copied());
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION.to_string(),
        capabilities: own.map(str::to_owned).collect(),
        worker: Some(HelloWorker {
            worker_id: agent.clone(),
            ..HelloWorker::default()
        }),
        repo: Some(Default::default()),
        auth: None,
    };
    say(&mut write, &mut writer, &hello).await?;
    let mut lines = BufReader::new(read).lines();
    let mut is_hanging = false;
    while let Some(line) = lines.next_line().await? {
        let frame: Value = serde_json::from_str(&line).unwrap_or_default();
        if is_hanging || frame["message_type"] != "task_assigned.v1" {
            continue;
        }
        let number = frame["payload"]["issue_number"]
            .as_u64()
            .unwrap_or_default();
        let accepted = TaskAccepted {
            issue_number: number,
            epoch: frame["payload"]["epoch"].as_u64().unwrap_or_default(),
            corr_id: None,
        };
        say(&mut write, &mut writer, &accepted).await?;
        let agent = agent.clone();
        world.tell(Told::Hangs { agent, number }).await;
        is_hanging = true;
    }
    // The hub gave it up; it stays away.
    loop {
        tokio::time::sleep(Duration::MAX).await;
    }
}

async fn say<M: Message>(
    write: &mut OwnedWriteHalf,
    writer: &mut FrameWriter,
    message: &M,
) -> Result<(), Failure> {
    let mut frame = Vec::new();
    writer.write(UtcTime(now().0), message, &mut frame);
    Ok(write.write_all(&frame).await?)
}
