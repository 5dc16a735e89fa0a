//! Whether what a caller showed still counts, for as long as it is served: a stream, a call that waits.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Auth, Caller, Proof};
use crate::hub::Hub;

/// After a look at the ledger that failed.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);

pub struct Vigil {
    caller: Caller,
    /// Keys and tokens that ended.
    ended: watch::Receiver<u64>,
    /// Master keys that were replaced.
    replaced: watch::Receiver<u64>,
    again_at: Option<Instant>,
}

impl Auth {
    /// Begins before the caller is known, so that nothing that ends meanwhile is missed.
    pub fn begin_vigil(&self, hub: &Hub) -> impl FnOnce(&Caller) -> Option<Vigil> + use<> {
        let (ended, replaced) = (
            hub.shared.wakeups().credentials(),
            self.replaced.subscribe(),
        );
        |caller| match caller.proof {
            Proof::Lasting => None,
            Proof::Token(_) | Proof::Key(_) | Proof::Ticket | Proof::Session(_) => Some(Vigil {
                caller: caller.clone(),
                ended,
                replaced,
                again_at: None,
            }),
        }
    }
}

impl Vigil {
    /// Until it has to be looked at. What rang while nobody waited is not forgotten.
    pub async fn rung(&mut self) {
        let again = async {
            match self.again_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.ended.changed() => {}
            _ = self.replaced.changed() => {}
            () = again => {}
        }
    }

    /// Whether it would still be let in; as long as nobody can tell, it is asked again.
    pub async fn holds(&mut self, auth: &Auth, hub: &Hub) -> bool {
        match auth.still_knows(hub, &self.caller).await {
            Ok(holds) => {
                self.again_at = None;
                holds
            }
            Err(error) => {
                tracing::debug!(%error, "checking again whether a credential is still valid");
                self.again_at = Some(Instant::now() + LOOK_AGAIN_AFTER);
                true
            }
        }
    }

    /// Until it no longer counts.
    pub async fn over(&mut self, auth: &Auth, hub: &Hub) {
        loop {
            self.rung().await;
            if !self.holds(auth, hub).await {
                return;
            }
        }
    }

    /// What ended, in words.
    pub fn what_ended(&self) -> &'static str {
        match self.caller.proof {
            Proof::Key(_) => "the key was replaced",
            Proof::Ticket => "the node left",
            Proof::Session(_) => "the session ended",
            Proof::Token(_) | Proof::Lasting => "the token was revoked",
        }
    }
}
