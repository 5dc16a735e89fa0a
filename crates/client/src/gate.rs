//! The gate before a restart.

use switchboard_wire::jetpack::{GateResponse, OpenGateRequest, SignGateRequest};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// The gate as it is.
    pub async fn gate(&self) -> Result<GateResponse, Error> {
        self.transport.send(Call::get(&["gate"])).await
    }

    /// Opens it anew.
    pub async fn open_gate(&self, request: &OpenGateRequest) -> Result<GateResponse, Error> {
        let call = Call::post(&["gate", "open"], request)?;
        self.transport.send(call).await
    }

    pub async fn sign_gate(&self, request: &SignGateRequest) -> Result<GateResponse, Error> {
        let call = Call::post(&["gate", "sign"], request)?;
        self.transport.send(call).await
    }
}
