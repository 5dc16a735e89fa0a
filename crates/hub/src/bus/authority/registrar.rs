//! Changes the authority: makes, issues, rotates, revokes. What the commands `switchboard cert …` do.
//!
//! The files are the truth, whether a hub runs or not; it notices by itself. Every change is made under the
//! directory's lock and in an order in which any moment in between can be read, used and continued from:
//! a key is there before its certificate, a certificate before the list says that it counts.

mod rotate;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls_pki_types::ServerName;
use switchboard_core::{Timestamp, limits};
use switchboard_wire::IsoTime;

use super::error::AuthorityError;
use super::folder::{self, Folder, Lock, PRIVATE, PUBLIC};
use super::index::{Index, Record, Revoked, Serial};
use super::mint::{self, DIRECTOR_NAME, Signer, Span};
use super::name::{Name, Role};
use super::seen::{self, Kept};
use super::stored::{key_of, read_authorities, read_director, read_index};
use crate::data_dir::make_private;

pub use rotate::{AUTHORITIES_MAX, Old};

/// The authority, held for changing.
#[derive(Debug)]
pub struct Registrar {
    folder: Folder,
    now: Timestamp,
    /// The one that signs comes first.
    authorities: Vec<Kept>,
    index: Index,
    _lock: Lock,
}

/// Whether something was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Made,
    Replaced,
    There,
}

/// What `init` came to.
#[derive(Debug)]
pub struct Begun {
    pub authority: Found,
    /// The list of what was issued.
    pub list: Found,
    pub director: Found,
}

/// A certificate to be made.
#[derive(Debug)]
pub struct Order<'a> {
    pub name: &'a Name,
    pub role: Role,
    pub lasts: Duration,
    /// Where its files go, unless that is left to us.
    pub out: Option<&'a Path>,
    pub existing: Existing,
}

/// What to do with files that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    Refuse,
    Replace,
}

/// A certificate that was made, and where its files are.
#[derive(Debug)]
pub struct Issued {
    pub record: Record,
    pub cert: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
    /// Other certificates of the same name that count, too.
    pub also_live: Vec<Serial>,
    /// It ends before it was asked to, because the authority does.
    pub cut_short: bool,
}

const DAY: Duration = Duration::from_secs(24 * 3600);
pub const AUTHORITY_FOR: Duration = Duration::from_secs(3650 * DAY.as_secs());
pub const DIRECTOR_FOR: Duration = Duration::from_secs(825 * DAY.as_secs());
/// What ends sooner is pointed out.
pub const SOON: Duration = Duration::from_secs(14 * DAY.as_secs());
pub const HOSTS_MAX: usize = 32;
pub const REASON_BYTES_MAX: usize = limits::NAME_BYTES_MAX;
/// The names of a director that nobody named otherwise.
const HOSTS: [&str; 4] = [DIRECTOR_NAME, "localhost", "127.0.0.1", "::1"];

impl Registrar {
    /// Opens the authority of a data directory, which must have one.
    pub fn open(data_dir: &Path, now: Timestamp) -> Result<Registrar, AuthorityError> {
        let folder = Folder::of(data_dir);
        let not_made = || AuthorityError::NotMade {
            folder: folder.path().to_owned(),
        };
        if !folder.path().is_dir() {
            return Err(not_made());
        }
        let lock = folder.lock()?;
        let authorities = read_authorities(&folder)?.ok_or_else(not_made)?;
        let index = read_index(&folder)?;
        Ok(Registrar {
            folder,
            now,
            authorities,
            index,
            _lock: lock,
        })
    }

    /// Makes what is missing of an authority and of the director's certificate, and mends what does not serve any more.
    pub fn init(
        data_dir: &Path,
        hosts: &[String],
        now: Timestamp,
    ) -> Result<(Registrar, Begun), AuthorityError> {
        check_hosts(hosts)?;
        let folder = Folder::of(data_dir);
        folder.make()?;
        let lock = folder.lock()?;
        let (authorities, authority) = match read_authorities(&folder)? {
            Some(found) => (found, Found::There),
            None => (vec![begin(&folder, now)?], Found::Made),
        };
        let (index, list) = match Index::read(&folder)? {
            Some(index) => (index, Found::There),
            // Whoever was listed is out: rather that than letting in whom it said was revoked.
            None => (Index::default(), Found::Made),
        };
        if list == Found::Made {
            index.keep(&folder)?;
        }
        let registrar = Registrar {
            folder,
            now,
            authorities,
            index,
            _lock: lock,
        };
        let director = registrar.mend_director(hosts)?;
        let begun = Begun {
            authority,
            list,
            director,
        };
        Ok((registrar, begun))
    }

