//! The mark in a PostgreSQL database. Coordinators that run, and those of older builds, find it in the head: no build
//! knows a schema that high.

use tokio_postgres::Row;

use super::{MAKE, Mark, SELECT, TABLE, literal};
use crate::Error;
use crate::postgres::Address;
use crate::postgres::errors::world;
use crate::postgres::session::{Query, Session};
use crate::rows::Columns;
use crate::table;

/// Added to the oldest schema that may write, in the head.
pub(crate) const FLOOR: u32 = 1_000_000_000;

const HAS_TABLE: &str = "SELECT 1 FROM pg_catalog.pg_tables WHERE tablename = $1 AND schemaname = ANY (current_schemas(false))";

pub(crate) async fn of(session: &Session) -> Result<Option<Mark>, Error> {
    let has_table = Query::new(HAS_TABLE).text(TABLE);
    if session.query(&has_table).await.map_err(world)?.is_empty() {
        return Ok(None);
    }
    let rows = session.query(&Query::new(SELECT)).await.map_err(world)?;
    rows.first().map(read_row).transpose()
}

/// A row of the mark's table.
pub(crate) fn read_row(row: &Row) -> Result<Mark, Error> {
    let text =
        |at: usize| -> Result<String, Error> { Ok(row.text(at)?.unwrap_or_default().into_owned()) };
    Ok(Mark::read(&text(0)?, text(1)?, text(2)?))
}

/// For a transaction of the caller's, which holds the head. Statement triggers, so that the turn is not even asked for.
pub(crate) fn write_sql(address: &Address, mark: &Mark) -> String {
    let sentence = quoted(&mark.sentence(&address.to_string()));
    let mut sql = format!(
        "{MAKE};
         INSERT INTO sb_moved VALUES (1, '{}', {}, {});
         UPDATE sb_head SET schema_floor = schema_floor + {FLOOR} WHERE schema_floor < {FLOOR};
         CREATE FUNCTION sb_refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
           BEGIN RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = TG_ARGV[0]; END $$;",
        mark.kind.word(),
        quoted(&mark.place),
        quoted(&mark.at),
    );
    for table in table::public().map(|table| table.name) {
        sql.push_str(&format!(
            "CREATE TRIGGER sb_{table}_0_moved BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table}
               FOR EACH STATEMENT EXECUTE FUNCTION sb_refuse_moved({sentence});"
        ));
    }
    sql
}

pub(super) fn abandon(address: &Address) -> Result<Option<Mark>, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Open(format!("no runtime for a connection: {error}")))?;
    runtime.block_on(async {
        let session = Session::open(address, None).await?;
        let mark = of(&session).await?;
        if mark.is_some() {
            // The triggers go with their function.
            let clear = format!(
                "BEGIN; SELECT 1 FROM sb_head FOR UPDATE; DROP FUNCTION IF EXISTS sb_refuse_moved CASCADE;
                 UPDATE sb_head SET schema_floor = schema_floor - {FLOOR} WHERE schema_floor >= {FLOOR};
                 DROP TABLE IF EXISTS sb_moved; COMMIT"
            );
            session.simple(&clear).await.map_err(world)?;
        }
        Ok(mark)
    })
}

/// Means the same whether backslashes are ordinary characters on that server or not.
fn quoted(text: &str) -> String {
    format!("E'{}'", literal(&text.replace('\\', "\\\\")))
}
