//! What lies in the directory, read: authorities, the director's certificate, the list, the signing key.

use rcgen::KeyPair;
use switchboard_core::Timestamp;

use super::error::AuthorityError;
use super::folder::{self, Folder};
use super::index::Index;
use super::seen::{self, Kept, Seen};

pub(super) const PEM_BYTES_MAX: u64 = 256 * 1024;

/// The trusted authorities, if any was ever made.
pub(super) fn read_authorities(folder: &Folder) -> Result<Option<Vec<Kept>>, AuthorityError> {
    match read_certificates(folder, folder::CA)? {
        Some(found) if found.is_empty() => Err(AuthorityError::Unreadable {
            path: folder.join(folder::CA),
            reason: "there is no certificate in it".to_owned(),
        }),
        found => Ok(found),
    }
}

pub(super) fn read_certificates(
    folder: &Folder,
    name: &str,
) -> Result<Option<Vec<Kept>>, AuthorityError> {
    let Some(text) = folder.read(name, PEM_BYTES_MAX)? else {
        return Ok(None);
    };
    let found = seen::certificates(&text).map_err(|reason| AuthorityError::Unreadable {
        path: folder.join(name),
        reason,
    })?;
    Ok(Some(found))
}

/// The certificate that the director shows now.
pub(super) fn read_director(folder: &Folder) -> Result<Option<Seen>, AuthorityError> {
    let found = read_certificates(folder, folder::DIRECTOR)?;
    Ok(found.and_then(|found| Some(found.into_iter().next()?.seen)))
}

/// The list, which is there from the authority's first moment on.
pub(super) fn read_index(folder: &Folder) -> Result<Index, AuthorityError> {
    Index::read(folder)?.ok_or_else(|| AuthorityError::Missing {
        path: folder.join(folder::INDEX),
    })
}

/// The key that belongs to an authority, if it is kept here.
pub(super) fn key_of(folder: &Folder, authority: &Seen) -> Result<Option<KeyPair>, AuthorityError> {
    const END: &str = "-----END PRIVATE KEY-----";
    let text = folder.read(folder::CA_KEY, PEM_BYTES_MAX)?;
    let text = text.unwrap_or_default();
    // While the authority is replaced there are two.
    let mut keys = text
        .split_inclusive(END)
        .filter_map(|section| KeyPair::from_pem(section).ok());
    Ok(keys.find(|key| key.public_key_raw() == authority.public_key))
}

/// Those that a trusted authority signed and that have not expired.
pub(super) fn useful(chain: Vec<Kept>, trusted: &[Kept], now: Timestamp) -> Vec<Kept> {
    let helps = |kept: &Kept| {
        kept.seen.not_after > now
            && trusted
                .iter()
                .any(|authority| kept.seen.is_signed_by(&authority.seen))
    };
    chain.into_iter().filter(helps).collect()
}
