//! A look at the ledger: at any hub that serves, or at the file itself.

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use serde_json::Value;
use switchboard_tests::{API, Client, Random, Request};

use super::facts::Fact;
use super::order::State;
use super::world::World;

/// At one task; `None` if whoever was asked cannot say.
pub fn at(world: &World, task: &str, random: &mut Random) -> Option<Fact> {
    let state = match &world.file {
        Some(file) if random.percent(50) => by_sql(file, task)?,
        Some(_) | None => by_http(world, task, random)?,
    };
    let task = task.to_owned();
    Some(Fact::Saw { task, state })
}

/// At all tasks, as long as they fit on a page.
pub fn at_all(world: &World, random: &mut Random) -> Option<Fact> {
    let page = get(world, &format!("{API}/tasks?limit=1000"), random)?;
    let page = page.filter(|page| page["next"].is_null())?;
    let tasks = page["tasks"].as_array()?.iter();
    let tasks = tasks.filter_map(|task| task["id"].as_str().map(str::to_owned));
    let tasks = tasks.collect();
    Some(Fact::Listed { tasks })
}

fn by_http(world: &World, task: &str, random: &mut Random) -> Option<Option<State>> {
    let found = get(world, &format!("{API}/tasks/{task}"), random)?;
    Some(found.map(|found| {
        let task = &found["task"];
        let text = |field: &str| task[field].as_str().unwrap_or_default().to_owned();
        let epoch = task["epoch"].as_u64().unwrap_or_default();
        state(text("status"), text("assignedAgent"), epoch)
    }))
}

/// `None` if no hub answers, `Some(None)` if there is no such thing.
fn get(world: &World, path: &str, random: &mut Random) -> Option<Option<Value>> {
    let place = world.anywhere(random)?;
    let mut client = Client::with_patience(place.addr, world.patience);
    let answer = client.send(&Request::get(path)).ok()?;
    match answer.status {
        200 => Some(Some(answer.json())),
        404 => Some(None),
        // The ledger is away.
        503 if world.outages => None,
        _ => panic!("GET {path}: {} {}", answer.status, answer.text()),
    }
}

fn by_sql(file: &std::path::Path, task: &str) -> Option<Option<State>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = Connection::open_with_flags(file, flags).ok()?;
    let sql = "SELECT status, coalesce(assigned_agent, ''), epoch FROM tasks WHERE id = ?1";
    let row = db.query_row(sql, [task], |row| {
        Ok(state(
            row.get(0)?,
            row.get(1)?,
            row.get::<_, i64>(2)? as u64,
        ))
    });
    // A hub that is being killed or started may have the file for itself.
    row.optional().ok()
}

fn state(status: String, agent: String, epoch: u64) -> State {
    match status.as_str() {
        "claimed" | "in_progress" => State {
            status: "held".to_owned(),
            holder: Some((agent, epoch)),
        },
        _ => State {
            status,
            holder: None,
        },
    }
}
