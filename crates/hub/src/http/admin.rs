//! Keys of agents and tokens of people. Secrets are derived, shown once, and never kept.

use switchboard_core::TokenId;
use switchboard_core::verb::{CreateToken, RevokeToken, RotateKey};
use switchboard_wire::jetpack::{
    Done, KeyResponse, KeyRevokedResponse, NewTokenRequest, TokenResponse, TokensResponse,
    from_wire, to_wire,
};

use super::AppState;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use crate::call::{Outcome, to_json};
use crate::hub;

/// What is remembered of an answer with a secret in it: enough to make it again, and no secret.
fn generation_only(generation: &u32) -> Vec<u8> {
    generation.to_string().into_bytes()
}

fn id_only(token: &switchboard_core::token::Token) -> Vec<u8> {
    token.id.as_str().as_bytes().to_vec()
}

pub async fn make_key(app: AppState, call: Call) -> Result<Reply, Failure> {
    let change = Change::new(&app, &call).await?;
    let agent = from_wire::agent_id("id", &call.id()?)?;
    let rotate = RotateKey {
        agent: agent.clone(),
    };
    let kept = app.run(rotate, change.guard()?, generation_only).await?;
    app.auth.forget_key(&agent);
    let generation = read_generation(&kept.body)?;
    let mut reply = Reply::json(
        201,
        &KeyResponse {
            success: true,
            agent_id: agent.to_string(),
            generation: generation.into(),
            key: app.auth.agent_key(&agent, generation).to_text(),
        },
    );
    reply.replayed = kept.replayed;
    reply.versionless = change.versionless;
    Ok(reply)
}

fn read_generation(answer: &[u8]) -> Result<u32, Failure> {
    let text = std::str::from_utf8(answer).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or(hub::Error::Broken.into())
}

/// A new generation that nobody is told the key of.
pub async fn revoke_key(app: AppState, call: Call) -> Result<Reply, Failure> {
    let change = Change::new(&app, &call).await?;
    let agent = from_wire::agent_id("id", &call.id()?)?;
    let rotate = RotateKey {
        agent: agent.clone(),
    };
    let revoked = |generation: &u32| {
        to_json(&KeyRevokedResponse {
            success: true,
            generation: (*generation).into(),
        })
    };
    let reply = change.run(rotate, 200, revoked).await;
    app.auth.forget_key(&agent);
    reply
}

pub async fn tokens(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let found = app.hub.read(|reader| reader.tokens()).await?;
    let valid = found.iter().filter(|token| app.auth.is_valid(token));
    let tokens = valid.map(|token| to_wire::token(token, None)).collect();
    Ok(Reply::ok(&TokensResponse {
        success: true,
        tokens,
    }))
}

pub async fn make_token(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<NewTokenRequest>(&app, &call).await?;
    from_wire::token_name(&request.name)?;
    let agent = request.agent_id.as_deref();
    let agent = agent.map(|agent| from_wire::agent_id("agentId", agent));
    let id = TokenId::from(app.ids.fresh("tok"));
    let hash = crate::auth::token_hash(app.auth.token_secret(&id));
    let verb = CreateToken {
        id,
        name: request.name,
        scope: request.scope.into(),
        agent: agent.transpose()?,
        hash,
    };
    let made = app.hub.call(verb, change.guard()?, id_only).await?;
    let (token, replayed) = match made {
        Outcome::Fresh(token, _) => (token, false),
        Outcome::Replayed(answer) => {
            let id = String::from_utf8_lossy(&answer).into_owned();
            let found = app.hub.read(|reader| reader.tokens()).await?;
            let mut valid = found.into_iter().filter(|token| app.auth.is_valid(token));
            let token = valid.find(|token| token.id.as_str() == id);
            let missing = hub::Error::Refused(switchboard_core::Refusal::TokenNotFound);
            (token.ok_or(missing)?, true)
        }
    };
    let secret = app.auth.token_secret(&token.id);
    let token = to_wire::token(&token, Some(secret));
    let mut reply = Reply::json(
        201,
        &TokenResponse {
            success: true,
            token,
        },
    );
    reply.replayed = replayed;
    reply.versionless = change.versionless;
    Ok(reply)
}

pub async fn revoke_token(app: AppState, call: Call) -> Result<Reply, Failure> {
    let change = Change::new(&app, &call).await?;
    let id = TokenId::from(call.id()?.as_ref());
    let done = |(): &()| to_json(&Done { success: true });
    let reply = change.run(RevokeToken { id }, 200, done).await;
    app.auth.forget_tokens();
    reply
}
