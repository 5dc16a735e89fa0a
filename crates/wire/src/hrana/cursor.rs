//! `POST /v3/cursor`: one batch, answered line by line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Batch, BatchResult, Column, Error, Value};
use crate::object::object;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CursorRequest {
    #[serde(default)]
    pub baton: Option<String>,
    #[serde(deserialize_with = "object")]
    pub batch: Batch,
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorHead {
    pub baton: Option<String>,
    pub base_url: Option<String>,
}

/// Every other line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CursorEntry {
    StepBegin {
        step: u32,
        cols: Vec<Column>,
    },
    Row {
        row: Vec<Value>,
    },
    StepEnd {
        affected_row_count: u64,
        last_insert_rowid: Option<String>,
    },
    StepError {
        step: u32,
        error: Error,
    },
    Error {
        error: Error,
    },
}

impl BatchResult {
    /// The same, line by line; steps that were not taken are left out.
    pub fn entries(self) -> impl Iterator<Item = CursorEntry> {
        let steps = (0..).zip(self.step_results.into_iter().zip(self.step_errors));
        steps.flat_map(|(step, (result, error))| {
            let mut entries = Vec::new();
            if let Some(result) = result {
                entries.push(CursorEntry::StepBegin {
                    step,
                    cols: result.cols,
                });
                entries.extend(result.rows.into_iter().map(|row| CursorEntry::Row { row }));
                entries.push(CursorEntry::StepEnd {
                    affected_row_count: result.affected_row_count,
                    last_insert_rowid: result.last_insert_rowid,
                });
            }
            entries.extend(error.map(|error| CursorEntry::StepError { step, error }));
            entries
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hrana::StmtResult;

    #[test]
    fn steps_follow_each_other_and_those_not_taken_are_left_out() {
        let result = StmtResult {
            rows: vec![vec![Value::Null], vec![Value::Null]],
            ..StmtResult::default()
        };
        let batch = BatchResult {
            step_results: vec![Some(result), None, None],
            step_errors: vec![None, None, Some(Error::new("SQLITE_ERROR", "no"))],
            replication_index: None,
        };
        let kinds: Vec<String> = batch
            .entries()
            .map(|entry| serde_json::to_value(&entry).unwrap()["type"].to_string())
            .collect();
        assert_eq!(
            kinds.join(" "),
            r#""step_begin" "row" "row" "step_end" "step_error""#
        );
    }
}
