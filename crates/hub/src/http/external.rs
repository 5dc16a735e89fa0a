//! External agents: invited, admitted with a key of their own, refreshed, sent away.

use std::net::IpAddr;
use std::time::Duration;

use switchboard_core::Refusal;
use switchboard_core::external::{AgentInvite, ExternalSession, used_once};
use switchboard_core::record::{Listed, Place};
use switchboard_core::refusal::Denied;
use switchboard_core::rights::Right;
use switchboard_core::verb::{
    AdmitAgent, InviteAgent, RefreshSession, Refreshed, RevokeSessions, Sessions,
};
use switchboard_core::{Timestamp, limits};
use switchboard_wire::jetpack::from_wire::{agent_id, page_size};
use switchboard_wire::runtime::jose::Called;
use switchboard_wire::runtime::{
    AgentExchangeRequest, AgentRefreshRequest, AgentTokens, Invite, InviteAgentRequest,
    InviteAgentResponse, RevokeSessionsRequest, RevokeSessionsResponse, SessionQuery,
    SessionsResponse, external_to_wire, from_wire, invoke, proof,
};
use switchboard_wire::{Malformed, parse};

use super::audit::Step;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use super::{App, AppState, gate};
use crate::auth::{is_from, proven};
use crate::call::{self, Outcome};
use crate::config::Network;
use crate::hub;
use crate::runtime::node_id;

/// What is remembered of an invite under a key: its id, from which the secret follows.
fn id_only(invite: &AgentInvite) -> Vec<u8> {
    invite.id.as_bytes().to_vec()
}

pub async fn invite(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<InviteAgentRequest>(&app, &call).await?;
    let (agent, scopes, constraints) = invoke::invited(&request)?;
    for origin in &constraints.origins {
        let read = origin.parse::<Network>();
        read.map_err(|why| Malformed::field("constraints.origins", why))?;
    }
    let id = app.ids.fresh("inv");
    let lasts_for = request.ttl_seconds.map(u64::from);
    let verb = InviteAgent {
        hash: app.invite(&id).hash(),
        id,
        agent,
        scopes,
        constraints,
        by: change.caller.name().to_owned(),
        lasts_for: lasts_for.map_or(limits::NODE_INVITE_FOR_MAX, Duration::from_secs),
    };
    let made = app.hub.call(verb, change.guard()?, id_only).await?;
    let (invite, replayed) = match made {
        Outcome::Fresh(invite, _) => (invite, false),
        Outcome::Replayed(answer) => {
            let hash = app.invite(&String::from_utf8_lossy(&answer)).hash();
            let found = app.hub.read(move |reader| reader.private(hash)).await?;
            (found.ok_or_else(|| denied(Denied::UnknownInvite))?, true)
        }
    };
    let answer = InviteAgentResponse {
        invite_token: app.invite(&invite.id).to_string(),
        invite_id: invite.id,
        expires_at: invite.expires_at.into(),
    };
    let mut reply = Reply::json(201, &answer);
    reply.replayed = replayed;
    Ok(reply)
}

pub async fn sessions(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: SessionQuery = call.query()?;
    if let Some(agent) = query.agent_id.as_deref() {
        let agent = agent_id("agentId", agent)?;
        let found = app
            .hub
            .read(move |reader| reader.sessions_of(&agent))
            .await?;
        return Ok(Reply::ok(&SessionsResponse {
            sessions: found.iter().map(external_to_wire::session).collect(),
            next: None,
        }));
    }
    let limit = page_size(query.limit)?;
    let mut range = ExternalSession::range(!query.ended.unwrap_or(false), limit);
    range.after = place(query.after)?;
    let found = app.hub.read(move |reader| reader.records(&range)).await?;
    let next = found.last().filter(|_| found.len() == limit);
    let next = next.and_then(switchboard_core::Record::place);
    let rows = found.iter().filter_map(ExternalSession::of);
    Ok(Reply::ok(&SessionsResponse {
        sessions: rows.map(external_to_wire::session).collect(),
        next: next.map(|place| place.to_string()),
    }))
}

