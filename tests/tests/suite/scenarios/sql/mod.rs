//! Agents that only know the public tables: each operation is the statement of `docs/direct-sql.md`, run beside a hub.
//!
//! After each the scene waits until the hub has taken it in, and the answer is put together from rows. What SQL has no
//! words for goes over HTTP ([`Play::by_hand`]); where a statement finds no row, HTTP is asked why, and must find
//! nothing either ([`is_nothing`]). What is left that SQL cannot tell is not asked of it ([`refusal::awaits`]).

mod agents;
mod door;
mod leases;
pub mod page;
mod pipeline;
mod refusal;
mod tasks;

use std::collections::{BTreeSet, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use switchboard_core::Timestamp;
use switchboard_store::conformance::START;
use switchboard_tests::PATIENCE;
use tokio::runtime::Runtime;

use self::door::{Door, Given, Ran, Row};
use self::page::Page;
use super::act::{Call, Deed};
use super::engine::Kind;
use super::http::Transport;
use super::scene::{Expected, Scene, Step};
use super::stage::{Stage, can_pass};
use super::{Answer, Driver};

/// Where the statements go in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A connection of the agents' own on the hub's file.
    File,
    /// The hub's libSQL endpoint.
    Pipeline,
}

/// Scenes whose rules are others in the tables, and in what.
const OTHERWISE: &[(&str, &str)] = &[
    (
        "agent-registration-stale.scene",
        "the id of an agent is taken until the hub has noticed its silence",
    ),
    (
        "claim-previous-agents.scene",
        "the statement leaves out what its agent names, and knows of no other agents",
    ),
];

/// The same where the machine's clock writes when something ends.
const TERMS: &[(&str, &str)] = &[
    ("leases-expiry.scene", "its leases end while it plays"),
    ("messages-expiry.scene", "its messages end while it plays"),
];

pub struct BySql {
    way: Way,
    runtime: Runtime,
    /// Blocks of the page that scenes have run.
    used: BTreeSet<String>,
    play: Option<Play>,
}

/// One scene.
struct Play {
    stage: Stage,
    door: Door,
    page: Page,
    /// Blocks of the page that this scene has run, and that changed or found something.
    used: BTreeSet<String>,
    /// To look at the tables.
    rows: Connection,
    /// What agents remember of their claims: agent and task to epoch.
    epochs: HashMap<(String, String), Value>,
    /// Whether the last step was done by SQL.
    was_by_hand: bool,
}

impl BySql {
    pub fn new(way: Way) -> Self {
        BySql {
            way,
            runtime: Runtime::new().expect("a runtime"),
            used: BTreeSet::new(),
            play: None,
        }
    }

    /// Blocks of the page that no scene has run with success.
    pub fn unused(&self) -> Vec<String> {
        let names = Page::read().names();
        let unused = names.into_iter().filter(|name| !self.used.contains(name));
        unused.collect()
    }

    /// In a file the functions of time obey the scene; behind the hub's own door they are the machine's.
    fn start(&self) -> Timestamp {
        match self.way {
            Way::File => START,
            Way::Pipeline => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                let since = since.expect("a clock after 1970").as_millis();
                Timestamp(i64::try_from(since).expect("a clock of this age"))
            }
        }
    }
}

impl Driver for BySql {
    fn name(&self) -> String {
        match self.way {
            Way::File => "SQL on the hub's file".to_owned(),
            Way::Pipeline => "SQL through libSQL's endpoint".to_owned(),
        }
    }

    /// SQL has no idempotency keys.
    fn can_run(&self, scene: &Scene) -> bool {
        let terms = match self.way {
            Way::File => &[],
            Way::Pipeline => TERMS,
        };
        let mut otherwise = OTHERWISE.iter().chain(terms);
        let is_otherwise = otherwise.any(|(name, _)| scene.name == *name);
        can_pass(scene) && !is_otherwise && !scene.steps.iter().any(|step| step.deed.needs_keys())
    }

