//! Quality: the baseline and what was measured.

use switchboard_wire::Query;
use switchboard_wire::jetpack::{BaselineRequest, BaselineResponse, SnapshotPage, SnapshotQuery};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Calls about quality.
#[derive(Debug, Clone, Copy)]
pub struct Quality<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about quality.
    pub fn quality(&self) -> Quality<'_> {
        Quality { client: self }
    }
}

impl Quality<'_> {
    /// The baseline in force, if there is one.
    pub async fn baseline(self) -> Result<BaselineResponse, Error> {
        self.client
            .transport
            .send(Call::get(&["quality", "baseline"]))
            .await
    }

    /// Sets the baseline, by figures or from a task.
    pub async fn set_baseline(self, request: &BaselineRequest) -> Result<BaselineResponse, Error> {
        self.client
            .transport
            .send(Call::put(&["quality", "baseline"], request)?)
            .await
    }

    /// One page of snapshots, newest first.
    pub async fn history(self, query: &SnapshotQuery) -> Result<SnapshotPage, Error> {
        self.client
            .transport
            .send(Call::get(&["quality", "history"]).query(query.to_query()))
            .await
    }
}
