//! What every command gets: the shared options, the screen, and a way to the hub.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use clap::Args;
use switchboard_client::{Client, RetryPolicy};
use switchboard_wire::signature::MasterKey;

use crate::discover::{self, Found};
use crate::failure::Failure;
use crate::screen::Screen;

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Address of the hub [default: the one running for this project]
    #[arg(
        long,
        global = true,
        env = "SWITCHBOARD_URL",
        value_name = "URL",
        help_heading = "Hub"
    )]
    pub url: Option<String>,
    /// Token to show the hub, if it asks for one [default: that of the steward, if the hub runs here and is yours]
    #[arg(
        long,
        global = true,
        env = "SWITCHBOARD_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        help_heading = "Hub"
    )]
    pub token: Option<String>,
    /// Certificate (PEM) to trust, for a hub that made its own
    #[arg(
        long,
        global = true,
        env = "SWITCHBOARD_CA_CERT",
        value_name = "FILE",
        help_heading = "Hub"
    )]
    pub ca_cert: Option<PathBuf>,
    /// Print the hub's answer as JSON
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// Log what is sent, to stderr
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

    pub fn client_for(&self, url: &str, data_dir: Option<&Path>) -> Result<Client, Failure> {
        let mut builder = Client::builder(url).retry(IMPATIENT);
        if let Some(token) = self.token(data_dir) {
            builder = builder.token(token);
        }
        if let Some(file) = self.authority(data_dir) {
            let pem = fs::read(&file).map_err(|error| {
                Failure::Failed(format!(
                    "the certificate {} cannot be read: {error}",
                    file.display()
                ))
            })?;
            builder = builder.authority(pem);
        }
        Ok(builder.build()?)
    }

    /// The token given, else that of the hub on this machine whose master key this person can read.
    pub fn token(&self, data_dir: Option<&Path>) -> Option<String> {
        let given = self.options.token.clone();
        let own = || {
            let key = fs::read_to_string(data_dir?.join(KEY_FILE)).ok()?;
            Some(MasterKey::from_hex(&key)?.steward_token())
        };
        given.filter(|token| !token.is_empty()).or_else(own)
    }

    /// The certificate to trust: the one named, else the one a hub on this machine made for itself.
    fn authority(&self, data_dir: Option<&Path>) -> Option<PathBuf> {
        let own = || {
            data_dir
                .map(|dir| dir.join(SELF_SIGNED))
                .filter(|file| file.is_file())
        };
        self.options.ca_cert.clone().or_else(own)
    }
}

/// A person waits: a hub that restarts is waited for, but not for long.
const IMPATIENT: RetryPolicy = RetryPolicy {
    tries: 3,
    first_wait: Duration::from_millis(200),
    wait_max: Duration::from_secs(10),
};

/// Where a hub keeps the certificate it made for itself, below its data directory.
pub const SELF_SIGNED: &str = "tls-cert.pem";

/// Where a hub keeps its master key, below its data directory.
const KEY_FILE: &str = "key";

/// Why there is no hub, and what to do.
pub fn no_hub(found: &Found, here: &Path) -> String {
    match found {
        Found::Running { data_dir, hub } => format!(
            "the hub of {} runs as process {}",
            data_dir.display(),
            hub.pid
        ),
        Found::Gone { data_dir, hub } => format!(
            "no hub is running here (process {} of {} is gone); start it again with 'switchboard up'",
            hub.pid,
            data_dir.join(discover::HUB_FILE).display()
        ),
        Found::Unreadable { file, reason } => {
            format!(
                "{} cannot be read: {reason}; start the hub again with 'switchboard up', or name one with --url",
                file.display()
            )
        }
        Found::Nothing => format!(
            "no hub is running here (looked for {}/{} from {} upward); start one with 'switchboard up'",
            discover::DATA_DIR,
            discover::HUB_FILE,
            here.display()
        ),
    }
}

#[cfg(test)]
mod tests {
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
    fn whoever_can_read_the_master_key_is_the_steward_unless_a_token_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let here = Some(dir.path());
        assert_eq!(context(None).token(here), None, "there is no key");
        fs::write(dir.path().join(KEY_FILE), "no key").unwrap();
        assert_eq!(context(None).token(here), None, "it cannot be read");
        fs::write(dir.path().join(KEY_FILE), "07".repeat(32)).unwrap();
        let own = MasterKey::new([7; 32]).steward_token();
        assert_eq!(context(None).token(here), Some(own.clone()));
        assert_eq!(context(Some("")).token(here), Some(own));
        assert_eq!(context(Some("sbt_1")).token(here), Some("sbt_1".to_owned()));
        assert_eq!(context(None).token(None), None, "the hub is elsewhere");
    }

    #[test]
    fn no_hub_is_said_plainly_with_the_next_step() {
        let text = no_hub(&Found::Nothing, Path::new("/x"));
        assert_eq!(
            text,
            "no hub is running here (looked for .switchboard/hub.json from /x upward); start one with 'switchboard up'"
        );
    }
}
