//! What every agent was told, held against the log and the tables.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use switchboard_tests::{Client, Hub, Project, until};

use super::{Claim, END, Record};
use crate::crash::history::History;
use crate::crash::ledger::{self, Books};

pub fn all(project: &Project, hub: Hub, records: &[Record], tasks: u64) {
    let mut client = hub.client();
    let (events, mail) = once_all_is_acknowledged(&mut client, records);
    // One holder at a time, epochs that only grow, and one completion by the holder for each task.
    let history = History::read(&events);
    assert_eq!(history.completed.len() as u64, tasks, "completions");
    let done: BTreeSet<&str> = history
        .completed
        .iter()
        .map(|(task, ..)| task.as_str())
        .collect();
    assert_eq!(done.len() as u64, tasks, "tasks that were completed");
    for record in records {
        let of = |deeds: &BTreeSet<(String, String, u64)>| -> BTreeSet<Claim> {
            let his = deeds.iter().filter(|(_, agent, _)| *agent == record.agent);
            his.map(|(task, _, epoch)| (task.clone(), *epoch)).collect()
        };
        let (claimed, completed) = (of(&history.claimed), of(&history.completed));
        let agent = &record.agent;
        // A claim that its worker never heard of would have no answer, and so no end.
        assert_eq!(record.handed, claimed, "what {agent} was handed");
        let lost: Vec<_> = record.completed.difference(&completed).collect();
        assert!(lost.is_empty(), "{agent} was told that {lost:?} is done");
        assert!(!completed.is_empty(), "{agent} did nothing");
        println!(
            "{agent}: {} tasks, {} messages, {} of them again, {} cuts",
            completed.len(),
            record.received.len(),
            record.again,
            record.cuts
        );
    }
    messages(records, &mail);
    let books = Books::File(project.database());
    ledger::counters_are_true(&mut client, &books);
    hub.stop();
    ledger::is_whole(&books, &history);
}

/// The log without its messages, and the messages: sent to whom, and what became of them.
fn once_all_is_acknowledged(client: &mut Client, records: &[Record]) -> (Vec<Value>, Mail) {
    let received: usize = records.iter().map(|record| record.received.len()).sum();
    until("everything that came is acknowledged", || {
        let mut events = client.events();
        let mail = Mail::read(&events);
        // The bus may hear of a receipt before it has noted the delivery, and whoever has done its work leaves; the
        // history knows no such things.
        for event in &mut events {
            if event["message"].is_string() || event["type"] == "agent_deregistered" {
                event["type"] = json!("outage_ended");
            }
        }
        (mail.acknowledged.len() == received).then_some((events, mail))
    })
}

#[derive(Debug, Default)]
struct Mail {
    sent: BTreeMap<String, String>,
    delivered: BTreeSet<String>,
    acknowledged: BTreeSet<String>,
}

impl Mail {
    fn read(events: &[Value]) -> Mail {
        let mut mail = Mail::default();
        for event in events {
            let Some(message) = event["message"].as_str().map(str::to_owned) else {
                continue;
            };
            let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
            let is_new = match event["type"].as_str().unwrap_or_default() {
                "message_sent" => mail.sent.insert(message, text("to")).is_none(),
                "message_delivered" => mail.delivered.insert(message),
                "message_acknowledged" => mail.acknowledged.insert(message),
                // Its connection was cut before it was acknowledged: it is delivered once more, and never after that.
                "message_queued_again" => {
                    assert!(!mail.acknowledged.contains(&message), "{event}");
                    mail.delivered.remove(&message)
                }
                _ => panic!("nothing here should lead to {event}"),
            };
            assert!(is_new, "it happened twice: {event}");
        }
        mail
    }
}

fn messages(records: &[Record], mail: &Mail) {
    let mut due: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (message, to) in &mail.sent {
        due.entry(to).or_default().insert(message);
    }
    for record in records {
        for (message, to) in &record.sent {
            assert_eq!(mail.sent.get(message), Some(to), "{message} was kept");
        }
        let came: BTreeSet<&str> = record.received.iter().map(String::as_str).collect();
        let his = due.remove(record.agent.as_str()).unwrap_or_default();
        assert_eq!(came, his, "messages to {}", record.agent);
        assert!(came.len() > 1, "hardly anybody wrote to {}", record.agent);
    }
    assert!(due.is_empty(), "messages to nobody: {due:?}");
    let sent: usize = records.iter().map(|record| record.sent.len()).sum();
    let by_them = mail.sent.keys().filter(|id| !id.starts_with(END)).count();
    assert_eq!(by_them, sent, "messages that somebody wrote");
    assert!(mail.delivered.is_subset(&mail.acknowledged));
}
