//! A settings file as flat keys.

use std::io::ErrorKind;
use std::path::Path;

use super::ConfigError;
use super::settings::{Entry, find};

/// Settings files are small; a larger one is something else.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Nothing if there is no such file.
pub fn read_file(file: &Path) -> Result<Option<toml::Table>, ConfigError> {
    let unreadable = |reason: String| ConfigError::Unreadable {
        file: file.to_owned(),
        reason,
    };
    match std::fs::metadata(file) {
        Ok(meta) if meta.len() > FILE_BYTES_MAX => {
            return Err(unreadable(format!(
                "it is larger than {FILE_BYTES_MAX} bytes"
            )));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    let parsed = text.parse::<toml::Table>();
    parsed.map(Some).map_err(|error| ConfigError::Syntax {
        file: file.to_owned(),
        reason: error.to_string(),
    })
}

/// `[http] listen` becomes `http.listen`; `auth = "hmac"` is short for `[auth] mode`.
pub fn flatten(table: toml::Table) -> Vec<(String, toml::Value)> {
    let mut flat = Vec::new();
    walk("", table, &mut flat);
    flat
}

/// The parser bounds how deep a table can be.
fn walk(prefix: &str, table: toml::Table, flat: &mut Vec<(String, toml::Value)>) {
    for (name, value) in table {
        let key = match prefix {
            "" => name,
            prefix => format!("{prefix}.{name}"),
        };
        match value {
            // A table in the place of a value is a wrong value, and said to be one.
            toml::Value::Table(members) if find(&key).is_none() => walk(&key, members, flat),
            value if key == "auth" => flat.push(("auth.mode".to_owned(), value)),
            value => flat.push((key, value)),
        }
    }
}

/// Whether some of these settings are below this key.
pub fn is_section(key: &str, mut settings: impl Iterator<Item = &'static Entry>) -> bool {
    settings.any(|(known, _)| {
        known
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}