    /// Makes a key and a certificate, writes their files, and lists the certificate.
    pub fn issue(&mut self, order: &Order<'_>) -> Result<Issued, AuthorityError> {
        let signer = self.signer()?;
        let stem = order.name.stem();
        let out = match order.out {
            Some(out) => out.to_owned(),
            None => self.folder.issued(&stem),
        };
        let file = |ending: &str| out.join(format!("{stem}.{ending}"));
        let (cert, key, ca) = (file("pem"), file("key"), out.join(folder::CA));
        make_private(&out).map_err(|error| folder::unwritable(&out, &error))?;
        let is_over = order.out.is_none() && self.is_over(order.name);
        if order.existing == Existing::Refuse && !is_over {
            let taken = |path: &&PathBuf| path.exists();
            let foreign = Some(&ca).filter(|ca| ca.exists() && !self.wrote(ca));
            if let Some(path) = [&cert, &key].into_iter().find(taken).or(foreign) {
                return Err(AuthorityError::Exists { path: path.clone() });
            }
        }
        let span = Span {
            now: self.now,
            lasts: order.lasts,
        };
        let minted = mint::member(order.name, order.role, span, &signer)?;
        let also_live = self.live(order.name, order.role);
        let record = Record {
            serial: minted.serial.clone(),
            name: order.name.clone(),
            role: order.role,
            issuer: self.current().seen.serial.clone(),
            issued_at: self.now,
            not_after: minted.not_after,
            revoked: None,
        };
        for gone in self.index.add(record.clone(), self.now)? {
            self.folder.forget(&copy_of(&gone.serial));
        }
        self.folder.keep(&copy_of(&minted.serial), &minted.cert)?;
        folder::keep(&key, &minted.key.serialize_pem(), PRIVATE)?;
        folder::keep(&cert, &minted.cert, PUBLIC)?;
        folder::keep(&ca, &pems(&self.authorities), PUBLIC)?;
        self.index.keep(&self.folder)?;
        Ok(Issued {
            cut_short: minted.not_after < whole_seconds(self.now + order.lasts),
            record,
            cert,
            key,
            ca,
            also_live,
        })
    }

    /// Ends one certificate by its serial number, or every live one of an id.
    pub fn revoke(
        &mut self,
        which: &str,
        reason: Option<&str>,
    ) -> Result<Vec<Record>, AuthorityError> {
        let bad =
            |reason: &str| reason.len() > REASON_BYTES_MAX || reason.chars().any(char::is_control);
        if reason.is_some_and(bad) {
            return Err(AuthorityError::BadReason {
                max: REASON_BYTES_MAX,
            });
        }
        let now = self.now;
        let by_serial = |record: &Record| record.serial.as_str() == which;
        let by_name = |record: &Record| record.name.as_str() == which;
        let chosen: Vec<usize> = match self.index.records.iter().position(by_serial) {
            Some(place) => vec![place],
            None => {
                let named = self.index.records.iter().enumerate();
                let live = |(_, record): &(usize, &Record)| by_name(record) && record.is_live(now);
                named.filter(live).map(|(place, _)| place).collect()
            }
        };
        if chosen.is_empty() {
            let which = which.to_owned();
            return Err(if self.index.records.iter().any(by_name) {
                AuthorityError::NoneLive { which }
            } else {
                AuthorityError::Unknown { which }
            });
        }
        for &place in &chosen {
            // The first word about it stands.
            self.index.records[place]
                .revoked
                .get_or_insert_with(|| Revoked {
                    at: now,
                    reason: reason.map(str::to_owned),
                });
        }
        self.index.keep(&self.folder)?;
        let records = &self.index.records;
        Ok(chosen.iter().map(|&place| records[place].clone()).collect())
    }

    /// The role of the newest certificate that an id was given.
    pub fn role_of(&self, name: &Name) -> Option<Role> {
        let mut newest = self.index.records.iter().rev();
        newest
            .find(|record| record.name == *name)
            .map(|record| record.role)
    }

    /// Whether an id had certificates and none of them counts any more: their files are of no use.
    pub fn is_over(&self, name: &Name) -> bool {
        let own = || {
            let records = self.index.records.iter();
            records.filter(|record| record.name == *name)
        };
        own().next().is_some() && !own().any(|record| record.is_live(self.now))
    }

