//! The disk behind a record: what is surely on it, what is on its way, and what a cut makes of that.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use super::log::{Entry, Log, Record};
use crate::random::Random;

/// The smallest piece that a disk writes whole.
const SECTOR: usize = 512;
const KIND_OF_FILE: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;

/// What a cut leaves of changes that were on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Nothing,
    All,
    /// Each by itself.
    Some,
    /// Each sector by itself.
    Sectors,
    /// The later half, without what was before it.
    Later,
}

impl Left {
    pub const EACH: [Left; 5] = [
        Left::Nothing,
        Left::All,
        Left::Some,
        Left::Sectors,
        Left::Later,
    ];
}

/// Grows with its log, record by record.
pub struct Disk<'a> {
    log: &'a Log,
    /// Records that were taken in.
    taken: usize,
    nodes: Vec<Node>,
    /// Numbers of files come again when a file is gone.
    by_inode: HashMap<u64, usize>,
    root: u64,
    /// Names as the running system knows them: directory and name to node.
    names: HashMap<(usize, String), usize>,
    /// Syncs that have begun, by their tickets.
    syncs: HashMap<u64, Sync>,
}

struct Sync {
    node: usize,
    /// What was recorded before this is covered.
    before: usize,
    /// All that a directory held.
    entries: Vec<(Entry, usize)>,
}

#[derive(Debug, Default)]
struct Node {
    bytes: Vec<u8>,
    names: BTreeMap<String, (Entry, usize)>,
    /// With the number of their record.
    pending: Vec<(usize, Change)>,
}

#[derive(Clone, Debug)]
enum Change {
    Write {
        at: usize,
        bytes: Range<usize>,
    },
    Size {
        len: usize,
    },
    Name {
        entry: Entry,
        node: usize,
    },
    NoName {
        name: String,
    },
    /// Within one directory both happen or none.
    Rename {
        from: Option<String>,
        entry: Entry,
        node: usize,
    },
}

