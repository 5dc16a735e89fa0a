//! A report as text: each list of rows is a table, printed from the same members as the JSON.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value};

use crate::report::Report;

const ERRORS_TOLD_MAX: usize = 5;

/// Renders every part that was measured.
pub fn render(report: &Report) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "{} cores, {}; profile {}; {:.1} s a run, median of {}",
        machine.cores, machine.processor, machine.profile, machine.seconds_per_run, machine.rounds
    );
    // Writing to a string cannot fail, here and below.
    if let Some(percent) = machine.others_percent {
        let _ = write!(out, "; other programs took {percent:.0} % before the run");
    }
    out.push('\n');
    let mut parts = serde_json::to_value(report).expect("rows are plain");
    let parts = parts.as_object_mut().expect("an object");
    parts.remove("machine");
    let aims = parts.remove("aims").into_iter().flat_map(list);
    let aims: Vec<Value> = aims
        .filter(|aim| aim["verdict"] != "not measured")
        .collect();
    tables(&mut out, "", std::mem::take(parts));
    table(&mut out, "aims", aims);
    for note in &report.notes {
        let _ = writeln!(out, "\nNote: {note}");
    }
    out
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(rows) => rows,
        other => vec![other],
    }
}

/// A table for each list of rows in an object, and in the objects in it, under its name.
fn tables(out: &mut String, above: &str, parts: Map<String, Value>) {
    for (name, part) in parts {
        let title = format!("{above}{}", heading(&name));
        match part {
            Value::Object(inner) if inner.values().any(Value::is_array) => {
                tables(out, &format!("{title}: "), inner);
            }
            Value::Object(row) => table(out, &title, vec![row.into()]),
            Value::Array(rows) => table(out, &title, rows),
            _ => {}
        }
    }
}

/// A heading and a table; nothing when there are no rows.
fn table(out: &mut String, title: &str, rows: Vec<Value>) {
    let rows: Vec<_> = rows
        .iter()
        .filter_map(Value::as_object)
        .map(cells)
        .collect();
    let Some((first, _)) = rows.first() else {
        return;
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(first.iter().map(|(name, _)| heading(name)));
    for (cells, _) in &rows {
        table.add_row(cells.iter().map(|(name, value)| text(name, value)));
    }
    for (column, (_, value)) in table.column_iter_mut().zip(first) {
        if value.is_number() {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let _ = writeln!(out, "\n{title}\n{}", table.trim_fmt());
    for error in rows
        .iter()
        .flat_map(|(_, errors)| errors)
        .take(ERRORS_TOLD_MAX)
    {
        let _ = writeln!(out, "  error: {error}");
    }
}

/// The members of a row and of the objects in it, words before counts before figures; and what went wrong.
fn cells(row: &Map<String, Value>) -> (Vec<(String, Value)>, Vec<String>) {
    let (mut cells, mut errors) = (Vec::new(), Vec::new());
    for (name, value) in row {
        match value {
            Value::Array(told) => errors.extend(told.iter().map(|error| text("", error))),
            Value::Object(inner) => {
                let named = inner
                    .iter()
                    .map(|(of, value)| (format!("{name} {of}"), value.clone()));
                cells.extend(named);
            }
            value => cells.push((name.clone(), value.clone())),
        }
    }
    cells.sort_by_key(|(_, value)| (!value.is_string(), !value.is_u64()));
    (cells, errors)
}

/// `requestsPerS` as `requests/s`, `p99Ms` as `p99 ms`.
fn heading(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    let words = words.replace(" per s", "/s").replace(" mb", " MB");
    words.replace(" percent", " %")
}

fn text(name: &str, value: &Value) -> String {
    let Value::Number(number) = value else {
        return value.as_str().map_or("-".to_owned(), str::to_owned);
    };
    match number.as_f64().filter(|_| number.is_f64()) {
        None => number.to_string(),
        Some(figure) if name.ends_with("PerS") => format!("{figure:.0}"),
        Some(figure) if name.ends_with("Ms") || name.ends_with('S') => format!("{figure:.3}"),
        Some(figure) => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::OperationRow;

    #[test]
    fn each_list_is_a_table_of_its_members() {
        let row = OperationRow {
            operation: "create".to_owned(),
            requests_per_s: 1234.5,
            ratio: f64::NAN,
            errors_told: vec!["no answer".to_owned()],
            ..OperationRow::default()
        };
        let report = Report {
            operations: vec![row],
            ..Report::default()
        };
        let out = render(&report);
        let (_, table) = out.split_once("\noperations\n").expect("its table");
        let words: Vec<&str> = table.split_whitespace().collect();
        assert_eq!(words[..3], ["operation", "connections", "errors"], "{out}");
        assert!(table.contains("create") && table.contains("1234"), "{out}");
        assert!(table.contains("error: no answer"), "{out}");
        assert!(!out.contains("batch"), "{out}");
    }
}
