//! The project around a directory, and the settings that hold for it.

use std::env;
use std::path::{Path, PathBuf};

use switchboard_hub::config::{
    CONFIG_FILE, Config, ConfigError, DATABASE, Loaded, Overrides, PostgresUrl, StoreAt,
};

use crate::discover::{self, Found};

/// The project that a hub started in `here` is for.
///
/// A directory that has settings or state of a hub is a project; else the main worktree around it is, because all
/// worktrees of a repository share one hub; else the directory itself.
pub fn around(here: &Path) -> PathBuf {
    if here.join(CONFIG_FILE).exists() || here.join(discover::DATA_DIR).exists() {
        return here.to_owned();
    }
    discover::main_worktree(here).unwrap_or_else(|| here.to_owned())
}

/// The settings for a hub started in `here`: flags over environment over file over defaults.
pub fn load(here: &Path, file: Option<&Path>, mut flags: Overrides) -> Result<Loaded, ConfigError> {
    if flags.project.is_none() && env::var_os("SWITCHBOARD_PROJECT").is_none() {
        flags.project = Some(around(here));
    }
    // A variable that is no text is none of ours.
    let variables = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Config::load(file, variables, &flags)
}

/// Where the state of the hub around `here` lies: of the one that runs or ran, else of the one that would.
pub fn data_dir(here: &Path) -> PathBuf {
    let known = match discover::find(here) {
        discover::Found::Running { data_dir, .. } | discover::Found::Gone { data_dir, .. } => {
            Some(data_dir)
        }
        discover::Found::Unreadable { .. } | discover::Found::Nothing => None,
    };
    known
        .or_else(|| {
            load(here, None, Overrides::default())
                .ok()
                .map(|loaded| loaded.config.data_dir)
        })
        .unwrap_or_else(|| discover::data_dir(here))
}

/// The data directory that the settings of `root` name, if they name one.
pub fn data_dir_by_settings(root: &Path) -> Option<PathBuf> {
    let variables = ["SWITCHBOARD_DATA_DIR", "SWITCHBOARD_CONFIG"];
    let is_named = |name| env::var_os(name).is_some();
    if !root.join(CONFIG_FILE).is_file() && !variables.into_iter().any(is_named) {
        return None;
    }
    let flags = Overrides {
        project: Some(root.to_owned()),
        ..Overrides::default()
    };
    let loaded = load(root, None, flags).ok()?;
    Some(loaded.config.data_dir)
}

/// What a running hub serves, as it says itself.
pub fn served(found: &Found) -> Option<StoreAt> {
    let Found::Running { hub, .. } = found else {
        return None;
    };
    let store = hub.store.as_deref()?;
    match store.strip_prefix("sqlite:") {
        Some(file) => Some(StoreAt::Sqlite(file.into())),
        None => PostgresUrl::parse(store).ok().map(StoreAt::Postgres),
    }
}

/// What a hub around `here` with this data directory would serve by its settings.
pub fn configured(data_dir: &Path, here: &Path) -> StoreAt {
    let project = match data_dir.file_name() {
        Some(name) if name == discover::DATA_DIR => data_dir.parent().unwrap_or(here),
        Some(_) | None => here,
    };
    let flags = Overrides {
        project: None,
        settings: vec![("data_dir", data_dir.display().to_string())],
    };
    match load(project, None, flags) {
        Ok(Loaded { config, .. }) => config.store,
        Err(_) => StoreAt::Sqlite(data_dir.join(DATABASE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_with_settings_is_a_project_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(around(root.path()), root.path());
        fs::write(
            root.path().join(CONFIG_FILE),
            "[store]\npath = \"other.db\"\n",
        )
        .unwrap();
        assert_eq!(around(root.path()), root.path());
        let dir = data_dir(root.path());
        assert_eq!(dir, root.path().join(discover::DATA_DIR));
        assert_eq!(
            configured(&dir, root.path()),
            StoreAt::Sqlite(root.path().join("other.db"))
        );
    }
}
