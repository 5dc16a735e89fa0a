//! The clock of the hub's machine is set: no lease ends before its time, nothing that was acknowledged is deleted.

use std::process::Command;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::{Value, json};
use switchboard_core::iso;
use switchboard_tests::faults::WallClock;
use switchboard_tests::{API, Client, Project, Request, switchboard, until};

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;
const DAY_MS: i64 = DAY_S * 1000;

/// What was done before, and is looked at again and again.
pub struct Swarm {
    create: Request,
    began_ms: i64,
}

impl Swarm {
    /// A task that was made under a key and completed, and a lease of ten minutes.
    pub fn begin(client: &mut Client) -> Swarm {
        let began_ms = now_ms(client);
        ["holder", "other"]
            .iter()
            .for_each(|agent| client.register(agent));
        let task = json!({"id": "done", "title": "a task", "description": "that is done"});
        let create = Request::post(format!("{API}/tasks"), &task).key("made-once");
        client.send(&create).expect("it is answered").expect(201);
        let claimed = client.claim("holder").expect("there is a task");
        assert_eq!(claimed["id"], "done");
        client.complete("holder", "done", 1);
        assert_eq!(acquire(client, "holder")["success"], true);
        Swarm { create, began_ms }
    }

    /// All is as it was, and little time has passed.
    pub fn is_untouched(&self, client: &mut Client) {
        let beat = json!({"agentId": "holder", "status": "idle"});
        client
            .post(&format!("{API}/agents/holder/heartbeat"), &beat)
            .expect(200);
        let other = acquire(client, "other");
        assert_eq!(other["success"], false, "the lease was given away: {other}");
        let again = client.send(&self.create).expect("it is answered");
        assert!(again.is_replay(), "the key is forgotten");
        assert_eq!(client.task("done")["status"], "completed");
        let passed_ms = now_ms(client) - self.began_ms;
        assert!((0..600_000).contains(&passed_ms), "{passed_ms} ms passed");
    }
}

/// The steps of the clock that are in the ledger, in seconds.
pub fn steps(client: &mut Client) -> Vec<i64> {
    let by = |event: &Value| (event["byMs"].as_i64().expect("it is a number") + 500) / 1000;
    let steps = client.events().into_iter().filter_map(|event| {
        match event["type"].as_str().expect("it has one") {
            "clock_stepped_forward" => Some(by(&event)),
            "clock_stepped_back" => Some(-by(&event)),
            _ => None,
        }
    });
    steps.collect()
}

/// Waits until the last of so many steps is in the ledger; they may be off by how long that took.
pub fn stepped(client: &mut Client, expected: &[i64]) {
    let found = until("the step is in the ledger", || {
        let found = steps(client);
        (found.len() >= expected.len()).then_some(found)
    });
    let close = |(found, wanted): (&i64, &i64)| (found - wanted).abs() < 60;
    let all = found.iter().zip(expected).all(close);
    assert!(all && found.len() == expected.len(), "{found:?}");
}

fn acquire(client: &mut Client, agent: &str) -> Value {
    let body =
        json!({"agentId": agent, "taskId": null, "filePath": "src/a.rs", "durationMs": 600_000});
    client
        .post(&format!("{API}/leases/acquire"), &body)
        .expect(200)
}

fn now_ms(client: &mut Client) -> i64 {
    let now = client.status()["now"].as_str().and_then(iso::parse);
    now.expect("it tells the time").0
}

#[test]
fn a_clock_that_is_set_ends_no_lease_and_forgets_nothing() {
    let (project, wall) = WallClock::of(Project::new());
    let mut hub = project.start();
    let swarm = Swarm::begin(&mut hub.client());
    let mut told = Vec::new();
    let mut before = 0;
    for seconds in [HOUR_S, 25 * HOUR_S, 400 * DAY_S, -HOUR_S, 0] {
        wall.set(seconds);
        told.push(seconds - before);
        before = seconds;
        let mut client = hub.client();
        stepped(&mut client, &told);
        swarm.is_untouched(&mut client);
        let ahead_ms = client.status()["clockAheadMs"].as_i64();
        let off_ms = ahead_ms.expect("it is a number") - seconds * 1000;
        assert!(off_ms.abs() < 60_000, "{ahead_ms:?}");
        drop(client);
        // A hub that is started anew knows how long it was away.
        hub.stop();
        hub = project.start();
        let mut client = hub.client();
        swarm.is_untouched(&mut client);
        stepped(&mut client, &told);
    }
    let logged = hub.stop().stderr;
    assert!(
        !logged.contains("the wall clock jumped"),
        "told once: {logged}"
    );
}

#[test]
fn a_clock_that_is_set_while_no_hub_runs_is_told_by_the_next() {
    let (project, wall) = WallClock::of(Project::new());
    let hub = project.start();
    let swarm = Swarm::begin(&mut hub.client());
    hub.stop();
    wall.set(400 * DAY_S);
    let hub = project.start();
    let mut client = hub.client();
    stepped(&mut client, &[400 * DAY_S]);
    swarm.is_untouched(&mut client);
    let say = |arguments: &[&str]| {
        let mut command = Command::new(switchboard());
        let output = command.args(arguments).current_dir(project.root()).output();
        String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned()
    };
    let said = say(&["doctor"]);
    assert!(said.contains("the hub's clock was set forward"), "{said}");
    assert!(said.contains("switchboard incident list"), "{said}");
    let id = "clock_stepped:wall clock";
    let listed = say(&["incident", "list"]);
    assert!(listed.contains(id), "{listed}");
    say(&["incident", "resolve", id, "--reason", "NTP is back"]);
    let listed = say(&["incident", "list"]);
    assert!(listed.contains("no open incidents"), "{listed}");
    let resolved: Value =
        serde_json::from_str(&say(&["incident", "list", "--resolved", "--json"])).expect("JSON");
    assert_eq!(resolved["incidents"][0]["resolved"]["why"], "NTP is back");
    drop(client);
    let logged = hub.stop().stderr;
    assert!(logged.contains("ERROR"), "{logged}");
    assert!(logged.contains("the wall clock jumped by"), "{logged}");
}

#[test]
fn more_than_thirty_days_are_believed_only_of_a_clock_that_somebody_vouches_for() {
    let project = Project::new();
    let hub = project.start();
    let swarm = Swarm::begin(&mut hub.client());
    hub.stop();
    let set_back = |days: i64| {
        let db = Connection::open(project.database()).expect("the file can be opened");
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
            .expect("triggers can be switched off");
        // As if the machine had been off since.
        let sql = "UPDATE sb_head SET served_at = served_at - ?1, last_at = last_at - ?1, floor = floor - ?1,
            clock_at = clock_at - ?1, clock_wall = clock_wall - ?1, clock_boot = 'another'";
        let changed = db.execute(sql, [days * DAY_MS]);
        assert_eq!(changed.expect("the clock can be set back"), 1);
    };
    set_back(29);
    project.start().stop();
    set_back(31);
    let ended = project.start_in_vain();
    assert_ne!(ended.status.code(), Some(0));
    for part in ["last served at 20", "clock shows 20", "--clock-is-right"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    let vouched = project.through(["sh", "-c", "exec \"$@\" --clock-is-right", "sh"]);
    let hub = vouched.start();
    let mut client = hub.client();
    // The lease is over by now; the key was not served away.
    let again = client.send(&swarm.create).expect("it is answered");
    assert!(again.is_replay(), "the key is forgotten");
    assert_eq!(client.task("done")["status"], "completed");
    drop(client);
    hub.stop();
}
