//! The key that all coordinators of a ledger sign with. It lies in the database as it is, and so in every dump.

use tokio_postgres::Row;

use super::address::Address;
use super::errors::world;
use super::line::Here;
use super::session::{Query, Session};
use crate::Error;
use crate::rows::Columns as _;

pub(super) const KEY: &str = "SELECT key FROM sb_secret WHERE id = 1";
const HAS: &str = "SELECT 1 WHERE to_regclass('sb_secret') IS NOT NULL";

pub(super) fn key(row: &Row) -> Result<[u8; 32], Error> {
    let key = row.bytes(0)?.and_then(|key| key.try_into().ok());
    key.ok_or_else(|| Error::Corrupt("the shared key does not have 32 bytes".to_owned()))
}

/// Puts another key in the place of the one that is there, and returns that one. Coordinators that run take it up.
pub fn replace(address: &Address, new: &[u8; 32]) -> Result<[u8; 32], Error> {
    const REPLACE: &str = "WITH old AS (SELECT key FROM sb_secret WHERE id = 1 FOR UPDATE)
        UPDATE sb_secret SET key = $1 FROM old WHERE id = 1 RETURNING old.key";
    Here::new()?.run(async {
        let session = Session::open(address, None).await?;
        let there = session.query(&Query::new(HAS)).await.map_err(world)?;
        let unserved = || {
            Error::Open(format!(
                "{address} has no key, because no hub has served it yet"
            ))
        };
        if there.is_empty() {
            return Err(unserved());
        }
        let replace = Query::new(REPLACE).bytes(new);
        let rows = session.query(&replace).await.map_err(world)?;
        rows.first().map(key).ok_or_else(unserved)?
    })
}
