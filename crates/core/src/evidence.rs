//! What shows that a task is done: commands that were run, and what follows from them.

use serde::{Deserialize, Serialize};

/// A command that was run to show it, as it was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub command: String,
    pub exit_code: i32,
    pub duration_ms: u64,
    /// Of the tree that it ran on.
    pub commit: Option<String>,
    pub source: Source,
}

words! {
    /// Who ran it.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Source {
        /// The agent says so.
        Reported = "reported",
        /// The worker around the agent ran it itself.
        Worker = "worker",
    }
}

words! {
    /// What all of it comes to.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Verdict {
        Verified = "verified",
        Gaps = "gaps",
        Unverified = "unverified",
    }
}

impl Verdict {
    /// Verified: a worker ran all of it, on one commit, and all of it succeeded. That the tree was clean is one of the
    /// commands. Unverified: no worker ran anything.
    pub fn of(evidence: &[Evidence]) -> Verdict {
        let by_worker = || evidence.iter().filter(|one| one.source == Source::Worker);
        let Some(first) = by_worker().next() else {
            return Verdict::Unverified;
        };
        let is_whole = first.commit.is_some() && by_worker().all(|one| one.commit == first.commit);
        match is_whole && evidence.iter().all(|one| one.exit_code == 0) {
            true => Verdict::Verified,
            false => Verdict::Gaps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(source: Source, exit_code: i32, commit: Option<&str>) -> Evidence {
        Evidence {
            command: "make test".to_owned(),
            exit_code,
            duration_ms: 5,
            commit: commit.map(str::to_owned),
            source,
        }
    }

    #[test]
    fn the_verdict_by_table() {
        use Source::{Reported, Worker};
        let table = [
            (vec![], Verdict::Unverified),
            (vec![one(Reported, 0, Some("a"))], Verdict::Unverified),
            (vec![one(Worker, 0, Some("a"))], Verdict::Verified),
            (
                vec![one(Worker, 0, Some("a")), one(Worker, 0, Some("a"))],
                Verdict::Verified,
            ),
            (
                vec![one(Worker, 0, Some("a")), one(Reported, 0, None)],
                Verdict::Verified,
            ),
            (vec![one(Worker, 0, None)], Verdict::Gaps),
            (
                vec![one(Worker, 0, Some("a")), one(Worker, 0, Some("b"))],
                Verdict::Gaps,
            ),
            (
                vec![one(Worker, 0, Some("a")), one(Worker, 1, Some("a"))],
                Verdict::Gaps,
            ),
            (
                vec![one(Worker, 0, Some("a")), one(Reported, 1, None)],
                Verdict::Gaps,
            ),
        ];
        for (evidence, verdict) in table {
            assert_eq!(Verdict::of(&evidence), verdict, "{evidence:?}");
        }
    }
}
