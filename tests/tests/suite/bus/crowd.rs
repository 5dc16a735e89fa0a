//! Many connections that say nothing, and a hub that goes on.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use switchboard_tests::{API, Project};

use super::peer::Peer;

const CONNECTIONS: usize = 1000;
/// Connections that are made at the same time.
const AT_ONCE: usize = 16;
/// Files that this process may need besides.
const OTHERS: u64 = 512;

#[test]
fn a_thousand_idle_connections_are_in_nobodys_way() {
    raise_the_limit();
    let project = Project::new().with_bus();
    let hub = project.start();
    let (bus, next) = (hub.bus(), AtomicUsize::new(0));
    let crowd = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= CONNECTIONS {
                        return;
                    }
                    let peer = Peer::worker(bus, &format!("idle-{n:04}"), &[]);
                    crowd.lock().expect("nobody fails").push(peer);
                }
            });
        }
    });
    let mut client = hub.client();
    client.create("by-http");
    client.register("h");
    client.claim("h").expect("there is one");
    client.complete("h", "by-http", 1);
    let mut worker = Peer::hand(bus, "w");
    client.create("by-bus");
    let task = worker.assigned();
    worker.finish(&task);
    worker.settle();
    assert_eq!(client.task("by-bus")["status"], "completed");
    assert_eq!(everyone(&mut Peer::operator(bus, "o")), CONNECTIONS + 2);
    // None of them was given up.
    let mut crowd = crowd.into_inner().expect("nobody failed");
    for idle in [0, CONNECTIONS / 2, CONNECTIONS - 1] {
        assert!(crowd[idle].settle().is_empty());
    }
    let agent = client.get(&format!("{API}/agents/idle-0000")).expect(200);
    assert_eq!(agent["agent"]["status"], "idle", "{agent}");
    drop(crowd);
    hub.stop();
}

/// Agents of one snapshot, which comes in parts.
fn everyone(operator: &mut Peer) -> usize {
    let first = operator.hear("project_state_snapshot.v1");
    let count = |part: &Value| part["workers"].as_array().map_or(0, Vec::len);
    let parts = first["parts"].as_u64().unwrap_or(1);
    let mut all = count(&first);
    for _ in 1..parts {
        let part = operator.hear_such("project_state_snapshot.v1", |part| {
            part["snapshot_id"] == first["snapshot_id"]
        });
        all += count(&part);
    }
    all
}

/// As many files as the system allows, if it is not enough as it is.
fn raise_the_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = CONNECTIONS as u64 + OTHERS;
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        setrlimit(Resource::Nofile, raised).expect("it may be raised up to the maximum");
    }
}
