//! Quality: what a completion measured, the baseline it is held against, the gate.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, SnapshotId, TaskId};
use crate::time::Timestamp;

/// What an agent measured before it said "done".
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    pub build_success: bool,
    pub type_errors: u32,
    pub lint_errors: u32,
    pub lint_warnings: u32,
    pub tests_passing: u32,
    pub tests_failing: u32,
    pub test_coverage: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub id: SnapshotId,
    pub task: Option<TaskId>,
    pub agent: Option<AgentId>,
    pub metrics: Metrics,
    pub recorded_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    pub metrics: Metrics,
    pub set_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub rev: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    pub metric: Metric,
    pub baseline: f64,
    pub current: f64,
    pub delta: f64,
    pub severity: Severity,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Metric {
        Build = "build",
        TypeErrors = "type errors",
        LintErrors = "lint errors",
        FailingTests = "failing tests",
        Coverage = "test coverage",
    }
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Severity {
        Warning = "warning",
        Error = "error",
    }
}

/// Which findings keep a completion from counting.
#[derive(Clone, Debug, PartialEq)]
pub struct GatePolicy {
    pub block_on_error: bool,
    pub block_on_warning: bool,
    pub require_metrics: bool,
    pub require_build: bool,
    pub type_errors_max: Option<u32>,
    pub lint_errors_max: Option<u32>,
    pub tests_failing_max: Option<u32>,
    pub coverage_min: Option<f64>,
    /// A clean completion becomes the new baseline.
    pub move_baseline: bool,
}

impl Default for GatePolicy {
    fn default() -> Self {
        GatePolicy {
            block_on_error: true,
            block_on_warning: false,
            require_metrics: false,
            require_build: false,
            type_errors_max: None,
            lint_errors_max: None,
            tests_failing_max: None,
            coverage_min: None,
            move_baseline: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub passed: bool,
    pub regressions: Vec<Regression>,
    pub next: NextAction,
    /// Why a person is asked, if one is.
    pub why: Option<String>,
}

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum NextAction {
        Proceed = "proceed",
        FixRegressions = "fix_regressions",
        ManualReview = "manual_review",
    }
}

/// How far coverage may fall, in points, before it is worth a warning.
const COVERAGE_SLACK: f64 = 5.0;

pub fn regressions(baseline: &Metrics, current: &Metrics) -> Vec<Regression> {
    let mut found = Vec::new();
    if baseline.build_success && !current.build_success {
        found.push(Regression {
            metric: Metric::Build,
            baseline: 1.0,
            current: 0.0,
            delta: -1.0,
            severity: Severity::Error,
        });
    }
    let counts = [
        (
            Metric::TypeErrors,
            baseline.type_errors,
            current.type_errors,
        ),
        (
            Metric::LintErrors,
            baseline.lint_errors,
            current.lint_errors,
        ),
        (
            Metric::FailingTests,
            baseline.tests_failing,
            current.tests_failing,
        ),
    ];
    for (metric, before, after) in counts {
        if after > before {
            found.push(Regression {
                metric,
                baseline: f64::from(before),
                current: f64::from(after),
                delta: f64::from(after - before),
                severity: Severity::Error,
            });
        }
    }
    if let (Some(before), Some(after)) = (baseline.test_coverage, current.test_coverage)
        && before - after > COVERAGE_SLACK
    {
        found.push(Regression {
            metric: Metric::Coverage,
            baseline: before,
            current: after,
            delta: after - before,
            severity: Severity::Warning,
        });
    }
    found
}

impl GatePolicy {
    pub fn judge(&self, baseline: Option<&Baseline>, current: Option<&Metrics>) -> Judgement {
        let Some(current) = current else {
            return if self.require_metrics {
                Judgement::review(
                    Vec::new(),
                    "no quality metrics were given, and they are required".to_owned(),
                )
            } else {
                Judgement::pass(Vec::new())
            };
        };
        let found = baseline
            .map(|row| regressions(&row.metrics, current))
            .unwrap_or_default();
        let blocking = |severity: Severity| match severity {
            Severity::Error => self.block_on_error,
            Severity::Warning => self.block_on_warning,
        };
        if found
            .iter()
            .any(|one| one.severity == Severity::Error && blocking(one.severity))
        {
            let names: Vec<&str> = found.iter().map(|one| one.metric.as_str()).collect();
            return Judgement {
                passed: false,
                why: Some(format!(
                    "regressions against the baseline: {}",
                    names.join(", ")
                )),
                regressions: found,
                next: NextAction::FixRegressions,
            };
        }
        if let Some(why) = self.absolute_breach(current) {
            return Judgement::review(found, why);
        }
        if found.iter().any(|one| blocking(one.severity)) {
            return Judgement::review(found, "a warning that the policy blocks on".to_owned());
        }
        Judgement::pass(found)
    }

