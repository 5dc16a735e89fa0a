//! The hub at a glance, and what machines ask it: alive, ready, figures, the description of all this.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use serde_json::json;
use switchboard_core::record::Kind;
use switchboard_core::rights::Right;
use switchboard_core::verb::Serve;
use switchboard_core::{Director, Head, Incident, limits};
use switchboard_wire::jetpack::{
    AgentCounts, EventRange, IdempotencyUse, MessageCounts, ProofQuery, ProofResponse, QueueUse,
    StatusResponse, from_wire, to_wire,
};
use switchboard_wire::openapi::{Served, document};

use super::call::Call;
use super::error::Failure;
use super::reply::Reply;
use super::{App, AppState, gate};
use crate::call;
use crate::hub::Error;
use crate::metrics::Ledger;

/// A ledger that does not answer within this is not ready.
const READY_WITHIN: Duration = Duration::from_secs(5);

pub async fn status(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let (head, agents, oldest, baseline, told, incidents, warnings) = app
        .hub
        .read(|reader| {
            Ok((
                reader.head()?,
                reader.agent_counts()?,
                reader.oldest_event()?,
                reader.baseline()?,
                reader.private::<Director>("")?,
                reader.records(&Incident::range(false, limits::INCIDENTS_OPEN_MAX))?,
                reader.warnings(),
            ))
        })
        .await?;
    let stats = app.hub.stats();
    let hold = told.and_then(|told| told.hold(app.hub.time()));
    Ok(Reply::ok(&StatusResponse {
        success: true,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: app.started_at,
        now: app.hub.time().into(),
        clock_ahead_ms: app.hub.wall_ahead_ms(),
        store: app.store.to_owned(),
        tasks: to_wire::task_counts(&head),
        agents: AgentCounts {
            idle: agents.idle,
            busy: agents.busy,
            error: agents.error,
            offline: agents.offline,
            shutting_down: agents.shutting_down,
        },
        leases: head.leases,
        messages: MessageCounts {
            queued: head.queued_deliveries,
        },
        events: EventRange {
            latest: head.seq,
            oldest: oldest.unwrap_or(head.seq),
        },
        idempotency: IdempotencyUse {
            rows: head.idempotency_rows,
            bytes: head.idempotency_bytes,
            window_hours: window_hours(&head),
        },
        queue: QueueUse {
            waiting: stats.waiting as u64,
            capacity: stats.capacity as u64,
        },
        baseline: baseline.as_ref().map(to_wire::baseline),
        incidents: incidents.len() as u64,
        paused: hold.as_ref().map(to_wire::paused),
        warnings,
    }))
}

/// Past its bound the memory of keys reaches back less far.
fn window_hours(head: &Head) -> f64 {
    let over = head.idempotency_rows > limits::IDEMPOTENCY_ROWS_MAX
        || head.idempotency_bytes > limits::IDEMPOTENCY_BYTES_MAX;
    let window = if over {
        limits::IDEMPOTENCY_FOR_MIN
    } else {
        limits::IDEMPOTENCY_FOR
    };
    window.as_secs_f64() / 3600.0
}

pub async fn healthz(_app: AppState, _call: Call) -> Result<Response, Failure> {
    Ok(text("text/plain; charset=utf-8", "ok\n"))
}

/// Reads the ledger; an answer from memory would prove nothing. Where writing failed last, it also writes.
///
/// That it is not ready is for anybody to hear, why it is not only for those who may read.
pub async fn readyz(app: AppState, call: Call) -> Result<Response, Failure> {
    let is_usable = async {
        if !app.is_announced.load(Ordering::Acquire) {
            return Err(Error::Unavailable(
                "the hub is starting or stopping".to_owned(),
            ));
        }
        let waits = app.hub.commit_waits();
        if waits >= limits::COMMIT_WAITS_MAX {
            let seconds = waits.as_secs();
            return Err(Error::Unavailable(format!(
                "a commit has been running for {seconds} s; check whether the disk is slow or a synchronous standby is down"
            )));
        }
        let look = app
            .hub
            .read(|ledger| ledger.is_ready().and_then(|()| ledger.head()));
        look.await?;
        if app.hub.trouble().is_some() {
            app.hub.run(Serve { starting: false }).await?;
        }
        Ok::<(), Error>(())
    };
    let late = || Error::Unavailable(format!("it did not answer within {READY_WITHIN:?}"));
    let usable = tokio::time::timeout(READY_WITHIN, is_usable).await;
    let Err(why) = usable.unwrap_or_else(|_| Err(late())) else {
        return Ok(text("text/plain; charset=utf-8", "ready\n"));
    };
    let why = match may_know(&app, &call).await.is_ok() {
        true => why,
        false => Error::Unavailable("send a token to see the reason".to_owned()),
    };
    Err(why.into())
}

