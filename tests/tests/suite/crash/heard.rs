//! Whether what came back is an answer, or the word that the ledger is away.

use serde_json::Value;
use switchboard_tests::Answer;

/// Whether an answer is one.
pub enum Heard {
    Answer,
    ComeBack(Outcome),
}

/// What became of a change that was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    NotDone,
    Unknown,
}

impl Heard {
    pub fn by(answer: &Answer) -> Heard {
        let body = answer.json();
        let of = |status: &Value, body: &Value| {
            if *status != 503 || body["error"] != "db_unavailable" {
                return Heard::Answer;
            }
            match body["message"].as_str() {
                Some(why) if why.contains("the outcome is unknown") => {
                    Heard::ComeBack(Outcome::Unknown)
                }
                _ => Heard::ComeBack(Outcome::NotDone),
            }
        };
        let of_parts = body["results"].as_array().into_iter().flatten();
        let of_parts = of_parts.map(|part| of(&part["status"], &part["body"]));
        match of(&answer.status.into(), &body) {
            Heard::ComeBack(outcome) => Heard::ComeBack(outcome),
            // Some of it may have been done before the ledger went away.
            Heard::Answer => of_parts
                .filter(|part| matches!(part, Heard::ComeBack(_)))
                .map(|_| Heard::ComeBack(Outcome::Unknown))
                .next()
                .unwrap_or(Heard::Answer),
        }
    }
}
