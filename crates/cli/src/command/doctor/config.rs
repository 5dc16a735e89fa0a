//! Whether the settings can be read, and what in them nobody understands.

use std::path::Path;

use switchboard_hub::config::{CONFIG_FILE, Overrides};

use super::Check;
use crate::project;

pub fn checks(here: &Path) -> Vec<Check> {
    let loaded = match project::load(here, None, Overrides::default()) {
        Ok(loaded) => loaded,
        Err(error) => {
            return vec![Check::fail(
                "config",
                format!("{error}; fix it, or write a new one with 'switchboard init --force'"),
            )];
        }
    };
    let file = loaded.config.project.join(CONFIG_FILE);
    let mut checks: Vec<Check> = loaded
        .warnings
        .iter()
        .map(|warning| Check::warn("config", warning.clone()))
        .collect();
    let refused = loaded.config.refused().into_iter();
    checks.extend(refused.map(|error| Check::fail("config", error.to_string())));
    if checks.is_empty() {
        checks.push(if file.exists() {
            Check::ok("config", format!("{} is valid", file.display()))
        } else {
            Check::ok(
                "config",
                format!("no {CONFIG_FILE}, so the defaults apply; 'switchboard init' writes one"),
            )
        });
    }
    checks
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::State;
    use super::*;

    #[test]
    fn settings_are_understood_or_named() {
        let dir = tempfile::tempdir().unwrap();
        let states = || -> Vec<_> { checks(dir.path()).iter().map(|check| check.state).collect() };
        assert_eq!(states(), [State::Ok]);
        let file = dir.path().join(CONFIG_FILE);
        for (text, expected) in [
            ("", State::Ok),
            ("[http]\nlissten = \"x\"", State::Warn),
            ("[http]\nlisten = 7", State::Fail),
            ("[http", State::Fail),
            ("[http]\nlisten = \"0.0.0.0:1\"", State::Fail),
            ("[bus]\nlisten = \"203.0.113.7:1\"", State::Fail),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(states(), [expected], "{text}");
        }
    }
}