/// Whether somebody may see figures and reasons. While the ledger cannot be asked, whoever it knew a while ago may.
async fn may_know(app: &App, call: &Call) -> Result<(), Failure> {
    if app.metrics_are_public {
        return Ok(());
    }
    let known = match tokio::time::timeout(READY_WITHIN, app.reader(call)).await {
        Ok(known) => known,
        Err(_) => Err(Error::Unavailable("it did not answer in time".to_owned()).into()),
    };
    match known {
        Ok(caller) => Ok(caller.may(Right::Read)?),
        Err(Failure::Call(call::Failure::Hub(error))) if error.may_pass() => {
            let remembered = app.auth.remembered(&call.headers);
            Ok(remembered.ok_or(error)?.may(Right::Read)?)
        }
        Err(failure) => Err(failure),
    }
}

/// Shows who called that this hub has the master key, before a token is sent to it. Anybody may ask.
pub async fn proof(app: AppState, call: Call) -> Result<Reply, Failure> {
    let nonce = from_wire::proof_nonce(call.query::<ProofQuery>()?)?;
    let proof = app.auth.proof(&nonce, call.peer.local);
    Ok(Reply::ok(&ProofResponse {
        success: true,
        proof,
    }))
}

pub async fn metrics(app: AppState, call: Call) -> Result<Response, Failure> {
    may_know(&app, &call).await?;
    let read = app.hub.read(|reader| {
        Ok(Ledger {
            head: reader.head()?,
            agents: reader.agent_counts()?,
            jobs: reader.record_counts(Kind::Job)?,
        })
    });
    // While the ledger is away the figures of this process are all the more of use.
    let ledger = match tokio::time::timeout(READY_WITHIN, read).await {
        Ok(Ok(figures)) => Some(figures),
        Ok(Err(error)) if error.may_pass() => None,
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => None,
    };
    let figures = app.metrics.print(ledger, app.hub.stats(), app.room.taken());
    Ok(text(
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
        figures,
    ))
}

/// Made once; where the hub was called is put in each time.
pub async fn openapi(app: AppState, call: Call) -> Result<Reply, Failure> {
    let hub = Served {
        is_open: !app.auth.is_asked_for(),
        ..Served::DEFAULT
    };
    let document = app.openapi.get_or_init(|| document(hub).to_string());
    let scheme = match call.peer.tls {
        true => "https",
        false => "http",
    };
    let url = format!("{scheme}://{}", gate::called_by(&call.headers, &call.uri));
    let [from, to] = [hub.url, &url].map(|url| json!(url).to_string());
    Ok(Reply::bytes(200, document.replacen(&from, &to, 1)))
}

fn text(kind: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::extract::Request;
    use switchboard_store::SystemClock;
    use switchboard_store::memory::MemoryEngine;
    use switchboard_wire::IsoTime;
    use switchboard_wire::signature::MasterKey;

    use super::*;
    use crate::auth::Auth;
    use crate::config::{AuthMode, Config};
    use crate::hub::{Hub, HubConfig};

    #[tokio::test]
    async fn a_hub_is_ready_only_once_it_can_be_found() {
        let home = tempfile::tempdir().unwrap();
        let config = Config::for_project(home.path().to_owned());
        let engine = MemoryEngine::new(Box::new(SystemClock::new()));
        let hub = Hub::start(Box::new(engine), HubConfig::default());
        let hub = hub.await.unwrap();
        let auth = Auth::new(AuthMode::None, MasterKey::new([7; 32]));
        let calls = Arc::new(call::Calls::new(&config, hub, auth));
        let app = Arc::new(App::new(&config, calls, IsoTime(0), "memory", None));
        for is_announced in [false, true, false] {
            app.is_announced.store(is_announced, Ordering::Release);
            let request = Request::builder().uri("/readyz").body(Body::empty());
            let call = Call::receive(&app, request.unwrap(), "readyz", None).await;
            let answer = readyz(Arc::clone(&app), call.unwrap()).await;
            assert_eq!(answer.is_ok(), is_announced);
        }
    }
}
