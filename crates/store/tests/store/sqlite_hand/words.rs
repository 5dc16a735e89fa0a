//! SQLite's own words.

use rusqlite::ErrorCode;

use super::desk::Hand;
use crate::hand::{self, Words};

impl hand::Hand for Hand {
    const WORDS: Words = Words {
        begin: "BEGIN IMMEDIATE",
        odd: &[
            "-1",
            "0",
            "1",
            "9223372036854775807",
            "1e300",
            "9e999",
            "x'00ff'",
            "char(0)",
            "'a' || char(0) || 'b'",
            "CAST(x'c3' AS TEXT)",
            "'[\"' || printf('%.70c', 'x') || '\"]'",
            "printf('%.300000c', 'x')",
        ],
        times: &[
            "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
            "datetime('now', '+10 minutes')",
            "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+2 hours')",
            "datetime('now', '-1 day')",
        ],
        in_a_minute: "datetime('now', '+1 minute')",
        clashes: &[("", ""), ("", ""), ("OR REPLACE", ""), ("OR IGNORE", "")],
        update_clashes: &["", "", "OR REPLACE", "OR IGNORE"],
        json_array: |value| format!("json_array({value})"),
        json_object: |key, value| format!("json_object('{key}', {value})"),
        replace: |row, _| format!("INSERT OR REPLACE INTO {row}"),
        contradictions: &[],
    };

    fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        self.sql(sql)
    }

    /// In a transaction, too, only the statement itself is undone.
    fn attempt(&self, sql: &str, _in_transaction: bool) -> Result<(), String> {
        let outcome = self.db.execute_batch(sql);
        if let Err(error) = &outcome {
            let code = error.sqlite_error_code();
            let refused = matches!(
                code,
                Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
            ) || error.to_string().contains("BLOB");
            assert!(refused, "{error}: {sql}");
        }
        outcome.map_err(|error| error.to_string())
    }
}
