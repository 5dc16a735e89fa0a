//! Gates: commands that have to succeed on the committed tree, and the figures that their output tells.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use switchboard_child::{Cause, Piece, Program, Run, Tail};
use switchboard_wire::jetpack::{Evidence, EvidenceSource, QualityMetrics};
use tokio::sync::mpsc;

/// Of a gate's output, so much of its end is read.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// What a signal ends has this and the signal's number for its exit code, as a shell says it.
const SIGNALED: i32 = 128;

/// A command that has to succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    pub name: String,
    pub run: Vec<String>,
    pub parse: Parse,
}

/// Whose output it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parse {
    Cargo,
    Pytest,
    Jest,
    Go,
    Tsc,
    Eslint,
    Ruff,
    /// Only the exit code counts.
    #[default]
    Exit,
}

/// What a gate came to.
pub(super) struct Verdict {
    pub evidence: Evidence,
    pub figures: Figures,
    pub output: String,
}

/// What an output told; nothing is guessed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub passed: u32,
    pub failed: u32,
    pub lint_errors: u32,
    pub lint_warnings: u32,
    pub type_errors: u32,
    pub is_broken: bool,
    /// Whether any of it was told.
    pub is_told: bool,
}

impl Gate {
    /// A gate as it is typed: split as a shell would, its parser known by the program.
    pub fn from_line(line: &str) -> Option<Gate> {
        let run = Program::parse(line)?.argv;
        let run: Vec<String> = run
            .into_iter()
            .filter_map(|word| word.into_string().ok())
            .collect();
        Some(Gate {
            name: line.to_owned(),
            parse: Parse::of(&run),
            run,
        })
    }

    pub(super) async fn judge(
        &self,
        dir: &Path,
        commit: Option<&str>,
        time_max: Duration,
        stop: impl Future<Output = ()>,
    ) -> Verdict {
        let began = Instant::now();
        let run = Run {
            program: Program {
                dir: Some(dir.to_owned()),
                ..Program::new(&self.run)
            },
            time_max: Some(time_max),
            ..Run::default()
        };
        let (pieces, mut printed) = mpsc::channel::<Piece>(16);
        let mut tail = Tail::new(OUTPUT_BYTES_MAX);
        let read = async {
            while let Some(piece) = printed.recv().await {
                tail.push(&piece.bytes);
            }
        };
        let (ended, ()) = tokio::join!(run.to_end(pieces, stop), read);
        let mut output = tail.text().unwrap_or_default();
        let exit_code = match ended {
            Ok(ended) => {
                if ended.cause == Cause::Overtime {
                    output.push_str(&format!("\nit took longer than {time_max:?}"));
                }
                exit_code(ended.status)
            }
            Err(error) => {
                output = format!("{} cannot be run: {error}", self.name);
                SIGNALED - 1
            }
        };
        Verdict {
            evidence: Evidence {
                command: self.run.join(" "),
                exit_code,
                duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                commit: commit.map(str::to_owned),
                source: EvidenceSource::Worker,
            },
            figures: self.parse.figures(&output),
            output,
        }
    }
}

pub(super) fn exit_code(status: ExitStatus) -> i32 {
    let signal = status.signal().unwrap_or(0);
    status.code().unwrap_or(SIGNALED + signal)
}

impl Parse {
    fn of(run: &[String]) -> Parse {
        let names = [
            ("cargo", Parse::Cargo),
            ("pytest", Parse::Pytest),
            ("jest", Parse::Jest),
            ("go", Parse::Go),
            ("tsc", Parse::Tsc),
            ("eslint", Parse::Eslint),
            ("ruff", Parse::Ruff),
        ];
        // `npx jest`, `python -m pytest`: the first word that is known.
        let known = |word: &String| {
            let word = word.rsplit('/').next().unwrap_or_default();
            names
                .iter()
                .find(|(name, _)| *name == word)
                .map(|(_, parse)| *parse)
        };
        run.iter().take(3).find_map(known).unwrap_or_default()
    }

    pub(super) fn figures(self, output: &str) -> Figures {
        let mut found = Figures::default();
        for line in output.lines().map(str::trim) {
            match self {
                Parse::Cargo => found.cargo(line),
                Parse::Pytest if line.starts_with('=') || line.contains(" in ") => {
                    found.tests(line, &["passed"], &["failed", "error", "errors"]);
                }
                Parse::Jest if line.starts_with("Tests:") => {
                    found.tests(line, &["passed"], &["failed"])
                }
                Parse::Go => found.go(line),
                Parse::Tsc if line.contains("error TS") => found.add(|all| all.type_errors += 1),
                Parse::Eslint if line.starts_with('✖') => {
                    let errors = before(line, &["error", "errors"]);
                    let warnings = before(line, &["warning", "warnings"]);
                    found.add(|all| all.lint_errors += errors);
                    found.add(|all| all.lint_warnings += warnings);
                }
                Parse::Ruff if line.starts_with("Found ") => {
                    let errors = before(line, &["error", "errors"]);
                    found.add(|all| all.lint_errors += errors);
                }
                Parse::Ruff if line == "All checks passed!" => found.add(|_| ()),
                Parse::Pytest
                | Parse::Jest
                | Parse::Tsc
                | Parse::Eslint
                | Parse::Ruff
                | Parse::Exit => {}
            }
        }
        found
    }
}

impl Figures {
    fn cargo(&mut self, line: &str) {
        if line.starts_with("test result:") {
            self.tests(line, &["passed"], &["failed"]);
        } else if line.starts_with("error: could not compile") {
            self.add(|all| all.is_broken = true);
        } else if line.starts_with("error[E") {
            self.add(|all| all.type_errors += 1);
        } else if line.starts_with("warning: `") && line.contains(" generated ") {
            let count = before(line, &["warning", "warnings"]);
            self.add(|all| all.lint_warnings += count);
        }
    }

