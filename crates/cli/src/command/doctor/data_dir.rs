//! The data directory and the files in it: whether the hub could write them, and who else can.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use switchboard_hub::config::{DATABASE, StoreAt, StoreMode};
use switchboard_hub::data_dir::ledger_files;

use super::{Check, Scene};

const NAME: &str = "data";

pub fn checks(scene: &Scene) -> Vec<Check> {
    let mode = scene.config.as_ref().map(|config| config.store_mode);
    let mode = mode.unwrap_or(StoreMode::Private);
    let mut checks = vec![directory(&scene.data_dir, mode)];
    checks.extend(unwritable(scene));
    checks.extend(open_to_others(scene, mode));
    checks
}

fn directory(dir: &Path, mode: StoreMode) -> Check {
    let shown = dir.display();
    let meta = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!("{shown} does not exist yet; 'switchboard up' creates it");
            return Check::warn(NAME, text);
        }
        Err(error) => {
            let text = format!("{shown} cannot be read: {error}; fix its permissions");
            return Check::fail(NAME, text);
        }
        Ok(meta) => meta,
    };
    if !meta.is_dir() {
        return Check::fail(NAME, format!("{shown} is not a directory; move it away"));
    }
    // Asked, not tried: a look leaves nothing behind.
    if let Err(error) = rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK) {
        let text = format!("{shown} cannot be written to: {error}; fix its permissions");
        return Check::fail(NAME, text);
    }
    if rustix::fs::statvfs(dir).is_ok_and(|room| room.f_blocks > 0 && room.f_bavail == 0) {
        let text = format!("the disk of {shown} is full; free some space");
        return Check::fail(NAME, text);
    }
    match who_else(&meta, mode.of_directory()) {
        Some(who) => Check::warn(
            NAME,
            format!(
                "{shown} has mode {:o}, so {who} can read it; the next 'switchboard up' sets {:o}",
                meta.mode() & 0o777,
                mode.of_directory()
            ),
        ),
        None if mode == StoreMode::Private => Check::ok(
            NAME,
            format!("{shown} is writable, and only its owner can read it"),
        ),
        None => Check::ok(
            NAME,
            format!(
                "{shown} is writable, and open to its group (gid {}) by [store] mode",
                meta.gid()
            ),
        ),
    }
}

/// Files of the ledger that more people can open than the settings let in.
fn open_to_others(scene: &Scene, mode: StoreMode) -> Vec<Check> {
    let StoreAt::Sqlite(ledger) = &scene.store else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = ledger_files(ledger).into();
    // Another directory than the hub's own stays as it is; who can write there can put another ledger in place.
    let folder = ledger.parent().filter(|folder| *folder != scene.data_dir);
    let replaced = folder.and_then(|folder| {
        let meta = fs::metadata(folder).ok()?;
        let who = who_else(&meta, !0o022)?;
        Some(Check::warn(
            NAME,
            format!(
                "{who} can replace the ledger in {} (mode {:o}); keep it in a directory of its own, or run 'chmod go-w {}'",
                folder.display(),
                meta.mode() & 0o777,
                folder.display()
            ),
        ))
    });
    files.retain(|file| file.exists());
    let open = files.iter().filter_map(|file| {
        let meta = fs::metadata(file).ok()?;
        let who = who_else(&meta, mode.of_file())?;
        Some(Check::warn(
            NAME,
            format!(
                "{} has mode {:o}, so {who} can read it; the next 'switchboard up' sets {:o}",
                file.display(),
                meta.mode() & 0o777,
                mode.of_file()
            ),
        ))
    });
    open.chain(replaced).collect()
}

/// Who else than the owner has more than these permissions.
fn who_else(meta: &fs::Metadata, allowed: u32) -> Option<String> {
    let more = meta.mode() & 0o777 & !allowed;
    match (more & 0o007, more & 0o070) {
        (0, 0) => None,
        (0, _) => Some(format!("its group (gid {})", meta.gid())),
        (_, _) => Some("everyone on this machine".to_owned()),
    }
}

/// Files that the hub has to write and cannot, say because it was once started by somebody else.
fn unwritable(scene: &Scene) -> Vec<Check> {
    let database = match &scene.store {
        StoreAt::Sqlite(file) => file.clone(),
        StoreAt::Postgres(_) => scene.data_dir.join(DATABASE),
    };
    let mut files: Vec<PathBuf> = ledger_files(&database).into();
    files.push(scene.data_dir.join("lock"));
    files
        .iter()
        .filter(|file| rustix::fs::access(file.as_path(), Access::EXISTS).is_ok())
        .filter_map(|file| {
            let error = rustix::fs::access(file.as_path(), Access::READ_OK | Access::WRITE_OK).err()?;
            Some(Check::fail(
                NAME,
                format!(
                    "{} cannot be read and written ({error}), so 'switchboard up' would fail; fix its owner and mode with chown and chmod",
                    file.display()
                ),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::State;
    use super::*;
    use crate::context::Context;

    #[test]
    fn the_data_directory_is_looked_at_and_left_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(".switchboard");
        let directory = |path: &Path, mode| directory(path, mode).state;
        let private = StoreMode::Private;
        assert_eq!(directory(&dir, private), State::Warn, "it is not there yet");
        fs::create_dir(&dir).unwrap();
        let before = fs::metadata(&dir).unwrap().modified().unwrap();
        for (mode, alone, grouped) in [
            (0o700, State::Ok, State::Ok),
            (0o750, State::Warn, State::Ok),
            (0o755, State::Warn, State::Warn),
        ] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(directory(&dir, private), alone, "{mode:o}");
            assert_eq!(directory(&dir, StoreMode::GroupReads), grouped, "{mode:o}");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        assert_eq!(fs::metadata(&dir).unwrap().modified().unwrap(), before);
        let file = dir.join("file");
        fs::write(&file, b"").unwrap();
        assert_eq!(directory(&file, private), State::Fail);
    }

    #[test]
    fn who_can_read_the_ledger_or_replace_it_is_said() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("kept");
        let ledger = folder.join("x.db");
        fs::create_dir(&folder).unwrap();
        fs::write(&ledger, "").unwrap();
        let mut scene = Scene::new(&Context::at(root.path()));
        scene.store = StoreAt::Sqlite(ledger.clone());
        let chmod = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (dir, file, said) in [
            (0o755, 0o600, None),
            (0o755, 0o640, Some("its group")),
            (0o755, 0o644, Some("everyone on this machine can read it")),
            (
                0o777,
                0o600,
                Some("everyone on this machine can replace the ledger"),
            ),
        ] {
            chmod(&folder, dir);
            chmod(&ledger, file);
            let found = open_to_others(&scene, StoreMode::Private);
            let text: Vec<&str> = found.iter().map(|check| &*check.text).collect();
            assert_eq!(found.len(), usize::from(said.is_some()), "{text:?}");
            assert!(said.is_none_or(|said| text[0].contains(said)), "{text:?}");
        }
        chmod(&folder, 0o755);
        chmod(&ledger, 0o640);
        assert!(open_to_others(&scene, StoreMode::GroupReads).is_empty());
    }
}
