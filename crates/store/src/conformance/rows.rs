//! Everything a reader can see, gathered page by page.

use switchboard_core::attempt::Attempt;
use switchboard_core::budget::{Budget, Resource};
use switchboard_core::query::Readable;
use switchboard_core::record::{Listed, RecordRange, Sample};
use switchboard_core::replay::Replay;
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, Baseline, Delivery, Director, Engram, Head, Learning, Lease, Logged, Message, Record,
    Snapshot, Task,
};

use super::ledger::must;
use crate::{
    AgentCounts, AgentFilter, Error, LeaseFilter, MessageFilter, Page, Pages, Reader,
    SnapshotFilter, TaskFilter,
};

/// A whole ledger, as its readers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Everything {
    pub head: Head,
    pub tasks: Vec<Task>,
    pub attempts: Vec<Attempt>,
    pub agents: Vec<Agent>,
    pub agent_counts: AgentCounts,
    pub leases: Vec<Lease>,
    pub messages: Vec<Message>,
    pub deliveries: Vec<Delivery>,
    pub baseline: Option<Baseline>,
    pub snapshots: Vec<Snapshot>,
    pub learnings: Vec<Learning>,
    pub engrams: Vec<Engram>,
    pub records: Vec<Record>,
    pub log: Vec<Logged>,
    pub tokens: Vec<Token>,
}

impl Everything {
    /// The rows of tasks are what the log says of them.
    pub fn assert_as_logged(&self, seed: u64) {
        let mut replay = Replay::default();
        self.log.iter().for_each(|logged| replay.hear(logged));
        let found: Vec<_> = self
            .tasks
            .iter()
            .flat_map(|task| replay.compare(task))
            .collect();
        assert_eq!(found, [], "the log and the rows, seed {seed}");
        let ids = self.tasks.iter().map(|task| task.id.clone()).collect();
        assert_eq!(replay.missing(&ids), [], "rows of seed {seed}");
    }

    pub fn read(reader: &dyn Reader) -> Everything {
        let tasks = all(|page| must("list tasks", reader.tasks(&TaskFilter::default(), page)));
        let every = AgentFilter {
            with_gone: true,
            ..AgentFilter::default()
        };
        let messages = all(|page| {
            must(
                "list messages",
                reader.messages(&MessageFilter::default(), page),
            )
        });
        let mut attempts = Vec::new();
        for task in &tasks {
            attempts.extend(must("list attempts", reader.attempts(task.number)));
        }
        let mut deliveries = Vec::new();
        for message in &messages {
            let found = must("read a message", reader.message(&message.id));
            let (_, mut rows) = found.expect("a listed message can be read");
            rows.sort_by(|left, right| left.agent.cmp(&right.agent));
            deliveries.extend(rows);
        }
        let mut learnings = must("list learnings", reader.learnings("", usize::MAX >> 1));
        learnings.sort_by(|left, right| left.id.cmp(&right.id));
        let readable = reader as &dyn Readable<Error = Error>;
        let mut engrams = must("list engrams", readable.engrams_with("", usize::MAX >> 1));
        engrams.reverse();
        let budgets = Resource::ALL.iter();
        let budgets = budgets.map(|resource| Budget::at(resource.as_str()));
        let records = std::iter::once(Director::at("")).chain(budgets);
        let records = records.filter_map(|key| must("read a record", reader.record(&key)));
        let samples = RecordRange::of::<Sample>("", usize::MAX >> 1);
        let samples = must("list rows", reader.records(&samples));
        let records = records.chain(samples).collect();
        let mut tokens = must("list tokens", reader.tokens());
        tokens.sort_by(|left, right| left.id.cmp(&right.id));
        Everything {
            head: must("read the head", reader.head()),
            tasks,
            attempts,
            agents: all(|page| must("list agents", reader.agents(&every, page))),
            agent_counts: must("count agents", reader.agent_counts()),
            leases: all(|page| must("list leases", reader.leases(&LeaseFilter::default(), page))),
            messages,
            deliveries,
            baseline: must("read the baseline", reader.baseline()),
            snapshots: all(|page| {
                let every = SnapshotFilter::default();
                must("list snapshots", reader.snapshots(&every, page))
            }),
            learnings,
            engrams,
            records,
            log: must("read the log", reader.events(0, usize::MAX >> 1)),
            tokens,
        }
    }

    /// Panics with the first kind of row in which two ledgers differ.
    pub fn assert_same(&self, other: &Everything, when: &str) {
        assert_eq!(self.head, other.head, "the head {when}");
        same("task", &self.tasks, &other.tasks, when);
        same("attempt", &self.attempts, &other.attempts, when);
        same("agent", &self.agents, &other.agents, when);
        assert_eq!(self.agent_counts, other.agent_counts, "agent counts {when}");
        same("lease", &self.leases, &other.leases, when);
        same("message", &self.messages, &other.messages, when);
        same("delivery", &self.deliveries, &other.deliveries, when);
        assert_eq!(self.baseline, other.baseline, "the baseline {when}");
        same("snapshot", &self.snapshots, &other.snapshots, when);
        same("learning", &self.learnings, &other.learnings, when);
        same("engram", &self.engrams, &other.engrams, when);
        same("record", &self.records, &other.records, when);
        same("event", &self.log, &other.log, when);
        same("token", &self.tokens, &other.tokens, when);
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, left: &[T], right: &[T], when: &str) {
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left, right, "a {what} differs {when}");
    }
    let (left, right) = (left.len(), right.len());
    assert_eq!(left, right, "the number of rows of kind {what} {when}");
}

/// All rows of a list, a few at a time.
pub fn all<T>(list: impl Fn(&Page) -> Pages<T>) -> Vec<T> {
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        let page = list(&Page { after, limit: 100 });
        rows.extend(page.rows);
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
}
