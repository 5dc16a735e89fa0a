//! An agent that has nothing but a directory.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::harness::{TestHub, registration};
use crate::world::eventually;

pub struct Door {
    pub path: PathBuf,
}

impl Door {
    pub fn of(hub: &TestHub) -> Door {
        Door::in_project(hub.home.path())
    }

    pub fn in_project(project: &Path) -> Door {
        Door {
            path: project.join(".jetpack/protocol"),
        }
    }

    pub fn file(&self, dir: &str, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(dir).join(name.as_ref())
    }

    /// Puts a request into its place, whole.
    pub fn put(&self, stem: &str, body: impl AsRef<[u8]>) {
        let half = self.file("requests", format!(".{stem}"));
        fs::write(&half, body).unwrap();
        fs::rename(&half, self.file("requests", format!("{stem}.json"))).unwrap();
    }

    /// The same, written at a time of the caller's choice.
    pub fn put_at(&self, stem: &str, body: &Value, at: SystemTime) {
        let half = self.file("requests", format!(".{stem}"));
        fs::write(&half, body.to_string()).unwrap();
        let file = fs::File::options().write(true).open(&half).unwrap();
        file.set_modified(at).unwrap();
        fs::rename(&half, self.file("requests", format!("{stem}.json"))).unwrap();
    }

    /// Waits for an answer and takes it away.
    pub async fn answer(&self, stem: &str) -> Value {
        let path = self.file("responses", format!("{stem}-response.json"));
        eventually(async || path.exists()).await;
        let answer = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        serde_json::from_slice(&answer).unwrap()
    }

    pub async fn ask(&self, stem: &str, operation: &str, body: Value) -> Value {
        self.put(stem, envelope(operation, body).to_string());
        self.answer(stem).await
    }

    /// Until a request lies where it belongs.
    pub async fn lies(&self, dir: &str, stem: &str) {
        let path = self.file(dir, format!("{stem}.json"));
        eventually(async || path.exists()).await;
    }

    /// Moves a request that was answered back to where it was: as after a crash between acting and answering.
    pub async fn put_back(&self, stem: &str) {
        self.lies("done", stem).await;
        let name = format!("{stem}.json");
        fs::rename(self.file("done", &name), self.file("requests", &name)).unwrap();
    }

    /// Until a request was rejected; tells why.
    pub async fn rejected(&self, name: &str) -> String {
        let path = self.file("rejected", name);
        eventually(async || path.symlink_metadata().is_ok()).await;
        let reason = self.file("rejected", format!("{name}.reason.txt"));
        fs::read_to_string(reason).unwrap()
    }

    pub fn count(&self, dir: &str) -> usize {
        fs::read_dir(self.path.join(dir)).unwrap().count()
    }
}

pub fn envelope(operation: &str, mut body: Value) -> Value {
    body["operation"] = operation.into();
    body["protocolVersion"] = "1.0".into();
    body
}

pub fn registers(agent: &str) -> Value {
    envelope("REGISTER", registration(agent, &[]))
}

pub fn claims(agent: &str) -> Value {
    envelope("CLAIM", json!({ "agentId": agent }))
}

#[track_caller]
pub fn refused(answer: &Value, code: &str) {
    assert_eq!(answer["error"], code, "{answer}");
    assert_eq!(answer["success"], false, "{answer}");
}
