//! Flags over environment over `switchboard.toml` over the project's `dev.toml` over defaults, merged key by key.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::bus::{DEV_FILE, DEV_SETTINGS, DevFile};
use super::file::{flatten, is_section, read_file};
use super::read::{Given, read};
use super::settings::{self, Draft, variable};
use super::{
    BotToken, CONFIG_FILE, Config, DATA_DIR, LOGIST_JOBS_DIR, LOGIST_KEY, PostgresUrl, StoreAt,
    TELEGRAM_CHAT, TELEGRAM_TOKEN, Tls,
};
use crate::serve::SURFACES;

/// A configuration, and what in its sources nobody understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<String>,
}

/// What the command line says; keys as in the file, such as `http.listen`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    pub project: Option<PathBuf>,
    pub settings: Vec<(&'static str, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: String },
    #[error("{} is not valid TOML: {reason}", file.display())]
    Syntax { file: PathBuf, reason: String },
    #[error("{key} ({place}): {reason}")]
    Wrong {
        key: String,
        place: String,
        reason: String,
    },
    #[error(
        "{listen} can be reached from other machines, which requires {missing}; set that, listen on 127.0.0.1, or set [http] insecure_bind = true to run without"
    )]
    UnsafeAddress {
        listen: SocketAddr,
        missing: &'static str,
    },
    #[error(
        "the bus may listen on {listen} only with agent_bus.security = \"mTLS\": it is neither loopback nor an address of a container network; set that, listen on 127.0.0.1, or add its interface to agent_bus.interfaces if only containers can reach it"
    )]
    UnsafeBusAddress { listen: SocketAddr },
    #[error(
        "the broker may listen on {listen} only with {missing}: other machines can reach it; set that, or listen on 127.0.0.1"
    )]
    UnsafeBrokerAddress {
        listen: SocketAddr,
        missing: &'static str,
    },
}

impl Config {
    /// Reads `file` (or the project's `switchboard.toml`, if there is one) and lays environment and flags over it.
    pub fn load(
        file: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
        overrides: &Overrides,
    ) -> Result<Loaded, ConfigError> {
        let env: HashMap<String, String> = env
            .into_iter()
            .filter(|(name, _)| {
                let ours = ["SWITCHBOARD_", "TELEGRAM_", "LOGIST_"];
                ours.iter().any(|start| name.starts_with(start))
            })
            .collect();
        let project = project(&env, overrides)?;
        let file = file
            .map(Path::to_owned)
            .or_else(|| env.get("SWITCHBOARD_CONFIG").map(PathBuf::from));
        let (place, table) = match file {
            Some(file) => (
                file.clone(),
                read_file(&file)?.ok_or(ConfigError::Unreadable {
                    file,
                    reason: "there is no such file".to_owned(),
                })?,
            ),
            None => {
                let file = project.join(CONFIG_FILE);
                let table = read_file(&file)?.unwrap_or_default();
                (file, table)
            }
        };
        let mut draft = Draft::new(Config::for_project(project.clone()));
        let own = flatten(table);
        if let Some(file) = dev_file(&own, &place, &env, overrides)? {
            draft.lay_dev_file(&project.join(file))?;
        }
        let mut warnings = draft.lay_file(own, &place)?;
        for (key, _) in settings::all() {
            let name = variable(key);
            if let Some(text) = env.get(&name) {
                let place = format!("environment variable {name}");
                draft.set(key, &Given::Text(text.clone()), &place)?;
            }
        }
        for (key, text) in &overrides.settings {
            draft.set(key, &Given::Text(text.clone()), "command line")?;
        }
        let set = |name: &str| {
            env.get(name)
                .filter(|value| !value.trim().is_empty())
                .cloned()
        };
        draft.config.telegram.token = set(TELEGRAM_TOKEN).map(BotToken);
        draft.config.telegram.chat = set(TELEGRAM_CHAT);
        let logist = &mut draft.config.logist;
        logist.key.text = set(LOGIST_KEY);
        let named = logist.dir_name.take();
        logist.dir_name = named.or_else(|| set(LOGIST_JOBS_DIR).map(PathBuf::from));
        let config = draft.finish()?;
        for surface in SURFACES {
            warnings.extend((surface.doubts)(&config));
        }
        Ok(Loaded { config, warnings })
    }
}