    fn begin(&mut self, scene: &Scene) {
        let mut stage = Stage::open(&self.runtime, &Kind::Sqlite, scene, self.start());
        let door = match self.way {
            Way::File => Door::file(&stage.hub, &stage.clock()),
            Way::Pipeline => self.runtime.block_on(Door::pipeline(&mut stage.hub)),
        };
        stage.after();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let rows = Connection::open_with_flags(stage.hub.database(), flags);
        self.play = Some(Play {
            stage,
            door,
            page: Page::read(),
            used: BTreeSet::new(),
            rows: rows.expect("the hub's file can be read"),
            epochs: HashMap::new(),
            was_by_hand: false,
        });
    }

    fn perform(&mut self, deed: &Deed) -> Answer {
        let play = self.play.as_mut().expect("a scene has begun");
        let body = self.runtime.block_on(play.perform(deed));
        Answer { body }
    }

    fn awaits(&self, step: &Step) -> Vec<Expected> {
        let mut expected = match &self.play {
            Some(play) if play.was_by_hand => refusal::awaits(step),
            _ => step.expected.clone(),
        };
        if self.way == Way::Pipeline {
            refusal::forget_terms(step, &mut expected);
        }
        expected
    }

    fn end(&mut self) {
        if let Some(play) = self.play.take() {
            self.used.extend(play.used);
            drop((play.door, play.rows));
            self.runtime.block_on(play.stage.hub.stop());
        }
    }
}

/// The answer, or why there is none.
type Answered = Result<Value, No>;

enum No {
    /// The body of a refusal.
    Refused(Value),
    /// What the statement needed was not there, or not so.
    Row,
}

impl Play {
    async fn perform(&mut self, deed: &Deed) -> Value {
        let Deed::Call(call) = deed else {
            return self.stage.pass(deed).await;
        };
        self.stage.before().await;
        let answered = self.by_hand(call).await;
        self.was_by_hand = matches!(answered, Some(Ok(_) | Err(No::Refused(_))));
        let body = match answered {
            Some(Ok(mut body) | Err(No::Refused(mut body))) => {
                self.stage.to_scene(&mut body);
                body
            }
            Some(Err(No::Row)) => {
                let body = self.stage.call(call, Transport::Paths).await;
                if is_nothing(call.route, &body) {
                    body
                } else {
                    json!({"error": "sql_found_no_row", "message": body.to_string()})
                }
            }
            None => {
                let body = self.stage.call(call, Transport::Paths).await;
                self.remember(call, &body["task"]);
                body
            }
        };
        self.stage.after();
        body
    }

    /// An agent that claims knows its epoch, whichever way it asked.
    fn remember(&mut self, call: &Call, task: &Value) {
        if let ("claim", Some(id)) = (call.route, task["id"].as_str()) {
            let claim = (named(call, "agentId"), id.to_owned());
            self.epochs.insert(claim, task["epoch"].clone());
        }
    }

    /// Does it by SQL; `None` if that has no words for it.
    async fn by_hand(&mut self, call: &Call) -> Option<Answered> {
        match call.route {
            // Rows have no word for going on.
            "register" if call.given.contains_key("resume") => None,
            "register" => Some(self.register(call).await),
            "heartbeat" => self.heartbeat(call).await,
            "deregister" => Some(self.deregister(call).await),
            "sendMessage" => self.send(call).await,
            "receiveMessages" => self.receive(call).await,
            "ackMessage" => Some(self.acknowledge(call).await),
            "createTasks" => self.create(call).await,
            "claim" => self.claim(call).await,
            "progress" => self.progress(call).await,
            "complete" => self.complete(call).await,
            "fail" => self.fail(call).await,
            "releaseTask" => self.release(call).await,
            "acquireLease" => Some(self.acquire(call).await),
            "releaseLease" => self.unlease(call).await,
            _ => None,
        }
    }