    fn go(&mut self, line: &str) {
        if line.starts_with("--- PASS:") {
            self.add(|all| all.passed += 1);
        } else if line.starts_with("--- FAIL:") {
            self.add(|all| all.failed += 1);
        } else if line.starts_with("FAIL") && line.contains("[build failed]") {
            self.add(|all| all.is_broken = true);
        }
    }

    fn tests(&mut self, line: &str, good: &[&str], bad: &[&str]) {
        let (passed, failed) = (before(line, good), before(line, bad));
        if passed + failed > 0 || line.starts_with("test result:") {
            self.add(|all| (all.passed, all.failed) = (all.passed + passed, all.failed + failed));
        }
    }

    fn add(&mut self, change: impl FnOnce(&mut Figures)) {
        self.is_told = true;
        change(self);
    }

    /// All gates together; none if no output told anything.
    pub(super) fn metrics(all: &[Figures]) -> Option<QualityMetrics> {
        let sum = |of: fn(&Figures) -> u32| all.iter().map(of).fold(0, u32::saturating_add);
        let (passed, failed) = (sum(|one| one.passed), sum(|one| one.failed));
        all.iter().any(|one| one.is_told).then(|| QualityMetrics {
            tests_ran: passed.saturating_add(failed),
            tests_passed: passed,
            lint_errors: sum(|one| one.lint_errors),
            type_errors: sum(|one| one.type_errors),
            build_success: !all.iter().any(|one| one.is_broken),
            lint_warnings: Some(sum(|one| one.lint_warnings)),
            test_coverage: None,
        })
    }
}

/// The sum of the numbers that stand before one of these words.
fn before(line: &str, names: &[&str]) -> u32 {
    let words: Vec<&str> = line
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let pairs = words.windows(2).filter(|pair| names.contains(&pair[1]));
    pairs
        .filter_map(|pair| pair[0].parse::<u32>().ok())
        .fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_out_of_each_programs_output_and_out_of_no_other() {
        let told = Figures {
            is_told: true,
            ..Figures::default()
        };
        let table = [
            (
                Parse::Cargo,
                "test result: FAILED. 12 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\ntest result: ok. 3 passed; 0 failed; 0 ignored",
                Figures {
                    passed: 15,
                    failed: 1,
                    ..told
                },
            ),
            (
                Parse::Cargo,
                "error[E0308]: mismatched types\nwarning: `x` (lib) generated 2 warnings\nerror: could not compile `x` (lib) due to 1 previous error",
                Figures {
                    type_errors: 1,
                    lint_warnings: 2,
                    is_broken: true,
                    ..told
                },
            ),
            (
                Parse::Pytest,
                "collected 14 items\n===== 2 failed, 10 passed, 1 skipped, 1 error in 0.12s =====",
                Figures {
                    passed: 10,
                    failed: 3,
                    ..told
                },
            ),
            (
                Parse::Pytest,
                "10 passed in 0.12s",
                Figures { passed: 10, ..told },
            ),
            (
                Parse::Jest,
                "Test Suites: 1 failed, 1 passed, 2 total\nTests:       1 failed, 5 passed, 6 total",
                Figures {
                    passed: 5,
                    failed: 1,
                    ..told
                },
            ),
            (
                Parse::Go,
                "--- PASS: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\nFAIL\texample.com/x [build failed]",
                Figures {
                    passed: 1,
                    failed: 1,
                    is_broken: true,
                    ..told
                },
            ),
            (
                Parse::Tsc,
                "src/a.ts(1,2): error TS2322: no\nsrc/b.ts:3:1 - error TS1005: ';' expected.",
                Figures {
                    type_errors: 2,
                    ..told
                },
            ),
            (
                Parse::Eslint,
                "✖ 3 problems (2 errors, 1 warning)",
                Figures {
                    lint_errors: 2,
                    lint_warnings: 1,
                    ..told
                },
            ),
            (
                Parse::Ruff,
                "Found 3 errors.",
                Figures {
                    lint_errors: 3,
                    ..told
                },
            ),
            (Parse::Ruff, "All checks passed!", told),
            (
                Parse::Exit,
                "test result: ok. 3 passed; 0 failed",
                Figures::default(),
            ),
            (Parse::Jest, "99999999999 passed", Figures::default()),
        ];
        for (parse, output, figures) in table {
            assert_eq!(parse.figures(output), figures, "{output}");
        }
    }

    #[test]
    fn the_program_of_a_gate_says_how_it_is_read() {
        for (line, parse) in [
            ("cargo test --workspace", Parse::Cargo),
            ("python3 -m pytest -q", Parse::Pytest),
            ("npx jest", Parse::Jest),
            ("./node_modules/.bin/tsc --noEmit", Parse::Tsc),
            ("make test", Parse::Exit),
        ] {
            assert_eq!(
                Gate::from_line(line).map(|gate| gate.parse),
                Some(parse),
                "{line}"
            );
        }
        assert_eq!(Gate::from_line("'"), None);
    }

    #[test]
    fn gates_that_tell_nothing_make_no_metrics() {
        assert_eq!(Figures::metrics(&[Figures::default()]), None);
        let green = Figures {
            passed: 3,
            is_told: true,
            ..Figures::default()
        };
        let metrics = Figures::metrics(&[Figures::default(), green]).expect("told");
        assert_eq!(
            (
                metrics.tests_ran,
                metrics.tests_passed,
                metrics.build_success
            ),
            (3, 3, true)
        );
    }
}
