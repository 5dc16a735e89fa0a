//! A SQLite file as a side of a copy. The key is kept beside it, by whoever calls.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension, ToSql, params, params_from_iter};

use super::side::{Key, PAGE_BYTES, Side, Target, refuse_unless_empty, unfit};
use super::tables::{FILLED_AT_BIRTH, HEAD, Kind, NOTES, Table};
use super::unfinished::{self, Progress};
use super::value::{Row, Value, key, show_key};
use super::{Failure, KeyFile};
use crate::moved::{self, Mark};
use crate::sqlite::{SCHEMA_VERSION, SqliteEngine, open_error, world};
use crate::{Error, SystemClock};

pub(super) struct SqliteSide<'a> {
    db: Connection,
    file: PathBuf,
    keys: &'a dyn KeyFile,
    /// SQLite's own count of foreign commits when this side was taken hold of.
    version: i64,
}

const LOCK_WAIT: Duration = Duration::from_secs(10);
const STATEMENTS_CACHED: usize = 128;

impl<'a> SqliteSide<'a> {
    /// A whole ledger, to be read.
    pub fn whole(file: &Path, keys: &'a dyn KeyFile) -> Result<SqliteSide<'a>, Failure> {
        if !file.is_file() {
            return Err(Failure::Refused(format!(
                "there is no ledger at {}",
                file.display()
            )));
        }
        let side = Self::open(file, OpenFlags::SQLITE_OPEN_READ_ONLY, keys)?;
        refuse_if_unfinished(&side.db, file)?;
        side.check_schema()?;
        Ok(side)
    }

    /// An empty ledger, made if there is none, or one whose filling was interrupted.
    pub fn target(file: &Path, keys: &'a dyn KeyFile) -> Result<SqliteSide<'a>, Failure> {
        let is_there = file.metadata().is_ok_and(|found| found.len() > 0);
        if is_there {
            let mut side = Self::open(file, OpenFlags::SQLITE_OPEN_READ_WRITE, keys)?;
            if side.unfinished()?.is_some() {
                return Ok(side.for_writing()?);
            }
            if !side.has(&HEAD)? {
                return Err(Failure::Refused(format!(
                    "{} is not a ledger; choose another file",
                    file.display()
                )));
            }
            refuse_unless_empty(&mut side)?;
        } else if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::Refused(format!("{} cannot be created: {error}", folder.display()))
            })?;
        }
        drop(SqliteEngine::open(file, Box::new(SystemClock::new()))?);
        let side = Self::open(file, OpenFlags::SQLITE_OPEN_READ_WRITE, keys)?;
        Ok(side.for_writing()?)
    }

    pub fn open(
        file: &Path,
        mode: OpenFlags,
        keys: &'a dyn KeyFile,
    ) -> Result<SqliteSide<'a>, Error> {
        let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(file, flags).map_err(open_error)?;
        db.busy_timeout(LOCK_WAIT).map_err(open_error)?;
        db.execute_batch("PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;")
            .map_err(open_error)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
        Ok(SqliteSide {
            db,
            file: file.to_owned(),
            keys,
            version: 0,
        })
    }

    /// Pages are whole or absent after a crash, whether synced or not; the last step syncs all of them. What is copied
    /// was not written by hand.
    pub fn for_writing(self) -> Result<Self, Error> {
        self.db
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
            .map_err(open_error)?;
        self.db
            .execute_batch("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4096;")
            .map_err(open_error)?;
        Ok(self)
    }

    fn check_schema(&self) -> Result<(), Failure> {
        let found: u32 = self
            .db
            .query_row(
                "SELECT coalesce(max(version), 0) FROM sb_migration",
                [],
                |row| row.get(0),
            )
            .map_err(|error| {
                Failure::Refused(format!("{} is not a ledger: {error}", self.file.display()))
            })?;
        super::check_schema(&self.name(), found, SCHEMA_VERSION)
    }

    fn version(&self) -> Result<i64, Error> {
        self.one("PRAGMA data_version")
    }

    fn one<T: rusqlite::types::FromSql>(&self, sql: &str) -> Result<T, Error> {
        self.db.query_row(sql, [], |row| row.get(0)).map_err(world)
    }

    fn run(&self, sql: &str) -> Result<(), Error> {
        self.db.execute_batch(sql).map_err(world)
    }

    /// Runs `work` in a transaction.
    fn within(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        self.run("BEGIN IMMEDIATE")?;
        let done = work(self).and_then(|()| self.run("COMMIT"));
        if done.is_err() && !self.db.is_autocommit() {
            // The first failure is what counts.
            let _ = self.db.execute_batch("ROLLBACK");
        }
        done
    }
}

