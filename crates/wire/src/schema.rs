//! JSON Schemas, built in the one way that is safe with anybody's: nothing that one refers to is fetched, and every pattern
//! is matched in linear time. Formats are checked.

use jsonschema::PatternOptions;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use switchboard_core::limits;

use crate::Malformed;

pub use jsonschema::Validator;

/// Reads a schema, or says why it cannot be used.
pub fn read(schema: &str) -> Result<Validator, String> {
    let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    build(&schema)
}

pub(crate) fn build(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex())
        .should_validate_formats(true)
        .build(schema)
        .map_err(|error| format!("the schema cannot be used: {error}"))
}

/// Everything that is not as a schema wants it, with the member to blame.
pub(crate) fn faults(schema: &Validator, value: &Value) -> Vec<Malformed> {
    let found = schema.iter_errors(value).take(FAULTS_MAX);
    let each = found.map(|error| {
        let place = error.instance_path().to_string();
        let place = place.trim_start_matches('/').replace('/', ".");
        if let ValidationErrorKind::Required { property } = error.kind() {
            let dot = if place.is_empty() { "" } else { "." };
            let member = property.as_str().unwrap_or_default();
            return Malformed::missing(format!("{place}{dot}{member}"));
        }
        let said = error.to_string();
        let message = match said.len() <= SAID_BYTES_MAX {
            true => said,
            false => limits::cut(&error.masked().to_string(), SAID_BYTES_MAX).to_owned(),
        };
        match place.is_empty() {
            true => Malformed::whole(message),
            false => Malformed::field(place, message),
        }
    });
    each.collect()
}

/// So many are told at a time, each as far as this.
const FAULTS_MAX: usize = 20;
const SAID_BYTES_MAX: usize = 256;