/// Where a page begins.
pub fn place(after: Option<String>) -> Result<Option<Place>, Malformed> {
    let wrong = || Malformed::field("after", "must be the 'next' of the previous page");
    let read = after.map(|text| text.parse::<Place>().map_err(|_| wrong()));
    read.transpose()
}

/// Not kept under a key: to end what has ended changes nothing.
pub async fn revoke(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<RevokeSessionsRequest>(&app, &call).await?;
    change.caller.may(Right::Steer)?;
    let which = match (request.session_id, request.agent_id) {
        (Some(session), None) => Sessions::One(session),
        (None, Some(agent)) => Sessions::Of(agent_id("agentId", &agent)?),
        (Some(_), Some(_)) | (None, None) => {
            let message = "name either sessionId or agentId";
            return Err(Malformed::field("sessionId", message).into());
        }
    };
    let verb = RevokeSessions {
        which,
        by: change.caller.name().to_owned(),
        entry: app.ids.fresh("aud"),
    };
    let revoked = app.hub.run(verb).await?;
    Ok(Reply::ok(&RevokeSessionsResponse {
        revoked: revoked.iter().map(external_to_wire::session).collect(),
    }))
}

pub async fn exchange(app: AppState, call: Call) -> Result<Reply, Failure> {
    let mut step = Step::of("exchange");
    let done = exchanged(&app, &call, &mut step).await;
    app.tell_of(step, done).await
}

async fn exchanged(app: &App, call: &Call, step: &mut Step) -> Result<Reply, Failure> {
    app.is_safe(call)?;
    app.limits.node_auth(call.peer.ip)?;
    let request: AgentExchangeRequest = parse(&call.body)?;
    let agent = agent_id("agentId", &request.agent_id)?;
    step.actor = Some(agent.clone());
    from_wire::nonce(&request.nonce)?;
    let unproven = |why| denied(Denied::Proof(why));
    let key = request.client_pub_key.to_hex();
    let key =
        key.ok_or_else(|| unproven("clientPubKey must be a key of kty OKP and crv Ed25519"))?;
    let signed = proof::agent_exchange(&request.invite_token, &request.agent_id, &request.nonce);
    if !proof::is_signed(&key, &signed, &request.client_proof) {
        return Err(unproven(
            "clientProof is no signature by clientPubKey over ansible-agent-exchange|inviteToken|agentId|nonce",
        ));
    }
    let invite = request.invite_token.parse::<Invite>();
    let invite = invite.map_err(|_| denied(Denied::UnknownInvite))?.hash();
    let wanted = invite.clone();
    let known = app
        .hub
        .read(move |reader| reader.private::<AgentInvite>(wanted));
    if let Some(known) = known.await? {
        is_allowed_from(&known.constraints.origins, call.peer.ip)?;
    }
    let session = app.ids.fresh("ses");
    #[cfg(debug_assertions)]
    let request = AgentExchangeRequest {
        nonce: crate::runtime::broken::once("replay_nonce", &request.nonce),
        ..request
    };
    let admit = AdmitAgent {
        invite,
        agent,
        thumbprint: request.client_pub_key.thumbprint(),
        nonce: request.nonce,
        refresh: app.auth.refresh_token(&session, 0).hash(),
        session,
        lifetimes: app.hub.shared.runtime.lifetimes,
        entry: app.ids.fresh("aud"),
    };
    let session = app.hub.run(admit).await?;
    app.tokens(&session).await
}

pub async fn refresh(app: AppState, call: Call) -> Result<Reply, Failure> {
    let mut step = Step::of("refresh");
    let done = refreshed(&app, &call, &mut step).await;
    app.tell_of(step, done).await
}

