//! Coming back: hello first, what is urgent again, waits that grow and differ, and when not to come back at all.

use std::time::Duration;

use switchboard_wire::agentbus::message::{
    Accomplished, Credential, ErrorReport, Inbound, ProtocolError, ProtocolIncompatibility,
    TaskResultAck,
};
use switchboard_wire::agentbus::{ErrorCode, Role, Stage};
use switchboard_wire::signature::MasterKey;
use tokio::time::Instant;

use super::director::{Director, Pipes, Tries, config, news, soon, task};
use crate::bus::{BackoffPolicy, BusError, Worker, WorkerConfig, WorkerEvent, state};

fn failure(error_id: &str) -> ErrorReport {
    ErrorReport {
        error_id: error_id.to_owned(),
        worker_id: "worker-3".to_owned(),
        issue_number: 7,
        stage: Stage::Code,
        attempt: 1,
        error_type: "build_failed".to_owned(),
        is_transient: false,
        should_retry: false,
        escalate_to_human: false,
        message: "no such crate".to_owned(),
        exit_code: Some(101),
        container_id: None,
        worktree_path: None,
        last_stdout_tail: None,
        last_stderr_tail: None,
        retry_after_seconds: None,
    }
}

#[tokio::test]
async fn the_hello_comes_first_on_every_connection_and_under_the_same_id() {
    // agentbus.reconnect.hello_again
    let director = Director::listen().await;
    let (worker, _events) = Worker::connect(config(&director.addr())).unwrap();
    // Said before there is a connection at all.
    worker.error(failure("e1")).await.unwrap();
    for _ in 0..4 {
        // `welcome` insists on a hello as the first frame.
        let (mut conn, hello) = director.welcome().await;
        assert_eq!(conn.peer(), "worker-3");
        assert_eq!(hello.worker.unwrap().worker_id, "worker-3");
        assert!(matches!(conn.next_report().await, Inbound::WorkerError(_)));
        conn.cut();
    }
}

