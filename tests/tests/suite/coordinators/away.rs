//! The database goes away and comes back: who calls is told, who waits stays.

use serde_json::json;
use switchboard_test_cluster::Cluster;
use switchboard_tests::{API, Answer, Client, Request, until};

use super::Team;
use super::wakeups::{begin_claim, begin_receive, begin_stream, next_event};

#[test]
fn while_the_database_is_away_callers_are_told_and_who_waits_stays_and_is_served_afterwards() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(missing) => return missing.skip("a database that goes away"),
    };
    let database = cluster.create_database();
    let team = Team::on(&database.url, 2);
    let mut clients = team.clients();
    ["taker", "reader", "sender"]
        .iter()
        .for_each(|agent| clients[1].register(agent));
    let mut stream = begin_stream(&team.hubs[0]);
    let mut takes = begin_claim(&team.hubs[0], "taker");
    let mut reads = begin_receive(&team.hubs[0], "reader");

    cluster.stop_immediate();
    for client in &mut clients {
        let task = json!({"title": "not now"});
        is_told_to_come_back(&client.post(&format!("{API}/tasks"), &task));
        is_told_to_come_back(&client.get(&format!("{API}/tasks")));
        is_told_to_come_back(&client.get("/readyz"));
        // Who begins to wait now is sent away as well.
        let claim = json!({"agentId": "sender", "wait": 60});
        is_told_to_come_back(&client.post(&format!("{API}/tasks/claim"), &claim));
        assert_eq!(client.get("/healthz").status, 200);
        assert_eq!(client.figure("switchboard_ledger_writes"), 0);
    }

    cluster.start_again();
    for client in &mut clients {
        until("it is ready again", || {
            (client.get("/readyz").status == 200).then_some(())
        });
    }
    clients[1].create("afterwards");
    let taken = takes.finish().expect("who waits is answered").expect(200);
    assert_eq!(taken["task"]["id"], "afterwards", "{taken}");
    assert_eq!(
        next_event(&mut stream, "task_created")["task"],
        "afterwards"
    );
    send(&mut clients[1], "hello");
    let read = reads.finish().expect("who waits is answered").expect(200);
    assert_eq!(read["messages"][0]["id"], "hello", "{read}");
    let log = clients[0].events();
    assert!(
        log.iter().all(|event| event["title"] != "not now"),
        "who was told to come back was not served"
    );
    drop((takes, reads, stream, clients));
    team.stop();
}

#[test]
fn once_a_hub_is_ready_again_the_next_call_works_also_if_nobody_noticed_the_outage() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(missing) => return missing.skip("a database that is restarted"),
    };
    let database = cluster.create_database();
    let team = Team::on(&database.url, 2);
    let mut clients = team.clients();
    for round in 0..3 {
        cluster.stop_immediate();
        cluster.start_again();
        for (hub, client) in clients.iter_mut().enumerate() {
            until("it is ready", || {
                (client.get("/readyz").status == 200).then_some(())
            });
            client.create(&format!("round-{round}-of-{hub}"));
        }
    }
    drop(clients);
    team.stop();
}

#[track_caller]
fn is_told_to_come_back(answer: &Answer) {
    answer.expect_error(503, "db_unavailable");
    assert!(answer.header("Retry-After").is_some(), "{answer:?}");
}

fn send(client: &mut Client, id: &str) {
    let message = json!({"id": id, "to": "reader", "type": "info.discovery", "payload": {}});
    let body = json!({"agentId": "sender", "message": message});
    let sent = client.send(&Request::post(format!("{API}/messages"), &body));
    sent.expect("the coordinator answers").expect(200);
}
