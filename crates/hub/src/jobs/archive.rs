//! Interactions that were rotated out of a job's history file: a zstd frame each, and where each frame is at the end.
//!
//! A file is named after the interactions in it and ends in the seek table of zstd's seekable format, so that `zstd -d`
//! gives a line of JSON per interaction, and one of them is found without reading the rest.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use crate::projection::folder;

/// Below the job's directory.
pub(super) const DIR: &str = "history";
const SUFFIX: &str = ".ndjson.zst";
const LEVEL: i32 = 3;
/// The seek table is a frame that decoders skip.
const SKIPPABLE: u32 = 0x184D_2A5E;
const SEEKABLE: u32 = 0x8F92_EAB1;
const FOOTER_BYTES: u64 = 9;
const ENTRY_BYTES: u64 = 8;
/// One interaction is no longer: two texts, escaped, and what stands beside them.
const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// One file of a job's archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Archive {
    pub path: PathBuf,
    pub first: u64,
    pub last: u64,
}

impl Archive {
    /// Those of a job, the oldest first, for as long as they follow each other from the first interaction on.
    pub fn all(job: &Path) -> io::Result<Vec<Archive>> {
        let entries = match fs::read_dir(job.join(DIR)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            found.extend(Archive::named(entry?.path()));
        }
        found.sort_by_key(|archive| archive.first);
        let mut next = 1;
        found.retain(|archive| {
            let follows = archive.first == next && archive.table().is_ok();
            next = if follows { archive.last + 1 } else { next };
            follows
        });
        Ok(found)
    }

    fn named(path: PathBuf) -> Option<Archive> {
        let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
        let (first, last) = name.split_once('-')?;
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(Archive { path, first, last })
    }

    /// Writes lines from this sequence on as one file.
    pub fn write(job: &Path, first: u64, lines: &[Vec<u8>]) -> io::Result<Archive> {
        let (mut bytes, mut table) = (Vec::new(), Vec::new());
        for line in lines {
            let frame = zstd::bulk::compress(line, LEVEL)?;
            table.extend(short(frame.len())?.to_le_bytes());
            table.extend(short(line.len())?.to_le_bytes());
            bytes.extend(frame);
        }
        let count = short(lines.len())?;
        bytes.extend(SKIPPABLE.to_le_bytes());
        bytes.extend((short(table.len())? + FOOTER_BYTES as u32).to_le_bytes());
        bytes.extend(table);
        bytes.extend(count.to_le_bytes());
        // No checksums.
        bytes.push(0);
        bytes.extend(SEEKABLE.to_le_bytes());
        let last = first + u64::from(count) - 1;
        let name = format!("{first}-{last}{SUFFIX}");
        let dir = folder::enter(
            folder::open(job)?,
            OsStr::new(DIR),
            0o777,
            &mut folder::freely,
        )?;
        folder::put(dir, OsStr::new(&name), &bytes, Mode::from_raw_mode(0o644))?;
        let path = job.join(DIR).join(name);
        Ok(Archive { path, first, last })
    }

    /// One interaction, as the line that it was.
    pub fn line(&self, sequence: u64) -> io::Result<Vec<u8>> {
        let (file, table) = self.table()?;
        let place = sequence
            .checked_sub(self.first)
            .and_then(|place| usize::try_from(place).ok());
        let place = place
            .filter(|place| *place < table.len())
            .ok_or_else(damaged)?;
        let at: u64 = table[..place]
            .iter()
            .map(|(packed, _)| u64::from(*packed))
            .sum();
        let (packed, length) = table[place];
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let mut frame = vec![0; usize::try_from(packed).map_err(io::Error::other)?];
        if length > LINE_BYTES_MAX || frame.len() > LINE_BYTES_MAX {
            return Err(damaged());
        }
        file.read_exact_at(&mut frame, at)?;
        zstd::bulk::decompress(&frame, length)
    }

