//! A checker of histories: what many callers were told, each with the moments of its call and its answer, against the log.
//!
//! The log gives the order of all changes, so no order has to be searched for. It holds if a task has one holder at a
//! time and its epochs grow; an end is final; whatever was acknowledged is there, at one place; whoever was answered
//! before another called comes first; and whoever looks sees the ledger as it was at one moment between the call and the
//! answer, whichever hub is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::facts::{Fact, Learnt, Record};

/// One place in the log that somebody may have been told of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Created(String),
    Claimed(String, u64),
    /// The claim under this epoch ended, by its holder.
    Ended(String, u64),
    Sent(String),
    Delivered(String, String),
    Acknowledged(String, String),
    Leased(String, u64),
}

/// What a task is from a place in the log on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// `held` for claimed and in progress alike.
    pub status: String,
    pub holder: Option<(String, u64)>,
}

/// The log, read once.
#[derive(Debug, Default)]
struct Log {
    latest: u64,
    marks: BTreeMap<Mark, u64>,
    tasks: BTreeMap<String, Vec<(u64, State)>>,
    epochs: BTreeMap<String, u64>,
}

/// Says what does not hold, if anything.
pub fn check(records: &[Record], events: &[Value]) -> Result<(), String> {
    let mut log = Log::default();
    for event in events {
        log.take(event).map_err(|why| format!("{why}: {event}"))?;
    }
    let times = Times::of(records, &log)?;
    for record in records {
        for learnt in &record.facts {
            let holds = times.admit(&record.agent, learnt, &log);
            holds.map_err(|why| format!("{why}: {} was told {learnt:?}", record.agent))?;
        }
    }
    Ok(())
}

impl Log {
    fn take(&mut self, event: &Value) -> Result<(), String> {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| event[field].as_u64().unwrap_or_default();
        if number("seq") != self.latest + 1 {
            return Err("a gap in the log".to_owned());
        }
        self.latest += 1;
        let task = text("task");
        match event["type"].as_str().unwrap_or_default() {
            "task_created" => {
                self.mark(Mark::Created(task.clone()))?;
                self.becomes(task, &text("status"), None)
            }
            "task_claimed" => {
                let epoch = number("epoch");
                if self.holder(&task).is_some() {
                    return Err("two holders at once".to_owned());
                }
                let before = self.epochs.insert(task.clone(), epoch);
                if before.is_some_and(|before| before >= epoch) {
                    return Err("an epoch that does not grow".to_owned());
                }
                self.mark(Mark::Claimed(task.clone(), epoch))?;
                self.becomes(task, "held", Some((text("agent"), epoch)))
            }
            "task_completed" => self.end(task, "completed"),
            "task_failed" => self.end(task, "failed"),
            "task_retry_planned" => self.end(task, "pending_retry"),
            "task_requeued" => self.end(task, "requeued"),
            "task_ready" => self.becomes(task, "ready", None),
            "task_blocked" => self.becomes(task, "blocked", None),
            "message_sent" => self.mark(Mark::Sent(text("message"))),
            "message_delivered" => self.mark(Mark::Delivered(text("message"), text("agent"))),
            "message_acknowledged" => self.mark(Mark::Acknowledged(text("message"), text("agent"))),
            "lease_acquired" => self.mark(Mark::Leased(text("path"), number("fencing"))),
            _ => Ok(()),
        }
    }

    fn mark(&mut self, mark: Mark) -> Result<(), String> {
        match self.marks.insert(mark, self.latest) {
            None => Ok(()),
            Some(before) => Err(format!("it happened twice, first at {before}")),
        }
    }

    fn end(&mut self, task: String, status: &str) -> Result<(), String> {
        let Some((_, epoch)) = self.holder(&task) else {
            return Err("the end of what nobody holds".to_owned());
        };
        self.mark(Mark::Ended(task.clone(), epoch))?;
        self.becomes(task, status, None)
    }

    fn becomes(
        &mut self,
        task: String,
        status: &str,
        holder: Option<(String, u64)>,
    ) -> Result<(), String> {
        let states = self.tasks.entry(task).or_default();
        if let Some((at, last)) = states.last()
            && ["completed", "failed"].contains(&last.status.as_str())
        {
            return Err(format!("an end that was not final, at {at}"));
        }
        let status = status.to_owned();
        states.push((self.latest, State { status, holder }));
        Ok(())
    }

    fn holder(&self, task: &str) -> Option<(String, u64)> {
        let (_, state) = self.tasks.get(task)?.last()?;
        state.holder.clone()
    }

    /// Whether the task was so at some place from `from` on and before `before`.
    fn was(&self, task: &str, wanted: Option<&State>, from: u64, before: u64) -> bool {
        let states = self.tasks.get(task).map(Vec::as_slice).unwrap_or_default();
        let begins = states.first().map_or(u64::MAX, |(at, _)| *at);
        let Some(wanted) = wanted else {
            return begins > from;
        };
        states.iter().enumerate().any(|(n, (at, state))| {
            let until = states.get(n + 1).map_or(u64::MAX, |(next, _)| *next);
            state == wanted && *at < before && until > from
        })
    }
}

