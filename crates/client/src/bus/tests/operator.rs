//! An operator sees what the director shows, and its commands are answered.

use std::time::Duration;

use switchboard_wire::agentbus::message::{
    Heartbeat, Inbound, OperatorAck, OperatorCommand, Outbound, ProjectStateSnapshot,
    ProtocolError, Queue, WorkerEntry,
};
use switchboard_wire::agentbus::parts::InParts;
use switchboard_wire::agentbus::{ErrorCode, OperatorOrder, Role, Stage};

use super::director::{Director, soon};
use crate::bus::{
    BackoffPolicy, BusError, Frame, Operator, OperatorConfig, OperatorEvent, OperatorEvents, state,
};

fn config(director: &Director) -> OperatorConfig {
    OperatorConfig {
        backoff: BackoffPolicy {
            first: Duration::from_millis(5),
            max: Duration::from_millis(20),
        },
        ..OperatorConfig::new(director.addr(), "ann")
    }
}

async fn frame(events: &mut OperatorEvents) -> Frame {
    loop {
        match soon(events.recv()).await {
            Some(OperatorEvent::Frame(frame)) => return frame,
            Some(OperatorEvent::Connected(_) | OperatorEvent::Disconnected { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn pause() -> OperatorCommand {
    OperatorCommand::plain(OperatorOrder::Pause, "maintenance")
}

#[tokio::test]
async fn an_operator_says_hello_and_sees_whole_snapshots_and_what_workers_say() {
    // agentbus.hello.operator_too
    let director = Director::listen().await;
    let (_ann, mut events) = Operator::connect(config(&director)).unwrap();
    let (mut conn, hello) = director.welcome().await;
    assert_eq!((conn.peer(), hello.worker), ("ann", None));
    let workers = (0..200)
        .map(|number| WorkerEntry::unheard(format!("worker-{number}")))
        .collect();
    let whole = ProjectStateSnapshot::new("s1".to_owned(), workers, Queue::default());
    for part in whole.clone().cut(1000) {
        conn.send(part).await;
    }
    assert_eq!(frame(&mut events).await.message, Outbound::Snapshot(whole));
    let beat: Inbound<'static> = Heartbeat {
        state: state(Stage::Code, 7, 1),
    }
    .into();
    conn.relay("worker-3", &beat).await;
    let seen = frame(&mut events).await;
    assert_eq!(
        (seen.from.role, seen.from.id.as_str()),
        (Role::Worker, "worker-3")
    );
    assert!(matches!(seen.message, Outbound::Heartbeat(_)));
}

#[tokio::test]
async fn a_command_gets_its_own_answer() {
    let director = Director::listen().await;
    let (ann, _events) = Operator::connect(config(&director)).unwrap();
    // Given before there is a connection.
    let one = tokio::spawn({
        let ann = ann.clone();
        async move { ann.command(pause()).await }
    });
    let (mut conn, _) = director.welcome().await;
    assert!(matches!(
        conn.next().await,
        Some(Inbound::OperatorCommand(_))
    ));
    let two = tokio::spawn({
        let ann = ann.clone();
        async move { ann.command(pause()).await }
    });
    assert!(matches!(
        conn.next().await,
        Some(Inbound::OperatorCommand(_))
    ));
    // The hello was frame 1. The later command is answered first.
    conn.send(ProtocolError {
        code: ErrorCode::RoleForbidden,
        message: "not you".to_owned(),
        ref_seq: Some(3),
    })
    .await;
    let refused = soon(two).await.unwrap();
    assert!(matches!(refused, Err(BusError::Refused(told)) if told.message == "not you"));
    conn.send(OperatorAck {
        ref_seq: 2,
        ok: true,
        message: "paused".to_owned(),
    })
    .await;
    assert_eq!(soon(one).await.unwrap().unwrap().message, "paused");
}

#[tokio::test]
async fn a_command_that_is_cut_off_fails_and_is_not_repeated() {
    let director = Director::listen().await;
    let (ann, _events) = Operator::connect(config(&director)).unwrap();
    let (mut conn, _) = director.welcome().await;
    let asked = tokio::spawn({
        let ann = ann.clone();
        async move { ann.command(pause()).await }
    });
    assert!(matches!(
        conn.next().await,
        Some(Inbound::OperatorCommand(_))
    ));
    conn.cut();
    assert!(matches!(
        soon(asked).await.unwrap(),
        Err(BusError::Lost { .. })
    ));
    let (mut conn, _) = director.welcome().await;
    ann.fetch_engram("e_1").await.unwrap();
    assert!(matches!(conn.next().await, Some(Inbound::EngramRequest(_))));
    ann.close().await;
    assert_eq!(conn.next().await, None);
    assert!(matches!(ann.command(pause()).await, Err(BusError::Over)));
}

#[tokio::test]
async fn a_command_that_makes_no_sense_is_not_sent() {
    let director = Director::listen().await;
    let (ann, _events) = Operator::connect(config(&director)).unwrap();
    let command = OperatorCommand::plain(OperatorOrder::ShutdownWorker, "");
    assert!(matches!(
        ann.command(command).await,
        Err(BusError::Invalid(_))
    ));
}

#[tokio::test]
async fn nobody_at_the_address_is_said_so() {
    let director = Director::listen().await;
    let config = config(&director);
    drop(director);
    let (_ann, mut events) = Operator::connect(config).unwrap();
    assert!(matches!(
        soon(events.recv()).await,
        Some(OperatorEvent::Disconnected {
            error: BusError::Unreachable { .. },
            ..
        })
    ));
}