    /// The file, and of each frame its length in the file and unpacked.
    fn table(&self) -> io::Result<(File, Vec<(u32, u32)>)> {
        let file = File::open(&self.path)?;
        let end = file.metadata()?.len();
        let mut footer = [0; FOOTER_BYTES as usize];
        let start = end.checked_sub(FOOTER_BYTES).ok_or_else(damaged)?;
        file.read_exact_at(&mut footer, start)?;
        let [a, b, c, d, _, magic @ ..] = footer;
        let count = u64::from(u32::from_le_bytes([a, b, c, d]));
        let is_whole = u32::from_le_bytes(magic) == SEEKABLE && count == self.last - self.first + 1;
        let at = count
            .checked_mul(ENTRY_BYTES)
            .and_then(|bytes| start.checked_sub(bytes));
        let at = at.filter(|_| is_whole).ok_or_else(damaged)?;
        let mut bytes = vec![0; usize::try_from(start - at).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, at)?;
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u32::from(*byte))
        };
        let entries = bytes.chunks_exact(ENTRY_BYTES as usize);
        let table = entries.map(|entry| (number(&entry[..4]), number(&entry[4..])));
        Ok((file, table.collect()))
    }
}

fn short(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::Error::other("the archive would be too large"))
}

fn damaged() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        "the archive is damaged; remove it, and it is written again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(sequence: u64) -> Vec<u8> {
        format!(
            "{{\"sequence\":{sequence},\"text\":\"{}\"}}\n",
            "x".repeat(sequence as usize)
        )
        .into_bytes()
    }

    #[test]
    fn one_interaction_is_found_by_its_frame_and_zstd_itself_reads_the_whole() {
        let job = tempfile::tempdir().unwrap();
        let lines: Vec<_> = (1..=40).map(line).collect();
        let one = Archive::write(job.path(), 1, &lines).unwrap();
        let two = Archive::write(job.path(), 41, &[line(41)]).unwrap();
        assert_eq!(
            Archive::all(job.path()).unwrap(),
            [one.clone(), two.clone()]
        );
        for sequence in [1, 2, 39, 40] {
            assert_eq!(one.line(sequence).unwrap(), line(sequence));
        }
        assert_eq!(two.line(41).unwrap(), line(41));
        assert!(one.line(41).is_err() && one.line(0).is_err() && two.line(40).is_err());
        let whole = zstd::decode_all(File::open(&one.path).unwrap()).unwrap();
        assert_eq!(whole, lines.concat());
    }

    #[test]
    fn nothing_but_the_table_and_the_frame_is_read() {
        let job = tempfile::tempdir().unwrap();
        let lines: Vec<_> = (1..=40).map(line).collect();
        let archive = Archive::write(job.path(), 1, &lines).unwrap();
        // Whatever stands before the last frame.
        let table = archive.table().unwrap().1;
        let before: u64 = table[..39]
            .iter()
            .map(|(packed, _)| u64::from(*packed))
            .sum();
        let file = File::options().write(true).open(&archive.path).unwrap();
        file.write_all_at(&vec![0xff; before as usize], 0).unwrap();
        assert_eq!(archive.line(40).unwrap(), line(40));
        assert!(archive.line(1).is_err());
    }

    #[test]
    fn a_file_that_is_damaged_or_does_not_follow_is_none() {
        let job = tempfile::tempdir().unwrap();
        assert_eq!(Archive::all(job.path()).unwrap(), []);
        let one = Archive::write(job.path(), 1, &[line(1), line(2)]).unwrap();
        Archive::write(job.path(), 4, &[line(4)]).unwrap();
        fs::write(job.path().join(DIR).join("notes.txt"), "mine").unwrap();
        assert_eq!(
            Archive::all(job.path()).unwrap(),
            std::slice::from_ref(&one)
        );
        let bytes = fs::read(&one.path).unwrap();
        for broken in [
            &bytes[..bytes.len() - 1],
            &bytes[1..12],
            b"",
            &[bytes.clone(), vec![0]].concat(),
        ] {
            fs::write(&one.path, broken).unwrap();
            assert_eq!(
                Archive::all(job.path()).unwrap(),
                [],
                "{} bytes",
                broken.len()
            );
        }
    }
}
