//! Who may read what a hub keeps, and what git is told to leave out.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::config::{Config, DATA_DIR, StoreAt, StoreMode};
use crate::projection::folder;
use crate::swarm_db::SwarmDb;

const IGNORE_FILE: &str = ".gitignore";

/// Makes a directory, and those above it that are missing, for its owner alone. One that is there stays as it is.
pub fn make_private(path: &Path) -> io::Result<()> {
    folder::make(path, 0o700)
}

/// Has git leave out everything in a directory that is a hub's alone: one of that name, or one with nothing in it.
///
/// Somebody else's directory is left as it is, and so is what a person wrote. `switchboard doctor` asks git.
pub fn ignore_all(dir: &Path) {
    let is_named = dir.file_name().is_some_and(|name| name == DATA_DIR);
    let is_empty = || fs::read_dir(dir).is_ok_and(|mut found| found.next().is_none());
    if is_named || is_empty() {
        ignore(dir, "*\n");
    }
}

/// `.jetpack/` is not ours alone: what is ours is named there.
pub(crate) fn ignore_in_jetpack(config: &Config) {
    let ours = SwarmDb::new(&config.project, Path::new(""));
    let folder = ours.folder();
    let has_files = config.files.enabled && config.files.dir.starts_with(&folder);
    let has_ledger = match &config.store {
        StoreAt::Sqlite(ledger) => config.swarm_db || ledger.starts_with(&folder),
        StoreAt::Postgres(_) => false,
    };
    if !folder.is_dir() || !(has_files || has_ledger) {
        return;
    }
    let mut text = format!("/{IGNORE_FILE}\n");
    for name in SwarmDb::FILES {
        text.push_str(&format!("/{name}\n"));
    }
    if let Ok(door) = config.files.dir.strip_prefix(&folder)
        && let Some(door) = door.to_str().filter(|door| !door.is_empty())
    {
        text.push_str(&format!("/{door}/\n"));
    }
    ignore(&folder, &text);
}

fn ignore(dir: &Path, text: &str) {
    let path = dir.join(IGNORE_FILE);
    if fs::symlink_metadata(&path).is_ok() {
        return;
    }
    let write = || {
        let mut builder = tempfile::Builder::new();
        // Whoever else works in the repository has to read it too.
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644));
        let mut file = builder.tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(&path) {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error.error),
        }
    };
    if let Err(error) = write() {
        tracing::warn!("{} cannot be written: {error}", path.display());
    }
}

/// The data directory's mode, also of one that was there before.
pub(super) fn set_directory(path: &Path, mode: StoreMode) {
    set(path, mode.of_directory());
}

/// The modes of a ledger's files, also of those that were there before. A new one is made, so that it is never open to others.
pub(crate) fn set_ledger(ledger: &Path, mode: StoreMode) {
    let files = ledger_files(ledger);
    if files.iter().all(|file| fs::symlink_metadata(file).is_err()) {
        let mut options = fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // Where it cannot be made, SQLite says why.
        let _ = options.write(true).create_new(true).open(ledger);
    }
    for file in files {
        set(&file, mode.of_file());
    }
}

/// A ledger, its log, and what SQLite keeps beside them.
pub fn ledger_files(ledger: &Path) -> [PathBuf; 4] {
    ["", "-wal", "-shm", "-journal"].map(|end| {
        let mut name = ledger.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    })
}

fn set(path: &Path, wanted: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    /// A directory that everybody shares, such as `/tmp`.
    const STICKY: u32 = 0o1000;
    let Ok(meta) = fs::metadata(path) else {
        return;
    };
    let mode = meta.permissions().mode();
    if mode & 0o777 == wanted {
        return;
    }
    let set = match mode & STICKY {
        0 => fs::set_permissions(path, fs::Permissions::from_mode(mode & !0o777 | wanted)),
        _ => Err(io::Error::other("it is shared")),
    };
    if let Err(error) = set {
        tracing::warn!(
            "{} keeps its mode {:o}, which cannot be changed: {error}; 'switchboard doctor' shows who can read it",
            path.display(),
            mode & 0o777
        );
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::{DataDir, Keys};
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_directory_and_the_key_are_private() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".switchboard");
        let dir = DataDir::open(&path).unwrap();
        dir.keys().keep_own(&Keys::fresh().unwrap()).unwrap();
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join(Keys::OWN)), 0o600);
    }

    #[test]
    fn what_was_open_to_others_is_closed_unless_the_group_is_let_in() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        fs::create_dir(&path).unwrap();
        let ledger = path.join("switchboard.db");
        for (asked, dir, file) in [
            (StoreMode::Private, 0o700, 0o600),
            (StoreMode::GroupReads, 0o750, 0o640),
            (StoreMode::GroupWrites, 0o750, 0o660),
        ] {
            chmod(&path, 0o755);
            for file in ledger_files(&ledger) {
                fs::write(&file, "").unwrap();
                chmod(&file, 0o644);
            }
            drop(DataDir::open_as(&path, asked).unwrap());
            set_ledger(&ledger, asked);
            assert_eq!(mode(&path), dir, "{asked:?}");
            for path in ledger_files(&ledger) {
                assert_eq!(mode(&path), file, "{asked:?} {}", path.display());
            }
        }
        let new = path.join("new.db");
        set_ledger(&new, StoreMode::GroupReads);
        assert_eq!(mode(&new), 0o640, "a new one is made that way");
        chmod(&path, 0o1777);
        set_directory(&path, StoreMode::Private);
        assert_eq!(mode(&path), 0o777, "a directory that all share is left");
    }

    #[test]
    fn git_is_told_to_leave_out_a_directory_that_is_a_hubs_alone() {
        let home = tempfile::tempdir().unwrap();
        let ignored = |name: &str| {
            let path = home.path().join(name);
            drop(DataDir::open(&path).unwrap());
            fs::read_to_string(path.join(IGNORE_FILE)).ok()
        };
        let put = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let all = Some("*\n".to_owned());
        assert_eq!(ignored("new"), all);
        fs::create_dir(home.path().join("empty")).unwrap();
        assert_eq!(ignored("empty"), all);
        put("old/.switchboard/key", "k");
        assert_eq!(ignored("old/.switchboard"), all, "from before");
        put("theirs/main.rs", "");
        assert_eq!(ignored("theirs"), None, "not a hub's alone");
        put("said/.switchboard/.gitignore", "");
        assert_eq!(
            ignored("said/.switchboard").as_deref(),
            Some(""),
            "a person's own"
        );
    }

    #[test]
    fn in_jetpacks_directory_only_what_is_ours_is_left_out() {
        let home = tempfile::tempdir().unwrap();
        let mut config = Config::for_project(home.path().to_owned());
        let file = home.path().join(".jetpack/.gitignore");
        ignore_in_jetpack(&config);
        assert!(!file.exists(), "no directory is made for it");
        fs::create_dir(home.path().join(".jetpack")).unwrap();
        config.swarm_db = false;
        config.files.enabled = false;
        ignore_in_jetpack(&config);
        assert!(!file.exists(), "there is nothing of ours");
        config.swarm_db = true;
        config.files.enabled = true;
        ignore_in_jetpack(&config);
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "/.gitignore",
                "/swarm.db",
                "/swarm.db-*",
                "/swarm.db.*",
                "/protocol/"
            ]
        );
        fs::write(&file, "# theirs\n").unwrap();
        ignore_in_jetpack(&config);
        assert_eq!(fs::read_to_string(&file).unwrap(), "# theirs\n");
    }
}
