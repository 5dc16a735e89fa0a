//! Capabilities, and the reviews of those whose tasks went wrong.

use serde_json::Value;
use switchboard_wire::Query as _;
use switchboard_wire::runtime::{
    CapabilitiesResponse, CapabilityResponse, CapabilityShown, ResolveReviewRequest, ReviewQuery,
    ReviewResponse, ReviewsResponse, UnpublishQuery,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Skills are tried out while a version is published: two of them, a minute each. In seconds.
const PUBLISHED_WITHIN: u32 = 120;

/// Calls about capabilities.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about capabilities.
    pub fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { client: self }
    }
}

const ALL: [&str; 3] = ["runtime", "v1", "capabilities"];
const REVIEWS: [&str; 3] = ["runtime", "v1", "reviews"];

impl Capabilities<'_> {
    /// Publishes a manifest; the same version of the same manifest can be published again. It is sent as it is, since its
    /// signature is of all of it.
    pub async fn publish(self, manifest: &Value) -> Result<CapabilityResponse, Error> {
        let call = Call::post(&ALL, manifest)?
            .bare()
            .wait(Some(PUBLISHED_WITHIN));
        self.client.transport.send(call).await
    }

    /// All that the hub's node knows of.
    pub async fn list(self) -> Result<CapabilitiesResponse, Error> {
        self.client.transport.send(Call::get(&ALL).bare()).await
    }

    /// One of them, and its versions.
    pub async fn show(self, id: &str) -> Result<CapabilityShown, Error> {
        let call = Call::get(&[&ALL[..], &[id]].concat()).bare();
        self.client.transport.send(call).await
    }

    /// Takes it back, or disables it.
    pub async fn unpublish(self, id: &str, disable: bool) -> Result<CapabilityResponse, Error> {
        let query = UnpublishQuery {
            disable: disable.then_some(true),
        };
        let call = Call::delete(&[&ALL[..], &[id]].concat());
        let call = call.query(query.to_query()).bare();
        self.client.transport.send(call).await
    }

    /// Reviews, open or resolved.
    pub async fn reviews(self, query: &ReviewQuery) -> Result<ReviewsResponse, Error> {
        let call = Call::get(&REVIEWS).query(query.to_query()).bare();
        self.client.transport.send(call).await
    }

    /// Somebody has reviewed it.
    pub async fn resolve(
        self,
        id: &str,
        request: &ResolveReviewRequest,
    ) -> Result<ReviewResponse, Error> {
        let call = Call::post(&[&REVIEWS[..], &[id, "resolve"]].concat(), request)?.bare();
        self.client.transport.send(call).await
    }
}
