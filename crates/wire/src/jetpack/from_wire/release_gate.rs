//! The gate before a restart.

use switchboard_core::{limits, verb};

use super::check::{agent_id, filled, maybe_text};
use crate::Malformed;
use crate::jetpack::{OpenGateRequest, SignGateRequest};

/// `POST /gate/open`.
pub fn open_gate(request: OpenGateRequest, by: String) -> Result<verb::OpenGate, Malformed> {
    filled("commit", &request.commit, limits::NAME_BYTES_MAX)?;
    let commit = request.commit;
    Ok(verb::OpenGate { commit, by })
}

/// `POST /gate/sign`.
pub fn sign_gate(request: SignGateRequest) -> Result<verb::SignGate, Malformed> {
    filled("commit", &request.commit, limits::NAME_BYTES_MAX)?;
    maybe_text("note", request.note.as_ref(), limits::NOTE_BYTES_MAX)?;
    Ok(verb::SignGate {
        step: request.step.into(),
        by: agent_id("agentId", &request.agent_id)?,
        commit: request.commit,
        note: request.note.unwrap_or_default(),
    })
}
