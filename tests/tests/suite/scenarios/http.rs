//! The whole hub in this process, on a socket and a ledger: requests to it, on paths, in envelopes and in files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use switchboard_core::Timestamp;
use switchboard_hub::config::Config;
use switchboard_hub::{Hub, Running};
use switchboard_store::{Engine, ManualClock};
use switchboard_tests::PATIENCE;
use switchboard_wire::jetpack::{ErrorBody, Method, Operation, ROUTES, Route};
use tokio::net::TcpStream;

use super::engine::{Ground, Kind};

/// A hub in this process, and one connection to it.
pub struct HubHere {
    running: Running,
    connection: SendRequest<Full<Bytes>>,
    /// For the names of request files.
    files: u64,
    folder: tempfile::TempDir,
    ground: Ground,
}

/// How the ten operations reach the hub; everything else goes over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Each operation on its own path.
    Paths,
    /// In envelopes.
    Envelopes,
    /// In request files, whose answers are files.
    Files,
}

/// What came back over the socket.
pub struct Response {
    pub status: u16,
    pub headers: hyper::HeaderMap,
    pub body: Value,
}

pub fn route(name: &str) -> &'static Route {
    let found = ROUTES.iter().find(|route| route.operation_id == name);
    found.unwrap_or_else(|| panic!("there is no route {name}"))
}

pub fn operation(route: &str) -> Option<Operation> {
    Some(match route {
        "register" => Operation::Register,
        "heartbeat" => Operation::Heartbeat,
        "claim" => Operation::Claim,
        "progress" => Operation::Progress,
        "complete" => Operation::Complete,
        "fail" => Operation::Fail,
        "sendMessage" => Operation::SendMessage,
        "receiveMessages" => Operation::ReceiveMessages,
        "acquireLease" => Operation::AcquireLease,
        "releaseLease" => Operation::ReleaseLease,
        _ => return None,
    })
}

