//! What is held against hand writes, as SQLite looks at it.

use switchboard_core::limits;

use super::Trigger;
use crate::table::{Check, Deed, Table, spelled};

/// Refuses the write where the condition holds.
pub(super) fn refuse(sentence: &str, condition: &str) -> String {
    let sentence = sentence.replace('\'', "''");
    format!("SELECT RAISE(ABORT, '{sentence}') WHERE {condition};")
}

/// The trigger that comes before a write, with what else it does then.
pub(super) fn guard(
    name: &'static str,
    table: &'static Table,
    deed: Deed,
    more: impl IntoIterator<Item = String>,
) -> Trigger {
    let on = match deed {
        Deed::Insert => "BEFORE INSERT ON",
        Deed::Update => "BEFORE UPDATE ON",
    };
    let checks = table.checks(deed).into_iter().map(|check| {
        let sentence = check.sentence(table).replace('\'', "''");
        format!(
            "WHEN {} THEN RAISE(ABORT, '{sentence}')",
            refused(table, deed, &check)
        )
    });
    let checks: Vec<String> = checks.collect();
    let checks = format!("SELECT CASE {} END;", checks.join("\n    "));
    Trigger {
        name,
        on: format!("{on} {}", table.name),
        body: [checks].into_iter().chain(more).collect(),
    }
}

fn refused(table: &Table, deed: Deed, check: &Check) -> String {
    match check {
        Check::Bound(column) => {
            let new = format!("NEW.{}", column.name);
            let broken = column.bound.broken_on_sqlite(&new);
            let is_new = match deed {
                Deed::Insert => String::new(),
                Deed::Update => format!("{new} IS NOT OLD.{} AND ", column.name),
            };
            let is_there = match column.null {
                true => format!("{new} IS NOT NULL AND "),
                false => String::new(),
            };
            format!("{is_new}{is_there}({broken})")
        }
        Check::Born(column, born) => {
            // So reads a row's number that is left to SQLite.
            let born = if table.key == [column.name] {
                "-1"
            } else {
                born
            };
            format!("NEW.{} IS NOT {born}", column.name)
        }
        Check::Kept(column) => {
            let changed = format!("NEW.{0} IS NOT OLD.{0}", column.name);
            match by_trigger(table.name, column.name) {
                None => changed,
                Some(ours) => format!("{changed} AND NOT ({ours})"),
            }
        }
        Check::Rule(rule) => {
            let refused = spelled(rule.refused)
                .replace("IS NOT DISTINCT FROM", "IS")
                .replace("IS DISTINCT FROM", "IS NOT")
                .replace("{noted}", TASK_NOTED)
                .replace("{covers}", COVERS)
                .replace("{glob}", "({path} GLOB '*[*?{]*')")
                .replace("{path}", path_of(deed));
            let at = |of: &str| format!("{{over {of}}}");
            ["NEW", "OLD", "held"].iter().fold(refused, |refused, of| {
                refused.replace(&at(of), &over(&format!("{of}.expires_at")))
            })
        }
    }
}

/// What our own triggers do to columns of the hub after a write, which fires the guards once more.
fn by_trigger(table: &str, column: &str) -> Option<String> {
    let ours = match (table, column) {
        ("tasks" | "messages", "number") => {
            format!("OLD.rev = 0 AND NEW.number IS (SELECT min(-1, min(number)) - 1 FROM {table})")
        }
        // Then it is written anew anyway.
        ("tasks", "lane") => format!("NEW.lane IS NULL AND {TASK_NOTED}"),
        ("leases", "prefix" | "path") => {
            "OLD.rev = 0 AND EXISTS (SELECT 1 FROM sb_was WHERE tbl = 'path' AND key = OLD.file_path)"
                .to_owned()
        }
        ("leases", "rev") => {
            "NEW.rev IS 0 AND EXISTS (SELECT 1 FROM sb_hand WHERE tbl = 'leases' AND key = OLD.file_path)"
                .to_owned()
        }
        _ => return None,
    };
    Some(ours)
}

const TASK_NOTED: &str = "EXISTS (SELECT 1 FROM sb_hand WHERE tbl = 'tasks' AND key = OLD.id)";

const COVERS: &str = "(held.prefix = '' OR held.prefix = {path}
        OR substr(held.prefix, 1, length({path}) + 1) = {path} || '/'
        OR substr({path}, 1, length(held.prefix) + 1) = held.prefix || '/')";

/// The normal form of a new lease's path, as [`normal_path`] left it.
pub(super) const NEW_PATH: &str =
    "(SELECT was FROM sb_was WHERE tbl = 'path' AND key = NEW.file_path)";

fn path_of(deed: Deed) -> &'static str {
    match deed {
        Deed::Insert => NEW_PATH,
        Deed::Update => "coalesce(NEW.path, NEW.file_path)",
    }
}

/// Notes the normal form of a new lease's path, relative to a project that is served; NULL if it leads outside of all.
/// It is walked segment by segment, under the name of the trigger: by that name libSQL's guard knows what a trigger may.
pub(super) fn normal_path() -> String {
    let slashed = "replace(NEW.file_path, char(92), '/')";
    let (segment, bytes) = (
        "substr(rest, 1, instr(rest, '/') - 1)",
        limits::PATH_BYTES_MAX,
    );
    format!(
        "DELETE FROM sb_was WHERE tbl = 'path' AND key = NEW.file_path;
  INSERT INTO sb_was(tbl, key, was) SELECT 'path', NEW.file_path, (
    WITH RECURSIVE sb_leases_insert_guard(rest, done) AS (
      SELECT CASE WHEN substr({slashed}, 1, 1) <> '/' THEN {slashed} ELSE (
        SELECT substr({slashed}, length(key) + 2) FROM sb_record
        WHERE kind = 'root' AND ({slashed} = key OR substr({slashed}, 1, length(key) + 1) = key || '/')
        ORDER BY length(key) DESC LIMIT 1) END || '/', ''
      UNION ALL
      SELECT substr(rest, instr(rest, '/') + 1), CASE {segment} WHEN '' THEN done WHEN '.' THEN done
        WHEN '..' THEN CASE WHEN done <> '' THEN rtrim(rtrim(done, replace(done, '/', '')), '/') END
        ELSE done || '/' || {segment} END
      FROM sb_leases_insert_guard WHERE rest <> '')
    SELECT CASE done WHEN '' THEN '.' ELSE substr(done, 2) END FROM sb_leases_insert_guard WHERE rest = '')
  WHERE typeof(NEW.file_path) = 'text' AND length(CAST(NEW.file_path AS BLOB)) <= {bytes};"
    )
}

/// Whether a lease has run out, by the ledger's time: where it was when the hub last wrote, and what the machine's clock
/// has counted since.
pub(super) fn over(expires_at: &str) -> String {
    format!(
        "julianday({expires_at}) <= (SELECT CASE WHEN clock_wall = 0 THEN julianday('now') ELSE julianday(clock_at / 1000.0, 'unixepoch')
        + max(0, julianday('now') - julianday(clock_wall / 1000.0, 'unixepoch')) END FROM sb_head)"
    )
}