async fn refreshed(app: &App, call: &Call, step: &mut Step) -> Result<Reply, Failure> {
    app.is_safe(call)?;
    app.limits.node_auth(call.peer.ip)?;
    let request: AgentRefreshRequest = parse(&call.body)?;
    from_wire::nonce(&request.nonce)?;
    let (thumbprint, proof) = proven(&app.hub, call.proof(), app.called(call)).map_err(denied)?;
    let shown = app.auth.refresh_shown(&request.refresh_token);
    let shown = shown.map_err(denied)?;
    step.session = Some(shown.session.clone());
    let id = shown.session.clone();
    let known = app
        .hub
        .read(move |reader| reader.external_session(&id))
        .await?;
    let known = known.ok_or_else(|| denied(Denied::RefreshToken))?;
    step.actor = Some(known.agent.clone());
    is_allowed_from(&known.constraints.origins, call.peer.ip)?;
    let kept_until = app.hub.time() + limits::ACCESS_FOR_MAX;
    let next = app
        .auth
        .refresh_token(&shown.session, shown.turn.saturating_add(1));
    let verb = RefreshSession {
        turn: shown.turn,
        shown: shown.hash(),
        thumbprint,
        once: vec![proof, used_once(&shown.session, &request.nonce, kept_until)],
        next: next.hash(),
        session: shown.session,
        lifetimes: app.hub.shared.runtime.lifetimes,
        entry: app.ids.fresh("aud"),
    };
    match app.hub.run(verb).await? {
        Refreshed::Goes(session) => app.tokens(&session).await,
        Refreshed::Ended(_) => {
            // The ledger tells of it already.
            step.is_told = true;
            Err(denied(Denied::RefreshToken))
        }
    }
}

pub fn denied(why: Denied) -> Failure {
    hub::Error::Refused(Refusal::Denied(why)).into()
}

pub fn is_allowed_from(origins: &[String], ip: IpAddr) -> Result<(), Failure> {
    match is_from(origins, ip) {
        true => Ok(()),
        false => Err(denied(Denied::Scope(format!(
            "the invite does not allow calls from {ip} (constraints.origins)"
        )))),
    }
}

impl App {
    /// Off this machine tokens travel over TLS, or not at all.
    pub fn is_safe(&self, call: &Call) -> Result<(), Failure> {
        if call.body.len() > limits::EXTERNAL_BODY_BYTES_MAX {
            return Err(call::Failure::TooLargeFromOutside.into());
        }
        match call.peer.tls || call.peer.ip.to_canonical().is_loopback() {
            true => Ok(()),
            false => Err(call::Failure::Forbidden(
                "external agents call from other machines over TLS only; see [http] tls",
            )
            .into()),
        }
    }

    /// What a proof must be for.
    pub fn called<'a>(&self, call: &'a Call) -> Called<'a> {
        Called {
            method: call.method.as_str(),
            host: gate::called_by(&call.headers, &call.uri),
            path: call.uri.path(),
            tls: call.peer.tls,
            token: None,
        }
    }

    /// What a session is given at each turn.
    async fn tokens(&self, session: &ExternalSession) -> Result<Reply, Failure> {
        let own = node_id(&self.hub).await?;
        let (jti, now) = (self.ids.fresh("at"), self.hub.time());
        let refresh = self.auth.refresh_token(&session.id, session.turn);
        let seconds = |at: Timestamp| Timestamp(at.0.div_euclid(1000) * 1000);
        Ok(Reply::ok(&AgentTokens {
            access_token: self.auth.access_token(session, jti, own.as_str(), now)?,
            access_expires_at: seconds(session.access_until).into(),
            refresh_token: refresh.to_string(),
            refresh_expires_at: session.refresh_until.into(),
            session_id: session.id.clone(),
            granted_scopes: external_to_wire::scopes(&session.scopes),
        }))
    }
}

impl Call {
    /// The proof beside a call, if there is exactly one.
    pub fn proof(&self) -> Option<&str> {
        let mut given = self.headers.get_all("dpop").iter();
        match (given.next(), given.next()) {
            (Some(proof), None) => proof.to_str().ok(),
            (_, _) => None,
        }
    }
}
