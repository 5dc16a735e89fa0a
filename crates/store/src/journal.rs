//! The journal of what was said (`evidence-ledger.db`): a SQLite file that other programs read and write at any time.
//!
//! It is no ledger and may be lost: the hub writes it after the ledger, and keeps in it how far it has come. What a row
//! means, and which of two of the same message counts, is the hub's business. Whatever others put into a column is read
//! as text or as a number, or as nothing.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, params};
use switchboard_core::limits::ID_BYTES_MAX;

/// An open journal.
pub struct Journal {
    db: Connection,
    path: PathBuf,
    /// Which file it is: somebody may put another one in its place.
    file: (u64, u64),
}

/// A row of `comms_journal`. `None` leaves a column as it is; without a status it only adds to a row that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub message_id: String,
    pub session_id: Option<String>,
    pub sender_role: Option<String>,
    pub target_role: Option<String>,
    pub channel: Option<String>,
    pub direction: Option<String>,
    pub sent_at_ms: Option<i64>,
    pub brokered_at_ms: Option<i64>,
    pub raw_body: Option<String>,
    pub body_hash: Option<String>,
    pub body_bytes: Option<i64>,
    pub status: Option<String>,
    pub ack_status: Option<String>,
    pub error_code: Option<String>,
    pub attempt: Option<i64>,
    pub metadata_json: Option<String>,
    pub updated_at_ms: Option<i64>,
}

/// How far of the ledger's log it holds, and when the last event of that was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upto {
    pub epoch: u64,
    pub seq: u64,
    pub at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// It will not do, now or later: damaged, no database, or with another table.
    #[error("{0}")]
    Unfit(String),
    /// Locked, full or out of reach: later, perhaps.
    #[error("{0}")]
    Unavailable(String),
}

type Result<T> = std::result::Result<T, JournalError>;

/// Others may hold the file's lock for this long without being noticed.
const LOCK_WAIT: Duration = Duration::from_millis(250);
/// A body or metadata of others that is longer reads as nothing.
const TEXT_BYTES_MAX: usize = 256 * 1024;

