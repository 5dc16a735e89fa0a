//! Checks an implementation of the Runtime protocol from outside, clause by clause.
//!
//! The checker is a node of its own: it joins, reads the other's outbox and brings its own, does what the document says
//! and what it forbids, and looks at what comes of it. [`clauses`] lists what is looked at and where; each story is a
//! file. All that is known of the other side is `docs/runtime.md` and the document behind it.

mod capabilities;
mod clauses;
mod cursors;
mod envelope;
mod external;
mod findings;
mod gaps;
mod gateway;
mod inbound;
mod lateness;
mod lease;
mod log;
mod manifest;
mod messages;
mod outbound;
mod probe;
mod quiet;
mod resend;
mod reviews;
mod seen;
mod skills;
mod tickets;
mod wire;

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde::Serialize;
use tokio::time::timeout;

use clauses::Story;
use findings::{Stop, Told};
use probe::Probe;

pub use findings::{Finding, Verdict};

use crate::client::Client;

/// Whoever stops a check does not wait longer for what is left of it to go.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);

/// How the other side is set up: the document's timings, unless it is configured otherwise.
#[derive(Clone, Debug)]
pub struct Timings {
    pub gap_timeout: Duration,
    pub cursor_lease: Duration,
    pub accepted_timeout: Duration,
    pub processed_grace: Duration,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings {
            gap_timeout: Duration::from_secs(30),
            cursor_lease: Duration::from_secs(300),
            accepted_timeout: Duration::from_secs(20),
            processed_grace: Duration::from_secs(120),
        }
    }
}

/// What to check, and with what.
#[derive(Clone, Debug)]
pub struct Settings {
    /// 1 to 3.
    pub level: u8,
    /// One for each node of the checker; without any it asks for them itself.
    pub invites: Vec<String>,
    /// An agent there, where the checker cannot make its own.
    pub agent: Option<String>,
    /// The name and version of a skill that is installed there.
    pub skill: Option<(String, String)>,
    /// What takes longer is not checked.
    pub patience: Duration,
    pub timings: Timings,
    /// What is done with a gap at last: halt, skip or tombstone.
    pub gap_policy: String,
}

/// What was found of each clause.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The node that was checked.
    pub node_id: String,
    pub level: u8,
    pub clauses: Vec<Finding>,
}

/// Checks the hub of this client; fails only if it cannot even be joined, or if it was stopped. Then, too, nothing that
/// was made for it is left there.
pub async fn run(
    client: &Client,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> Result<Report, String> {
    let mut stop = pin!(stop.fuse());
    let mut is_stopped = false;
    let begun = {
        let mut begun = pin!(Probe::begin(client, settings));
        loop {
            tokio::select! {
                begun = &mut begun => break begun,
                // Whoever is about to join has to leave again.
                () = &mut stop => is_stopped = true,
            }
        }
    };
    let probe = begun.map_err(|stop| match stop {
        Stop::Unknown(why) => why,
        Stop::Missing { sent, came } => {
            format!("there is no such endpoint: {sent} was answered with {came}")
        }
    })?;
    if !is_stopped {
        tokio::select! {
            never = probe.follow() => match never {},
            () = all(&probe) => {}
            () = &mut stop => is_stopped = true,
        }
    }
    if is_stopped {
        let left = timeout(LEAVES_WITHIN, probe.clean_up()).await;
        return Err(match left {
            Ok(()) => "stopped before the end; what was made for the check is gone again".to_owned(),
            Err(_) => "stopped before the end; the node did not answer, and what was made for the check may be there still: see 'switchboard node list'".to_owned(),
        });
    }
    probe.clean_up().await;
    Ok(Report {
        node_id: probe.main.hub().to_owned(),
        level: probe.settings.level,
        clauses: probe.findings.report(probe.settings.level),
    })
}

/// Silence first; then everything side by side; at last, what was seen meanwhile.
async fn all(probe: &Probe) {
    let findings = &probe.findings;
    findings.end(Story::Quiet, quiet::tell(probe).await);
    let at = |story, told: Told| findings.end(story, told);
    let first = async {
        tokio::join!(
            async { at(Story::Envelope, envelope::tell(probe).await) },
            async { at(Story::Tickets, tickets::tell(probe).await) },
            async { at(Story::Messages, messages::tell(probe).await) },
            async { at(Story::Inbound, inbound::tell(probe).await) },
            async { at(Story::Outbound, outbound::tell(probe).await) },
            async { at(Story::Resend, resend::tell(probe).await) },
            async { at(Story::Cursors, cursors::tell(probe).await) },
            async { at(Story::Lease, lease::tell(probe).await) },
        )
    };
    let second = async {
        if probe.settings.level < 2 {
            return;
        }
        tokio::join!(
            async { at(Story::Gaps, gaps::tell(probe).await) },
            async { at(Story::Capabilities, capabilities::tell(probe).await) },
            async { at(Story::Skills, skills::tell(probe).await) },
            async { at(Story::Reviews, reviews::tell(probe).await) },
            async { at(Story::Lateness, lateness::tell(probe).await) },
        );
    };
    let third = async {
        if probe.settings.level >= 3 {
            at(Story::External, external::tell(probe).await);
        }
    };
    tokio::join!(first, second, third);
    findings.end(Story::Seen, seen::tell(probe));
}
