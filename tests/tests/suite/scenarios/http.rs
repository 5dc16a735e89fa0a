//! The whole hub in this process, on a socket and a ledger, with a clock that stands still.
//!
//! Steps go out as real requests; on [`Transport::Envelopes`] the ten operations go through `POST /protocol`. The status
//! of every answer is held against the table of routes and the codes of errors.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use switchboard_core::Timestamp;
use switchboard_hub::Running;
use switchboard_hub::config::Config;
use switchboard_store::conformance::START;
use switchboard_store::{Engine, ManualClock};
use switchboard_wire::jetpack::{ErrorBody, Method, Operation, ROUTES, Route};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::act::{Call, Deed};
use super::engine::{Ground, Kind};
use super::scene::Scene;
use super::{Answer, Driver};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Each operation on its own path.
    Paths,
    /// The ten operations in envelopes.
    Envelopes,
}

pub struct Socket {
    runtime: Runtime,
    transport: Transport,
    kind: Kind,
    stage: Option<Stage>,
}

struct Stage {
    hub: HubHere,
    events_seen: u64,
}

/// A hub in this process, and one connection to it.
pub struct HubHere {
    running: Running,
    connection: SendRequest<Full<Bytes>>,
    _folder: tempfile::TempDir,
    _ground: Ground,
}

/// What came back over the socket.
pub struct Response {
    pub status: u16,
    pub headers: hyper::HeaderMap,
    pub body: Value,
}

impl Socket {
    pub fn new(transport: Transport) -> Self {
        Socket::on(Kind::Sqlite, transport)
    }

    pub fn on(kind: Kind, transport: Transport) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        Socket {
            runtime,
            transport,
            kind,
            stage: None,
        }
    }
}

impl Driver for Socket {
    fn name(&self) -> String {
        let way = match self.transport {
            Transport::Paths => "each operation on its path",
            Transport::Envelopes => "operations in envelopes",
        };
        format!("HTTP over {}, {way}", self.kind.name())
    }

    fn can_run(&self, scene: &Scene) -> bool {
        !scene
            .steps
            .iter()
            .any(|step| step.deed.needs_virtual_time())
    }

    fn begin(&mut self, scene: &Scene) {
        let policy = scene.policy.clone();
        // Opened outside of the runtime, which an engine may not block.
        let opened = self.kind.open(ManualClock::at(START));
        let hub = HubHere::start_on(opened, self.kind.name(), |config| {
            config.limits.enabled = false;
            config.quality = policy;
        });
        let hub = self.runtime.block_on(hub);
        self.stage = Some(Stage {
            hub,
            events_seen: 0,
        });
    }

    fn perform(&mut self, deed: &Deed) -> Answer {
        let stage = self.stage.as_mut().expect("a scene has begun");
        let Deed::Call(call) = deed else {
            unreachable!("scenes that move time do not run here");
        };
        let body = self.runtime.block_on(stage.call(call, self.transport));
        Answer { body }
    }

    fn end(&mut self) {
        if let Some(stage) = self.stage.take() {
            self.runtime.block_on(stage.hub.stop());
        }
    }
}

impl Stage {
    async fn call(&mut self, call: &Call, transport: Transport) -> Value {
        let route = route(call.route);
        let mut given = call.given.clone();
        if call.route == "events" {
            given.insert("after".to_owned(), self.events_seen.into());
        }
        let key = call.key.as_deref();
        let response = match (transport, operation(call.route)) {
            (Transport::Envelopes, Some(operation)) => {
                self.hub.envelope(operation, given, key).await
            }
            (Transport::Paths | Transport::Envelopes, _) => {
                self.hub
                    .on_path(route, call.id.as_deref(), given, key)
                    .await
            }
        };
        check_status(route, &response);
        if call.route == "events" {
            self.events_seen = response.body["latest"].as_u64().expect("the newest number");
        }
        response.body
    }
}

pub fn route(name: &str) -> &'static Route {
    let found = ROUTES.iter().find(|route| route.operation_id == name);
    found.unwrap_or_else(|| panic!("there is no route {name}"))
}

fn operation(route: &str) -> Option<Operation> {
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
fn check_status(route: &Route, response: &Response) {
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

impl HubHere {
    /// Its clock stands at `now`.
    pub async fn start(now: Timestamp, change: impl FnOnce(&mut Config)) -> Self {
        let opened = Kind::Sqlite.open(ManualClock::at(now));
        Self::start_on(opened, Kind::Sqlite.name(), change).await
    }

    async fn start_on(
        (engine, ground): (Box<dyn Engine>, Ground),
        store: &'static str,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the hub");
        let mut config = Config::for_project(folder.path().to_owned());
        config.http.listen.set_port(0);
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
            _folder: folder,
            _ground: ground,
        }
    }

    /// An operation through `POST /protocol`.
    pub async fn envelope(
        &mut self,
        operation: Operation,
        mut given: Map<String, Value>,
        key: Option<&str>,
    ) -> Response {
        given.insert("protocolVersion".to_owned(), "1.0".into());
        given.insert("operation".to_owned(), operation.as_str().into());
        if let Some(key) = key {
            given.insert("requestId".to_owned(), key.into());
        }
        self.post("/api/v1/protocol", &Value::Object(given)).await
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
