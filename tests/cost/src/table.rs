//! The table of costs as it stands in the repository, and how two of them compare.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What one operation costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How often the engine was asked for rows.
    pub rounds: u64,
    /// For how many rows and ranges.
    pub asks: u64,
    pub statements: u64,
    pub rows: u64,
    pub wal_bytes: u64,
    pub allocations: u64,
}

/// Engine and operation.
pub type Costs = BTreeMap<(String, String), Cost>;

/// What allocations may differ by, in percent: sizes of buffers are not all ours.
const ALLOCATIONS_SLACK: u64 = 2;
/// Neither is how a server's answers are cut into packets, and whether it finds room for a row on its page. A statement or a row more is
/// counted exactly.
const SERVER_SLACK: u64 = 15;
/// However little an operation costs: a record or two of the server's own.
const SERVER_STEP: u64 = 100;
/// A page of SQLite more is beyond this.
const WAL_SLACK: u64 = 5;

const HEADER: &str = "\
| engine | operation | rounds | asks | statements | rows | WAL bytes | allocations |
|---|---|---|---|---|---|---|---|
";

type Figure = (&'static str, fn(&Cost) -> u64, u64);

const FIGURES: [Figure; 6] = [
    ("rounds", |cost| cost.rounds, 0),
    ("asks", |cost| cost.asks, 0),
    ("statements", |cost| cost.statements, 0),
    ("rows", |cost| cost.rows, 0),
    ("WAL bytes", |cost| cost.wal_bytes, WAL_SLACK),
    ("allocations", |cost| cost.allocations, ALLOCATIONS_SLACK),
];

impl Cost {
    pub fn zip(&self, other: &Cost, with: fn(u64, u64) -> u64) -> Cost {
        Cost {
            rounds: with(self.rounds, other.rounds),
            asks: with(self.asks, other.asks),
            statements: with(self.statements, other.statements),
            rows: with(self.rows, other.rows),
            wal_bytes: with(self.wal_bytes, other.wal_bytes),
            allocations: with(self.allocations, other.allocations),
        }
    }
}

/// Reads the rows of a table; what stands around it is passed over.
pub fn parse(text: &str) -> Costs {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_matches('|');
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows = text.lines().map(cells).filter_map(|row| {
        let [engine, operation, figures @ ..] = row.as_slice() else {
            return None;
        };
        let figures: Result<Vec<u64>, _> = figures.iter().map(|figure| figure.parse()).collect();
        let [rounds, asks, statements, rows, wal_bytes, allocations] = figures.ok()?[..] else {
            return None;
        };
        let cost = Cost {
            rounds,
            asks,
            statements,
            rows,
            wal_bytes,
            allocations,
        };
        Some(((engine.clone(), operation.clone()), cost))
    });
    rows.collect()
}

/// The same text with other rows.
pub fn print(text: &str, costs: &Costs) -> String {
    let before = text.split(HEADER).next().unwrap_or_default();
    let mut out = format!("{before}{HEADER}");
    for ((engine, operation), cost) in costs {
        write!(out, "| {engine} | {operation} |").expect("a string takes it");
        for (_, figure, _) in FIGURES {
            write!(out, " {} |", figure(cost)).expect("a string takes it");
        }
        out.push('\n');
    }
    out
}

/// What costs more or less than it should; one sentence each.
pub fn differences(expected: &Costs, found: &Costs) -> Vec<String> {
    let mut told = Vec::new();
    for (name @ (engine, operation), cost) in found {
        let Some(known) = expected.get(name) else {
            told.push(format!("{operation} on {engine} is not in the table"));
            continue;
        };
        for (what, figure, slack) in FIGURES {
            let (was, is) = (figure(known), figure(cost));
            let step = match engine.as_str() {
                "postgres" if slack > 0 => (was * SERVER_SLACK / 100).max(SERVER_STEP),
                _ => was * slack / 100,
            };
            if is > was + step {
                told.push(format!(
                    "{operation} on {engine} costs more {what}: {is}, not {was}"
                ));
            } else if is + step < was {
                told.push(format!(
                    "{operation} on {engine} costs fewer {what}, which is to be written down: {is}, not {was}"
                ));
            }
        }
    }
    told
}
