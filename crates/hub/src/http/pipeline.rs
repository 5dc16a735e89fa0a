//! Raw SQL for libSQL's clients: who may bring it here, and what they are told if it cannot be done.
//!
//! It takes a token of scope sql or sql:steward always, also where nothing else is asked for. The rest is `crate::sql`.

use axum::http::{HeaderValue, header};
use axum::response::Response;
use switchboard_wire::Malformed;
use switchboard_wire::hrana::{CursorRequest, Error, PipelineRequest, Refused, parse};
use switchboard_wire::jetpack::{ErrorBody, ErrorCode};

use super::AppState;
use super::call::Call;
use super::error::Failure;
use super::reply::Reply;
use crate::sql::{Asked, Sql};

/// Lines of JSON.
const LINES: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// `POST /v2/pipeline`, `POST /v3/pipeline`.
pub async fn pipeline(app: AppState, call: Call) -> Result<Reply, Failure> {
    let answered = answer(&app, &call, |body| {
        let request: PipelineRequest = parse(body)?;
        Ok((request.baton, Asked::Pipeline(request.requests)))
    });
    Ok(answered.await.unwrap_or_else(|denied| denied))
}

/// `POST /v3/cursor`.
pub async fn cursor(app: AppState, call: Call) -> Result<Response, Failure> {
    let answered = answer(&app, &call, |body| {
        let request: CursorRequest = parse(body)?;
        Ok((request.baton, Asked::Cursor(request.batch)))
    });
    Ok(match answered.await {
        Ok(reply) => {
            let mut lines = reply.into_response();
            lines.headers_mut().insert(header::CONTENT_TYPE, LINES);
            lines
        }
        Err(denied) => denied.into_response(),
    })
}

/// `GET /v2`, `GET /v3`: how clients ask whether a version is spoken.
pub async fn version(app: AppState, _call: Call) -> Result<Reply, Failure> {
    Ok(match available(&app) {
        Ok(_) => Reply::bytes(200, "{}"),
        Err(denied) => denied,
    })
}

/// The answer, or why the call was not looked at.
async fn answer(
    app: &AppState,
    call: &Call,
    read: impl FnOnce(&[u8]) -> Result<(Option<String>, Asked), Malformed>,
) -> Result<Reply, Reply> {
    let token = app
        .auth
        .sql_token(&app.hub, call.known.as_ref(), &call.headers);
    let (token, right) = token.await.map_err(|failure| refused(&failure.into()))?;
    let sql = available(app)?;
    let (baton, asked) = read(&call.body).map_err(|malformed| refused(&malformed.into()))?;
    let answered = sql.call(&token, right, baton.as_deref(), asked).await;
    answered.map(|body| Reply::bytes(200, body)).map_err(denied)
}

fn available(app: &AppState) -> Result<&Sql, Reply> {
    let not_here = || Reply::json(501, &coded("NOT_AVAILABLE", ErrorCode::NotFound, NOT_HERE));
    app.sql.as_ref().ok_or_else(not_here)
}

fn denied(error: Error) -> Reply {
    let is_busy = matches!(error.code.as_str(), "SQLITE_BUSY" | "STREAM_LIMIT");
    let (status, code) = match is_busy {
        true => (503, ErrorCode::Overloaded),
        false => (400, ErrorCode::InvalidOperation),
    };
    let mut reply = Reply::json(status, &coded(&error.code, code, error.message));
    reply.retry_after = is_busy.then_some(1);
    reply
}

/// A failure in the shape that libSQL's clients read.
pub fn refused(failure: &Failure) -> Reply {
    let (body, retry_after) = failure.answer();
    let mut reply = Reply::json(body.status(), &Refused::from(body));
    reply.retry_after = retry_after;
    reply
}

const NOT_HERE: &str =
    "libSQL over HTTP is not available with PostgreSQL; use psql, see docs/direct-sql.md";

fn coded(code: &str, error: ErrorCode, message: impl Into<String>) -> Refused {
    Refused {
        body: ErrorBody::new(error, message),
        code: code.to_owned(),
    }
}
