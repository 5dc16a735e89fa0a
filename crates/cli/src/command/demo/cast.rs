//! Who plays: the agents by their doors.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::Error as SqliteError;
use switchboard_client::jetpack::{NewTokenRequest, Scope};
use switchboard_client::{Client, RetryPolicy};
use tokio::task::JoinSet;

use super::line::{self, Line};
use super::sql::{self, Tables};
use super::stage::{Doors, Stage};
use super::world::{World, stuck};
use super::{bus, hand, role};
use crate::discover::DATA_DIR;
use crate::failure::Failure;

/// The way of an agent to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// The bus, by one that takes a task and falls silent.
    Hang,
    Bus,
    Http,
    Sse,
    Sql,
    LibSql,
    Files,
    Runtime,
    Role,
}

/// One of each first, then more of those that are most common.
const DOORS: [Door; 9] = [
    Door::Hang,
    Door::Bus,
    Door::Http,
    Door::Sse,
    Door::Sql,
    Door::LibSql,
    Door::Files,
    Door::Runtime,
    Door::Role,
];
const MORE: [Door; 5] = [Door::Http, Door::Bus, Door::Sse, Door::Sql, Door::Files];
/// One by each door.
pub const AGENTS_MIN: u16 = DOORS.len() as u16;
pub const AGENTS_MAX: u16 = 100;

pub type Agents = JoinSet<Result<(), Failure>>;
pub type Cast = BTreeMap<String, Door>;

/// So many agents, by their ids.
pub fn cast(count: u16) -> Cast {
    let mut counts: BTreeMap<Door, u16> = BTreeMap::new();
    let doors = DOORS.into_iter().chain(MORE.into_iter().cycle());
    let named = doors.take(count.into()).map(|door| {
        let at = counts.entry(door).or_default();
        *at += 1;
        (door.id(*at), door)
    });
    named.collect()
}

impl Door {
    fn id(self, at: u16) -> String {
        match self {
            // A role is one agent.
            Door::Role => role::ROLE.to_owned(),
            Door::Hang => "bus-silent".to_owned(),
            Door::Bus => format!("bus-{at}"),
            Door::Http => format!("http-{at}"),
            Door::Sse => format!("sse-{at}"),
            Door::Sql => format!("sql-{at}"),
            Door::LibSql => format!("libsql-{at}"),
            Door::Files => format!("files-{at}"),
            Door::Runtime => format!("runtime-{at}"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Door::Hang | Door::Bus => "bus",
            Door::Http => "HTTP, long poll",
            Door::Sse => "HTTP, event stream",
            Door::Sql => "SQL on the file",
            Door::LibSql => "libSQL",
            Door::Files => "request files",
            Door::Runtime => "runtime events",
            Door::Role => "broker",
        }
    }

    /// Whether its agents read messages and acknowledge them.
    pub fn reads(self) -> bool {
        match self {
            Door::Bus | Door::Http | Door::Sse | Door::Sql | Door::LibSql | Door::Runtime => true,
            Door::Hang | Door::Files | Door::Role => false,
        }
    }

    /// `edit` can those who have leases and measure; `any` is what everybody can who chooses.
    fn skills(self) -> &'static [&'static str] {
        match self {
            Door::Hang => &["bus"],
            Door::Bus => &["bus", "any"],
            Door::Http => &["http", "edit", "any"],
            Door::Sse => &["sse", "edit", "any"],
            Door::Files => &["files", "edit", "any"],
            Door::Sql => &["sql", "any"],
            Door::LibSql => &["libsql", "any"],
            Door::Runtime => &["any"],
            Door::Role => &[],
        }
    }

    /// Starts an agent.
    pub async fn start(
        self,
        agents: &mut Agents,
        id: &str,
        world: &Arc<World>,
        doors: &Doors,
        stage: &Stage,
    ) -> Result<(), Failure> {
        let (agent, skills, client) = (id.to_owned(), self.skills(), world.client.clone());
        let (world, bus) = (Arc::clone(world), doors.bus.clone());
        let way = match self {
            Door::Hang => {
                agents.spawn(bus::hang(world, bus, agent, skills));
                return Ok(());
            }
            Door::Bus => {
                agents.spawn(bus::work(world, bus, agent, skills));
                return Ok(());
            }
            Door::Role => {
                let at = doors.context.broker(None, id)?;
                agents.spawn(role::work(Arc::clone(&world), at.clone()));
                agents.spawn(role::delegate(world, at));
                return Ok(());
            }
            Door::Sql => {
                let way = file(stage).map_err(|error| stuck(id, error))?;
                agents.spawn(hand::by_tables(world, Tables { agent, way }, skills));
                return Ok(());
            }
            Door::LibSql => {
                let way = sql::Way::LibSql(libsql(&client).await?);
                agents.spawn(hand::by_tables(world, Tables { agent, way }, skills));
                return Ok(());
            }
            Door::Http => line::Way::Http,
            Door::Sse => {
                let events = client.events();
                let ready = vec!["task_ready".to_owned()];
                line::Way::Sse(Box::pin(events.follow_types(None, ready)))
            }
            Door::Files => line::Way::Files(stage.project().join(".jetpack/protocol"), 0),
            Door::Runtime => line::Way::Runtime,
        };
        let line = Line { agent, client, way };
        agents.spawn(hand::by_protocol(world, line, skills));
        Ok(())
    }
}

fn file(stage: &Stage) -> Result<sql::Way, SqliteError> {
    sql::Way::file(&stage.project().join(DATA_DIR).join("switchboard.db"))
}

async fn libsql(client: &Client) -> Result<Client, Failure> {
    let request = NewTokenRequest {
        name: "demo".to_owned(),
        scope: Scope::Sql,
        agent_id: None,
    };
    let token = client.admin().create_token(&request).await?.token;
    let client = Client::builder(&client.address())
        .token(token.secret.unwrap_or_default())
        .retry(RetryPolicy::NEVER);
    Ok(client.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_door_is_taken_and_every_agent_has_an_id_of_its_own() {
        for count in [AGENTS_MIN, 12, AGENTS_MAX] {
            let cast = cast(count);
            assert_eq!(cast.len(), usize::from(count));
            for door in DOORS {
                assert!(cast.values().any(|one| *one == door), "{door:?} of {count}");
            }
            assert!(cast.values().filter(|door| door.reads()).count() > 1);
        }
    }
}
