//! Reads a write-ahead log as SQLite will recover it, and tells what of the hub's it will leave out.
//!
//! SQLite takes the frames up to the first that does not fit and drops the rest in silence: that is what a power cut
//! leaves behind, and also what a flipped bit does. The hub syncs each of its commits before it begins the next, so a
//! power cut costs it the last one at the most. The file format: <https://sqlite.org/fileformat2.html#walformat>.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// What lies behind the recovered end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// The log's own head cannot be read, so that all of it is left out.
    pub all: bool,
    /// Commits of the hub. Without a known page of the ledger's head: of anyone.
    pub commits: u64,
    /// The last event of each of them, where it can be told.
    pub events: Vec<u64>,
}

/// So many are listed at the most.
const EVENTS_MAX: usize = 10_000;
/// Of a log without a frame.
pub(super) const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;

/// The log of a database.
pub(super) fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Looks for commits that write `head_page`; for any at all if that page is not known. Nobody may write meanwhile.
pub(super) fn left_out(log: &Path, page_bytes: usize, head_page: Option<u32>) -> io::Result<Left> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(log)?);
    let mut bytes = [0; HEADER_BYTES];
    if !fill(&mut file, &mut bytes)? {
        return Ok(Left::default());
    }
    let mut generation = Generation::of(&bytes);
    let all = generation.is_none();
    let page_bytes = generation.as_ref().map_or(page_bytes, |it| it.page_bytes);
    let mut left = Left {
        all,
        ..Left::default()
    };
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    // Heads of a commit that is not whole yet.
    let mut open_heads = Vec::new();
    let mut fits = !all;
    while fill(&mut file, &mut frame)? {
        let generation = generation.get_or_insert_with(|| Generation::unknown(&frame, page_bytes));
        fits = fits && generation.takes(&frame);
        if !generation.owns(&frame) {
            continue;
        }
        let is_commit = word(&frame, 4) != 0;
        let counts = match head_page {
            // A page is in a commit once, so that each stands for one commit of the hub, whole or not.
            Some(page) => word(&frame, 0) == page,
            None => is_commit,
        };
        if counts {
            let page = &frame[FRAME_HEADER_BYTES..];
            open_heads.push(head_page.and_then(|_| last_event(page)));
        }
        if fits && is_commit {
            open_heads.clear();
        } else if !fits {
            left.take(&mut open_heads);
        }
    }
    left.take(&mut open_heads);
    Ok(left)
}

/// False at the end of the file.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

impl Left {
    fn take(&mut self, heads: &mut Vec<Option<u64>>) {
        self.commits += heads.len() as u64;
        let room = EVENTS_MAX.saturating_sub(self.events.len());
        self.events.extend(heads.drain(..).flatten().take(room));
    }
}

/// The frames since the log began anew: they share two numbers, and each one's checksum goes on from the one before.
struct Generation {
    salts: [u8; 8],
    page_bytes: usize,
    is_big_endian: bool,
    checksum: (u32, u32),
}

impl Generation {
    /// `None` if SQLite would not take this for the head of a log.
    fn of(header: &[u8; HEADER_BYTES]) -> Option<Generation> {
        let magic = word(header, 0);
        let page_bytes = word(header, 8) as usize;
        let is_big_endian = magic & 1 == 1;
        let checksum = sum((0, 0), &header[..24], is_big_endian);
        let is_one = magic & !1 == MAGIC
            && page_bytes.is_power_of_two()
            && (512..=65_536).contains(&page_bytes)
            && checksum == (word(header, 24), word(header, 28));
        is_one.then(|| Generation {
            salts: salts(header, 16),
            page_bytes,
            is_big_endian,
            checksum,
        })
    }

    /// As the first frame says, since the head does not.
    fn unknown(frame: &[u8], page_bytes: usize) -> Generation {
        Generation {
            salts: salts(frame, 8),
            page_bytes,
            is_big_endian: false,
            checksum: (0, 0),
        }
    }

    /// Whether SQLite would take this as the next frame.
    fn takes(&mut self, frame: &[u8]) -> bool {
        let sum_of = |seed, bytes| sum(seed, bytes, self.is_big_endian);
        let checksum = sum_of(
            sum_of(self.checksum, &frame[..8]),
            &frame[FRAME_HEADER_BYTES..],
        );
        let fits = word(frame, 0) != 0
            && salts(frame, 8) == self.salts
            && checksum == (word(frame, 16), word(frame, 20));
        self.checksum = checksum;
        fits
    }

    /// Whether the frame was written since the log began anew. The numbers are random, so one bit may have flipped.
    fn owns(&self, frame: &[u8]) -> bool {
        let theirs = u64::from_be_bytes(salts(frame, 8));
        (theirs ^ u64::from_be_bytes(self.salts)).count_ones() <= 1
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

fn salts(bytes: &[u8], at: usize) -> [u8; 8] {
    let mut salts = [0; 8];
    salts.copy_from_slice(&bytes[at..at + 8]);
    salts
}

fn sum(seed: (u32, u32), bytes: &[u8], is_big_endian: bool) -> (u32, u32) {
    let read = |bytes: &[u8]| {
        let word = word(bytes, 0);
        if is_big_endian {
            word
        } else {
            word.swap_bytes()
        }
    };
    bytes.chunks_exact(8).fold(seed, |(one, two), pair| {
        let one = one.wrapping_add(read(pair)).wrapping_add(two);
        let two = two.wrapping_add(read(&pair[4..])).wrapping_add(one);
        (one, two)
    })
}

/// The number of the last event, in a page that holds the ledger's head: its one row, second column.
fn last_event(page: &[u8]) -> Option<u64> {
    const LEAF_OF_A_TABLE: u8 = 0x0d;
    if page.first() != Some(&LEAF_OF_A_TABLE) {
        return None;
    }
    let cell = usize::from(u16::from_be_bytes([*page.get(8)?, *page.get(9)?]));
    let mut row = page.get(cell..)?;
    let _payload_bytes = varint(&mut row)?;
    let _id = varint(&mut row)?;
    let types_bytes = usize::try_from(varint(&mut { row })?).ok()?;
    let mut types = row.get(..types_bytes)?;
    let values = row.get(types_bytes..)?;
    let _types_bytes = varint(&mut types)?;
    // The key of the row is not stored with it.
    let (0, kind) = (varint(&mut types)?, varint(&mut types)?) else {
        return None;
    };
    let bytes = match kind {
        8 => return Some(0),
        9 => return Some(1),
        1..=4 => usize::try_from(kind).ok()?,
        5 => 6,
        6 => 8,
        _ => return None,
    };
    let value = values.get(..bytes)?;
    Some(
        value
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..9 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        if at == 8 {
            return Some(value << 8 | u64::from(*first));
        }
        value = value << 7 | u64::from(first & 0x7f);
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    Some(value)
}
