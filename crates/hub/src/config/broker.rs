//! Settings of the broker: where it listens, and the roles that a project adds to the canonical ones.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use switchboard_wire::squidrun::{Role, Roles};

use super::read::{Given, Setting, read};
use super::settings::{Draft, Entry, count};

/// The port that the broker listens on unless told otherwise.
pub const BROKER_PORT: u16 = 9900;

#[derive(Clone, Debug, PartialEq)]
pub struct Broker {
    /// None: it is off.
    pub listen: Option<SocketAddr>,
    /// Whether the port was asked for, too; else any other will do where it is taken.
    pub port_is_asked: bool,
    pub connections_max: u32,
    /// A connection that was silent for so long is sent a ping, and dropped if it answers none.
    pub ping_every: Duration,
    pub roles: Arc<Roles>,
    pub background: Background,
}

/// Programs that Builder has run for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// Builder's own, if absent.
    pub command: Option<String>,
    /// One that prints nothing and hears nothing for so long is ended.
    pub idle_for: Duration,
}

impl Default for Broker {
    fn default() -> Self {
        Broker {
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, BROKER_PORT))),
            port_is_asked: false,
            connections_max: 4096,
            ping_every: Duration::from_secs(30),
            roles: Arc::default(),
            background: Background {
                command: None,
                idle_for: Duration::from_secs(20 * 60),
            },
        }
    }
}

#[rustfmt::skip]
pub const BROKER_SETTINGS: &[Entry] = &[
    ("broker.listen", |d, g| read::<Listen>(g).map(|v| set_listen(broker(d), v))),
    ("broker.connections_max", |d, g| count(g).map(|v| broker(d).connections_max = v)),
    ("broker.ping_seconds", |d, g| count(g).map(|v| broker(d).ping_every = Duration::from_secs(v.into()))),
    ("squidrun.background.command", |d, g| command(g).map(|v| broker(d).background.command = Some(v))),
    ("squidrun.background.idle_seconds", |d, g| count(g).map(|v| broker(d).background.idle_for = Duration::from_secs(v.into()))),
    ("squidrun.roles", |d, g| roles(g).map(|v| broker(d).roles = Arc::new(v))),
];

fn broker(draft: &mut Draft) -> &mut Broker {
    &mut draft.config.broker
}

fn command(given: &Given) -> Result<String, String> {
    let line: String = read(given)?;
    match switchboard_child::Program::parse(&line) {
        Some(_) => Ok(line),
        None => Err(format!(
            "expected a program and its arguments, found {line:?}"
        )),
    }
}

fn set_listen(broker: &mut Broker, Listen(listen): Listen) {
    broker.port_is_asked = listen.is_some();
    broker.listen = listen;
}

/// Where to listen, or that the broker is off.
struct Listen(Option<SocketAddr>);

impl Setting for Listen {
    const WANTED: &'static str = "an address with a port, such as 127.0.0.1:9900, or \"off\"";

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "off" => Some(Listen(None)),
            text => SocketAddr::from_text(text).map(|listen| Listen(Some(listen))),
        }
    }
}

/// One table `[squidrun.roles.<name>]`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RoleTable {
    pane: String,
    title: String,
    aliases: Vec<String>,
    header: Vec<String>,
    responsibilities: String,
    skills: Vec<String>,
    command: Option<String>,
}

