//! Workers by the client's library, which comes back by itself.

use std::time::Duration;

use futures_util::future::join_all;
use switchboard_client::bus::{BackoffPolicy, Worker, WorkerConfig, WorkerEvent, WorkerHandle};
use switchboard_tests::PATIENCE;
use switchboard_wire::Json;
use switchboard_wire::agentbus::message::{Accomplished, MailState};
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::{END, Pool, Record, Witness};

/// Quick to come back, because hubs live short here.
const IMPATIENT: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(5),
    max: Duration::from_millis(40),
};
/// Whoever hears nothing for so long has found a hang.
const SILENCE_MAX: Duration = PATIENCE.saturating_mul(2);

pub fn work(pool: &Pool, agents: &[String]) -> Vec<Record> {
    let _witness = Witness(pool);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(join_all(agents.iter().map(|agent| one(pool, agent))))
}

async fn one(pool: &Pool, agent: &str) -> Record {
    let mut record = Record::of(agent);
    let skills: [&str; 0] = [];
    let config = WorkerConfig {
        backoff: IMPATIENT,
        ..WorkerConfig::new(pool.bus.to_string(), agent).taking_tasks(skills)
    };
    let (worker, mut events) = Worker::connect(config).expect("it can be tried");
    loop {
        assert!(!pool.has_failed(), "another one failed");
        let event = timeout(SILENCE_MAX, events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("{agent} hears nothing: {record:?}"));
        match event.expect("a worker that is held goes on") {
            WorkerEvent::Assigned(task) => {
                let claim = (task.task_id.clone(), task.epoch);
                assert!(record.handed.insert(claim), "{agent} got {task:?} twice");
                finish(&worker, task.issue_number, task.epoch).await;
                if task.issue_number % 3 == 0 {
                    write(pool, &worker, &mut record, task.issue_number).await;
                }
            }
            WorkerEvent::Message(message) => {
                let id = message.message_id;
                worker.ack(&id).await.expect("it can be said");
                let is_over = id.starts_with(END);
                assert!(record.received.insert(id), "{agent} got a message twice");
                if is_over {
                    break;
                }
            }
            WorkerEvent::MessageState(kept) => {
                assert_ne!(kept.state, Some(MailState::Failed), "{kept:?}");
                pool.world.acknowledged();
            }
            WorkerEvent::Disconnected { .. } => record.cuts += 1,
            event @ (WorkerEvent::Revoked(_) | WorkerEvent::Refused(_) | WorkerEvent::Ended(_)) => {
                panic!("{agent} did nothing wrong: {event:?}")
            }
            _ => {}
        }
    }
    worker.close().await;
    record
}

async fn finish(worker: &WorkerHandle, number: u64, epoch: u64) {
    let accepted = worker.accept(number, epoch).await;
    accepted.expect("it can be said");
    let result = Accomplished {
        summary: "done by the library".to_owned(),
        ..Accomplished::default()
    };
    let told = worker.result(number, epoch, result, None).await;
    told.expect("it can be said");
}

async fn write(pool: &Pool, worker: &WorkerHandle, record: &mut Record, number: u64) {
    let at = number as usize % pool.agents.len();
    let to = pool.agents[at].clone();
    let body = Json::stored("{}");
    let sent = worker
        .send_message(Some(to.clone().into()), "info.discovery", body, true)
        .await;
    record.sent.insert(sent.expect("it can be said"), to);
}
