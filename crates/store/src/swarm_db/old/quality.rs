//! What was measured, and the baseline.

use switchboard_core::{Timestamp, limits};

use super::{Fields, Reason};

/// The numbers that both tables have.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub build_success: Option<bool>,
    pub type_errors: u32,
    pub lint_errors: u32,
    pub lint_warnings: u32,
    pub tests_passing: u32,
    pub tests_failing: u32,
    pub test_coverage: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub id: String,
    pub task: Option<String>,
    pub agent: Option<String>,
    pub measured: Measured,
    pub tests_skipped: u32,
    pub build_time_ms: Option<u32>,
    pub test_time_ms: Option<u32>,
    /// What build, types, lint and tests printed.
    pub outputs: [Option<String>; 4],
    pub recorded_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    pub measured: Measured,
    pub set_by: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Measured {
    fn read(fields: &Fields<'_>) -> Result<Measured, Reason> {
        let coverage = fields.real("test_coverage")?;
        if coverage.is_some_and(|share| !(0.0..=100.0).contains(&share)) {
            return Err("test_coverage is not between 0 and 100".to_owned());
        }
        let count = |name| Ok::<_, Reason>(fields.count_to(name, u32::MAX)?.unwrap_or(0));
        Ok(Measured {
            build_success: fields.yes("build_success")?,
            type_errors: count("type_errors")?,
            lint_errors: count("lint_errors")?,
            lint_warnings: count("lint_warnings")?,
            tests_passing: count("tests_passing")?,
            tests_failing: count("tests_failing")?,
            test_coverage: coverage,
        })
    }
}

impl Snapshot {
    pub fn read(fields: &Fields<'_>, now: Timestamp) -> Result<Snapshot, Reason> {
        let output = |name| fields.start(name, limits::DETAILS_BYTES_MAX);
        Ok(Snapshot {
            id: fields.own_id()?,
            task: fields.id("task_id")?,
            agent: fields.id("agent_id")?,
            measured: Measured::read(fields)?,
            tests_skipped: fields.count_to("tests_skipped", u32::MAX)?.unwrap_or(0),
            build_time_ms: fields.count_to("build_time_ms", u32::MAX)?,
            test_time_ms: fields.count_to("test_time_ms", u32::MAX)?,
            outputs: [
                output("build_output")?,
                output("type_output")?,
                output("lint_output")?,
                output("test_output")?,
            ],
            recorded_at: fields.instant("recorded_at")?.unwrap_or(now).min(now),
        })
    }
}

impl Baseline {
    pub fn read(fields: &Fields<'_>, now: Timestamp) -> Result<Baseline, Reason> {
        let created_at = fields.instant("created_at")?.unwrap_or(now).min(now);
        let updated_at = fields.instant("updated_at")?.unwrap_or(created_at);
        Ok(Baseline {
            measured: Measured::read(fields)?,
            set_by: fields.text("set_by", limits::ID_BYTES_MAX)?,
            created_at,
            updated_at: updated_at.min(now),
        })
    }
}
