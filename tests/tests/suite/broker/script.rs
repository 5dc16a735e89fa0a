//! A send client that keeps the contract of SquidRun's own, step by step (`tests/node/send.mjs`): with a hub, with one that
//! comes back in the middle, and with none.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use switchboard_tests::{Hub, Project, until};

use super::{broker, dial, next};
use crate::libsql::node;

/// A port that nobody uses, for hubs that come and go.
fn port() -> u16 {
    let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    any.local_addr().expect("it has an address").port()
}

struct Scripts {
    programs: PathBuf,
    project: Project,
    port: u16,
}

impl Scripts {
    fn new(what: &str) -> Option<Scripts> {
        let (programs, port) = (node(what)?, port());
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let project = Project::new().with_variable("SWITCHBOARD_BROKER_LISTEN", addr.to_string());
        Some(Scripts {
            programs,
            project,
            port,
        })
    }

    fn start(&self) -> Hub {
        let hub = self.project.start();
        let addr = broker(&self.project).expect("it listens");
        assert!(addr.ends_with(&format!(":{}", self.port)), "{addr}");
        hub
    }

    fn spawn(&self, target: &str, role: &str, id: &str, content: &str) -> Child {
        Command::new("node")
            .args(["send.mjs", target, role, id, content])
            .current_dir(&self.programs)
            .env("HM_SEND_PORT", self.port.to_string())
            .env("HM_SEND_PROJECT", self.project.root())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts")
    }

    fn send(&self, target: &str, role: &str, id: &str, content: &str) -> Value {
        did(self.spawn(target, role, id, content))
    }

    /// The row of a message, once it has this status.
    fn journaled(&self, id: &str, status: &str) -> (String, Option<String>) {
        let journal = self
            .project
            .root()
            .join(".squidrun/runtime/evidence-ledger.db");
        until(&format!("{id} is {status} in the journal"), || {
            let journal = rusqlite::Connection::open(&journal).ok()?;
            let row = "SELECT status, ack_status FROM comms_journal WHERE message_id = ?1";
            let row = journal.query_row(row, [id], |row| Ok((row.get(0)?, row.get(1)?)));
            row.ok().filter(|(is, _): &(String, _)| is == status)
        })
    }
}

