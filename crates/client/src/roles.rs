//! Roles.

use switchboard_wire::jetpack::RolesResponse;

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Every role, and who is there.
    pub async fn roles(&self) -> Result<RolesResponse, Error> {
        self.transport.send(Call::get(&["roles"])).await
    }
}
