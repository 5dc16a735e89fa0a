//! One agent's signs of life, its progress, and what the hub tells it in return.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::jetpack::{
    CommandType, HeartbeatRequest, HeartbeatStatus, HeartbeatTask, Progress, ProgressRequest,
    TaskPhase,
};
use switchboard_wire::redact;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::desk::{Current, Desk, Halt};
use super::slot::register;
use super::{Shop, Step, What};

/// jetpack HEARTBEAT: every 30 seconds when idle, every 10 seconds when busy.
const IDLE_EVERY: Duration = Duration::from_secs(30);
const BUSY_EVERY: Duration = Duration::from_secs(10);
/// A change is told at once, but not more often than this: an agent has twelve heartbeats a minute.
const APART: Duration = Duration::from_secs(6);
/// Progress is told as often.
const PROGRESS_APART: Duration = Duration::from_secs(10);
const NOTE_CHARS_MAX: usize = 500;

/// Beats until it is dropped.
pub(super) async fn beat(shop: Arc<Shop>, desk: Arc<Desk>) {
    let mut current = desk.current();
    let mut last: Option<Instant> = None;
    loop {
        let at = current.borrow_and_update().clone();
        if let Some(last) = last {
            sleep_until(last + APART).await;
        }
        last = Some(Instant::now());
        beat_once(&shop, &desk, at.as_ref()).await;
        let every = every(at.as_ref());
        // Which task it is counts; what is heard of it can wait.
        let task = at.map(|at| at.task);
        let until = Instant::now() + every;
        let turned = current.wait_for(|now| now.as_ref().map(|now| &now.task) != task.as_ref());
        let _ = timeout_at(until, turned).await;
    }
}

fn every(at: Option<&Current>) -> Duration {
    if at.is_some() { BUSY_EVERY } else { IDLE_EVERY }
}

async fn beat_once(shop: &Shop, desk: &Desk, at: Option<&Current>) {
    let request = HeartbeatRequest {
        agent_id: None,
        status: match at {
            Some(_) => HeartbeatStatus::Busy,
            None => HeartbeatStatus::Idle,
        },
        current_task: at.map(|at| HeartbeatTask {
            id: at.task.clone(),
            progress: Some(f64::from(at.percent)),
            phase: Some(at.phase),
        }),
        metrics: None,
    };
    let answer = match shop.client.agents().heartbeat(&desk.agent, &request).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(agent = desk.agent, "heartbeat: {error}");
            if Step::after(&error) == Step::RegisterAnew {
                // Whoever did not get it registered tries with the next beat.
                let _ = register(shop, &desk.agent, false).await;
            }
            return;
        }
    };
    for command in answer.commands {
        let reason = command.reason.unwrap_or_default();
        match command.kind {
            CommandType::Shutdown => {
                shop.say(
                    What::Step,
                    &desk.agent,
                    None,
                    format!("was asked to end: {reason}"),
                )
                .await;
                desk.leave.send_replace(true);
            }
            CommandType::ReleaseTask => {
                if let Some(task) = command.task_id {
                    desk.halt(
                        &task,
                        Halt::GiveBack(format!("the hub asked for it: {reason}")),
                    );
                }
            }
            CommandType::Ping => {}
        }
    }
}

/// Tells how far the task is, until it is dropped; says so at the desk when the hub wants none of it.
pub(super) async fn tell(shop: Arc<Shop>, desk: Arc<Desk>) {
    let mut current = desk.current();
    loop {
        let Some(at) = current.borrow_and_update().clone() else {
            return;
        };
        let request = ProgressRequest {
            agent_id: desk.agent.clone(),
            task_id: None,
            progress: Progress {
                phase: at.phase,
                percent_complete: f64::from(at.percent),
                description: redact::text(&at.text)
                    .chars()
                    .take(NOTE_CHARS_MAX)
                    .collect(),
                files_modified: Vec::new(),
            },
            epoch: Some(at.epoch),
        };
        match shop.client.tasks().progress(&at.task, &request).await {
            Ok(answer) if !answer.go_on => {
                let why = answer
                    .reason
                    .unwrap_or_else(|| "the hub said so".to_owned());
                desk.halt(&at.task, Halt::Lost(why));
            }
            Ok(_) => {}
            Err(error) => match Step::after(&error) {
                Step::ClaimAnother => desk.halt(&at.task, Halt::Lost(error.to_string())),
                Step::RegisterAnew | Step::WaitAndRetry => {}
                Step::LogAndContinue => tracing::warn!(agent = desk.agent, "progress: {error}"),
            },
        }
        let next = Instant::now() + PROGRESS_APART;
        if current.changed().await.is_err() {
            return;
        }
        let phase = at.phase;
        if moved_on(&mut current, phase, next).await.is_err() {
            return;
        }
    }
}

/// Another phase is told at once, anything else when it is time.
async fn moved_on(
    current: &mut watch::Receiver<Option<Current>>,
    phase: TaskPhase,
    next: Instant,
) -> Result<(), watch::error::RecvError> {
    let moved = current.wait_for(|now| now.as_ref().is_none_or(|now| now.phase != phase));
    match timeout_at(next, moved).await {
        Ok(Ok(_)) | Err(_) => Ok(()),
        Ok(Err(error)) => Err(error),
    }
}

/// Looks whether the task is still ours whenever something happened to it, until it is dropped.
pub(super) async fn watch_over(shop: Arc<Shop>, desk: Arc<Desk>, task: String, epoch: u64) {
    use tokio::sync::broadcast::error::RecvError;
    let mut news = shop.news.subscribe();
    loop {
        match news.recv().await {
            Ok(about) if about != task => continue,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
        match shop.client.tasks().get(&task).await {
            Ok(details) => {
                let now = details.task;
                let is_ours =
                    now.assigned_agent.as_deref() == Some(&desk.agent) && now.epoch == epoch;
                if !is_ours {
                    let why = format!("it is {} now", now.status);
                    desk.halt(&task, Halt::Lost(why));
                }
            }
            Err(error) if Step::after(&error) == Step::ClaimAnother => {
                desk.halt(&task, Halt::Lost(error.to_string()));
            }
            // The heartbeat or the next report finds out.
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_comes_every_thirty_seconds_idle_and_every_ten_busy() {
        // jetpack.heartbeat.interval_idle, jetpack.heartbeat.interval_busy
        let at = Current {
            task: "t".to_owned(),
            number: 1,
            epoch: 1,
            phase: TaskPhase::Testing,
            percent: 0,
            text: String::new(),
        };
        assert_eq!(every(None), Duration::from_secs(30));
        assert_eq!(every(Some(&at)), Duration::from_secs(10));
        // Twelve a minute are what an agent has.
        assert!(Duration::from_secs(60).as_secs() / APART.as_secs() <= 12);
    }
}
