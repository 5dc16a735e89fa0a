//! What an import did. Rows that did not come along are named, up to a bound.

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Agents,
    Snapshots,
    Tasks,
    Messages,
    Baselines,
    Migrations,
    Metadata,
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
    pub(super) fn push(&mut self, item: T) {
        self.count += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push(item);
        }
    }

    pub fn first(&self) -> &[T] {
        &self.first
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many there are beyond the first.
    pub fn unnamed(&self) -> u64 {
        self.count - self.first.len() as u64
    }
}

impl Report {
    /// One more row of a kind came along.
    pub(super) fn came(&mut self, kind: Kind) {
        match self.came.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => self.came.push((kind, 1)),
        }
    }
}
