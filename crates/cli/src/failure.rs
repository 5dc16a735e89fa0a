//! How a command can fail, what the person reads, and the exit code.

use std::io;

use serde::Serialize;
use switchboard_client as client;
use switchboard_client::broker::BrokerError;
use thiserror::Error;

use crate::import::Problem;

/// Most problems of an import that are printed.
const PROBLEMS_SHOWN_MAX: usize = 20;

/// Why a command did not do what was asked.
#[derive(Debug, Error)]
pub enum Failure {
    /// No hub runs where one was looked for.
    #[error("{0}")]
    NoHub(String),
    /// The hub refused, or talking to it failed.
    #[error("{}", from_hub(.0))]
    Hub(#[from] client::Error),
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The command was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// A program that was run for the person ended with this exit code, and has said itself why.
    #[error("the program ended with exit code {0}")]
    Program(u8),
    /// So many checks failed; what was wrong with each was printed.
    #[error("{}", failed_checks(*.0))]
    Unhealthy(usize),
    /// A file of tasks has mistakes; nothing of it was sent.
    #[error("{}", wrong_lines(.file, .problems))]
    Import {
        file: String,
        problems: Vec<Problem>,
    },
    /// What it ran failed, with this exit code.
    #[error("{what}")]
    Ended { code: u8, what: String },
    /// Printing failed.
    #[error("cannot print: {0}")]
    Output(#[from] io::Error),
}

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Self {
        match error {
            BrokerError::Refused(why) => Failure::Failed(why),
            BrokerError::Hub(error) => Failure::Hub(error),
            error => Failure::NoHub(format!(
                "{error}; start a hub in the project with 'switchboard up'"
            )),
        }
    }
}

impl Failure {
    /// 0 ok, 1 refused or failed, 2 usage, 3 no hub running; of what it ran, that one's own.
    pub fn exit_code(&self) -> u8 {
        match self {
            // Whoever read our output has read enough.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Failure::Output(_)
            | Failure::Failed(_)
            | Failure::Unhealthy(_)
            | Failure::Import { .. } => 1,
            Failure::Program(code) | Failure::Ended { code, .. } => *code,
            Failure::Usage(_) | Failure::Hub(client::Error::Invalid(_)) => 2,
            Failure::NoHub(_) | Failure::Hub(client::Error::Unreachable { .. }) => 3,
            Failure::Hub(
                client::Error::Refused { .. }
                | client::Error::Untrusted { .. }
                | client::Error::Unproven { .. }
                | client::Error::NotHttp { .. }
                | client::Error::Unreadable { .. },
            ) => 1,
        }
    }
}

impl Failure {
    /// The failure in the shape of the hub's refusals, for programs.
    pub fn body(&self) -> Body {
        let (error, field, reason) = match self {
            Failure::Hub(client::Error::Refused {
                code,
                field,
                reason,
                ..
            }) => (code.as_str(), field.clone(), reason.clone()),
            Failure::Hub(client::Error::Unreachable { .. }) | Failure::NoHub(_) => {
                ("no_hub", None, None)
            }
            Failure::Hub(client::Error::Untrusted { .. }) => ("untrusted_certificate", None, None),
            Failure::Hub(client::Error::Unproven { .. }) => ("unproven_hub", None, None),
            Failure::Hub(client::Error::NotHttp { .. }) => ("not_http", None, None),
            Failure::Hub(client::Error::Unreadable { .. }) => ("unreadable_answer", None, None),
            Failure::Hub(client::Error::Invalid(_)) | Failure::Usage(_) => ("usage", None, None),
            Failure::Import { .. } => ("invalid_file", None, None),
            Failure::Failed(_)
            | Failure::Program(_)
            | Failure::Unhealthy(_)
            | Failure::Ended { .. }
            | Failure::Output(_) => ("failed", None, None),
        };
        Body {
            success: false,
            error: error.to_owned(),
            message: self.to_string(),
            field,
            reason,
        }
    }
}

impl Failure {
    /// Whether there is nothing to add.
    pub fn is_silent(&self) -> bool {
        matches!(self, Failure::Program(_))
    }

