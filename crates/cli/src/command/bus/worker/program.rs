//! Work by a command of the user: one process group per task, its output watched, its end reported.

use std::io;
use std::process::ExitStatus;

use switchboard_child::{Piece, Program, Run, Tail};
use switchboard_client::bus::state;
use switchboard_wire::agentbus::codec::{Line, Lines};
use switchboard_wire::agentbus::message::{Accomplished, TaskAssigned};
use switchboard_wire::agentbus::{ErrorType, Stage};
use tokio::sync::mpsc;

use super::job::{Job, Mishap, Note, Notes, Outcome, Stop};
use crate::screen::brief;

/// Of each output, so much of its end is kept.
const TAIL_BYTES_MAX: usize = 8 * 1024;
/// Longest line that is shown.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// Longest description in the environment; an operating system takes no arbitrary one. All of it is on the input.
const ENVIRONMENT_BYTES_MAX: usize = 64 * 1024;
const SUMMARY_CHARS_MAX: usize = 500;
/// Pieces of output that wait to be read; the command waits with them.
const PIECES_MAX: usize = 16;

pub fn start(program: &str, task: TaskAssigned, worker_id: &str) -> Job {
    let command = command(program, &task, worker_id);
    let at = state(Stage::Code, task.issue_number, task.attempt);
    let input = serde_json::to_vec(&task).unwrap_or_default();
    Job::start(task, move |notes, stop| async move {
        // If nobody reads it, nobody wants the work either.
        let _ = notes.send(Note::At(at)).await;
        match work(command, input, notes, stop).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Failed(Mishap {
                error_type: ErrorType::MissingPrereq.to_string(),
                message: format!("the command cannot be run: {error}"),
                ..Mishap::default()
            }),
        }
    })
}

fn command(program: &str, task: &TaskAssigned, worker_id: &str) -> Program {
    Program::new(["sh", "-c", program])
        .env("TASK_ID", plain(&task.task_id))
        .env("ISSUE_NUMBER", task.issue_number.to_string())
        .env("TITLE", plain(&task.title))
        .env("DESCRIPTION", plain(beginning(&task.description)))
        .env("ATTEMPT", task.attempt.to_string())
        .env("EPOCH", task.epoch.to_string())
        .env("BRANCH", plain(task.branch.as_deref().unwrap_or_default()))
        .env("WORKER_ID", worker_id)
}

/// No environment holds a zero byte.
fn plain(text: &str) -> String {
    text.replace('\0', "")
}

fn beginning(text: &str) -> &str {
    if text.len() <= ENVIRONMENT_BYTES_MAX {
        return text;
    }
    let end = (0..=ENVIRONMENT_BYTES_MAX)
        .rev()
        .find(|place| text.is_char_boundary(*place));
    &text[..end.unwrap_or(0)]
}

