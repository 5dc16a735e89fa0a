//! How a program ended that was to respond: with a response, or with an error of its call, which may pass by itself.

use serde_json::Value;
use switchboard_core::job_history::CallError;
use switchboard_core::limits;

/// A program that ended by itself.
#[derive(Clone, Copy, Debug)]
pub struct Printed<'a> {
    /// Nothing where a signal ended it.
    pub exit: Option<i32>,
    pub stdout: &'a str,
    pub stderr: &'a str,
}

/// What its end means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// There is something to judge.
    Response,
    /// It says itself that its time was over.
    Timeout,
    /// The call that it made failed; a person is told why.
    Call(CallError, String),
    /// It failed for a reason of its own.
    Failed(String),
}

/// `EX_TEMPFAIL`: the program says that it may pass.
const EXIT_TEMPORARY: i32 = 75;
const EXIT_TIMEOUT: i32 = 124;
/// The end of stderr, in which a reason is looked for.
const REASON_BYTES_MAX: usize = 4 * 1024;

/// Tells what the end of a program means.
pub fn told(printed: &Printed<'_>) -> Told {
    let failed = printed.exit != Some(0);
    if printed.exit == Some(EXIT_TIMEOUT) {
        return Told::Timeout;
    }
    let object: Option<Value> = serde_json::from_str(printed.stdout.trim()).ok();
    let object = object.filter(Value::is_object);
    if let Some(found) = object
        .as_ref()
        .and_then(|object| in_object(&object["error"]))
    {
        return found;
    }
    let end = printed.stderr.len().saturating_sub(REASON_BYTES_MAX);
    let reason = printed.stderr[printed.stderr.ceil_char_boundary(end)..].trim();
    let said = last_line(reason);
    if printed.exit == Some(EXIT_TEMPORARY) {
        return Told::Call(in_words(reason).unwrap_or(CallError::Network), said);
    }
    if !failed || object.is_some() {
        return Told::Response;
    }
    if let Some(error) = in_words(reason) {
        return Told::Call(error, said);
    }
    let ended = match printed.exit {
        Some(code) => format!("the program exited with code {code}"),
        None => "the program was ended by a signal".to_owned(),
    };
    Told::Failed(match said.is_empty() {
        true => format!("{ended} and said nothing"),
        false => format!("{ended}: {said}"),
    })
}

/// `{"error":{"type":…,"message":…}}`.
fn in_object(error: &Value) -> Option<Told> {
    let kind = error["type"].as_str()?;
    let message = error["message"].as_str().unwrap_or_default();
    let said = format!("{kind} {message}");
    let error = match kind {
        "rate_limited" => CallError::Quota,
        "network" => CallError::Network,
        "api_error" => in_words(message).unwrap_or(CallError::Network),
        _ => in_words(&said)?,
    };
    Some(Told::Call(
        error,
        limits::cut(said.trim(), limits::NAME_BYTES_MAX).to_owned(),
    ))
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    limits::cut(line.unwrap_or_default().trim(), limits::NAME_BYTES_MAX).to_owned()
}

fn in_words(text: &str) -> Option<CallError> {
    let text = text.to_lowercase().replace(['_', '-'], " ");
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let numbers = text.split(|letter: char| !letter.is_alphanumeric());
    let says = |fits: fn(&str) -> bool| numbers.clone().any(fits);
    let is_server =
        |word: &str| word.len() == 3 && word.starts_with('5') && word.parse::<u16>().is_ok();
    if has(&["rate limit", "quota"]) || says(|word| word == "429") {
        Some(CallError::Quota)
    } else if has(&["connection", "network", "timed out"]) || says(is_server) {
        Some(CallError::Network)
    } else if has(&["api key", "authentication"]) || says(|word| matches!(word, "401" | "403")) {
        Some(CallError::Credential)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_of_the_call_are_told_from_others() {
        // logist.escalate.api_error
        use CallError::{Credential, Network, Quota};
        let response = r#"{"action":"STUCK"}"#;
        let error = |kind: &str, message: &str| {
            serde_json::json!({ "error": { "type": kind, "message": message } }).to_string()
        };
        for (exit, stdout, stderr, error) in [
            (Some(75), "", "", Some(Network)),
            (Some(75), "", "quota exceeded", Some(Quota)),
            (
                Some(0),
                error("api_error", "overloaded").as_str(),
                "",
                Some(Network),
            ),
            (
                Some(0),
                error("api_error", "invalid API key").as_str(),
                "",
                Some(Credential),
            ),
            (Some(1), error("rate_limited", "").as_str(), "", Some(Quota)),
            (Some(1), error("network", "").as_str(), "", Some(Network)),
            (
                Some(1),
                error("authentication_error", "").as_str(),
                "",
                Some(Credential),
            ),
            (Some(1), "", "Error: 429 Too Many Requests", Some(Quota)),
            (Some(1), "", "rate_limit reached", Some(Quota)),
            (Some(1), "", "connection reset by peer", Some(Network)),
            (Some(1), "", "HTTP 503", Some(Network)),
            (None, "", "request timed out", Some(Network)),
            (Some(1), "", "No API key found", Some(Credential)),
            (Some(1), "partial", "status 401", Some(Credential)),
            (Some(1), "", "port 4012 is in use", None),
            (Some(1), "", "", None),
            (Some(0), "", "connection reset by peer", None),
            (Some(1), response, "connection reset by peer", None),
            (Some(0), error("other", "").as_str(), "", None),
        ] {
            let printed = Printed {
                exit,
                stdout,
                stderr,
            };
            let found = match told(&printed) {
                Told::Call(error, _) => Some(error),
                Told::Response | Told::Timeout | Told::Failed(_) => None,
            };
            assert_eq!(found, error, "{printed:?}");
        }
    }

    #[test]
    fn what_is_no_error_of_the_call_is_a_response_a_timeout_or_a_failure() {
        let told = |exit, stdout: &str, stderr: &str| {
            told(&Printed {
                exit,
                stdout,
                stderr,
            })
        };
        assert_eq!(told(Some(124), "{}", ""), Told::Timeout);
        assert_eq!(told(Some(0), "prose", ""), Told::Response);
        assert_eq!(told(Some(1), "{}", ""), Told::Response);
        let failed = |why: &str| Told::Failed(why.to_owned());
        assert_eq!(
            told(Some(2), "", "a\nno such file\n"),
            failed("the program exited with code 2: no such file")
        );
        assert_eq!(
            told(None, "", ""),
            failed("the program was ended by a signal and said nothing")
        );
    }

    #[test]
    fn only_the_end_of_stderr_is_looked_at() {
        let stderr = format!("429{}", "ä".repeat(REASON_BYTES_MAX));
        let printed = Printed {
            exit: Some(1),
            stdout: "",
            stderr: &stderr,
        };
        assert!(matches!(told(&printed), Told::Failed(_)));
    }

    proptest! {
        #[test]
        fn any_output_means_something(exit in any::<Option<i32>>(), stdout in "\\PC{0,40}", stderr in "\\PC{0,40}") {
            told(&Printed { exit, stdout: &stdout, stderr: &stderr });
        }
    }
}
