//! The broker of the real binary: foreign clients, and kills.

use std::collections::{HashMap, HashSet};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_test_cluster::Missing;
use switchboard_tests::{Hub, Project, until};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::libsql::{node, run};

fn project() -> Project {
    Project::new().with_variable("SWITCHBOARD_BROKER_LISTEN", "127.0.0.1:0")
}

/// Where the broker of the hub that runs is, by its own word.
fn broker(project: &Project) -> Option<String> {
    let card = std::fs::read_to_string(project.data_dir().join("hub.json")).ok()?;
    let card: Value = serde_json::from_str(&card).ok()?;
    card["broker"].as_str().map(str::to_owned)
}

/// A connection under a role; nothing, if there is no hub.
fn dial(project: &Project, role: &str) -> Option<WebSocket<TcpStream>> {
    let addr = broker(project)?;
    let socket = TcpStream::connect(&addr).ok()?;
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .ok()?;
    let (mut ws, _) = client(format!("ws://{addr}/"), socket).ok()?;
    let register = json!({ "type": "register", "role": role });
    ws.send(Message::text(register.to_string())).ok()?;
    next(&mut ws, "registered")?;
    Some(ws)
}

/// The next frame of a type.
fn next(ws: &mut WebSocket<TcpStream>, kind: &str) -> Option<Value> {
    loop {
        if let Message::Text(text) = ws.read().ok()? {
            let frame: Value = serde_json::from_str(&text).expect("a frame is JSON");
            if frame["type"] == kind {
                return Some(frame);
            }
        }
    }
}

#[test]
fn a_client_of_node_runs_the_whole_catalogue() {
    let Some(programs) = node("the broker's foreign client") else {
        return;
    };
    let project = project();
    let _hub = project.start();
    let url = format!("ws://{}", broker(&project).expect("it listens"));
    let said = run(&programs, "broker.mjs", &[("BROKER_URL".to_owned(), url)]);
    assert!(said.contains("all frames"), "{said}");
}

#[test]
fn a_client_of_python_runs_the_whole_catalogue() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Where `scripts/test` puts it.
    let python = tests.join("../target/schemathesis/bin/python");
    let has_client = Command::new(&python)
        .args(["-c", "import websockets"])
        .status();
    if !has_client.is_ok_and(|status| status.success()) {
        return Missing::Schemathesis.skip("the broker's client in Python");
    }
    let project = project();
    let _hub = project.start();
    let output = Command::new(&python)
        .arg(tests.join("python/broker.py"))
        .env(
            "BROKER_URL",
            format!("ws://{}", broker(&project).expect("it listens")),
        )
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    assert!(said.contains("all frames"), "{said}");
}

#[test]
fn up_says_where_the_broker_is() {
    let project = project();
    let hub = project.start();
    let addr = broker(&project).expect("it listens");
    let line = format!("the broker is at ws://{addr}");
    assert!(hub.stdout().contains(&line), "{}", hub.stdout());
}

const KILLS: usize = 4;
const EACH: usize = 25;

/// Ids in the order in which they came, with whether each copy says that it may be one.
type Came = Arc<Mutex<Vec<(String, bool)>>>;

#[test]
fn every_accepted_message_arrives_whatever_is_killed() {
    let project = Arc::new(project());
    let mut hub: Hub = project.start();
    let (over, came) = (Arc::new(AtomicBool::new(false)), Came::default());
    let reader = {
        let (project, over, came) = (Arc::clone(&project), Arc::clone(&over), Arc::clone(&came));
        std::thread::spawn(move || read_all(&project, &over, &came))
    };
    let mut accepted = HashSet::new();
    for kill in 0..=KILLS {
        for n in 0..EACH {
            let id = format!("m-{kill}-{n}");
            if kill < KILLS && n == EACH / 2 {
                hub.kill();
                hub = project.start();
            }
            send_until_accepted(&project, &id);
            accepted.insert(id);
        }
    }
    let all_came = || {
        let came = came.lock().expect("nobody panicked");
        let ids: HashSet<&String> = came.iter().map(|(id, _)| id).collect();
        (ids.len() == accepted.len()).then_some(())
    };
    until("every message", all_came);
    over.store(true, Ordering::Relaxed);
    drop(hub);
    reader.join().expect("the reader ends");
    let mut copies: HashMap<String, Vec<bool>> = HashMap::new();
    for (id, is_marked) in came.lock().expect("nobody panicked").iter() {
        assert!(accepted.contains(id), "{id} was never accepted");
        copies.entry(id.clone()).or_default().push(*is_marked);
    }
    for (id, marks) in copies {
        let unmarked = marks.iter().filter(|is_marked| !**is_marked).count();
        assert!(unmarked <= 1, "{id} came more than once as new: {marks:?}");
    }
}

/// Everything that is sent to the builder, over however many connections.
fn read_all(project: &Project, over: &AtomicBool, came: &Came) {
    while !over.load(Ordering::Relaxed) {
        let Some(mut ws) = dial(project, "builder") else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        while let Some(message) = next(&mut ws, "message") {
            let id = message["traceId"].as_str().expect("a trace").to_owned();
            let is_marked = message["metadata"]["redelivered"] == true;
            came.lock().expect("nobody panicked").push((id, is_marked));
        }
    }
}

/// As the send client does: the same id again until it is accepted.
fn send_until_accepted(project: &Project, id: &str) {
    let send = json!({ "type": "send", "target": "builder", "content": format!("(ARCH #1): {id}"), "messageId": id, "ackRequired": true });
    until("the message to be accepted", || {
        let mut ws = dial(project, "architect")?;
        ws.send(Message::text(send.to_string())).ok()?;
        let ack = next(&mut ws, "send-ack")?;
        (ack["accepted"] == true).then_some(())
    });
}
