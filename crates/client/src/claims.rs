//! Claims.

use switchboard_wire::Query;
use switchboard_wire::jetpack::{ClaimJudgedResponse, ClaimPage, ClaimQuery, ClaimStatusRequest};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// One page of claims.
    pub async fn claims(&self, query: &ClaimQuery) -> Result<ClaimPage, Error> {
        let call = Call::get(&["claims"]).query(query.to_query());
        self.transport.send(call).await
    }

    /// Says whether one holds.
    pub async fn judge_claim(
        &self,
        id: &str,
        request: &ClaimStatusRequest,
    ) -> Result<ClaimJudgedResponse, Error> {
        let call = Call::post(&["claims", id, "status"], request)?;
        self.transport.send(call).await
    }
}
