//! The guards of what strangers write, printed from [`crate::table`]: functions of triggers that the schema has.
//!
//! They are installed under the lock of the migration, and never over those of a newer build: coordinators are replaced
//! one by one.

use switchboard_core::limits::PATH_BYTES_MAX;
use switchboard_core::verb::TRANSITIONS;

use super::errors::world;
use super::session::{Query, Session};
use crate::Error;
use crate::rows::Columns;
use crate::table::{
    AGENTS, BASELINES, Bound, Check, Deed, HELD, LEASES, MESSAGES, SNAPSHOTS, TASKS, Table, spelled,
};
use crate::text::checksum;

/// Raised with every change of what is printed.
const VERSION: i64 = 8;

pub(super) async fn install(session: &Session) -> Result<(), Error> {
    let (sql, there) = (sql(), Query::new("SELECT version, hash FROM sb_guards"));
    let there = session.query(&there).await.map_err(world)?;
    let hash = checksum(&sql);
    if let Some(row) = there.first()
        && let Some(version) = row.int(0)?
        && (version > VERSION || version == VERSION && row.text(1)?.as_deref() == Some(&*hash))
    {
        return Ok(());
    }
    session.simple(&sql).await.map_err(world)?;
    let note = Query::new("UPDATE sb_guards SET version = $1, hash = $2");
    let note = note.int(VERSION).text(&hash);
    session.query(&note).await.map(drop).map_err(world)
}

fn sql() -> String {
    let mut sql = include_str!("guards.sql").to_owned();
    for table in [&TASKS, &AGENTS, &MESSAGES, &LEASES, &SNAPSHOTS, &BASELINES] {
        let name = table.name;
        sql = sql
            .replace(&format!("{{new {name}}}"), &checks(table, Deed::Insert))
            .replace(&format!("{{changed {name}}}"), &checks(table, Deed::Update))
            .replace(&format!("{{times {name}}}"), &times(table))
            .replace(&format!("{{columns {name}}}"), &columns(table, ""))
            .replace(&format!("{{deleted {name}}}"), &columns(table, "OLD."));
    }
    let transitions: Vec<String> = TRANSITIONS
        .iter()
        .map(|(a, b)| format!("('{a}', '{b}')"))
        .collect();
    sql.replace("{transitions}", &transitions.join(", "))
        .replace("{path bytes}", &PATH_BYTES_MAX.to_string())
        .replace("{held}", HELD)
}

/// Statements that refuse a row, and bring its instants into the form in which they are kept.
fn checks(table: &'static Table, deed: Deed) -> String {
    let checks = table.checks(deed);
    let checks: Vec<String> = checks.iter().map(|check| one(table, deed, check)).collect();
    checks.join("\n  ")
}

fn one(table: &Table, deed: Deed, check: &Check) -> String {
    let refuse = |condition: &str, found: &str| {
        let mut says = format!("'{}'", check.sentence(table).replace('\'', "''"));
        if !found.is_empty() {
            says = format!("{says} || '; found ' || sb_says(({found})::text)");
        }
        format!("IF {condition} THEN PERFORM sb_refuse({says}); END IF;")
    };
    match check {
        Check::Bound(column) => {
            let new = format!("NEW.{}", column.name);
            let mut held = refuse(&column.bound.broken_on_postgres(&new), &new);
            if matches!(column.bound, Bound::Time) {
                held = format!("{held} {new} := sb_instant({new});");
            }
            match deed {
                Deed::Insert => held,
                Deed::Update => format!(
                    "IF {new} IS DISTINCT FROM OLD.{} THEN {held} END IF;",
                    column.name
                ),
            }
        }
        Check::Born(column, born) => {
            refuse(&format!("NEW.{} IS DISTINCT FROM {born}", column.name), "")
        }
        Check::Kept(column) => refuse(
            &format!("NEW.{0} IS DISTINCT FROM OLD.{0}", column.name),
            "",
        ),
        Check::Rule(rule) => {
            let refused = spelled(rule.refused)
                .replace("{noted}", "false")
                .replace("{covers}", COVERS)
                .replace("{glob}", "{path} ~ '[*?{]'")
                .replace("{path}", path_of(deed));
            let over = |of: &str| format!("{of}.expires_at <= sb_now()");
            let refused = ["NEW", "OLD", "held"].iter().fold(refused, |refused, of| {
                refused.replace(&format!("{{over {of}}}"), &over(of))
            });
            refuse(&refused, rule.found)
        }
    }
}

/// Sets the instants that a stranger may change, in the form in which they are kept.
fn times(table: &Table) -> String {
    let times = table.columns.iter();
    let times = times.filter(|column| matches!(column.bound, Bound::Time) && !column.once);
    let times: Vec<String> = times
        .map(|column| format!("{0} = NEW.{0}", column.name))
        .collect();
    times.join(", ")
}

fn columns(table: &Table, of: &str) -> String {
    let names = table.columns.iter();
    let names: Vec<String> = names.map(|column| format!("{of}{}", column.name)).collect();
    names.join(", ")
}

/// At a directory above it, or below it: '0' is the character after '/'.
const COVERS: &str = "(held.prefix = ANY (SELECT array_to_string(parts[1:upto], '/') FROM string_to_array({path}, '/') AS parts,
        generate_series(0, cardinality(parts)) AS upto)
      OR (held.prefix > {path} || '/' AND held.prefix < {path} || '0'))";

/// The normal form of a lease's path.
fn path_of(deed: Deed) -> &'static str {
    match deed {
        Deed::Insert => "normal",
        Deed::Update => "coalesce(NEW.path, NEW.file_path)",
    }
}

#[cfg(test)]
mod tests {
    use switchboard_test_cluster::Cluster;

    use super::*;
    use crate::postgres::{Address, PostgresEngine};

    /// A build that prints other guards under the same version would take turns with this one.
    #[test]
    fn what_is_printed_has_a_version_of_its_own() {
        let printed = (VERSION, checksum(&sql()));
        assert_eq!(
            printed,
            (8, "d83be0a84ab47164".to_owned()),
            "raise the version"
        );
        assert!(!sql().contains("{new ") && !sql().contains("{changed "));
    }

    #[test]
    fn guards_of_an_older_build_are_replaced_and_those_of_a_newer_one_stay() {
        let Some(server) = Cluster::shared("guards of several builds") else {
            return;
        };
        let database = server.create_database();
        let open = || PostgresEngine::open(Address::parse(&database.url).expect("an address"));
        drop(open().expect("a new ledger"));
        let other = "CREATE OR REPLACE FUNCTION sb_tasks_new() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$";
        let is_other = || {
            database.sql("SELECT count(*) FROM pg_proc WHERE proname = 'sb_tasks_new' AND prosrc LIKE '%RETURN NULL%'")
        };
        for (version, stays) in [(VERSION + 1, "1"), (VERSION, "1"), (VERSION - 1, "0")] {
            database.sql(other);
            database.sql(&format!("UPDATE sb_guards SET version = {version}"));
            drop(open().expect("the ledger once more"));
            assert_eq!(is_other().trim(), stays, "{version}");
        }
    }
}
