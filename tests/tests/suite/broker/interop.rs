//! One swarm: roles of the broker beside agents of HTTP, SQL, files and the bus, in both directions.

use std::net::TcpStream;

use serde_json::{Value, json};
use switchboard_tests::{API, until};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use super::{enter, next};
use crate::bus::peer::Peer;
use crate::bus::swarm::{Swarm, everywhere, now};

/// An agent of each dialect holds the role of its name.
const ROLES: &str = "
[squidrun.roles.h]
pane = \"4\"
[squidrun.roles.s]
pane = \"5\"
[squidrun.roles.f]
pane = \"6\"
[squidrun.roles.w]
pane = \"7\"
";

/// A role's connection.
#[track_caller]
fn role(swarm: &Swarm, role: &str) -> WebSocket<TcpStream> {
    enter(&swarm.broker(), role).expect("the broker listens")
}

#[track_caller]
fn tell(ws: &mut WebSocket<TcpStream>, frame: &Value) {
    let frame = Message::text(frame.to_string());
    ws.send(frame).expect("it can be sent");
}

/// Says something to a role; the ack.
#[track_caller]
fn say(ws: &mut WebSocket<TcpStream>, to: &str, id: &str, content: &str) -> Value {
    let send = json!({ "type": "send", "target": to, "content": content, "messageId": id, "ackRequired": true });
    tell(ws, &send);
    next(ws, "send-ack").expect("an ack")
}

/// The next message with this in it.
#[track_caller]
fn hears(ws: &mut WebSocket<TcpStream>, what: &str) -> Value {
    loop {
        let message = next(ws, "message").unwrap_or_else(|| panic!("no message with {what}"));
        if message["content"]
            .as_str()
            .is_some_and(|text| text.contains(what))
        {
            return message;
        }
    }
}

/// Agents of HTTP and files, one of SQL, and a worker of the bus.
#[track_caller]
fn agents(swarm: &Swarm) -> Peer {
    let mut http = swarm.http();
    http.register("h");
    http.register("f");
    let at = now();
    swarm.by_hand(&format!(
        "INSERT INTO agents (id, name, type, skills, max_task_minutes, last_heartbeat)
         VALUES ('s', 's', 'custom', '[]', 60, '{at}')"
    ));
    until("the agent of SQL is known", || {
        let shown = http.get(&format!("{API}/agents/s"));
        (shown.status == 200 && shown.json()["agent"]["status"] == "idle").then_some(())
    });
    swarm.hand("w")
}

#[test]
fn a_task_for_a_role_is_done_over_http_by_sql_and_on_the_bus() {
    everywhere(ROLES, |swarm| {
        let mut worker = agents(swarm);
        let mut http = swarm.http();
        let mut ears = role(swarm, "architect");
        let mut architect = role(swarm, "architect");
        for (n, by) in [(1, "h"), (2, "s"), (3, "w")] {
            let content = format!("(ARCH #{n}): [TASK] fix part {n}");
            let ack = say(&mut architect, by, &format!("t{n}"), &content);
            assert_eq!(ack["accepted"], true, "{ack}");
            let task = format!("sq:t{n}");
            let shown = http.task(&task);
            assert_eq!(shown["title"], format!("fix part {n}"), "{shown}");
            match by {
                "h" => {
                    let claimed = http.claim("h").expect("it is its");
                    assert_eq!(claimed["id"], task, "{claimed}");
                    http.complete("h", &task, 1);
                }
                "s" => by_sql(swarm, &task),
                _ => {
                    let given = worker.assigned();
                    assert_eq!((&*given.task, given.number), (&*task, n));
                    worker.accept(&given);
                    worker.finish(&given);
                }
            }
            let shown = swarm.becomes(&task, "completed");
            assert_eq!(shown["assignedAgent"], by, "{shown}");
            let told = hears(&mut ears, &format!("[FYI] task #{n} done: done"));
            assert_eq!(told["from"], "hub", "{told}");
        }
    });
}

fn by_sql(swarm: &Swarm, task: &str) {
    let at = now();
    swarm.by_hand(&format!(
        "UPDATE tasks SET status = 'claimed', assigned_agent = 's', epoch = epoch + 1, claimed_at = '{at}'
         WHERE id = '{task}' AND status = 'ready'"
    ));
    swarm.becomes(task, "claimed");
    swarm.by_hand(&format!(
        "UPDATE tasks SET status = 'completed', result = '{{\"summary\":\"done by hand\"}}', completed_at = '{at}'
         WHERE id = '{task}' AND assigned_agent = 's' AND epoch = 1"
    ));
}

