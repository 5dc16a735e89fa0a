//! The broker of the real binary: foreign clients, and kills.

mod interop;
mod kills;
mod script;

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_test_cluster::Missing;
use switchboard_tests::Project;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::libsql::{node, run};

pub fn project() -> Project {
    Project::new().with_variable("SWITCHBOARD_BROKER_LISTEN", "127.0.0.1:0")
}

/// Where the broker of the hub that runs is, by its own word.
pub fn broker(project: &Project) -> Option<String> {
    let card = std::fs::read_to_string(project.data_dir().join("hub.json")).ok()?;
    let card: Value = serde_json::from_str(&card).ok()?;
    card["broker"].as_str().map(str::to_owned)
}

/// A connection under a role; nothing, if there is no hub.
fn dial(project: &Project, role: &str) -> Option<WebSocket<TcpStream>> {
    enter(&broker(project)?, role)
}

fn enter(addr: &str, role: &str) -> Option<WebSocket<TcpStream>> {
    let mut ws = open(addr)?;
    register(&mut ws, role)?;
    Some(ws)
}

pub fn open(addr: &str) -> Option<WebSocket<TcpStream>> {
    let socket = TcpStream::connect(addr).ok()?;
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .ok()?;
    let (ws, _) = client(format!("ws://{addr}/"), socket).ok()?;
    Some(ws)
}

/// The answer.
pub fn register(ws: &mut WebSocket<TcpStream>, role: &str) -> Option<Value> {
    let register = json!({ "type": "register", "role": role });
    ws.send(Message::text(register.to_string())).ok()?;
    next(ws, "registered")
}

/// The next frame; nothing, once the connection has ended.
pub fn frame(ws: &mut WebSocket<TcpStream>) -> Option<Value> {
    loop {
        if let Message::Text(text) = ws.read().ok()? {
            return Some(serde_json::from_str(&text).expect("a frame is JSON"));
        }
    }
}

/// The next frame of a type.
pub fn next(ws: &mut WebSocket<TcpStream>, kind: &str) -> Option<Value> {
    loop {
        let frame = frame(ws)?;
        if frame["type"] == kind {
            return Some(frame);
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
