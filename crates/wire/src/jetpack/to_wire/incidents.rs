//! Incidents.

use switchboard_core as core;

use crate::jetpack::{Incident, ResolvedIncident};

pub fn incident(row: &core::Incident) -> Incident {
    Incident {
        id: row.id(),
        kind: row.kind.clone(),
        subject: row.subject.clone(),
        corr_id: row.corr_id.as_ref().map(ToString::to_string),
        message: row.message.clone(),
        count: row.count,
        first_at: row.first_at.into(),
        last_at: row.last_at.into(),
        resolved: row.resolved.as_ref().map(|end| ResolvedIncident {
            by: end.by.clone(),
            why: end.why.clone(),
            at: end.at.into(),
        }),
    }
}
