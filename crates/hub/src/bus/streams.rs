//! Streams that ended with the process that had them: what was not acknowledged there waits for whatever door comes next.
//!
//! Where several coordinators write one ledger, those of the others go on; then the agent's next hello or its silence
//! ends a stream.

use switchboard_core::verb::EndStream;
use switchboard_core::{Agent, limits};
use switchboard_store::{AgentFilter, Page};

use crate::hub::{Error, Hub};

pub(super) async fn end_all(hub: &Hub) {
    if let Err(error) = end_pages(hub).await {
        tracing::warn!(%error, "messages that were not acknowledged wait for their agent's next hello");
    }
}

async fn end_pages(hub: &Hub) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = Page {
            after,
            limit: limits::PAGE_MAX,
        };
        let read = move |reader: &dyn switchboard_store::Reader| {
            reader.agents(
                &AgentFilter {
                    with_gone: true,
                    ..AgentFilter::default()
                },
                &page,
            )
        };
        let found = hub.read(read).await?;
        for agent in found.rows.into_iter().filter(owes_receipts) {
            if let Some(stream) = agent.stream.name {
                let agent = agent.id;
                hub.run(EndStream { agent, stream }).await?;
            }
        }
        match found.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

fn owes_receipts(agent: &Agent) -> bool {
    !agent.stream.unacknowledged.is_empty()
}