fn roles(given: &Given) -> Result<Roles, String> {
    let wrong = |found: &dyn std::fmt::Display| {
        format!("expected tables such as [squidrun.roles.reviewer] with pane = \"4\": {found}")
    };
    let Given::Toml(value) = given else {
        return Err(wrong(&"roles are set in switchboard.toml only"));
    };
    let tables: BTreeMap<String, RoleTable> =
        value.clone().try_into().map_err(|error| wrong(&error))?;
    let roles = tables.into_iter().map(|(id, table)| Role {
        id,
        title: table.title,
        pane: table.pane,
        aliases: table.aliases,
        header: table.header,
        responsibilities: table.responsibilities,
        skills: table.skills,
        command: table.command,
    });
    Roles::with(roles.collect()).map_err(|malformed| malformed.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{AuthMode, Config, ConfigError, Overrides, Tls};

    fn load(toml: &str) -> Result<Config, ConfigError> {
        let project = tempfile::tempdir().unwrap();
        std::fs::write(project.path().join("switchboard.toml"), toml).unwrap();
        let overrides = Overrides {
            project: Some(project.path().to_owned()),
            ..Overrides::default()
        };
        Config::load(None, [], &overrides).map(|loaded| {
            assert_eq!(loaded.warnings, [""; 0]);
            loaded.config
        })
    }

    #[test]
    fn a_role_of_the_configuration_becomes_a_target_with_its_words() {
        let config = load(
            "[squidrun.roles.reviewer]\npane = \"4\"\naliases = [\"review\"]\nheader = [\"REV\"]\n\
             responsibilities = \"reads\"\nskills = [\"rust\"]\ncommand = \"claude\"\n",
        );
        let roles = config.unwrap().broker.roles;
        for word in ["reviewer", "4", "REVIEW"] {
            let target = roles.target(word).unwrap();
            assert_eq!(target.id(), "reviewer".into(), "{word}");
        }
        let role = roles.by_header("rev").unwrap();
        assert_eq!(role.command.as_deref(), Some("claude"));
        assert_eq!(role.responsibilities, "reads");
    }

    #[test]
    fn a_canonical_role_takes_a_command_and_nothing_else() {
        let config = load("[squidrun.roles.builder]\ncommand = \"claude -c\"\n").unwrap();
        let roles = &config.broker.roles;
        let builder = roles.by_header("BUILDER").unwrap();
        assert_eq!(builder.command.as_deref(), Some("claude -c"));
        assert_eq!((&*builder.pane, roles.iter().count()), ("2", 6));
        let said = load("[squidrun.roles.builder]\naliases = [\"b\"]").unwrap_err();
        let said = said.to_string();
        assert!(said.contains("only its command can be set"), "{said}");
        assert!(load("[squidrun.roles.builder]\ncommand = \"\"").is_err());
        assert!(load("[squidrun.roles.builder-bg-1]\ncommand = \"x\"").is_err());
    }

    #[test]
    fn a_role_that_cannot_be_one_is_named() {
        for (toml, part) in [
            ("[squidrun]\nroles = 7", "[squidrun.roles.reviewer]"),
            ("[squidrun.roles.x]\npane = 4", "pane"),
            ("[squidrun.roles.x]\npane = \"4\"\npain = true", "pain"),
            ("[squidrun.roles.x]\npane = \"1\"", "architect"),
            ("[squidrun.roles.builder]\npane = \"9\"", "builder"),
            ("[squidrun.roles.user]\npane = \"9\"", "user"),
        ] {
            let said = load(toml).unwrap_err().to_string();
            assert!(said.contains("squidrun.roles"), "{toml}: {said}");
            assert!(said.contains(part), "{toml}: {said}");
        }
    }

    #[test]
    fn the_broker_listens_on_loopback_unless_told_otherwise() {
        let listen = |toml: &str| load(toml).map(|config| config.broker);
        let default = listen("").unwrap();
        assert_eq!(default.listen, Some("127.0.0.1:9900".parse().unwrap()));
        assert!(!default.port_is_asked);
        let asked = listen("[broker]\nlisten = \"localhost:7\"").unwrap();
        assert_eq!(asked.listen, Some("127.0.0.1:7".parse().unwrap()));
        assert!(asked.port_is_asked);
        assert_eq!(listen("[broker]\nlisten = \"off\"").unwrap().listen, None);
        assert!(listen("[broker]\nlisten = \"on\"").is_err());
    }

    #[test]
    fn beyond_loopback_it_takes_authentication_and_tls() {
        let mut config = Config::for_project("/p".into());
        config.broker.listen = Some("0.0.0.0:9900".parse().unwrap());
        config.http.insecure_bind = true;
        for (auth, tls, fits) in [
            (AuthMode::None, Tls::Off, false),
            (AuthMode::Hmac, Tls::Off, false),
            (AuthMode::None, Tls::SelfSigned, false),
            (AuthMode::Hmac, Tls::SelfSigned, true),
        ] {
            (config.auth, config.http.tls) = (auth, tls);
            assert_eq!(config.check_broker_address().is_ok(), fits, "{auth:?}");
        }
        config.auth = AuthMode::None;
        config.broker.listen = Some("[::1]:9900".parse().unwrap());
        assert!(config.check_broker_address().is_ok());
    }
}
