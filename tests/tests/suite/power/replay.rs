//! The replayer itself: what is synced stays, what is not may go, in every way in which it may.

use std::collections::BTreeSet;
use std::fs;

use switchboard_tests::Random;
use switchboard_tests::power::{Disk, Left, Log};
use tempfile::TempDir;

const ROOT: u64 = 1;
const FILE: u64 = 2;

/// One record as `recorder.c` writes it.
fn record(kind: u64, inode: u64, at: u64, payload: &[u8]) -> Vec<u8> {
    let head = [kind, inode, at, payload.len() as u64];
    let mut bytes: Vec<u8> = head.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.extend_from_slice(payload);
    bytes
}

fn write(at: u64, bytes: &[u8]) -> Vec<u8> {
    record(1, FILE, at, bytes)
}

fn create() -> Vec<u8> {
    record(3, ROOT, 0, b"2 33152 f\n")
}

fn rename() -> Vec<u8> {
    record(5, ROOT, ROOT, b"f\n2 33152 g\n")
}

fn sync(of: u64, listing: &[u8]) -> Vec<u8> {
    let ticket = 100 + of;
    [record(6, of, ticket, listing), record(7, of, ticket, b"")].concat()
}

/// A file that is there for sure, with `one` in it.
fn there() -> Vec<Vec<u8>> {
    vec![
        create(),
        write(0, b"one"),
        sync(FILE, b""),
        sync(ROOT, b"2 33152 f\n"),
    ]
}

/// The files that a cut after these records leaves.
fn after(records: &[Vec<u8>], left: Left, seed: u64) -> Vec<(String, Vec<u8>)> {
    replayed(&Log::parse(records.concat()), left, seed)
}

fn replayed(log: &Log, left: Left, seed: u64) -> Vec<(String, Vec<u8>)> {
    let mut disk = Disk::of(log, ROOT);
    disk.advance(u64::MAX);
    let image = TempDir::new().expect("a temporary directory can be made");
    disk.cut(left, &mut Random::seeded(seed), image.path());
    let files = fs::read_dir(image.path()).expect("it is there");
    let files = files.map(|file| {
        let file = file.expect("it is there");
        let name = file.file_name().to_string_lossy().into_owned();
        (name, fs::read(file.path()).expect("it is a file"))
    });
    files.collect()
}

fn file(name: &str, bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    vec![(name.to_owned(), bytes.to_vec())]
}

#[test]
fn what_was_synced_stays_and_what_was_not_may_go() {
    let more = |more: Vec<Vec<u8>>| [there(), more].concat();
    for (records, left, expected) in [
        (there(), Left::Nothing, file("f", b"one")),
        (
            more(vec![write(0, b"two")]),
            Left::Nothing,
            file("f", b"one"),
        ),
        (more(vec![write(0, b"two")]), Left::All, file("f", b"two")),
        // A later one without an earlier one.
        (
            more(vec![write(3, b"-a"), write(5, b"-b")]),
            Left::Later,
            file("f", b"one\0\0-b"),
        ),
        // Begun and not ended: nobody knows.
        (
            more(vec![write(0, b"two"), record(6, FILE, 9, b"")]),
            Left::Nothing,
            file("f", b"one"),
        ),
        // What came while the sync went on is not covered by it.
        (
            more(vec![
                record(6, FILE, 9, b""),
                write(0, b"two"),
                record(7, FILE, 9, b""),
            ]),
            Left::Nothing,
            file("f", b"one"),
        ),
        (
            more(vec![record(2, FILE, 1, b"")]),
            Left::Nothing,
            file("f", b"one"),
        ),
        (
            more(vec![record(2, FILE, 1, b""), sync(FILE, b"")]),
            Left::Nothing,
            file("f", b"o"),
        ),
        // Names go by their directory.
        (
            vec![create(), write(0, b"one"), sync(FILE, b"")],
            Left::Nothing,
            Vec::new(),
        ),
        (more(vec![rename()]), Left::Nothing, file("f", b"one")),
        (more(vec![rename()]), Left::All, file("g", b"one")),
        (
            more(vec![rename(), sync(ROOT, b"2 33152 g\n")]),
            Left::Nothing,
            file("g", b"one"),
        ),
        // Renamed past the C library: the directory's sync tells.
        (
            more(vec![sync(ROOT, b"2 33152 g\n")]),
            Left::Nothing,
            file("g", b"one"),
        ),
        (
            more(vec![record(4, ROOT, 0, b"f")]),
            Left::Nothing,
            file("f", b"one"),
        ),
        (more(vec![record(4, ROOT, 0, b"f")]), Left::All, Vec::new()),
    ] {
        assert_eq!(
            after(&records, left, 0),
            expected,
            "{left:?} of {records:?}"
        );
    }
}

#[test]
fn without_its_syncs_everything_is_lost() {
    let log = Log::parse(there().concat()).without_syncs();
    assert_eq!(replayed(&log, Left::Nothing, 0), Vec::new());
}

#[test]
fn a_write_is_torn_at_sectors_and_nowhere_else() {
    const SECTOR: usize = 512;
    let old = record(1, FILE, 0, &[b'o'; 2 * SECTOR]);
    let records = [
        vec![create(), old, sync(FILE, b""), sync(ROOT, b"2 33152 f\n")],
        vec![write(0, &[b'n'; 2 * SECTOR])],
    ];
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let found = after(&records.concat(), Left::Sectors, seed);
        let (_, bytes) = found.first().expect("it is there for sure");
        let halves = bytes.chunks(SECTOR);
        let halves: Vec<u8> = halves
            .map(|half| {
                assert!(
                    half.iter().all(|byte| *byte == half[0]),
                    "torn within a sector"
                );
                half[0]
            })
            .collect();
        seen.insert(halves);
    }
    let ways: BTreeSet<Vec<u8>> = [b"oo", b"on", b"no", b"nn"].map(|way| way.to_vec()).into();
    assert_eq!(seen, ways);
}

#[test]
fn a_number_that_comes_again_is_another_file() {
    let again = vec![record(4, ROOT, 0, b"f"), create(), write(0, b"2")];
    let records = [there(), again].concat();
    assert_eq!(after(&records, Left::All, 0), file("f", b"2"));
    assert_eq!(after(&records, Left::Nothing, 0), file("f", b"one"));
}
