//! What an external agent does: the token says who it is, the operation which call of this interface it makes.

use std::str::FromStr as _;

use axum::http::{Method, Uri};
use switchboard_core::external::{allows, used_once};
use switchboard_core::refusal::Denied;
use switchboard_core::{AgentId, CorrId, Pass, limits};
use switchboard_wire::runtime::external_to_wire;
use switchboard_wire::runtime::invoke::{Asks, Invocation, Operation, about, check_scopes};
use switchboard_wire::runtime::{
    ContextTokenRequest, ContextTokenResponse, InvokeRequest, InvokeResponse, from_wire,
};
use switchboard_wire::{Json, Malformed, parse};

use super::audit::Step;
use super::call::Call;
use super::error::Failure;
use super::external::{denied, is_allowed_from};
use super::operation::protocol;
use super::reply::Reply;
use super::{App, AppState, agents, messages, outbox, status, tasks};
use crate::auth::{Caller, Shown};
use crate::call::{self, Guard, Nothing};
use crate::runtime::{encoded, node_id};

pub async fn invoke(app: AppState, call: Call) -> Result<Reply, Failure> {
    let mut step = Step::of("invoke");
    let done = invoked(&app, &call, &mut step).await;
    app.tell_of(step, done).await
}

async fn invoked(app: &AppState, call: &Call, step: &mut Step) -> Result<Reply, Failure> {
    let shown = app.shown(call, step).await?;
    let request: InvokeRequest = parse(&call.body)?;
    from_wire::nonce(&request.nonce)?;
    (step.corr_id, step.task) = about(&request);
    let operation = Operation::from_str(&request.operation).map_err(|_| {
        let known = Operation::WORDS.join(", ");
        denied(Denied::Scope(format!(
            "there is no such operation; there are {known}"
        )))
    })?;
    step.operation = operation.as_str();
    let scope = operation.scope();
    step.scope = Some(scope);
    let granted = shown.claims.scopes();
    allows(&granted, scope, operation.as_str()).map_err(denied)?;
    let agent = AgentId::from(shown.claims.sub.as_str());
    let context = context(&shown, request.context_id.as_deref())?;
    let invocation = operation.read(&request.args, &agent, context.as_ref())?;
    step.corr_id = invocation.corr_id.clone().or_else(|| context.clone());
    step.task = invocation.task.clone();
    let bound = shown.claims.ctx.is_some();
    if bound && !operation.is_in_context(&invocation) {
        let operation = operation.as_str();
        return Err(denied(Denied::Scope(format!(
            "a token for one context does not open {operation}, or not without args.taskId"
        ))));
    }
    #[cfg(debug_assertions)]
    let request = InvokeRequest {
        nonce: crate::runtime::broken::once("replay_nonce", &request.nonce),
        ..request
    };
    let once = used_once(&shown.claims.session_id, &request.nonce, shown.expires_at());
    let pass = Pass {
        agent,
        granted,
        scope: Some(scope),
        operation: operation.as_str().to_owned(),
        once: vec![shown.proof.clone(), once],
        context: context.filter(|_| bound),
        task: invocation.task.clone(),
        corr_id: step.corr_id.clone(),
        ..pass(&shown, app.ids.fresh("aud"))
    };
    let reply = act(app, call, invocation, pass).await.map_err(ended)?;
    let result = String::from_utf8_lossy(&reply.body).into_owned();
    let answer = InvokeResponse {
        success: true,
        operation: operation.to_string(),
        session_id: shown.claims.session_id,
        result: Json::stored(&result),
    };
    Ok(Reply {
        replayed: reply.replayed,
        ..Reply::ok(&answer)
    })
}

/// A session that ended while the call waited is told as one that had ended before.
fn ended(failure: Failure) -> Failure {
    match failure {
        Failure::Call(call::Failure::Unauthenticated(_)) => denied(Denied::AccessToken),
        other => other,
    }
}

/// What every use of a token has in common.
fn pass(shown: &Shown, entry: String) -> Pass {
    Pass {
        session: shown.claims.session_id.clone(),
        agent: AgentId::from(shown.claims.sub.as_str()),
        thumbprint: shown.claims.cnf.jkt.clone(),
        granted: Vec::new(),
        scope: None,
        operation: String::new(),
        expires_at: shown.expires_at(),
        once: vec![shown.proof.clone()],
        context: None,
        task: None,
        corr_id: None,
        entry,
    }
}

/// The context of a call: the token's own, or whichever it names.
fn context(shown: &Shown, named: Option<&str>) -> Result<Option<CorrId>, Failure> {
    let named = named.map(|id| from_wire::context_id("contextId", id));
    let named = named.transpose()?;
    match &shown.claims.ctx {
        Some(own) if named.as_ref().is_none_or(|id| id.as_str() != own) => {
            let why = format!("this token is for context {own}, and contextId must say so");
            Err(denied(Denied::Scope(why)))
        }
        Some(_) | None => Ok(named),
    }
}

