//! What every command gets: the shared options, the screen, and a way to the hub.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use clap::Args;
use switchboard_client::broker::{Address, over_http};
use switchboard_client::{Builder, Client, Fingerprint, RetryPolicy};
use switchboard_hub::config::StoreAt;
use switchboard_hub::data_dir::Keys;
use switchboard_wire::signature::MasterKey;

use crate::discover::{self, Found, HubFile};
use crate::failure::Failure;
use crate::project;
use crate::screen::Screen;

/// Options that every command takes.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// Address of the hub [default: the hub running for this project]
    #[arg(
        long,
        global = true,
        env = "SWITCHBOARD_URL",
        value_name = "URL",
        help_heading = "Hub"
    )]
    pub url: Option<String>,
    /// Token for the hub [default: SWITCHBOARD_TOKEN if --url, SWITCHBOARD_URL or --broker is set; the steward's for a
    /// local hub whose key you can read]
    #[arg(long, global = true, value_name = "TOKEN", help_heading = "Hub")]
    pub token: Option<String>,
    /// The hub's data directory [default: that of the settings, else .switchboard in the project]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Hub")]
    pub data_dir: Option<PathBuf>,
    /// Certificate (PEM) to trust with --url or --broker: the hub's own, or that of its authority
    #[arg(
        long,
        global = true,
        env = "SWITCHBOARD_CA_CERT",
        value_name = "FILE",
        help_heading = "Hub"
    )]
    pub ca_cert: Option<PathBuf>,
    /// Fingerprint of the hub's certificate to trust with --url or --broker, as 'switchboard up' printed it
    #[arg(
        long,
        global = true,
        env = "SWITCHBOARD_CA_FINGERPRINT",
        value_name = "SHA256",
        help_heading = "Hub"
    )]
    pub ca_fingerprint: Option<Fingerprint>,
    /// Print JSON
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// Log requests to stderr
    #[arg(long, short, global = true, help_heading = "Output")]
    pub verbose: bool,
}

/// One run of the program.
pub struct Context {
    pub options: Options,
    pub screen: Screen,
    /// Where the command was started.
    pub here: PathBuf,
}

impl Context {
    pub fn new(options: Options) -> Result<Self, Failure> {
        let here = env::current_dir().map_err(|error| {
            Failure::Failed(format!("the current directory cannot be read: {error}"))
        })?;
        let screen = Screen::new(options.json);
        Ok(Self {
            options,
            screen,
            here,
        })
    }

    /// The hub in the data directory that was named, else the one that is found from here.
    pub fn find(&self) -> Found {
        match self.named_dir() {
            Some(dir) => discover::look(&dir),
            None => discover::find(&self.here),
        }
    }

    /// Where the hub's state is: as named, else of the hub that runs or ran, else of the one that would.
    pub fn data_dir(&self) -> PathBuf {
        let named = self.named_dir();
        named.unwrap_or_else(|| project::data_dir(&self.here))
    }

    fn named_dir(&self) -> Option<PathBuf> {
        let dir = self.options.data_dir.as_ref();
        dir.map(|dir| self.here.join(dir))
    }

    /// The ledger of that hub: what it serves if it runs, else what it would.
    pub fn ledger(&self) -> StoreAt {
        let served = project::served(&self.find());
        served.unwrap_or_else(|| project::configured(&self.data_dir(), &self.here))
    }

    /// A client for the hub that is named, or that runs here.
    pub fn client(&self) -> Result<Client, Failure> {
        if let Some(url) = &self.options.url {
            return self.client_for(url, None);
        }
        match self.find() {
            Found::Running { data_dir, hub } => {
                self.client_for(&hub.url(), Some((&data_dir, &hub)))
            }
            other => Err(Failure::NoHub(self.no_hub(&other))),
        }
    }

    /// The same, signing as the agent that is given.
    pub fn client_as(&self, agent: Option<(String, String)>) -> Result<Client, Failure> {
        let Some((id, key)) = agent else {
            return self.client();
        };
        let builder = match (&self.options.url, self.find()) {
            (Some(url), _) => self.builder_for(url, None, None)?,
            (None, Found::Running { data_dir, hub }) => {
                self.builder_for(&hub.url(), Some((&data_dir, &hub)), None)?
            }
            (None, other) => return Err(Failure::NoHub(self.no_hub(&other))),
        };
        Ok(builder.agent(id, key).build()?)
    }

    /// A client for a hub that a person named, or for the one that was found with its data directory.
    pub fn client_for(
        &self,
        url: &str,
        found: Option<(&Path, &HubFile)>,
    ) -> Result<Client, Failure> {
        let token = self.token(found.map(|(dir, _)| dir));
        Ok(self.builder_for(url, found, token)?.build()?)
    }

