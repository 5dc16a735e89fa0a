//! Memory: what agents learned.

use switchboard_wire::Query;
use switchboard_wire::jetpack::{LearningsResponse, MemoryQuery};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Calls about memory.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about memory.
    pub fn memory(&self) -> Memory<'_> {
        Memory { client: self }
    }
}

impl Memory<'_> {
    /// Full-text search, best first.
    pub async fn search(self, query: &MemoryQuery) -> Result<LearningsResponse, Error> {
        self.client
            .transport
            .send(Call::get(&["memory", "search"]).query(query.to_query()))
            .await
    }
}