/// Refuses to open a ledger that is half of one.
pub(crate) fn refuse_if_unfinished(db: &Connection, file: &Path) -> Result<(), Error> {
    match source_of_copy(db)? {
        None => Ok(()),
        Some(source) => Err(unfinished::refusal(&file.display().to_string(), &source)),
    }
}

pub(crate) fn source_of_copy(db: &Connection) -> Result<Option<String>, Error> {
    if !has_table(db, unfinished::TABLE)? {
        return Ok(None);
    }
    let source = db.query_row("SELECT source FROM sb_copy", [], |row| row.get(0));
    source.optional().map_err(world)
}

fn cannot_mark(file: &Path, why: &Error) -> Error {
    Error::Open(format!(
        "{} cannot be marked as moved ({why}); make it and its directory writable, then run the same command again",
        file.display()
    ))
}

fn has_table(db: &Connection, name: &str) -> Result<bool, Error> {
    let sql = "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?";
    db.query_row(sql, [name], |row| row.get(0)).map_err(world)
}

impl Side for SqliteSide<'_> {
    fn name(&self) -> String {
        format!("sqlite:{}", self.file.display())
    }

    fn hold(&mut self) -> Result<(), Error> {
        self.run("BEGIN")?;
        // The snapshot is taken by the first look.
        self.one::<i64>("SELECT count(*) FROM sqlite_schema")?;
        self.version = self.version()?;
        Ok(())
    }

    fn release(&mut self) -> Result<(), Error> {
        if self.db.is_autocommit() {
            return Ok(());
        }
        self.run("ROLLBACK")
    }

    fn mark(&mut self) -> Result<String, Error> {
        let sql = "SELECT format('event %d, written %d, served %d', seq, last_at, served_at) FROM sb_head";
        self.one(sql)
    }

    fn moved(&mut self) -> Result<Option<Mark>, Error> {
        moved::of(&self.db)
    }

    fn leave(&mut self, mark: &str, moved: &Mark) -> Result<bool, Error> {
        self.release()?;
        let mut writer = Self::open(&self.file, OpenFlags::SQLITE_OPEN_READ_WRITE, self.keys)
            .map_err(|error| cannot_mark(&self.file, &error))?;
        writer
            .run("PRAGMA synchronous = FULL; BEGIN IMMEDIATE")
            .map_err(|error| cannot_mark(&self.file, &error))?;
        // Nobody writes from here on.
        if self.version()? != self.version || self.mark()? != mark {
            writer.release()?;
            return Ok(false);
        }
        if writer.moved()?.is_none() {
            moved::write_file(&writer.db, &self.file, moved).map_err(world)?;
        }
        writer.run("COMMIT")?;
        // The last one to close the file puts its log away, which takes one who may write.
        self.db = writer.db;
        Ok(true)
    }

    fn served_ago(&mut self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    fn has(&mut self, table: &Table) -> Result<bool, Error> {
        has_table(&self.db, table.name)
    }

    fn count(&mut self, table: &Table) -> Result<u64, Error> {
        let found: i64 = self.one(&format!("SELECT count(*) FROM {}", table.name))?;
        Ok(found.unsigned_abs())
    }

    fn page(
        &mut self,
        table: &Table,
        after: Option<&[Value]>,
        limit: usize,
    ) -> Result<Vec<Row>, Error> {
        let (names, keys) = (listed(table.names()), listed(table.key_names()));
        let behind = match after {
            Some(_) => format!("WHERE ({keys}) > ({})", marks(table.keys)),
            None => String::new(),
        };
        let sql = format!(
            "SELECT {names} FROM {} {behind} ORDER BY {keys} LIMIT {limit}",
            table.name
        );
        let mut statement = self.db.prepare_cached(&sql).map_err(world)?;
        let mut found = statement
            .query(params_from_iter(after.unwrap_or_default()))
            .map_err(world)?;
        let (mut rows, mut bytes) = (Vec::with_capacity(limit), 0);
        while let Some(row) = found.next().map_err(world)? {
            let row = read(table, row)?;
            bytes += row.iter().map(Value::size).sum::<usize>();
            rows.push(row);
            if bytes > PAGE_BYTES {
                break;
            }
        }
        Ok(rows)
    }

    fn find(&mut self, table: &Table, keys: &[&[Value]]) -> Result<Vec<Option<Row>>, Error> {
        let same: Vec<String> = table
            .key_names()
            .map(|name| format!("{name} = ?"))
            .collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            listed(table.names()),
            table.name,
            same.join(" AND ")
        );
        let mut statement = self.db.prepare_cached(&sql).map_err(world)?;
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            let mut found = statement.query(params_from_iter(*key)).map_err(world)?;
            let row = found.next().map_err(world)?;
            rows.push(row.map(|row| read(table, row)).transpose()?);
        }
        Ok(rows)
    }

    fn key(&mut self) -> Result<Option<Key>, Error> {
        self.keys.key()
    }

    fn is_by_hand(&mut self) -> Result<bool, Error> {
        self.one(&format!("SELECT EXISTS (SELECT 1 FROM {NOTES})"))
    }
}

