//! What the tests of direct SQL share: a ledger with a hand beside it, random statements, and a count of everything anew.

mod desk;
mod grammar;
mod history;
mod recount;

pub use desk::Desk;
pub use history::{history, pause};
pub use recount::recount;

/// A client of one engine.
pub trait Hand {
    const WORDS: Words;

    /// Runs what must hold; the rows as text.
    fn rows(&self, sql: &str) -> Vec<Vec<String>>;

    /// Runs a statement that a rule may refuse, with what was said then. Whatever else goes wrong is a panic.
    fn attempt(&self, sql: &str, in_transaction: bool) -> Result<(), String>;
}

/// How the engine says what others say otherwise.
pub struct Words {
    pub begin: &'static str,
    /// What no column takes, or should not.
    pub odd: &'static [&'static str],
    pub times: &'static [&'static str],
    pub in_a_minute: &'static str,
    /// What becomes of a new row whose key is taken: said before and after the row.
    pub clashes: &'static [(&'static str, &'static str)],
    pub update_clashes: &'static [&'static str],
    pub json_array: fn(&str) -> String,
    pub json_object: fn(&str, &str) -> String,
    /// A row in the place of an older one, of which these columns change.
    pub replace: fn(&str, &[&str]) -> String,
    /// Contradictions that only this engine can have.
    pub contradictions: &'static [(&'static str, &'static str)],
}
