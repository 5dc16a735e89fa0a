//! The person's chat at Telegram, by a stand-in for its Bot API.

mod kit;
mod troubles;

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::Door;
use switchboard_core::verb::{Hand, OpenMailbox};

use self::kit::{CHAT, Telegram};
use crate::broker::kit::{Client, checked, content, listens};
use crate::harness::{TestHub, start_as};
use crate::squidrun_kit::{Dir, serve_as};
use crate::world::{Ledger, eventually};

async fn hub(telegram: &Telegram) -> TestHub {
    start_as(|config| telegram.configure(config)).await
}

fn told(ack: &Value) -> (&str, bool) {
    let accepted = ack["accepted"].as_bool().unwrap();
    (ack["status"].as_str().unwrap(), accepted)
}

#[tokio::test]
async fn texts_of_the_chat_and_no_other_are_said_to_the_architect_as_the_person() {
    let telegram = Telegram::start().await;
    let hub = hub(&telegram).await;
    let mut architect = Client::role(&hub, "architect").await;
    telegram.writes(6, 5, json!({ "text": "let me in" }));
    telegram.says(7, "look\u{7} at this");
    telegram.writes(8, CHAT, json!({ "photo": [], "caption": "a picture" }));
    telegram.writes(9, CHAT, json!({ "sticker": {} }));
    for (id, text) in [
        ("telegram-in-7", "look at this"),
        ("telegram-in-8", "a picture"),
    ] {
        let frame = architect.expect("message").await;
        assert_eq!((content(&frame), &frame["traceId"]), (text, &json!(id)));
        assert_eq!(frame["from"], "user");
        assert_eq!(frame["metadata"]["channel"], "telegram");
    }
    telegram.is_read_before(10).await;
    assert_eq!(telegram.sent(), ["not delivered: only text is passed on"]);
    assert!(architect.hears_no("message").await);
}

#[tokio::test]
async fn what_was_read_is_known_after_a_restart_and_said_once_whatever_comes_again() {
    let (telegram, project) = (Telegram::start().await, tempfile::tempdir().unwrap());
    let served = serve_as(project.path(), |config| telegram.configure(config)).await;
    telegram.says(7, "hello");
    served.hears("telegram-in-7").await;
    telegram.is_read_before(8).await;
    served.stop().await;
    let before = telegram.polls();
    let served = serve_as(project.path(), |config| telegram.configure(config)).await;
    eventually(async || telegram.polls() > before).await;
    assert_eq!(telegram.polled(before), Some(8), "it is durable");
    // As if the hub had been killed before it noted that it was read.
    telegram.says(8, "second");
    telegram.says(8, "second");
    telegram.is_read_before(9).await;
    assert_eq!(served.messages().await, ["hello", "second"]);
    let dir = Dir::of(project.path());
    eventually(async || dir.row("telegram-in-8").is_some()).await;
    let row = dir.row("telegram-in-8").unwrap();
    let words = ["channel", "direction", "sender_role", "target_role"].map(|name| &row[name]);
    assert_eq!(words, ["telegram", "inbound", "user", "architect"]);
    served.stop().await;
}

#[tokio::test]
async fn the_target_telegram_always_goes_to_the_bot() {
    // squidrun.route.telegram
    let (telegram, project) = (Telegram::start().await, tempfile::tempdir().unwrap());
    let home = project.path().to_owned();
    let hub = start_as(|config| {
        telegram.configure(config);
        config.squidrun.enabled = true;
        config.squidrun.dir = home.join(".squidrun");
    })
    .await;
    let mut architect = Client::role(&hub, "architect").await;
    let ack = architect
        .say("telegram", "t1", "(ARCH #1): nobody wrote yet")
        .await;
    assert_eq!(told(&ack), ("telegram_delivered", true), "{ack}");
    assert_eq!((&ack["verified"], &ack["ok"]), (&json!(true), &json!(true)));
    telegram.says(3, "now somebody did");
    telegram.is_read_before(4).await;
    let ack = architect
        .say("TELEGRAM", "t2", "[ACK REQUIRED] without a header")
        .await;
    assert_eq!(told(&ack), ("telegram_delivered", true), "{ack}");
    // The same again is the same.
    let again = architect
        .say("TELEGRAM", "t2", "[ACK REQUIRED] without a header")
        .await;
    assert_eq!(again, ack);
    assert_eq!(
        checked(&mut architect, "t1").await["ack"]["status"],
        "telegram_delivered"
    );
    let sent = [
        "(ARCH #1): nobody wrote yet",
        "architect: [ACK REQUIRED] without a header",
    ];
    assert_eq!(telegram.sent(), sent);
    let dir = Dir::of(project.path());
    let is_routed = |row: Value| row["status"] == "routed" && row["channel"] == "telegram";
    eventually(async || dir.row("t1").is_some_and(is_routed)).await;
    assert_eq!(dir.row("t1").unwrap()["ack_status"], "telegram_delivered");
}

