//! A PostgreSQL database as a side of a copy.
//!
//! Nothing is left behind on the connection between transactions, so that a pooler may stand in between.

mod values;

use std::pin::pin;

use futures_util::TryStreamExt as _;
use tokio::runtime::Runtime;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row as Found};

use super::Failure;
use super::side::{Key, PAGE_BYTES, Side, Target, refuse_unless_empty};
use super::tables::{FILLED_AT_BIRTH, HEAD, NOTES, TABLES, Table};
use super::unfinished::{self, Progress};
use super::value::{Row, Value};
use crate::Error;
use crate::moved::{self, Mark};
use crate::postgres::errors::world;
use crate::postgres::rows::Batch;
use crate::postgres::session::{Query, Session};
use crate::postgres::{Address, PostgresEngine, SCHEMA_VERSION};
use crate::rows::Columns;
use values::{Param, arrays, int, listed, marks, param, push, read, signed, text};

pub(super) struct PostgresSide {
    address: Address,
    runtime: Runtime,
    client: Client,
    held: bool,
    /// The size of a row in the last page, and of which table that was.
    seen: Option<(&'static str, usize)>,
}

/// A copy takes as long as it takes, and is not written by hand. Rows are looked up by index, however few there seem to
/// be.
const SETTINGS: &str =
    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
  SET LOCAL lock_timeout = '10s'; SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off;
  SET LOCAL enable_mergejoin = off; SET LOCAL jit = off; SET LOCAL switchboard.hub = 'on';";
/// The rows asked for as long as nobody knows how large they are.
const FIRST_ROWS: usize = 100;

impl PostgresSide {
    /// A whole ledger, to be read.
    pub fn whole(address: &Address) -> Result<PostgresSide, Failure> {
        let mut side = Self::connect(address)?;
        if !side.has(&HEAD)? {
            return Err(Failure::Refused(format!("there is no ledger in {address}")));
        }
        if let Some(progress) = side.unfinished()? {
            return Err(unfinished::refusal(&address.to_string(), &progress.source).into());
        }
        let version = side.ask(
            "SELECT coalesce(max(version), 0) FROM sb_migration",
            Vec::new(),
        )?;
        let version = version.first().map(|row| row.int(0)).transpose()?.flatten();
        let version = u32::try_from(version.unwrap_or(0)).unwrap_or(u32::MAX);
        super::check_schema(&side.name(), version, SCHEMA_VERSION)?;
        Ok(side)
    }

    /// An empty ledger, made if there is none, or one whose filling was interrupted.
    pub fn target(address: &Address) -> Result<PostgresSide, Failure> {
        let mut side = Self::connect(address)?;
        if let Some(mark) = side.moved()? {
            return Err(Failure::Refused(format!(
                "{address} was moved to {} at {}, and is not replaced; choose another database, or rename this one first (ALTER DATABASE … RENAME TO …, then CREATE DATABASE)",
                mark.place, mark.at
            )));
        }
        if side.unfinished()?.is_none() {
            refuse_unless_empty(&mut side)?;
            drop(PostgresEngine::open(address.clone())?);
        }
        Ok(side)
    }

