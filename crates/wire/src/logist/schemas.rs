//! The published schemas: those of the document (1.0), and what is written since (1.1).

use std::sync::LazyLock;

use serde_json::Value;

use crate::Malformed;
use crate::schema::{self, Validator};

/// What our files are written by.
pub const VERSION: &str = "1.1";
/// The document's, which is read as well.
pub const PREVIOUS: &str = "1.0";
pub const CHAT: &str = "llm-chat-schema";
pub const MANIFEST: &str = "job-manifest";

/// One version of one schema.
#[derive(Debug)]
pub struct Published {
    pub name: &'static str,
    pub version: &'static str,
    pub about: &'static str,
    /// As it is published, byte for byte.
    pub text: &'static str,
    validator: LazyLock<Validator>,
}

macro_rules! text {
    ($name:literal, $version:literal) => {
        include_str!(concat!(
            "../../../../docs/schemas/",
            $name,
            "-",
            $version,
            ".json"
        ))
    };
}

macro_rules! published {
    ($count:literal: $($name:literal $version:literal $about:literal;)*) => {
        /// The newest version of each first.
        pub static SCHEMAS: [Published; $count] = [$(Published {
            name: $name,
            version: $version,
            about: $about,
            text: text!($name, $version),
            validator: LazyLock::new(|| schema::read(text!($name, $version)).expect("a published schema is one")),
        }),*];
    };
}

published! { 4:
    "llm-chat-schema" "1.1" "what an agent responds";
    "llm-chat-schema" "1.0" "what an agent responds, as the protocol's document has it";
    "job-manifest" "1.1" "the state of a job";
    "job-manifest" "1.0" "the state of a job, as the protocol's document has it";
}

impl Published {
    /// A schema by its name; without a version the newest.
    pub fn find(name: &str, version: Option<&str>) -> Result<&'static Published, Malformed> {
        let mut named = SCHEMAS.iter().filter(|schema| schema.name == name);
        if named.clone().next().is_none() {
            let message = format!("there is no schema {name:?}; expected {CHAT} or {MANIFEST}");
            return Err(Malformed::field("schema", message));
        }
        let version = version.unwrap_or(VERSION);
        named
            .find(|schema| schema.version == version)
            .ok_or_else(|| unknown_version("version", version))
    }

    /// The newest version of a schema of ours.
    pub(super) fn newest(name: &'static str) -> &'static Published {
        let mut named = SCHEMAS.iter().filter(|schema| schema.name == name);
        named.next().expect("a schema of ours is published")
    }

    /// What of a value is not as the schema wants it.
    pub fn faults(&self, value: &Value) -> Vec<Malformed> {
        schema::faults(&self.validator, value)
    }
}

/// The version of a file. One without says nothing of it, as all files of the old program.
pub(super) fn version_of(file: &Value) -> Result<&'static str, Malformed> {
    match &file["schema_version"] {
        Value::Null => Ok(PREVIOUS),
        Value::String(version) if version == VERSION => Ok(VERSION),
        Value::String(version) if version == PREVIOUS => Ok(PREVIOUS),
        Value::String(version) => Err(unknown_version("schema_version", version)),
        other => {
            let message = format!("expected \"{VERSION}\" or \"{PREVIOUS}\", not {other}");
            Err(Malformed::field("schema_version", message))
        }
    }
}

fn unknown_version(field: &str, version: &str) -> Malformed {
    let number = |version: &str| version.parse::<f64>().ok();
    let why = match (number(version), number(PREVIOUS)) {
        (Some(given), Some(oldest)) if given < oldest => "is older than what is read",
        (Some(_), _) => "is newer than this program",
        (None, _) => "is not a version",
    };
    let message = format!("{version:?} {why}; known are {VERSION} and {PREVIOUS}");
    Malformed::field(field, message)
}
