//! New keys for old: of the director, and of the authority itself.
//!
//! A new authority is vouched for by the one before (`chain.pem`), and the old one stays trusted. So a worker that
//! knows only the old one still trusts the director, and one with an old certificate is still let in, until the old
//! authority expires or is dropped.

use super::{
    AUTHORITY_FOR, AuthorityError, Kept, Registrar, Serial, Signer, Span, folder, just_made, mint,
    pems,
};
use crate::bus::authority::stored::{key_of, read_certificates, read_director, useful};

/// What becomes of the authorities before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Old {
    /// Trusted until they expire.
    Keep,
    /// Not trusted from now on, with all that they signed.
    Drop,
}

/// Authorities that are trusted at a time.
pub const AUTHORITIES_MAX: usize = 4;

impl Registrar {
    /// A new key and certificate for the director, under the same names.
    pub fn rotate_director(&mut self) -> Result<(), AuthorityError> {
        let before = read_director(&self.folder)?;
        let hosts = before.map(|director| director.hosts).unwrap_or_default();
        self.make_director(&[], &hosts)
    }

    /// A new authority, and a director's certificate signed by it.
    pub fn rotate_authority(&mut self, old: Old) -> Result<(), AuthorityError> {
        let now = self.now;
        let still_good = |kept: &&Kept| kept.seen.not_after > now;
        let kept: Vec<Kept> = match old {
            Old::Keep => self
                .authorities
                .iter()
                .filter(still_good)
                .cloned()
                .collect(),
            Old::Drop => Vec::new(),
        };
        if kept.len() >= AUTHORITIES_MAX {
            return Err(AuthorityError::TooManyAuthorities {
                max: AUTHORITIES_MAX,
            });
        }
        let old_key = key_of(&self.folder, &self.current().seen)?;
        if old_key.is_none() && !kept.is_empty() {
            return Err(self.no_key());
        }
        let minted = mint::authority(Span {
            now,
            lasts: AUTHORITY_FOR,
        })?;
        let new = just_made(&minted.cert)?;
        let new_key = minted.key.serialize_pem();

        // Both keys, until the certificate says which is meant.
        let both = match &old_key {
            Some(old_key) => format!("{new_key}{}", old_key.serialize_pem()),
            None => new_key.clone(),
        };
        self.folder.keep(folder::CA_KEY, &both)?;
        let mut chain = match old {
            Old::Keep => self.chain()?,
            Old::Drop => Vec::new(),
        };
        if let Some(previous) = kept.first() {
            let signer = Signer::new(previous, old_key.ok_or_else(|| self.no_key())?)?;
            chain.insert(
                0,
                just_made(&mint::cross(&new, &minted.key, &signer, now)?)?,
            );
        }
        self.folder.keep(folder::CHAIN, &pems(&chain))?;
        self.authorities = std::iter::once(new).chain(kept).collect();
        self.folder.keep(folder::CA, &pems(&self.authorities))?;
        self.rotate_director()?;
        self.folder.keep(folder::CA_KEY, &new_key)
    }

    /// Trusts the current authority only; says which ones are dropped.
    pub fn drop_old(&mut self) -> Result<Vec<Serial>, AuthorityError> {
        // The director must be of the one that stays.
        self.mend_director(&[])?;
        let dropped = self.authorities.split_off(1);
        self.folder.keep(folder::CA, &pems(&self.authorities))?;
        self.folder.keep(folder::CHAIN, "")?;
        Ok(dropped.into_iter().map(|kept| kept.seen.serial).collect())
    }

    /// How many certificates count that none of the trusted authorities signed.
    pub fn orphans(&self) -> usize {
        let trusted = |issuer: &Serial| {
            let mut authorities = self.authorities.iter();
            authorities.any(|kept| kept.seen.serial == *issuer)
        };
        let records = self.index.records.iter();
        records
            .filter(|record| record.is_live(self.now) && !trusted(&record.issuer))
            .count()
    }

    /// What vouches for newer authorities, as far as it still helps anybody.
    fn chain(&self) -> Result<Vec<Kept>, AuthorityError> {
        let all = read_certificates(&self.folder, folder::CHAIN)?.unwrap_or_default();
        Ok(useful(all, &self.authorities, self.now))
    }
}
