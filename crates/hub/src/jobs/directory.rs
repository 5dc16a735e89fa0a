//! A job's directory: its files follow the ledger's rows, and a history that grew too large is rotated.
//!
//! What is in the files is said by `wire`, that they are replaced whole by [`crate::projection`]. The record of what was
//! written lies in the directory itself, so that it goes where the directory goes.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use switchboard_core::JobId;
use switchboard_core::job::{Job, JobSpec};
use switchboard_core::job_history::{Exchange, Interaction, JobEntry, RecoveryPoint};
use switchboard_core::limits;
use switchboard_core::query::Readable;
use switchboard_core::record::{Place, RecordRange};
use switchboard_store::Error as StoreError;
use switchboard_wire::IsoTime;
use switchboard_wire::logist::schemas::VERSION;
use switchboard_wire::logist::{files, history, manifest, spec};

use super::archive::Archive;
use super::pack::Packer;
use crate::projection::{Check, Foreign, Position, Projection, Repairs, Wanted, folder};

pub(super) const MANIFEST: &str = "job_manifest.json";
pub(super) const HISTORY: &str = "jobHistory.json";
const OUTCOME: &str = "latest-outcome.json";
const PROMPT: &str = "prompt.md";
const CONFIG: &str = "config.json";
/// What we note of the files.
const OURS: &str = ".logist";
const RECORD: &str = "files.json";
/// Made for a new job.
const FOLDERS: [&str; 5] = ["workspace", "logs", "backups", "temp", "attachments"];
/// Interactions that are read at a time.
const READ_AT_ONCE: usize = 64;
/// Of a manifest's history, the newest of each kind; all of it is in the ledger.
const TOLD_MAX: usize = limits::JOB_INTERACTIONS_MAX;

/// A job as it is in the ledger.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub job: Job,
    pub spec: JobSpec,
    pub interactions: Vec<Interaction>,
    pub entries: Vec<JobEntry>,
    pub points: Vec<RecoveryPoint>,
    /// The texts of the last interaction.
    pub last: Option<Exchange>,
    pub upto: Position,
}

type Ledger<'a> = &'a dyn Readable<Error = StoreError>;

impl Told {
    pub fn read(ledger: Ledger<'_>, id: &JobId) -> Result<Option<Told>, StoreError> {
        let head = ledger.head()?;
        let key = id.to_string();
        let (Some(job), Some(spec)) = (
            ledger.private::<Job>(key.clone())?,
            ledger.private::<JobSpec>(key.clone())?,
        ) else {
            return Ok(None);
        };
        let of = key.clone();
        let mut interactions: Vec<Interaction> =
            ledger.privates(&RecordRange::newest::<Interaction>(of.clone(), TOLD_MAX))?;
        let mut entries: Vec<JobEntry> =
            ledger.privates(&RecordRange::newest::<JobEntry>(of, TOLD_MAX))?;
        interactions.reverse();
        entries.reverse();
        Ok(Some(Told {
            last: ledger.private(Interaction::key_of(id, job.last_sequence))?,
            points: ledger.privates(&RecoveryPoint::of_job(id, TOLD_MAX))?,
            interactions,
            entries,
            job,
            spec,
            upto: Position {
                epoch: head.epoch.number,
                seq: head.seq,
            },
        }))
    }
}

/// One job's directory.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    pub root: PathBuf,
}

impl Directory {
    pub fn new(root: impl Into<PathBuf>) -> Directory {
        Directory { root: root.into() }
    }

    /// What a new job finds there.
    pub fn furnish(&self) -> io::Result<()> {
        for name in FOLDERS {
            folder::make(&self.root.join(name), 0o777)?;
        }
        Ok(())
    }

    pub fn projection(&self) -> Projection {
        projection(&self.root)
    }

    /// What somebody made of the manifest, and what it was.
    pub fn edited(&self) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        edited(&self.projection(), MANIFEST)
    }

    /// Whether the files show this version of the job.
    pub fn is_current(&self, job: &Job) -> bool {
        let version = self.projection().version(&self.root.join(MANIFEST));
        version.is_ok_and(|known| known.is_some_and(|known| known == job.version.to_string()))
    }

    /// Writes what is not as the ledger has it. The history, if it is to be written, was read before.
    pub fn write(
        &self,
        told: &Told,
        history: Option<Vec<u8>>,
        check: Check,
    ) -> io::Result<Repairs> {
        let mut wanted = vec![self.file(CONFIG, told.job.version, pretty(&config(told)))];
        let sequence = told.job.last_sequence;
        if let Some((last, exchange)) = told.interactions.last().zip(told.last.as_ref()) {
            let prompt = Packer::shown(&exchange.prompt, &told.job.id).map_err(io::Error::other)?;
            wanted.push(self.file(PROMPT, sequence, prompt.into_bytes()));
            let outcome = files::outcome(&told.job, last);
            wanted.push(self.file(OUTCOME, told.job.version, pretty(&outcome)));
        }
        wanted.push(Wanted {
            content: history,
            version: self.history_version(told)?,
            path: self.root.join(HISTORY),
            foreign: Foreign::Replace,
        });
        let manifest = manifest::manifest(&told.job, &told.spec, &told.interactions, &told.entries);
        let manifest = pretty(&manifest);
        wanted.push(self.file(&base_of(MANIFEST), told.job.version, manifest.clone()));
        // Last, because it says that the others are there.
        wanted.push(self.file(MANIFEST, told.job.version, manifest));
        let projection = self.projection();
        projection.reconcile(
            told.upto,
            &wanted,
            check,
            &mut |_| Ok(None),
            &mut folder::freely,
        )
    }

    /// Whether the history has to be written.
    pub fn lacks_history(&self, told: &Told) -> io::Result<bool> {
        let version = self.projection().version(&self.root.join(HISTORY))?;
        Ok(version != Some(self.history_version(told)?))
    }

    fn history_version(&self, told: &Told) -> io::Result<String> {
        let newest = told
            .points
            .iter()
            .map(|point| point.at.0)
            .max()
            .unwrap_or_default();
        let kept = self.archived_upto()?;
        let (sequence, points) = (told.job.last_sequence, told.points.len());
        Ok(format!("{kept}-{sequence}:{points}:{newest}"))
    }

    /// The last interaction that was rotated out.
    pub fn archived_upto(&self) -> io::Result<u64> {
        Ok(Archive::all(&self.root)?
            .last()
            .map_or(0, |archive| archive.last))
    }

    fn file(&self, name: &str, version: u64, content: Vec<u8>) -> Wanted {
        Wanted {
            path: self.root.join(name),
            version: version.to_string(),
            content: Some(content),
            foreign: Foreign::Replace,
        }
    }
}

