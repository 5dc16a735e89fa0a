//! Claims.

use switchboard_core::assertion::Assertion;

use crate::jetpack::{Claim, ClaimJudged, MemoryKind};

pub fn claim(row: &Assertion) -> Claim {
    Claim {
        kind: MemoryKind::Claim,
        id: row.number,
        claim_type: row.kind.into(),
        text: row.text.clone(),
        status: row.status.into(),
        unresolved: row.is_unresolved(),
        by: row.by.to_string(),
        message_id: row.message.to_string(),
        created_at: row.at.into(),
        judged: row.judged.as_ref().map(|judged| ClaimJudged {
            by: judged.by.to_string(),
            why: judged.why.clone(),
            at: judged.at.into(),
        }),
    }
}