/// What a script says that it did.
fn did(script: Child) -> Value {
    let output = script.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

// squidrun.route.send_script
#[test]
fn a_send_script_reaches_every_target() {
    let Some(scripts) = Scripts::new("the send script to every target") else {
        return;
    };
    let _hub = scripts.start();
    for (n, target) in (1..).zip(["architect", "builder", "oracle"]) {
        let mut reader = dial(&scripts.project, target).expect("the broker listens");
        let (id, content) = (format!("hm-{n}"), format!("#{n} to {target}"));
        let told = scripts.send(target, "user", &id, &content);
        assert_eq!(told["outcome"], "delivered", "{told}");
        let is_it = |message: &Value| message["traceId"] == *id && message["content"] == *content;
        while !is_it(&next(&mut reader, "message").expect("it comes")) {}
    }
    let told = scripts.send("user", "architect", "hm-4", "(ARCH #1): to a person");
    assert_eq!(
        (&told["outcome"], &told["file"]),
        (&"accepted".into(), &Value::Null)
    );
}

// squidrun.route.send_script
#[test]
fn a_send_script_is_answered_and_its_message_arrives_once() {
    let Some(scripts) = Scripts::new("the send script") else {
        return;
    };
    let _hub = scripts.start();
    let mut builder = dial(&scripts.project, "builder").expect("the broker listens");
    let told = scripts.send("2", "architect", "hm-1", "(ARCH #1): hello");
    assert_eq!(told["outcome"], "delivered", "{told}");
    assert_eq!(
        (&told["attempts"], &told["health"]),
        (&1.into(), &"healthy".into())
    );
    assert_eq!(told["acks"], serde_json::json!(["delivered.websocket"]));
    let came = next(&mut builder, "message").expect("it comes");
    assert_eq!(
        (&came["traceId"], &came["from"]),
        (&"hm-1".into(), &"architect".into())
    );
    // Nobody is there: it is accepted, and comes by file as well.
    let told = scripts.send("oracle", "architect", "hm-2", "(ARCH #2): to nobody yet");
    assert_eq!(
        (&told["outcome"], &told["file"]),
        (&"accepted".into(), &"oracle.txt".into())
    );
    assert_eq!(told["health"], "no_route", "{told}");
    let triggers = scripts.project.root().join(".squidrun/triggers");
    until("the file is taken", || {
        (!triggers.join("oracle.txt").exists()).then_some(())
    });
    let mut oracle = dial(&scripts.project, "oracle").expect("the broker listens");
    let came = next(&mut oracle, "message").expect("it comes");
    assert_eq!(came["content"], "(ARCH #2): to nobody yet", "{came}");
    // What comes after it is the next one: it came once.
    scripts.send("oracle", "architect", "hm-3", "(ARCH #3): and now");
    let came = next(&mut oracle, "message").expect("it comes");
    assert_eq!(came["traceId"], "hm-3", "{came}");
    // What is refused is tried again unless that is in vain, and is on record.
    let told = scripts.send("nobody", "architect", "hm-4", "(ARCH #4): who");
    assert_eq!(
        told["acks"],
        serde_json::json!(["invalid_target"]),
        "{told}"
    );
    scripts.journaled("hm-4", "failed");
    let told = scripts.send("builder-bg-1", "oracle", "hm-5", "(ORACLE #1): psst");
    assert_eq!(
        told["acks"],
        Value::from(vec!["owner_binding_violation"; 4])
    );
    assert_eq!(
        (&told["outcome"], &told["file"]),
        (&"failed".into(), &Value::Null)
    );
    scripts.journaled("hm-5", "failed");
}

// squidrun.route.send_script
#[test]
fn a_send_script_outlives_a_hub_that_is_killed_under_it() {
    let Some(scripts) = Scripts::new("the send script beside a hub that is killed") else {
        return;
    };
    let mut hub = scripts.start();
    // It waits for its answer while the hub is stopped, and then killed.
    hub.signal(switchboard_tests::Signal::STOP);
    let script = scripts.spawn("builder", "architect", "hm-1", "(ARCH #1): still there");
    hub.kill();
    let _hub = scripts.start();
    let told = did(script);
    assert!(
        told["outcome"] == "accepted" || told["outcome"] == "by file",
        "{told}"
    );
    let mut builder = dial(&scripts.project, "builder").expect("the broker listens");
    let came = next(&mut builder, "message").expect("it comes");
    assert_eq!(came["content"], "(ARCH #1): still there", "{came}");
    assert_eq!(came["traceId"], "hm-1", "{came}");
    scripts.send("builder", "oracle", "hm-2", "(ORACLE #1): the next one");
    let came = next(&mut builder, "message").expect("it comes");
    assert_eq!(came["traceId"], "hm-2", "it came once: {came}");
}

// squidrun.route.send_script
#[test]
fn a_send_script_without_a_hub_leaves_a_file_that_the_next_hub_takes() {
    let Some(scripts) = Scripts::new("the send script without a hub") else {
        return;
    };
    scripts.start().stop();
    let told = scripts.send("builder", "architect", "hm-1", "(ARCH #1): nobody is there");
    assert_eq!(
        (&told["outcome"], &told["attempts"]),
        (&"by file".into(), &4.into())
    );
    let _hub = scripts.start();
    let mut builder = dial(&scripts.project, "builder").expect("the broker listens");
    let came = next(&mut builder, "message").expect("it comes");
    assert_eq!(came["content"], "(ARCH #1): nobody is there", "{came}");
    assert_eq!(came["metadata"]["fallback"], true, "{came}");
    // The same by socket is the same message.
    let told = scripts.send("builder", "architect", "hm-1", "(ARCH #1): nobody is there");
    assert_eq!(
        (&told["attempts"], &told["file"]),
        (&1.into(), &Value::Null)
    );
    scripts.send("builder", "oracle", "hm-2", "(ORACLE #1): the next one");
    let came = next(&mut builder, "message").expect("it comes");
    assert_eq!(came["traceId"], "hm-2", "it came once: {came}");
    let (_, ack) = scripts.journaled("hm-1", "routed");
    assert_eq!(ack.as_deref(), Some("delivered.websocket"));
}
