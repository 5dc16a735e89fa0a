//! The data directory and the files in it: whether the hub could write them, and who else can.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Access;
use switchboard_hub::config::{DATABASE, StoreAt};

use super::{Check, Scene};

const NAME: &str = "data";

pub fn checks(scene: &Scene) -> Vec<Check> {
    let mut checks = vec![directory(&scene.data_dir)];
    checks.extend(unwritable(scene));
    checks
}

fn directory(dir: &Path) -> Check {
    let shown = dir.display();
    let meta = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!("{shown} does not exist yet; 'switchboard up' makes it");
            return Check::warn(NAME, text);
        }
        Err(error) => {
            let text = format!("{shown} cannot be read: {error}; mend its permissions");
            return Check::fail(NAME, text);
        }
        Ok(meta) => meta,
    };
    if !meta.is_dir() {
        return Check::fail(NAME, format!("{shown} is no directory; move it away"));
    }
    // Asked, not tried: a look leaves nothing behind.
    if let Err(error) = rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK) {
        let text = format!("{shown} cannot be written to: {error}; mend its permissions");
        return Check::fail(NAME, text);
    }
    if rustix::fs::statvfs(dir).is_ok_and(|room| room.f_blocks > 0 && room.f_bavail == 0) {
        let text = format!("there is no room left for {shown}; free some disk space");
        return Check::fail(NAME, text);
    }
    match meta.permissions().mode() & 0o077 {
        0 => Check::ok(NAME, format!("{shown} is writable, and its owner's alone")),
        _ => Check::warn(
            NAME,
            format!(
                "{shown} has mode {:o}, so others can look into it; run 'chmod 700 {shown}'",
                meta.permissions().mode() & 0o777
            ),
        ),
    }
}

/// Files that the hub has to write and cannot, say because it was once started by somebody else.
fn unwritable(scene: &Scene) -> Vec<Check> {
    let database = match &scene.store {
        StoreAt::Sqlite(file) => file.clone(),
        StoreAt::Postgres(_) => scene.data_dir.join(DATABASE),
    };
    let mut log = database.clone().into_os_string();
    log.push("-wal");
    let mut index = database.clone().into_os_string();
    index.push("-shm");
    [scene.data_dir.join("lock"), database, log.into(), index.into()]
        .iter()
        .filter(|file| rustix::fs::access(file.as_path(), Access::EXISTS).is_ok())
        .filter_map(|file| {
            let error = rustix::fs::access(file.as_path(), Access::READ_OK | Access::WRITE_OK).err()?;
            Some(Check::fail(
                NAME,
                format!(
                    "{} cannot be read and written ({error}), so 'switchboard up' would be refused; make it yours with chown and chmod",
                    file.display()
                ),
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn the_data_directory_is_looked_at_and_left_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(".switchboard");
        assert_eq!(directory(&dir).state, State::Warn, "it is not there yet");
        fs::create_dir(&dir).unwrap();
        let before = fs::metadata(&dir).unwrap().modified().unwrap();
        for (mode, state) in [(0o700, State::Ok), (0o755, State::Warn)] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(directory(&dir).state, state, "{mode:o}");
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        assert_eq!(fs::metadata(&dir).unwrap().modified().unwrap(), before);
        let file = dir.join("file");
        fs::write(&file, b"").unwrap();
        assert_eq!(directory(&file).state, State::Fail);
    }
}
