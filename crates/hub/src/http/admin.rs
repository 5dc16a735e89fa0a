//! Keys of agents and tokens of people. Secrets are derived, shown once, and never kept.

use switchboard_core::TokenId;
use switchboard_core::verb::{CreateToken, RevokeToken, RotateKey};
use switchboard_wire::jetpack::{
    Done, KeyResponse, KeyRevokedResponse, NewTokenRequest, TokenResponse, TokensResponse,
    from_wire, to_wire,
};

use super::Shared;
use super::call::Call;
use super::error::Failure;
use super::reply::{Reply, to_json};
use super::seal::Opened;
use crate::hub::{self, Outcome};

/// What is remembered of an answer with a secret in it: enough to make it again, and no secret.
fn generation_only(generation: &u32) -> Vec<u8> {
    generation.to_string().into_bytes()
}

fn id_only(token: &switchboard_core::token::Token) -> Vec<u8> {
    token.id.as_str().as_bytes().to_vec()
}

pub async fn make_key(app: Shared, call: Call) -> Result<Reply, Failure> {
    let opened = Opened::new(&app, &call).await?;
    let agent = from_wire::agent_id("id", &call.id()?)?;
    let guard = opened.guard(None, "makeKey")?;
    let outcome = app
        .hub
        .call(
            RotateKey {
                agent: agent.clone(),
            },
            guard,
            generation_only,
        )
        .await?;
    app.auth.forget_key(&agent);
    let (generation, replayed) = match outcome {
        Outcome::Fresh(generation) => (generation, false),
        Outcome::Replayed(answer) => (read_generation(&answer)?, true),
    };
    let mut reply = Reply::json(
        201,
        &KeyResponse {
            success: true,
            agent_id: agent.to_string(),
            generation: generation.into(),
            key: app.auth.agent_key(&agent, generation).to_text(),
        },
    );
    reply.replayed = replayed;
    reply.versionless = opened.versionless;
    Ok(reply)
}

fn read_generation(answer: &[u8]) -> Result<u32, Failure> {
    let text = std::str::from_utf8(answer).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or(Failure::Hub(hub::Error::Broken))
}

/// A new generation that nobody is told the key of.
pub async fn revoke_key(app: Shared, call: Call) -> Result<Reply, Failure> {
    let opened = Opened::new(&app, &call).await?;
    let agent = from_wire::agent_id("id", &call.id()?)?;
    let guard = opened.guard(None, "revokeKey")?;
    let reply = opened
        .run(
            RotateKey {
                agent: agent.clone(),
            },
            guard,
            200,
            |generation| {
                to_json(&KeyRevokedResponse {
                    success: true,
                    generation: (*generation).into(),
                })
            },
        )
        .await;
    app.auth.forget_key(&agent);
    reply
}

pub async fn tokens(app: Shared, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let found = app.hub.read(|reader| reader.tokens()).await?;
    let valid = found.iter().filter(|token| app.auth.is_valid(token));
    let tokens = valid.map(|token| to_wire::token(token, None)).collect();
    Ok(Reply::ok(&TokensResponse {
        success: true,
        tokens,
    }))
}

pub async fn make_token(app: Shared, call: Call) -> Result<Reply, Failure> {
    let (opened, request) = Opened::read::<NewTokenRequest>(&app, &call).await?;
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
    let guard = opened.guard(None, "makeToken")?;
    let (token, replayed) = match app.hub.call(verb, guard, id_only).await? {
        Outcome::Fresh(token) => (token, false),
        Outcome::Replayed(answer) => {
            let id = String::from_utf8_lossy(&answer).into_owned();
            let found = app.hub.read(|reader| reader.tokens()).await?;
            let mut valid = found.into_iter().filter(|token| app.auth.is_valid(token));
            let token = valid.find(|token| token.id.as_str() == id);
            (
                token.ok_or(Failure::Hub(hub::Error::Refused(
                    switchboard_core::Refusal::TokenNotFound,
                )))?,
                true,
            )
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
    reply.versionless = opened.versionless;
    Ok(reply)
}

pub async fn revoke_token(app: Shared, call: Call) -> Result<Reply, Failure> {
    let opened = Opened::new(&app, &call).await?;
    let id = TokenId::from(call.id()?.as_ref());
    let guard = opened.guard(None, "revokeToken")?;
    let reply = opened
        .run(RevokeToken { id }, guard, 200, |()| {
            to_json(&Done { success: true })
        })
        .await;
    app.auth.forget_tokens();
    reply
}
