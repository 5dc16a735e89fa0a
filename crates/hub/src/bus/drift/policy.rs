//! When a worker must sync, and that it is told once.

use switchboard_wire::agentbus::SyncReason as Reason;

use super::Behind;
use crate::config::{SyncAction, SyncMain};

/// What stands for the main branch's commit where no repository told it: the field is required and never empty.
const UNKNOWN: &str = "unknown";

/// As they are told. The version comes last: it stays as it is until the worker connects anew.
const IN_ORDER: [Reason; 3] = [
    Reason::BehindMain,
    Reason::CatalogMismatch,
    Reason::ProtocolChange,
];

/// How far a worker may drift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub max_commits_behind: u32,
    pub max_seconds_behind: u32,
    pub require_catalog_hash_match: bool,
    pub required_action: SyncAction,
}

/// What a worker revealed of itself. What it left out reveals nothing.
#[derive(Clone, Debug, Default)]
pub struct Seen<'a> {
    /// Where its branch left main.
    pub behind: Option<Behind>,
    pub catalog_hash: Option<&'a str>,
    /// Whether it was welcomed with a lower minor version than the director's.
    pub lower_minor: bool,
}

/// What the director expects, as far as it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub main_sha: Option<String>,
    pub catalog_hash: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Nothing was revealed, or there is nothing to compare it with.
    Unknown,
    InSync,
    Drifted,
}

/// What was found for each reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    main: Finding,
    catalog: Finding,
    protocol: Finding,
}

impl Policy {
    pub fn new(settings: &SyncMain) -> Policy {
        Policy {
            max_commits_behind: settings.max_commits_behind,
            max_seconds_behind: settings.max_seconds_behind,
            require_catalog_hash_match: settings.require_catalog_hash_match,
            required_action: settings.required_action,
        }
    }

    pub fn judge(&self, seen: &Seen<'_>, expected: &Expected) -> Verdict {
        let protocol = if seen.lower_minor {
            Finding::Drifted
        } else {
            Finding::InSync
        };
        Verdict {
            main: self.judge_main(seen.behind),
            catalog: self.judge_catalog(seen.catalog_hash, expected.catalog_hash.as_deref()),
            protocol,
        }
    }

    fn judge_main(&self, behind: Option<Behind>) -> Finding {
        match behind {
            None | Some(Behind::Unanswered) => Finding::Unknown,
            Some(Behind::Stranger) => Finding::Drifted,
            Some(Behind::By { commits, seconds }) => {
                let near = commits <= self.max_commits_behind
                    && seconds <= u64::from(self.max_seconds_behind);
                if near {
                    Finding::InSync
                } else {
                    Finding::Drifted
                }
            }
        }
    }

    fn judge_catalog(&self, seen: Option<&str>, expected: Option<&str>) -> Finding {
        match (seen, expected) {
            (Some(seen), Some(expected)) if self.require_catalog_hash_match => {
                if seen == expected {
                    Finding::InSync
                } else {
                    Finding::Drifted
                }
            }
            _ => Finding::Unknown,
        }
    }
}

impl Expected {
    /// The text of `main_sha_expected` in `sync_required.v1`, where it may not be left out.
    pub fn main_sha_or_unknown(&self) -> &str {
        self.main_sha.as_deref().unwrap_or(UNKNOWN)
    }
}

impl Verdict {
    /// The first reason to sync, told before or not.
    pub fn reason(&self) -> Option<Reason> {
        IN_ORDER
            .into_iter()
            .find(|reason| self.finding(*reason) == Finding::Drifted)
    }

    pub fn finding(&self, reason: Reason) -> Finding {
        match reason {
            Reason::BehindMain => self.main,
            Reason::CatalogMismatch => self.catalog,
            Reason::ProtocolChange => self.protocol,
        }
    }
}

/// What one connection was told already, and what was expected then.
#[derive(Clone, Debug, Default)]
pub struct Told {
    behind_main: Option<Box<str>>,
    catalog_mismatch: Option<Box<str>>,
    protocol_change: Option<Box<str>>,
}

