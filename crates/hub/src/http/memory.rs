//! What agents learned, what engrams tell and what was claimed, found by its words.

use switchboard_core::limits;
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::{LearningsResponse, MemoryQuery, from_wire, to_wire};

use super::AppState;
use super::call::Call;
use super::error::Failure;
use super::reply::Reply;

/// Engrams of one answer: each is much longer than a learning.
const ENGRAMS_MAX: usize = 20;

pub async fn search(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: MemoryQuery = call.query()?;
    let words = query
        .q
        .filter(|words| !words.trim().is_empty())
        .ok_or_else(|| Malformed::missing("q"))?;
    if words.len() > limits::TITLE_BYTES_MAX {
        return Err(Malformed::field(
            "q",
            format!("is longer than {} bytes", limits::TITLE_BYTES_MAX),
        )
        .into());
    }
    if words.contains('\0') {
        return Err(Malformed::field("q", "must not contain a NUL character").into());
    }
    let limit = from_wire::page_size(query.limit)?;
    let found = app.hub.read(move |ledger| {
        let learnings = ledger.learnings(&words, limit)?;
        let engrams = ledger.engrams_with(&words, limit.min(ENGRAMS_MAX))?;
        let engrams = engrams.iter();
        let engrams = engrams.map(|engram| to_wire::engram_found(engram, &words));
        let claims = ledger.assertions_with(&words, limit)?;
        Ok((learnings, engrams.collect(), claims))
    });
    let (learnings, engrams, claims) = found.await?;
    Ok(Reply::ok(&LearningsResponse {
        success: true,
        learnings: learnings.iter().map(to_wire::learning).collect(),
        engrams,
        claims: claims.iter().map(to_wire::claim).collect(),
    }))
}
