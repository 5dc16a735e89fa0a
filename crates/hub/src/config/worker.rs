//! `[worker]` and `[[gate]]`: what `switchboard worker` reads. The hub itself only keeps them where no agent can edit them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::read::Given;
use super::settings::Entry;

/// How workers of this project work.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Worker {
    /// A command that each new worktree needs.
    pub setup: Option<String>,
    /// Members of a preset that are different here; presets of the project's own.
    pub presets: BTreeMap<String, Map<String, Value>>,
}

/// A command that has to succeed before a task counts as done.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSetting {
    pub name: Option<String>,
    pub run: String,
    pub parse: Option<String>,
}

#[rustfmt::skip]
pub(crate) const WORKER_SETTINGS: &[Entry] = &[
    ("worker", |d, g| table(g, "a section [worker]").map(|v| d.config.worker = v)),
    ("gate", |d, g| table(g, "sections [[gate]]").map(|v| d.config.gates = v)),
];

pub fn table<T: DeserializeOwned>(given: &Given, wanted: &str) -> Result<T, String> {
    match given {
        Given::Toml(value) => {
            let read = value.clone().try_into::<T>();
            read.map_err(|error| format!("expected {wanted}: {}", error.message()))
        }
        Given::Text(_) => Err(format!(
            "expected {wanted} in the settings file, found a word"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_for_workers_are_read_whole_or_refused() {
        let toml = |text: &str| {
            let table: toml::Table = text.parse().expect("it is TOML");
            Given::Toml(toml::Value::Table(table)["x"].clone())
        };
        let given = toml("[x]\nsetup = 'make deps'\n[x.presets.claude]\nyolo = ['--trust']");
        let worker: Worker = table(&given, "a section").expect("it is one");
        assert_eq!(worker.setup.as_deref(), Some("make deps"));
        assert_eq!(worker.presets["claude"]["yolo"][0], "--trust");
        let given = toml("[[x]]\nrun = 'cargo test'\nparse = 'cargo'");
        let gates: Vec<GateSetting> = table(&given, "sections").expect("they are");
        assert_eq!(gates[0].run, "cargo test");
        for text in ["[x]\nsetpu = 1", "x = 7"] {
            assert!(table::<Worker>(&toml(text), "a section").is_err(), "{text}");
        }
        let text = Given::Text("x".to_owned());
        assert!(table::<Worker>(&text, "a section").is_err());
    }
}