/// Which `dev.toml` to read: known before anything is laid over anything.
fn dev_file(
    own: &[(String, toml::Value)],
    place: &Path,
    env: &HashMap<String, String>,
    overrides: &Overrides,
) -> Result<Option<PathBuf>, ConfigError> {
    const KEY: &str = "bus.dev_file";
    let flag = overrides.settings.iter().rev().find(|(key, _)| *key == KEY);
    let filed = own.iter().find(|(key, _)| key == KEY);
    let name = variable(KEY);
    let (given, place) = match (flag, env.get(&name), filed) {
        (Some((_, text)), _, _) => (Given::Text(text.clone()), "command line".to_owned()),
        (None, Some(text), _) => {
            let place = format!("environment variable {name}");
            (Given::Text(text.clone()), place)
        }
        (None, None, Some((_, value))) => (Given::Toml(value.clone()), place.display().to_string()),
        (None, None, None) => return Ok(Some(PathBuf::from(DEV_FILE))),
    };
    read::<DevFile>(&given)
        .map(|DevFile(file)| file)
        .map_err(|reason| wrong(KEY, &place, reason))
}

fn project(env: &HashMap<String, String>, overrides: &Overrides) -> Result<PathBuf, ConfigError> {
    let named = overrides
        .project
        .clone()
        .or_else(|| env.get("SWITCHBOARD_PROJECT").map(PathBuf::from));
    let project = named.unwrap_or_else(|| PathBuf::from("."));
    std::path::absolute(&project).map_err(|error| ConfigError::Unreadable {
        file: project,
        reason: error.to_string(),
    })
}

impl Draft {
    fn new(config: Config) -> Self {
        Draft {
            config,
            data_dir: None,
            store_path: None,
            store_url: None,
            tls_cert: None,
            tls_key: None,
            tls_self_signed: false,
        }
    }

    /// Only the keys that are its own count in a `dev.toml`; whatever else stands there is somebody else's.
    fn lay_dev_file(&mut self, file: &Path) -> Result<(), ConfigError> {
        let place = file.display().to_string();
        for (key, value) in flatten(read_file(file)?.unwrap_or_default()) {
            let known = DEV_SETTINGS.iter().any(|(known, _)| *known == key);
            if known || is_section(&key, DEV_SETTINGS.iter()) {
                self.set(&key, &Given::Toml(value), &place)?;
            }
        }
        Ok(())
    }

    /// Returns what nobody understood.
    fn lay_file(
        &mut self,
        flat: Vec<(String, toml::Value)>,
        place: &Path,
    ) -> Result<Vec<String>, ConfigError> {
        let place = place.display().to_string();
        let mut warnings = Vec::new();
        for (key, value) in flat {
            if settings::find(&key).is_none() && !is_section(&key, settings::all()) {
                warnings.push(format!("{place}: unknown setting {key}; it is ignored"));
                continue;
            }
            self.set(&key, &Given::Toml(value), &place)?;
        }
        Ok(warnings)
    }

    fn set(&mut self, key: &str, given: &Given, place: &str) -> Result<(), ConfigError> {
        let applied = match settings::find(key) {
            Some(apply) => apply(self, given),
            None => Err(format!("expected a section [{key}], found a value")),
        };
        applied.map_err(|reason| wrong(key, place, reason))
    }

    fn finish(mut self) -> Result<Config, ConfigError> {
        let project = self.config.project.clone();
        self.config.data_dir =
            project.join(self.data_dir.take().unwrap_or_else(|| DATA_DIR.into()));
        self.config.store = self.store_at(&project)?;
        for surface in SURFACES {
            (surface.resolve)(&mut self.config);
        }
        self.config.http.tls = match (self.tls_cert, self.tls_key, self.tls_self_signed) {
            (Some(cert), Some(key), false) => Tls::Files {
                cert: project.join(cert),
                key: project.join(key),
            },
            (None, None, true) => Tls::SelfSigned,
            (None, None, false) => Tls::Off,
            (Some(_), None, _) => {
                return Err(wrong(
                    "http.tls_key",
                    "settings",
                    "tls_cert requires it".to_owned(),
                ));
            }
            (None, Some(_), _) => {
                return Err(wrong(
                    "http.tls_cert",
                    "settings",
                    "tls_key requires it".to_owned(),
                ));
            }
            (Some(_), Some(_), true) => {
                let reason = "set it, or tls_cert and tls_key, but not both".to_owned();
                return Err(wrong("http.tls_self_signed", "settings", reason));
            }
        };
        Ok(self.config)
    }

