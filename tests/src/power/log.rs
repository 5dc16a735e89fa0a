//! The record as `recorder.c` writes it.

use std::ops::Range;

/// All records, in the order of their effects.
#[derive(Debug)]
pub struct Log {
    bytes: Vec<u8>,
    pub records: Vec<(u64, Record)>,
}

/// One effect. Files and directories are known by their inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Write {
        file: u64,
        at: usize,
        bytes: Range<usize>,
    },
    Size {
        file: u64,
        len: usize,
    },
    /// A new name in a directory.
    Entry {
        dir: u64,
        entry: Entry,
    },
    Gone {
        dir: u64,
        name: String,
    },
    Rename {
        from: (u64, String),
        to: (u64, Entry),
    },
    /// From here on it is not known whether more than what was before this is synced; of a directory all that is in it.
    SyncBegins {
        of: u64,
        ticket: u64,
        entries: Vec<Entry>,
    },
    /// What was before the beginning is on the disk.
    SyncEnds {
        ticket: u64,
    },
}

/// A name and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub node: u64,
    /// As the system tells it, with the kind of file.
    pub mode: u32,
    /// Of a link.
    pub target: Option<String>,
}

impl Log {
    /// The records, each with the position of its end.
    pub fn parse(bytes: Vec<u8>) -> Log {
        const HEAD: usize = 4 * 8;
        let mut records = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let number = |n: usize| {
                let place = at + 8 * n..at + 8 * (n + 1);
                u64::from_le_bytes(bytes[place].try_into().expect("eight bytes"))
            };
            let (kind, inode, position) = (number(0), number(1), number(2));
            let payload = at + HEAD..at + HEAD + number(3) as usize;
            at = payload.end;
            let record = Record::of(kind, inode, position, payload, &bytes);
            records.push((at as u64, record));
        }
        Log { bytes, records }
    }

    /// The same by a hub that never syncs.
    pub fn without_syncs(mut self) -> Log {
        self.records
            .retain(|(_, record)| !matches!(record, Record::SyncBegins { .. }));
        self
    }

    pub fn bytes(&self, of: &Range<usize>) -> &[u8] {
        &self.bytes[of.clone()]
    }

    pub fn end(&self) -> u64 {
        self.records.last().map_or(0, |(end, _)| *end)
    }
}

impl Record {
    fn of(kind: u64, inode: u64, at: u64, payload: Range<usize>, bytes: &[u8]) -> Record {
        let text = || String::from_utf8_lossy(&bytes[payload.clone()]).into_owned();
        match kind {
            1 => Record::Write {
                file: inode,
                at: at as usize,
                bytes: payload,
            },
            2 => Record::Size {
                file: inode,
                len: at as usize,
            },
            3 => Record::Entry {
                dir: inode,
                entry: Entry::parse(&text()),
            },
            4 => Record::Gone {
                dir: inode,
                name: text(),
            },
            5 => {
                let text = text();
                let (old, new) = text.split_once('\n').expect("an old and a new name");
                Record::Rename {
                    from: (inode, old.to_owned()),
                    to: (at, Entry::parse(new)),
                }
            }
            6 => {
                let entries = text().lines().map(Entry::parse).collect();
                Record::SyncBegins {
                    of: inode,
                    ticket: at,
                    entries,
                }
            }
            7 => Record::SyncEnds { ticket: at },
            _ => panic!("a record of no kind: {kind}"),
        }
    }
}

impl Entry {
    fn parse(line: &str) -> Entry {
        let mut parts = line.trim_end_matches('\n').splitn(3, ' ');
        let mut number = || parts.next().and_then(|text| text.parse::<u64>().ok());
        let (node, mode) = (number(), number());
        let (Some(node), Some(mode), Some(name)) = (node, mode, parts.next()) else {
            panic!("not an entry: {line:?}");
        };
        let (name, target) = match name.split_once('\t') {
            Some((name, target)) => (name, Some(target.to_owned())),
            None => (name, None),
        };
        Entry {
            name: name.to_owned(),
            node,
            mode: mode as u32,
            target,
        }
    }
}
