//! Workers and hubs that are stopped, killed and frozen: nothing is lost, nothing is spent, nobody is given up.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_tests::{Project, switchboard, until};

use super::peer::Peer;

/// Ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ctrl_c_on_a_worker_spends_no_retry_and_touches_no_other_task() {
    for signal in [Signal::INT, Signal::TERM] {
        let project = Project::new().with_bus();
        let hub = project.start();
        let mut client = hub.client();
        for task in ["t", "u", "v"] {
            client.create(task);
        }
        let worker = Command::new(switchboard())
            .args(["bus", "worker", "--id", "w", "--run", "sleep 1000"])
            .current_dir(project.root())
            .env_remove("SWITCHBOARD_BUS")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut worker = Running(worker.expect("it starts"));
        until("it is at its task", || {
            (client.task("t")["status"] == "in_progress").then_some(())
        });
        let pid = i32::try_from(worker.0.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process has a number"), signal).expect("it runs");
        until("it has left", || worker.0.try_wait().expect("it is ours"));
        for (task, epoch) in [("t", 1), ("u", 0), ("v", 0)] {
            let task = client.task(task);
            assert_eq!(task["status"], "ready", "{task}");
            assert_eq!(task["epoch"], epoch, "{task}");
            assert_eq!(task["retryCount"], 0, "{task}");
        }
        hub.stop();
    }
}

#[test]
fn a_hub_that_was_frozen_asks_before_it_gives_anybody_up() {
    let project = Project::new()
        .with_bus()
        .with_variable("SWITCHBOARD_TIMEOUTS_WORKER_HEARTBEAT_TTL_SECONDS", "5")
        .with_variable("SWITCHBOARD_AGENT_BUS_HEARTBEAT_INTERVAL_SECONDS", "2");
    let hub = project.start();
    let mut client = hub.client();
    let mut worker = Peer::hand(hub.bus(), "w");
    client.create("t");
    let held = worker.assigned();
    worker.accept(&held);
    worker.settle();
    hub.signal(Signal::STOP);
    // Longer than a worker may be silent, and than a hub may be busy.
    std::thread::sleep(Duration::from_secs(12));
    hub.signal(Signal::CONT);
    worker.hear("worker_probe.v1");
    worker.beat("CODE", held.number);
    worker.settle();
    let task = client.task(&held.task);
    assert_eq!(task["assignedAgent"], "w", "{task}");
    assert_eq!(
        (&task["epoch"], &task["retryCount"]),
        (&json!(1), &json!(0))
    );
    hub.stop();
}

#[test]
fn what_was_not_acknowledged_when_the_hub_was_killed_comes_again_over_any_door() {
    let project = Project::new().with_bus();
    let mut hub = project.start();
    let mut client = hub.client();
    client.register("w");
    let mut worker = Peer::hand(hub.bus(), "w");
    let message =
        json!({"id": "m", "to": "w", "type": "custom", "payload": {}, "ackRequired": true});
    let sent = client.post("/api/v1/messages", &json!({ "message": message }));
    sent.expect(200);
    worker.hear("agent_message.v1");
    until("it counts as handed over", || {
        let shown = client.get("/api/v1/messages/m").expect(200);
        (shown["deliveries"][0]["state"] == "delivered").then_some(())
    });
    hub.kill();
    drop(worker);
    let hub = project.start();
    let mut client = hub.client();
    let got = client.get("/api/v1/messages?agentId=w").expect(200);
    let message = &got["messages"][0];
    assert_eq!(message["id"], "m", "{got}");
    assert_eq!(message["redelivered"], true, "{got}");
    let got = client.get("/api/v1/messages?agentId=w").expect(200);
    assert_eq!(got["messages"], json!([]), "a pull is an answer");
    hub.stop();
}
