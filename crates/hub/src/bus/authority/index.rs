//! The list of what was issued and what became of it: `index.json`.
//!
//! A certificate counts only while it stands here, not revoked; so a lost line shuts out and never lets in.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use switchboard_core::Timestamp;
use switchboard_wire::IsoTime;

use super::error::AuthorityError;
use super::folder::{self, Folder};
use super::name::{Name, Role};

/// The serial number of a certificate, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Serial(Arc<str>);

/// One certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub serial: Serial,
    pub name: Name,
    pub role: Role,
    /// The serial number of the authority that signed it.
    pub issuer: Serial,
    pub issued_at: Timestamp,
    pub not_after: Timestamp,
    pub revoked: Option<Revoked>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    pub at: Timestamp,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    pub records: Vec<Record>,
}

/// Certificates that are kept in mind; past it, expired ones go.
pub(super) const CERTIFICATES_MAX: usize = 50_000;
const INDEX_BYTES_MAX: u64 = 64 * 1024 * 1024;
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    certificates: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    serial: String,
    name: String,
    role: String,
    issuer: String,
    issued_at: IsoTime,
    not_after: IsoTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<IsoTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Serial {
    pub(super) fn new(text: impl Into<Arc<str>>) -> Serial {
        Serial(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Record {
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.not_after > now
    }
}

impl Index {
    /// What was written, if anything was.
    pub fn read(folder: &Folder) -> Result<Option<Index>, AuthorityError> {
        let Some(text) = folder.read(folder::INDEX, INDEX_BYTES_MAX)? else {
            return Ok(None);
        };
        let records = parse(&text).map_err(|reason| AuthorityError::Unreadable {
            path: folder.join(folder::INDEX),
            reason,
        })?;
        Ok(Some(Index { records }))
    }

    pub fn keep(&self, folder: &Folder) -> Result<(), AuthorityError> {
        let written = Written {
            version: VERSION,
            certificates: self.records.iter().map(Line::from).collect(),
        };
        let text =
            serde_json::to_string_pretty(&written).expect("numbers and text are always JSON");
        folder.keep(folder::INDEX, &text)
    }

    /// Takes one more in; where there is no room, the expired go and are handed back.
    pub fn add(&mut self, record: Record, now: Timestamp) -> Result<Vec<Record>, AuthorityError> {
        let mut gone = Vec::new();
        if self.records.len() >= CERTIFICATES_MAX {
            let (kept, expired) = std::mem::take(&mut self.records)
                .into_iter()
                .partition(|record| record.not_after > now);
            (self.records, gone) = (kept, expired);
        }
        if self.records.len() >= CERTIFICATES_MAX {
            return Err(AuthorityError::Full {
                max: CERTIFICATES_MAX,
            });
        }
        self.records.push(record);
        Ok(gone)
    }
}

fn parse(text: &str) -> Result<Vec<Record>, String> {
    let written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if written.version != VERSION {
        return Err(format!(
            "it has version {}, but this program supports version {VERSION}",
            written.version
        ));
    }
    if written.certificates.len() > CERTIFICATES_MAX {
        return Err(format!(
            "it lists more than {CERTIFICATES_MAX} certificates"
        ));
    }
    let records: Vec<Record> = written
        .certificates
        .into_iter()
        .map(Record::try_from)
        .collect::<Result<_, _>>()?;
    let mut seen = HashSet::with_capacity(records.len());
    match records.iter().find(|record| !seen.insert(&record.serial)) {
        Some(twice) => Err(format!("it lists the serial number {} twice", twice.serial)),
        None => Ok(records),
    }
}

impl From<&Record> for Line {
    fn from(record: &Record) -> Line {
        let revoked = record.revoked.as_ref();
        Line {
            serial: record.serial.to_string(),
            name: record.name.to_string(),
            role: record.role.to_string(),
            issuer: record.issuer.to_string(),
            issued_at: IsoTime(record.issued_at.0),
            not_after: IsoTime(record.not_after.0),
            revoked_at: revoked.map(|revoked| IsoTime(revoked.at.0)),
            reason: revoked.and_then(|revoked| revoked.reason.clone()),
        }
    }
}

impl TryFrom<Line> for Record {
    type Error = String;

    fn try_from(line: Line) -> Result<Record, String> {
        let wrong = |error: String| format!("the certificate {}: {error}", line.serial);
        let name: Name = line
            .name
            .parse()
            .map_err(|error| wrong(format!("{error}")))?;
        let role: Role = line
            .role
            .parse()
            .map_err(|error| wrong(format!("{error}")))?;
        Ok(Record {
            name,
            role,
            serial: Serial::new(line.serial),
            issuer: Serial::new(line.issuer),
            issued_at: Timestamp(line.issued_at.0),
            not_after: Timestamp(line.not_after.0),
            revoked: line.revoked_at.map(|at| Revoked {
                at: Timestamp(at.0),
                reason: line.reason,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: usize, not_after: i64) -> Record {
        Record {
            serial: Serial::new(format!("{number:x}")),
            name: "w".parse().unwrap(),
            role: Role::Worker,
            issuer: Serial::new("ca"),
            issued_at: Timestamp(0),
            not_after: Timestamp(not_after),
            revoked: None,
        }
    }

    #[test]
    fn the_list_is_bounded_and_what_expired_makes_room() {
        let mut index = Index::default();
        let now = Timestamp(10);
        for number in 0..CERTIFICATES_MAX - 1 {
            index
                .records
                .push(record(number, if number < 3 { 10 } else { 11 }));
        }
        assert!(
            index
                .add(record(CERTIFICATES_MAX - 1, 11), now)
                .unwrap()
                .is_empty()
        );
        let gone = index.add(record(CERTIFICATES_MAX, 11), now).unwrap();
        assert_eq!(gone.len(), 3);
        assert_eq!(index.records.len(), CERTIFICATES_MAX - 2);
        for number in [1, 2] {
            index
                .add(record(CERTIFICATES_MAX + number, 11), now)
                .unwrap();
        }
        assert!(matches!(
            index.add(record(CERTIFICATES_MAX + 3, 11), now),
            Err(AuthorityError::Full { .. })
        ));
    }

    #[test]
    fn a_list_that_contradicts_itself_is_refused() {
        let line = r#"{"serial":"01","name":"w","role":"worker","issuer":"ca","issued_at":"2026-01-01T00:00:00.000Z","not_after":"2026-02-01T00:00:00.000Z"}"#;
        let list = |lines: &str| format!(r#"{{"version":1,"certificates":[{lines}]}}"#);
        assert_eq!(parse(&list(line)).unwrap().len(), 1);
        for (text, word) in [
            (list(&format!("{line},{line}")), "twice"),
            (list(&line.replace("worker", "king")), "role"),
            (list(&line.replace("\"w\"", "\"\"")), "empty"),
            (
                list(line).replace("\"version\":1", "\"version\":2"),
                "version 2",
            ),
            ("{".to_owned(), "EOF"),
        ] {
            let said = parse(&text).unwrap_err();
            assert!(said.contains(word), "{said}");
        }
    }
}