#[test]
fn messages_go_from_every_dialect_to_a_role_and_are_acknowledged() {
    everywhere(ROLES, |swarm| {
        let mut worker = agents(swarm);
        let mut oracle = role(swarm, "oracle");
        let message = |id: &str| json!({"id": id, "to": "oracle", "type": "custom", "payload": {"text": id}, "ackRequired": true});
        let body = json!({"agentId": "h", "message": message("by-http")});
        let sent = swarm.http().post(&format!("{API}/messages"), &body);
        sent.expect(200);
        swarm.by_hand(
            "INSERT INTO messages (id, type, from_agent, to_agent, payload, ack_required)
             VALUES ('by-sql', 'custom', 's', 'oracle', '{\"text\":\"by-sql\"}', 1)",
        );
        let body = json!({"agentId": "f", "message": message("by-file")});
        let sent = swarm.by_file("send", "SEND_MESSAGE", body);
        assert_eq!(sent["success"], true, "{sent}");
        let mail = json!({"message_id": "by-bus", "from": "w", "to": "oracle", "type": "custom",
            "body": {"text": "by-bus"}, "ack_required": true});
        worker
            .say("agent_message.v1", mail)
            .expect("it can be said");
        let mut left = vec![
            ("by-http", "h", "(H #"),
            ("by-sql", "s", "(S #"),
            ("by-file", "f", "(F #"),
            ("by-bus", "w", "(W #"),
        ];
        while !left.is_empty() {
            let came = hears(&mut oracle, "[ACK REQUIRED] by-");
            let content = came["content"].as_str().expect("it is text");
            let at = left.iter().position(|(id, ..)| content.ends_with(id));
            let (id, from, header) = left.remove(at.expect("it was sent"));
            assert!(content.starts_with(header), "{came}");
            assert_eq!(came["from"], from, "{came}");
            tell(
                &mut oracle,
                &json!({ "type": "receipt", "traceId": came["traceId"] }),
            );
            swarm.delivery_becomes(id, "oracle", "acknowledged");
        }
    });
}

#[test]
fn messages_go_from_a_role_to_every_dialect_and_are_acknowledged() {
    everywhere(ROLES, |swarm| {
        let mut worker = agents(swarm);
        let mut http = swarm.http();
        let mut architect = role(swarm, "architect");
        for (n, to) in [(1, "h"), (2, "s"), (3, "f"), (4, "w")] {
            let (id, text) = (
                format!("to-{to}"),
                format!("(ARCH #{n}): [ACK REQUIRED] to-{to}"),
            );
            let ack = say(&mut architect, to, &id, &text);
            assert_eq!(ack["accepted"], true, "{ack}");
            let is_it = |message: &Value| {
                let (found, said) = (&message["id"], &message["payload"]["text"]);
                assert_eq!((found, said), (&json!(id), &json!(text)), "{message}");
            };
            let ack_path = format!("{API}/messages/{id}/ack");
            match to {
                "h" => {
                    let read = http.get(&format!("{API}/messages?agentId=h")).expect(200);
                    is_it(&read["messages"][0]);
                    http.post(&ack_path, &json!({"agentId": "h"})).expect(200);
                }
                "s" => {
                    let at = now();
                    swarm.by_hand(&format!(
                        "UPDATE messages SET delivered_at = '{at}' WHERE id = '{id}' AND to_agent = 's'"
                    ));
                    swarm.delivery_becomes(&id, "s", "delivered");
                    swarm.by_hand(&format!(
                        "UPDATE messages SET acknowledged_at = '{at}', acknowledged_by = 's' WHERE id = '{id}'"
                    ));
                }
                "f" => {
                    let asked = json!({"agentId": "f"});
                    let read = swarm.by_file("receive", "RECEIVE_MESSAGES", asked);
                    is_it(&read["messages"][0]);
                    http.post(&ack_path, &json!({"agentId": "f"})).expect(200);
                }
                _ => {
                    let came = worker.hear("agent_message.v1");
                    assert_eq!(came["message_id"], id, "{came}");
                    assert_eq!(came["body"]["text"], text, "{came}");
                    assert_eq!(came["ack_required"], true, "{came}");
                    swarm.delivery_becomes(&id, "w", "delivered");
                    worker
                        .say("agent_message_ack.v1", json!({"message_id": id}))
                        .expect("it can be said");
                }
            }
            until("its sender hears that it is acknowledged", || {
                let check = json!({ "type": "delivery-check", "requestId": "d", "messageId": id });
                tell(&mut architect, &check);
                let checked = next(&mut architect, "delivery-check-result")?;
                (checked["ack"]["status"] == "delivered.verified").then_some(())
            });
        }
    });
}
