//! The master key's files in a data directory. They are read and replaced whole, also while a hub has the directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use switchboard_wire::signature::{KEY_LEN, from_hex, to_hex};

use super::DataDirError;

/// The bytes of a master key.
pub type Key = [u8; KEY_LEN];

/// The files of the master key in one data directory.
#[derive(Debug)]
pub struct Keys {
    dir: PathBuf,
}

impl Keys {
    /// The directory's own key, in hexadecimal.
    pub const OWN: &'static str = "key";
    /// The key of the ledger that is served, where it keeps one and that is not the directory's own.
    pub const SHARED: &'static str = "shared-key";

    pub fn of(dir: &Path) -> Keys {
        Keys {
            dir: dir.to_owned(),
        }
    }

    /// Draws a key, which is kept nowhere yet.
    pub fn fresh() -> Result<Key, DataDirError> {
        let mut key = [0; KEY_LEN];
        aws_lc_rs::rand::fill(&mut key).map_err(|_| DataDirError::NoRandomness)?;
        Ok(key)
    }

    /// The key of a ledger that keeps none itself.
    pub fn own(&self) -> Result<Option<Key>, DataDirError> {
        self.read(Self::OWN)
    }

    pub fn keep_own(&self, key: &Key) -> Result<(), DataDirError> {
        self.keep(Self::OWN, key)
    }

    /// The key of the shared ledger that was served here last.
    pub fn shared(&self) -> Result<Option<Key>, DataDirError> {
        self.read(Self::SHARED)
    }

    /// Whoever can read the key of what is served is the steward on this machine: it lies in one of the two files.
    pub fn keep_served(&self, key: &Key) -> Result<(), DataDirError> {
        if self.own()? != Some(*key) {
            return self.keep(Self::SHARED, key);
        }
        let path = self.dir.join(Self::SHARED);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(DataDirError::Unusable { path, source }),
        }
    }

    /// A shared ledger has a new key. The directory's own was the old one, or is another ledger's and stays.
    pub fn follow(&self, old: &Key, new: &Key) -> Result<(), DataDirError> {
        if self.own()? == Some(*old) {
            self.keep_own(new)?;
        }
        self.keep_served(new)
    }

    fn read(&self, name: &str) -> Result<Option<Key>, DataDirError> {
        Self::read_at(self.dir.join(name))
    }

    /// A key in any file, such as one beside a backup.
    pub fn read_at(path: PathBuf) -> Result<Option<Key>, DataDirError> {
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let key = from_hex(text.trim()).and_then(|key| key.try_into().ok());
                key.map(Some).ok_or(DataDirError::BadKey { path })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(DataDirError::Unusable { path, source }),
        }
    }

    fn keep(&self, name: &str, key: &Key) -> Result<(), DataDirError> {
        Self::keep_at(&self.dir.join(name), key)
    }

    /// For the owner's eyes only, whole or not at all.
    pub fn keep_at(path: &Path, key: &Key) -> Result<(), DataDirError> {
        super::keep(path, to_hex(key).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_kept() {
        let home = tempfile::tempdir().unwrap();
        let keys = Keys::of(home.path());
        assert_eq!(keys.own().unwrap(), None);
        let key = Keys::fresh().unwrap();
        assert_ne!(Keys::fresh().unwrap(), key);
        assert_eq!(keys.own().unwrap(), None, "drawing keeps nothing");
        keys.keep_own(&key).unwrap();
        assert_eq!(keys.own().unwrap(), Some(key));
        for bad in ["garbage", "", &"0".repeat(2 * KEY_LEN - 2)] {
            std::fs::write(home.path().join(Keys::OWN), bad).unwrap();
            assert!(matches!(keys.own(), Err(DataDirError::BadKey { .. })));
        }
    }

    #[test]
    fn the_key_of_a_shared_ledger_replaces_no_other_ledgers() {
        let home = tempfile::tempdir().unwrap();
        let keys = Keys::of(home.path());
        let (mine, old, new) = ([1; 32], [2; 32], [3; 32]);
        let both = || (keys.own().unwrap(), keys.shared().unwrap());
        keys.keep_own(&old).unwrap();
        keys.keep_served(&old).unwrap();
        assert_eq!(both(), (Some(old), None));
        keys.follow(&old, &new).unwrap();
        assert_eq!(both(), (Some(new), None), "it was the ledger's");
        keys.keep_own(&mine).unwrap();
        keys.keep_served(&old).unwrap();
        assert_eq!(both(), (Some(mine), Some(old)));
        keys.follow(&old, &new).unwrap();
        assert_eq!(both(), (Some(mine), Some(new)), "it was another ledger's");
        keys.keep_served(&mine).unwrap();
        assert_eq!(both(), (Some(mine), None), "that ledger is served again");
    }
}
