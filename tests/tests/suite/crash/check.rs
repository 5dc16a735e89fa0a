//! Every acknowledged change is in the history, and everything in the history was asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use switchboard_tests::{API, Client, until};

use super::facts::{Doubt, Fact, Record};
use super::history::{Deed, History};
use super::order;

/// What the clients were told, by kind. Being told the same twice under two keys is a failure already.
#[derive(Debug, Default)]
struct Told {
    created: BTreeSet<String>,
    claimed: BTreeSet<Deed>,
    completed: BTreeSet<Deed>,
    retried: BTreeSet<Deed>,
    failed: BTreeSet<Deed>,
    requeued: BTreeSet<Deed>,
    progress: BTreeMap<(String, u64), u64>,
    sent: BTreeMap<String, (String, Option<String>, u64)>,
    received: BTreeSet<(String, String)>,
    acknowledged: BTreeSet<(String, String)>,
    leased: BTreeSet<(String, String, u64)>,
    extended: BTreeMap<(String, String), u64>,
}

/// Holds what the clients know against the log and against what the hub shows.
pub fn check(records: &[Record], agents: &[String], seen: &Seen) {
    is_as_expected(records);
    if let Err(why) = order::check(records, &seen.events) {
        panic!("{why}");
    }
    let told = Told::by(records, u64::MAX);
    let history = &seen.history;
    created(records, &told, history);
    claims(records, &told, history);
    messages(records, agents, &told, history);
    assert_eq!(told.leased, history.leased, "leases");
    assert_eq!(told.extended, history.extended, "extensions of leases");
    rows(seen, &told);
}

/// Every answer was one that somebody expected; otherwise what was learnt from it need not be so.
pub fn is_as_expected(records: &[Record]) {
    for record in records {
        let surprises = &record.surprises;
        assert!(surprises.is_empty(), "{}: {surprises:#?}", record.agent);
    }
}

/// What had been told when the record of the disk was here, and is not in the history of that disk. Panics at what was
/// never asked for.
pub fn lost(records: &[Record], disk: u64, seen: &Seen) -> Vec<String> {
    let history = &seen.history;
    let told = Told::by(records, disk);
    let mut lost = Vec::new();
    lost.extend(missing("created", &told.created, &history.created));
    lost.extend(missing("claimed", &told.claimed, &history.claimed));
    lost.extend(missing("completed", &told.completed, &history.completed));
    lost.extend(missing("failed", &told.failed, &history.failed));
    lost.extend(missing("retried", &told.retried, &history.retried));
    lost.extend(missing("requeued", &told.requeued, &history.requeued));
    lost.extend(missing("received", &told.received, &history.delivered));
    let acknowledged = &history.acknowledged;
    lost.extend(missing("acknowledged", &told.acknowledged, acknowledged));
    lost.extend(missing("leased", &told.leased, &history.leased));
    let sent = told
        .sent
        .iter()
        .filter(|(id, sent)| history.sent.get(*id) != Some(sent));
    lost.extend(sent.map(|sent| format!("sent {sent:?}")));
    let extended = told
        .extended
        .iter()
        .filter(|(of, times)| history.extended.get(*of).is_none_or(|there| there < *times));
    lost.extend(extended.map(|extended| format!("extended {extended:?}")));
    // What came after this moment may be there as well, and nothing else.
    created(
        records,
        &Told::by(records, u64::MAX).but_created_in(history),
        history,
    );
    rows(seen, &Told::default());
    lost
}

fn missing<T: Ord + std::fmt::Debug>(
    what: &str,
    told: &BTreeSet<T>,
    there: &BTreeSet<T>,
) -> Vec<String> {
    let lost = told.difference(there);
    lost.map(|lost| format!("{what} {lost:?}")).collect()
}

/// The log and the rows of one moment.
#[derive(Debug)]
pub struct Seen {
    pub history: History,
    events: Vec<Value>,
    tasks: Vec<Value>,
    leases: Vec<Value>,
}

