//! Roles.

use switchboard_core::talk::{ROLE_SKILL, Spoken};
use switchboard_core::{self as core};

use crate::jetpack::RoleView;
use crate::squidrun::Role;

/// What the ledger has of a role.
pub struct Known {
    pub agent: Option<core::Agent>,
    /// Who may hold it.
    pub holders: Vec<core::Agent>,
    pub spoken: Option<Spoken>,
    /// A program of the hub's is running in it.
    pub runs: bool,
    pub owed: usize,
}

/// A role in this session.
pub fn role(role: &Role, known: &Known, session: u32) -> RoleView {
    let skill = format!("{ROLE_SKILL}{}", role.id);
    let holds = |agent: &&core::Agent| agent.is_live() && agent.skills.contains(&skill);
    let agent = known.agent.as_ref().filter(|agent| !agent.is_gone());
    let spoken = known.spoken.as_ref();
    let spoken = spoken.filter(|spoken| spoken.session == session);
    let checked_in_at = spoken.and_then(|spoken| spoken.checked_in_at);
    RoleView {
        target: role.id.clone(),
        role: role.title.clone(),
        pane: role.pane.clone(),
        responsibilities: role.responsibilities.clone(),
        aliases: role.aliases.clone(),
        online: known.runs || agent.is_some_and(core::Agent::is_live),
        held_by: known
            .holders
            .iter()
            .filter(holds)
            .map(|agent| agent.id.to_string())
            .collect(),
        checked_in_at: checked_in_at.map(Into::into),
        last_seen: agent.map(|agent| agent.seen_at.into()),
        waiting: known.agent.as_ref().map_or(0, |agent| agent.inbox),
        owed: u32::try_from(known.owed).unwrap_or(u32::MAX),
        unsequenced: spoken.map_or(0, |spoken| spoken.unnumbered),
        empty_acks: spoken.map_or(0, |spoken| spoken.empty_acks),
    }
}