    fn live(&self, name: &Name, role: Role) -> Vec<Serial> {
        let same = |record: &&Record| {
            record.name == *name && record.role == role && record.is_live(self.now)
        };
        let live = self.index.records.iter().filter(same);
        live.map(|record| record.serial.clone()).collect()
    }

    /// Whether a file beside issued certificates is a copy of our authorities, now or before.
    fn wrote(&self, ca: &Path) -> bool {
        let text = std::fs::read_to_string(ca).unwrap_or_default();
        let mut ours = self.authorities.iter();
        ours.any(|kept| text.contains(kept.pem.trim_end()))
    }

    fn current(&self) -> &Kept {
        self.authorities
            .first()
            .expect("there is no registrar without an authority")
    }

    /// The authority with its key, if it may still sign.
    fn signer(&self) -> Result<Signer, AuthorityError> {
        let authority = self.current();
        if authority.seen.not_after <= self.now {
            return Err(AuthorityError::Ended {
                at: IsoTime(authority.seen.not_after.0).to_string(),
            });
        }
        let key = key_of(&self.folder, &authority.seen)?;
        Signer::new(authority, key.ok_or_else(|| self.no_key())?)
    }

    fn no_key(&self) -> AuthorityError {
        AuthorityError::NoKey {
            path: self.folder.join(folder::CA_KEY),
        }
    }

    /// A director's certificate that is missing, ends soon, is of an older authority or lacks a name is made anew.
    fn mend_director(&self, hosts: &[String]) -> Result<Found, AuthorityError> {
        let Some(director) = read_director(&self.folder)? else {
            self.make_director(hosts, &[])?;
            return Ok(Found::Made);
        };
        let serves = director.not_after > self.now + SOON
            && director.is_signed_by(&self.current().seen)
            && hosts.iter().all(|host| director.hosts.contains(host));
        if serves {
            return Ok(Found::There);
        }
        self.make_director(hosts, &director.hosts)?;
        Ok(Found::Replaced)
    }

    fn make_director(&self, hosts: &[String], before: &[String]) -> Result<(), AuthorityError> {
        let mut all: Vec<String> = HOSTS.map(str::to_owned).to_vec();
        for host in before.iter().chain(hosts) {
            if !all.contains(host) {
                all.push(host.clone());
            }
        }
        if all.len() > HOSTS_MAX {
            return Err(AuthorityError::TooManyHosts { max: HOSTS_MAX });
        }
        let span = Span {
            now: self.now,
            lasts: DIRECTOR_FOR,
        };
        let minted = mint::director(&all, span, &self.signer()?)?;
        let both = format!("{}{}", minted.cert, minted.key.serialize_pem());
        self.folder.keep(folder::DIRECTOR, &both)
    }
}

/// The first authority of a directory.
fn begin(folder: &Folder, now: Timestamp) -> Result<Kept, AuthorityError> {
    if Index::read(folder)?.is_some_and(|index| !index.records.is_empty()) {
        return Err(AuthorityError::Lost {
            path: folder.join(folder::CA),
            folder: folder.path().to_owned(),
        });
    }
    let minted = mint::authority(Span {
        now,
        lasts: AUTHORITY_FOR,
    })?;
    folder.keep(folder::CA_KEY, &minted.key.serialize_pem())?;
    folder.keep(folder::CA, &minted.cert)?;
    just_made(&minted.cert)
}

fn just_made(pem: &str) -> Result<Kept, AuthorityError> {
    let read = seen::certificates(pem).map_err(|reason| AuthorityError::Making { reason })?;
    Ok(read.into_iter().next().expect("one was just made"))
}

fn check_hosts(hosts: &[String]) -> Result<(), AuthorityError> {
    let bad = |host: &&String| ServerName::try_from(host.as_str()).is_err();
    match hosts.iter().find(bad) {
        Some(name) => Err(AuthorityError::BadHost { name: name.clone() }),
        None => Ok(()),
    }
}

fn copy_of(serial: &Serial) -> String {
    format!("{}/{serial}.pem", folder::CERTS)
}

fn pems(certificates: &[Kept]) -> String {
    certificates.iter().map(|kept| kept.pem.as_str()).collect()
}

/// Certificates know no parts of a second.
fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp(at.0 / 1000 * 1000)
}