/// The query of a GET.
fn query(given: &Map<String, Value>) -> String {
    let pairs: Vec<String> = given
        .iter()
        .map(|(name, value)| {
            let text = match value {
                Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
                other => plain(other),
            };
            format!("{name}={}", encoded(&text))
        })
        .collect();
    pairs.join("&")
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn encoded(text: &str) -> String {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,".contains(&byte);
    let each = text.bytes().map(|byte| {
        if safe(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    each.collect()
}

/// A success has the status of its route, a refusal that of its code.
pub fn check_status(route: &Route, response: &Response) {
    let expected = match serde_json::from_value::<ErrorBody>(response.body.clone()) {
        Ok(error) => error.status(),
        Err(_) => route.status,
    };
    assert_eq!(
        response.status, expected,
        "{} answered {}",
        route.operation_id, response.body
    );
}

fn enveloped(operation: Operation, mut given: Map<String, Value>, key: Option<&str>) -> Value {
    given.insert("protocolVersion".to_owned(), "1.0".into());
    given.insert("operation".to_owned(), operation.as_str().into());
    if let Some(key) = key {
        given.insert("requestId".to_owned(), key.into());
    }
    Value::Object(given)
}

/// How often to look for a file. Only decides how quickly a scene goes on.
const LOOK_EVERY: Duration = Duration::from_millis(1);

async fn appears(path: &Path) -> Vec<u8> {
    loop {
        if let Ok(read) = std::fs::read(path) {
            return read;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl HubHere {
    /// Its clock stands at `now`.
    pub async fn start(now: Timestamp, change: impl FnOnce(&mut Config)) -> Self {
        let opened = Kind::Sqlite.open(ManualClock::at(now));
        Self::start_on(opened, Kind::Sqlite.name(), change).await
    }

    pub async fn start_on(
        (engine, ground): (Box<dyn Engine>, Ground),
        store: &'static str,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the hub");
        let mut config = Config::for_project(folder.path().to_owned());
        config.http.listen.set_port(0);
        config.bus.enabled = false;
        config.broker.listen = None;
        change(&mut config);
        let running = Running::start_with(config, engine, store).await;
        let running = running.expect("a hub on a free port");
        let stream = TcpStream::connect(running.addr)
            .await
            .expect("the hub accepts");
        let (connection, driven) = handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
        tokio::spawn(driven);
        HubHere {
            running,
            connection,
            files: 0,
            folder,
            ground,
        }
    }

    /// The hub itself, past all its doors.
    pub fn itself(&self) -> &Hub {
        &self.running.hub
    }

    /// Where its bus is.
    pub fn bus(&self) -> SocketAddr {
        self.running.bus_addr().expect("this hub has a bus")
    }

    /// Where its broker is.
    pub fn broker(&self) -> SocketAddr {
        let addr = self.running.broker_addr();
        addr.expect("this hub has a broker")
    }

    /// The file that its ledger is kept in.
    pub fn database(&self) -> PathBuf {
        let folder = self.ground.folder().expect("a ledger in a file");
        folder.join("switchboard.db")
    }

    /// An operation through `POST /protocol`.
    pub async fn envelope(
        &mut self,
        operation: Operation,
        given: Map<String, Value>,
        key: Option<&str>,
    ) -> Response {
        let body = enveloped(operation, given, key);
        self.post("/api/v1/protocol", &body).await
    }

    /// An operation in a request file, written beside and renamed.
    pub async fn in_file(
        &mut self,
        operation: Operation,
        given: Map<String, Value>,
        key: Option<&str>,
    ) -> Value {
        self.files += 1;
        let stem = format!("{}-{}", operation.as_str().to_lowercase(), self.files);
        let protocol = self.folder.path().join(".jetpack/protocol");
        let requests = protocol.join("requests");
        let beside = requests.join(format!(".{stem}.tmp"));
        let body = enveloped(operation, given, key).to_string();
        std::fs::write(&beside, body).expect("a request can be written");
        std::fs::rename(&beside, requests.join(format!("{stem}.json")))
            .expect("a file can be renamed");
        let answer = protocol.join(format!("responses/{stem}-response.json"));
        let read = tokio::time::timeout(PATIENCE, appears(&answer)).await;
        let read = read.unwrap_or_else(|_| panic!("{stem} is not answered"));
        serde_json::from_slice(&read).expect("an answer is JSON")
    }

    /// A request on its own path, with the id in the path and a GET's members in its query.
    pub async fn on_path(
        &mut self,
        route: &Route,
        id: Option<&str>,
        given: Map<String, Value>,
        key: Option<&str>,
    ) -> Response {
        let key = key.map(|key| ("idempotency-key", key));
        let headers: Vec<(&str, &str)> = key.into_iter().collect();
        let path = route.path.replace("{id}", &encoded(id.unwrap_or_default()));
        if route.method == Method::Get {
            let path = format!("{path}?{}", query(&given));
            return self.send(route.method, &path, &headers, None).await;
        }
        let body = Value::Object(given);
        self.send(route.method, &path, &headers, Some(&body)).await
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Response {
        self.send(Method::Post, path, &[], Some(body)).await
    }

    pub async fn get(&mut self, path: &str) -> Response {
        self.send(Method::Get, path, &[], None).await
    }

    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Response {
        let mut request = Request::builder()
            .method(method.as_str())
            .uri(path)
            .header(header::HOST, self.running.addr.to_string())
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let bytes = body
            .map(|body| body.to_string().into_bytes())
            .unwrap_or_default();
        let request = request
            .body(Full::new(bytes.into()))
            .expect("a well-formed request");
        self.connection
            .ready()
            .await
            .expect("the connection stays open");
        let response = self.connection.send_request(request).await;
        let response = response.unwrap_or_else(|error| panic!("{path}: {error}"));
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("the whole body").to_bytes();
        Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body: serde_json::from_slice(&body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned())),
        }
    }

    pub async fn stop(self) {
        drop(self.connection);
        self.running.shutdown().await;
    }
}
