//! One visit as an operator: connected, or told why not.

use std::time::Duration;

use switchboard_client::bus::{
    BackoffPolicy, BusError, Operator, OperatorConfig, OperatorEvent, OperatorEvents,
    OperatorHandle,
};
use switchboard_hub::bus::authority::Role;
use tokio::time::{Instant, timeout_at};

use super::failed::failed;
use super::reach::{CALL_FOR, Door, Reach, Visitor};
use crate::context::Context;
use crate::failure::Failure;
use crate::show::now;

/// An answer that does not come in this time does not come.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// A hub looks for new certificates several times a second; a new one is tried for so long.
pub const FRESH_FOR: Duration = Duration::from_secs(2);

/// Connects again quickly: a person waits.
pub const IMPATIENT: BackoffPolicy = BackoffPolicy {
    first: Duration::from_millis(200),
    max: Duration::from_secs(5),
};

/// An operator that is connected.
pub struct Call {
    pub operator: OperatorHandle,
    pub reach: Reach,
    events: OperatorEvents,
    until: Instant,
}

impl Call {
    /// Connects as an operator of a new name; if that fails, it has failed.
    pub async fn begin(door: &Door, context: &Context) -> Result<Call, Failure> {
        let id = door.id(operator_id);
        let reach = door.reach(
            context,
            &Visitor {
                id: &id,
                role: Role::Operator,
                lasts: CALL_FOR,
            },
        )?;
        let config = OperatorConfig {
            tls: reach.tls.clone(),
            credential: reach.credential.clone(),
            backoff: IMPATIENT,
            ..OperatorConfig::new(&reach.addr, id)
        };
        let connected = Operator::connect(config).map_err(|error| failed(&error, &reach))?;
        let (operator, events) = connected;
        let began = Instant::now();
        let mut call = Call {
            operator,
            reach,
            events,
            until: began + ANSWER_WITHIN,
        };
        loop {
            match call.next().await? {
                OperatorEvent::Connected(_) => return Ok(call),
                OperatorEvent::Disconnected { error, .. } => {
                    let again = call.reach.may_be_new() && maybe_unknown(&error);
                    if !again || began.elapsed() > FRESH_FOR {
                        return Err(failed(&error, &call.reach));
                    }
                }
                OperatorEvent::Ended(error) => return Err(failed(&error, &call.reach)),
                OperatorEvent::Frame(_) | OperatorEvent::Line { .. } => {}
            }
        }
    }

    /// Gives the next answer its whole time.
    pub fn wait_anew(&mut self) {
        self.until = Instant::now() + ANSWER_WITHIN;
    }

    /// The next event, if it comes in time.
    pub async fn next(&mut self) -> Result<OperatorEvent, Failure> {
        let error = match timeout_at(self.until, self.events.recv()).await {
            Ok(Some(event)) => return Ok(event),
            Ok(None) => BusError::Over,
            Err(_) => BusError::NoAnswer,
        };
        Err(failed(&error, &self.reach))
    }
}

/// What a director says to a certificate that it has not heard of yet.
pub fn maybe_unknown(error: &BusError) -> bool {
    matches!(
        error,
        BusError::CertificateRefused { .. } | BusError::NoWelcome { .. } | BusError::Lost { .. }
    )
}

/// A name that nobody else has at the moment: two of one name would put each other out.
pub fn operator_id() -> String {
    format!("cli-{}-{}", std::process::id(), now().0)
}
