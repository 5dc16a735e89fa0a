//! Rows that only streams and their operators look at: private rows, what is in whose hands.

use switchboard_core::{Record, RecordRange, TaskStatus};

use super::{Columns, id, number, text, unreadable, unsigned, word};
use crate::HeldTask;
use crate::columns::task::read_progress;

/// Of a task `t` that agent `a` holds.
pub(crate) const HELD: &str = "a.id, t.id, t.number, t.status, t.retry_count, t.progress";

pub(crate) fn held<R: Columns>(row: &R) -> Result<HeldTask, R::Error> {
    Ok(HeldTask {
        agent: id(row, 0)?,
        id: id(row, 1)?,
        number: unsigned(row, 2)?,
        status: word(row, 3, TaskStatus::parse)?,
        retries: number(row, 4)?,
        phase: read_progress(row, 5)?.map(|progress| progress.phase),
    })
}

/// The one column that a private row is read from.
pub(crate) fn record<R: Columns>(row: &R) -> Result<Record, R::Error> {
    let value = text(row, 0)?;
    parse_record(&value).ok_or_else(|| unreadable(0, &value).into())
}

fn parse_record(value: &str) -> Option<Record> {
    /// Builds that knew one version of each kind wrote none.
    #[derive(serde::Deserialize)]
    struct Version {
        #[serde(default)]
        v: u32,
    }
    let version: Version = serde_json::from_str(value).ok()?;
    let record: Record = serde_json::from_str(value).ok()?;
    (version.v <= record.kind().version()).then_some(record)
}

/// Where the rows of a range are and in which order, in the words that both dialects share.
pub(crate) fn record_range(range: &RecordRange) -> (&'static str, &'static str) {
    match range.newest_first {
        false => (">", "position, key"),
        true => ("<", "position DESC, key DESC"),
    }
}

#[cfg(test)]
mod tests {
    use switchboard_core::Director;
    use switchboard_core::record::Sample;

    use super::*;

    #[test]
    fn rows_of_older_builds_are_read_and_those_of_newer_ones_are_not_guessed_at() {
        let sample = Sample {
            name: "a".to_owned(),
            ..Sample::default()
        };
        let row = |v: &str| {
            format!(r#"{{{v}"kind":"sample","name":"a","owner":"","position":null,"due_at":null}}"#)
        };
        for (v, is_read) in [
            ("", true),
            (r#""v":1,"#, true),
            (r#""v":2,"#, true),
            (r#""v":3,"#, false),
        ] {
            let expected = is_read.then(|| sample.clone().into());
            assert_eq!(parse_record(&row(v)), expected, "{v}");
        }
        let director = r#"{"kind":"director","paused":null,"cooldown_until":null,"cooldown":null,"release":null}"#;
        assert_eq!(parse_record(director), Some(Director::default().into()));
        assert_eq!(parse_record(r#"{"v":1,"kind":"unheard_of"}"#), None);
    }
}
