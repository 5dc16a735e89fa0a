//! Pause and resume.

use std::time::Duration;

use switchboard_core::{limits, verb};

use super::check::maybe_text;
use crate::Malformed;
use crate::jetpack::{PauseRequest, ResumeRequest};

/// `POST /pause`.
pub fn pause(request: PauseRequest, by: String) -> Result<verb::Steer, Malformed> {
    let order = match (request.until, request.for_seconds) {
        (None, None) => verb::Order::Pause,
        (Some(until), None) => verb::Order::PauseUntil(until.into()),
        (None, Some(seconds)) => {
            let max = limits::PAUSE_FOR_MAX.as_secs();
            if !(1..=max).contains(&seconds) {
                return Err(Malformed::field("forSeconds", format!("1 to {max}")));
            }
            verb::Order::Cooldown {
                lasts_for: Duration::from_secs(seconds),
            }
        }
        (Some(_), Some(_)) => {
            return Err(Malformed::field(
                "forSeconds",
                "give until or forSeconds, not both",
            ));
        }
    };
    steer(request.why, by, order)
}

/// `POST /resume`.
pub fn resume(request: ResumeRequest, by: String) -> Result<verb::Steer, Malformed> {
    steer(request.why, by, verb::Order::Resume)
}

fn steer(why: Option<String>, by: String, order: verb::Order) -> Result<verb::Steer, Malformed> {
    maybe_text("why", why.as_ref(), limits::NOTE_BYTES_MAX)?;
    Ok(verb::Steer {
        by,
        reason: why.unwrap_or_default(),
        order,
    })
}
