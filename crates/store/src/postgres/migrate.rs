//! Brings a database to the schema of this build: ordered steps under one lock, each checked by checksum.
//!
//! Coordinators of two builds may serve one ledger for a while: a step says which older builds can go on after it.

use std::borrow::Cow;
use std::collections::HashSet;

use super::errors::world;
use super::guards;
use super::session::{Query, Session};
use crate::Error;
use crate::rows::Columns;
use crate::schema::{is_step, missing};
use crate::table::Kind;

struct Migration {
    name: &'static str,
    sql: &'static str,
    /// Builds that know this many steps can still write after it.
    floor: u32,
}

const STEPS: &[Migration] = &[
    Migration {
        name: "0001_ledger",
        sql: include_str!("schema/0001_ledger.sql"),
        floor: 1,
    },
    Migration {
        name: "0002_search",
        sql: include_str!("schema/0002_search.sql"),
        floor: 1,
    },
    // Older builds do not say that it is a hub who writes.
    Migration {
        name: "0003_by_hand",
        sql: concat!(
            include_str!("schema/0003_by_hand/notes.sql"),
            include_str!("schema/0003_by_hand/tasks.sql"),
            include_str!("schema/0003_by_hand/agents.sql"),
            include_str!("schema/0003_by_hand/messages.sql"),
            include_str!("schema/0003_by_hand/leases.sql"),
            include_str!("schema/0003_by_hand/quality.sql"),
        ),
        floor: 3,
    },
    Migration {
        name: "0004_claims_by_hand",
        sql: include_str!("schema/0004_claims_by_hand.sql"),
        floor: 3,
    },
    // Older builds would hand out what a stream is handing over.
    Migration {
        name: "0005_bus",
        sql: include_str!("schema/0005_bus.sql"),
        floor: 5,
    },
    Migration {
        name: "0006_bus_due",
        sql: include_str!("schema/0006_bus_due.sql"),
        floor: 5,
    },
    Migration {
        name: "0007_pause",
        sql: include_str!("schema/0007_pause.sql"),
        floor: 5,
    },
    // Older builds would hand out work during a pause, and take a report of the old process for one of the new.
    Migration {
        name: "0008_resumed",
        sql: include_str!("schema/0008_resumed.sql"),
        floor: 8,
    },
    Migration {
        name: "0009_epoch",
        sql: include_str!("schema/0009_epoch.sql"),
        floor: 5,
    },
    Migration {
        name: "0010_streams",
        sql: include_str!("schema/0010_streams.sql"),
        floor: 5,
    },
    Migration {
        name: "0011_streams_by_hand",
        sql: include_str!("schema/0011_streams_by_hand.sql"),
        floor: 5,
    },
    Migration {
        name: "0012_clock",
        sql: include_str!("schema/0012_clock.sql"),
        floor: 5,
    },
    // The database itself does what it asks for: builds that do not know it go on.
    Migration {
        name: "0013_log_chain",
        sql: include_str!("schema/0013_log_chain.sql"),
        floor: 5,
    },
    Migration {
        name: "0014_epoch_said",
        sql: include_str!("schema/0014_epoch_said.sql"),
        floor: 5,
    },
    Migration {
        name: "0015_fewer_triggers",
        sql: include_str!("schema/0015_fewer_triggers.sql"),
        floor: 5,
    },
    Migration {
        name: "0016_log_hash",
        sql: include_str!("schema/0016_log_hash.sql"),
        floor: 5,
    },
    Migration {
        name: "0017_guards",
        sql: include_str!("schema/0017_guards.sql"),
        floor: 5,
    },
    Migration {
        name: "0018_private_rows",
        sql: include_str!("schema/0018_private_rows.sql"),
        floor: 5,
    },
    Migration {
        name: "0019_deliveries",
        sql: include_str!("schema/0019_deliveries.sql"),
        floor: 5,
    },
    // Older builds would not find the keys of agents that signed off.
    Migration {
        name: "0020_deletes",
        sql: include_str!("schema/0020_deletes.sql"),
        floor: 20,
    },
];

/// A step of a build after this one, for tests: this one can do without it.
const NEXT: Migration = Migration {
    name: "next",
    sql: "ALTER TABLE sb_head ADD COLUMN next BIGINT",
    floor: SCHEMA_VERSION,
};

/// From this step on guards are printed.
const GUARDS_SINCE: u32 = 17;

/// The newest schema this build knows.
pub const SCHEMA_VERSION: u32 = STEPS.len() as u32;

/// The steps of the schema that a build knows.
#[derive(Clone, Copy, Debug)]
pub struct Steps(u32);

impl Steps {
    pub fn all() -> Steps {
        Steps(SCHEMA_VERSION)
    }

    /// As a build before some step knew them.
    pub fn before(step: &str) -> Option<Steps> {
        let place = STEPS.iter().position(|known| known.name == step)?;
        u32::try_from(place).ok().map(Steps)
    }

