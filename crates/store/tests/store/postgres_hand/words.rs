//! PostgreSQL's own words.

use super::desk::{Hand, said};
use crate::hand::{self, Words};

impl hand::Hand for Hand {
    const WORDS: Words = Words {
        begin: "BEGIN",
        odd: &[
            "'-1'",
            "'0'",
            "'1'",
            "'9223372036854775807'",
            "'1e300'",
            "chr(26) || '0'",
            "'a' || chr(1) || 'b'",
            "'infinity'",
            "'[\"' || repeat('x', 70) || '\"]'",
            "repeat('x', 300000)",
        ],
        times: &[
            "sb_now()",
            "now() + interval '10 minutes'",
            "(now() + interval '2 hours') AT TIME ZONE 'UTC'",
            "now() - interval '1 day'",
        ],
        in_a_minute: "now() + interval '1 minute'",
        clashes: &[("", ""), ("", ""), ("", "ON CONFLICT DO NOTHING")],
        update_clashes: &[""],
        json_array: |value| format!("jsonb_build_array({value}::text)::text"),
        json_object: |key, value| format!("jsonb_build_object('{key}', {value}::text)::text"),
        replace: |row, changed| {
            let set = changed
                .iter()
                .map(|name| format!("{name} = excluded.{name}"));
            let set: Vec<String> = set.collect();
            format!(
                "INSERT INTO {row} ON CONFLICT (id) DO UPDATE SET {}",
                set.join(", ")
            )
        },
        contradictions: &[(
            "the head says that notes are left",
            "SELECT by_hand FROM sb_head WHERE by_hand <> 0",
        )],
    };

    fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        self.sql(sql)
    }

    /// What is refused would end the transaction.
    fn attempt(&self, sql: &str, in_transaction: bool) -> Result<(), String> {
        if in_transaction {
            self.sql("SAVEPOINT one");
        }
        let Err(error) = self.try_sql(sql) else {
            return Ok(());
        };
        let code = error.code().map_or("", |code| code.code());
        // Conditions, and values that the columns' types do not take.
        let refused = code.starts_with("23") || code.starts_with("22") || code == "42804";
        assert!(refused, "{}: {sql}", said(&error));
        if in_transaction {
            self.sql("ROLLBACK TO one");
        }
        Err(said(&error))
    }
}
