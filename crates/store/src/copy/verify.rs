//! Whether two ledgers are the same: every row against every row, every event against every event.
//!
//! Rows are looked up by key instead of being read side by side, because engines sort some characters differently.

use std::fmt;

use switchboard_core::{Logged, TaskStatus};

use super::side::Side;
use super::tables::{HEAD, LOG, TABLES, Table};
use super::value::{Row, Value, key, show_key};
use crate::Error;
use crate::chain::{Link, Walk};

/// Where two ledgers differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub table: &'static str,
    /// Which row, as `number=7`.
    pub row: String,
    /// `None` if the whole row is what differs.
    pub column: Option<&'static str>,
    pub says: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table, self.row)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.says)
    }
}

/// So many are named; the others are counted.
pub const DIFFERENCES_MAX: usize = 20;

/// What was found so far.
#[derive(Default)]
pub(super) struct Findings {
    pub differences: Vec<Difference>,
    /// All of them, named or not.
    pub count: u64,
    pub events: u64,
    /// The last event's number.
    last: Option<i64>,
    chain: Walk,
    tally: Tally,
}

impl Findings {
    fn add(&mut self, table: &Table, row: &[Value], column: Option<&'static str>, says: String) {
        self.count += 1;
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(Difference {
                table: table.name,
                row: show_key(table, key(table, row)),
                column,
                says,
            });
        }
    }

    /// Compares a page of the source with what was found under its keys.
    pub fn compare(&mut self, table: &Table, rows: &[Row], found: &[Option<Row>]) {
        for (row, found) in rows.iter().zip(found) {
            match found {
                None => self.add(table, row, None, "it is missing from the target".to_owned()),
                Some(found) => self.columns(table, row, found),
            }
            if table.name == LOG.name {
                self.log(row);
            }
            self.tally.see(table, row);
        }
    }

    fn columns(&mut self, table: &Table, row: &Row, found: &Row) {
        for (at, name) in table.names().enumerate() {
            let (left, right) = (&row[at], &found[at]);
            if left == right {
                continue;
            }
            let which = match (left.text(), right.text()) {
                (Some(left), Some(right)) if table.name == LOG.name => first_other(left, right),
                _ => None,
            };
            let says =
                which.unwrap_or_else(|| format!("{left} in the source, {right} in the target"));
            self.add(table, row, Some(name), says);
        }
    }

    /// Checks that the events of a row can be read, and follow those before as the chain says.
    fn log(&mut self, row: &Row) {
        let number = |name| row[LOG.at(name)].int().unwrap_or(0);
        let (first, last) = (number("first"), number("last"));
        self.last = Some(last);
        let bytes = |name| row[LOG.at(name)].bytes();
        let link = Link {
            first,
            last,
            at: number("at"),
            body: row[LOG.at("body")].text().unwrap_or_default().as_bytes(),
            before: bytes("before"),
            hash: bytes("hash"),
        };
        if let Err(says) = self.chain.step(&link, link.holds()) {
            self.add(&LOG, row, None, says);
            self.chain = Walk::default();
        }
        let body = row[LOG.at("body")].text().unwrap_or_default();
        let mut next = first;
        for line in body.lines() {
            let event: Result<Logged, _> = serde_json::from_str(line);
            match event {
                Ok(event) if i64::try_from(event.seq) == Ok(next) => {}
                Ok(event) => {
                    let says = format!("event {} is in the place of event {next}", event.seq);
                    return self.add(&LOG, row, Some("body"), says);
                }
                Err(error) => {
                    let says = format!("event {next} cannot be read: {error}");
                    return self.add(&LOG, row, Some("body"), says);
                }
            }
            next += 1;
        }
        if next != last + 1 {
            let says = format!("it ends with event {} instead of {last}", next - 1);
            self.add(&LOG, row, Some("body"), says);
        }
        self.events += u64::try_from(next - first).unwrap_or(0);
    }

    /// Names rows of the target that the source does not have.
    pub fn extra(&mut self, source: &mut dyn Side, target: &mut dyn Side) -> Result<(), Error> {
        for table in TABLES.iter() {
            if source.count(table)? >= target.count(table)? {
                continue;
            }
            let mut after: Option<Vec<Value>> = None;
            loop {
                let rows = target.page(table, after.as_deref(), super::side::PAGE_ROWS)?;
                let Some(last) = rows.last() else { break };
                after = Some(key(table, last).to_vec());
                let keys: Vec<&[Value]> = rows.iter().map(|row| key(table, row)).collect();
                let found = source.find(table, &keys)?;
                for (row, _) in rows.iter().zip(found).filter(|(_, found)| found.is_none()) {
                    self.add(table, row, None, "it is in the target only".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Compares the heads, where both are whole.
    pub fn heads(&mut self, source: &Row, target: &Row) {
        self.columns(&HEAD, source, target);
    }

    /// Checks that the log ends where the head says.
    pub fn log_ends(&mut self, head: &Row) {
        let seq = head[HEAD.at("seq")].int().unwrap_or(0);
        if let Some(last) = self.last.filter(|last| *last != seq) {
            let says = format!("{seq}, and the last event is {last}");
            self.add(&HEAD, head, Some("seq"), says);
        }
    }

    /// What the source's own counters got wrong. The copy has it from there.
    pub fn notes(&self, head: &Row) -> Vec<String> {
        self.tally.against(head)
    }
}

/// The first event that is not the same in both.
fn first_other(left: &str, right: &str) -> Option<String> {
    let (mut left, mut right) = (left.lines(), right.lines());
    loop {
        let (ours, theirs) = (left.next(), right.next());
        if ours.is_none() && theirs.is_none() {
            return None;
        }
        let read =
            |line: Option<&str>| line.and_then(|line| serde_json::from_str::<Logged>(line).ok());
        if ours == theirs {
            continue;
        }
        let seq = read(ours).or_else(|| read(theirs)).map(|event| event.seq);
        let seq = seq.map_or_else(|| "an event".to_owned(), |seq| format!("event {seq}"));
        return Some(match (read(ours), read(theirs)) {
            (Some(_), Some(_)) => format!("{seq} has different content in the target"),
            (Some(_), None) => format!("{seq} is missing or unreadable in the target"),
            (None, _) => format!("{seq} is missing or unreadable in the source"),
        });
    }
}

/// What the head counts, counted.
#[derive(Default)]
struct Tally {
    tasks: [i64; TaskStatus::ALL.len()],
    queued_deliveries: i64,
    leases: i64,
    answer_rows: i64,
    answer_bytes: i64,
    task_number: i64,
    message_number: i64,
    lane: i64,
    fencing: i64,
}

impl Tally {
    fn see(&mut self, table: &Table, row: &Row) {
        let text = |name| row[table.at(name)].text().unwrap_or_default();
        let int = |name| row[table.at(name)].int().unwrap_or(0);
        match table.name {
            "tasks" => {
                self.task_number = self.task_number.max(int("number"));
                let status = text("status");
                let at = TaskStatus::ALL
                    .iter()
                    .position(|known| known.as_str() == status);
                if let Some(at) = at {
                    self.tasks[at] += 1;
                }
            }
            "messages" => self.message_number = self.message_number.max(int("number")),
            "sb_delivery" => self.queued_deliveries += i64::from(text("state") == "queued"),
            "leases" => {
                self.leases += 1;
                self.fencing = self.fencing.max(int("fencing"));
            }
            "sb_lane" => self.lane = self.lane.max(int("lane")),
            "sb_answer" => {
                let bytes = row[table.at("answer")].bytes().map_or(0, <[u8]>::len);
                self.answer_rows += 1;
                self.answer_bytes += i64::try_from(bytes).unwrap_or(i64::MAX);
            }
            _ => {}
        }
    }

    fn against(&self, head: &Row) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |name: &str, says: &Value, counted: String| {
            notes.push(format!(
                "sb_head id=1, column {name}: {says}, and its rows say {counted}; the source has it so, and so has the copy"
            ));
        };
        for (name, counted) in [
            ("queued_deliveries", self.queued_deliveries),
            ("leases", self.leases),
            ("answer_rows", self.answer_rows),
            ("answer_bytes", self.answer_bytes),
        ] {
            let says = &head[HEAD.at(name)];
            if says.int() != Some(counted) {
                note(name, says, counted.to_string());
            }
        }
        for (name, highest) in [
            ("task_number", self.task_number),
            ("message_number", self.message_number),
            ("lane", self.lane),
            ("fencing", self.fencing),
        ] {
            let says = &head[HEAD.at(name)];
            if says.int() < Some(highest) {
                note(name, says, format!("{highest} or more"));
            }
        }
        let says = &head[HEAD.at("tasks")];
        let counts = says
            .text()
            .and_then(|text| serde_json::from_str::<Vec<i64>>(text).ok());
        if counts.as_deref() != Some(&self.tasks[..]) {
            note("tasks", says, format!("{:?}", self.tasks));
        }
        notes
    }
}
