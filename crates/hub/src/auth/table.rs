//! What each credential opens, door by door. The documents print this table and a test walks it.

use switchboard_core::rights::Right;
use switchboard_core::token::Scope;
use switchboard_wire::jetpack::ROUTES;

/// One thing that can be done through one door.
#[derive(Clone, Debug)]
pub struct Entry {
    pub door: &'static str,
    pub operation: String,
    pub opens: Opens,
}

/// Whom it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    Anyone,
    Right(Right),
    /// A token does not count there.
    Key,
    /// The access token of an external agent, by its scopes; no other counts.
    Access,
}

impl Opens {
    pub fn is_for(self, scope: Scope) -> bool {
        match self {
            Opens::Anyone => true,
            Opens::Right(right) => scope.may(right),
            Opens::Key => scope == Scope::Agent,
            Opens::Access => false,
        }
    }
}

pub const HTTP: &str = "HTTP";
pub const SQL: &str = "SQL";
pub const BUS: &str = "bus";
pub const BROKER: &str = "broker";
pub const FILES: &str = "files";

/// Routes that let in more than they answer: a page of everybody's messages, figures that may be public.
const STRICTER: &[(&str, Right)] = &[("receiveMessages", Right::Act), ("metrics", Right::Read)];

/// Routes that take the access token of an external agent.
const BY_ACCESS: &[&str] = &["invoke", "makeContextToken"];

/// What depends on more than the route, and the doors that are no routes.
const MORE: &[(&str, &str, Opens)] = &[
    (
        HTTP,
        "GET /api/v1/messages?all=true",
        Opens::Right(Right::AllMessages),
    ),
    (
        SQL,
        "read the public tables, write them as agents do",
        Opens::Right(Right::Sql),
    ),
    (
        SQL,
        "cancel, decide reviews, retry, change a task's description, set the baseline, send as a person",
        Opens::Right(Right::SqlSteward),
    ),
    (
        BUS,
        "worker: hello, and all its messages",
        Opens::Right(Right::Act),
    ),
    (
        BUS,
        "operator: hello, snapshots, commands",
        Opens::Right(Right::Operate),
    ),
    (
        BROKER,
        "register as a role, and all frames as that role",
        Opens::Right(Right::Act),
    ),
    (
        FILES,
        "a request file with any of the ten operations",
        Opens::Key,
    ),
];

pub fn entries() -> Vec<Entry> {
    let routes = ROUTES.iter().map(|route| Entry {
        door: match route.right {
            Some(Right::Sql) => SQL,
            _ => HTTP,
        },
        operation: format!("{} {}", route.method.as_str(), route.path),
        opens: {
            let stricter = STRICTER.iter().find(|(id, _)| *id == route.operation_id);
            let right = stricter.map(|(_, right)| *right).or(route.right);
            match BY_ACCESS.contains(&route.operation_id) {
                true => Opens::Access,
                false => right.map_or(Opens::Anyone, Opens::Right),
            }
        },
    });
    let more = MORE.iter().map(|(door, operation, opens)| Entry {
        door,
        operation: (*operation).to_owned(),
        opens: *opens,
    });
    routes.chain(more).collect()
}

/// Scopes and their rights, then every operation with the scopes that open it, as two tables of Markdown.
pub fn markdown() -> String {
    let names: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
    let line = |first: String, opens: &dyn Fn(Scope) -> bool| {
        let cells = Scope::ALL.iter().map(|scope| match opens(*scope) {
            true => " yes |",
            false => " |",
        });
        format!("| {first} |{}\n", cells.collect::<String>())
    };
    let head = |first: &str, columns: usize| {
        format!(
            "| {first} | {} |\n{}|\n",
            names.join(" | "),
            "|---".repeat(columns + names.len())
        )
    };
    let mut printed = head("right", 1);
    for right in Right::ALL {
        printed += &line(right.as_str().to_owned(), &|scope| scope.may(*right));
    }
    printed.push('\n');
    printed += &head("door | operation", 2);
    for entry in entries() {
        let first = format!("{} | {}", entry.door, entry.operation);
        printed += &line(first, &|scope| entry.opens.is_for(scope));
    }
    printed
}