async fn work(program: Program, input: Vec<u8>, notes: Notes, stop: Stop) -> io::Result<Outcome> {
    let run = Run {
        program,
        input,
        time_max: None,
        quiet_max: None,
    };
    let (pieces, mut printed) = mpsc::channel::<Piece>(PIECES_MAX);
    let stop = async {
        if stop.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let read = async {
        let mut tails = [Tail::new(TAIL_BYTES_MAX), Tail::new(TAIL_BYTES_MAX)];
        let mut lines = [Lines::new(LINE_BYTES_MAX), Lines::new(LINE_BYTES_MAX)];
        while let Some(piece) = printed.recv().await {
            tails[piece.from as usize].push(&piece.bytes);
            show(&piece, &mut lines[piece.from as usize], &notes).await;
        }
        tails
    };
    let (ended, [stdout, stderr]) = tokio::join!(run.to_end(pieces, stop), read);
    Ok(judge(ended?.status, &stdout, &stderr))
}

/// Line by line.
async fn show(piece: &Piece, lines: &mut Lines, notes: &Notes) {
    let mut seen = Vec::new();
    let mut feed = lines.feed(&piece.bytes);
    while let Some(line) = feed.next() {
        seen.push(match line {
            Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
            Line::Oversize { .. } => "…".to_owned(),
        });
    }
    for line in seen {
        // If nobody reads, it is still kept.
        let _ = notes.send(Note::Output(line)).await;
    }
}

fn judge(status: ExitStatus, stdout: &Tail, stderr: &Tail) -> Outcome {
    if status.success() {
        let summary = match stdout.last_line() {
            Some(line) => brief(line.trim(), SUMMARY_CHARS_MAX),
            None => "the command succeeded".to_owned(),
        };
        return Outcome::Done(Accomplished {
            summary,
            ..Accomplished::default()
        });
    }
    Outcome::Failed(Mishap {
        error_type: ErrorType::DockerExitNonzero.to_string(),
        message: format!("the command ended with {status}"),
        // Whoever looks at it may try once more.
        is_transient: false,
        should_retry: true,
        exit_code: status.code().map(i64::from),
        stdout: stdout.text(),
        stderr: stderr.text(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::{all, task};
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn run(program: &str) -> (Vec<String>, Outcome) {
        let (notes, outcome) = all(start(program, task(21), "worker-3")).await;
        let lines = notes.into_iter().filter_map(|note| match note {
            Note::Output(line) => Some(line),
            Note::At(_) | Note::Ended(_) => None,
        });
        (lines.collect(), outcome)
    }

    #[tokio::test]
    async fn a_command_finds_its_task_in_the_environment_and_on_its_input() {
        let program = "cat | grep -c tsk_1; echo $TASK_ID $ISSUE_NUMBER $ATTEMPT $EPOCH $WORKER_ID; echo \"$TITLE\"";
        let (lines, outcome) = run(program).await;
        assert_eq!(lines, ["1", "tsk_1 21 2 4 worker-3", "Fix the parser"]);
        match outcome {
            Outcome::Done(result) => assert_eq!(result.summary, "Fix the parser"),
            Outcome::Failed(mishap) => panic!("{mishap:?}"),
        }
    }

    #[tokio::test]
    async fn a_command_that_fails_is_told_with_the_end_of_its_output() {
        let program =
            "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo wrong >&2; exit 3";
        let (lines, outcome) = run(program).await;
        assert_eq!(lines.len(), 3001);
        let Outcome::Failed(mishap) = outcome else {
            panic!("it failed");
        };
        assert_eq!(mishap.error_type, "docker_exit_nonzero");
        assert_eq!(mishap.exit_code, Some(3));
        assert_eq!(mishap.stderr.as_deref(), Some("wrong\n"));
        let stdout = mishap.stdout.unwrap();
        assert!(stdout.ends_with("line 2999\n"));
        assert_eq!(stdout.len(), TAIL_BYTES_MAX);
    }

    #[tokio::test]
    async fn what_a_command_leaves_running_is_ended_and_not_waited_for() {
        let (_, outcome) = run("sleep 20 & echo started").await;
        assert!(matches!(outcome, Outcome::Done(_)));
    }

    #[tokio::test]
    async fn a_stopped_command_ends_with_everything_it_started() {
        let mut job = Some(start("sleep 600 & echo $! $$; wait", task(21), "w"));
        let pids = loop {
            match Job::next(&mut job).await {
                Note::Output(line) => break line,
                Note::At(_) => {}
                Note::Ended(_) => panic!("it waits"),
            }
        };
        job.unwrap().stop().await;
        let buried = async {
            for pid in pids.split(' ').map(|pid| pid.parse().unwrap()) {
                // Whoever takes in orphans may need a moment to bury them.
                while !is_dead(pid) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        timeout(Duration::from_secs(60), buried).await.unwrap();
    }

    fn is_dead(pid: u32) -> bool {
        let Ok(state) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            return true;
        };
        state
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    }

    #[test]
    fn texts_that_no_environment_takes_are_made_to_fit() {
        assert_eq!(plain("a\0b"), "ab");
        let long = "ü".repeat(ENVIRONMENT_BYTES_MAX);
        assert_eq!(beginning(&long).len(), ENVIRONMENT_BYTES_MAX);
        let odd = format!("x{long}");
        assert_eq!(beginning(&odd).len(), ENVIRONMENT_BYTES_MAX - 1);
        assert_eq!(beginning("short"), "short");
    }
}