    /// Whether a program has read of it already, in what the command printed.
    pub fn is_told(&self) -> bool {
        matches!(self, Failure::Unhealthy(_) | Failure::Ended { .. })
    }
}

/// A failure as `--json` prints it.
#[derive(Debug, Serialize)]
pub struct Body {
    success: bool,
    error: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What the hub's errors mean to a person, with the next step.
fn from_hub(error: &client::Error) -> String {
    match error {
        client::Error::Unreachable { address, source } => {
            format!(
                "no hub answers at {address} ({}); start one with 'switchboard up', or pass another address with --url",
                root(source)
            )
        }
        client::Error::Refused { code, message, .. } => match next_step(code) {
            Some(step) => format!("{}; {step}", message.trim_end_matches('.')),
            None => message.clone(),
        },
        client::Error::Untrusted { .. } => {
            format!(
                "{error}; pass the hub's certificate with --ca-cert, or the fingerprint that 'switchboard up' printed with --ca-fingerprint"
            )
        }
        client::Error::Unproven { .. } => {
            format!(
                "{error}: it did not prove that it has the key in the data directory, so no token was sent; if it is the hub, restart it with this version, or pass --url and --token"
            )
        }
        client::Error::NotHttp { .. } => {
            format!("{error}; if it is a hub with TLS, its address begins with https://")
        }
        client::Error::Unreadable { .. } => {
            format!(
                "{error}; check with 'switchboard doctor' that this address is a hub of the same version"
            )
        }
        client::Error::Invalid(_) => error.to_string(),
    }
}

fn next_step(code: &str) -> Option<&'static str> {
    Some(match code {
        "unauthenticated" => {
            "pass --token, or set SWITCHBOARD_URL and SWITCHBOARD_TOKEN (whoever started the hub creates one with 'switchboard token create')"
        }
        "forbidden" | "not_you" => {
            "use a token of scope steward ('switchboard token create --scope steward NAME')"
        }
        "task_not_found" => "see 'switchboard task list'",
        "agent_not_registered" | "recipient_not_found" => "see 'switchboard agent list'",
        "message_not_found" => "see 'switchboard message list'",
        "lease_not_found" | "lease_not_yours" => "see 'switchboard lease list'",
        "rate_limited" | "overloaded" => "wait a moment and try again",
        "db_unavailable" => "see 'switchboard doctor'",
        "wrong_host" => "use the address the hub listens on, or restart it with --host NAME",
        _ => return None,
    })
}

fn failed_checks(count: usize) -> String {
    match count {
        1 => "1 check failed".to_owned(),
        many => format!("{many} checks failed"),
    }
}

/// The innermost cause, which says what actually went wrong.
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn wrong_lines(file: &str, problems: &[Problem]) -> String {
    let mut text = format!("{file} was not imported; nothing was sent");
    for problem in problems.iter().take(PROBLEMS_SHOWN_MAX) {
        text.push_str(&format!("\n  {problem}"));
    }
    if problems.len() > PROBLEMS_SHOWN_MAX {
        text.push_str(&format!(
            "\n  and {} more",
            problems.len() - PROBLEMS_SHOWN_MAX
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> Failure {
        Failure::Hub(client::Error::Refused {
            status,
            code: code.to_owned(),
            message: "no task 7".to_owned(),
            field: None,
            reason: None,
            retry_after: None,
        })
    }

    #[test]
    fn every_kind_of_failure_has_its_exit_code() {
        let pipe = io::Error::from(io::ErrorKind::BrokenPipe);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        for (failure, code) in [
            (Failure::Output(pipe), 0),
            (Failure::Output(full), 1),
            (refused(404, "task_not_found"), 1),
            (Failure::Failed(String::new()), 1),
            (
                Failure::Import {
                    file: String::new(),
                    problems: Vec::new(),
                },
                1,
            ),
            (Failure::Program(7), 7),
            (Failure::Usage(String::new()), 2),
            (Failure::Hub(client::Error::Invalid(String::new())), 2),
            (Failure::NoHub(String::new()), 3),
        ] {
            assert_eq!(failure.exit_code(), code, "{failure:?}");
        }
    }

    #[test]
    fn programs_read_failures_in_the_shape_of_refusals() {
        let text = serde_json::to_string(&refused(404, "task_not_found").body()).unwrap();
        assert_eq!(
            text,
            r#"{"success":false,"error":"task_not_found","message":"no task 7; see 'switchboard task list'"}"#
        );
        let text = serde_json::to_string(&Failure::NoHub("none".to_owned()).body()).unwrap();
        assert_eq!(
            text,
            r#"{"success":false,"error":"no_hub","message":"none"}"#
        );
    }

    #[test]
    fn a_refusal_names_the_next_step() {
        assert_eq!(
            refused(404, "task_not_found").to_string(),
            "no task 7; see 'switchboard task list'"
        );
        assert_eq!(
            refused(409, "task_already_claimed").to_string(),
            "no task 7"
        );
    }

    #[test]
    fn only_the_first_problems_of_a_file_are_printed() {
        let problems = (1..=22).map(|line| Problem::at(line, "bad")).collect();
        let text = Failure::Import {
            file: "plan.md".to_owned(),
            problems,
        }
        .to_string();
        assert!(
            text.starts_with("plan.md was not imported; nothing was sent\n  line 1: bad\n"),
            "{text}"
        );
        assert!(text.ends_with("line 20: bad\n  and 2 more"), "{text}");
    }
}
