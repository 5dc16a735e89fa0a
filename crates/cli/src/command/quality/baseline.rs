//! `switchboard quality baseline`: shows or sets what completions are measured against.

use clap::Args as ClapArgs;
use switchboard_client::jetpack::{Baseline, BaselineRequest, NewBaseline};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Table, Tone, cell, toned};
use crate::show::{instant, now};

/// Show the baseline, or set it
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
With figures or --from-task it sets the baseline; omitted figures count as 0.

Examples:
  switchboard quality baseline
  switchboard quality baseline --from-task 12
  switchboard quality baseline --tests-passing 240 --coverage 81.5")]
pub struct Args {
    /// Use the figures of this task's quality snapshot
    #[arg(long, value_name = "TASK", conflicts_with = "figures")]
    from_task: Option<String>,
    #[command(flatten)]
    figures: Figures,
}

#[derive(Debug, ClapArgs)]
#[group(id = "figures", multiple = true)]
struct Figures {
    /// The build is broken [default: it works]
    #[arg(long)]
    build_broken: bool,
    #[arg(long, value_name = "N", help = "Tests that pass")]
    tests_passing: Option<u32>,
    #[arg(long, value_name = "N", help = "Tests that fail")]
    tests_failing: Option<u32>,
    #[arg(long, value_name = "N", help = "Type errors")]
    type_errors: Option<u32>,
    #[arg(long, value_name = "N", help = "Lint errors")]
    lint_errors: Option<u32>,
    #[arg(long, value_name = "N", help = "Lint warnings")]
    lint_warnings: Option<u32>,
    #[arg(long, value_name = "PERCENT", help = "Test coverage")]
    coverage: Option<f64>,
}

impl Figures {
    fn baseline(&self) -> Option<NewBaseline> {
        let counts = [
            self.tests_passing,
            self.tests_failing,
            self.type_errors,
            self.lint_errors,
            self.lint_warnings,
        ];
        let given =
            self.build_broken || self.coverage.is_some() || counts.iter().any(Option::is_some);
        given.then(|| NewBaseline {
            build_success: !self.build_broken,
            type_errors: self.type_errors.unwrap_or(0),
            lint_errors: self.lint_errors.unwrap_or(0),
            lint_warnings: self.lint_warnings,
            tests_passing: self.tests_passing.unwrap_or(0),
            tests_failing: self.tests_failing.unwrap_or(0),
            test_coverage: self.coverage,
        })
    }
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let client = context.client()?;
    let request = match args.from_task {
        Some(from_task) => Some(BaselineRequest::FromTask { from_task }),
        None => args.figures.baseline().map(BaselineRequest::Figures),
    };
    let answer = match request {
        Some(request) => client.quality().set_baseline(&request).await?,
        None => client.quality().baseline().await?,
    };
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&answer)?);
    }
    match &answer.baseline {
        Some(baseline) => Ok(screen.table(&facts(baseline))?),
        None => Ok(screen.line("no baseline, so no completion counts as a regression; set one with 'switchboard quality baseline --from-task TASK'")?),
    }
}

fn facts(baseline: &Baseline) -> Table {
    let now = now();
    let mut facts = Table::facts();
    let build = if baseline.build_success {
        toned("works", Tone::Good)
    } else {
        toned("broken", Tone::Bad)
    };
    facts.fact("build", build);
    facts.fact("tests passing", cell(baseline.tests_passing));
    facts.fact("tests failing", cell(baseline.tests_failing));
    facts.fact("type errors", cell(baseline.type_errors));
    facts.fact("lint errors", cell(baseline.lint_errors));
    facts.fact("lint warnings", cell(baseline.lint_warnings));
    facts.fact(
        "coverage",
        baseline
            .test_coverage
            .map(|percent| cell(format_args!("{percent}%"))),
    );
    facts.fact("set by", baseline.set_by.as_ref().map(cell));
    facts.fact("set", instant(baseline.updated_at, now));
    facts
}