    /// Runs a block of the page and waits until the hub has taken it in.
    async fn run(&mut self, name: &str, given: Value) -> Result<Vec<Ran>, No> {
        let given: Given = given.as_object().cloned().expect("parameters have names");
        let statements = self.page.statements(name);
        let before = self.stage.latest();
        let ran = self
            .door
            .run(&mut self.stage.hub, &statements, &given)
            .await
            .map_err(|sentence| No::Refused(refusal::of_trigger(&sentence)))?;
        self.taken_in().await;
        match self.undone(before).await {
            Some(why) => Err(No::Refused(why)),
            None => {
                if ran
                    .iter()
                    .any(|one| one.changed > 0 || !one.rows.is_empty())
                {
                    self.used.insert(name.to_owned());
                }
                Ok(ran)
            }
        }
    }

    /// The hub looks by itself; nobody tells it to. What it has written it tells a moment later.
    async fn taken_in(&self) {
        let is_told = || {
            let head = self.row("SELECT seq FROM sb_head", []);
            head.is_some_and(|head| head["seq"] == self.stage.latest())
        };
        let noted = || !self.look("SELECT 1 FROM sb_hand LIMIT 1", []).is_empty();
        let all = async {
            while noted() || !is_told() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let taken = tokio::time::timeout(PATIENCE, all).await;
        taken.unwrap_or_else(|_| panic!("the hub does not take in what was written"));
    }

    /// Why the hub put a row back, if it did.
    async fn undone(&mut self, before: u64) -> Option<Value> {
        if self.stage.latest() == before {
            return None;
        }
        let given = json!({"after": before, "types": "write_undone"});
        let told = self.stage.get("events", None, given).await;
        let event = told["events"].as_array().and_then(|events| events.first());
        event.map(|event| refusal::of_hub(event["why"].as_str().unwrap_or_default()))
    }

    fn look<const N: usize>(&self, sql: &str, given: [&str; N]) -> Vec<Row> {
        door::rows(&self.rows, sql, given)
    }

    fn row<const N: usize>(&self, sql: &str, given: [&str; N]) -> Option<Row> {
        self.look(sql, given).into_iter().next()
    }

    fn is_registered(&self, agent: &str) -> bool {
        let sql = "SELECT 1 FROM agents WHERE id = ? AND presence <> 'gone'";
        self.row(sql, [agent]).is_some()
    }

    /// The task as everyone sees it.
    async fn task(&mut self, id: &str) -> Value {
        let mut body = self.stage.get("getTask", Some(id), json!({})).await;
        body["task"].take()
    }
}

/// Whether an answer over HTTP hands out nothing and changes nothing.
pub(super) fn is_nothing(route: &str, body: &Value) -> bool {
    let is_empty = match route {
        "claim" | "acquireLease" => body["success"] == false,
        "progress" => body["continue"] == false,
        "receiveMessages" => body["messages"] == json!([]),
        // It may have been confirmed before.
        "ackMessage" => body.get("taskId").is_none(),
        "releaseLease" => body["released"] == false,
        _ => false,
    };
    is_empty || body.get("error").is_some()
}

/// How often to look whether the hub has taken something in. Only decides how quickly a scene goes on.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(1);

/// A text among what a step gives, by its path.
pub(super) fn text<'a>(call: &'a Call, path: &str) -> Option<&'a str> {
    member(call, path)?.as_str()
}

fn member<'a>(call: &'a Call, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = call.given.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

pub(super) fn named(call: &Call, path: &str) -> String {
    let found = text(call, path);
    found
        .unwrap_or_else(|| panic!("{} says no {path}", call.route))
        .to_owned()
}

/// What a step gives, or else.
pub(super) fn or(call: &Call, path: &str, otherwise: impl Into<Value>) -> Value {
    member(call, path)
        .cloned()
        .unwrap_or_else(|| otherwise.into())
}

/// A distance in time as SQLite reads it.
fn distance(millis: i64) -> String {
    let sign = if millis < 0 { '-' } else { '+' };
    let millis = millis.unsigned_abs();
    format!("{sign}{}.{:03} seconds", millis / 1000, millis % 1000)
}