/// When the changes were called and answered, and where they are in the log.
struct Times {
    /// By the moment of the answer, with the highest place up to there.
    answered: Vec<(Duration, u64)>,
    /// By the moment of the call, with the lowest place from there on.
    called: Vec<(Duration, u64)>,
}

impl Times {
    fn of(records: &[Record], log: &Log) -> Result<Times, String> {
        let (mut answered, mut called) = (Vec::new(), Vec::new());
        for record in records {
            for learnt in &record.facts {
                for place in places(&record.agent, learnt, log)? {
                    answered.push((learnt.answered, place));
                    called.push((learnt.called, place));
                }
            }
        }
        answered.sort_unstable();
        let mut highest = 0;
        for (_, place) in &mut answered {
            highest = highest.max(*place);
            *place = highest;
        }
        called.sort_unstable();
        let mut lowest = u64::MAX;
        for (_, place) in called.iter_mut().rev() {
            lowest = lowest.min(*place);
            *place = lowest;
        }
        Ok(Times { answered, called })
    }

    /// The highest place that was acknowledged before this moment.
    fn from(&self, moment: Duration) -> u64 {
        let before = self.answered.partition_point(|(at, _)| *at < moment);
        before
            .checked_sub(1)
            .map_or(0, |last| self.answered[last].1)
    }

    /// The lowest place that was asked for only after this moment.
    fn before(&self, moment: Duration) -> u64 {
        let after = self.called.partition_point(|(at, _)| *at <= moment);
        self.called.get(after).map_or(u64::MAX, |(_, place)| *place)
    }

    fn admit(&self, agent: &str, learnt: &Learnt, log: &Log) -> Result<(), String> {
        let (from, before) = (self.from(learnt.called), self.before(learnt.answered));
        for place in places(agent, learnt, log)? {
            if place <= from {
                return Err(format!(
                    "at {place}, although {from} was acknowledged before it was asked for"
                ));
            }
        }
        match &learnt.fact {
            Fact::Saw { task, state } if !log.was(task, state.as_ref(), from, before) => {
                Err(format!(
                    "never so between {from} and {before}, but {:?}",
                    log.tasks.get(task)
                ))
            }
            Fact::Listed { tasks } => listed(tasks, log, from, before),
            _ => Ok(()),
        }
    }
}

fn listed(tasks: &BTreeSet<String>, log: &Log, from: u64, before: u64) -> Result<(), String> {
    let made = |(task, states): (&String, &Vec<(u64, State)>)| (task.clone(), states[0].0);
    for (task, at) in log.tasks.iter().map(made) {
        if at <= from && !tasks.contains(&task) {
            return Err(format!(
                "{task}, created at {at}, is not in a list asked for after {from}"
            ));
        }
        if at >= before && tasks.contains(&task) {
            return Err(format!(
                "{task}, created at {at}, is in a list answered before {before}"
            ));
        }
    }
    Ok(())
}