impl Told {
    /// The reason to tell now, if there is one that was not told for what is expected now. It counts as told.
    ///
    /// Whoever is found in sync is told again when it drifts again.
    pub fn news(&mut self, verdict: &Verdict, expected: &Expected) -> Option<Reason> {
        let mut news = None;
        for reason in IN_ORDER {
            let slot = match reason {
                Reason::BehindMain => &mut self.behind_main,
                Reason::CatalogMismatch => &mut self.catalog_mismatch,
                Reason::ProtocolChange => &mut self.protocol_change,
            };
            let now = match reason {
                Reason::BehindMain => expected.main_sha_or_unknown(),
                Reason::CatalogMismatch => expected.catalog_hash.as_deref().unwrap_or_default(),
                Reason::ProtocolChange => "",
            };
            match verdict.finding(reason) {
                Finding::Unknown => {}
                Finding::InSync => *slot = None,
                Finding::Drifted => {
                    if news.is_none() && slot.as_deref() != Some(now) {
                        *slot = Some(now.into());
                        news = Some(reason);
                    }
                }
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn policy() -> Policy {
        Policy::new(&Config::for_project("/project".into()).bus.sync_main)
    }

    fn by(commits: u32, seconds: u64) -> Seen<'static> {
        Seen {
            behind: Some(Behind::By { commits, seconds }),
            ..Seen::default()
        }
    }

    fn catalog(hash: &str) -> Seen<'_> {
        Seen {
            catalog_hash: Some(hash),
            ..Seen::default()
        }
    }

    fn expected(main: &str, catalog: &str) -> Expected {
        Expected {
            main_sha: Some(main.to_owned()),
            catalog_hash: Some(catalog.to_owned()),
        }
    }

    // agentbus.config.max_commits_behind, agentbus.config.max_seconds_behind
    #[test]
    fn a_worker_at_the_bound_passes_and_one_past_it_does_not() {
        let behind = Some(Reason::BehindMain);
        let cases = [
            (by(0, 0), None),
            (by(20, 0), None),
            (by(21, 0), behind),
            (by(1, 86_400), None),
            (by(1, 86_401), behind),
            (by(20, 86_400), None),
        ];
        for (seen, reason) in cases {
            let verdict = policy().judge(&seen, &expected("m", "c"));
            assert_eq!(verdict.reason(), reason, "{seen:?}");
        }
    }

    // agentbus.accept.drift_detected, agentbus.config.catalog_match
    #[test]
    fn a_stale_commit_or_a_stale_catalog_alone_reveals_drift() {
        let stranger = Seen {
            behind: Some(Behind::Stranger),
            ..Seen::default()
        };
        let expected = expected("m", "c");
        let reason = |policy: &Policy, seen: &Seen| policy.judge(seen, &expected).reason();
        assert_eq!(reason(&policy(), &stranger), Some(Reason::BehindMain));
        let other = catalog("other");
        assert_eq!(reason(&policy(), &other), Some(Reason::CatalogMismatch));
        assert_eq!(reason(&policy(), &catalog("c")), None);
        let tolerant = Policy {
            require_catalog_hash_match: false,
            ..policy()
        };
        assert_eq!(reason(&tolerant, &other), None);
        let older = Seen {
            lower_minor: true,
            ..Seen::default()
        };
        assert_eq!(reason(&policy(), &older), Some(Reason::ProtocolChange));
        let both = Seen {
            catalog_hash: Some("other"),
            ..stranger
        };
        assert_eq!(reason(&policy(), &both), Some(Reason::BehindMain));
    }

    #[test]
    fn what_is_absent_or_cannot_be_compared_reveals_nothing() {
        let silent = policy().judge(&Seen::default(), &expected("m", "c"));
        assert_eq!(silent.reason(), None);
        let unanswered = Seen {
            behind: Some(Behind::Unanswered),
            catalog_hash: Some("any"),
            lower_minor: false,
        };
        let verdict = policy().judge(&unanswered, &Expected::default());
        assert_eq!(verdict.reason(), None);
        assert_eq!(verdict.finding(Reason::BehindMain), Finding::Unknown);
    }

    // agentbus.sync.expected
    #[test]
    fn the_expected_commit_is_never_empty() {
        assert_eq!(Expected::default().main_sha_or_unknown(), "unknown");
        assert_eq!(expected("m", "c").main_sha_or_unknown(), "m");
    }

    #[test]
    fn a_worker_is_told_once_until_what_is_expected_changes_or_it_was_in_sync() {
        let mut told = Told::default();
        let mut news = |seen: &Seen, now: &Expected| told.news(&policy().judge(seen, now), now);
        let (first, moved) = (expected("m1", "c1"), expected("m2", "c1"));
        let (far, near) = (by(21, 0), by(20, 0));
        assert_eq!(news(&far, &first), Some(Reason::BehindMain));
        assert_eq!(news(&far, &first), None);
        // Saying nothing is not being in sync.
        assert_eq!(news(&Seen::default(), &first), None);
        assert_eq!(news(&far, &first), None);
        assert_eq!(news(&far, &moved), Some(Reason::BehindMain));
        assert_eq!(news(&near, &moved), None);
        assert_eq!(news(&far, &moved), Some(Reason::BehindMain));
        // A new catalog is no news about main.
        assert_eq!(news(&far, &expected("m2", "c2")), None);
    }

    #[test]
    fn each_reason_is_told_in_its_turn() {
        let mut told = Told::default();
        let now = expected("m", "c");
        let seen = Seen {
            behind: Some(Behind::Stranger),
            catalog_hash: Some("other"),
            lower_minor: true,
        };
        let verdict = policy().judge(&seen, &now);
        let news: Vec<_> = (0..4).map(|_| told.news(&verdict, &now)).collect();
        let words = ["behind_main", "catalog_mismatch", "protocol_change"];
        let said: Vec<_> = news
            .iter()
            .flatten()
            .map(|reason| reason.as_str())
            .collect();
        assert_eq!(said, words);
        assert_eq!(news[3], None);
    }
}
