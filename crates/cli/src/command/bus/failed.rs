//! What the bus's errors mean to a person, with the next step.

use switchboard_client::bus::BusError;

use super::reach::Reach;
use crate::failure::Failure;
use crate::screen::clean;

/// The failure of a command.
pub fn failed(error: &BusError, reach: &Reach) -> Failure {
    let text = sentence(error, reach);
    match error {
        BusError::Unreachable { .. } => Failure::NoHub(text),
        BusError::Invalid(_) | BusError::TooLarge { .. } => Failure::Usage(text),
        BusError::Untrusted { .. }
        | BusError::NotTls { .. }
        | BusError::CertificateRefused { .. }
        | BusError::Tls(_)
        | BusError::NoWelcome { .. }
        | BusError::Refused(_)
        | BusError::Incompatible(_)
        | BusError::Replaced
        | BusError::Lost { .. }
        | BusError::NoAnswer
        | BusError::Over => Failure::Failed(text),
    }
}

/// One sentence for whoever does not give up.
pub fn trying_again(error: &BusError, reach: &Reach) -> String {
    match error {
        BusError::Lost { .. } => format!("{}; reconnecting", clean(&error.to_string())),
        other => sentence(other, reach),
    }
}

fn sentence(error: &BusError, reach: &Reach) -> String {
    let step = match error {
        BusError::Unreachable { source, .. } => {
            return format!(
                "{error} ({source}); start a hub with 'switchboard up', or pass the bus's address with --addr"
            );
        }
        BusError::Untrusted { source, .. } => {
            return format!("{error} ({source}); pass the authority that signed it with --ca");
        }
        BusError::NotTls { .. } => "leave out --cert, --key and --ca",
        BusError::CertificateRefused { .. } => {
            "see 'switchboard cert list'; create a new one with 'switchboard cert issue'"
        }
        BusError::NoWelcome { .. } if reach.tls.is_none() => {
            "check that this is the address of the bus; if it uses mutual TLS, pass --cert, --key and --ca"
        }
        BusError::NoWelcome { .. } => "use the id and the role that the certificate was issued for",
        BusError::Incompatible(told) => {
            return format!(
                "{} (it speaks {}, this program {}); use the hub's version of this program",
                clean(&error.to_string()),
                clean(&told.expected_protocol_version),
                clean(&told.sender_protocol_version),
            );
        }
        BusError::Replaced => "choose another id with --id, or stop the other program",
        BusError::Lost { .. } | BusError::NoAnswer => {
            "try again; 'switchboard doctor' may show the cause"
        }
        BusError::Tls(_)
        | BusError::Refused(_)
        | BusError::Invalid(_)
        | BusError::TooLarge { .. }
        | BusError::Over => return clean(&error.to_string()).into_owned(),
    };
    format!("{}; {step}", clean(&error.to_string()))
}
