//! The directories of the door.

use std::io;
use std::os::fd::OwnedFd;

use super::request_file::is_answer;
use crate::spool::{Cleaned, Place};

/// The door's directories, open.
#[derive(Debug)]
pub struct Dirs {
    pub base: OwnedFd,
    /// What agents ask.
    pub requests: OwnedFd,
    /// What was acted on and is being answered.
    pub taken: OwnedFd,
    /// Answers that are whole, until their requests are put away.
    pub ready: OwnedFd,
    pub responses: OwnedFd,
    pub done: OwnedFd,
    pub rejected: OwnedFd,
}

pub const REQUESTS: &str = "requests";

impl Dirs {
    /// Opens all directories, and makes those that are missing.
    pub fn open(place: &Place) -> io::Result<Dirs> {
        let base = place.enter()?;
        let inner = |name: &str| place.enter_inner(&base, name);
        Ok(Dirs {
            requests: inner(REQUESTS)?,
            taken: inner("taken")?,
            ready: inner("ready")?,
            responses: inner("responses")?,
            done: inner("done")?,
            rejected: inner("rejected")?,
            base,
        })
    }

    /// What is removed once it has been lying for long.
    pub fn cleaned(&self) -> [Cleaned<'_>; 4] {
        [
            (&self.done, |_| true),
            (&self.rejected, |_| true),
            (&self.responses, is_answer),
            (&self.ready, |_| false),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use std::path::Path;

    use super::*;
    use crate::spool::Lock;

    fn place(project: &Path) -> Place {
        Place::new(project, &project.join(".jetpack/protocol"))
    }

    #[test]
    fn directories_are_made_private_and_made_again_when_they_are_gone() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        for _ in 0..2 {
            Dirs::open(&place).unwrap();
            let mode = |name: &str| {
                let meta = std::fs::metadata(place.path().join(name)).unwrap();
                meta.permissions().mode() & 0o777
            };
            for name in [
                "",
                "requests",
                "taken",
                "ready",
                "responses",
                "done",
                "rejected",
            ] {
                assert_eq!(mode(name), 0o700, "{name}");
            }
            std::fs::remove_dir_all(home.path().join(".jetpack")).unwrap();
        }
    }

    #[test]
    fn no_directory_below_the_project_may_be_a_link() {
        let elsewhere = tempfile::tempdir().unwrap();
        for link in [".jetpack", ".jetpack/protocol", ".jetpack/protocol/done"] {
            let home = tempfile::tempdir().unwrap();
            let link = home.path().join(link);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(elsewhere.path(), &link).unwrap();
            let said = Dirs::open(&place(home.path())).unwrap_err().to_string();
            assert!(said.contains(&link.display().to_string()), "{said}");
        }
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_outside_of_the_project_may_be_named_by_links_but_not_be_one() {
        let home = tempfile::tempdir().unwrap();
        let (real, link) = (home.path().join("real"), home.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        let project = home.path().join("project");
        Dirs::open(&Place::new(&project, &link.join("door"))).unwrap();
        assert!(real.join("door/requests").is_dir());
        Dirs::open(&Place::new(&project, &link)).unwrap_err();
        let up = Place::new(&project, &project.join("../door"));
        assert_eq!(up.path(), project.join("../door"));
    }

    #[test]
    fn one_hub_serves_a_directory_and_a_new_one_has_a_new_lock() {
        let home = tempfile::tempdir().unwrap();
        let place = place(home.path());
        let dirs = Dirs::open(&place).unwrap();
        let lock = Lock::take(&dirs.base).unwrap().unwrap();
        assert!(lock.is_of(&dirs.base));
        assert!(Lock::take(&dirs.base).unwrap().is_none());
        std::fs::remove_dir_all(place.path()).unwrap();
        let anew = Dirs::open(&place).unwrap();
        assert!(!lock.is_of(&anew.base));
        assert!(Lock::take(&anew.base).unwrap().is_some());
        drop(lock);
    }
}
