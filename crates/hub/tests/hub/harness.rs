//! A hub on a free port, and a client that shows everything of an answer.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use switchboard_hub::Running;
use switchboard_hub::config::{AuthMode, Config};
use switchboard_store::SystemClock;
use switchboard_store::memory::MemoryEngine;
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Ten times what anything here should take.
pub const SOON: Duration = Duration::from_secs(20);

pub struct TestHub {
    pub running: Running,
    pub client: Client,
    pub home: TempDir,
}

/// Settings for a hub below `home`: a free port, no limits.
pub fn config(home: &Path) -> Config {
    let mut config = Config::for_project(home.to_owned());
    config.http.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    config.limits.enabled = false;
    // Those who want it turn it on, on a port of its own.
    config.bus.enabled = false;
    config.squidrun.enabled = false;
    config.broker.listen = None;
    config.bus.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    config
}

pub async fn start() -> TestHub {
    start_as(|_| {}).await
}

pub async fn start_signed() -> TestHub {
    start_as(|config| config.auth = AuthMode::Hmac).await
}

pub async fn start_as(change: impl FnOnce(&mut Config)) -> TestHub {
    let home = tempfile::tempdir().unwrap();
    let mut config = config(home.path());
    change(&mut config);
    let engine = MemoryEngine::new(Box::new(SystemClock::new()));
    let running = Running::start_with(config, Box::new(engine), "memory")
        .await
        .unwrap();
    let client = Client { addr: running.addr };
    TestHub {
        running,
        client,
        home,
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub addr: SocketAddr,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The body of a success with this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// The body of a refusal with this status and code.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        assert_eq!(body["error"], code, "{body}");
        assert_eq!(body["success"], false, "{body}");
        assert!(body["message"].is_string(), "{body}");
        body
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Client {
    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Bytes::new()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], Bytes::new()).await
    }

    /// With the version that the protocol asks for.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.with("POST", path, &[], body).await
    }

    pub async fn with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        mut body: Value,
    ) -> Answer {
        if let Value::Object(members) = &mut body {
            members
                .entry("protocolVersion")
                .or_insert_with(|| "1.0".into());
        }
        self.send(method, path, headers, body.to_string()).await
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let response = self.open(method, path, headers, body.into()).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = tokio::time::timeout(SOON, response.into_body().collect())
            .await
            .expect("the answer ends in time");
        let text = String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap();
        Answer {
            status,
            headers,
            text,
        }
    }

    /// Sends a request on a connection of its own.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Response<Incoming> {
        let stream = TcpStream::connect(self.addr).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.addr.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).unwrap();
        tokio::time::timeout(SOON, sender.send_request(request))
            .await
            .expect("the hub answers in time")
            .unwrap()
    }

    pub async fn register(&self, id: &str, skills: &[&str]) {
        let body = registration(id, skills);
        self.post("/api/v1/agents/register", body).await.expect(200);
    }

    /// Makes a task and tells its id.
    pub async fn task(&self, title: &str) -> String {
        let made = self.post("/api/v1/tasks", json!({ "title": title })).await;
        made.expect(201)["task"]["id"].as_str().unwrap().to_owned()
    }

    pub async fn claim(&self, agent: &str) -> Value {
        let answer = self
            .post("/api/v1/tasks/claim", json!({ "agentId": agent }))
            .await;
        answer.expect(200)
    }
}

pub fn registration(id: &str, skills: &[&str]) -> Value {
    json!({ "agent": {
        "id": id, "name": id, "type": "custom",
        "capabilities": {
            "skills": skills, "maxTaskMinutes": 60,
            "canRunTests": true, "canRunBuild": true, "canAccessBrowser": false,
        },
    }})
}

pub fn result(summary: &str) -> Value {
    json!({ "filesCreated": [], "filesModified": ["a.rs"], "filesDeleted": [], "summary": summary })
}