const COLUMNS: &str = "message_id, session_id, sender_role, target_role, channel, direction, sent_at_ms, \
    brokered_at_ms, raw_body, body_hash, body_bytes, status, ack_status, error_code, attempt, metadata_json, updated_at_ms";

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS comms_journal (
  row_id INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id TEXT NOT NULL UNIQUE,
  session_id TEXT,
  sender_role TEXT,
  target_role TEXT,
  channel TEXT NOT NULL DEFAULT 'ws' CHECK (channel IN ('ws', 'telegram', 'sms', 'user')),
  direction TEXT NOT NULL DEFAULT 'outbound' CHECK (direction IN ('inbound', 'outbound')),
  sent_at_ms INTEGER,
  brokered_at_ms INTEGER,
  raw_body TEXT,
  body_hash TEXT,
  body_bytes INTEGER,
  status TEXT NOT NULL CHECK (status IN ('recorded', 'brokered', 'routed', 'acked', 'failed')),
  ack_status TEXT,
  error_code TEXT,
  attempt INTEGER,
  metadata_json TEXT DEFAULT '{}',
  updated_at_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS comms_journal_by_status ON comms_journal (status);
CREATE TABLE IF NOT EXISTS switchboard_upto (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at_ms INTEGER NOT NULL
);";

/// What each row is written with.
struct Statements {
    find: String,
    insert: String,
    update: String,
}

static STATEMENTS: LazyLock<Statements> = LazyLock::new(|| {
    let names = || COLUMNS.split(", ").zip(1..);
    let values: Vec<String> = names().map(|(_, at)| format!("?{at}")).collect();
    let set: Vec<String> = names()
        .map(|(name, at)| format!("{name} = coalesce(?{at}, {name})"))
        .collect();
    let (values, set) = (values.join(", "), set.join(", "));
    let selected = selected("raw_body");
    Statements {
        find: format!("SELECT {selected} FROM comms_journal WHERE message_id = ?1"),
        insert: format!("INSERT INTO comms_journal ({COLUMNS}) VALUES ({values})"),
        update: format!("UPDATE comms_journal SET {set} WHERE message_id = ?1"),
    }
});

impl Journal {
    /// Opens the file, and makes it if there is none. Neither it nor anything above it may be a link.
    pub fn open(path: &Path) -> Result<Journal> {
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        match made {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(unreached(&error));
            }
            Ok(_) | Err(_) => {}
        }
        let found = fs::symlink_metadata(path).map_err(|error| unreached(&error))?;
        if !found.is_file() {
            return Err(JournalError::Unfit("it is not a file".to_owned()));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let db = Connection::open_with_flags(path, flags).map_err(world)?;
        db.busy_timeout(LOCK_WAIT).map_err(world)?;
        db.execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
        )
        .and_then(|()| db.execute_batch(TABLES))
        .map_err(world)?;
        let journal = Journal {
            db,
            path: path.to_owned(),
            file: (found.dev(), found.ino()),
        };
        // A table that lacks a column says so here.
        journal.newest(0, 0)?;
        journal.upto()?;
        Ok(journal)
    }

    /// The newest rows, the newest last, each with so many characters of its body; of one that another program made, too.
    pub fn read(path: &Path, limit: usize, body_max: usize) -> Result<Vec<Row>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags).map_err(world)?;
        db.busy_timeout(LOCK_WAIT).map_err(world)?;
        newest(&db, limit, body_max).map_err(world)
    }

    /// Whether others still find this file under its name.
    pub fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file)
    }

    pub fn upto(&self) -> Result<Upto> {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Upto {
                epoch: row.get::<_, i64>(0)?.cast_unsigned(),
                seq: row.get::<_, i64>(1)?.cast_unsigned(),
                at_ms: row.get(2)?,
            })
        };
        let query = "SELECT epoch, seq, at_ms FROM switchboard_upto";
        let upto = self.db.query_row(query, [], read).optional();
        Ok(upto.map_err(world)?.unwrap_or_default())
    }

    /// Writes rows, and how far the log is in them: all of it or nothing. `merge` makes one row of what is there and what
    /// is new.
    pub fn put(
        &mut self,
        rows: &[Row],
        upto: Option<Upto>,
        merge: impl Fn(&Row, &Row) -> Row,
    ) -> Result<()> {
        let behavior = rusqlite::TransactionBehavior::Immediate;
        let tx = self.db.transaction_with_behavior(behavior).map_err(world)?;
        for row in rows {
            put(&tx, row, &merge).map_err(world)?;
        }
        if let Some(Upto { epoch, seq, at_ms }) = upto {
            let (epoch, seq) = (epoch.cast_signed(), seq.cast_signed());
            let query = "INSERT INTO switchboard_upto VALUES (1, ?1, ?2, ?3)
                ON CONFLICT (one) DO UPDATE SET epoch = ?1, seq = ?2, at_ms = ?3";
            let mut query = tx.prepare_cached(query).map_err(world)?;
            query.execute([epoch, seq, at_ms]).map_err(world)?;
        }
        tx.commit().map_err(world)
    }

    /// The newest rows, the newest last, each with so many characters of its body.
    pub fn newest(&self, limit: usize, body_max: usize) -> Result<Vec<Row>> {
        newest(&self.db, limit, body_max).map_err(world)
    }

    /// Rows of one status behind a place, in order, each with its place.
    pub fn of_status(&self, status: &str, after: i64, limit: usize) -> Result<Vec<(i64, Row)>> {
        let query = format!(
            "SELECT {}, row_id FROM comms_journal WHERE status = ?1 AND row_id > ?2
             AND typeof(message_id) = 'text' AND octet_length(message_id) BETWEEN 1 AND {ID_BYTES_MAX}
             ORDER BY row_id LIMIT ?3",
            selected("raw_body")
        );
        let read = || {
            let mut query = self.db.prepare_cached(&query)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = query.query_map(params![status, after, limit], |row| {
                Ok((row.get(17)?, row_of(row)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(world)
    }

    /// Removes rows that are older, at most so many. How many that were.
    pub fn thin(&mut self, before_ms: i64, limit: usize) -> Result<usize> {
        let query = "DELETE FROM comms_journal WHERE row_id IN (SELECT row_id FROM comms_journal
            WHERE coalesce(brokered_at_ms, sent_at_ms, updated_at_ms) < ?1 LIMIT ?2)";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.db.execute(query, [before_ms, limit]).map_err(world)
    }
}

fn put(db: &Connection, row: &Row, merge: &impl Fn(&Row, &Row) -> Row) -> rusqlite::Result<()> {
    let mut find = db.prepare_cached(&STATEMENTS.find)?;
    let there = find.query_row([&row.message_id], row_of).optional()?;
    let merged = there.as_ref().map(|there| merge(there, row));
    if merged.is_none() && row.status.is_none() {
        return Ok(());
    }
    let write = match merged {
        Some(_) => &STATEMENTS.update,
        None => &STATEMENTS.insert,
    };
    let row = merged.as_ref().unwrap_or(row);
    db.prepare_cached(write)?.execute(params![
        row.message_id,
        row.session_id,
        row.sender_role,
        row.target_role,
        row.channel,
        row.direction,
        row.sent_at_ms,
        row.brokered_at_ms,
        row.raw_body,
        row.body_hash,
        row.body_bytes,
        row.status,
        row.ack_status,
        row.error_code,
        row.attempt,
        row.metadata_json,
        row.updated_at_ms,
    ])?;
    Ok(())
}

fn newest(db: &Connection, limit: usize, body_max: usize) -> rusqlite::Result<Vec<Row>> {
    let columns = selected("substr(raw_body, 1, ?2)");
    let query = format!("SELECT {columns} FROM comms_journal ORDER BY row_id DESC LIMIT ?1");
    let mut query = db.prepare_cached(&query)?;
    let bounds = [limit, body_max].map(|bound| i64::try_from(bound).unwrap_or(i64::MAX));
    let rows = query.query_map(bounds, row_of)?;
    let mut rows: Vec<Row> = rows.collect::<rusqlite::Result<_>>()?;
    rows.reverse();
    Ok(rows)
}

/// The columns as they are read: what is too long is not even loaded.
fn selected(body: &str) -> String {
    let bounded = |name: &str, value: &str| {
        let shown = format!("iif(octet_length({name}) <= {TEXT_BYTES_MAX}, {value}, NULL)");
        (name.to_owned(), shown)
    };
    let bounds = [
        bounded("raw_body", body),
        bounded("metadata_json", "metadata_json"),
    ];
    bounds
        .iter()
        .fold(COLUMNS.to_owned(), |columns, (name, value)| {
            columns.replace(name, value)
        })
}

fn row_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let text = |index| Ok::<_, rusqlite::Error>(text_of(row.get_ref(index)?));
    let number = |index| Ok::<_, rusqlite::Error>(number_of(row.get_ref(index)?));
    Ok(Row {
        message_id: text(0)?.unwrap_or_default(),
        session_id: text(1)?,
        sender_role: text(2)?,
        target_role: text(3)?,
        channel: text(4)?,
        direction: text(5)?,
        sent_at_ms: number(6)?,
        brokered_at_ms: number(7)?,
        raw_body: text(8)?,
        body_hash: text(9)?,
        body_bytes: number(10)?,
        status: text(11)?,
        ack_status: text(12)?,
        error_code: text(13)?,
        attempt: number(14)?,
        metadata_json: text(15)?,
        updated_at_ms: number(16)?,
    })
}

fn text_of(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => None,
    }
}

fn number_of(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(number) => Some(number),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => None,
    }
}

fn world(error: rusqlite::Error) -> JournalError {
    let said = error.to_string();
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::SystemIoFailure
            | ErrorCode::FileLockingProtocolFailed,
        ) => JournalError::Unavailable(said),
        Some(_) | None => JournalError::Unfit(said),
    }
}

fn unreached(error: &std::io::Error) -> JournalError {
    JournalError::Unavailable(error.to_string())
}
