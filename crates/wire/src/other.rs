//! Members that a protocol does not name: kept as they came and shown again, up to a bound.

use serde_json::{Map, Value};
use switchboard_core::limits;

use crate::Malformed;

pub type Other = Map<String, Value>;

pub(crate) fn check(field: &str, other: &Other) -> Result<(), Malformed> {
    let mut bytes = 0;
    for (name, value) in other {
        bytes += name.len() + value.to_string().len();
        if bytes > limits::OTHER_BYTES_MAX {
            let max = limits::OTHER_BYTES_MAX;
            let message = format!(
                "has more than {max} bytes of members beyond those of the protocol ('{name}' is the first too many)"
            );
            return Err(Malformed::field(field, message));
        }
    }
    Ok(())
}
