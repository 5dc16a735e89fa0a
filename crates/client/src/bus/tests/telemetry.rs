//! Heartbeats and what rides with them, in a time that stands still.

use std::time::Duration;

use switchboard_wire::agentbus::Stage;
use switchboard_wire::agentbus::message::{
    ErrorReport, Inbound, StepProgress, SyncPolicy, SyncRequired, TaskProgress, WelcomeDirector,
    WelcomeLimits, WorkerProbe,
};
use switchboard_wire::agentbus::{SyncAction, SyncReason};
use tokio::time::{Instant, sleep, timeout};

use super::director::{Conn, Pipes, soon};
use crate::bus::{Worker, WorkerConfig, state};

const EVERY: Duration = Duration::from_secs(15);

fn reporter() -> WorkerConfig {
    WorkerConfig {
        heartbeat_every: Some(EVERY),
        ..WorkerConfig::new("pipe", "worker-3")
    }
}

fn progress(issue_number: u64, percent: f64) -> TaskProgress {
    TaskProgress {
        issue_number,
        attempt: 1,
        stage: Stage::Code,
        progress: StepProgress {
            step: "writing".into(),
            percent,
        },
        note: None,
        corr_id: None,
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_their_interval_whatever_the_worker_does_and_however_often_it_is_cut_off() {
    // agentbus.limits.heartbeat_throttle
    let (dial, mut tries) = Pipes::lay();
    let (worker, _events) = Worker::connect_by(reporter(), dial).unwrap();
    let busy = tokio::spawn(async move {
        for number in 0.. {
            let stage = Stage::ALL[number as usize % 9];
            if worker.heartbeat(state(stage, number, 1)).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    });
    let mut beats: Vec<(Instant, u64)> = Vec::new();
    for _ in 0..6 {
        let mut conn = tries.recv().await.unwrap().welcome().await;
        for _ in 0..2 {
            let beat = conn.next_beat().await;
            beats.push((Instant::now(), beat.state.issue_number));
        }
        conn.cut();
    }
    for two in beats.windows(2) {
        assert!(two[1].0 - two[0].0 >= EVERY, "{two:?}");
        // The latest state and not the first that waited: 15 seconds are some 150 states.
        assert!(two[1].1 - two[0].1 > 100, "{two:?}");
    }
    busy.abort();
}

#[tokio::test(start_paused = true)]
async fn telemetry_is_joined_and_errors_go_at_once() {
    // agentbus.limits.batch_telemetry
    let (dial, mut tries) = Pipes::lay();
    let (worker, _events) = Worker::connect_by(reporter(), dial).unwrap();
    let mut conn = tries.recv().await.unwrap().welcome().await;
    conn.next_beat().await;
    let began = Instant::now();
    worker.heartbeat(state(Stage::Code, 7, 1)).await.unwrap();
    for percent in 0..50 {
        worker
            .progress(progress(7, f64::from(percent)))
            .await
            .unwrap();
        worker
            .progress(progress(8, f64::from(percent)))
            .await
            .unwrap();
    }
    worker.error(broken()).await.unwrap();
    // The error overtakes all of it.
    let first = conn.next().await;
    assert!(matches!(first, Some(Inbound::WorkerError(_))), "{first:?}");
    assert!(began.elapsed() < Duration::from_secs(1));
    let beat = conn.next_beat().await.state;
    assert!(began.elapsed() > Duration::from_secs(14));
    assert_eq!(beat.issue_number, 7);
    assert_eq!(beat.progress.unwrap().percent, 49.0);
    match conn.next().await {
        Some(Inbound::TaskProgress(told)) => {
            assert_eq!((told.issue_number, told.progress.percent), (8, 49.0));
        }
        other => panic!("{other:?}"),
    }
    // A hundred reports were three frames; nothing more comes before the next heartbeat.
    let more = timeout(EVERY / 2, conn.next()).await;
    assert!(more.is_err(), "{more:?}");
}

fn broken() -> ErrorReport {
    ErrorReport {
        error_id: "20260212-004102Z-worker-3-attempt-1".to_owned(),
        worker_id: "worker-3".to_owned(),
        issue_number: 9,
        stage: Stage::Validate,
        attempt: 1,
        error_type: "tests_failed".to_owned(),
        is_transient: false,
        should_retry: false,
        escalate_to_human: false,
        message: "3 of 40 tests fail".to_owned(),
        exit_code: None,
        container_id: None,
        worktree_path: None,
        last_stdout_tail: Some("x".repeat(60_000)),
        last_stderr_tail: Some("ü".repeat(60_000)),
        retry_after_seconds: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_answered_at_once_and_moves_the_next_heartbeat() {
    let (dial, mut tries) = Pipes::lay();
    let (_worker, _events) = Worker::connect_by(reporter(), dial).unwrap();
    let mut conn = tries.recv().await.unwrap().welcome().await;
    conn.next_beat().await;
    sleep(Duration::from_secs(5)).await;
    let asked = Instant::now();
    conn.send(WorkerProbe {
        reason: "no heartbeat for 75 seconds".to_owned(),
        answer_within_seconds: 15,
    })
    .await;
    conn.next_beat().await;
    assert!(asked.elapsed() < Duration::from_secs(1));
    conn.next_beat().await;
    assert!(asked.elapsed() >= EVERY);
}

#[tokio::test(start_paused = true)]
async fn the_director_says_how_often_at_the_most() {
    // agentbus.limits.heartbeat_throttle
    for (own, between) in [(None, 4), (Some(1), 4), (Some(6), 6)] {
        let (dial, mut tries) = Pipes::lay();
        let config = WorkerConfig {
            heartbeat_every: own.map(Duration::from_secs),
            ..WorkerConfig::new("pipe", "worker-3")
        };
        let (_worker, _events) = Worker::connect_by(config, dial).unwrap();
        let mut conn: Conn = tries.recv().await.unwrap().take();
        conn.hello().await;
        conn.welcome_with(
            WelcomeDirector {
                run_id: "run_1".to_owned(),
                ..WelcomeDirector::default()
            },
            Some(WelcomeLimits {
                max_message_bytes: 65_536,
                heartbeat_interval_seconds: 4,
                heartbeat_ttl_seconds: 30,
            }),
        )
        .await;
        conn.next_beat().await;
        let first = Instant::now();
        conn.next_beat().await;
        assert_eq!(first.elapsed().as_secs(), between, "{own:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_reads_no_events_goes_on_beating() {
    let (dial, mut tries) = Pipes::lay();
    let (_worker, mut events) = Worker::connect_by(reporter(), dial).unwrap();
    let mut conn = tries.recv().await.unwrap().welcome().await;
    let count = 400;
    for _ in 0..count {
        conn.send(SyncRequired {
            reason: SyncReason::BehindMain,
            main_sha_expected: "abc".to_owned(),
            catalog_hash_expected: None,
            policy: SyncPolicy::default(),
            required_action: SyncAction::MergeMain,
        })
        .await;
    }
    for _ in 0..5 {
        conn.next_beat().await;
    }
    // Nothing was lost meanwhile.
    for _ in 0..=count {
        assert!(soon(events.recv()).await.is_some());
    }
}
