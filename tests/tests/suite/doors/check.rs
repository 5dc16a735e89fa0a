//! What every agent was told, held against the log and the tables.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde_json::Value;
use switchboard_tests::{API, Client, Hub, Project, until};

use super::{Needs, Record, TASKS};
use crate::crash::history::{Deed, History};
use crate::crash::ledger::{self, Books};

pub fn everything_was_done_once(project: &Project, hub: Hub, records: &[Record], needs: &Needs) {
    let mut client = hub.client();
    let events = all_events(&mut client);
    let history = History::read(&events);
    assert_eq!(
        deeds(records, |record| &record.handed),
        history.claimed,
        "claims that agents were told of, and claims that happened"
    );
    assert_eq!(
        deeds(records, |record| &record.completed),
        history.completed,
        "completions that agents were told of, and completions that happened"
    );
    assert_eq!(
        history.claimed, history.completed,
        "everyone finished its own"
    );
    let tasks: BTreeSet<&str> = history
        .completed
        .iter()
        .map(|(task, ..)| task.as_str())
        .collect();
    assert_eq!((tasks.len(), history.completed.len()), (TASKS, TASKS));
    in_order(&events, needs);
    for record in records {
        let path = format!("{API}/agents/{}", record.agent);
        let agent = client.get(&path).expect(200)["agent"].take();
        assert_eq!(agent["tasksCompleted"], record.completed.len(), "{agent}");
        assert!(!record.completed.is_empty(), "{} did nothing", record.agent);
        println!("{}: {}", record.agent, record.completed.len());
    }
    let books = Books::File(project.database());
    ledger::counters_are_true(&mut client, &books);
    hub.stop();
    ledger::is_whole(&books, &history);
    nothing_is_left_to_take_in(project);
}

/// The log, once the hub has taken in all that was written by hand.
fn all_events(client: &mut Client) -> Vec<Value> {
    let all = i64::try_from(TASKS).expect("not that many");
    until("the hub has taken in every completion", || {
        (client.status()["tasks"]["completed"] == all).then_some(())
    });
    client.events()
}

/// Nobody may be handed the same twice, whatever its epoch.
fn deeds(records: &[Record], of: fn(&Record) -> &Vec<(String, u64)>) -> BTreeSet<Deed> {
    let mut who: BTreeMap<&str, &str> = BTreeMap::new();
    let mut deeds = BTreeSet::new();
    for record in records {
        for (task, epoch) in of(record) {
            let agent = record.agent.as_str();
            let other = who.insert(task, agent);
            assert_eq!(other, None, "{task} went to {agent} too");
            deeds.insert((task.clone(), agent.to_owned(), *epoch));
        }
    }
    deeds
}

/// Nobody was handed a task before all that it depends on was completed.
fn in_order(events: &[Value], needs: &Needs) {
    let mut completed = BTreeSet::new();
    for event in events {
        let task = event["task"].as_str().unwrap_or_default();
        match event["type"].as_str() {
            Some("task_claimed") => {
                let on = needs.get(task).into_iter().flatten();
                let missing: Vec<_> = on.filter(|on| !completed.contains(on.as_str())).collect();
                assert!(
                    missing.is_empty(),
                    "{task} was handed out before {missing:?}"
                );
            }
            Some("task_completed") => {
                completed.insert(task);
            }
            _ => {}
        }
    }
}

fn nothing_is_left_to_take_in(project: &Project) {
    let left = "SELECT (SELECT count(*) FROM sb_hand) + (SELECT count(*) FROM tasks WHERE rev = 0 OR number < 0)";
    let db = Connection::open(project.database()).expect("the file can be opened");
    let left = db.query_row(left, [], |row| row.get::<_, i64>(0));
    assert_eq!(left, Ok(0), "hand writes that nobody took in");
}
