//! Time is the database's: a coordinator whose clock is wrong by an hour changes nothing.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_core::iso;
use switchboard_test_cluster::{Cluster, Database};
use switchboard_tests::faults::with_wrong_clock;
use switchboard_tests::{API, Client, Hub, Project, Request, registration, until};
use switchboard_wire::signature::{AgentKey, MasterKey};

use super::Team;
use crate::clock::{Swarm, stepped};

const HOUR_S: i64 = 3600;
const HOUR_MS: i64 = HOUR_S * 1000;
/// One that is right, one that is ahead, one that is behind.
const WRONG_BY_S: [i64; 3] = [0, HOUR_S, -HOUR_S];
const LEASE_MS: i64 = 2500;

fn team(database: &Database, change: impl Fn(Project) -> Project) -> Team {
    let project = |seconds: &i64| {
        // So that it says something, with its time.
        let talks = Project::on(&database.url).with_variable("SWITCHBOARD_LOG_FILTER", "debug");
        with_wrong_clock(change(talks), *seconds)
    };
    let team = Team::of(WRONG_BY_S.iter().map(project).collect());
    for (hub, seconds) in team.hubs.iter().zip(WRONG_BY_S) {
        let off_ms = clock_of(hub) - wall_ms() - seconds * 1000;
        assert!(off_ms.abs() < HOUR_MS / 2, "its clock is not wrong enough");
    }
    team
}

/// The time that a coordinator writes beside its first words.
fn clock_of(hub: &Hub) -> i64 {
    let said = until("it says something", || {
        let said = hub.stderr();
        said.contains('\n').then_some(said)
    });
    let is_time = |text: &&str| {
        let bytes = text.as_bytes();
        (bytes[4], bytes[10], bytes[13], bytes[16]) == (b'-', b'T', b':', b':')
    };
    let mut places = (0..said.len()).filter_map(|from| said.get(from..from + 19));
    let to_the_second = places.find(is_time).expect("a line has its time");
    at(&json!(format!("{to_the_second}.000Z")))
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is after 1970").as_millis() as i64
}

#[test]
fn coordinators_whose_clocks_are_wrong_by_an_hour_all_go_by_the_databases_time() {
    let Some(server) = Cluster::shared("wrong clocks") else {
        return;
    };
    let database = server.create_database();
    let began = database_ms(&database);
    let team = team(&database, |project| project);
    let mut clients = team.clients();
    let hubs = clients.len();
    for (n, client) in clients.iter_mut().enumerate() {
        client.register(&agent(n));
        let shown = at(&client.status()["now"]);
        assert!((shown - database_ms(&database)).abs() < HOUR_MS / 2);
    }
    let mut ends = Vec::new();
    for n in 0..hubs {
        // Made here, taken there, completed elsewhere.
        let task = format!("t-{n}");
        clients[n].create(&task);
        let taken = clients[(n + 1) % hubs].claim(&agent(n));
        assert_eq!(taken.expect("there is one")["id"], task.as_str());
        let before = database_ms(&database);
        let granted = acquire(&mut clients[n], n, n);
        let after = database_ms(&database);
        let end = at(&granted["lease"]["expiresAt"]);
        assert!(before + LEASE_MS <= end && end <= after + LEASE_MS);
        let other = acquire(&mut clients[(n + 1) % hubs], n + 1, n);
        let is_over = database_ms(&database) >= end;
        assert!(is_over || other["success"] == false, "{other}");
        clients[(n + 2) % hubs].complete(&agent(n), &task, 1);
        ends.push(end);
    }
    for (n, end) in ends.into_iter().enumerate() {
        let next = until("the lease ends", || {
            let granted = acquire(&mut clients[(n + 2) % hubs], n + 1, n);
            (granted["success"] == true).then_some(granted)
        });
        assert!(
            at(&next["lease"]["expiresAt"]) >= end + LEASE_MS,
            "too soon"
        );
    }
    for client in &mut clients {
        let before = client.figure("switchboard_verbs_total");
        until("its caretaker has looked at everything", || {
            (client.figure("switchboard_verbs_total") >= before + ONE_SWEEP).then_some(())
        });
    }
    let log = clients[0].events();
    let ended = database_ms(&database);
    let mut last = began;
    for event in &log {
        assert!((last..=ended).contains(&at(&event["at"])), "{event}");
        last = at(&event["at"]);
        let never = [
            "agent_silent",
            "outage_ended",
            "clock_stepped_back",
            "clock_stepped_forward",
        ];
        assert!(!never.contains(&event["type"].as_str().unwrap_or_default()));
    }
    drop(clients);
    team.stop();
}

