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
        BusError::Lost { .. } => format!("{}; connecting again", clean(&error.to_string())),
        other => sentence(other, reach),
    }
}

fn sentence(error: &BusError, reach: &Reach) -> String {
    let step = match error {
        BusError::Unreachable { source, .. } => {
            return format!(
                "{error} ({source}); start a hub with 'switchboard up', or name the bus with --addr"
            );
        }
        BusError::Untrusted { source, .. } => {
            return format!("{error} ({source}); name the authority it is of with --ca");
        }
        BusError::NotTls { .. } => "leave out --cert, --key and --ca",
        BusError::CertificateRefused { .. } => {
            "see 'switchboard cert list'; a new one is made with 'switchboard cert issue'"
        }
        BusError::NoWelcome { .. } if reach.tls.is_none() => {
            "is this the address of the bus? If it speaks mutual TLS, name --cert, --key and --ca"
        }
        BusError::NoWelcome { .. } => {
            "the id has to be the one the certificate was issued for, in that role"
        }
        BusError::Incompatible(told) => {
            return format!(
                "{} (it speaks {}, this program {}); use a program of the hub's version",
                clean(&error.to_string()),
                clean(&told.expected_protocol_version),
                clean(&told.sender_protocol_version),
            );
        }
        BusError::Replaced => "choose another one with --id, or stop the other",
        BusError::Lost { .. } | BusError::NoAnswer => {
            "try again; 'switchboard doctor' may know more"
        }
        BusError::Tls(_)
        | BusError::Refused(_)
        | BusError::Invalid(_)
        | BusError::TooLarge { .. }
        | BusError::Over => return clean(&error.to_string()).into_owned(),
    };
    format!("{}; {step}", clean(&error.to_string()))
}
