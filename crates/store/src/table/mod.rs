//! What each table is, said once: its key, its columns in their order, who may write them and within which bounds.
//!
//! The lists of columns that are read and written, the copy between engines, what strangers may touch and the guards of
//! what they write are printed from here. How a schema came to be is told by its steps; a test holds both against each
//! other.

mod bound;
mod guard;
pub(crate) mod print;
mod private;
mod public;

pub(crate) use bound::Bound;
pub(crate) use guard::{Check, Deed, HELD, Rule, spelled};

pub(crate) use private::{
    ANSWERS, ATTEMPTS, DELIVERIES, DEPS, FORMER_AGENTS, GONE_AGENTS, HEADS, LANES, LEARNINGS, LOG,
    NONCES, RECORDS, REPS, SQL_AGENTS, TOKENS,
};
pub(crate) use public::{
    AGENTS, BASELINES, LEASES, MESSAGES, METADATA, MIGRATIONS, SNAPSHOTS, TASKS,
};

/// All but the head, in the order in which they are copied.
pub(crate) const TABLES: &[&Table] = &[
    &METADATA,
    &MIGRATIONS,
    &TASKS,
    &AGENTS,
    &MESSAGES,
    &LEASES,
    &SNAPSHOTS,
    &BASELINES,
    &DEPS,
    &LANES,
    &REPS,
    &ATTEMPTS,
    &DELIVERIES,
    &LEARNINGS,
    &RECORDS,
    &ANSWERS,
    &NONCES,
    &TOKENS,
    &SQL_AGENTS,
    &GONE_AGENTS,
    &FORMER_AGENTS,
    &LOG,
];

/// Those that strangers may use: all that have a column which is not the hub's.
pub(crate) fn public() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().copied().filter(|table| table.is_public())
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub name: &'static str,
    /// What tells a row from all others.
    pub key: &'static [&'static str],
    /// Those of the protocol's document come first, in its order.
    pub columns: &'static [Column],
    pub rules: &'static [Rule],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub owner: Owner,
    /// Of a value that a stranger writes.
    pub bound: Bound,
    pub null: bool,
    /// Strangers set it with a new row, and then it stays.
    pub once: bool,
    /// What the hub's own column has in a stranger's new row, in SQL.
    pub born: Option<&'static str>,
    pub groups: Groups,
    /// What stands there in a row from an engine that does not have this column.
    pub only_postgres: Option<&'static str>,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Real,
    Text,
    Bytes,
}

/// Whose a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The protocol's document has it: strangers read and write it.
    Document,
    /// Ours, and strangers may write it.
    Stranger,
    Hub,
}

/// Lists of columns that go together, as bits.
pub(crate) type Groups = u8;

/// What makes up the noun when it is read.
pub(crate) const READ: Groups = 1;
/// Read beside it, or only when asked for.
pub(crate) const BESIDE: Groups = 2;
/// Written with a new row.
pub(crate) const NEW: Groups = 4;
/// What work on it touches, what became of it.
pub(crate) const WORK: Groups = 8;
/// Where a task waits, and why.
pub(crate) const QUEUE: Groups = 16;
/// What people wrote, or an agent says of itself.
pub(crate) const WORDS: Groups = 32;
/// Signs of life.
pub(crate) const PULSE: Groups = 64;

