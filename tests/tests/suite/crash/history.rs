//! What happened according to the event log, checked as it is read: no gap, one holder a task, one holder a lease,
//! one handing over a message.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Who did something to a task under which claim.
pub type Deed = (String, String, u64);

#[derive(Debug, Default)]
pub struct History {
    pub latest: u64,
    /// When the last event was, as text: all have the same form.
    at: String,
    pub created: BTreeSet<String>,
    pub claimed: BTreeSet<Deed>,
    pub completed: BTreeSet<Deed>,
    pub retried: BTreeSet<Deed>,
    pub failed: BTreeSet<Deed>,
    pub requeued: BTreeSet<Deed>,
    /// What each task is now, with its holder and epoch while it is held.
    pub tasks: BTreeMap<String, (String, Option<(String, u64)>)>,
    epochs: BTreeMap<String, u64>,
    /// Message to sender, recipient and number of recipients.
    pub sent: BTreeMap<String, (String, Option<String>, u64)>,
    pub delivered: BTreeSet<(String, String)>,
    pub acknowledged: BTreeSet<(String, String)>,
    /// Path, agent, fencing token.
    pub leased: BTreeSet<(String, String, u64)>,
    pub extended: BTreeMap<(String, String), u64>,
    pub leases: BTreeMap<String, (String, u64)>,
    fencing: u64,
}

impl History {
    pub fn read(events: &[Value]) -> History {
        let mut history = History::default();
        for event in events {
            let seq = number(event, "seq");
            assert_eq!(seq, history.latest + 1, "the log has a gap before {event}");
            history.latest = seq;
            let at = text(event, "at");
            assert!(at >= history.at, "time went back: {event}");
            history.at = at;
            history.take(event);
        }
        history
    }

    fn take(&mut self, event: &Value) {
        let kind = text(event, "type");
        match kind.as_str() {
            "task_created" => {
                let task = text(event, "task");
                assert!(self.created.insert(task.clone()), "created twice: {event}");
                self.tasks.insert(task, (text(event, "status"), None));
            }
            "task_claimed" => self.claim(event),
            "task_progressed" => {
                let (_, epoch, agent) = self.holder(event);
                let told = (text(event, "agent"), number(event, "epoch"));
                assert_eq!(
                    told,
                    (agent, epoch),
                    "progress of another than the holder: {event}"
                );
            }
            "task_completed" => {
                let deed = self.end(event, "completed");
                assert_eq!(
                    deed.2,
                    number(event, "epoch"),
                    "completed under another claim: {event}"
                );
                assert!(self.completed.insert(deed), "completed twice: {event}");
            }
            "task_retry_planned" => {
                let deed = self.end(event, "pending_retry");
                assert!(self.retried.insert(deed), "failed twice: {event}");
            }
            "task_failed" => {
                let deed = self.end(event, "failed");
                assert!(self.failed.insert(deed), "failed twice: {event}");
            }
            "task_requeued" => {
                let deed = self.end(event, "requeued");
                assert!(self.requeued.insert(deed), "requeued twice: {event}");
            }
            "task_ready" => self.becomes(event, "ready"),
            "task_blocked" => self.becomes(event, "blocked"),
            "message_sent" | "message_delivered" | "message_acknowledged" => {
                self.message(&kind, event)
            }
            "lease_acquired" | "lease_extended" | "lease_released" => self.lease(&kind, event),
            "dependency_failed" | "agent_registered" | "agent_status_changed" | "outage_ended" => {}
            // Whether one may begin is for the load to say.
            "epoch_began" | "incident_opened" => {}
            _ => panic!("nothing in this load should lead to {event}"),
        }
    }

    fn claim(&mut self, event: &Value) {
        let (task, agent, epoch) = (
            text(event, "task"),
            text(event, "agent"),
            number(event, "epoch"),
        );
        let (status, holder) = self.tasks.get(&task).expect("what is claimed was created");
        assert_eq!(*holder, None, "held by two at once: {event}");
        assert_eq!(status, "ready", "claimed what was not ready: {event}");
        let before = self.epochs.insert(task.clone(), epoch);
        assert!(
            before.is_none_or(|before| before < epoch),
            "an epoch came again: {event}"
        );
        self.tasks.insert(
            task.clone(),
            ("held".to_owned(), Some((agent.clone(), epoch))),
        );
        self.claimed.insert((task, agent, epoch));
    }

    fn holder(&self, event: &Value) -> (String, u64, String) {
        let task = text(event, "task");
        let (_, holder) = self.tasks.get(&task).expect("it was created");
        let (agent, epoch) = holder
            .clone()
            .unwrap_or_else(|| panic!("nobody holds it: {event}"));
        (task, epoch, agent)
    }

    fn end(&mut self, event: &Value, status: &str) -> Deed {
        let (task, epoch, agent) = self.holder(event);
        self.tasks.insert(task.clone(), (status.to_owned(), None));
        (task, agent, epoch)
    }

    fn becomes(&mut self, event: &Value, status: &str) {
        let task = text(event, "task");
        let (before, holder) = self.tasks.get(&task).expect("it was created");
        assert_eq!(*holder, None, "ready while it is held: {event}");
        let may = ["blocked", "pending_retry", "requeued"];
        assert!(
            may.contains(&before.as_str()),
            "{before} became {status}: {event}"
        );
        self.tasks.insert(task, (status.to_owned(), None));
    }

    fn message(&mut self, kind: &str, event: &Value) {
        let message = text(event, "message");
        if kind == "message_sent" {
            let to = event["to"].as_str().map(str::to_owned);
            let sent = (text(event, "from"), to, number(event, "recipients"));
            assert!(
                self.sent.insert(message, sent).is_none(),
                "sent twice: {event}"
            );
            return;
        }
        assert!(self.sent.contains_key(&message), "never sent: {event}");
        let pair = (message, text(event, "agent"));
        if kind == "message_delivered" {
            assert!(self.delivered.insert(pair), "handed over twice: {event}");
        } else {
            assert!(
                self.delivered.contains(&pair),
                "acknowledged before it came: {event}"
            );
            assert!(
                self.acknowledged.insert(pair),
                "acknowledged twice: {event}"
            );
        }
    }

    fn lease(&mut self, kind: &str, event: &Value) {
        let (path, agent) = (text(event, "path"), text(event, "agent"));
        let holder = self.leases.get(&path).map(|(holder, _)| holder.clone());
        if kind == "lease_acquired" {
            let fencing = number(event, "fencing");
            assert_eq!(holder, None, "leased to two at once: {event}");
            assert!(
                fencing > self.fencing,
                "a fencing token came again: {event}"
            );
            self.fencing = fencing;
            self.leases.insert(path.clone(), (agent.clone(), fencing));
            self.leased.insert((path, agent, fencing));
            return;
        }
        assert_eq!(holder.as_ref(), Some(&agent), "another's lease: {event}");
        if kind == "lease_extended" {
            *self.extended.entry((path, agent)).or_default() += 1;
        } else {
            self.leases.remove(&path);
        }
    }
}

fn text(event: &Value, field: &str) -> String {
    let found = event[field].as_str();
    found
        .unwrap_or_else(|| panic!("no {field} in {event}"))
        .to_owned()
}

fn number(event: &Value, field: &str) -> u64 {
    event[field]
        .as_u64()
        .unwrap_or_else(|| panic!("no {field} in {event}"))
}