    fn builder_for(
        &self,
        url: &str,
        found: Option<(&Path, &HubFile)>,
        token: Option<String>,
    ) -> Result<Builder, Failure> {
        let mut builder = Client::builder(url).retry(IMPATIENT);
        let data_dir = found.map(|(dir, _)| dir);
        let key = data_dir.and_then(master_key);
        if let Some(token) = token {
            if let (Some(dir), None) = (data_dir, &key) {
                return Err(Failure::Failed(format!(
                    "the key in {} cannot be read, so the hub's identity cannot be verified; to send it a token anyway, pass its address with --url",
                    dir.display()
                )));
            }
            builder = builder.token(token);
        }
        // An address that was found may be somebody else's by now.
        if let Some(key) = key {
            builder = builder.proven_by(key);
        }
        // The certificate of a hub that was found may be for a name, and it is called by a number.
        let fingerprint = match found {
            Some((_, hub)) => hub.fingerprint(),
            None => self.options.ca_fingerprint,
        };
        let authority = self.options.ca_cert.as_ref().filter(|_| found.is_none());
        if let Some(fingerprint) = fingerprint {
            builder = builder.fingerprint(fingerprint);
        } else if let Some(file) = authority {
            let pem = fs::read(file).map_err(|error| {
                Failure::Failed(format!(
                    "the certificate {} cannot be read: {error}",
                    file.display()
                ))
            })?;
            builder = builder.authority(pem);
        }
        Ok(builder)
    }

    /// The broker that is named, else that of the hub that is named or found, else at the usual port.
    pub fn broker(&self, named: Option<&str>, role: &str) -> Result<Address, Failure> {
        if let Some(address) = self.known_broker(named, role)? {
            return Ok(address);
        }
        self.local_broker(BROKER_PORT, role)
    }

    /// As [`broker`](Self::broker), but nobody who happens to listen at the usual port.
    pub fn known_broker(
        &self,
        named: Option<&str>,
        role: &str,
    ) -> Result<Option<Address>, Failure> {
        let port = env::var(BROKER_PORT_VARIABLE).ok();
        let port: Option<u16> = port.and_then(|port| port.parse().ok());
        let running = match self.find() {
            Found::Running { data_dir, hub } => Some((data_dir, hub)),
            _ => None,
        };
        let running = running.as_ref().map(|(dir, hub)| (dir.as_path(), hub));
        let its = running.and_then(|(_, hub)| hub.broker_url());
        let (url, hub) = match (named, &self.options.url, its, running) {
            (Some(url), ..) => (url.to_owned(), self.client_for(&over_http(url), None)?),
            (None, Some(url), its, _) => {
                let hub = self.client_for(url, None)?;
                let its = its.filter(|_| running.is_some_and(|(_, hub)| hub.is_at(url)));
                let url = its.unwrap_or_else(|| hub.broker_at(port.unwrap_or(BROKER_PORT)));
                (url, hub)
            }
            (None, None, Some(url), Some((_, hub))) => (url, self.client_for(&hub.url(), running)?),
            _ => return port.map(|port| self.local_broker(port, role)).transpose(),
        };
        let role = role.to_owned();
        Ok(Some(Address { url, role, hub }))
    }

    /// Whoever listens there: it gets no token.
    fn local_broker(&self, port: u16, role: &str) -> Result<Address, Failure> {
        let (url, role) = (format!("ws://127.0.0.1:{port}"), role.to_owned());
        let hub = Client::new(&over_http(&url))?;
        Ok(Address { url, role, hub })
    }

    /// How agents and people on other machines reach the hub of this client.
    pub fn elsewhere(&self, client: &Client) -> Way {
        match self.find() {
            Found::Running { hub, .. } if self.options.url.is_none() => Way {
                fingerprint: hub.fingerprint().filter(|_| hub.tls_self_signed),
                url: hub.address.unwrap_or_else(|| client.address()),
            },
            _ => Way {
                fingerprint: self.options.ca_fingerprint,
                url: client.address(),
            },
        }
    }

    /// The token given; else that of the environment for a hub that a person named, or the steward's of one whose key this
    /// person can read.
    pub fn token(&self, data_dir: Option<&Path>) -> Option<String> {
        let given = some(self.options.token.clone());
        given.or_else(|| match data_dir {
            None => some(env::var(TOKEN_VARIABLE).ok()),
            Some(dir) => master_key(dir).map(|key| key.steward_token()),
        })
    }
}

impl Context {
    /// Why there is no hub, and what to do.
    pub fn no_hub(&self, found: &Found) -> String {
        match (found, self.named_dir()) {
            (Found::Running { data_dir, hub }, _) => format!(
                "the hub of {} runs as process {}",
                data_dir.display(),
                hub.pid
            ),
            (Found::Gone { data_dir, hub }, _) => format!(
                "no hub is running here (process {} of {} has ended); restart it with 'switchboard up'",
                hub.pid,
                data_dir.join(discover::HUB_FILE).display()
            ),
            (Found::Unreadable { file, reason }, _) => {
                format!(
                    "{} is not trusted: {reason}; restart the hub with 'switchboard up', or pass its address with --url",
                    file.display()
                )
            }
            (Found::Nothing, Some(dir)) => format!(
                "no hub is running with the data directory {}; start one with 'switchboard up --data-dir'",
                dir.display()
            ),
            (Found::Nothing, None) => format!(
                "no hub is running here (looked for {}/{} in {} and its parents); start one with 'switchboard up', or pass its data directory with --data-dir",
                discover::DATA_DIR,
                discover::HUB_FILE,
                self.here.display()
            ),
        }
    }
}

