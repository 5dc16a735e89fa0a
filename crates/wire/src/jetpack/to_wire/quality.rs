//! Quality and tokens.

use switchboard_core::{self as core, Metric};

use crate::jetpack::{Baseline, Regression, Snapshot, Token};

/// One metric that got worse.
pub fn regression(regression: &core::Regression) -> Regression {
    Regression {
        metric: match regression.metric {
            Metric::Build => "buildSuccess",
            Metric::TypeErrors => "typeErrors",
            Metric::LintErrors => "lintErrors",
            Metric::FailingTests => "testsFailing",
            Metric::Coverage => "testCoverage",
        }
        .to_owned(),
        baseline: regression.baseline,
        current: regression.current,
        delta: regression.delta,
        severity: regression.severity.into(),
    }
}

/// The current baseline.
pub fn baseline(baseline: &core::Baseline) -> Baseline {
    let metrics = &baseline.metrics;
    Baseline {
        build_success: metrics.build_success,
        type_errors: metrics.type_errors,
        lint_errors: metrics.lint_errors,
        lint_warnings: metrics.lint_warnings,
        tests_passing: metrics.tests_passing,
        tests_failing: metrics.tests_failing,
        test_coverage: metrics.test_coverage,
        set_by: Some(baseline.set_by.clone()),
        created_at: baseline.created_at.into(),
        updated_at: baseline.updated_at.into(),
    }
}

/// What one completion measured.
pub fn snapshot(snapshot: &core::Snapshot) -> Snapshot {
    let metrics = &snapshot.metrics;
    Snapshot {
        id: snapshot.id.to_string(),
        task_id: snapshot.task.as_ref().map(ToString::to_string),
        agent_id: snapshot.agent.as_ref().map(ToString::to_string),
        build_success: metrics.build_success,
        type_errors: metrics.type_errors,
        lint_errors: metrics.lint_errors,
        lint_warnings: metrics.lint_warnings,
        tests_passing: metrics.tests_passing,
        tests_failing: metrics.tests_failing,
        test_coverage: metrics.test_coverage,
        recorded_at: snapshot.recorded_at.into(),
    }
}

/// A token; the secret goes along only when it was just made.
pub fn token(token: &core::token::Token, secret: Option<String>) -> Token {
    Token {
        id: token.id.to_string(),
        name: token.name.clone(),
        scope: token.scope.into(),
        agent_id: token.agent.as_ref().map(ToString::to_string),
        created_at: token.created_at.into(),
        secret,
    }
}