    fn absolute_breach(&self, current: &Metrics) -> Option<String> {
        if self.require_build && !current.build_success {
            return Some("the build must succeed".to_owned());
        }
        let over = [
            (
                Metric::TypeErrors,
                current.type_errors,
                self.type_errors_max,
            ),
            (
                Metric::LintErrors,
                current.lint_errors,
                self.lint_errors_max,
            ),
            (
                Metric::FailingTests,
                current.tests_failing,
                self.tests_failing_max,
            ),
        ];
        for (metric, value, limit) in over {
            if let Some(limit) = limit.filter(|limit| value > *limit) {
                return Some(format!("{metric}: {value}, at most {limit} allowed"));
            }
        }
        let coverage = current.test_coverage?;
        let floor = self.coverage_min.filter(|floor| coverage < *floor)?;
        let metric = Metric::Coverage;
        Some(format!("{metric}: {coverage}, at least {floor} required"))
    }
}

impl Judgement {
    fn pass(regressions: Vec<Regression>) -> Judgement {
        Judgement {
            passed: true,
            regressions,
            next: NextAction::Proceed,
            why: None,
        }
    }

    /// Whatever was measured, its result is not what it must be.
    pub(crate) fn broken(self, why: &str) -> Judgement {
        Judgement::review(self.regressions, why.to_owned())
    }

    fn review(regressions: Vec<Regression>, why: String) -> Judgement {
        Judgement {
            passed: false,
            regressions,
            next: NextAction::ManualReview,
            why: Some(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(build: bool, types: u32, lint: u32, failing: u32, coverage: Option<f64>) -> Metrics {
        Metrics {
            build_success: build,
            type_errors: types,
            lint_errors: lint,
            lint_warnings: 0,
            tests_passing: 10,
            tests_failing: failing,
            test_coverage: coverage,
        }
    }

    fn baseline(metrics: Metrics) -> Baseline {
        let at = Timestamp(0);
        Baseline {
            metrics,
            set_by: "person".into(),
            created_at: at,
            updated_at: at,
            rev: 0,
        }
    }

    #[test]
    fn regressions_by_table() {
        let before = metrics(true, 1, 1, 1, Some(80.0));
        let table = [
            (metrics(true, 1, 1, 1, Some(80.0)), vec![]),
            (metrics(false, 1, 1, 1, Some(80.0)), vec![Metric::Build]),
            (metrics(true, 2, 1, 1, Some(80.0)), vec![Metric::TypeErrors]),
            (metrics(true, 1, 2, 1, Some(80.0)), vec![Metric::LintErrors]),
            (
                metrics(true, 1, 1, 2, Some(80.0)),
                vec![Metric::FailingTests],
            ),
            (metrics(true, 1, 1, 1, Some(75.0)), vec![]),
            (metrics(true, 1, 1, 1, Some(74.9)), vec![Metric::Coverage]),
            (metrics(true, 0, 0, 0, None), vec![]),
        ];
        for (after, expected) in table {
            let names: Vec<Metric> = regressions(&before, &after)
                .iter()
                .map(|r| r.metric)
                .collect();
            assert_eq!(names, expected, "{after:?}");
        }
    }

    #[test]
    fn the_gate_by_table() {
        let clean = metrics(true, 0, 0, 0, Some(80.0));
        let worse = metrics(true, 3, 0, 0, Some(80.0));
        let thin = metrics(true, 0, 0, 0, Some(10.0));
        let lax = GatePolicy {
            block_on_error: false,
            ..GatePolicy::default()
        };
        let strict = GatePolicy {
            block_on_warning: true,
            require_metrics: true,
            ..GatePolicy::default()
        };
        let limit = GatePolicy {
            type_errors_max: Some(2),
            block_on_error: false,
            ..GatePolicy::default()
        };
        let usual = GatePolicy::default();
        let held = baseline(clean.clone());
        use NextAction::{FixRegressions, ManualReview, Proceed};
        let table = [
            (&usual, None, None, true, Proceed),
            (&usual, None, Some(&worse), true, Proceed),
            (&usual, Some(&held), Some(&clean), true, Proceed),
            (&usual, Some(&held), Some(&worse), false, FixRegressions),
            (&usual, Some(&held), Some(&thin), true, Proceed),
            (&lax, Some(&held), Some(&worse), true, Proceed),
            (&strict, Some(&held), Some(&thin), false, ManualReview),
            (&strict, Some(&held), None, false, ManualReview),
            (&limit, Some(&held), Some(&worse), false, ManualReview),
        ];
        for (policy, baseline, current, passed, next) in table {
            let judged = policy.judge(baseline, current);
            assert_eq!(
                (judged.passed, judged.next),
                (passed, next),
                "{policy:?} {current:?}"
            );
        }
    }
}