    fn store_at(&self, project: &Path) -> Result<StoreAt, ConfigError> {
        let path = match (&self.store_path, &self.store_url) {
            (Some(path), _) => path.clone(),
            (None, Some(url)) if is_postgres(url) => {
                return PostgresUrl::parse(url)
                    .map(StoreAt::Postgres)
                    .map_err(|error| wrong("store.url", "settings", error.to_string()));
            }
            (None, Some(url)) => sqlite_path(url).ok_or_else(|| {
                let reason = "use sqlite:<path> or postgres://user@host/database, or store.path";
                wrong("store.url", "settings", reason.to_owned())
            })?,
            (None, None) => self.config.data_dir.join(super::DATABASE),
        };
        Ok(StoreAt::Sqlite(project.join(path)))
    }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

fn sqlite_path(url: &str) -> Option<PathBuf> {
    let path = match url.split_once(':') {
        Some(("sqlite" | "file", rest)) => rest.strip_prefix("//").unwrap_or(rest),
        _ => return None,
    };
    (!path.is_empty()).then(|| path.into())
}

fn wrong(key: &str, place: &str, reason: String) -> ConfigError {
    ConfigError::Wrong {
        key: key.to_owned(),
        place: place.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AuthMode, LogFormat};

    fn load(
        toml: &str,
        env: &[(&str, &str)],
        flags: &[(&'static str, &str)],
    ) -> Result<Loaded, ConfigError> {
        let project = tempfile::tempdir().unwrap();
        std::fs::write(project.path().join(CONFIG_FILE), toml).unwrap();
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let overrides = Overrides {
            project: Some(project.path().to_owned()),
            settings: flags
                .iter()
                .map(|(key, value)| (*key, (*value).to_owned()))
                .collect(),
        };
        Config::load(None, env, &overrides)
    }

    #[test]
    fn the_commented_file_says_what_holds_anyway() {
        let project = tempfile::tempdir().unwrap();
        let overrides = Overrides {
            project: Some(project.path().to_owned()),
            ..Overrides::default()
        };
        let defaults = Config::load(None, [], &overrides).unwrap();
        assert_eq!(
            defaults.config,
            Config::for_project(project.path().to_owned())
        );
        // Every commented setting is put in force, and changes nothing.
        let uncommented: String = Config::commented_default()
            .lines()
            .map(|line| line.strip_prefix("#: ").unwrap_or(line))
            .map(|line| format!("{line}\n"))
            .collect();
        for text in [Config::commented_default(), &uncommented] {
            std::fs::write(project.path().join(CONFIG_FILE), text).unwrap();
            let mut loaded = Config::load(None, [], &overrides).unwrap();
            // To write the default down is to ask for it.
            loaded.config.bus.port_is_asked = false;
            loaded.config.broker.port_is_asked = false;
            assert_eq!(loaded, defaults);
        }
        for (key, _) in settings::all() {
            let (_, name) = key.rsplit_once('.').unwrap_or(("", key));
            assert!(
                uncommented.contains(&format!("{name} ="))
                    || uncommented.contains(&format!("[{name}]"))
                    || uncommented.contains(&format!("[{key}]")),
                "the commented file does not mention {key}"
            );
        }
    }

    #[test]
    fn flags_stand_over_environment_over_file_over_defaults() {
        let file = "[http]\nlisten = \"127.0.0.1:1\"\n";
        let env = [("SWITCHBOARD_HTTP_LISTEN", "127.0.0.1:2")];
        let flags = [("http.listen", "localhost:3")];
        let port = |loaded: Result<Loaded, ConfigError>| loaded.unwrap().config.http.listen.port();
        assert_eq!(port(load("", &[], &[])), 7373);
        assert_eq!(port(load(file, &[], &[])), 1);
        assert_eq!(port(load(file, &env, &[])), 2);
        assert_eq!(port(load(file, &env, &flags)), 3);
    }

    #[test]
    fn a_wrong_type_is_refused_and_named() {
        let cases = [
            ("[http]\nlisten = 7", "http.listen"),
            ("[http]\nlisten = \"nowhere\"", "http.listen"),
            ("[limits]\nenabled = \"yes\"", "limits.enabled"),
            ("[limits]\nclaim_per_minute = 0", "limits.claim_per_minute"),
            ("[quality]\ncoverage_min = 101", "quality.coverage_min"),
            ("[http]\ntrusted_proxies = [\"x\"]", "http.trusted_proxies"),
            ("[store]\nmode = \"0644\"", "store.mode"),
            ("[files]\nrescan_ms = 0", "files.rescan_ms"),
            ("[files]\nkeep_hours = \"long\"", "files.keep_hours"),
            ("auth = \"basic\"", "auth.mode"),
            ("[http.listen]\nport = 1", "http.listen"),
            ("limits = 7", "limits"),
            ("[policy]\nsync_main = true", "policy.sync_main"),
            ("[http]\ntls_cert = \"a.pem\"", "http.tls_key"),
            ("[store]\nurl = \"mysql://x\"", "store.url"),
            (
                "[store]\nurl = \"postgres://h/d?sslmode=maybe\"",
                "store.url",
            ),
        ];
        for (toml, key) in cases {
            let said = load(toml, &[], &[]).unwrap_err().to_string();
            assert!(said.starts_with(key), "{toml}: {said}");
        }
        let said = load("", &[("SWITCHBOARD_LIMITS_ENABLED", "maybe")], &[])
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("limits.enabled") && said.contains("SWITCHBOARD_LIMITS_ENABLED"),
            "{said}"
        );
        assert!(matches!(
            load("[http", &[], &[]),
            Err(ConfigError::Syntax { .. })
        ));
    }

    #[test]
    fn an_unknown_setting_is_warned_about() {
        let loaded = load(
            "[http]\nlissten = \"127.0.0.1:1\"\n[bus]\nlissten = \"off\"\n[far.away]\nx = 1",
            &[],
            &[],
        )
        .unwrap();
        assert_eq!(loaded.warnings.len(), 3);
        assert!(
            loaded
                .warnings
                .iter()
                .any(|warning| warning.contains("http.lissten"))
        );
    }

    #[test]
    fn both_spellings_of_the_mode_and_both_of_the_store_are_read() {
        for toml in ["auth = \"hmac\"", "[auth]\nmode = \"hmac\""] {
            assert_eq!(load(toml, &[], &[]).unwrap().config.auth, AuthMode::Hmac);
        }
        for (toml, end) in [
            ("[store]\npath = \".jetpack/swarm.db\"", ".jetpack/swarm.db"),
            ("[store]\nurl = \"sqlite:x.db\"", "x.db"),
            ("data_dir = \"state\"", "state/switchboard.db"),
        ] {
            let StoreAt::Sqlite(path) = load(toml, &[], &[]).unwrap().config.store else {
                panic!("{toml} names a file");
            };
            assert!(path.ends_with(end) && path.is_absolute(), "{path:?}");
        }
        let toml = "[store]\nurl = \"postgres://ann:secret@db/swarm\"";
        let config = load(toml, &[], &[]).unwrap().config;
        assert!(matches!(config.store, StoreAt::Postgres(_)));
        assert!(!format!("{config:?}").contains("secret"), "{config:?}");
        let files = load("[files]\nenabled = false\ndir = \"door\"", &[], &[]);
        let files = files.unwrap().config.files;
        assert!(!files.enabled && files.dir.is_absolute() && files.dir.ends_with("door"));
        assert_eq!(
            load("[log]\nformat = \"json\"", &[], &[])
                .unwrap()
                .config
                .log
                .format,
            LogFormat::Json
        );
    }
}