#[tokio::test]
async fn the_person_is_answered_there_within_five_minutes_of_an_inbound_and_not_later() {
    // squidrun.route.user_telegram
    let (telegram, ledger) = (Telegram::start().await, Ledger::new());
    let (hub, _) = ledger
        .coordinator_as(|config| telegram.configure(config))
        .await;
    let mut architect = Client::role(&hub, "architect").await;
    let ack = architect.say("user", "u1", "(ARCH #1): before").await;
    assert_eq!(told(&ack), ("accepted.unverified", true), "{ack}");
    telegram.writes(1, 5, json!({ "text": "of another chat" }));
    telegram.is_read_before(2).await;
    let ack = architect.say("user", "u2", "(ARCH #2): still before").await;
    assert_eq!(told(&ack), ("accepted.unverified", true), "{ack}");
    telegram.says(2, "hello");
    telegram.is_read_before(3).await;
    let ack = architect.say("user", "u3", "(ARCH #3): at once").await;
    assert_eq!(told(&ack), ("telegram_delivered", true), "{ack}");
    ledger.clock.advance(Duration::from_secs(5 * 60 - 1));
    // Whatever it is said by.
    hub.client
        .post(
            "/api/v1/messages",
            json!({ "type": "SEND_MESSAGE", "message": {
            "from": "steward", "to": "user", "type": "custom", "payload": { "text": "by HTTP" },
        } }),
        )
        .await
        .expect(200);
    eventually(async || telegram.sent().len() == 2).await;
    let mut watcher = Client::role(&hub, "user").await;
    for _ in 0..4 {
        watcher.expect("message").await;
    }
    let ack = architect.say("user", "u4", "(ARCH #4): both").await;
    assert_eq!(told(&ack), ("telegram_delivered", true), "{ack}");
    assert_eq!(content(&watcher.expect("message").await), "(ARCH #4): both");
    ledger.clock.advance(Duration::from_secs(1));
    let ack = architect.say("user", "u5", "(ARCH #5): too late").await;
    assert_eq!(told(&ack), ("delivered.websocket", true), "{ack}");
    let sent = telegram.sent();
    assert_eq!(
        (&*sent[0], &*sent[2]),
        ("(ARCH #3): at once", "(ARCH #4): both")
    );
    assert!(sent[1].ends_with("by HTTP"), "{sent:?}");
    assert_eq!(sent.len(), 3);
}

#[tokio::test]
async fn of_several_coordinators_one_reads_and_each_message_is_sent_once() {
    let (telegram, ledger) = (Telegram::start().await, Ledger::new());
    let (here, _) = ledger
        .coordinator_as(|config| telegram.configure(config))
        .await;
    let (there, _) = ledger
        .coordinator_as(|config| telegram.configure(config))
        .await;
    let mut one = Client::role(&here, "architect").await;
    let mut other = Client::role(&there, "builder").await;
    for number in 1..=5 {
        let said = [
            one.say(
                "telegram",
                &format!("a{number}"),
                &format!("(ARCH #{number}): x"),
            )
            .await,
            other
                .say(
                    "telegram",
                    &format!("b{number}"),
                    &format!("(BUILDER #{number}): x"),
                )
                .await,
        ];
        for ack in said {
            assert_eq!(told(&ack), ("telegram_delivered", true), "{ack}");
        }
    }
    let mut reads = Client::role(&here, "architect").await;
    telegram.says(1, "hello");
    assert_eq!(reads.expect("message").await["traceId"], "telegram-in-1");
    telegram.is_read_before(2).await;
    assert_eq!((telegram.most_polling(), telegram.sent().len()), (1, 10));
    // Whoever takes the duty over goes on where the other one stopped.
    here.running.shutdown().await;
    telegram.says(2, "are you there?");
    telegram.is_read_before(3).await;
    let ack = other.say("telegram", "b6", "(BUILDER #6): yes").await;
    assert_eq!(told(&ack), ("telegram_delivered", true), "{ack}");
    assert_eq!(telegram.most_polling(), 1);
}

#[tokio::test]
async fn what_a_hub_that_ended_had_in_hand_is_not_sent_again_and_the_rest_is() {
    let (telegram, ledger) = (Telegram::start().await, Ledger::new());
    let (before, _) = ledger.coordinator_as(listens).await;
    let run = &before.running.hub;
    run.run(OpenMailbox {
        of: "telegram".into(),
    })
    .await
    .unwrap();
    let send = async |id: &str| {
        let message = json!({ "id": id, "from": "steward", "to": "telegram", "type": "custom", "payload": { "text": id } });
        let body = json!({ "type": "SEND_MESSAGE", "message": message });
        before
            .client
            .post("/api/v1/messages", body)
            .await
            .expect(200);
    };
    send("h1").await;
    let hand = Hand {
        agent: "telegram".into(),
        via: Door::Telegram,
        stream: "gone.1".to_owned(),
        limit: 1,
        hold_for: Duration::from_secs(30),
    };
    assert_eq!(run.run(hand).await.unwrap().len(), 1);
    send("h2").await;
    ledger.clock.advance(Duration::from_secs(31));
    let (hub, _) = ledger
        .coordinator_as(|config| telegram.configure(config))
        .await;
    let mut asks = Client::role(&hub, "oracle").await;
    for (id, status) in [("h1", "telegram_send_failed"), ("h2", "telegram_delivered")] {
        let mut is_so = async || checked(&mut asks, id).await["ack"]["status"] == status;
        eventually(&mut is_so).await;
    }
    assert_eq!(telegram.sent().len(), 1);
    assert!(telegram.sent()[0].ends_with("h2"));
}
