//! How the authority fails, in sentences.

use std::path::PathBuf;

/// What went wrong with the files of the authority, or with what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("there is no authority in {}; create one with 'switchboard cert init'", folder.display())]
    NotMade { folder: PathBuf },
    #[error("{} is missing; restore it from a backup, or create a new one with 'switchboard cert init'", path.display())]
    Missing { path: PathBuf },
    #[error(
        "{} is missing, but certificates were issued under it; restore it from a backup, or move {} away to start over",
        path.display(), folder.display()
    )]
    Lost { path: PathBuf, folder: PathBuf },
    #[error("{} cannot be read: {reason}; restore it from a backup", path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error("{} cannot be written: {reason}", path.display())]
    Unwritable { path: PathBuf, reason: String },
    #[error("another process is changing {}; try again when it is done", folder.display())]
    Busy { folder: PathBuf },
    #[error(
        "{} has no key that matches the authority's certificate, so nothing can be signed; restore it from a backup, or create a new authority with 'switchboard cert rotate --authority --drop-old'",
        path.display()
    )]
    NoKey { path: PathBuf },
    #[error(
        "the authority expired at {at}; create a new one with 'switchboard cert rotate --authority'"
    )]
    Ended { at: String },
    #[error("no certificate has the id or serial number '{which}'; see 'switchboard cert list'")]
    Unknown { which: String },
    #[error("'{which}' has no live certificate left to revoke; see 'switchboard cert list'")]
    NoneLive { which: String },
    #[error("{} exists; choose another directory with --out, or replace it with 'switchboard cert rotate'", path.display())]
    Exists { path: PathBuf },
    #[error(
        "there are already {max} unexpired certificates, the maximum; issue fewer, or for fewer days"
    )]
    Full { max: usize },
    #[error(
        "{max} authorities are trusted already; drop the old ones first with 'switchboard cert rotate --drop-old'"
    )]
    TooManyAuthorities { max: usize },
    #[error("'{name}' is neither a host name nor an IP address")]
    BadHost { name: String },
    #[error("the director's certificate can have at most {max} names")]
    TooManyHosts { max: usize },
    #[error("a reason may have at most {max} bytes, on one line")]
    BadReason { max: usize },
    #[error("the certificate cannot be created: {reason}")]
    Making { reason: String },
    #[error("the certificates in {} cannot be used for TLS: {reason}", folder.display())]
    Unfit { folder: PathBuf, reason: String },
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        AuthorityError::Making {
            reason: error.to_string(),
        }
    }
}
