//! The SQL that direct clients run, word for word as `docs/direct-sql.md` prints it, and how its parameters are bound.

use std::sync::LazyLock;

use anyhow::bail;
use rusqlite::types::{ToSql, ToSqlOutput};
use rusqlite::{CachedStatement, Connection};

const PAGE: &str = include_str!("../../../docs/direct-sql.md");

/// Takes one task that the agent can do.
pub static CLAIM: LazyLock<&str> = LazyLock::new(|| of_the_page("claim"));
/// Finishes a task that the agent holds under this epoch.
pub static COMPLETE: LazyLock<&str> = LazyLock::new(|| of_the_page("complete"));
pub static CREATE: LazyLock<&str> = LazyLock::new(|| of_the_page("create_task"));
pub static REGISTER: LazyLock<&str> = LazyLock::new(|| of_the_page("register"));

fn of_the_page(name: &str) -> &'static str {
    cut(PAGE, name).expect("docs/direct-sql.md has a block of this name")
}

/// The block of SQL behind a marker.
fn cut<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("<!-- sql: {name} -->\n```sql\n"))?;
    let (block, _) = rest.split_once("```")?;
    Some(block.trim_end().trim_end_matches(';'))
}

/// What the bench's agents can do, as the public tables keep it.
pub const SKILLS: &str = r#"["rust"]"#;
const RESULT: &str = r#"{"filesCreated":[],"filesModified":["src/lib.rs"],"filesDeleted":[],"summary":"The function is changed and its tests pass."}"#;

/// What a statement may ask for by name.
#[derive(Clone, Copy, Default)]
pub struct Values<'a> {
    pub agent: &'a str,
    pub task: &'a str,
    pub epoch: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound<'a> {
    Text(&'a str),
    Whole(i64),
}

impl<'a> Values<'a> {
    /// The value of a parameter; `None` for a name that nobody knows.
    pub fn of(&self, parameter: &str) -> Option<Bound<'a>> {
        let text = match parameter {
            ":agent" | ":agentId" | ":name" => self.agent,
            ":task" => self.task,
            ":skills" => SKILLS,
            // Each array of skills that the agent takes on, as it stands in the table.
            ":agentSkills" => r#"[]["rust"]"#,
            ":exclude" | ":dependencies" => "[]",
            // NULL would exclude everything.
            ":excludeIds" => "",
            ":result" => RESULT,
            ":title" => "A task of the bench",
            ":description" => "Change one function and run its tests.",
            ":priority" => "medium",
            // A word for tasks as well as for agents.
            ":type" => "custom",
            ":machine" | ":hostname" => "bench",
            ":files" => r#"["src/lib.rs"]"#,
            ":minutes" => return Some(Bound::Whole(30)),
            ":tests" | ":build" | ":pid" => return Some(Bound::Whole(1)),
            ":browser" => return Some(Bound::Whole(0)),
            ":epoch" => return Some(Bound::Whole(self.epoch)),
            _ => return None,
        };
        Some(Bound::Text(text))
    }
}

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Text(text) => text.to_sql(),
            Self::Whole(number) => number.to_sql(),
        }
    }
}

/// Prepares a statement, or finds it prepared, and binds what it asks for.
pub fn bound<'c>(
    connection: &'c Connection,
    sql: &str,
    values: Values<'_>,
) -> anyhow::Result<CachedStatement<'c>> {
    let mut statement = connection.prepare_cached(sql)?;
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).map(ToOwned::to_owned);
        let Some(value) = name.as_deref().and_then(|name| values.of(name)) else {
            bail!("a statement asks for {name:?}, which the bench does not know");
        };
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(statement)
}

/// Runs a bound statement to its end; gives how many rows came back.
pub fn rows_of(mut statement: CachedStatement<'_>) -> anyhow::Result<u64> {
    let mut rows = statement.raw_query();
    let mut count = 0;
    while rows.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}
