//! The page's tables are those of the file, and its words those of the rules.

use std::collections::BTreeSet;

use rusqlite::Connection;
use switchboard_core::verb::TRANSITIONS;
use switchboard_tests::Project;

use super::day::swarm_db;
use super::page;

/// Columns of ours that the page leaves out, because nobody but the hub has a use for them.
const OURS: [&str; 32] = [
    "epoch_needed",
    "stream",
    "when_spent",
    "deadline_at",
    "stale_ms",
    "look_at",
    "doors",
    "silent_ms",
    "rev",
    "lane",
    "state_at",
    "worked_ms",
    "progress",
    "dependants",
    "corr_id",
    "presence",
    "presence_at",
    "seen_at",
    "runtime_ms",
    "holds",
    "metrics",
    "key_generation",
    "inbox",
    "handoff_task",
    "handoff_epoch",
    "given_session",
    "given_number",
    "copy_of",
    "prefix",
    "number",
    "contract",
    "afar",
];

const TABLES: [&str; 8] = [
    "tasks",
    "agents",
    "messages",
    "leases",
    "quality_snapshots",
    "quality_baseline",
    "migrations",
    "swarm_metadata",
];

/// What stands in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The part of the page from a heading to the next.
fn section(text: &str, heading: &str) -> String {
    let (_, rest) = text.split_once(heading).expect("the page has this section");
    rest.split("\n## ").next().unwrap_or(rest).to_owned()
}

fn columns(file: &Connection, table: &str) -> Vec<(String, Option<String>)> {
    file.prepare("SELECT name, dflt_value FROM pragma_table_xinfo(?)")
        .and_then(|mut statement| {
            let rows = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
        .expect("a table has columns")
}

#[test]
fn the_page_names_every_public_column() {
    let project = Project::new();
    let _hub = project.start();
    let file = Connection::open(swarm_db(&project)).expect("it opens");
    let text = page::text();
    let section = section(&text, "\n## The tables");
    let named: BTreeSet<&str> = quoted(&section).into_iter().collect();
    let mut known = BTreeSet::new();
    for table in TABLES {
        let columns = columns(&file, table);
        assert!(!columns.is_empty(), "there is no table {table}");
        for (column, _) in columns {
            let left_out = OURS.contains(&column.as_str());
            assert!(
                named.contains(column.as_str()) || left_out,
                "the page does not name {table}.{column}"
            );
            known.insert(column);
        }
    }
    // The first cell of each line names columns and nothing else.
    let cells = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    for name in cells.flat_map(|cell| cell.split("`, `").map(|name| name.trim_end_matches('`'))) {
        assert!(
            known.contains(name),
            "the page names {name}, which no table has"
        );
    }
}

#[test]
fn the_page_tells_the_defaults_of_the_tables() {
    let project = Project::new();
    let _hub = project.start();
    let file = Connection::open(swarm_db(&project)).expect("it opens");
    let text = page::text();
    let section = section(&text, "\n## The tables");
    for table in ["tasks", "agents", "messages", "leases"] {
        let (_, rest) = section
            .split_once(&format!("\n`{table}`\n"))
            .expect("each table has its own");
        let lines = rest
            .trim_start()
            .lines()
            .take_while(|line| line.starts_with('|'))
            .skip(2);
        for line in lines {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let names = quoted(cells[1]);
            let defaults: Vec<&str> = cells[2].split(", ").collect();
            for (n, name) in names.iter().enumerate() {
                let told = defaults
                    .get(n)
                    .or(defaults.first())
                    .expect("a split has a first");
                let all = columns(&file, table);
                let (_, default) = all
                    .iter()
                    .find(|(column, _)| column == name)
                    .expect("it is a column");
                let default = match default.as_deref() {
                    None => "NULL".to_owned(),
                    Some(now) if now.starts_with("strftime") => "now".to_owned(),
                    Some(value) => value.trim_matches('\'').to_owned(),
                };
                let told = told.trim_matches('`').trim_end_matches(',');
                let fits = told == default
                    || (default == "NULL" && (told.is_empty() || told.starts_with("from")));
                assert!(
                    fits,
                    "{table}.{name}: the page says {told:?}, the table {default:?}"
                );
            }
        }
    }
}

#[test]
fn the_page_lists_exactly_the_changes_of_status_that_a_hand_may_make() {
    let text = page::text();
    let section = section(&text, "\n## What is refused");
    let lines = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut told = BTreeSet::new();
    for line in lines {
        let (from, to) = line.split_once(" | ").expect("a line has two cells");
        for from in from.split("`, `").map(|from| from.trim_end_matches('`')) {
            told.extend(quoted(to).into_iter().map(|to| (from, to)));
        }
    }
    let allowed: BTreeSet<(&str, &str)> = TRANSITIONS.iter().copied().collect();
    assert_eq!(told, allowed);
}