#[tokio::test]
async fn every_connection_is_signed_anew_and_the_secret_stays_here() {
    let director = Director::listen().await;
    let key = MasterKey::new([7; 32]).agent_key("worker-3", 1);
    let config = WorkerConfig {
        credential: Some(Credential::Key(key.clone())),
        ..config(&director.addr())
    };
    let (_worker, _events) = Worker::connect(config).unwrap();
    let mut nonces = Vec::new();
    for _ in 0..3 {
        let (conn, hello) = director.welcome().await;
        let auth = hello.auth.unwrap();
        assert!(auth.is_of(&key, Role::Worker, "worker-3"), "{auth:?}");
        assert!(!nonces.contains(&auth.nonce));
        nonces.push(auth.nonce);
        conn.cut();
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_welcome() {
    let (dial, mut tries) = Pipes::lay();
    let (worker, _events) = Worker::connect_by(config("pipe"), dial).unwrap();
    worker.accept(7, 1).await.unwrap();
    let mut conn = soon(tries.recv()).await.unwrap().take();
    conn.hello().await;
    let early = tokio::time::timeout(Duration::from_secs(5), conn.next()).await;
    assert!(early.is_err(), "{early:?}");
}

#[tokio::test]
async fn what_is_urgent_is_sent_again_after_a_cut_and_telemetry_is_not() {
    let director = Director::listen().await;
    let (worker, mut events) = Worker::connect(config(&director.addr())).unwrap();
    let (mut conn, _) = director.welcome().await;
    conn.send(task(7, 2)).await;
    assert!(matches!(news(&mut events).await, WorkerEvent::Assigned(_)));
    worker.accept(7, 2).await.unwrap();
    worker.ack("m1").await.unwrap();
    let done = Accomplished {
        summary: "done".to_owned(),
        ..Accomplished::default()
    };
    worker.result(7, 2, done, None).await.unwrap();
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(conn.next_report().await);
    }
    conn.cut();
    let (mut conn, _) = director.welcome().await;
    for sent in &first {
        // In the same order, and with no heartbeat in between: its interval has not passed.
        assert_eq!(conn.next().await.as_ref(), Some(sent));
    }
    assert!(matches!(first[0], Inbound::TaskAccepted(_)));
    assert!(matches!(first[1], Inbound::AgentMessageAck(_)));
    assert!(matches!(first[2], Inbound::TaskResult(_)));
}

#[tokio::test]
async fn whoever_closes_or_drops_its_handle_leaves_nothing_urgent_behind() {
    let director = Director::listen().await;
    for polite in [true, false] {
        let (worker, _events) = Worker::connect(config(&director.addr())).unwrap();
        worker.error(failure("e1")).await.unwrap();
        let leaving = tokio::spawn(async move {
            if polite {
                worker.close().await;
            }
        });
        let (mut conn, _) = director.welcome().await;
        assert!(matches!(conn.next_report().await, Inbound::WorkerError(_)));
        assert!(matches!(
            conn.next_report().await,
            Inbound::WorkerLeaving(_)
        ));
        conn.cut();
        soon(leaving).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_says_so_once_after_its_result_was_answered() {
    let (dial, mut tries) = Pipes::lay();
    let (worker, mut events) = Worker::connect_by(config("pipe"), dial).unwrap();
    let mut conn = tries.recv().await.unwrap().welcome().await;
    conn.send(task(7, 1)).await;
    assert!(matches!(news(&mut events).await, WorkerEvent::Assigned(_)));
    worker.accept(7, 1).await.unwrap();
    let done = Accomplished::default();
    worker.result(7, 1, done, None).await.unwrap();
    // Given before, and read by nobody.
    conn.send(task(8, 1)).await;
    let leaving = tokio::spawn(async move { worker.close().await });
    let (mut answered, mut left) = (false, 0);
    while let Some(frame) = conn.next().await {
        match frame {
            Inbound::TaskResult(said) => {
                conn.send(task(9, 1)).await;
                answered = true;
                conn.send(TaskResultAck {
                    issue_number: said.issue_number,
                    epoch: said.epoch,
                    accepted: true,
                    reason: None,
                    corr_id: None,
                })
                .await;
            }
            Inbound::WorkerLeaving(_) => {
                assert!(answered, "the result comes first");
                left += 1;
            }
            Inbound::TaskAccepted(_) | Inbound::Heartbeat(_) => assert_eq!(left, 0),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(left, 1);
    soon(leaving).await.unwrap();
}

/// Lets every try fail and notes when they came.
async fn instants(tries: &mut Tries, count: usize) -> Vec<Instant> {
    let mut instants = Vec::new();
    for _ in 0..count {
        instants.push(tries.recv().await.expect("it never gives up").at);
    }
    instants
}

fn waits(instants: &[Instant]) -> Vec<Duration> {
    instants.windows(2).map(|two| two[1] - two[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn waits_grow_up_to_their_ceiling_and_the_tries_never_end() {
    // agentbus.reconnect.bounded_backoff
    let (dial, mut tries) = Pipes::lay();
    let config = WorkerConfig::new("pipe", "worker-3");
    let BackoffPolicy { first, max } = config.backoff;
    let (_worker, _events) = Worker::connect_by(config, dial).unwrap();
    let waits = waits(&instants(&mut tries, 300).await);
    let slack = Duration::from_millis(2);
    for (place, wait) in (0u32..).zip(&waits) {
        let bound = 2u32.checked_pow(place).map_or(max, |factor| first * factor);
        assert!(*wait <= bound.min(max) + slack, "wait {place}: {wait:?}");
    }
    let long = |waits: &[Duration]| waits.iter().filter(|wait| **wait > max / 2).count();
    assert!(long(&waits[5..]) > 50, "the later waits are long");
}

#[tokio::test(start_paused = true)]
async fn workers_cut_off_together_do_not_come_back_together() {
    // agentbus.reconnect.jitter
    let mut workers = Vec::new();
    for number in 0..20 {
        let (dial, tries) = Pipes::lay();
        let config = WorkerConfig::new("pipe", format!("worker-{number}"));
        workers.push((Worker::connect_by(config, dial).unwrap(), tries));
    }
    let mut conns = Vec::new();
    for (_, tries) in &mut workers {
        conns.push(tries.recv().await.unwrap().welcome().await);
    }
    drop(conns);
    let mut seconds = Vec::new();
    for (_, tries) in &mut workers {
        seconds.push(instants(tries, 5).await);
    }
    for round in 1..5 {
        let mut at: Vec<Instant> = seconds.iter().map(|instants| instants[round]).collect();
        at.sort_unstable();
        at.dedup();
        assert!(at.len() >= 15, "try {round}: {} of 20 apart", at.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_welcome_that_leads_nowhere_does_not_shorten_the_waits() {
    let (dial, mut tries) = Pipes::lay();
    let (_worker, _events) =
        Worker::connect_by(WorkerConfig::new("pipe", "worker-3"), dial).unwrap();
    let began = Instant::now();
    for _ in 0..40 {
        tries.recv().await.unwrap().welcome().await.cut();
    }
    // 40 first waits would be at most 40 seconds.
    assert!(began.elapsed() > Duration::from_secs(120));
    let conn = tries.recv().await.unwrap().welcome().await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    let cut_at = Instant::now();
    conn.cut();
    let back_at = tries.recv().await.unwrap().at;
    assert!(back_at - cut_at <= Duration::from_secs(1) + Duration::from_millis(2));
}

#[tokio::test]
async fn another_version_or_another_connection_of_the_same_id_ends_it() {
    let director = Director::listen().await;
    let (worker, mut events) = Worker::connect(config(&director.addr())).unwrap();
    let mut conn = director.accept().await;
    conn.hello().await;
    let told = ProtocolIncompatibility {
        reason: "the director speaks version 1.0".to_owned(),
        expected_protocol_version: "1.0".to_owned(),
        sender_protocol_version: "0.1".to_owned(),
        required_action: "sync_main_and_restart".to_owned(),
    };
    conn.send(told.clone()).await;
    match news(&mut events).await {
        WorkerEvent::Ended(BusError::Incompatible(heard)) => assert_eq!(heard, told),
        other => panic!("{other:?}"),
    }
    assert!(soon(events.recv()).await.is_none());
    let said = worker.heartbeat(state(Stage::Start, 0, 0)).await;
    assert!(matches!(said, Err(BusError::Over)));

    let (_worker, mut events) = Worker::connect(config(&director.addr())).unwrap();
    let (mut conn, _) = director.welcome().await;
    conn.send(ProtocolError {
        code: ErrorCode::Replaced,
        message: "a newer connection has the same sender.id".to_owned(),
        ref_seq: None,
    })
    .await;
    let ended = news(&mut events).await;
    assert!(matches!(ended, WorkerEvent::Ended(BusError::Replaced)));
}

#[tokio::test]
async fn one_that_is_turned_away_hears_why_and_tries_again() {
    let director = Director::listen().await;
    let (_worker, mut events) = Worker::connect(config(&director.addr())).unwrap();
    let mut conn = director.accept().await;
    conn.hello().await;
    conn.send(ProtocolError {
        code: ErrorCode::RoleForbidden,
        message: "no more workers".to_owned(),
        ref_seq: Some(1),
    })
    .await;
    conn.cut();
    match soon(events.recv()).await {
        Some(WorkerEvent::Disconnected {
            error: BusError::Refused(told),
            ..
        }) => assert_eq!(told.message, "no more workers"),
        other => panic!("{other:?}"),
    }
    director.welcome().await;
    let connected = soon(events.recv()).await;
    assert!(matches!(connected, Some(WorkerEvent::Connected(_))));
}
