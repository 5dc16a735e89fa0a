//! What an import did, in words. Rows that did not come along are named, up to a bound.

use super::SwarmDb;

/// Rows that are named one by one; the others are counted.
const NAMED_MAX: usize = 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many rows of which kind came along.
    pub came: Vec<(Kind, u64)>,
    pub skipped: Named<Skipped>,
    /// Rows whose ids the ledger had already.
    pub known: Named<String>,
    /// What came along with something left out.
    pub mended: Named<Skipped>,
    /// Messages that were read or meant for the moment, and leases.
    pub past: u64,
    /// Tables that stay in the kept file.
    pub others: Vec<String>,
}

/// A kind of row, as a person calls one and many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub one: &'static str,
    pub many: &'static str,
}

pub const TASKS: Kind = kind("task", "tasks");
pub const AGENTS: Kind = kind("agent", "agents");
pub const MESSAGES: Kind = kind("unread message", "unread messages");
pub const SNAPSHOTS: Kind = kind("quality snapshot", "quality snapshots");
pub const BASELINES: Kind = kind("quality baseline", "quality baselines");
pub const MIGRATIONS: Kind = kind("migration", "migrations");
pub const METADATA: Kind = kind("line of metadata", "lines of metadata");

const fn kind(one: &'static str, many: &'static str) -> Kind {
    Kind { one, many }
}

/// A row that did not come along, or not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub table: &'static str,
    pub id: String,
    pub reason: String,
}

/// The first few, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<T> {
    first: Vec<T>,
    count: u64,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named {
            first: Vec::new(),
            count: 0,
        }
    }
}

impl<T> Named<T> {
    pub fn push(&mut self, item: T) {
        self.count += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push(item);
        }
    }

    fn unnamed(&self) -> u64 {
        self.count - self.first.len() as u64
    }
}

impl Report {
    /// One more row of a kind came along.
    pub fn came(&mut self, kind: Kind) {
        match self.came.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.came.push((kind, 1)),
        }
    }

    /// The one line that says what happened.
    pub fn line(&self, kept: &str) -> String {
        let shown = SwarmDb::SHOWN;
        let counted: Vec<String> = self
            .came
            .iter()
            .map(|(kind, count)| match count {
                1 => format!("1 {}", kind.one),
                count => format!("{count} {}", kind.many),
            })
            .collect();
        if counted.is_empty() {
            return format!("nothing was imported from {shown}, which is kept as {kept}");
        }
        format!(
            "imported {} from {shown}, kept as {kept}",
            counted.join(", ")
        )
    }

    /// What a person should know beyond it.
    pub fn warnings(&self, kept: &str) -> Vec<String> {
        let mut warnings = Vec::new();
        told(&mut warnings, &self.skipped, "not imported");
        told(&mut warnings, &self.mended, "imported with changes");
        if self.known.count > 0 {
            let more = match self.known.unnamed() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            warnings.push(format!(
                "{} rows were left out because the ledger has their ids already: {}{more}",
                self.known.count,
                self.known.first.join(", ")
            ));
        }
        if self.past > 0 {
            warnings.push(format!(
                "{} messages that were read, broadcast or out of date, and leases, stay in {kept}",
                self.past
            ));
        }
        if !self.others.is_empty() {
            let tables = self.others.join(", ");
            warnings.push(format!(
                "tables that are not the hub's stay in {kept}: {tables}"
            ));
        }
        warnings
    }
}

fn told(warnings: &mut Vec<String>, rows: &Named<Skipped>, what: &str) {
    for Skipped { table, id, reason } in &rows.first {
        warnings.push(format!("{what}: {id} of {table}, because {reason}"));
    }
    match rows.unnamed() {
        0 => {}
        more => warnings.push(format!("{what}: {more} more")),
    }
}
