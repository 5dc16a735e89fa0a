//! The quality baseline, tokens, and what a hub proves itself over.

use switchboard_core::{limits, verb};

use super::check::{self, filled, task_id};
use crate::Malformed;
use crate::jetpack::{BaselineRequest, NewBaseline, ProofQuery};

/// Digits of a nonce, from and to.
pub(crate) const NONCE_DIGITS: (usize, usize) = (NONCE_DIGITS_MIN, NONCE_DIGITS_MAX);
const NONCE_DIGITS_MIN: usize = 32;
const NONCE_DIGITS_MAX: usize = 128;

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

/// What a hub is asked to prove itself over.
pub fn proof_nonce(query: ProofQuery) -> Result<String, Malformed> {
    let nonce = query.nonce.ok_or_else(|| Malformed::missing("nonce"))?;
    let is_one = (NONCE_DIGITS_MIN..=NONCE_DIGITS_MAX).contains(&nonce.len())
        && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_one {
        true => Ok(nonce),
        false => Err(Malformed::field(
            "nonce",
            format!("expected {NONCE_DIGITS_MIN} to {NONCE_DIGITS_MAX} hexadecimal digits"),
        )),
    }
}

/// The name of a token.
pub fn token_name(name: &str) -> Result<(), Malformed> {
    filled("name", name, limits::NAME_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_so_many_hexadecimal_digits() {
        for (nonce, fits) in [
            ("a".repeat(NONCE_DIGITS_MIN - 1), false),
            ("a".repeat(NONCE_DIGITS_MIN), true),
            ("F0".repeat(NONCE_DIGITS_MAX / 2), true),
            ("a".repeat(NONCE_DIGITS_MAX + 1), false),
            ("g".repeat(NONCE_DIGITS_MIN), false),
        ] {
            let query = ProofQuery {
                nonce: Some(nonce.clone()),
            };
            assert_eq!(proof_nonce(query).is_ok(), fits, "{nonce}");
        }
        assert!(proof_nonce(ProofQuery::default()).is_err());
    }
}
