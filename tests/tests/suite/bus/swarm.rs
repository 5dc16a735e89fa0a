//! A hub for workers and a hub for everyone else: one and the same on SQLite, two coordinators on PostgreSQL.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::{Value, json};
use switchboard_test_cluster::{Cluster, Database};
use switchboard_tests::{API, Client, Hub, PATIENCE, Project, until};
use switchboard_wire::IsoTime;

use super::peer::Peer;

pub struct Swarm {
    projects: Vec<Project>,
    hubs: Vec<Hub>,
    ledger: Ledger,
}

/// Where the tables are, for those who write them by hand.
enum Ledger {
    File(PathBuf),
    Database(Database),
}

/// Plays a story on SQLite, and at the same time between two coordinators where there is a PostgreSQL.
#[track_caller]
pub fn everywhere(settings: &str, story: impl Fn(&mut Swarm) + Sync) {
    let play = |mut swarm: Swarm| {
        story(&mut swarm);
        swarm.stop();
    };
    thread::scope(|scope| {
        let shared = scope.spawn(|| Swarm::on_postgres(settings).map(play));
        play(Swarm::on_sqlite(settings));
        let ended = shared.join();
        ended.unwrap_or_else(|failed| std::panic::resume_unwind(failed));
    });
}

impl Swarm {
    #[track_caller]
    pub fn on_sqlite(settings: &str) -> Swarm {
        let project = with_broker(Project::new().with_bus());
        let ledger = Ledger::File(project.database());
        Swarm::start(vec![project], ledger, settings)
    }

    /// `None`, told loudly, where there is none.
    #[track_caller]
    pub fn on_postgres(settings: &str) -> Option<Swarm> {
        let database = Cluster::shared("the bus between two coordinators")?.create_database();
        let project = || with_broker(Project::on(&database.url).with_bus());
        let projects = vec![project(), project()];
        Some(Swarm::start(projects, Ledger::Database(database), settings))
    }

    #[track_caller]
    fn start(projects: Vec<Project>, ledger: Ledger, settings: &str) -> Swarm {
        for project in &projects {
            let file = project.root().join("switchboard.toml");
            fs::write(file, settings).expect("settings can be written");
        }
        let hubs = projects.iter().map(Project::start).collect();
        Swarm {
            projects,
            hubs,
            ledger,
        }
    }

    #[track_caller]
    fn stop(self) {
        self.hubs.into_iter().for_each(|hub| {
            hub.stop();
        });
    }

    /// Everyone is served by hubs that never heard of anybody.
    #[track_caller]
    pub fn restart(&mut self) {
        for (project, hub) in self.projects.iter().zip(&mut self.hubs) {
            hub.kill();
            *hub = project.start();
        }
    }

    /// Where workers and operators connect.
    pub fn bus(&self) -> SocketAddr {
        self.hubs[0].bus()
    }

    /// Where roles connect.
    #[track_caller]
    pub fn broker(&self) -> String {
        crate::broker::broker(&self.projects[0]).expect("it listens")
    }

    /// Where everyone else is.
    pub fn http(&self) -> Client {
        self.hubs[self.hubs.len() - 1].client()
    }

    /// The project of everyone else.
    fn root(&self) -> &Path {
        self.projects[self.projects.len() - 1].root()
    }

    /// A worker that takes tasks and messages.
    #[track_caller]
    pub fn hand(&self, id: &str) -> Peer {
        Peer::hand(self.bus(), id)
    }

    /// Writes the tables as a client by hand does.
    #[track_caller]
    pub fn by_hand(&self, sql: &str) {
        match &self.ledger {
            Ledger::File(file) => open(file).execute_batch(sql).expect("it is SQL"),
            Ledger::Database(database) => drop(database.sql(sql)),
        }
    }

    /// Nothing was heard of an agent for longer than it may be silent; by these hubs, nothing at all.
    #[track_caller]
    pub fn let_fall_silent(&self, agent: &str) {
        const LONG_MS: i64 = 121_000;
        let back = format!("UPDATE agents SET seen_at = seen_at - {LONG_MS} WHERE id = '{agent}';");
        match &self.ledger {
            Ledger::File(file) => {
                let db = open(file);
                // As the hub itself writes, not by hand.
                db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
                    .expect("triggers can be switched off");
                let sql = format!("BEGIN IMMEDIATE; UPDATE sb_head SET floor = 0; {back} COMMIT");
                db.execute_batch(&sql).expect("the clock can be set back");
                self.ring();
            }
            Ledger::Database(database) => {
                database.sql(&format!(
                    "SET switchboard.hub = 'on'; UPDATE sb_head SET floor = 0, writer = 0; {back}"
                ));
            }
        }
    }

    /// What is due soon wakes the caretaker, which then looks at everything.
    #[track_caller]
    fn ring(&self) {
        let message = json!({"id": "bell", "type": "custom", "payload": null, "expiresIn": 1});
        let body = json!({"agentId": "steward", "message": message});
        let sent = self.http().post(&format!("{API}/messages"), &body);
        sent.expect(200);
    }

    /// An operation in a file, and its answer.
    #[track_caller]
    pub fn by_file(&self, stem: &str, operation: &str, mut body: Value) -> Value {
        body["protocolVersion"] = json!("1.0");
        body["operation"] = json!(operation);
        let protocol = self.root().join(".jetpack/protocol");
        let beside = protocol.join(format!("requests/.{stem}.tmp"));
        fs::write(&beside, body.to_string()).expect("a request can be written");
        fs::rename(&beside, protocol.join(format!("requests/{stem}.json")))
            .expect("a file can be renamed");
        let answer = protocol.join(format!("responses/{stem}-response.json"));
        let read = until(&format!("{stem} is answered"), || fs::read(&answer).ok());
        serde_json::from_slice(&read).expect("an answer is JSON")
    }

    /// Waits until a task is such; tells it.
    #[track_caller]
    pub fn becomes(&self, task: &str, status: &str) -> Value {
        let mut http = self.http();
        until(&format!("{task} is {status}"), || {
            let found = http.get(&format!("{API}/tasks/{task}"));
            let task = (found.status == 200).then(|| found.json()["task"].take());
            task.filter(|task| task["status"] == status)
        })
    }

    /// Waits until a delivery is in this state.
    #[track_caller]
    pub fn delivery_becomes(&self, message: &str, agent: &str, state: &str) {
        let mut http = self.http();
        until(&format!("{message} is {state} for {agent}"), || {
            let found = http.get(&format!("{API}/messages/{message}"));
            let body = (found.status == 200).then(|| found.json())?;
            let deliveries = body["deliveries"].as_array()?.iter();
            let mut his = deliveries.filter(|delivery| delivery["agentId"] == agent);
            his.any(|delivery| delivery["state"] == state).then_some(())
        });
    }
}

fn with_broker(project: Project) -> Project {
    project.with_variable("SWITCHBOARD_BROKER_LISTEN", "127.0.0.1:0")
}

fn open(file: &Path) -> Connection {
    let db = Connection::open(file).expect("the file can be opened");
    db.busy_timeout(PATIENCE).expect("it can be set");
    db.pragma_update(None, "wal_autocheckpoint", 0)
        .expect("it can be set");
    db
}

/// This moment, as clients by hand write it.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.expect("a clock after 1970").as_millis();
    IsoTime(i64::try_from(millis).expect("a clock of this age")).to_string()
}
