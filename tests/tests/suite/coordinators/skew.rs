//! Two coordinators decide at the same time about what only together would be wrong. Ten thousand times.

use std::collections::BTreeMap;
use std::thread;

use serde_json::{Value, json};
use switchboard_test_cluster::Cluster;
use switchboard_tests::{API, Client, Request, completion};

use super::Team;

/// Of each kind of race.
const RACES: usize = 5000;
/// Races that run beside each other, so that batches hold several of them.
const LANES: usize = 20;
const RACES_PER_LANE: usize = RACES / LANES;

#[test]
fn the_last_two_dependencies_completed_at_once_on_two_coordinators_always_release_the_dependant() {
    let Some(server) = Cluster::shared("write skew in dependencies") else {
        return;
    };
    let database = server.create_database();
    let team = Team::on(&database.url, 2);
    in_lanes(|lane| {
        let mut clients = team.clients();
        prepare(&mut clients[0], lane);
        for race in 0..RACES_PER_LANE {
            let complete = |side: usize| {
                let body = completion(&agent(lane, side), 1);
                let task = task(lane, race, SIDES[side]);
                Request::post(format!("{API}/tasks/{task}/complete"), &body)
            };
            for answer in at_once(&mut clients, race, complete) {
                assert_eq!(answer["status"], "completed", "{answer}");
            }
        }
    });
    let mut client = team.client(0);
    let tasks = client.status()["tasks"].take();
    let counts = [&tasks["ready"], &tasks["completed"], &tasks["total"]];
    assert_eq!(
        counts,
        [RACES, 2 * RACES, 3 * RACES]
            .map(|count| json!(count))
            .each_ref()
    );
    let mut released: BTreeMap<String, usize> = BTreeMap::new();
    for event in client.events() {
        if event["type"] == "task_ready" {
            *released.entry(event["task"].to_string()).or_default() += 1;
        }
    }
    assert_eq!(released.len(), RACES);
    assert!(
        released.values().all(|times| *times == 1),
        "released more than once"
    );
    team.stop();
}

#[test]
fn overlapping_leases_asked_for_at_once_on_two_coordinators_are_never_both_granted() {
    let Some(server) = Cluster::shared("write skew in leases") else {
        return;
    };
    let database = server.create_database();
    let team = Team::on(&database.url, 2);
    let wins = in_lanes(|lane| {
        let mut clients = team.clients();
        [0, 1]
            .iter()
            .for_each(|side| clients[0].register(&agent(lane, *side)));
        let mut wins = [0, 0];
        for race in 0..RACES_PER_LANE {
            let acquire = |side: usize| {
                let path = format!("src/{lane}/{race}/{}", ["**", "a.rs"][side]);
                let body = json!({"agentId": agent(lane, side), "taskId": null, "filePath": path, "durationMs": 3_600_000});
                Request::post(format!("{API}/leases/acquire"), &body)
            };
            let answers = at_once(&mut clients, race, acquire);
            let granted = [0, 1].map(|side| answers[side]["success"] == true);
            assert!(granted[0] != granted[1], "{answers:?}");
            let loser = usize::from(granted[0]);
            let holder = agent(lane, 1 - loser);
            assert_eq!(answers[loser]["heldBy"], holder, "{answers:?}");
            wins[1 - loser] += 1;
        }
        wins
    });
    let mut client = team.client(1);
    assert_eq!(client.status()["leases"], RACES);
    let wins = [0, 1].map(|side| wins.iter().map(|won| won[side]).sum::<usize>());
    println!("the folder won {} races, the file {}", wins[0], wins[1]);
    assert!(
        wins.iter().all(|won| *won > 0),
        "one of them was never first"
    );
    team.stop();
}

const SIDES: [&str; 2] = ["left", "right"];

/// Sends both at once, each to another coordinator and in changing roles. Answers by side.
fn at_once(clients: &mut [Client], race: usize, request: impl Fn(usize) -> Request) -> [Value; 2] {
    let place = |side: usize| (side + race) % 2;
    // Who is sent first changes as well.
    let first = race / 2 % 2;
    for side in [first, 1 - first] {
        let begun = clients[place(side)].begin(&request(side));
        begun.expect("the coordinator listens");
    }
    [0, 1].map(|side| {
        let answer = clients[place(side)].finish();
        answer.expect("the coordinator answers").expect(200)
    })
}

fn in_lanes<T: Send>(race: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let race = &race;
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| scope.spawn(move || race(lane)))
            .collect();
        let join = |lane: thread::ScopedJoinHandle<'_, T>| {
            lane.join()
                .unwrap_or_else(|failed| std::panic::resume_unwind(failed))
        };
        lanes.into_iter().map(join).collect()
    })
}

/// For each race two tasks, held by two agents, and a third that waits for both.
fn prepare(client: &mut Client, lane: usize) {
    let races = || 0..RACES_PER_LANE;
    let tasks = races().flat_map(|race| {
        let [left, right] = SIDES.map(|side| task(lane, race, side));
        let last = task(lane, race, "last");
        [
            json!({"id": left, "title": "left"}),
            json!({"id": right, "title": "right"}),
            json!({"id": last, "title": "last", "dependencies": [left, right]}),
        ]
    });
    let tasks: Vec<Value> = tasks.collect();
    client
        .post(&format!("{API}/tasks"), &json!({"tasks": tasks}))
        .expect(201);
    for (side, name) in SIDES.into_iter().enumerate() {
        let agent = agent(lane, side);
        client.register(&agent);
        let claims = races().map(|race| {
            json!({"operation": "CLAIM", "agentId": agent, "taskId": task(lane, race, name)})
        });
        let claims: Vec<Value> = claims.collect();
        // All lanes together stay below what a hub lets wait.
        for claims in claims.chunks(100) {
            let claimed = client
                .post(&format!("{API}/batch"), &json!({"operations": claims}))
                .expect(200);
            let claimed = claimed["results"].as_array().expect("a list of results");
            for result in claimed {
                assert_eq!(result["body"]["success"], true, "{result}");
            }
        }
    }
}

fn agent(lane: usize, side: usize) -> String {
    format!("{}-{lane}", SIDES[side])
}

fn task(lane: usize, race: usize, name: &str) -> String {
    format!("t-{lane}-{race}-{name}")
}
