//! `switchboard worker --presets`: the programs that are known, and how they are called.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use switchboard_child::Preset;
use switchboard_child::preset::NAMES;
use switchboard_hub::config::Config;

use crate::failure::Failure;
use crate::screen::{Screen, Table, cell};

/// The built-in ones with what the settings change, then the settings' own.
pub fn all(settings: &Config) -> Result<Vec<(String, Preset)>, Failure> {
    let given = &settings.worker.presets;
    let own = given
        .keys()
        .map(String::as_str)
        .filter(|name| !NAMES.contains(name));
    let names = NAMES.into_iter().chain(own);
    let presets = names.map(|name| {
        let base = Preset::named(name).unwrap_or_default();
        let changed = match given.get(name) {
            Some(members) => base.changed(members.clone()),
            None => Ok(base),
        };
        let wrong =
            |why| Failure::Failed(format!("worker.presets.{name} in switchboard.toml: {why}"));
        Ok((name.to_owned(), changed.map_err(wrong)?))
    });
    presets.collect()
}

pub fn show(settings: &Config, screen: &mut Screen) -> Result<(), Failure> {
    let presets = all(settings)?;
    if screen.json() {
        return Ok(screen.value(&BTreeMap::from_iter(presets))?);
    }
    let mut table = Table::new(
        [
            "PRESET",
            "CALLED AS",
            "WITH CHECKS",
            "WITH --yolo",
            "RESUMES",
            "PROMPT",
            "OUTPUT",
            "STOP",
        ],
        "",
    );
    for (name, preset) in &presets {
        table.row([
            cell(name),
            cell(preset.argv.join(" ")),
            cell(preset.checked.join(" ")),
            cell(preset.yolo.join(" ")),
            cell(if preset.resume.is_empty() {
                "no"
            } else {
                "yes"
            }),
            cell(word(&preset.prompt)?),
            cell(word(&preset.output)?),
            cell(word(&preset.stop)?),
        ]);
    }
    Ok(screen.table(&table)?)
}

/// As the settings have it.
fn word(member: &impl Serialize) -> Result<String, Failure> {
    match serde_json::to_value(member) {
        Ok(Value::String(word)) => Ok(word),
        Ok(other) => Ok(other.to_string()),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}
