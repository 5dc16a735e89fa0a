//! What a worker does next, by the document's table.

use super::*;

fn refusal(status: u16, code: &str) -> Error {
    Error::Refused {
        status,
        code: code.to_owned(),
        message: "no".to_owned(),
        field: None,
        reason: None,
        retry_after: None,
    }
}

#[test]
fn the_error_table_of_the_document_says_what_an_agent_does() {
    let table = [
        (refusal(404, "agent_not_registered"), Step::RegisterAnew),
        (refusal(404, "task_not_found"), Step::ClaimAnother),
        (refusal(409, "task_already_claimed"), Step::ClaimAnother),
        (refusal(400, "invalid_operation"), Step::LogAndContinue),
        (refusal(503, "db_unavailable"), Step::WaitAndRetry),
        (refusal(429, "rate_limited"), Step::WaitAndRetry),
        (refusal(401, "unauthenticated"), Step::LogAndContinue),
        (Error::Invalid("x".to_owned()), Step::LogAndContinue),
    ];
    for (error, step) in table {
        assert_eq!(Step::after(&error), step, "{error:?}");
    }
}

#[test]
fn a_worker_may_run_in_a_task_of_its_own() {
    fn is_send(_: impl Future<Output = Result<(), WorkerError>> + Send) {}
    let _ = |client, config, notices, stop| is_send(run(client, config, notices, stop));
}