    fn connect(address: &Address) -> Result<PostgresSide, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::Open(format!("no runtime for a connection: {error}")))?;
        let (client, connection) = runtime.block_on(address.connect())?;
        // Its errors reach whoever waits for an answer.
        runtime.spawn(async move { drop(connection.await) });
        Ok(PostgresSide {
            address: address.clone(),
            runtime,
            client,
            held: false,
            seen: None,
        })
    }

    fn run(&self, sql: &str) -> Result<(), Error> {
        self.runtime
            .block_on(self.client.batch_execute(sql))
            .map_err(world)
    }

    fn ask(&self, sql: &str, params: Vec<Param>) -> Result<Vec<Found>, Error> {
        let mut rows = Vec::new();
        self.each(sql, params, |row| {
            rows.push(row);
            Ok(true)
        })?;
        Ok(rows)
    }

    /// Hands on rows as they come until there are none, or `take` says that there are enough.
    fn each(
        &self,
        sql: &str,
        params: Vec<Param>,
        mut take: impl FnMut(Found) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.runtime.block_on(async {
            let answer = self
                .client
                .query_typed_raw(sql, params)
                .await
                .map_err(world)?;
            let mut answer = pin!(answer);
            while let Some(row) = answer.try_next().await.map_err(world)? {
                if !take(row)? {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Runs `work` in a transaction.
    fn within(
        &mut self,
        settings: &str,
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.run(&format!("BEGIN; {SETTINGS} {settings}"))?;
        let done = work(self).and_then(|()| self.run("COMMIT"));
        if done.is_err() {
            // The first failure is what counts; a lost connection rolls back by itself.
            let _ = self.run("ROLLBACK");
        }
        done
    }

    fn one_int(&self, sql: &str) -> Result<i64, Error> {
        let rows = self.ask(sql, Vec::new())?;
        let found = rows.first().map(|row| row.int(0)).transpose()?;
        Ok(found.flatten().unwrap_or(0))
    }

    fn has_table(&self, name: &str) -> Result<bool, Error> {
        let found = self.ask(HAS_TABLE, vec![text(name)])?;
        Ok(!found.is_empty())
    }

    /// The head is locked until the transaction ends, and nobody has used it.
    fn lock_unused_head(&self) -> Result<(), Error> {
        let used =
            "SELECT 1 FROM sb_head WHERE seq = 0 AND served_at = 0 AND generation = 0 FOR UPDATE";
        match self.ask(used, Vec::new())?.as_slice() {
            [] => Err(Error::Unavailable(format!(
                "somebody started to serve {} during the copy; empty it and run the command again",
                self.address
            ))),
            [..] => Ok(()),
        }
    }
}

const HAS_TABLE: &str = "SELECT 1 FROM pg_catalog.pg_tables WHERE tablename = $1 AND schemaname = ANY (current_schemas(false))";

/// Refuses to open a ledger that is half of one.
pub(crate) async fn refuse_if_unfinished(
    session: &Session,
    address: &Address,
) -> Result<(), Error> {
    match source_of_copy(session).await? {
        None => Ok(()),
        Some(source) => Err(unfinished::refusal(&address.to_string(), &source)),
    }
}

/// Where the rows of an unfinished copy come from.
pub(crate) async fn source_of_copy(session: &Session) -> Result<Option<String>, Error> {
    let has_table = Query::new(HAS_TABLE).text(unfinished::TABLE);
    if session.query(&has_table).await.map_err(world)?.is_empty() {
        return Ok(None);
    }
    let source = Query::new(unfinished::SELECT);
    let rows = session.query(&source).await.map_err(world)?;
    let source = rows.first().map(|row| row.text(0)).transpose()?.flatten();
    Ok(source.map(|source| source.into_owned()))
}

impl Side for PostgresSide {
    fn name(&self) -> String {
        self.address.to_string()
    }

    fn hold(&mut self) -> Result<(), Error> {
        self.run(&format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SETTINGS}"
        ))?;
        self.held = true;
        // The snapshot is taken by the first look.
        self.mark().map(drop)
    }

    fn release(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        self.run("ROLLBACK")
    }

    fn mark(&mut self) -> Result<String, Error> {
        let sql = "SELECT format('event %s, written %s, served %s, batch %s of %s%s', seq, last_at, served_at, generation, writer,
                     CASE WHEN by_hand <> 0 THEN ', then by hand' END) FROM sb_head";
        let rows = self.ask(sql, Vec::new())?;
        let mark = rows.first().map(|row| row.text(0)).transpose()?.flatten();
        Ok(mark.unwrap_or_default().into_owned())
    }

    fn moved(&mut self) -> Result<Option<Mark>, Error> {
        if !self.has_table(moved::TABLE)? {
            return Ok(None);
        }
        let rows = self.ask(moved::SELECT, Vec::new())?;
        rows.first().map(moved::read_row).transpose()
    }

    fn leave(&mut self, mark: &str, moved: &Mark) -> Result<bool, Error> {
        self.release()?;
        let mut is_same = false;
        // The turn of hubs and hands, then the head, in their order.
        self.within("", |side| {
            side.run(
                "SELECT pg_advisory_xact_lock('sb_head'::regclass::oid::bigint); SELECT 1 FROM sb_head FOR UPDATE",
            )?;
            is_same = side.mark()? == mark;
            if !is_same || side.moved()?.is_some() {
                return Ok(());
            }
            side.run(&moved::write_sql(&side.address, moved))
        })?;
        Ok(is_same)
    }

    fn served_ago(&mut self) -> Result<Option<i64>, Error> {
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - served_at FROM sb_head";
        self.one_int(sql).map(Some)
    }

    fn has(&mut self, table: &Table) -> Result<bool, Error> {
        self.has_table(table.name)
    }

    fn count(&mut self, table: &Table) -> Result<u64, Error> {
        let count = format!("SELECT count(*) FROM {}", table.name);
        if !self.held {
            return Ok(self.one_int(&count)?.unsigned_abs());
        }
        self.run("SET LOCAL enable_seqscan = on")?;
        let found = self.one_int(&count)?;
        self.run("SET LOCAL enable_seqscan = off")?;
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
        let limit = limit.min(match self.seen {
            Some((name, bytes)) if name == table.name => (2 * PAGE_BYTES / bytes.max(1)).max(1),
            Some(_) | None => FIRST_ROWS,
        });
        let sql = format!(
            "SELECT {names} FROM {} {behind} ORDER BY {keys} LIMIT {limit}",
            table.name
        );
        let params = after.unwrap_or_default().iter().map(param).collect();
        let (mut rows, mut bytes) = (Vec::with_capacity(limit), 0);
        self.each(&sql, params, |found| {
            let row = read(table, &found, 0)?;
            bytes += row.iter().map(Value::size).sum::<usize>();
            rows.push(row);
            Ok(bytes <= PAGE_BYTES)
        })?;
        self.seen = Some((table.name, bytes / rows.len().max(1)));
        Ok(rows)
    }

    fn find(&mut self, table: &Table, keys: &[&[Value]]) -> Result<Vec<Option<Row>>, Error> {
        let names: Vec<String> = table.names().map(|name| format!("t.{name}")).collect();
        let same: Vec<String> = table
            .key_names()
            .map(|name| format!("t.{name} = k.{name}"))
            .collect();
        let sql = format!(
            "SELECT k.i, {} FROM unnest({}) WITH ORDINALITY AS k({}, i) JOIN {} t ON {}",
            names.join(", "),
            marks(table.keys),
            listed(table.key_names()),
            table.name,
            same.join(" AND ")
        );
        let mut batch = Batch::default();
        for key in keys {
            push(table, key, &mut batch)?;
        }
        let mut rows = vec![None; keys.len()];
        for found in self.ask(&sql, arrays(batch))? {
            let at = usize::try_from(found.int(0)?.unwrap_or(0)).unwrap_or(0);
            let place = at.checked_sub(1).and_then(|at| rows.get_mut(at));
            *place.expect("ordinals count the keys from one") = Some(read(table, &found, 1)?);
        }
        Ok(rows)
    }

    fn key(&mut self) -> Result<Option<Key>, Error> {
        if !self.has_table("sb_secret")? {
            return Ok(None);
        }
        let rows = self.ask("SELECT key FROM sb_secret WHERE id = 1", Vec::new())?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let key = row.bytes(0)?.and_then(|key| Key::try_from(key).ok());
        let key = key.ok_or_else(|| {
            Error::Corrupt(format!(
                "the key in {} does not have 32 bytes",
                self.address
            ))
        })?;
        Ok(Some(key))
    }

    fn is_by_hand(&mut self) -> Result<bool, Error> {
        let notes = self.one_int(&format!("SELECT count(*) FROM {NOTES}"))?;
        Ok(notes != 0)
    }
}

impl Target for PostgresSide {
    fn schema(&self) -> u32 {
        SCHEMA_VERSION
    }

    fn unfinished(&mut self) -> Result<Option<Progress>, Error> {
        if !self.has_table(unfinished::TABLE)? {
            return Ok(None);
        }
        let rows = self.ask(unfinished::SELECT, Vec::new())?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let owned = |at: usize| -> Result<Option<String>, Error> {
            Ok(row.text(at)?.map(|text| text.into_owned()))
        };
        let count =
            |at: usize| -> Result<u64, Error> { Ok(row.int(at)?.unwrap_or(0).unsigned_abs()) };
        Ok(Some(Progress {
            source: owned(0)?.unwrap_or_default(),
            mark: owned(1)?.unwrap_or_default(),
            schema: u32::try_from(count(2)?).unwrap_or(u32::MAX),
            table: owned(3)?.unwrap_or_default(),
            after: owned(4)?,
            rows: count(5)?,
            pages: count(6)?,
        }))
    }

    fn begin(&mut self, progress: &Progress) -> Result<(), Error> {
        let note = "INSERT INTO sb_copy VALUES (1, $1, $2, $3, $4, NULL, 0, 0)";
        self.within("", |side| {
            side.lock_unused_head()?;
            side.run(unfinished::MAKE)?;
            side.run(&format!("DELETE FROM {FILLED_AT_BIRTH}"))?;
            let params = vec![
                text(&progress.source),
                text(&progress.mark),
                int(progress.schema.into()),
                text(&progress.table),
            ];
            side.ask(note, params).map(drop)
        })
    }

    fn put(&mut self, table: &Table, rows: &[Row], progress: &Progress) -> Result<(), Error> {
        let names = table.columns.len();
        let (others, values): (Vec<_>, Vec<_>) = table.only_postgres.iter().copied().unzip();
        let insert = format!(
            "INSERT INTO {}({}) SELECT {} FROM unnest({}) AS v({})",
            table.name,
            [listed(table.names())]
                .into_iter()
                .chain(others.into_iter().map(str::to_owned))
                .collect::<Vec<_>>()
                .join(", "),
            std::iter::once("v.*")
                .chain(values)
                .collect::<Vec<_>>()
                .join(", "),
            marks(names),
            listed(table.names()),
        );
        let mut batch = Batch::default();
        for row in rows {
            push(table, row, &mut batch)?;
        }
        let note = "UPDATE sb_copy SET tbl = $1, after = $2, copied = $3, pages = pages + 1 WHERE pages = $4 - 1 RETURNING 1";
        let noted = vec![
            text(&progress.table),
            (
                Box::new(progress.after.clone()) as Box<dyn ToSql + Sync + Send>,
                Type::TEXT,
            ),
            int(signed(progress.rows)),
            int(signed(progress.pages)),
        ];
        // Pages are whole or absent after a crash, whether synced or not; the last step syncs all of them.
        self.within("SET LOCAL synchronous_commit = off;", |side| {
            if side.ask(note, noted)?.is_empty() {
                return Err(unfinished::overtaken(&side.name()));
            }
            let put = side.ask(&insert, arrays(batch));
            put.map(drop).map_err(|error| match error {
                Error::Unavailable(why) => {
                    Error::Unavailable(format!("a page of {} was not written: {why}", table.name))
                }
                other => other,
            })
        })
    }

    fn keep_key(&mut self, key: &Key) -> Result<(), Error> {
        let keep = "INSERT INTO sb_secret(id, key) VALUES (1, $1) ON CONFLICT DO NOTHING";
        self.ask(keep, vec![(Box::new(key.to_vec()), Type::BYTEA)])?;
        if self.key()? == Some(*key) {
            return Ok(());
        }
        Err(Error::Open(format!(
            "{} already has another key",
            self.address
        )))
    }

    fn finish(&mut self, head: &Row) -> Result<(), Error> {
        let sql = format!(
            "UPDATE sb_head SET ({}) = ({})",
            listed(HEAD.names()),
            marks(HEAD.columns.len())
        );
        self.within("", |side| {
            side.lock_unused_head()?;
            side.ask(&sql, head.iter().map(param).collect())?;
            if side.head()? != *head {
                return Err(Error::Corrupt(format!(
                    "{} did not keep its head",
                    side.address
                )));
            }
            side.run("DROP TABLE sb_copy")
        })?;
        let tables: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        let analyze = format!("ANALYZE {}", tables.join(", "));
        if let Err(error) = self.within("", |side| side.run(&analyze)) {
            // The database does it by itself, a little later.
            tracing::debug!(%error, "the new tables were not analyzed");
        }
        Ok(())
    }
}
