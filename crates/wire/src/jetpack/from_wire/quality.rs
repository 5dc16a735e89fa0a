//! The quality baseline, and tokens.

use switchboard_core::{limits, verb};

use super::check::{self, filled, task_id};
use crate::Malformed;
use crate::jetpack::{BaselineRequest, NewBaseline};

/// `PUT /quality/baseline`.
pub fn baseline(request: BaselineRequest, by: String) -> Result<verb::SetBaseline, Malformed> {
    let source = match request {
        BaselineRequest::FromTask { from_task } => {
            verb::BaselineSource::Task(task_id("fromTask", &from_task)?)
        }
        BaselineRequest::Figures(figures) => verb::BaselineSource::Given(metrics(&figures)?),
    };
    Ok(verb::SetBaseline { source, by })
}

fn metrics(figures: &NewBaseline) -> Result<switchboard_core::Metrics, Malformed> {
    if let Some(coverage) = figures.test_coverage {
        check::percent("testCoverage", coverage)?;
    }
    Ok(switchboard_core::Metrics {
        build_success: figures.build_success,
        type_errors: figures.type_errors,
        lint_errors: figures.lint_errors,
        lint_warnings: figures.lint_warnings.unwrap_or(0),
        tests_passing: figures.tests_passing,
        tests_failing: figures.tests_failing,
        test_coverage: figures.test_coverage,
    })
}

/// The name of a token.
pub fn token_name(name: &str) -> Result<(), Malformed> {
    filled("name", name, limits::NAME_BYTES_MAX)
}
