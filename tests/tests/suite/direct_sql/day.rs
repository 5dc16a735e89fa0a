//! A day of work with every statement of the page; after each, HTTP shows the same, and the log has an ordinary event.

use std::collections::BTreeSet;

use serde_json::Value;
use switchboard_test_cluster::Cluster;
use switchboard_tests::{API, Client, Hub, Project, until};

use super::page::{Flavour, Page};
use super::programs::{CommandLine, Psql, Python, Runner, Values};
use super::story::work;

#[test]
fn the_sqlite3_command_line_works_through_every_statement_of_the_page() {
    let project = Project::new();
    let hub = project.start();
    let what = "direct SQL from the command line";
    if let Some(runner) = CommandLine::open(&swarm_db(&project), what) {
        work(Day::new(runner, Flavour::Sqlite, &hub));
    }
}

#[test]
fn python_works_through_every_statement_of_the_page() {
    let project = Project::new();
    let hub = project.start();
    if let Some(runner) = Python::open(&swarm_db(&project), "direct SQL from Python") {
        work(Day::new(runner, Flavour::Sqlite, &hub));
    }
}

#[test]
fn psql_works_through_every_statement_of_the_page() {
    let Some(server) = Cluster::shared("direct SQL with psql") else {
        return;
    };
    let database = server.create_database();
    let project = Project::on(&database.url);
    let hub = project.start();
    let runner = Psql::open(server, &database.url);
    work(Day::new(runner, Flavour::Postgres, &hub));
}

/// Where tools that know no hub look for the file.
pub fn swarm_db(project: &Project) -> std::path::PathBuf {
    project.root().join(".jetpack/swarm.db")
}

pub struct Day<R> {
    runner: R,
    page: Page,
    ran: BTreeSet<String>,
    pub client: Client,
    /// The last event that was waited for.
    seen: u64,
}

pub fn values(object: Value) -> Values {
    match object {
        Value::Object(values) => values,
        other => panic!("{other} has no names"),
    }
}

/// Whether all that is expected is in it; more may be.
pub fn has(found: &Value, expected: &Value) -> bool {
    match expected {
        Value::Object(fields) => fields.iter().all(|(name, value)| has(&found[name], value)),
        value => found == value,
    }
}

impl<R: Runner> Day<R> {
    pub fn new(runner: R, flavour: Flavour, hub: &Hub) -> Day<R> {
        Day {
            runner,
            page: Page::read(flavour),
            ran: BTreeSet::new(),
            client: hub.client(),
            seen: 0,
        }
    }

    pub fn try_run(&mut self, block: &str, given: Value) -> Result<Vec<Value>, String> {
        self.ran.insert(block.to_owned());
        self.runner.run(block, &values(given))
    }

    #[track_caller]
    pub fn run(&mut self, block: &str, given: Value) -> Vec<Value> {
        self.try_run(block, given)
            .unwrap_or_else(|error| panic!("{block}: {error}"))
    }

    /// Runs a block that returns one row.
    #[track_caller]
    pub fn row(&mut self, block: &str, given: Value) -> Value {
        let mut rows = self.run(block, given);
        assert_eq!(rows.len(), 1, "{block}: {rows:?}");
        rows.remove(0)
    }

    /// Runs a block that finds nothing to do.
    #[track_caller]
    pub fn nothing(&mut self, block: &str, given: Value) {
        assert_eq!(self.run(block, given), Vec::<Value>::new(), "{block}");
    }

    #[track_caller]
    pub fn refused(&mut self, block: &str, given: Value, words: &[&str]) {
        let said = self.try_run(block, given).expect_err(block);
        assert!(words.iter().any(|word| said.contains(word)), "{said}");
    }

    /// Waits for the event, among those after the last one.
    #[track_caller]
    pub fn told(&mut self, expected: Value) {
        self.told_all(&[expected]);
    }

    /// Waits for events in any order.
    #[track_caller]
    pub fn told_all(&mut self, expected: &[Value]) {
        let found = until(&format!("events {expected:?}"), || {
            let path = format!("{API}/events?after={}&limit=1000", self.seen);
            let page = self.client.get(&path).expect(200);
            let events = page["events"].as_array().expect("a page has events");
            let find = |expected| events.iter().find(|event| has(event, expected));
            let found: Option<Vec<&Value>> = expected.iter().map(find).collect();
            found?.iter().map(|event| event["seq"].as_u64()).max()?
        });
        self.seen = found;
    }

    /// What HTTP shows at this path, once it has all of this.
    #[track_caller]
    pub fn shows(&mut self, path: &str, expected: Value) {
        until(&format!("{path} shows {expected}"), || {
            let shown = self.client.get(&format!("{API}{path}"));
            has(&shown.expect(200), &expected).then_some(())
        });
    }

    #[track_caller]
    pub fn over(mut self) {
        let ran: BTreeSet<&str> = self.ran.iter().map(String::as_str).collect();
        assert_eq!(ran, self.page.names(), "the day has every statement");
        let events = self.client.events();
        let undone = events.iter().find(|event| event["type"] == "write_undone");
        assert_eq!(undone, None, "nothing was undone");
    }
}
