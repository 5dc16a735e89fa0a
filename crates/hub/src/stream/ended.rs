//! Streams that ended with the process that had them: what was not acknowledged there waits for whatever door comes next.
//!
//! A stream is named after its coordinator. Where several write one ledger each says while it serves that it is there, and
//! ends the streams of those that no longer do.

use switchboard_core::query::{AgentFilter, Page};
use switchboard_core::verb::{Attend, EndStream};

use crate::hub::{Error, Hub};

/// Between a coordinator's name and the rest.
const SEPARATOR: char = '.';

impl Hub {
    /// What a stream of this coordinator is called.
    pub(crate) fn stream_name(&self, id: &str) -> String {
        format!("{}{SEPARATOR}{id}", self.shared.name)
    }
}

fn coordinator(stream: &str) -> Option<&str> {
    stream.split_once(SEPARATOR).map(|(name, _)| name)
}

/// All streams of this ledger ended with the process before.
pub(crate) async fn end_all(hub: &Hub) {
    if let Err(error) = end(hub, |_| true).await {
        tracing::warn!(%error, "unacknowledged messages were not queued again; they wait for their agent's next hello");
    }
}

/// Says that this coordinator serves, and ends the streams of those that no longer do.
pub(crate) async fn attend(hub: &Hub) -> Result<(), Error> {
    let me = hub.shared.name.clone();
    let ended = Vec::new();
    let gone = hub.run(Attend { me, ended }).await?;
    if gone.is_empty() {
        return Ok(());
    }
    let left = |stream: &str| coordinator(stream).is_some_and(|of| gone.iter().any(|it| it == of));
    end(hub, left).await?;
    tracing::info!(
        coordinators = ?gone,
        "coordinators that served this ledger have stopped; the unacknowledged messages of their connections are queued again"
    );
    let me = hub.shared.name.clone();
    hub.run(Attend { me, ended: gone }).await.map(drop)
}

async fn end(hub: &Hub, is_over: impl Fn(&str) -> bool) -> Result<(), Error> {
    let mut page = Page::first();
    loop {
        let (page_now, mut filter) = (page.clone(), AgentFilter::default());
        filter.with_gone = true;
        let read = hub.read(move |ledger| ledger.agents(&filter, &page_now));
        let found = read.await?;
        for agent in found.rows {
            let owes = !agent.stream.unacknowledged.is_empty();
            if let Some(stream) = agent.stream.name.filter(|name| owes && is_over(name)) {
                let agent = agent.id;
                hub.run(EndStream { agent, stream }).await?;
            }
        }
        page.after = found.next;
        if page.after.is_none() {
            return Ok(());
        }
    }
}