impl Target for SqliteSide<'_> {
    fn schema(&self) -> u32 {
        SCHEMA_VERSION
    }

    fn unfinished(&mut self) -> Result<Option<Progress>, Error> {
        if !has_table(&self.db, unfinished::TABLE)? {
            return Ok(None);
        }
        let progress = self.db.query_row(unfinished::SELECT, [], |row| {
            Ok(Progress {
                source: row.get(0)?,
                mark: row.get(1)?,
                schema: row.get(2)?,
                table: row.get(3)?,
                after: row.get(4)?,
                rows: row.get::<_, i64>(5)?.unsigned_abs(),
                pages: row.get::<_, i64>(6)?.unsigned_abs(),
            })
        });
        progress.optional().map_err(world)
    }

    fn begin(&mut self, progress: &Progress) -> Result<(), Error> {
        self.within(|side| {
            side.run(unfinished::MAKE)?;
            side.run(&format!("DELETE FROM {FILLED_AT_BIRTH}"))?;
            side.db
                .execute(
                    "INSERT INTO sb_copy VALUES (1, ?, ?, ?, ?, NULL, 0, 0)",
                    params![
                        progress.source,
                        progress.mark,
                        progress.schema,
                        progress.table
                    ],
                )
                .map_err(world)?;
            Ok(())
        })
    }

    fn put(&mut self, table: &Table, rows: &[Row], progress: &Progress) -> Result<(), Error> {
        let insert = format!(
            "INSERT INTO {}({}) VALUES ({})",
            table.name,
            listed(table.names()),
            marks(table.columns.len())
        );
        self.within(|side| {
            let noted = side
                .db
                .prepare_cached("UPDATE sb_copy SET tbl = ?, after = ?, copied = ?, pages = pages + 1 WHERE pages = ? - 1")
                .and_then(|mut note| {
                    note.execute(params![
                        progress.table,
                        progress.after,
                        signed(progress.rows),
                        signed(progress.pages)
                    ])
                })
                .map_err(world)?;
            if noted != 1 {
                return Err(unfinished::overtaken(&side.name()));
            }
            let mut insert = side.db.prepare_cached(&insert).map_err(world)?;
            for row in rows {
                let put = insert.execute(params_from_iter(row));
                put.map_err(|error| refused_row(table, row, error))?;
            }
            Ok(())
        })
    }

    fn keep_key(&mut self, key: &Key) -> Result<(), Error> {
        self.keys.keep(key)
    }

    fn finish(&mut self, head: &Row) -> Result<(), Error> {
        self.run("PRAGMA synchronous = FULL")?;
        self.within(|side| {
            side.run(
                "INSERT INTO sb_learning_words(sb_learning_words) VALUES ('rebuild');
                 INSERT INTO sb_learning_words(sb_learning_words, rank) VALUES ('integrity-check', 1);
                 DELETE FROM sb_engram_words;
                 INSERT INTO sb_engram_words(key, words)
                   SELECT key, value ->> '$.words' FROM sb_record WHERE kind = 'engram_text';
                 INSERT INTO sb_engram_words(sb_engram_words, rank) VALUES ('integrity-check', 1);",
            )?;
            let names = listed(HEAD.names());
            let sql = format!(
                "UPDATE sb_head SET ({names}) = ({}) WHERE seq = 0 AND served_at = 0",
                marks(HEAD.columns.len())
            );
            let written = side.db.execute(&sql, params_from_iter(head)).map_err(world)?;
            if written != 1 || side.head()? != *head {
                return Err(unfinished::overtaken(&side.name()));
            }
            side.run("DROP TABLE sb_copy")
        })?;
        if let Err(error) = self.one::<i64>("PRAGMA wal_checkpoint(TRUNCATE)") {
            tracing::debug!(%error, "the write-ahead log stays; the next start reads it");
        }
        Ok(())
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// SQLite keeps what direct clients write, of whatever kind it is.
fn read(table: &Table, row: &rusqlite::Row<'_>) -> Result<Row, Error> {
    let mut values = Row::with_capacity(table.columns.len());
    for (at, (name, kind)) in table.columns.iter().enumerate() {
        let found = row.get_ref(at).map_err(world)?;
        let value = match (found, kind) {
            (ValueRef::Null, _) => Value::Null,
            (ValueRef::Integer(number), Kind::Int) => Value::Int(number),
            (ValueRef::Real(number), Kind::Real) => Value::Real(number),
            (ValueRef::Blob(bytes), Kind::Bytes) => Value::Bytes(bytes.to_owned()),
            (ValueRef::Text(text), Kind::Text) => match std::str::from_utf8(text) {
                Ok(text) => Value::Text(text.to_owned()),
                Err(_) => {
                    return Err(misfit(
                        table,
                        &values,
                        name,
                        "bytes that are no UTF-8",
                        *kind,
                    ));
                }
            },
            (found, kind) => {
                return Err(misfit(
                    table,
                    &values,
                    name,
                    &found.data_type().to_string(),
                    *kind,
                ));
            }
        };
        values.push(value);
    }
    Ok(values)
}

fn misfit(table: &Table, values: &[Value], column: &str, found: &str, kind: Kind) -> Error {
    let expected = match kind {
        Kind::Int => "a whole number",
        Kind::Real => "a number",
        Kind::Text => "text",
        Kind::Bytes => "bytes",
    };
    unfit(
        table,
        &show_key(table, key(table, values)),
        column,
        found,
        expected,
    )
}

fn refused_row(table: &Table, row: &[Value], error: rusqlite::Error) -> Error {
    match world(error) {
        Error::Unavailable(why) => Error::Unavailable(format!(
            "{} {} was not written: {why}",
            table.name,
            show_key(table, key(table, row))
        )),
        other => other,
    }
}

fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
