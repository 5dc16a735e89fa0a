//! What one coordinator does for all: who is killed is followed by another, and nothing happens twice.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use switchboard_test_cluster::{Cluster, Database};
use switchboard_tests::{Client, Project, until};

use super::Team;
use crate::bus::peer::Peer;
use crate::memory_crash::work;

/// The director's states, engrams, the exchange with other nodes, and jobs.
const DUTIES: usize = 4;
/// So little room that a few tasks make an engram.
const SMALL: &str = "[memory]
buffer_max_bytes = 2000
compact_when_over_bytes = 2000
engram_max_bytes = 4096
";

#[test]
fn when_the_holder_of_the_duties_is_killed_another_goes_on_and_nothing_happens_twice() {
    let Some(server) = Cluster::shared("duties") else {
        return;
    };
    let database = server.create_database();
    let of = || {
        let project = Project::on(&database.url).with_bus();
        fs::create_dir(project.root().join("config")).expect("the project is empty");
        fs::write(project.root().join("config/dev.toml"), SMALL).expect("it can be written");
        project
    };
    let mut team = Team::of(vec![of()]);
    let first = until("the first coordinator has every duty", || {
        let held: BTreeSet<_> = holders(&database).into_iter().collect();
        (holders(&database).len() == DUTIES && held.len() == 1).then_some(held)
    });
    let project = of();
    team.hubs.push(project.start());
    team.projects.push(project);
    let mut client = team.client(1);
    client.register("builder");
    let mut tasks = 0;
    let kept = |client: &mut Client, tasks: &mut u64, more: usize| {
        let before = engrams(client).len();
        until("engrams are kept", || {
            work(client, tasks);
            (engrams(client).len() >= before + more).then_some(())
        });
    };
    kept(&mut client, &mut tasks, 2);
    // Whichever coordinator is told, the workers of both hear of it.
    let worker = |team: &Team, hub: usize| {
        let id = format!("w{hub}");
        Peer::worker(team.hubs[hub].bus(), &id, &["message.v1"])
    };
    let mut workers = [worker(&team, 0), worker(&team, 1)];
    for hub in [0, 1] {
        publish(&mut team, hub, &format!("v{hub}"));
        for worker in &mut workers {
            assert_eq!(
                worker.hear("release_published.v1")["tag"],
                format!("v{hub}")
            );
        }
    }
    let now: BTreeSet<_> = holders(&database).into_iter().collect();
    assert_eq!(now, first, "who has them keeps them");
    let epochs = epochs(&database);

    for worker in &mut workers {
        is_told_no_more(worker);
    }
    drop(workers);

    team.hubs[0].kill();
    until("the other coordinator takes them", || {
        let held: BTreeSet<_> = holders(&database).into_iter().collect();
        (held.len() == 1 && held != first).then_some(())
    });
    for (name, epoch) in self::epochs(&database) {
        let before = epochs.iter().find(|(known, _)| *known == name);
        assert_eq!(before.map(|(_, epoch)| epoch + 1), Some(epoch), "{name}");
    }
    kept(&mut client, &mut tasks, 2);
    let mut worker = worker(&team, 1);
    publish(&mut team, 1, "v2");
    assert_eq!(worker.hear("release_published.v1")["tag"], "v2");
    is_told_no_more(&mut worker);
    let stretches = engrams(&mut client);
    let once: BTreeSet<_> = stretches.iter().collect();
    assert_eq!(once.len(), stretches.len(), "each engram once");
    assert_eq!(overlapping(&database), "", "no event is in two engrams");
    drop((client, worker));
    team.hubs.remove(0);
    team.stop();
}

fn is_told_no_more(worker: &mut Peer) {
    for frame in worker.settle() {
        assert_ne!(frame["message_type"], "release_published.v1", "{frame}");
    }
}

/// Who has which duty at the moment.
fn holders(database: &Database) -> Vec<String> {
    let rows = database
        .sql("SELECT value::json ->> 'holder' FROM sb_record WHERE kind = 'duty' ORDER BY key");
    rows.lines().map(str::to_owned).collect()
}

fn epochs(database: &Database) -> Vec<(String, u64)> {
    let rows = database
        .sql("SELECT key || ' ' || (value::json ->> 'epoch') FROM sb_record WHERE kind = 'duty' ORDER BY key");
    let parse = |line: &str| {
        let (name, epoch) = line.split_once(' ').expect("a name and an epoch");
        (name.to_owned(), epoch.parse().expect("a number"))
    };
    rows.lines().map(parse).collect()
}

/// Engrams of the short term that tell of the same events.
fn overlapping(database: &Database) -> String {
    database.sql(
        "SELECT a.key, b.key FROM sb_record a, sb_record b
         WHERE a.kind = 'engram' AND b.kind = 'engram' AND a.key < b.key
           AND a.value::json ->> 'scope' = 'st' AND b.value::json ->> 'scope' = 'st'
           AND (a.value::json ->> 'from_seq')::bigint <= (b.value::json ->> 'to_seq')::bigint
           AND (b.value::json ->> 'from_seq')::bigint <= (a.value::json ->> 'to_seq')::bigint",
    )
}

/// The ids of all engrams that were ever kept.
fn engrams(client: &mut Client) -> Vec<String> {
    let kept = client.events().into_iter();
    let kept = kept.filter(|event| event["type"] == "engram_kept");
    kept.map(|event| event["engram"].to_string()).collect()
}

fn publish(team: &mut Team, hub: usize, tag: &str) {
    let mut operator = Peer::operator(team.hubs[hub].bus(), "desk");
    let release: Value = json!({"tag": tag, "main_sha": "a".repeat(40), "image_tag": tag});
    operator.say("release_published.v1", release).expect("sent");
    assert_eq!(operator.hear("operator_ack.v1")["ok"], true);
}