/// Where in the log the change is that somebody was told of.
fn places(agent: &str, learnt: &Learnt, log: &Log) -> Result<Vec<u64>, String> {
    let by = || agent.to_owned();
    let marks: Vec<Mark> = match learnt.fact.clone() {
        Fact::Created { tasks } => tasks.into_iter().map(Mark::Created).collect(),
        Fact::Claimed { task, epoch } => vec![Mark::Claimed(task, epoch)],
        Fact::Completed { task, epoch }
        | Fact::Failed { task, epoch, .. }
        | Fact::Requeued { task, epoch } => vec![Mark::Ended(task, epoch)],
        Fact::Sent { message, .. } => vec![Mark::Sent(message)],
        Fact::Received { messages } => {
            let handed = |message| Mark::Delivered(message, by());
            messages.into_iter().map(handed).collect()
        }
        Fact::Acknowledged { message } => vec![Mark::Acknowledged(message, by())],
        Fact::Leased { path, fencing } => vec![Mark::Leased(path, fencing)],
        // Not every one of these is in the log, or can be told from the others.
        Fact::Progressed { .. }
        | Fact::Extended { .. }
        | Fact::Unleased { .. }
        | Fact::Saw { .. }
        | Fact::Listed { .. }
        | Fact::Beat
        | Fact::Nothing => Vec::new(),
    };
    let place = |mark: Mark| {
        let found = log.marks.get(&mark).copied();
        found.ok_or_else(|| format!("acknowledged and not in the log: {mark:?}, told to {agent}"))
    };
    marks.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The events of a small history: a task is created, claimed and completed, then another is created.
    fn events() -> Vec<Value> {
        vec![
            json!({"seq": 1, "type": "task_created", "task": "t", "status": "ready"}),
            json!({"seq": 2, "type": "task_claimed", "task": "t", "agent": "a", "epoch": 1}),
            json!({"seq": 3, "type": "task_completed", "task": "t"}),
            json!({"seq": 4, "type": "task_created", "task": "u", "status": "ready"}),
        ]
    }

    fn told(called: u64, answered: u64, fact: Fact) -> Learnt {
        Learnt {
            fact,
            called: Duration::from_millis(called),
            answered: Duration::from_millis(answered),
            disk: 0,
        }
    }

    fn created(task: &str) -> Fact {
        let tasks = vec![task.to_owned()];
        Fact::Created { tasks }
    }

    fn claimed() -> Fact {
        let task = "t".to_owned();
        Fact::Claimed { task, epoch: 1 }
    }

    fn completed() -> Fact {
        let task = "t".to_owned();
        Fact::Completed { task, epoch: 1 }
    }

    fn saw(state: Option<(&str, Option<(&str, u64)>)>) -> Fact {
        let state = state.map(|(status, holder)| State {
            status: status.to_owned(),
            holder: holder.map(|(agent, epoch)| (agent.to_owned(), epoch)),
        });
        let task = "t".to_owned();
        Fact::Saw { task, state }
    }

    fn listed(tasks: &[&str]) -> Fact {
        let tasks = tasks.iter().map(|task| (*task).to_owned()).collect();
        Fact::Listed { tasks }
    }

    /// What everybody was told of that history, and something more.
    fn verdict(more: Vec<Learnt>) -> Result<(), String> {
        let mut facts = vec![
            told(10, 20, created("t")),
            told(30, 40, claimed()),
            told(50, 60, completed()),
            told(70, 80, created("u")),
        ];
        facts.extend(more);
        let agent = "a".to_owned();
        check(
            &[Record {
                agent,
                facts,
                ..Record::default()
            }],
            &events(),
        )
    }

    #[test]
    fn what_may_be_so_is_admitted() {
        for (called, answered, fact) in [
            (21, 29, saw(Some(("ready", None)))),
            // While the claim goes on, both are true.
            (31, 39, saw(Some(("ready", None)))),
            (31, 39, saw(Some(("held", Some(("a", 1)))))),
            (0, 100, saw(None)),
            (65, 66, saw(Some(("completed", None)))),
            (65, 66, listed(&["t"])),
            (75, 76, listed(&["t"])),
            (75, 76, listed(&["t", "u"])),
            (90, 91, listed(&["t", "u"])),
        ] {
            let said = format!("{called} to {answered}: {fact:?}");
            assert_eq!(
                verdict(vec![told(called, answered, fact)]),
                Ok(()),
                "{said}"
            );
        }
    }

    #[test]
    fn what_cannot_be_so_is_refused() {
        for (called, answered, fact, why) in [
            // Read-your-writes, whoever wrote and wherever it is read.
            (41, 42, saw(Some(("ready", None))), "never so"),
            (61, 62, saw(Some(("held", Some(("a", 1))))), "never so"),
            (61, 62, saw(None), "never so"),
            // Nobody sees what is only asked for later.
            (25, 29, saw(Some(("held", Some(("a", 1))))), "never so"),
            (31, 39, saw(Some(("held", Some(("b", 1))))), "never so"),
            (31, 39, saw(Some(("held", Some(("a", 2))))), "never so"),
            (65, 66, listed(&[]), "is not in a list"),
            (90, 91, listed(&["t"]), "is not in a list"),
            (65, 66, listed(&["t", "u"]), "is in a list answered before"),
            // Acknowledged and nowhere.
            (90, 91, created("v"), "not in the log"),
            // Later in time, earlier in the log.
            (90, 91, created("t"), "was acknowledged before"),
        ] {
            let said = format!("{called} to {answered}: {fact:?}");
            let refused = verdict(vec![told(called, answered, fact)]);
            assert!(
                refused.as_ref().is_err_and(|said| said.contains(why)),
                "{said}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_log_that_cannot_be_is_refused() {
        let event = |seq: u64, kind: &str, agent: &str, epoch: u64| json!({"seq": seq, "type": kind, "task": "t", "agent": agent, "epoch": epoch, "status": "ready"});
        let claim = |seq, agent, epoch| event(seq, "task_claimed", agent, epoch);
        let created = event(1, "task_created", "", 0);
        for (more, why) in [
            (vec![claim(3, "a", 1)], "a gap"),
            (vec![event(2, "task_created", "", 0)], "it happened twice"),
            (vec![claim(2, "a", 1), claim(3, "b", 2)], "two holders"),
            (
                vec![
                    claim(2, "a", 1),
                    event(3, "task_requeued", "a", 1),
                    event(4, "task_ready", "", 0),
                    claim(5, "b", 1),
                ],
                "does not grow",
            ),
            (
                vec![
                    claim(2, "a", 1),
                    event(3, "task_completed", "a", 1),
                    event(4, "task_ready", "", 0),
                ],
                "not final",
            ),
            (
                vec![
                    claim(2, "a", 1),
                    event(3, "task_completed", "a", 1),
                    event(4, "task_completed", "a", 1),
                ],
                "nobody holds",
            ),
            (vec![event(2, "task_completed", "a", 1)], "nobody holds"),
        ] {
            let events: Vec<Value> = std::iter::once(created.clone()).chain(more).collect();
            let refused = check(&[], &events);
            assert!(
                refused.as_ref().is_err_and(|said| said.contains(why)),
                "{why}: {refused:?}"
            );
        }
    }
}
