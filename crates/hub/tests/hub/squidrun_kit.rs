//! A hub on a project that stays, and its directory `.squidrun/` as scripts see it.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;
use switchboard_core::talk::Session;
use switchboard_core::{Delivery, Message, MessageId};
use switchboard_hub::Running;
use switchboard_hub::config::Config;
use switchboard_store::{MessageFilter, Page};

use crate::harness::{Client, config};
use crate::world::eventually;

/// A hub with a ledger in the project.
pub struct Served {
    pub running: Running,
    pub client: Client,
}

pub async fn serve(project: &Path) -> Served {
    serve_as(project, |_| {}).await
}

pub async fn serve_as(project: &Path, change: impl FnOnce(&mut Config)) -> Served {
    let mut config = config(project);
    config.squidrun.enabled = true;
    change(&mut config);
    let running = Running::start(config).await.unwrap();
    let client = Client { addr: running.addr };
    Served { running, client }
}

impl Served {
    pub async fn stop(self) {
        self.running.shutdown().await;
    }

    pub async fn session(&self) -> u32 {
        let read = self
            .running
            .hub
            .read(|ledger| ledger.private::<Session>(""));
        read.await.unwrap().unwrap().number
    }

    pub async fn message(&self, id: &str) -> Option<(Message, Vec<Delivery>)> {
        let id = MessageId::from(id);
        let read = self.running.hub.read(move |ledger| ledger.message(&id));
        read.await.unwrap()
    }

    pub async fn payload(&self, id: &str) -> Option<Value> {
        let (message, _) = self.message(id).await?;
        Some(serde_json::from_str(&message.payload).unwrap())
    }

    /// Until the ledger has a message; its payload.
    pub async fn hears(&self, id: &str) -> Value {
        eventually(async || self.message(id).await.is_some()).await;
        self.payload(id).await.unwrap()
    }

    pub async fn recipients(&self, id: &str) -> Vec<String> {
        let (_, deliveries) = self.message(id).await.unwrap();
        deliveries
            .iter()
            .map(|delivery| delivery.agent.to_string())
            .collect()
    }

    pub async fn sender(&self, id: &str) -> String {
        let (message, _) = self.message(id).await.unwrap();
        message.from.to_string()
    }

    /// What was said, but for what the hub said, oldest first.
    pub async fn messages(&self) -> Vec<String> {
        let mut found: Vec<Message> = Vec::new();
        let mut after = None;
        loop {
            let page = Page {
                after,
                ..Page::first()
            };
            let read = self
                .running
                .hub
                .read(move |ledger| ledger.messages(&MessageFilter::default(), &page));
            let pages = read.await.unwrap();
            found.extend(pages.rows);
            match pages.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        found.sort_by_key(|message| message.number);
        let said = found
            .iter()
            .filter(|message| message.from.as_str() != "hub");
        let text = said.map(|message| {
            let payload: Value = serde_json::from_str(&message.payload).unwrap();
            payload["text"].as_str().unwrap().to_owned()
        });
        text.collect()
    }
}

pub struct Dir {
    pub path: PathBuf,
}

impl Dir {
    pub fn of(project: &Path) -> Dir {
        Dir {
            path: project.join(".squidrun"),
        }
    }

    pub fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path.join(name)).ok()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.text("app-status.json").unwrap_or_default()).unwrap_or_default()
    }

    /// Puts a trigger file into its place, whole.
    pub fn put(&self, stem: &str, text: &str) {
        self.put_bytes(stem, text.as_bytes());
    }

    pub fn put_bytes(&self, stem: &str, bytes: &[u8]) {
        let half = self.path.join("triggers/.half");
        fs::write(&half, bytes).unwrap();
        fs::rename(&half, self.trigger(stem)).unwrap();
    }

    fn trigger(&self, stem: &str) -> PathBuf {
        self.path.join(format!("triggers/{stem}.txt"))
    }

    /// Until a trigger file was taken and dealt with.
    pub async fn is_taken(&self, stem: &str) {
        let path = self.trigger(stem);
        eventually(async || !path.exists() && self.names("triggers/taken").is_empty()).await;
    }

    /// Until a trigger file was rejected; tells why.
    pub async fn rejected(&self, stem: &str) -> String {
        let path = self.path.join(format!("triggers/rejected/{stem}.txt"));
        eventually(async || path.symlink_metadata().is_ok()).await;
        let mut reason = path.into_os_string();
        reason.push(".reason.txt");
        fs::read_to_string(reason).unwrap()
    }

    /// The names of files in a directory.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let Ok(found) = fs::read_dir(self.path.join(dir)) else {
            return Vec::new();
        };
        let found = found.map(|entry| entry.unwrap());
        let files = found.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()));
        let mut names: Vec<String> = files
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn journal_path(&self) -> PathBuf {
        self.path.join("runtime/evidence-ledger.db")
    }

    pub fn journal(&self) -> Connection {
        let journal = Connection::open(self.journal_path()).unwrap();
        journal.busy_timeout(crate::harness::SOON).unwrap();
        journal
    }

    /// A message's row of the journal: its columns by name.
    pub fn row(&self, id: &str) -> Option<Value> {
        let journal = self.journal_path().exists().then(|| self.journal())?;
        let columns = [
            "session_id",
            "sender_role",
            "target_role",
            "channel",
            "direction",
            "raw_body",
            "body_hash",
            "body_bytes",
            "status",
            "ack_status",
            "error_code",
            "attempt",
            "metadata_json",
            "sent_at_ms",
            "brokered_at_ms",
            "updated_at_ms",
        ];
        let query = format!(
            "SELECT {} FROM comms_journal WHERE message_id = ?1",
            columns.join(", ")
        );
        let row = journal.query_row(&query, [id], |row| {
            let value = |index| {
                Ok::<_, rusqlite::Error>(match row.get::<_, rusqlite::types::Value>(index)? {
                    rusqlite::types::Value::Integer(number) => Value::from(number),
                    rusqlite::types::Value::Text(text) => Value::from(text),
                    _ => Value::Null,
                })
            };
            let pairs = columns.iter().enumerate();
            pairs
                .map(|(index, name)| Ok(((*name).to_owned(), value(index)?)))
                .collect()
        });
        row.ok().map(Value::Object)
    }

    /// Until a message's row has this status.
    pub async fn is_journaled(&self, id: &str, status: &str) -> Value {
        eventually(async || self.row(id).is_some_and(|row| row["status"] == status)).await;
        self.row(id).unwrap()
    }
}
