//! What a connection showed of who it is.

use switchboard_core::changes::Nonce;
use switchboard_wire::agentbus::message::HelloAuth;
use switchboard_wire::agentbus::session::Peer;

use super::server::BusState;
use crate::auth::Vigil;
use crate::call::Nothing;

pub(super) struct Proof {
    /// The signature, to be committed with what it lets in, so that it lets nobody in again.
    pub nonce: Option<Nonce>,
    /// Absent where nothing is asked for.
    pub vigil: Option<Vigil>,
}

impl Proof {
    /// The reason, if a hello shows not enough.
    pub async fn of(
        bus: &BusState,
        peer: &Peer,
        given: Option<&HelloAuth>,
    ) -> Result<Proof, String> {
        let vigil = bus.auth.begin_vigil(&bus.hub);
        let asked = bus.auth.hello(&bus.hub, (peer.role, &peer.id), given);
        let caller = asked.await.map_err(|failure| failure.answer().0.message)?;
        Ok(Proof {
            nonce: caller.nonce(None),
            vigil: vigil(&caller),
        })
    }

    /// Commits the signature where nothing else is.
    pub async fn spend(&self, bus: &BusState) -> Result<(), String> {
        match self.nonce.clone() {
            None => Ok(()),
            nonce => {
                let spent = bus
                    .hub
                    .run_signed(Nothing { keeps_guard: true }, nonce)
                    .await;
                spent.map_err(|error| error.to_string())
            }
        }
    }
}
