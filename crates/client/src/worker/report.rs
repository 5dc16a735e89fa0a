//! Reports on their way: tried until they are answered, under one key.

use std::time::Duration;

use switchboard_wire::jetpack::CompleteResponse;

use super::desk::Desk;
use super::outbox::{Body, Outbox, Report};
use super::slot::register;
use super::{Shop, Step, What};
use crate::Error;
use crate::bus::{Backoff, BackoffPolicy};

/// A worker that is to stop still tries for so long; then the report waits in its file.
const LAST_TRY: Duration = Duration::from_secs(5);

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Delivered {
    Counted(String),
    /// The hub wants none of it: somebody else has the task.
    Refused(String),
    /// For the next start.
    Waiting,
}

/// Sends a report until it is answered. Only a worker that is to stop gives up, and leaves it in its file.
pub(super) async fn deliver(
    shop: &Shop,
    desk: &Desk,
    outbox: &Outbox,
    report: &Report,
) -> Delivered {
    let mut backoff = Backoff::random(BackoffPolicy::default());
    let client = shop.client.with_idempotency_key(&report.key);
    loop {
        let is_last = shop.is_stopping();
        let answer = match is_last {
            true => match tokio::time::timeout(LAST_TRY, send(&client, report)).await {
                Ok(answer) => answer,
                Err(_) => return Delivered::Waiting,
            },
            false => tokio::select! {
                answer = send(&client, report) => answer,
                () = shop.stopping() => continue,
            },
        };
        let error = match answer {
            Ok(how) => return settled(shop, desk, outbox, report, Delivered::Counted(how)).await,
            Err(error) => error,
        };
        if let Some(delivered) = refused(&error) {
            return settled(shop, desk, outbox, report, delivered).await;
        }
        if is_last {
            return Delivered::Waiting;
        }
        if Step::after(&error) == Step::RegisterAnew {
            // If that fails too, the next try says why.
            let _ = register(shop, &desk.agent, true).await;
        }
        let text = format!("the report waits: {error}");
        shop.say(What::Trouble, &desk.agent, Some(report.number), text)
            .await;
        tokio::select! {
            () = tokio::time::sleep(backoff.draw()) => {}
            () = shop.stopping() => {}
        }
    }
}

async fn settled(
    shop: &Shop,
    desk: &Desk,
    outbox: &Outbox,
    report: &Report,
    how: Delivered,
) -> Delivered {
    if let Err(error) = outbox.settle(report) {
        // It is sent again by the next start, and counts once.
        let text = format!("the report's file cannot be removed: {error}");
        shop.say(What::Trouble, &desk.agent, Some(report.number), text)
            .await;
    }
    how
}

async fn send(client: &crate::Client, report: &Report) -> Result<String, Error> {
    let tasks = client.tasks();
    Ok(match &report.body {
        Body::Complete(request) => counted(&tasks.complete(&report.task, request).await?),
        Body::Fail(request) => {
            let answer = tasks.fail(&report.task, request).await?;
            let again = if answer.will_retry {
                "it will be tried again"
            } else {
                "it is not tried again"
            };
            format!("failed: {}; {again}", request.failure.message)
        }
        Body::Release(request) => {
            tasks.release(&report.task, request).await?;
            format!(
                "given back: {}",
                request.reason.as_deref().unwrap_or_default()
            )
        }
    })
}

fn counted(answer: &CompleteResponse) -> String {
    match answer.quality_gate_passed {
        true => "completed".to_owned(),
        false => format!("needs review: {}", answer.next_action),
    }
}

/// What the hub will never take, however often it is asked. That it has it already is as good as an answer.
fn refused(error: &Error) -> Option<Delivered> {
    let Error::Refused {
        status,
        reason,
        message,
        ..
    } = error
    else {
        return None;
    };
    match (status, reason.as_deref()) {
        (409, Some("already_finished")) => {
            Some(Delivered::Counted("was reported before".to_owned()))
        }
        (404, _) if Step::after(error) == Step::RegisterAnew => None,
        (400 | 404 | 409 | 413, _) => Some(Delivered::Refused(message.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, code: &str, reason: Option<&str>) -> Error {
        Error::Refused {
            status,
            code: code.to_owned(),
            message: "no".to_owned(),
            field: None,
            reason: reason.map(str::to_owned),
            retry_after: None,
        }
    }

    #[test]
    fn a_report_is_given_up_only_where_the_hub_will_never_take_it() {
        let no = || Some(Delivered::Refused("no".to_owned()));
        let had = || Some(Delivered::Counted("was reported before".to_owned()));
        let table = [
            (
                refusal(409, "task_already_claimed", Some("already_finished")),
                had(),
            ),
            (
                refusal(409, "task_already_claimed", Some("stale_epoch")),
                no(),
            ),
            (
                refusal(409, "task_already_claimed", Some("task_reassigned")),
                no(),
            ),
            (refusal(404, "task_not_found", None), no()),
            (refusal(400, "invalid_operation", None), no()),
            (refusal(404, "agent_not_registered", None), None),
            (refusal(401, "unauthenticated", None), None),
            (refusal(503, "db_unavailable", None), None),
            (refusal(429, "rate_limited", None), None),
            (
                Error::Unproven {
                    address: String::new(),
                },
                None,
            ),
        ];
        for (error, delivered) in table {
            assert_eq!(refused(&error), delivered, "{error:?}");
        }
    }
}
