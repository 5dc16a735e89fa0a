//! Whether Jetpack's tools, which open `.jetpack/swarm.db`, reach the hub's ledger.

use switchboard_hub::config::StoreAt;
use switchboard_hub::swarm_db::{LinkState, SwarmDb};

use super::{Check, Scene};

const NAME: &str = "swarm.db";

pub fn check(scene: &Scene) -> Option<Check> {
    let config = scene.config.as_ref()?;
    let shown = SwarmDb::SHOWN;
    let StoreAt::Sqlite(ledger) = &scene.store else {
        return unreached(scene);
    };
    if !config.swarm_db {
        let text = format!("{shown} is not used ([store] swarm_db = false)");
        return Some(Check::ok(NAME, text));
    }
    Some(match SwarmDb::new(&config.project, ledger).look() {
        LinkState::Linked => Check::ok(NAME, format!("{shown} opens the ledger")),
        LinkState::Ledger => Check::ok(NAME, format!("{shown} is the ledger")),
        LinkState::Absent => match scene.holder {
            Some(_) => Check::warn(
                NAME,
                format!(
                    "{shown} is missing, so tools cannot reach the hub through it; restart the hub to create it"
                ),
            ),
            None => Check::ok(
                NAME,
                format!("{shown} does not exist yet; 'switchboard up' creates it"),
            ),
        },
        LinkState::Stale { target } => Check::warn(
            NAME,
            format!(
                "{shown} is a link to {}, which is not the ledger, so tools cannot reach the hub through it; 'switchboard up' replaces it",
                target.display()
            ),
        ),
        LinkState::Served { target, by } => Check::warn(
            NAME,
            format!(
                "{shown} is a link to {}, the ledger of another running hub ({by}), so tools reach that hub; stop one of the two and restart the other",
                target.display()
            ),
        ),
        LinkState::Foreign { target } => Check::warn(
            NAME,
            format!(
                "{shown} is a link to {}, which is not the ledger; remove it and restart the hub",
                target.display()
            ),
        ),
        LinkState::Old => Check::warn(
            NAME,
            format!(
                "{shown} is a separate database, so tools that open it do not reach the hub; the next 'switchboard up' imports it"
            ),
        ),
        LinkState::Odd => Check::warn(
            NAME,
            format!("{shown} is neither a file nor a link; move it away and restart the hub"),
        ),
        LinkState::Unreadable { why } => Check::warn(
            NAME,
            format!("{shown} cannot be checked: {why}; fix its permissions"),
        ),
    })
}

/// A ledger in PostgreSQL has no file, so whatever lies there leads elsewhere.
fn unreached(scene: &Scene) -> Option<Check> {
    let path = scene.project().join(SwarmDb::SHOWN);
    path.symlink_metadata().ok()?;
    Some(Check::warn(
        NAME,
        format!(
            "{} is not the ledger, which is in PostgreSQL; what tools write there is refused or ignored, so remove it",
            SwarmDb::SHOWN
        ),
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use switchboard_hub::config::{CONFIG_FILE, DATABASE};

    use super::super::State;
    use super::*;
    use crate::context::Context;

    #[test]
    fn a_link_that_leads_elsewhere_and_a_database_in_its_place_are_warned_about() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join(SwarmDb::SHOWN);
        let ledger = dir.path().join(".switchboard").join(DATABASE);
        let state = || check(&Scene::new(&Context::at(dir.path()))).unwrap().state;
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        fs::create_dir_all(ledger.parent().unwrap()).unwrap();
        assert_eq!(state(), State::Ok);
        std::os::unix::fs::symlink(&ledger, &link).unwrap();
        assert_eq!(state(), State::Ok);
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert_eq!(state(), State::Warn);
        fs::remove_file(&link).unwrap();
        fs::write(&link, "").unwrap();
        assert_eq!(state(), State::Warn);
        let off = "[store]\nswarm_db = false\n";
        fs::write(dir.path().join(CONFIG_FILE), off).unwrap();
        assert_eq!(state(), State::Ok);
    }
}
