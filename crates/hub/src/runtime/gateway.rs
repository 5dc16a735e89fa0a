//! Which node this ledger is.

use aws_lc_rs::rand;
use switchboard_core::NodeId;
use switchboard_core::node::{Gateway, NodeKey};
use switchboard_core::verb::OpenGateway;
use switchboard_wire::runtime::proof::Signer;
use switchboard_wire::signature::to_hex;
use ulid::Ulid;

use crate::hub::{Error, Hub};

/// What a starting hub says; id and key count only if the ledger has none.
pub(crate) async fn opens(hub: &Hub) -> Result<OpenGateway, Error> {
    let settings = &hub.shared.runtime;
    let mut seed = [0; 32];
    rand::fill(&mut seed).map_err(|_| Error::Unavailable("there is no randomness".to_owned()))?;
    let fresh = Ulid::generate().to_string().to_ascii_lowercase();
    let known = hub.read(|reader| reader.gateway()).await?;
    let signer = known.and_then(|known| Signer::from_hex(&known.key.0));
    let timings = settings.timings;
    #[cfg(debug_assertions)]
    let timings = super::broken::timings(timings);
    Ok(OpenGateway {
        node_id: settings.node_id.clone(),
        fresh_id: format!("node-{fresh}").into(),
        fresh_key: NodeKey(to_hex(&seed)),
        public_key: signer.map(|signer| signer.public_key()),
        endpoint: settings.endpoint.clone(),
        tier: settings.tier,
        timings,
    })
}

/// This node, as it signs.
#[derive(Debug)]
pub struct Own {
    pub gateway: Gateway,
    pub signer: Signer,
}

impl Own {
    pub async fn read(hub: &Hub) -> Result<Own, Error> {
        let gateway = hub.read(|reader| reader.gateway()).await?;
        let gateway =
            gateway.ok_or_else(|| Error::Unavailable("it is not yet served".to_owned()))?;
        let signer = Signer::from_hex(&gateway.key.0).ok_or(Error::Broken)?;
        Ok(Own { gateway, signer })
    }
}

/// Which node this is: the same for as long as its ledger is served.
pub async fn node_id(hub: &Hub) -> Result<NodeId, Error> {
    let known = &hub.shared.node_id;
    if let Some(id) = known.get() {
        return Ok(id.clone());
    }
    let own = Own::read(hub).await?.gateway.node_id;
    Ok(known.get_or_init(|| own).clone())
}
