//! What there is: authorities, the director's certificate, everything that was issued. Reads, and changes nothing.

use std::path::Path;

use switchboard_core::Timestamp;

use super::error::AuthorityError;
use super::folder::Folder;
use super::index::{Record, Serial};
use super::registrar::SOON;
use super::stored::{read_authorities, read_director, read_index};

/// Everything that `switchboard cert list` shows.
#[derive(Debug)]
pub struct Overview {
    /// The one that signs comes first.
    pub authorities: Vec<Card>,
    pub director: Card,
    /// The names that the director's certificate is for.
    pub hosts: Vec<String>,
    /// The newest first.
    pub certificates: Vec<(Record, State)>,
}

/// A certificate that is not in the list.
#[derive(Debug)]
pub struct Card {
    pub serial: Serial,
    pub not_after: Timestamp,
    pub state: State,
}

/// What a certificate is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Live,
    /// Live, but not for long.
    Expiring,
    Expired,
    Revoked,
    /// Signed by an authority that is not trusted any more.
    Orphaned,
}

impl Overview {
    pub fn read(data_dir: &Path, now: Timestamp) -> Result<Overview, AuthorityError> {
        let folder = Folder::of(data_dir);
        let authorities = read_authorities(&folder)?.ok_or_else(|| AuthorityError::NotMade {
            folder: folder.path().to_owned(),
        })?;
        let director = read_director(&folder)?.ok_or_else(|| AuthorityError::Missing {
            path: folder.join(super::folder::DIRECTOR),
        })?;
        let trusted = |serial: &Serial| {
            let mut all = authorities.iter();
            all.any(|kept| kept.seen.serial == *serial && kept.seen.not_after > now)
        };
        let state = |record: &Record| match by_time(record.not_after, now) {
            _ if record.revoked.is_some() => State::Revoked,
            State::Live | State::Expiring if !trusted(&record.issuer) => State::Orphaned,
            state => state,
        };
        let records = read_index(&folder)?.records.into_iter().rev();
        let certificates = records
            .map(|record| {
                let state = state(&record);
                (record, state)
            })
            .collect();
        let card = |serial: &Serial, not_after| Card {
            serial: serial.clone(),
            not_after,
            state: by_time(not_after, now),
        };
        let signed = authorities
            .iter()
            .any(|kept| director.is_signed_by(&kept.seen));
        let mut director_card = card(&director.serial, director.not_after);
        if !signed && director_card.state != State::Expired {
            director_card.state = State::Orphaned;
        }
        Ok(Overview {
            authorities: authorities
                .iter()
                .map(|kept| card(&kept.seen.serial, kept.seen.not_after))
                .collect(),
            director: director_card,
            hosts: director.hosts,
            certificates,
        })
    }
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Live => "live",
            State::Expiring => "expiring",
            State::Expired => "expired",
            State::Revoked => "revoked",
            State::Orphaned => "orphaned",
        }
    }
}

fn by_time(not_after: Timestamp, now: Timestamp) -> State {
    if not_after <= now {
        State::Expired
    } else if not_after <= now + SOON {
        State::Expiring
    } else {
        State::Live
    }
}
