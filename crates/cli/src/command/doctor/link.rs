//! Whether Jetpack's tools, which open `.jetpack/swarm.db`, reach the hub's ledger.

use switchboard_hub::config::StoreAt;
use switchboard_hub::swarm_db::{Look, SwarmDb};

use super::{Check, Scene};

const NAME: &str = "swarm.db";

pub fn check(scene: &Scene) -> Option<Check> {
    let config = scene.config.as_ref()?;
    let shown = SwarmDb::SHOWN;
    let StoreAt::Sqlite(ledger) = &scene.store else {
        return unreached(scene);
    };
    if !config.swarm_db {
        let text = format!("{shown} is left alone by [store] swarm_db = false");
        return Some(Check::ok(NAME, text));
    }
    Some(match SwarmDb::new(&config.project, ledger).look() {
        Look::Linked => Check::ok(NAME, format!("{shown} opens the ledger")),
        Look::Ledger => Check::ok(NAME, format!("{shown} is the ledger")),
        Look::Absent => match scene.holder {
            Some(_) => Check::warn(
                NAME,
                format!(
                    "{shown} is gone, so tools do not reach the hub there; start the hub again, which makes it"
                ),
            ),
            None => Check::ok(
                NAME,
                format!("{shown} does not exist yet; 'switchboard up' makes it"),
            ),
        },
        Look::Stale { target } => Check::warn(
            NAME,
            format!(
                "{shown} is a link to {}, which is not the ledger, so tools do not reach the hub there; 'switchboard up' makes it anew",
                target.display()
            ),
        ),
        Look::Served { target, by } => Check::warn(
            NAME,
            format!(
                "{shown} is a link to {}, the ledger of another hub that runs ({by}), so tools reach that one; stop one of the two and start the other again",
                target.display()
            ),
        ),
        Look::Foreign { target } => Check::warn(
            NAME,
            format!(
                "{shown} is a link to {}, which is not the ledger; remove it and start the hub again",
                target.display()
            ),
        ),
        Look::Old => Check::warn(
            NAME,
            format!(
                "{shown} is a database of its own, so tools that open it do not reach the hub; the next 'switchboard up' imports it"
            ),
        ),
        Look::Odd => Check::warn(
            NAME,
            format!("{shown} is neither a file nor a link; move it away and start the hub again"),
        ),
        Look::Unreadable { why } => Check::warn(
            NAME,
            format!("{shown} cannot be looked at: {why}; mend its permissions"),
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
            "{} does not lead to the ledger, which is in PostgreSQL; tools that write there are refused or write for nobody, so remove it",
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

    #[test]
    fn a_link_that_leads_elsewhere_and_a_database_in_its_place_are_warned_about() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join(SwarmDb::SHOWN);
        let ledger = dir.path().join(".switchboard").join(DATABASE);
        let state = || check(&Scene::new(dir.path().to_owned())).unwrap().state;
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
