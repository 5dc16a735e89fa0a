//! What was found out of each clause.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::clauses::{By, CLAUSES, Clause, Story, is_clause};
use super::wire::Answer;

/// Longer texts are cut: a reader wants to know what it is, not all of it.
const SHOWN_CHARS_MAX: usize = 400;

/// Whether the hub does what a clause demands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "camelCase")]
pub enum Verdict {
    Met,
    Broken {
        sent: String,
        came: String,
        expected: String,
    },
    NotChecked {
        why: String,
    },
}

/// One clause of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub clause: &'static str,
    pub level: u8,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Why a story cannot go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// What is left of it is not checked.
    Unknown(String),
    /// What it needs is not there, and the protocol demands it: what is left of it is broken.
    Missing { sent: String, came: String },
}

pub(super) type Told = Result<(), Stop>;

impl Stop {
    pub fn unknown(why: impl Display) -> Stop {
        Stop::Unknown(why.to_string())
    }
}

#[derive(Default)]
pub(super) struct Findings(Mutex<BTreeMap<&'static str, Verdict>>);

impl Findings {
    /// What is broken stays broken, and what was seen to hold is not unseen.
    fn put(&self, clause: &'static str, verdict: Verdict) {
        debug_assert!(is_clause(clause), "{clause} is in the table");
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stands = match (all.get(clause), &verdict) {
            (None | Some(Verdict::NotChecked { .. }), _) => false,
            (Some(Verdict::Met), Verdict::Broken { .. }) => false,
            (Some(Verdict::Met | Verdict::Broken { .. }), _) => true,
        };
        if !stands {
            all.insert(clause, verdict);
        }
    }

    /// Whether it holds, and what was seen if it does not.
    pub fn judge(
        &self,
        clause: &'static str,
        holds: bool,
        sent: impl Display,
        came: impl Display,
        expected: impl Display,
    ) -> bool {
        let verdict = match holds {
            true => Verdict::Met,
            false => Verdict::Broken {
                sent: shown(sent),
                came: shown(came),
                expected: shown(expected),
            },
        };
        self.put(clause, verdict);
        holds
    }

    /// As [`judge`](Self::judge), of one call.
    pub fn answered(
        &self,
        clause: &'static str,
        holds: bool,
        answer: &Answer,
        expected: impl Display,
    ) -> bool {
        self.judge(clause, holds, &answer.sent, answer, expected)
    }

    pub fn skip(&self, clause: &'static str, why: impl Display) {
        let why = why.to_string();
        self.put(clause, Verdict::NotChecked { why });
    }

    /// What a story did not come to.
    pub fn end(&self, story: Story, told: Told) {
        for clause in CLAUSES {
            if clause.by != By::Story(story) {
                continue;
            }
            match &told {
                Ok(()) => self.skip(clause.id, "nothing of the kind was seen"),
                Err(Stop::Unknown(why)) => self.skip(clause.id, why),
                Err(Stop::Missing { sent, came }) => {
                    let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_open = !all.contains_key(clause.id);
                    drop(all);
                    if is_open {
                        let expected = "an endpoint of the protocol";
                        self.judge(clause.id, false, sent, came, expected);
                    }
                }
            }
        }
    }

    /// The report on the clauses up to a level.
    pub fn report(&self, level: u8) -> Vec<Finding> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = |clause: &&Clause| clause.level <= level;
        let each = CLAUSES.iter().filter(asked).map(|clause| Finding {
            clause: clause.id,
            level: clause.level,
            verdict: match clause.by {
                By::Nobody(why) => Verdict::NotChecked {
                    why: why.to_owned(),
                },
                By::Story(_) => match all.get(clause.id) {
                    Some(verdict) => verdict.clone(),
                    None => Verdict::NotChecked {
                        why: "it was not come to".to_owned(),
                    },
                },
                By::Parts(parts) => of_parts(parts, clause.level, &all),
            },
        });
        each.collect()
    }
}

/// Broken if a part is; met if all that can be seen are.
fn of_parts(parts: &[&str], level: u8, all: &BTreeMap<&'static str, Verdict>) -> Verdict {
    let is_part = |clause: &&Clause| {
        clause.level <= level
            && matches!(clause.by, By::Story(_))
            && parts.iter().any(|part| clause.id.starts_with(part))
    };
    let (mut broken, mut open) = (Vec::new(), Vec::new());
    for clause in CLAUSES.iter().filter(is_part) {
        match all.get(clause.id) {
            Some(Verdict::Met) => {}
            Some(Verdict::Broken { .. }) => broken.push(clause.id),
            Some(Verdict::NotChecked { .. }) | None => open.push(clause.id),
        }
    }
    if !broken.is_empty() {
        return Verdict::Broken {
            sent: "what its parts say".to_owned(),
            came: broken.join(", "),
            expected: "every part is met".to_owned(),
        };
    }
    match open.is_empty() {
        true => Verdict::Met,
        false => Verdict::NotChecked {
            why: format!("of its parts these were not checked: {}", open.join(", ")),
        },
    }
}

fn shown(text: impl Display) -> String {
    let text = text.to_string();
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "runtime.ack.eta";

    fn verdict(findings: &Findings, clause: &str) -> Verdict {
        let mut report = findings.report(2).into_iter();
        report.find(|one| one.clause == clause).unwrap().verdict
    }

    #[test]
    fn what_is_broken_once_stays_broken_and_its_whole_with_it() {
        let findings = Findings::default();
        findings.judge(ONE, true, "", "", "");
        assert_eq!(verdict(&findings, ONE), Verdict::Met);
        findings.judge(ONE, false, "a", "b", "c");
        findings.judge(ONE, true, "", "", "");
        assert!(matches!(verdict(&findings, ONE), Verdict::Broken { sent, .. } if sent == "a"));
        let whole = verdict(&findings, "runtime.l1.acks");
        assert!(matches!(whole, Verdict::Broken { came, .. } if came == ONE));
    }

    #[test]
    fn a_story_that_breaks_off_leaves_what_it_did_not_come_to_unchecked() {
        let findings = Findings::default();
        findings.judge("runtime.task_accept.fields", true, "", "", "");
        findings.end(Story::Inbound, Err(Stop::unknown("no agent")));
        let accept = verdict(&findings, "runtime.task_accept.fields");
        assert_eq!(accept, Verdict::Met);
        let why = "no agent".to_owned();
        assert_eq!(verdict(&findings, ONE), Verdict::NotChecked { why });
        assert!(matches!(
            verdict(&findings, "runtime.l1.acks"),
            Verdict::NotChecked { .. }
        ));
    }

    #[test]
    fn an_endpoint_that_is_missing_breaks_what_it_is_needed_for() {
        let findings = Findings::default();
        let told = Err(Stop::Missing {
            sent: "POST /x".to_owned(),
            came: "404".to_owned(),
        });
        findings.end(Story::Skills, told);
        let broken = findings.report(2).into_iter().filter(|one| {
            one.clause.starts_with("runtime.skill.")
                && matches!(one.verdict, Verdict::Broken { .. })
        });
        assert_eq!(broken.count(), 4);
        assert!(
            findings
                .report(1)
                .iter()
                .all(|one| one.level == 1 && !matches!(one.verdict, Verdict::Broken { .. }))
        );
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(shown("é".repeat(SHOWN_CHARS_MAX)).chars().count(), 400);
        assert_eq!(shown("é".repeat(SHOWN_CHARS_MAX + 1)).chars().count(), 401);
    }
}
