//! The gate before a restart.

use switchboard_core as core;

use crate::jetpack::{GateResponse, GateSignOff, ReleaseGate};

pub fn release_gate(row: Option<&core::release_gate::ReleaseGate>) -> GateResponse {
    let gate = row.map(|row| ReleaseGate {
        commit: row.commit.clone(),
        opened_by: row.by.clone(),
        opened_at: row.at.into(),
        signed: row.signed.iter().map(sign_off).collect(),
        next: row.next().map(Into::into),
        next_by: row.next().map(|step| step.role().to_owned()),
    });
    GateResponse {
        success: true,
        gate,
    }
}

fn sign_off(signed: &core::release_gate::SignOff) -> GateSignOff {
    GateSignOff {
        step: signed.step.into(),
        by: signed.by.clone(),
        at: signed.at.into(),
        note: signed.note.clone(),
    }
}
