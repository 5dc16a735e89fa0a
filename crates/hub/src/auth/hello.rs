//! Who says hello on the bus: the signature of an agent's key or of a token, good once and for a short while.

use switchboard_core::rights::Right;
use switchboard_core::{AgentId, Refusal};
use switchboard_wire::agentbus::Role;
use switchboard_wire::agentbus::message::HelloAuth;
use switchboard_wire::signature::{AgentKey, from_hex};

use super::{Auth, Caller, is_timely, nonce, said_at, token};
use crate::call::Failure;
use crate::config::AuthMode;
use crate::hub::{self, Hub};

impl Auth {
    /// Who sent this hello, and whether it may be what it says.
    pub async fn hello(
        &self,
        hub: &Hub,
        (role, id): (Role, &str),
        given: Option<&HelloAuth>,
    ) -> Result<Caller, Failure> {
        match self.mode {
            AuthMode::None => return Ok(Caller::steward()),
            AuthMode::Hmac => {}
        }
        let given = given.ok_or_else(|| Failure::Unauthenticated(how_to_sign(role)))?;
        let said = said_at(&given.timestamp)?;
        is_timely(said, hub.wall())?;
        let agent = AgentId::from(id);
        let (found, whose) = match &given.token_sha256 {
            Some(hash) => (self.token_signer(hub, hash).await?, "a valid token"),
            None => (self.key_signer(hub, &agent).await?, "this agent's key"),
        };
        let signer = found.filter(|(_, key)| given.is_of(key, role, id));
        let (mut caller, _) = signer.ok_or_else(|| {
            let how = how_to_sign(role);
            Failure::Unauthenticated(format!("the hello is not signed with {whose}; {how}"))
        })?;
        match role {
            Role::Worker => caller.may_act_as(&agent)?,
            Role::Operator | Role::Director => caller.may(Right::Operate)?,
        }
        let nonce = nonce(hub, agent, &given.signature, said);
        if self.replays.lock().first_time(&nonce, hub.time()).is_none() {
            return Err(Failure::Hub(hub::Error::Refused(Refusal::Replayed)));
        }
        caller.nonce = Some(nonce);
        Ok(caller)
    }

    async fn key_signer(
        &self,
        hub: &Hub,
        agent: &AgentId,
    ) -> Result<Option<(Caller, AgentKey)>, hub::Error> {
        let key = self.key_in_ledger(hub, agent).await?;
        Ok(key.map(|key| (Caller::key(agent.clone(), key.clone()), key)))
    }

    /// The token of this hash. What it signs with follows from the master key: of a ledger that leaks, nobody can sign.
    async fn token_signer(
        &self,
        hub: &Hub,
        hash: &str,
    ) -> Result<Option<(Caller, AgentKey)>, hub::Error> {
        let hash: Option<[u8; 32]> = from_hex(hash).and_then(|hash| hash.try_into().ok());
        let Some(hash) = hash else { return Ok(None) };
        if self.tokens.lock().is_stewards(&hash) {
            let key = AgentKey::of_token(&self.master.read().steward_token());
            return Ok(key.map(|key| (Caller::local_steward(hash), key)));
        }
        let found = self.token_in_ledger(hub, hash).await?;
        Ok(found.map(|found| {
            let key = token::key(&self.master.read(), &found.id);
            (Caller::bearer(&found), key)
        }))
    }
}

fn how_to_sign(role: Role) -> String {
    let make = match role {
        Role::Worker => {
            "create a key with 'switchboard agent add <id>', or a token with 'switchboard token create --scope agent --agent <id>'"
        }
        Role::Operator | Role::Director => {
            "create a token with 'switchboard token create --scope operator'"
        }
    };
    format!(
        "this hub requires authentication: {make}, and sign the hello with it (payload.auth, see docs/agentbus.md)"
    )
}