impl Seen {
    pub fn now(client: &mut Client) -> Seen {
        let mut events = Vec::new();
        let (tasks, leases) = until("nothing happens while the rows are read", || {
            client.more_events(&mut events);
            let tasks = pages(client, "tasks", "tasks");
            let leases = pages(client, "leases", "leases");
            let latest = events.last().map_or(json!(0), |last| last["seq"].clone());
            let still = client.status()["events"]["latest"] == latest;
            still.then_some((tasks, leases))
        });
        Seen {
            history: History::read(&events),
            events,
            tasks,
            leases,
        }
    }
}

impl Told {
    /// What had been told when the record of the disk had come so far.
    fn by(records: &[Record], disk: u64) -> Told {
        let mut told = Told::default();
        for record in records {
            for learnt in record.facts.iter().filter(|learnt| learnt.disk <= disk) {
                told.take(&record.agent, learnt.fact.clone());
            }
        }
        told
    }

    /// Without tasks that this history does not know.
    fn but_created_in(mut self, history: &History) -> Told {
        self.created.retain(|task| history.created.contains(task));
        self
    }

    fn take(&mut self, agent: &str, fact: Fact) {
        let by = agent.to_owned();
        let said = format!("{agent} was told twice: {fact:?}");
        let is_new = match fact {
            Fact::Created { tasks } => tasks.into_iter().all(|task| self.created.insert(task)),
            Fact::Claimed { task, epoch } => self.claimed.insert((task, by, epoch)),
            Fact::Progressed {
                task,
                epoch,
                percent,
            } => {
                self.progress.insert((task, epoch), percent);
                true
            }
            Fact::Completed { task, epoch } => self.completed.insert((task, by, epoch)),
            Fact::Failed {
                task,
                epoch,
                retries: true,
            } => self.retried.insert((task, by, epoch)),
            Fact::Failed {
                task,
                epoch,
                retries: false,
            } => self.failed.insert((task, by, epoch)),
            Fact::Requeued { task, epoch } => self.requeued.insert((task, by, epoch)),
            Fact::Sent {
                message,
                to,
                recipients,
            } => self.sent.insert(message, (by, to, recipients)).is_none(),
            Fact::Received { messages } => messages
                .into_iter()
                .all(|message| self.received.insert((message, by.clone()))),
            Fact::Acknowledged { message } => self.acknowledged.insert((message, by)),
            Fact::Leased { path, fencing } => self.leased.insert((path, by, fencing)),
            Fact::Extended { path, .. } => {
                *self.extended.entry((path, by)).or_default() += 1;
                true
            }
            Fact::Unleased { .. }
            | Fact::Saw { .. }
            | Fact::Listed { .. }
            | Fact::Beat
            | Fact::Nothing => true,
        };
        assert!(is_new, "{said}");
    }
}

fn created(records: &[Record], told: &Told, history: &History) {
    let lost: Vec<_> = told.created.difference(&history.created).collect();
    assert!(lost.is_empty(), "acknowledged tasks are gone: {lost:?}");
    let mut unasked: BTreeSet<_> = history.created.difference(&told.created).collect();
    for doubt in records.iter().flat_map(|record| &record.doubts) {
        let Doubt::Created { tasks } = doubt else {
            continue;
        };
        let there = tasks.iter().filter(|task| unasked.remove(task)).count();
        assert!(
            there == 0 || there == tasks.len(),
            "a call came half into being: {tasks:?}"
        );
    }
    assert!(unasked.is_empty(), "tasks that nobody created: {unasked:?}");
}