/// Makes the call as the agent; what it changes commits together with the pass.
async fn act(
    app: &AppState,
    call: &Call,
    invocation: Invocation,
    pass: Pass,
) -> Result<Reply, Failure> {
    let id = invocation.id.as_deref().map(encoded).unwrap_or_default();
    let caller = Caller::external(pass);
    let get = |path: String| (Method::GET, path);
    let (method, path) = match invocation.asks {
        Asks::Protocol => (Method::POST, "/api/v1/protocol".to_owned()),
        Asks::Publish => (Method::POST, "/runtime/v1/events".to_owned()),
        Asks::Acknowledge => (Method::POST, format!("/api/v1/messages/{id}/ack")),
        Asks::ShowTask => get(format!("/api/v1/tasks/{id}")),
        Asks::ListTasks => get("/api/v1/tasks".to_owned()),
        Asks::Status => get("/api/v1/status".to_owned()),
        Asks::ListAgents => get("/api/v1/agents".to_owned()),
    };
    let caller = match method == Method::GET {
        // Nothing changes: the token is used up first.
        true => app.used(caller).await?,
        false => caller,
    };
    let uri = match invocation.query.as_str() {
        "" => path,
        query => format!("{path}?{query}"),
    };
    let uri = Uri::from_str(&uri).map_err(|_| Malformed::field("args", "cannot be asked for"))?;
    let inner = call.within(method, uri, invocation.body.into(), caller);
    let app = AppState::clone(app);
    match invocation.asks {
        Asks::Protocol => protocol(app, inner).await,
        Asks::Publish => outbox::publish(app, inner).await,
        Asks::Acknowledge => messages::acknowledge(app, inner).await,
        Asks::ShowTask => tasks::show(app, inner).await,
        Asks::ListTasks => tasks::list(app, inner).await,
        Asks::Status => status::status(app, inner).await,
        Asks::ListAgents => agents::list(app, inner).await,
    }
}

pub async fn context_token(app: AppState, call: Call) -> Result<Reply, Failure> {
    let mut step = Step::of("context_token");
    let done = narrowed(&app, &call, &mut step).await;
    app.tell_of(step, done).await
}

async fn narrowed(app: &App, call: &Call, step: &mut Step) -> Result<Reply, Failure> {
    app.limits.node_auth(call.peer.ip)?;
    let shown = app.shown(call, step).await?;
    let request: ContextTokenRequest = parse(&call.body)?;
    let context = from_wire::context_id("contextId", &request.context_id)?;
    let lasts_for = from_wire::context_for(request.ttl_seconds)?;
    check_scopes(&request.scopes)?;
    let granted = shown.claims.scopes();
    for scope in &request.scopes {
        allows(&granted, (*scope).into(), step.operation).map_err(denied)?;
    }
    if shown.claims.ctx.is_some() {
        let why = "a token for one context makes no others".to_owned();
        return Err(denied(Denied::Scope(why)));
    }
    step.corr_id = Some(context.clone());
    let pass = Pass {
        operation: step.operation.to_owned(),
        corr_id: step.corr_id.clone(),
        ..pass(&shown, app.ids.fresh("aud"))
    };
    app.used(Caller::external(pass)).await?;
    let now = app.hub.time();
    let until = (now + lasts_for).min(shown.expires_at());
    let mut claims = shown.claims;
    let words = request.scopes.iter().map(|scope| scope.as_str());
    claims.scope = words.collect::<Vec<_>>().join(" ");
    claims.ctx = Some(context.to_string());
    claims.jti = app.ids.fresh("ct");
    claims.iat = now.0.div_euclid(1000);
    claims.exp = until.0.div_euclid(1000);
    Ok(Reply::ok(&ContextTokenResponse {
        context_token: app.auth.sealed(&claims)?,
        expires_at: switchboard_core::Timestamp(claims.exp * 1000).into(),
        granted_scopes: external_to_wire::scopes(&claims.scopes()),
    }))
}

impl App {
    /// Whose token a call shows, with the proof of its key.
    async fn shown(&self, call: &Call, step: &mut Step) -> Result<Shown, Failure> {
        self.is_safe(call)?;
        let own = node_id(&self.hub).await?;
        let given = call.header("authorization");
        let opened = self
            .auth
            .opened(&self.hub, own.as_str(), given)
            .map_err(denied)?;
        // From here on it is known whose token it is, whoever shows it.
        step.actor = Some(AgentId::from(opened.0.sub.as_str()));
        step.session = Some(opened.0.session_id.clone());
        let shown = Shown::by(&self.hub, opened, call.proof(), self.called(call));
        let shown = shown.map_err(denied)?;
        is_allowed_from(&shown.claims.org, call.peer.ip)?;
        Ok(shown)
    }

    /// Uses the token up for something that changes nothing.
    async fn used(&self, mut caller: Caller) -> Result<Caller, Failure> {
        let guard = Guard {
            pass: caller.pass.take(),
            ..Guard::default()
        };
        let nothing = Nothing { keeps_guard: true };
        self.hub.call(nothing, guard, |()| Vec::new()).await?;
        Ok(caller)
    }
}

/// Bodies of these calls are smaller than of others.
const _: () = assert!(limits::EXTERNAL_BODY_BYTES_MAX < limits::BODY_BYTES_MAX);