/// One interaction of a job's history: out of the archive without reading the rest of it, else out of the file.
pub fn interaction(job: &Path, sequence: u64) -> io::Result<Option<Value>> {
    for archive in Archive::all(job)? {
        if (archive.first..=archive.last).contains(&sequence) {
            return Ok(Some(serde_json::from_slice(&archive.line(sequence)?)?));
        }
    }
    let Some(text) = folder::read(rustix::fs::CWD, &job.join(HISTORY))? else {
        return Ok(None);
    };
    // A line is one interaction.
    let mark = format!("{{\"sequence\":{sequence},");
    let found = text
        .split(|byte| *byte == b'\n')
        .find(|line| line.starts_with(mark.as_bytes()));
    let line = found.map(|line| line.strip_suffix(b",").unwrap_or(line));
    Ok(line.map(serde_json::from_slice).transpose()?)
}

/// Of files in this directory, with what we note of them below it.
pub(super) fn projection(root: &Path) -> Projection {
    Projection {
        root: root.to_owned(),
        record: root.join(OURS).join(RECORD),
    }
}

/// Where a file is kept as it was written, so that it is known what an edit changed.
pub(super) fn base_of(name: &str) -> String {
    format!("{OURS}/{name}")
}

/// What somebody made of a file, and what it was when it was written.
pub(super) fn edited(
    projection: &Projection,
    name: &str,
) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let Some(edited) = projection.altered(&projection.root.join(name))? else {
        return Ok(None);
    };
    let base = folder::read(rustix::fs::CWD, &projection.root.join(base_of(name)))?;
    Ok(Some((edited, base.unwrap_or_default())))
}

/// The interactions behind a sequence, each as a line of JSON.
pub(super) fn lines(
    ledger: Ledger<'_>,
    told: &Told,
    after: u64,
) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut lines = Vec::new();
    let mut place = after;
    loop {
        let range = RecordRange {
            after: i64::try_from(place).ok().map(|position| Place {
                position,
                key: "\u{10FFFF}".into(),
            }),
            ..RecordRange::of::<Interaction>(told.job.id.to_string(), READ_AT_ONCE)
        };
        let rows: Vec<Interaction> = ledger.privates(&range)?;
        for row in &rows {
            place = row.sequence;
            // What came after is written next time.
            if place > told.job.last_sequence {
                return Ok(lines);
            }
            lines.push(line(ledger, row)?);
        }
        if rows.len() < READ_AT_ONCE {
            return Ok(lines);
        }
    }
}

fn line(ledger: Ledger<'_>, row: &Interaction) -> Result<Vec<u8>, StoreError> {
    let exchange = ledger.private::<Exchange>(Interaction::key_of(&row.job, row.sequence))?;
    let exchange = exchange.unwrap_or_else(|| Exchange {
        job: row.job.clone(),
        sequence: row.sequence,
        prompt: Packer::pack(""),
        raw: Packer::pack(""),
        request: String::new(),
        workspace: String::new(),
    });
    // A text that cannot be read is no reason to keep all others back.
    let shown = |packed| Packer::shown(packed, &row.job).unwrap_or_else(|error| error.to_string());
    let exchanged = history::exchanged(
        row,
        &exchange,
        shown(&exchange.prompt),
        shown(&exchange.raw),
    );
    Ok(serde_json::to_vec(&exchanged).expect("text and numbers are always JSON"))
}

/// The history file: the document's object, an interaction in each line.
pub(super) fn history_file(told: &Told, archived: u64, lines: &[Vec<u8>]) -> Vec<u8> {
    let points = told
        .points
        .iter()
        .map(|point| history::point(point, &told.spec));
    let points =
        serde_json::to_vec(&points.collect::<Vec<_>>()).expect("text and numbers are always JSON");
    let head = json!({
        "schema_version": VERSION,
        "job_id": told.job.id,
        "created_at": IsoTime::from(told.job.created_at),
        "archived_upto": archived,
    });
    let head = head.to_string();
    let mut file = head.trim_end_matches('}').as_bytes().to_vec();
    file.extend(b",\"interactions\":[\n");
    file.extend(lines.join(&b",\n"[..]));
    file.extend(b"\n],\"recovery_points\":");
    file.extend(points);
    file.extend(b"}\n");
    file
}

fn config(told: &Told) -> Value {
    let mut spec = serde_json::to_value(spec::Spec::of(&told.spec, &told.job.limits))
        .expect("a spec is always JSON");
    spec["job_id"] = told.job.id.as_str().into();
    json!({ "schema_version": VERSION, "job_spec": spec })
}

fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("text and numbers are always JSON");
    text.push(b'\n');
    text
}
