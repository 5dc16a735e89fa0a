//! Tasks and messages: each comes to the worker once, however often it is delivered.

use switchboard_wire::Json;
use switchboard_wire::agentbus::message::{
    AgentMessage, AgentMessageAck, BudgetGrant, EngramContent, Inbound, MailState, TaskRevoked,
};
use switchboard_wire::agentbus::parts::InParts;
use switchboard_wire::agentbus::{BudgetKind, BudgetPriority, BudgetResource};

use super::director::{Director, config, news, soon, task};
use crate::bus::{BusError, Worker, WorkerEvent};

fn message(message_id: &str) -> AgentMessage {
    AgentMessage {
        message_id: message_id.to_owned(),
        from: "builder".to_owned(),
        to: None,
        kind: "custom".to_owned(),
        body: Json::from_text("{\"text\":\"hello\"}".to_owned()).unwrap(),
        ack_required: true,
        priority: None,
        redelivered: false,
        redacted: 0,
        corr_id: None,
        part: 0,
        parts: 1,
    }
}

fn assigned(event: WorkerEvent) -> (u64, u64) {
    match event {
        WorkerEvent::Assigned(task) => (task.issue_number, task.epoch),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_task_delivered_again_after_a_cut_does_not_run_twice() {
    let director = Director::listen().await;
    let (worker, mut events) = Worker::connect(config(&director.addr())).unwrap();
    let (mut conn, hello) = director.welcome().await;
    assert!(hello.can("assign.v1") && hello.can("message.v1"));
    assert_eq!(hello.skills().collect::<Vec<_>>(), ["rust"]);
    conn.send(task(7, 2)).await;
    assert_eq!(assigned(news(&mut events).await), (7, 2));
    worker.accept(7, 2).await.unwrap();
    let accepted = conn.next_report().await;
    conn.cut();

    let (mut conn, _) = director.welcome().await;
    assert_eq!(conn.next_report().await, accepted);
    conn.send(task(7, 2)).await;
    // The director hears the same answer once more, the worker nothing.
    assert_eq!(conn.next_report().await, accepted);
    conn.send(task(8, 1)).await;
    assert_eq!(assigned(news(&mut events).await), (8, 1));
    // A new epoch is a new claim of the task.
    conn.send(task(7, 3)).await;
    assert_eq!(assigned(news(&mut events).await), (7, 3));
}

#[tokio::test]
async fn a_revoked_task_is_told_once_and_its_answers_are_dropped() {
    let director = Director::listen().await;
    let (worker, mut events) = Worker::connect(config(&director.addr())).unwrap();
    let (mut conn, _) = director.welcome().await;
    conn.send(task(7, 2)).await;
    assert_eq!(assigned(news(&mut events).await), (7, 2));
    worker.accept(7, 2).await.unwrap();
    conn.next_report().await;
    let revoked = TaskRevoked {
        issue_number: 7,
        epoch: 2,
        reason: "canceled".to_owned(),
        corr_id: None,
    };
    conn.send(revoked.clone()).await;
    conn.send(revoked.clone()).await;
    match news(&mut events).await {
        WorkerEvent::Revoked(told) => assert_eq!(told, revoked),
        other => panic!("{other:?}"),
    }
    conn.cut();
    let (mut conn, _) = director.welcome().await;
    worker.ack("m9").await.unwrap();
    // Nothing of task 7 comes before it, and nothing more of it reached the worker.
    assert!(matches!(
        conn.next_report().await,
        Inbound::AgentMessageAck(_)
    ));
    conn.send(task(8, 1)).await;
    assert_eq!(assigned(news(&mut events).await), (8, 1));
}

#[tokio::test]
async fn a_message_is_read_once_and_acknowledged_as_often_as_it_comes() {
    let director = Director::listen().await;
    let (worker, mut events) = Worker::connect(config(&director.addr())).unwrap();
    let (mut conn, _) = director.welcome().await;
    conn.send(message("m1")).await;
    conn.send(message("m1")).await;
    let first = news(&mut events).await;
    assert!(matches!(first, WorkerEvent::Message(told) if told.message_id == "m1"));
    worker.ack("m1").await.unwrap();
    let ack = conn.next_report().await;
    conn.send(message("m1")).await;
    assert_eq!(conn.next_report().await, ack);
    conn.send(message("m2")).await;
    let second = news(&mut events).await;
    assert!(matches!(second, WorkerEvent::Message(told) if told.message_id == "m2"));
}

#[tokio::test]
async fn what_comes_in_parts_arrives_whole() {
    let director = Director::listen().await;
    let (_worker, mut events) = Worker::connect(config(&director.addr())).unwrap();
    let (mut conn, _) = director.welcome().await;
    let mut long = task(7, 1);
    long.description = "ümlaut ".repeat(2000);
    let parts = long.clone().cut(1000);
    assert!(parts.len() > 10);
    for part in parts {
        conn.send(part).await;
    }
    match news(&mut events).await {
        WorkerEvent::Assigned(task) => assert_eq!(task, long),
        other => panic!("{other:?}"),
    }
    let engram = EngramContent::new(
        "e_1".to_owned(),
        format!("sha256:{}", "0".repeat(64)),
        "x".repeat(5000),
    );
    for part in engram.clone().cut(1000) {
        conn.send(part).await;
    }
    match news(&mut events).await {
        WorkerEvent::Engram(whole) => assert_eq!(whole, engram),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_the_director_has_confirmed_is_not_sent_again() {
    let director = Director::listen().await;
    let (worker, mut events) = Worker::connect(config(&director.addr())).unwrap();
    let (mut conn, _) = director.welcome().await;
    let body = Json::from_text("\"hi\"".to_owned()).unwrap();
    let message_id = worker
        .send_message(Some("builder".to_owned().into()), "custom", body, false)
        .await
        .unwrap();
    match conn.next_report().await {
        Inbound::AgentMessage(told) => assert_eq!(told.message_id, message_id),
        other => panic!("{other:?}"),
    }
    let request_id = worker
        .request_budget(
            BudgetResource::Github,
            BudgetKind::Write,
            BudgetPriority::Safety,
        )
        .await
        .unwrap();
    conn.next_report().await;
    conn.send(AgentMessageAck {
        message_id,
        state: Some(MailState::Accepted),
        reason: None,
        by: None,
        corr_id: None,
    })
    .await;
    conn.send(BudgetGrant::queued(request_id.clone(), Some(2)))
        .await;
    assert!(matches!(
        news(&mut events).await,
        WorkerEvent::MessageState(_)
    ));
    assert!(matches!(news(&mut events).await, WorkerEvent::Budget(_)));
    conn.cut();
    let (mut conn, _) = director.welcome().await;
    // The queued request only.
    assert!(matches!(
        conn.next_report().await,
        Inbound::BudgetRequest(_)
    ));
    conn.send(BudgetGrant::granted(request_id, "g1".to_owned()))
        .await;
    assert!(matches!(news(&mut events).await, WorkerEvent::Budget(_)));
    conn.cut();
    let (mut conn, _) = director.welcome().await;
    worker.fetch_engram("e_1").await.unwrap();
    assert!(matches!(
        conn.next_report().await,
        Inbound::EngramRequest(_)
    ));
}

#[tokio::test]
async fn what_the_director_would_refuse_is_not_sent_at_all() {
    let director = Director::listen().await;
    let (worker, _events) = Worker::connect(config(&director.addr())).unwrap();
    let body = Json::of(&"x".repeat(70_000)).unwrap();
    let sent = worker.send_message(None, "custom", body, false).await;
    assert!(matches!(sent, Err(BusError::TooLarge { max: 65_536, .. })));
    let sent = worker.ack("").await;
    assert!(matches!(sent, Err(BusError::Invalid(_))));
    let nameless = Worker::connect(crate::bus::WorkerConfig::new(director.addr(), ""));
    assert!(matches!(nameless, Err(BusError::Invalid(_))));
}

#[tokio::test]
async fn lines_are_shown_as_they_went_by_to_who_asks() {
    let director = Director::listen().await;
    let mut shown = config(&director.addr());
    shown.show_lines = true;
    let (_worker, mut events) = Worker::connect(shown).unwrap();
    let (_conn, _) = director.welcome().await;
    let mut lines = Vec::new();
    while lines.len() < 3 {
        if let Some(WorkerEvent::Line { text, .. }) = soon(events.recv()).await {
            lines.push(text);
        }
    }
    for (line, kind) in lines.iter().zip(["hello", "welcome", "heartbeat"]) {
        assert!(line.contains(kind) && line.ends_with('}'), "{line}");
    }
}
