//! Ledgers that this hub leaves lying: the file of its data directory, and the one that `.jetpack/swarm.db` opens.
//!
//! A hand that wrote there would write for nobody, so they are marked until they are served again. The mark itself is
//! `switchboard_store::moved`.

use std::path::PathBuf;

use switchboard_store::copy::Place;
use switchboard_store::moved;

use crate::config::{Config, DATABASE};
use crate::swarm_db::SwarmDb;

/// Marks every ledger around that nobody serves while `served` is. What cannot be marked is told, and left as it is.
pub fn mark(config: &Config, served: &Place) {
    let own = config.data_dir.join(DATABASE);
    let swarm = SwarmDb::new(&config.project, &own);
    let linked = swarm.leads_to();
    let found = [Some(own), linked].into_iter().flatten();
    let mut files: Vec<PathBuf> = found.filter_map(|file| file.canonicalize().ok()).collect();
    files.dedup();
    for file in files {
        if Place::Sqlite(file.clone()).to_string() == served.to_string()
            || swarm.served_by(&file).is_some()
        {
            continue;
        }
        match moved::leave(&file, &served.to_string()) {
            Ok(true) => tracing::info!(
                "sqlite:{} is not served and refuses writes until a hub serves it again",
                file.display()
            ),
            Ok(false) => {}
            Err(error) => tracing::warn!(
                "sqlite:{} is not served and could not be marked as such ({error}); do not write to it",
                file.display()
            ),
        }
    }
}