/// The way to a hub.
pub struct Way {
    pub url: String,
    /// Of a certificate that no authority vouches for.
    fingerprint: Option<Fingerprint>,
}

impl Way {
    /// As lines for a shell.
    pub fn print(&self, screen: &mut Screen) -> io::Result<()> {
        screen.line(format_args!("  export SWITCHBOARD_URL={}", self.url))?;
        if let Some(fingerprint) = self.fingerprint {
            screen.line(format_args!(
                "  export SWITCHBOARD_CA_FINGERPRINT={fingerprint}"
            ))?;
        }
        Ok(())
    }
}

/// An empty variable or option is none.
fn some(token: Option<String>) -> Option<String> {
    token.filter(|token| !token.is_empty())
}

/// The key of the ledger that is served from a data directory, if this person can read it and nobody else write it.
pub fn master_key(data_dir: &Path) -> Option<MasterKey> {
    let read = |name| discover::read_own(&data_dir.join(name), KEY_BYTES_MAX).ok();
    let text = read(Keys::SHARED).or_else(|| read(Keys::OWN))?;
    MasterKey::from_hex(&text)
}

/// A person waits: a hub that restarts is waited for, but not for long.
const IMPATIENT: RetryPolicy = RetryPolicy {
    tries: 3,
    first_wait: Duration::from_millis(200),
    wait_max: Duration::from_secs(10),
};

/// The agent and its key, where they were exported as 'switchboard agent add' prints them.
pub fn exported_agent() -> Option<(String, String)> {
    let given = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    given("SWITCHBOARD_AGENT").zip(given("SWITCHBOARD_KEY"))
}

/// The token for a hub that is named.
const TOKEN_VARIABLE: &str = "SWITCHBOARD_TOKEN";
/// Where the original of the broker listens, and the variable that names another port.
const BROKER_PORT: u16 = 9900;
const BROKER_PORT_VARIABLE: &str = "HM_SEND_PORT";
/// Larger files are something else.
const KEY_BYTES_MAX: u64 = 1024;

#[cfg(test)]
impl Context {
    pub fn at(here: &Path) -> Context {
        Context {
            options: Options::default(),
            screen: Screen::new(false),
            here: here.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn context(token: Option<&str>) -> Context {
        let options = Options {
            token: token.map(str::to_owned),
            ..Options::default()
        };
        Context::new(options).unwrap()
    }

    #[test]
    fn the_key_of_what_is_served_is_read_unless_others_can_write_it() {
        let dir = tempfile::tempdir().unwrap();
        let token = || master_key(dir.path()).map(|key| key.steward_token());
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(token(), None, "there is no key");
        put(Keys::OWN, "no key");
        assert_eq!(token(), None, "it cannot be read");
        put(Keys::OWN, &"07".repeat(32));
        assert_eq!(token(), Some(MasterKey::new([7; 32]).steward_token()));
        put(Keys::SHARED, &"08".repeat(32));
        assert_eq!(token(), Some(MasterKey::new([8; 32]).steward_token()));
        for name in [Keys::OWN, Keys::SHARED] {
            let open = fs::Permissions::from_mode(0o666);
            fs::set_permissions(dir.path().join(name), open).unwrap();
        }
        assert_eq!(token(), None, "anybody could have put it there");
    }

    #[test]
    fn a_token_for_a_hub_that_cannot_prove_itself_is_not_sent() {
        let dir = tempfile::tempdir().unwrap();
        let url = "http://127.0.0.1:1";
        let hub = HubFile::at("127.0.0.1:1");
        let found = Some((dir.path(), &hub));
        let client = |token, found| context(token).client_for(url, found).map(drop);
        assert!(client(None, found).is_ok());
        let said = client(Some("sbt_1"), found).unwrap_err();
        assert!(said.to_string().contains("--url"), "{said}");
        assert!(client(Some("sbt_1"), None).is_ok(), "a person named it");
        fs::write(dir.path().join(Keys::OWN), "07".repeat(32)).unwrap();
        assert!(client(Some("sbt_1"), found).is_ok());
    }

    #[test]
    fn no_hub_is_said_plainly_with_the_next_step() {
        let mut context = Context::at(Path::new("/x"));
        assert_eq!(
            context.no_hub(&Found::Nothing),
            "no hub is running here (looked for .switchboard/hub.json in /x and its parents); start one with 'switchboard up', or pass its data directory with --data-dir"
        );
        context.options.data_dir = Some("y".into());
        assert_eq!(
            context.no_hub(&Found::Nothing),
            "no hub is running with the data directory /x/y; start one with 'switchboard up --data-dir'"
        );
    }
}
