//! What every command gets: the shared options, the screen, and a way to the hub.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use clap::Args;
use switchboard_client::{Client, RetryPolicy};
use switchboard_hub::data_dir::Keys;
use switchboard_wire::signature::MasterKey;

use crate::discover::{self, Found};
use crate::failure::Failure;
use crate::screen::Screen;

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
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
    /// Token for the hub [default: SWITCHBOARD_TOKEN if --url or SWITCHBOARD_URL is set; the steward's for a local hub
    /// whose key you can read]
    #[arg(long, global = true, value_name = "TOKEN", help_heading = "Hub")]
    pub token: Option<String>,
    /// Certificate (PEM) to trust, for a hub with a self-signed one
    #[arg(
        long,
        global = true,
        env = "SWITCHBOARD_CA_CERT",
        value_name = "FILE",
        help_heading = "Hub"
    )]
    pub ca_cert: Option<PathBuf>,
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

    /// A client for the hub that is named, or that runs here.
    pub fn client(&self) -> Result<Client, Failure> {
        let (url, data_dir) = self.hub()?;
        self.client_for(&url, data_dir.as_deref())
    }

    /// The address of the hub and, if it runs on this machine, its data directory.
    fn hub(&self) -> Result<(String, Option<PathBuf>), Failure> {
        if let Some(url) = &self.options.url {
            return Ok((url.clone(), None));
        }
        match discover::find(&self.here) {
            Found::Running { data_dir, hub } => Ok((hub.url(), Some(data_dir))),
            other => Err(Failure::NoHub(no_hub(&other, &self.here))),
        }
    }

    /// A client for a hub that a person named, or for the one that was found with its data directory.
    pub fn client_for(&self, url: &str, data_dir: Option<&Path>) -> Result<Client, Failure> {
        let mut builder = Client::builder(url).retry(IMPATIENT);
        let key = data_dir.and_then(master_key);
        if let Some(token) = self.token(data_dir) {
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
        if let Some(pem) = self.authority(data_dir)? {
            builder = builder.authority(pem);
        }
        Ok(builder.build()?)
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

    /// The certificate to trust: the one named, else the one a hub on this machine made for itself.
    fn authority(&self, data_dir: Option<&Path>) -> Result<Option<Vec<u8>>, Failure> {
        let unreadable = |file: &Path, error: io::Error| {
            Failure::Failed(format!(
                "the certificate {} cannot be read: {error}",
                file.display()
            ))
        };
        if let Some(file) = &self.options.ca_cert {
            let read = fs::read(file).map(Some);
            return read.map_err(|error| unreadable(file, error));
        }
        let Some(file) = data_dir.map(|dir| dir.join(SELF_SIGNED)) else {
            return Ok(None);
        };
        match discover::read_own(&file, PEM_BYTES_MAX) {
            Ok(pem) => Ok(Some(pem.into_bytes())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&file, error)),
        }
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

/// Where a hub keeps the certificate it made for itself, below its data directory.
pub const SELF_SIGNED: &str = "tls-cert.pem";

/// The token for a hub that is named.
const TOKEN_VARIABLE: &str = "SWITCHBOARD_TOKEN";
/// Larger files are something else.
const PEM_BYTES_MAX: u64 = 1024 * 1024;
const KEY_BYTES_MAX: u64 = 1024;

/// Why there is no hub, and what to do.
pub fn no_hub(found: &Found, here: &Path) -> String {
    match found {
        Found::Running { data_dir, hub } => format!(
            "the hub of {} runs as process {}",
            data_dir.display(),
            hub.pid
        ),
        Found::Gone { data_dir, hub } => format!(
            "no hub is running here (process {} of {} has ended); restart it with 'switchboard up'",
            hub.pid,
            data_dir.join(discover::HUB_FILE).display()
        ),
        Found::Unreadable { file, reason } => {
            format!(
                "{} is not trusted: {reason}; restart the hub with 'switchboard up', or pass its address with --url",
                file.display()
            )
        }
        Found::Nothing => format!(
            "no hub is running here (looked for {}/{} in {} and its parents); start one with 'switchboard up'",
            discover::DATA_DIR,
            discover::HUB_FILE,
            here.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn context(token: Option<&str>) -> Context {
        let options = Options {
            url: None,
            token: token.map(str::to_owned),
            ca_cert: None,
            json: false,
            verbose: false,
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
        let client = |token, at| context(token).client_for(url, at).map(drop);
        assert!(client(None, Some(dir.path())).is_ok());
        let said = client(Some("sbt_1"), Some(dir.path())).unwrap_err();
        assert!(said.to_string().contains("--url"), "{said}");
        assert!(client(Some("sbt_1"), None).is_ok(), "a person named it");
        fs::write(dir.path().join(Keys::OWN), "07".repeat(32)).unwrap();
        assert!(client(Some("sbt_1"), Some(dir.path())).is_ok());
    }

    #[test]
    fn no_hub_is_said_plainly_with_the_next_step() {
        let text = no_hub(&Found::Nothing, Path::new("/x"));
        assert_eq!(
            text,
            "no hub is running here (looked for .switchboard/hub.json in /x and its parents); start one with 'switchboard up'"
        );
    }
}
