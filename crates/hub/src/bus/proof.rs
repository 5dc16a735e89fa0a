//! What a connection showed of who it is, and whether that still counts, for as long as it is open.
//!
//! The key of a worker is looked after by its own stream, which hears of every change of its agent.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::changes::Nonce;
use switchboard_core::{Changes, Refusal, Slice, Timestamp, Verb, Want};
use switchboard_wire::agentbus::message::HelloAuth;
use switchboard_wire::agentbus::session::Peer;
use switchboard_wire::signature::AgentKey;
use tokio::sync::watch;

use super::server::Shared;
use crate::auth::{self, Caller};
use crate::wakeups::{TokenWatch, Wakeups};

/// After a look at the ledger that failed.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);

pub(super) struct Proof {
    caller: Caller,
    watch: Option<TokenWatch>,
    /// Of the master key, as it was when the hello came.
    replacements: watch::Receiver<u64>,
}

impl Proof {
    /// The reason, if a hello shows not enough.
    pub async fn of(bus: &Shared, peer: &Peer, given: Option<&HelloAuth>) -> Result<Proof, String> {
        let replacements = bus.auth.replacements();
        let asked = bus.auth.hello(&bus.hub, (peer.role, &peer.id), given);
        let caller = asked.await.map_err(|failure| failure.answer().0.message)?;
        let watch = match &caller.proof {
            auth::Proof::Token { name, .. } => Some(Wakeups::watch_token(&bus.hub.shared, name)),
            auth::Proof::Key(_) | auth::Proof::Lasting => None,
        };
        Ok(Proof {
            caller,
            watch,
            replacements,
        })
    }

    /// The signature, to be committed with what it lets in, so that it lets nobody in again.
    pub fn nonce(&self) -> Option<Nonce> {
        self.caller.nonce(None)
    }

    /// The same where nothing else is committed.
    pub async fn spend(&self, bus: &Shared) -> Result<(), String> {
        match self.nonce() {
            None => Ok(()),
            nonce => {
                let spent = bus.hub.run_signed(Arrive, nonce).await;
                spent.map_err(|error| error.to_string())
            }
        }
    }

    /// The agent's key, if that is what signed.
    pub fn key(&self) -> Option<&AgentKey> {
        match &self.caller.proof {
            auth::Proof::Key(key) => Some(key),
            auth::Proof::Token { .. } | auth::Proof::Lasting => None,
        }
    }

    /// When its token may have been revoked, or the key that all others follow from was replaced.
    pub async fn rung(&self) {
        let revoked = async {
            match &self.watch {
                Some(watch) => watch.rung().await,
                None => std::future::pending().await,
            }
        };
        let known = *self.replacements.borrow();
        let mut replacements = self.replacements.clone();
        tokio::select! {
            () = revoked => {}
            _ = replacements.wait_for(|times| *times != known) => {}
        }
    }

    /// Whether it would still be let in; as long as nobody can tell, it is asked again.
    pub async fn holds(&self, bus: &Shared) -> bool {
        match bus.auth.still_knows(&bus.hub, &self.caller).await {
            Ok(holds) => holds,
            Err(error) => {
                tracing::debug!(%error, "whether a token of the bus still counts is asked again");
                if let Some(watch) = &self.watch {
                    let bell = Arc::clone(watch.bell());
                    tokio::spawn(async move {
                        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                        bell.notify_one();
                    });
                }
                true
            }
        }
    }
}

/// Changes nothing: the signature that comes along is what is kept.
struct Arrive;

impl Verb for Arrive {
    type Reply = ();

    fn asks(&self, _want: &mut Want<'_>, _now: Timestamp) {}

    fn decide(&self, _slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        Ok(((), Changes::default()))
    }
}
