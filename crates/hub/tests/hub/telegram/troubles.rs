//! Telegram that is slow, full, broken or not there.

use serde_json::json;

use super::kit::{Reply, Telegram, refusal};
use super::{hub, told};
use crate::broker::kit::{Client, broker, checked};
use crate::harness::start_as;

#[tokio::test]
async fn what_telegram_does_not_take_is_failed_and_never_sent_later() {
    let telegram = Telegram::start().await;
    let hub = hub(&telegram).await;
    let mut architect = Client::role(&hub, "architect").await;
    let replies: [(&str, Reply); 6] = [
        (
            "no such chat",
            refusal(400, "Bad Request: chat not found", None),
        ),
        ("blocked", refusal(403, "Forbidden: bot was blocked", None)),
        ("full", refusal(429, "Too Many Requests", Some(60))),
        ("broken", Some((502, "<html>".to_owned()))),
        ("garbage", Some((200, "{\"ok\":tr".to_owned()))),
        ("no answer", None),
    ];
    for (number, (what, reply)) in (1..).zip(replies) {
        telegram.answers_sends([reply]);
        let text = format!("(ARCH #{number}): {what}");
        let ack = architect
            .say("telegram", what.replace(' ', "-").as_str(), &text)
            .await;
        assert_eq!(told(&ack), ("telegram_send_failed", false), "{what}: {ack}");
        assert!(ack["error"].is_string(), "{what}");
        // Its sender tries again under the same id, and then sends it by itself.
        let again = architect
            .say("telegram", what.replace(' ', "-").as_str(), &text)
            .await;
        assert_eq!(
            told(&again),
            ("telegram_send_failed", false),
            "{what}: {again}"
        );
        let known = checked(&mut architect, &what.replace(' ', "-")).await;
        assert_eq!(known["ack"]["status"], "telegram_send_failed", "{what}");
    }
    assert_eq!(telegram.asked_to_send(), 6, "each was tried once");
    // One that is told to wait a moment does.
    telegram.answers_sends([refusal(429, "Too Many Requests", Some(1))]);
    let ack = architect
        .say("telegram", "m7", "(ARCH #7): in a moment")
        .await;
    assert_eq!(told(&ack), ("telegram_delivered", true), "{ack}");
    assert_eq!(telegram.sent(), ["(ARCH #7): in a moment"]);
}

#[tokio::test]
async fn the_persons_own_mailbox_has_what_telegram_did_not_take() {
    let telegram = Telegram::start().await;
    let hub = hub(&telegram).await;
    let mut architect = Client::role(&hub, "architect").await;
    telegram.says(1, "hello");
    telegram.is_read_before(2).await;
    telegram.answers_sends([refusal(500, "Internal Server Error", None)]);
    let ack = architect.say("user", "u1", "(ARCH #1): one").await;
    assert_eq!(told(&ack), ("accepted.unverified", true), "{ack}");
    let mut person = Client::role(&hub, "user").await;
    assert_eq!(person.expect("message").await["traceId"], "u1");
    telegram.answers_sends([refusal(500, "Internal Server Error", None)]);
    let ack = architect.say("user", "u2", "(ARCH #2): two").await;
    assert_eq!(told(&ack), ("delivered.websocket", true), "{ack}");
    assert_eq!(telegram.sent(), [""; 0]);
}

#[tokio::test]
async fn without_a_bot_or_with_one_that_cannot_be_reached_it_is_not_accepted() {
    let hub = broker().await;
    let mut architect = Client::role(&hub, "architect").await;
    let ack = architect.say("telegram", "t1", "(ARCH #1): x").await;
    assert_eq!(told(&ack), ("telegram_context_stale", false), "{ack}");
    assert!(
        ack["error"]
            .as_str()
            .unwrap()
            .contains("TELEGRAM_BOT_TOKEN")
    );
    assert_eq!(
        checked(&mut architect, "t1").await["ack"]["status"],
        "telegram_context_stale"
    );
    let telegram = Telegram::start().await;
    let unreached = start_as(|config| {
        telegram.configure(config);
        config.telegram.base_url = "http://127.0.0.1:1".to_owned();
    })
    .await;
    let mut architect = Client::role(&unreached, "architect").await;
    let ack = architect.say("telegram", "t1", "(ARCH #1): x").await;
    assert_eq!(told(&ack), ("telegram_send_failed", false), "{ack}");
}

#[tokio::test]
async fn a_chat_that_cannot_be_read_is_read_as_soon_as_it_can() {
    let telegram = Telegram::start().await;
    let large = json!({ "ok": true, "result": ["x".repeat(3 * 1024 * 1024)] });
    telegram.answers_polls([
        Some((200, "nothing".to_owned())),
        refusal(
            409,
            "Conflict: terminated by other getUpdates request",
            Some(1),
        ),
        Some((200, large.to_string())),
    ]);
    let hub = hub(&telegram).await;
    let mut architect = Client::role(&hub, "architect").await;
    telegram.says(1, "hello");
    assert_eq!(
        architect.expect("message").await["traceId"],
        "telegram-in-1"
    );
    telegram.is_read_before(2).await;
}

#[tokio::test]
async fn a_long_text_is_sent_as_one_message_and_kept_whole() {
    let telegram = Telegram::start().await;
    let hub = hub(&telegram).await;
    let mut architect = Client::role(&hub, "architect").await;
    let text = format!("(ARCH #1): {}", "é".repeat(9000));
    let ack = architect.say("telegram", "t1", &text).await;
    assert_eq!(told(&ack), ("telegram_delivered", true), "{ack}");
    let [sent] = &telegram.sent()[..] else {
        panic!("one message");
    };
    assert_eq!(sent.encode_utf16().count(), 4096);
    assert!(
        sent.starts_with("(ARCH #1): éé") && sent.contains("cut"),
        "{sent}"
    );
}
