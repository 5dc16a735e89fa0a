//! Whom a connection may speak for, where that is asked.

use switchboard_core::AgentId;

use super::state::Broker;
use crate::auth::{Beside, Vigil};
use crate::call::Failure;

/// What was shown in place of the header of HTTP.
struct Bearer<'a>(&'a [u8]);

impl Beside for Bearer<'_> {
    fn named(&self, name: &str) -> Option<&[u8]> {
        (name == "authorization").then_some(self.0)
    }
}

const HOW: &str = "this hub requires authentication: create a token with 'switchboard token create <name> --scope agent --agent <role>', and send it in the handshake as Authorization: Bearer, or as token in register";

/// Whether a connection that shows this may speak as `role`, and what keeps watch over it.
pub(super) async fn prove(
    broker: &Broker,
    shown: Option<&[u8]>,
    role: &AgentId,
) -> Result<Option<Vigil>, String> {
    if !broker.auth.is_asked_for() {
        return Ok(None);
    }
    let said = |failure: Failure| failure.answer().0.message;
    let vigil = broker.auth.begin_vigil(&broker.hub);
    let shown = Bearer(shown.ok_or(HOW)?);
    let known = broker.auth.by_header(&broker.hub, &shown).await;
    let caller = known.map_err(said)?.ok_or(HOW)?;
    caller.may_act_as(role).map_err(said)?;
    Ok(vigil(&caller))
}