/// Retries, leases, messages, silent agents.
const ONE_SWEEP: u64 = 4;

#[test]
fn a_signed_call_is_judged_by_the_databases_time_whatever_a_coordinators_clock_shows() {
    let Some(server) = Cluster::shared("signatures under wrong clocks") else {
        return;
    };
    let database = server.create_database();
    let team = team(&database, |project| {
        project.with_variable("SWITCHBOARD_AUTH_MODE", "hmac")
    });
    let key = fs::read_to_string(team.projects[1].data_dir().join("key"));
    let master = MasterKey::from_hex(&key.expect("a key is kept")).expect("it is a key");
    for (n, hub) in team.hubs.iter().enumerate() {
        let (agent, mut client) = (agent(n), hub.client());
        let key = key_of(&mut client, &master, &agent);
        let register = |at_ms: i64, nonce: &str| {
            Request::post(format!("{API}/agents/register"), &registration(&agent))
                .signed(&agent, &key, at_ms, nonce)
        };
        for wrong in [-HOUR_MS, HOUR_MS] {
            let request = register(database_ms(&database) + wrong, "n1");
            let answer = client.send(&request).expect("it is answered");
            answer.expect_error(401, "unauthenticated");
        }
        let request = register(database_ms(&database), "n2");
        client.send(&request).expect("it is answered").expect(200);
        // What was said to one coordinator cannot be said again to another.
        for hub in &team.hubs {
            let again = hub.client().send(&request).expect("it is answered");
            again.expect_error(401, "unauthenticated");
        }
    }
    team.stop();
}

/// Makes the database's clock one that can be set, for whoever connects from now on.
const CLOCK_THAT_CAN_BE_SET: &str = "
    CREATE TABLE wrong_by(ms bigint);
    INSERT INTO wrong_by VALUES (0);
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
      $$ SELECT pg_catalog.clock_timestamp() + (SELECT ms FROM public.wrong_by) * interval '1 ms' $$;
    DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$";

#[test]
fn a_databases_clock_that_is_set_ends_no_lease_and_forgets_nothing() {
    let Some(server) = Cluster::shared("a clock that is set") else {
        return;
    };
    let database = server.create_database();
    database.sql(CLOCK_THAT_CAN_BE_SET);
    let team = Team::on(&database.url, 2);
    let mut clients = team.clients();
    let swarm = Swarm::begin(&mut clients[0]);
    let (mut told, mut before) = (Vec::new(), 0);
    for seconds in [HOUR_S, 25 * HOUR_S, 400 * 24 * HOUR_S, -HOUR_S, 0] {
        database.sql(&format!("UPDATE wrong_by SET ms = {}", seconds * 1000));
        told.push(seconds - before);
        before = seconds;
        // Whoever notices first tells.
        stepped(&mut clients[1], &told);
        clients
            .iter_mut()
            .for_each(|client| swarm.is_untouched(client));
        // One that comes later goes by the head.
        let late = Project::on(&database.url).start();
        swarm.is_untouched(&mut late.client());
        late.stop();
        stepped(&mut clients[0], &told);
    }
    let log = clients[0].events();
    let times: Vec<i64> = log.iter().map(|event| at(&event["at"])).collect();
    assert!(times.is_sorted(), "time went back");
    drop(clients);
    team.stop();
}

fn key_of(client: &mut Client, master: &MasterKey, agent: &str) -> AgentKey {
    let path = format!("{API}/agents/{agent}/keys");
    let request = Request::post(path, &json!({})).header(
        "Authorization",
        format!("Bearer {}", master.steward_token()),
    );
    let made = client.send(&request).expect("it is answered").expect(201);
    let key = made["key"].as_str().and_then(AgentKey::from_text);
    key.expect("a key is made")
}

fn acquire(client: &mut Client, by: usize, path: usize) -> Value {
    let path = format!("src/{path}.rs");
    let by = agent(by % WRONG_BY_S.len());
    let body = json!({"agentId": by, "taskId": null, "filePath": path, "durationMs": LEASE_MS});
    client
        .post(&format!("{API}/leases/acquire"), &body)
        .expect(200)
}

fn agent(n: usize) -> String {
    format!("a-{n}")
}

fn at(time: &Value) -> i64 {
    let parsed = time.as_str().and_then(iso::parse);
    parsed.unwrap_or_else(|| panic!("no time: {time}")).0
}

fn database_ms(database: &Database) -> i64 {
    let told = database.sql("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint");
    told.parse().expect("it is a number")
}
