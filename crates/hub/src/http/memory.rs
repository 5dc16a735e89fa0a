//! What agents learned, found by its words.

use switchboard_core::limits;
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::{LearningsResponse, MemoryQuery, from_wire, to_wire};

use super::Shared;
use super::call::Call;
use super::error::Failure;
use super::reply::Reply;

pub async fn search(app: Shared, call: Call) -> Result<Reply, Failure> {
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
    let limit = from_wire::page_size(query.limit)?;
    let found = app
        .hub
        .read(move |reader| reader.learnings(&words, limit))
        .await?;
    let learnings = found.iter().map(to_wire::learning).collect();
    Ok(Reply::ok(&LearningsResponse {
        success: true,
        learnings,
    }))
}