    /// As the next build might know them: what a rolling upgrade meets.
    pub fn and_the_next() -> Steps {
        Steps(SCHEMA_VERSION + 1)
    }

    pub(super) fn known(self) -> u32 {
        self.0
    }
}

/// Any number will do, as long as every build takes the same.
const LOCK: i64 = 0x5377_6974_6368;

pub(super) async fn run(session: &mut Session, steps: Steps) -> Result<(), Error> {
    session.simple(&session.begin()).await.map_err(world)?;
    let done = apply(session, steps).await;
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    session.simple(end).await.map_err(world)?;
    done
}

async fn apply(session: &Session, steps: Steps) -> Result<(), Error> {
    // Whoever comes second waits until the first is done, however long a step takes.
    session
        .simple(
            "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; SET LOCAL switchboard.hub = 'on'",
        )
        .await
        .map_err(world)?;
    let lock = Query::new("SELECT pg_advisory_xact_lock($1)").int(LOCK);
    session.query(&lock).await.map_err(world)?;
    session
        .simple(
            "CREATE TABLE IF NOT EXISTS sb_migration (
               version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
               applied_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp())",
        )
        .await
        .map_err(world)?;
    let applied = Query::new("SELECT version, checksum FROM sb_migration ORDER BY version");
    let applied = session.query(&applied).await.map_err(world)?;
    for row in &applied {
        let place = row
            .int(0)?
            .and_then(|version| usize::try_from(version - 1).ok());
        if let Some(step) = place.and_then(|place| STEPS.get(place))
            && !is_step(step.name, step.sql, &row.text(1)?.unwrap_or_default())
        {
            return Err(Error::Open(format!(
                "migration step {} was changed after this ledger was created; use the build that created it",
                step.name
            )));
        }
    }
    let found = u32::try_from(applied.len()).unwrap_or(u32::MAX);
    if found > steps.known() {
        return refuse_if_too_new(session, found, steps).await;
    }
    if found > 0 && found < steps.known() {
        take_turn(session).await?;
    }
    let all = STEPS.iter().chain([&NEXT]);
    let missing = (1_u32..).zip(all).take(steps.known() as usize);
    for (version, step) in missing.skip(found as usize) {
        session.simple(step.sql).await.map_err(world)?;
        let note =
            Query::new("INSERT INTO sb_migration(version, name, checksum) VALUES ($1, $2, $3)")
                .int(version.into())
                .text(step.name)
                .text(&crate::text::checksum(step.sql));
        session.query(&note).await.map_err(world)?;
        let floor = Query::new("UPDATE sb_head SET schema_floor = greatest(schema_floor, $1)");
        session
            .query(&floor.int(step.floor.into()))
            .await
            .map_err(world)?;
    }
    if steps.known() >= GUARDS_SINCE {
        add_columns(session).await?;
        guards::install(session).await?;
    }
    Ok(())
}

/// Others serve this ledger: a step that came into the middle of a batch and the batch would wait for each other.
///
/// The turn comes first, as for a batch. Whoever waits for the head itself holds its table, and a step that changes that
/// table would wait for it in vain.
async fn take_turn(session: &Session) -> Result<(), Error> {
    let turn = "SELECT pg_advisory_xact_lock('sb_head'::regclass::oid::bigint)";
    for query in [turn, "SELECT 1 FROM sb_head FOR UPDATE"] {
        session.query(&Query::new(query)).await.map_err(world)?;
    }
    Ok(())
}

/// The hub's own columns need no step.
async fn add_columns(session: &Session) -> Result<(), Error> {
    let columns = Query::new(
        "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = current_schema()",
    );
    let rows = session.query(&columns).await.map_err(world)?;
    let mut found = HashSet::new();
    for row in &rows {
        found.extend(row.text(0)?.map(Cow::into_owned));
    }
    let types = |kind| match kind {
        Kind::Int => "BIGINT",
        Kind::Real => "DOUBLE PRECISION",
        Kind::Text => "TEXT",
        Kind::Bytes => "BYTEA",
    };
    let missing = missing(types, |table, column| {
        found.contains(&format!("{}.{}", table.name, column.name))
    });
    for sql in missing {
        take_turn(session).await?;
        session.simple(&sql).await.map_err(world)?;
    }
    Ok(())
}

/// A newer build was here. Its steps may still suit this one.
async fn refuse_if_too_new(session: &Session, found: u32, steps: Steps) -> Result<(), Error> {
    let floor = Query::new("SELECT schema_floor FROM sb_head WHERE id = 1");
    let rows = session.query(&floor).await.map_err(world)?;
    let floor = rows.first().map(|row| row.int(0)).transpose()?.flatten();
    if floor.is_some_and(|floor| floor <= i64::from(steps.known())) {
        return Ok(());
    }
    Err(Error::NewerSchema {
        found,
        known: steps.known(),
    })
}