fn claims(records: &[Record], told: &Told, history: &History) {
    let lost: Vec<_> = told.claimed.difference(&history.claimed).collect();
    assert!(lost.is_empty(), "acknowledged claims are gone: {lost:?}");
    let mut unasked: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, agent, _) in history.claimed.difference(&told.claimed) {
        *unasked.entry(agent).or_default() += 1;
    }
    for record in records {
        let doubts = record.doubts.iter().map(|doubt| match doubt {
            Doubt::Claimed { at_most } => *at_most as u64,
            Doubt::Created { .. } | Doubt::Sent { .. } => 0,
        });
        let doubts: u64 = doubts.sum();
        let more = unasked.remove(record.agent.as_str()).unwrap_or_default();
        assert!(
            more <= doubts,
            "{} holds more than it can have asked for",
            record.agent
        );
    }
    assert_eq!(told.completed, history.completed, "completions");
    assert_eq!(
        told.retried, history.retried,
        "failures that are tried again"
    );
    assert_eq!(told.failed, history.failed, "failures for good");
    assert_eq!(told.requeued, history.requeued, "tasks handed back");
}

fn messages(records: &[Record], agents: &[String], told: &Told, history: &History) {
    for (message, sent) in &told.sent {
        assert_eq!(
            history.sent.get(message),
            Some(sent),
            "an acknowledged message is not as sent"
        );
    }
    let mut unasked: BTreeSet<_> = history
        .sent
        .keys()
        .filter(|id| !told.sent.contains_key(*id))
        .collect();
    for doubt in records.iter().flat_map(|record| &record.doubts) {
        if let Doubt::Sent { message, .. } = doubt {
            unasked.remove(message);
        }
    }
    assert!(unasked.is_empty(), "messages that nobody sent: {unasked:?}");
    // Everyone was there from the beginning, and everyone has read all there is.
    let mut due = BTreeSet::new();
    for (message, (from, to, recipients)) in &history.sent {
        let to: Vec<&String> = match to {
            Some(to) => vec![to],
            None => agents.iter().filter(|agent| *agent != from).collect(),
        };
        assert_eq!(to.len() as u64, *recipients, "{message}");
        due.extend(to.into_iter().map(|agent| (message.clone(), agent.clone())));
    }
    assert_eq!(
        told.received, due,
        "messages that came to whom they were for"
    );
    assert_eq!(history.delivered, due, "messages that count as delivered");
    assert_eq!(
        told.acknowledged, history.acknowledged,
        "acknowledged messages"
    );
}

/// What the hub shows now is what the log says became of everything.
fn rows(seen: &Seen, told: &Told) {
    let mut left = seen.history.tasks.clone();
    for task in &seen.tasks {
        let id = task["id"].as_str().expect("a task has an id");
        let (status, holder) = left
            .remove(id)
            .unwrap_or_else(|| panic!("not in the log: {task}"));
        let shown = match task["status"].as_str() {
            Some("claimed" | "in_progress") => "held",
            other => other.expect("a task has a status"),
        };
        assert_eq!(shown, status, "{task}");
        if let Some((agent, epoch)) = holder {
            assert_eq!(
                (&task["assignedAgent"], &task["epoch"]),
                (&agent.into(), &epoch.into()),
                "{task}"
            );
            if let Some(percent) = told.progress.get(&(id.to_owned(), epoch)) {
                assert_eq!(task["progress"]["percentComplete"], *percent, "{task}");
            }
        }
    }
    assert!(
        left.is_empty(),
        "tasks of the log that are not there: {left:?}"
    );
    let shown: BTreeMap<String, (String, u64)> = seen
        .leases
        .iter()
        .map(|lease| {
            let text = |field: &str| lease[field].as_str().unwrap_or_default().to_owned();
            let fencing = lease["fencingToken"].as_u64().unwrap_or_default();
            (text("filePath"), (text("agentId"), fencing))
        })
        .collect();
    assert_eq!(shown, seen.history.leases, "leases that are held");
}

fn pages(client: &mut Client, path: &str, rows: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let mut page = client
            .get(&format!("{API}/{path}?limit=1000{after}"))
            .expect(200);
        let found = page[rows].as_array_mut().map(std::mem::take);
        all.extend(found.expect("a page has rows"));
        match &page["next"] {
            Value::Null => return all,
            Value::String(next) => after = format!("&after={next}"),
            next => after = format!("&after={next}"),
        }
    }
}
