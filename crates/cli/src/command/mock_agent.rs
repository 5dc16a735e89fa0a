//! `switchboard mock-agent`: an agent for jobs that is no model, for trials, demos and tests.
//!
//! It reads a request on its input and answers as its mode says. Knows neither hub nor ledger.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::failure::Failure;

const EXAMPLES: &str = "\
Example:
  echo '{\"phase\":\"build\"}' | switchboard mock-agent --mode retry,success";

/// Answer a job's request as an agent would (for trials and demos)
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = EXAMPLES)]
pub struct Args {
    /// How to answer; of several, the first attempt at a phase uses the first and so on. [default: what the task says
    /// after `mock:`, else success]
    #[arg(long, value_delimiter = ',')]
    mode: Vec<Mode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Mode {
    Success,
    Retry,
    Stuck,
    Hang,
    ApiError,
    Garbage,
    Expensive,
}

pub fn run(args: Args) -> Result<(), Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::Failed(format!("the input cannot be read: {error}")))?;
    let request: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::Failed(format!("the request on the input is no JSON: {error}"))
    })?;
    let modes = match args.mode.is_empty() {
        true => modes_in(request["task_description"].as_str().unwrap_or_default()),
        false => args.mode,
    };
    let answer = answer(&modes, &request, Path::new("."))?;
    Ok(std::io::stdout().write_all(answer.as_bytes())?)
}

/// What stands in a line of the task behind `mock:`.
fn modes_in(task: &str) -> Vec<Mode> {
    let line = task
        .lines()
        .find_map(|line| line.trim().strip_prefix("mock:"));
    let words = line.unwrap_or_default().split(',');
    words
        .filter_map(|word| Mode::from_str(word.trim(), true).ok())
        .collect()
}

/// Adds a line to a file of its own in the workspace, by which the next one knows how many attempts there were.
fn answer(modes: &[Mode], request: &Value, workspace: &Path) -> Result<String, Failure> {
    let phase = request["phase"].as_str().unwrap_or("default");
    let role = request["metadata"]["role"].as_str().unwrap_or("Worker");
    let suffix = match role.eq_ignore_ascii_case("supervisor") {
        true => "-review",
        false => "",
    };
    let file = format!("{}{suffix}.md", file_name(phase));
    let mut text = fs::read_to_string(workspace.join(&file)).unwrap_or_default();
    let attempts = text.lines().count();
    let mode = modes.get(attempts).or(modes.last()).copied();
    let mode = mode.unwrap_or(Mode::Success);
    let is_made = suffix.is_empty() || modes.len() > 1;
    if is_made {
        let _ = writeln!(
            text,
            "- attempt {} by the mock agent: {mode:?}",
            attempts + 1
        );
        fs::write(workspace.join(&file), text)
            .map_err(|error| Failure::Failed(format!("{file}: {error}")))?;
    }
    let files: &[&String] = if is_made { &[&file] } else { &[] };
    let said = |action: &str, summary: &str, cost_usd: f64| {
        let metrics = json!({
            "cost_usd": cost_usd,
            "token_input": text_len(request),
            "token_output": summary.len(),
            "model": "mock",
        });
        json!({
            "action": action,
            "evidence_files": files,
            "summary_for_supervisor": format!("Phase {phase} {summary}."),
            "metrics": metrics,
        })
        .to_string()
    };
    Ok(match mode {
        Mode::Success => said("COMPLETED", "is done", 0.01),
        Mode::Expensive => said("COMPLETED", "is done and was expensive", 25.0),
        Mode::Retry => said("RETRY", "needs another attempt", 0.01),
        Mode::Stuck => said("STUCK", "needs a person's decision", 0.01),
        Mode::Hang => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        Mode::ApiError => {
            let error = json!({ "type": "rate_limited", "message": "the mock agent has no quota" });
            json!({ "error": error }).to_string()
        }
        Mode::Garbage => "Sure! Here is what I did:\n\n- everything\n".to_owned(),
    })
}

fn text_len(request: &Value) -> usize {
    ["system_prompt", "task_description"]
        .iter()
        .filter_map(|name| request[*name].as_str())
        .map(str::len)
        .sum()
}

/// A phase's name as that of a file.
fn file_name(phase: &str) -> String {
    let mut name = String::new();
    for letter in phase.chars().take(60) {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => name.push(letter),
            other => {
                let _ = write!(name, "x{:x}", u32::from(other));
            }
        }
    }
    match name.is_empty() {
        true => "phase".to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_may_say_how_each_attempt_is_answered() {
        let task = "Write it.\n  mock: retry, stuck ,success, nonsense\n";
        assert_eq!(modes_in(task), [Mode::Retry, Mode::Stuck, Mode::Success]);
        assert_eq!(modes_in("Write it with a mock: object"), []);
    }

    #[test]
    fn every_mode_but_hang_answers_at_once_as_it_is_called() {
        let request = json!({ "phase": "a/b c", "metadata": { "role": "Supervisor" } });
        let dir = tempfile::tempdir().expect("a directory");
        for mode in Mode::value_variants() {
            let word = match mode {
                Mode::Success | Mode::Expensive => "COMPLETED",
                Mode::Retry => "RETRY",
                Mode::Stuck => "STUCK",
                Mode::ApiError => "rate_limited",
                Mode::Garbage => "Sure!",
                Mode::Hang => continue,
            };
            let text = answer(&[*mode], &request, dir.path()).expect("it answers");
            assert!(text.contains(word), "{text}");
        }
        let mut there = fs::read_dir(dir.path()).expect("it is there");
        assert!(there.next().is_none(), "a supervisor changes nothing");
    }

    #[test]
    fn each_attempt_takes_the_next_mode_and_the_last_one_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let modes = [Mode::Retry, Mode::Success];
        for action in ["RETRY", "COMPLETED", "COMPLETED"] {
            let text = answer(&modes, &json!({ "phase": "p" }), dir.path()).expect("it answers");
            assert!(text.contains(action), "{text}");
        }
    }
}
