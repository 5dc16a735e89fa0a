//! Request files of any content: answered once, as over HTTP, and put where they belong.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use switchboard_hub::config::AuthMode;

use crate::bodies::refused;
use crate::served::{SOON, Served};

pub struct Stage {
    hub: Served,
    put: AtomicUsize,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            hub: Served::start(AuthMode::None),
            put: AtomicUsize::new(0),
        }
    }
}

pub fn check(bytes: &[u8]) {
    static STAGE: LazyLock<Stage> = LazyLock::new(Stage::default);
    STAGE.check(&[bytes]);
}

impl Stage {
    /// All at once: what is no JSON yet is given a while to become it.
    pub fn check(&self, bodies: &[&[u8]]) {
        let stems: Vec<String> = bodies.iter().map(|body| self.put(body)).collect();
        for (body, stem) in bodies.iter().zip(&stems) {
            let answer = self.answer(stem);
            self.judge(body, stem, &answer);
        }
        let left = fs::read_dir(self.file("requests", "")).unwrap().count();
        assert_eq!(left, 0, "requests stay behind");
        assert_eq!(self.hub.call("GET", "/healthz", b"").0, 200);
    }

    fn file(&self, dir: &str, name: impl AsRef<OsStr>) -> PathBuf {
        let door = self.hub.project().join(".jetpack/protocol");
        door.join(dir).join(name.as_ref())
    }

    fn put(&self, body: &[u8]) -> String {
        let stem = format!("r{}", self.put.fetch_add(1, Ordering::Relaxed));
        let half = self.file("requests", format!(".{stem}"));
        fs::write(&half, body).unwrap();
        fs::rename(&half, self.file("requests", format!("{stem}.json"))).unwrap();
        stem
    }

    fn answer(&self, stem: &str) -> Value {
        let path = self.file("responses", format!("{stem}-response.json"));
        let answer = fs::read(wait_for(path)).unwrap();
        serde_json::from_slice(&answer).expect("an answer is JSON")
    }

    fn judge(&self, body: &[u8], stem: &str, answer: &Value) {
        let name = format!("{stem}.json");
        let expected = refused(body, self.hub.project().to_str().unwrap());
        let (_, called) = self.hub.call("POST", "/api/v1/protocol", body);
        let is_refused = answer["error"] == "invalid_operation";
        assert_eq!(
            is_refused,
            called["error"] == "invalid_operation",
            "{answer} {called}"
        );
        match expected {
            Some(malformed) => {
                assert!(is_refused, "{answer}: {malformed}");
                assert_eq!(
                    answer["field"].as_str(),
                    malformed.field.as_deref(),
                    "{answer}"
                );
                assert_eq!(answer["message"], called["message"]);
                wait_for(self.file("rejected", &name));
                let reason = fs::read(self.file("rejected", format!("{name}.reason.txt")));
                assert!(!reason.unwrap().is_empty());
            }
            // By a rule, such as the one for request ids.
            None if is_refused => assert!(answer["field"].is_string(), "{answer}"),
            None => {
                assert!(answer["success"].is_boolean(), "{answer}");
                wait_for(self.file("done", &name));
            }
        }
    }
}

fn wait_for(path: PathBuf) -> PathBuf {
    let deadline = Instant::now() + SOON;
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
    path
}