impl<'a> Disk<'a> {
    /// The disk before the first record; `root` is the directory that was recorded.
    pub fn before(log: &'a Log, root: &Path) -> Disk<'a> {
        let root = fs::metadata(root).expect("the directory is there").ino();
        Disk::of(log, root)
    }

    /// The same, of a directory that is known by its inode.
    pub fn of(log: &'a Log, root: u64) -> Disk<'a> {
        Disk {
            log,
            taken: 0,
            nodes: vec![Node::default()],
            by_inode: HashMap::from([(root, 0)]),
            root,
            names: HashMap::new(),
            syncs: HashMap::new(),
        }
    }

    /// Takes in all records that end at or before this position.
    pub fn advance(&mut self, position: u64) {
        let log = self.log;
        while let Some((_, record)) = log
            .records
            .get(self.taken)
            .filter(|(end, _)| *end <= position)
        {
            self.take(record);
            self.taken += 1;
        }
    }

    fn take(&mut self, record: &Record) {
        match record {
            Record::Write { file, at, bytes } => {
                let change = Change::Write {
                    at: *at,
                    bytes: bytes.clone(),
                };
                self.change(*file, change);
            }
            Record::Size { file, len } => self.change(*file, Change::Size { len: *len }),
            Record::Entry { dir, entry } => {
                let node = self.made(entry);
                self.name(*dir, entry, node);
                self.change(
                    *dir,
                    Change::Name {
                        entry: entry.clone(),
                        node,
                    },
                );
            }
            Record::Gone { dir, name } => {
                self.unname(*dir, name);
                self.change(*dir, Change::NoName { name: name.clone() });
            }
            Record::Rename {
                from: (old, name),
                to: (new, entry),
            } => {
                let node = self.node(entry.node);
                self.unname(*old, name);
                self.name(*new, entry, node);
                let from = (old == new).then(|| name.clone());
                if from.is_none() {
                    self.change(*old, Change::NoName { name: name.clone() });
                }
                self.change(
                    *new,
                    Change::Rename {
                        from,
                        entry: entry.clone(),
                        node,
                    },
                );
            }
            Record::SyncBegins {
                of,
                ticket,
                entries,
            } => {
                let dir = self.node(*of);
                let entries = entries
                    .iter()
                    .map(|entry| (entry.clone(), self.node(entry.node)));
                let entries: Vec<(Entry, usize)> = entries.collect();
                // Also what was done past the C library.
                if !entries.is_empty() {
                    self.names.retain(|(of, _), _| *of != dir);
                    let named = entries
                        .iter()
                        .map(|(entry, node)| ((dir, entry.name.clone()), *node));
                    self.names.extend(named);
                }
                let sync = Sync {
                    node: dir,
                    before: self.taken,
                    entries,
                };
                self.syncs.insert(*ticket, sync);
            }
            Record::SyncEnds { ticket } => self.synced(*ticket),
        }
    }

    fn synced(&mut self, ticket: u64) {
        let Some(Sync {
            node,
            before,
            entries,
        }) = self.syncs.remove(&ticket)
        else {
            return;
        };
        let node = &mut self.nodes[node];
        let pending = std::mem::take(&mut node.pending).into_iter();
        let (done, rest): (Vec<_>, Vec<_>) = pending.partition(|(number, _)| *number < before);
        node.pending = rest;
        for (_, change) in &done {
            node.apply(change, self.log);
        }
        if !entries.is_empty() {
            let named = entries
                .into_iter()
                .map(|(entry, node)| (entry.name.clone(), (entry, node)));
            node.names = named.collect();
        }
    }

    fn change(&mut self, inode: u64, change: Change) {
        let node = self.node(inode);
        self.nodes[node].pending.push((self.taken, change));
    }

    /// What was just made, under a number that another may have had before. A second name is of the same file.
    fn made(&mut self, entry: &Entry) -> usize {
        let known = self.by_inode.get(&entry.node).copied();
        if let Some(node) = known.filter(|known| self.names.values().any(|node| node == known)) {
            return node;
        }
        self.nodes.push(Node::default());
        let node = self.nodes.len() - 1;
        self.by_inode.insert(entry.node, node);
        node
    }

    fn node(&mut self, inode: u64) -> usize {
        let next = self.nodes.len();
        let node = *self.by_inode.entry(inode).or_insert(next);
        if node == next {
            self.nodes.push(Node::default());
        }
        node
    }

    fn name(&mut self, dir: u64, entry: &Entry, node: usize) {
        let dir = self.node(dir);
        self.names.insert((dir, entry.name.clone()), node);
    }

    fn unname(&mut self, dir: u64, name: &str) {
        let dir = self.node(dir);
        self.names.remove(&(dir, name.to_owned()));
    }

    /// Writes the disk as a cut at this moment leaves it.
    pub fn cut(&self, left: Left, random: &mut Random, into: &Path) {
        self.write(self.by_inode[&self.root], left, random, into);
    }

    fn write(&self, node: usize, left: Left, random: &mut Random, into: &Path) {
        let names = self.nodes[node].after(left, random, self.log).names;
        for (name, (entry, node)) in names {
            let path = into.join(name);
            let made = match &entry.target {
                Some(target) => symlink(target, &path),
                None if entry.mode & KIND_OF_FILE == DIRECTORY => {
                    let made = fs::create_dir(&path);
                    self.write(node, left, random, &path);
                    made.and_then(|()| allow(&path, entry.mode))
                }
                None => {
                    let bytes = self.nodes[node].after(left, random, self.log).bytes;
                    fs::write(&path, bytes).and_then(|()| allow(&path, entry.mode))
                }
            };
            made.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

fn allow(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode & !KIND_OF_FILE))
}

impl Node {
    fn after(&self, left: Left, random: &mut Random, log: &Log) -> Node {
        let mut node = Node {
            bytes: self.bytes.clone(),
            names: self.names.clone(),
            pending: Vec::new(),
        };
        let half = self.pending.len() / 2;
        for (n, (_, change)) in self.pending.iter().enumerate() {
            let whole = match left {
                Left::Nothing => false,
                Left::All => true,
                Left::Some => random.percent(50),
                Left::Later => n >= half,
                Left::Sectors => match change {
                    Change::Write { at, bytes } => {
                        node.put_some(*at, log.bytes(bytes), random);
                        false
                    }
                    _ => random.percent(50),
                },
            };
            if whole {
                node.apply(change, log);
            }
        }
        node
    }

    fn apply(&mut self, change: &Change, log: &Log) {
        match change {
            Change::Write { at, bytes } => self.put(*at, log.bytes(bytes)),
            Change::Size { len } => self.bytes.resize(*len, 0),
            Change::Name { entry, node } => {
                self.names
                    .insert(entry.name.clone(), (entry.clone(), *node));
            }
            Change::NoName { name } => {
                self.names.remove(name);
            }
            Change::Rename { from, entry, node } => {
                if let Some(from) = from {
                    self.names.remove(from);
                }
                self.names
                    .insert(entry.name.clone(), (entry.clone(), *node));
            }
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
    }

    /// Sectors of the disk, wherever the write begins.
    fn put_some(&mut self, at: usize, bytes: &[u8], random: &mut Random) {
        let mut from = 0;
        while from < bytes.len() {
            let to = ((at + from) / SECTOR + 1) * SECTOR - at;
            let to = to.min(bytes.len());
            if random.percent(50) {
                self.put(at + from, &bytes[from..to]);
            }
            from = to;
        }
    }
}