impl Table {
    pub fn is_public(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.owner != Owner::Hub)
    }

    /// Whether strangers may write a column; names are compared as SQL does.
    pub fn is_writable(&self, name: &str) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.owner != Owner::Hub && column.name.eq_ignore_ascii_case(name))
    }

    /// The columns that strangers may change.
    pub fn changeable(&self) -> impl Iterator<Item = &'static str> {
        let columns = self.columns.iter();
        let open = columns.filter(|column| column.owner != Owner::Hub && !column.once);
        open.map(|column| column.name)
    }

    /// Those of them that say what is wanted.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        let columns = self.columns.iter();
        let open =
            columns.filter(|column| column.owner != Owner::Hub && column.groups & WORDS != 0);
        open.map(|column| column.name)
    }

    /// The place of a column among those of a group.
    pub const fn at(&self, group: Groups, name: &str) -> usize {
        let (mut at, mut column) = (0, 0);
        while column < self.columns.len() {
            let is_listed = self.columns[column].groups & group != 0;
            if is_listed && is_same(self.columns[column].name, name) {
                return at;
            }
            at += is_listed as usize;
            column += 1;
        }
        panic!("no column of this name is in this group")
    }

    /// How many columns a group has.
    pub const fn count(&self, group: Groups) -> usize {
        let (mut count, mut column) = (0, 0);
        while column < self.columns.len() {
            count += (self.columns[column].groups & group != 0) as usize;
            column += 1;
        }
        count
    }

    /// How many bytes [`Table::list`] has.
    pub const fn list_len(&self, group: Groups) -> usize {
        let (mut len, mut column) = (0, 0);
        while column < self.columns.len() {
            if self.columns[column].groups & group != 0 {
                len += self.columns[column].name.len() + 2;
            }
            column += 1;
        }
        len - 2
    }

    /// The names of a group with commas between, as bytes.
    pub const fn list<const LEN: usize>(&self, group: Groups) -> [u8; LEN] {
        let mut list = [b' '; LEN];
        let (mut at, mut column) = (0, 0);
        while column < self.columns.len() {
            if self.columns[column].groups & group != 0 {
                if at > 0 {
                    list[at] = b',';
                    at += 2;
                }
                let name = self.columns[column].name.as_bytes();
                let mut letter = 0;
                while letter < name.len() {
                    list[at] = name[letter];
                    (at, letter) = (at + 1, letter + 1);
                }
            }
            column += 1;
        }
        list
    }
}

const fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The names of a list, each as one of a table in a statement with several.
pub(crate) fn qualified(list: &str, table: &str) -> String {
    let names = list.split(", ").map(|name| format!("{table}.{name}"));
    names.collect::<Vec<_>>().join(", ")
}

/// The names of a group of columns as a list for SQL, made when the hub is built.
macro_rules! list {
    ($table:expr, $group:expr) => {{
        const LIST: [u8; $table.list_len($group)] = $table.list($group);
        match std::str::from_utf8(&LIST) {
            Ok(list) => list,
            Err(_) => panic!("names are ASCII"),
        }
    }};
}

/// The place of a column in a row that was read by the list of its group.
macro_rules! at {
    ($table:ident.$column:tt) => {
        at!($crate::table::READ, $table.$column)
    };
    ($group:expr, $table:ident.$column:tt) => {
        const { $table.at($group, stringify!($column)) }
    };
}

pub(crate) use {at, list};

const fn column(kind: Kind, name: &'static str, owner: Owner) -> Column {
    Column {
        name,
        kind,
        owner,
        bound: Bound::Any,
        null: false,
        once: false,
        born: None,
        groups: READ | NEW,
        only_postgres: None,
    }
}

/// Columns of the document.
const fn doc(kind: Kind, name: &'static str) -> Column {
    column(kind, name, Owner::Document)
}

/// Columns of ours that strangers may write.
const fn open(kind: Kind, name: &'static str) -> Column {
    column(kind, name, Owner::Stranger)
}

/// Columns of the hub.
const fn own(kind: Kind, name: &'static str) -> Column {
    column(kind, name, Owner::Hub)
}

impl Column {
    const fn bound(mut self, bound: Bound) -> Self {
        self.bound = bound;
        self
    }

    const fn null(mut self) -> Self {
        self.null = true;
        self
    }

    const fn once(mut self) -> Self {
        self.once = true;
        self
    }

    const fn born(mut self, sql: &'static str) -> Self {
        self.born = Some(sql);
        self
    }

    /// Written with these groups, and no others.
    const fn to(mut self, groups: Groups) -> Self {
        self.groups = self.groups & (READ | BESIDE) | groups;
        self
    }

    /// For others to see; the noun is read without it.
    const fn shown(mut self) -> Self {
        self.groups &= !READ;
        self
    }

    const fn beside(self) -> Self {
        let mut beside = self.shown();
        beside.groups |= BESIDE;
        beside
    }

    const fn only_postgres(mut self, elsewhere: &'static str) -> Self {
        self.only_postgres = Some(elsewhere);
        self.shown()
    }
}
