//! A door of the hub as the rest of it sees one: its settings, how it opens, what it says of itself, how it closes.
//!
//! The doors that there are stand in one table, [`crate::serve::SURFACES`]. Settings, `hub.json`, metrics, what `up` prints
//! and what `doctor` looks at follow from it. What goes on in a door is its own business.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use prometheus_client::encoding::DescriptorEncoder;

use crate::config::{Config, ConfigError, Entry};
use crate::data_dir::DataDir;
use crate::http::App;
use crate::serve::ServeError;

/// A kind of door.
pub(crate) struct Surface {
    pub name: &'static str,
    /// Its settings, in the order in which those of one source are applied.
    pub settings: &'static [&'static [Entry]],
    /// Fills in what depends on other settings.
    pub resolve: fn(&mut Config),
    /// Settings that are each allowed but do not go together.
    pub doubts: fn(&Config) -> Vec<String>,
    /// Whether it may open as the settings say.
    pub check: fn(&Config) -> Result<(), ConfigError>,
    /// What it leaves in the project that is not meant to be committed.
    pub leaves: fn(&Config) -> Vec<PathBuf>,
    /// Takes what it must have before the ledger is served, such as its address. `None` if it stays closed.
    pub bind: fn(&Config, &DataDir) -> Result<Option<Opener>, ServeError>,
}

/// Opens a door once the hub serves.
pub(crate) type Opener = Box<dyn for<'a> FnOnce(&'a Arc<App>, &'a Config) -> Opening<'a> + Send>;
pub(crate) type Opening<'a> = BoxFuture<'a, Result<Open, ServeError>>;

/// A door that is open.
pub(crate) struct Open {
    /// Where it listens, if it does; the first of its addresses.
    pub addr: Option<SocketAddr>,
    /// What `hub.json` says of it.
    pub card: Vec<(&'static str, serde_json::Value)>,
    /// What `up` prints about it.
    pub line: Option<String>,
    /// What it counts.
    pub figures: Option<Figures>,
    /// After the app's token was canceled: lets what was accepted finish.
    pub close: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send + Sync>,
}

/// One look at what a door counts, for `/metrics`.
pub(crate) type Figures = Arc<dyn Fn(&mut DescriptorEncoder<'_>) -> fmt::Result + Send + Sync>;

impl Surface {
    /// A door without settings, that always opens and leaves nothing behind.
    pub const fn new(
        name: &'static str,
        bind: fn(&Config, &DataDir) -> Result<Option<Opener>, ServeError>,
    ) -> Surface {
        Surface {
            name,
            settings: &[],
            resolve: |_| {},
            doubts: |_| Vec::new(),
            check: |_| Ok(()),
            leaves: |_| Vec::new(),
            bind,
        }
    }
}
