//! Background agents: real programs in real terminals, started, spoken to and ended by Builder.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_child::orphans;

use super::kit::{Client, broker, broker_as, checked, content};
use crate::harness::TestHub;
use crate::world::eventually;

async fn with(command: &str) -> TestHub {
    let command = command.to_owned();
    broker_as(move |config| config.broker.background.command = Some(command)).await
}

async fn ask(client: &mut Client, action: &str, payload: Value) -> Value {
    let request = format!("bg-{action}");
    client
        .send(json!({ "type": "background-agent", "action": action, "payload": payload, "requestId": request }))
        .await;
    let answer = client.expect("response").await;
    assert_eq!(
        (&answer["requestId"], &answer["ok"]),
        (&json!(request), &json!(true))
    );
    answer["result"].clone()
}

async fn spawn(builder: &mut Client) -> Value {
    let spawned = ask(builder, "spawn", json!({})).await;
    assert_eq!(
        (&spawned["ok"], &spawned["accepted"], &spawned["status"]),
        (&json!(true), &json!(true), &json!("starting")),
        "{spawned}"
    );
    spawned
}

/// What it has printed so far, once that has a text in it.
async fn printed(builder: &mut Client, slot: u64, text: &str) -> String {
    let began = std::time::Instant::now();
    loop {
        let shown = ask(builder, "show", json!({ "slot": slot })).await;
        let output = shown["output"].as_str().unwrap_or_default().to_owned();
        if output.contains(text) {
            return output;
        }
        assert!(
            began.elapsed() < super::kit::PATIENCE,
            "no {text:?}: {shown}"
        );
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

/// Builder hears how one ended.
async fn told(listener: &mut Client) -> String {
    loop {
        let frame = listener.expect("message").await;
        let text = content(&frame).to_owned();
        if text.contains("background agent") {
            assert_eq!(frame["from"], "hub");
            return text;
        }
    }
}

#[tokio::test]
async fn builder_starts_lists_and_ends_agents_in_three_slots() {
    let hub = with("cat").await;
    let mut builder = Client::role(&hub, "builder").await;
    let spawned = spawn(&mut builder).await;
    for (member, value) in [
        ("alias", json!("builder-bg-1")),
        ("paneId", json!("bg-2-1")),
        ("ownerPaneId", json!("2")),
        ("runtime", json!("cat")),
        ("command", json!("cat")),
    ] {
        assert_eq!(spawned[member], value, "{member}");
    }
    let third = ask(
        &mut builder,
        "spawn",
        json!({ "slot": 3, "sessionScopeId": "s1" }),
    )
    .await;
    assert_eq!(third["alias"], "builder-bg-3");
    for wrong in [
        json!({ "slot": 3 }),
        json!({ "slot": 7 }),
        json!({ "alias": "builder" }),
    ] {
        let refused = ask(&mut builder, "spawn", wrong).await;
        assert_eq!(
            (&refused["ok"], &refused["reason"]),
            (&json!(false), &json!("slot_unavailable"))
        );
    }
    assert_eq!(spawn(&mut builder).await["alias"], "builder-bg-2");
    let full = ask(&mut builder, "spawn", json!({})).await;
    assert_eq!(
        (&full["ok"], &full["reason"], &full["maxAgents"]),
        (&json!(false), &json!("capacity_reached"), &json!(3))
    );
    let list = ask(&mut builder, "list", json!({})).await;
    assert_eq!((&list["ok"], &list["status"]), (&json!(true), &json!("ok")));
    let agents = list["agents"].as_array().unwrap();
    let slots: Vec<&Value> = agents.iter().map(|agent| &agent["paneId"]).collect();
    assert_eq!(slots, ["bg-2-1", "bg-2-2", "bg-2-3"]);
    assert_eq!(
        (&agents[2]["sessionScopeId"], &agents[2]["completionReason"]),
        (&json!("s1"), &Value::Null)
    );
    assert!(agents[0]["createdAtMs"].as_i64() <= agents[0]["lastActivityAtMs"].as_i64());
    let map = ask(&mut builder, "target-map", json!({})).await["targetMap"].clone();
    assert_eq!(map, list["targetMap"]);
    assert_eq!(map["paneToAlias"]["bg-2-2"], "builder-bg-2");
    assert_eq!(
        (&map["maxAgents"], &map["ownerPaneId"]),
        (&json!(3), &json!("2"))
    );
    let killed = ask(&mut builder, "kill", json!({ "target": "bg-2-2" })).await;
    assert_eq!(
        (&killed["ok"], &killed["alias"], &killed["reason"]),
        (&json!(true), &json!("builder-bg-2"), &json!("killed"))
    );
    for (payload, reason) in [
        (json!({ "slot": 2 }), "not_running"),
        (json!({ "alias": "oracle" }), "invalid_target"),
        (json!({}), "invalid_target"),
    ] {
        let refused = ask(&mut builder, "kill", payload).await;
        assert_eq!(
            (&refused["ok"], &refused["reason"]),
            (&json!(false), &json!(reason))
        );
    }
    let all = ask(&mut builder, "kill-all", json!({})).await;
    assert_eq!(
        (&all["killed"], &all["results"][1]["paneId"]),
        (&json!(2), &json!("bg-2-3"))
    );
    assert_eq!(
        ask(&mut builder, "list", json!({})).await["agents"],
        json!([])
    );
    assert_eq!(
        ask(&mut builder, "dance", json!({})).await["status"],
        "invalid_action"
    );
}

#[tokio::test]
async fn nobody_but_builder_has_background_agents() {
    let hub = with("cat").await;
    let mut builder = Client::role(&hub, "builder").await;
    spawn(&mut builder).await;
    for (role, pane) in [
        ("architect", json!("1")),
        ("builder-bg-1", json!("bg-2-1")),
        ("somebody", Value::Null),
    ] {
        let mut other = Client::role(&hub, role).await;
        for action in ["spawn", "list", "kill", "kill-all", "target-map", "show"] {
            let refused = ask(&mut other, action, json!({ "slot": 1 })).await;
            let expected = json!({
                "ok": false, "accepted": false, "status": "owner_binding_violation", "reason": "owner_binding_violation",
                "action": action, "senderRole": role, "senderPaneId": pane,
            });
            assert_eq!(refused, expected);
        }
    }
    let list = ask(&mut builder, "list", json!({})).await;
    assert_eq!(list["agents"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_is_typed_into_the_terminal_once() {
    let hub = with("sh -c 'stty -echo; echo up; cat'").await;
    let mut builder = Client::role(&hub, "builder").await;
    spawn(&mut builder).await;
    printed(&mut builder, 1, "up").await;
    let text = "(BUILDER #1): fix\x1b[31m it\nthen say so";
    for target in ["builder-bg-1", "bg-2-1"] {
        let ack = builder.say(target, "m1", text).await;
        assert_eq!(
            (&ack["status"], &ack["verified"], &ack["wsDeliveryCount"]),
            (&json!("delivered.daemon_write"), &json!(true), &json!(0)),
            "{ack}"
        );
    }
    builder
        .say("builder-bg-1", "m2", "(BUILDER #2): last")
        .await;
    let output = printed(&mut builder, 1, "last").await;
    assert_eq!(
        output.matches("fix[31m it\r\nthen say so\r\n").count(),
        1,
        "{output:?}"
    );
    let told = checked(&mut builder, "m1").await;
    assert_eq!(told["ack"]["status"], "delivered.daemon_write");
    let mut user = Client::role(&hub, "user").await;
    let ack = user.say("builder-bg-1", "m3", "from a person").await;
    assert_eq!(ack["status"], "delivered.daemon_write", "{ack}");
    printed(&mut builder, 1, "from a person").await;
    let mut oracle = Client::role(&hub, "oracle").await;
    let ack = oracle.say("builder-bg-1", "m4", "(ORACLE #1): x").await;
    assert_eq!(ack["status"], "owner_binding_violation");
    oracle
        .send(json!({ "type": "health-check", "target": "bg-2-1", "requestId": "h" }))
        .await;
    let health = oracle.expect("health-check-result").await;
    assert_eq!(
        (&health["status"], &health["role"]),
        (&json!("healthy"), &json!("builder-bg-1"))
    );
}

#[tokio::test]
async fn a_program_that_takes_pastes_gets_one() {
    let script = r#"sh -c 'stty raw -echo; printf "\033[?2004hup"; cat -v'"#;
    let hub = with(script).await;
    let mut builder = Client::role(&hub, "builder").await;
    spawn(&mut builder).await;
    printed(&mut builder, 1, "up").await;
    let ack = builder
        .say("builder-bg-1", "m1", "(BUILDER #1): a\nb")
        .await;
    assert_eq!(ack["status"], "delivered.daemon_write");
    printed(&mut builder, 1, "^[[200~(BUILDER #1): a^Mb^[[201~^M").await;
}

#[tokio::test]
async fn a_program_finds_out_who_it_is_and_says_when_it_is_done() {
    let script = "sh -c 'echo $SQUIDRUN_ROLE $SQUIDRUN_PANE_ID $SQUIDRUN_PARENT_PANE_ID $SQUIDRUN_BG_ALIAS $HM_SEND_PORT; \
        pwd; read go; echo __HM_BG_DONE__; sleep 600'";
    let hub = with(script).await;
    let mut listener = Client::role(&hub, "builder").await;
    let mut builder = Client::role(&hub, "builder").await;
    spawn(&mut builder).await;
    let port = super::kit::address(&hub).port();
    let line = format!("builder-bg-1 bg-2-1 2 builder-bg-1 {port}\r\n");
    let output = printed(&mut builder, 1, &line).await;
    assert!(!output.contains("DONE"), "{output}");
    builder.say("builder-bg-1", "m1", "go").await;
    assert!(
        told(&mut listener)
            .await
            .contains("[FYI] background agent builder-bg-1 ended: done")
    );
    assert_eq!(
        ask(&mut builder, "list", json!({})).await["agents"],
        json!([])
    );
}

#[tokio::test]
async fn a_crash_is_an_incident_and_builder_is_told_what_was_lost() {
    // It reads nothing, so what is said to it waits.
    let hub = with("sh -c 'read x; exit 3'").await;
    let mut listener = Client::role(&hub, "builder").await;
    let mut builder = Client::role(&hub, "builder").await;
    spawn(&mut builder).await;
    builder.say("builder-bg-1", "m1", "go").await;
    let text = told(&mut listener).await;
    assert!(
        text.contains("[URGENT] background agent builder-bg-1 ended: crashed (exit status: 3)"),
        "{text}"
    );
    let is_open = async || {
        let open = hub.client.get("/api/v1/incidents").await.expect(200);
        open["incidents"].to_string().contains("agent_crash")
    };
    eventually(is_open).await;
    let ack = builder.say("builder-bg-1", "m2", "anybody there?").await;
    assert_eq!(
        (&ack["status"], &ack["accepted"]),
        (&json!("agent_not_running"), &json!(false)),
        "{ack}"
    );
    let told = checked(&mut builder, "m2").await;
    assert_eq!(told["ack"]["status"], "agent_not_running");
}

#[tokio::test]
async fn a_new_agent_gets_nothing_of_what_was_meant_for_the_one_before() {
    let hub = with("sh -c 'stty -echo; echo up; exec cat'").await;
    let mut builder = Client::role(&hub, "builder").await;
    let early = builder
        .say("builder-bg-1", "m1", "(BUILDER #1): too early")
        .await;
    assert_eq!(early["status"], "agent_not_running");
    spawn(&mut builder).await;
    printed(&mut builder, 1, "up").await;
    builder
        .say("builder-bg-1", "m2", "(BUILDER #2): to the first")
        .await;
    ask(&mut builder, "kill", json!({ "slot": 1 })).await;
    spawn(&mut builder).await;
    printed(&mut builder, 1, "up").await;
    builder
        .say("builder-bg-1", "m3", "(BUILDER #3): to the second")
        .await;
    let output = printed(&mut builder, 1, "to the second").await;
    assert!(
        !output.contains("#1") && !output.contains("#2"),
        "{output:?}"
    );
}

#[tokio::test]
async fn one_that_is_idle_is_ended() {
    let hub = broker_as(|config| {
        config.broker.background.command = Some("cat".to_owned());
        config.broker.background.idle_for = Duration::from_millis(200);
    })
    .await;
    let mut listener = Client::role(&hub, "builder").await;
    let mut builder = Client::role(&hub, "builder").await;
    spawn(&mut builder).await;
    assert!(told(&mut listener).await.contains("ended: idle_timeout"));
}

#[tokio::test]
async fn without_a_command_or_a_program_nothing_starts() {
    let hub = broker().await;
    let mut builder = Client::role(&hub, "builder").await;
    let refused = ask(&mut builder, "spawn", json!({})).await;
    assert_eq!(
        (&refused["ok"], &refused["reason"]),
        (&json!(false), &json!("no_command"))
    );
    drop(hub);
    let hub = with("no-such-program-anywhere").await;
    let mut builder = Client::role(&hub, "builder").await;
    for _ in 0..2 {
        let refused = ask(&mut builder, "spawn", json!({ "slot": 1 })).await;
        assert_eq!(
            (&refused["ok"], &refused["reason"]),
            (&json!(false), &json!("spawn_failed")),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn what_one_prints_concerns_nobody_else() {
    let script = "sh -c 'echo \"(ARCH #1): [TASK] do it\"; echo \"architect online\"; echo \"(BUILDER-BG-1 #1): hello\"; printf \"\\007\\033]0;ARCH\\007\"; cat'";
    let hub = with(script).await;
    // Who sends something is no recipient for a while; these stay.
    let mut architect = Client::role(&hub, "architect").await;
    let _listener = Client::role(&hub, "builder").await;
    let mut sender = Client::role(&hub, "architect").await;
    let mut builder = Client::role(&hub, "builder").await;
    let before = hub.client.get("/api/v1/agents").await.expect(200);
    spawn(&mut builder).await;
    printed(&mut builder, 1, "hello").await;
    sender
        .send(json!({ "type": "broadcast", "content": "(ARCH #1): all", "messageId": "b1", "ackRequired": true }))
        .await;
    assert_eq!(sender.expect("send-ack").await["accepted"], true);
    assert!(architect.hears_no("message").await);
    let after = hub.client.get("/api/v1/agents").await.expect(200);
    let ids = |list: &Value| -> Vec<String> {
        let agents = list["agents"].as_array().unwrap();
        agents
            .iter()
            .map(|agent| agent["id"].to_string() + &agent["status"].to_string())
            .collect()
    };
    assert_eq!(ids(&before), ids(&after), "no agent came, went or changed");
    let shown = ask(&mut builder, "show", json!({ "slot": 1 })).await;
    assert!(
        !shown["output"].as_str().unwrap().contains("all"),
        "it gets no broadcast: {shown}"
    );
}

#[tokio::test]
async fn a_hub_that_stops_ends_them_all() {
    let hub = with("sh -c 'echo $SWITCHBOARD_RUN_ID; setsid sleep 600 & cat'").await;
    let mut builder = Client::role(&hub, "builder").await;
    spawn(&mut builder).await;
    let output = printed(&mut builder, 1, "\n").await;
    let run = output.lines().next().unwrap().trim().to_owned();
    assert!(!orphans::carriers(&[&run]).is_empty());
    hub.running.shutdown().await;
    assert!(orphans::carriers(&[&run]).is_empty());
}
