//! `switchboard cert …` with the real binary: what it writes is let in, what it ends is put out.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use switchboard_client::bus::tls;
use switchboard_hub::bus::authority::{Authority, Identity, Refused, Role};
use switchboard_test_cluster::Missing;
use switchboard_tests::{Hub, PATIENCE, Project, switchboard};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A project without a hub.
struct Desk {
    home: TempDir,
}

impl Desk {
    fn new() -> Desk {
        Desk {
            home: tempfile::tempdir().expect("there is room"),
        }
    }

    fn made() -> Desk {
        let desk = Desk::new();
        desk.json(&["init"]);
        desk
    }

    fn data_dir(&self) -> PathBuf {
        self.home.path().join("state")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(switchboard())
            .arg("cert")
            .args(arguments)
            .arg("--data-dir")
            .arg(self.data_dir())
            .current_dir(self.home.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .expect("it starts")
    }

    #[track_caller]
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", output.status);
        assert_eq!(said, "");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        let answer: Value = serde_json::from_str(&self.text(&all)).expect("one object");
        assert_eq!(answer["success"], true, "{answer}");
        answer
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], code: i32, words: &[&str]) {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.starts_with("error:"), "{said}");
        for word in words {
            assert!(said.contains(word), "{word:?} is not in: {said}");
        }
    }

    fn state_of(&self, serial: &str) -> String {
        let list = self.json(&["list"]);
        let all = list["certificates"].as_array().expect("a list");
        let found = all.iter().find(|one| one["serial"] == serial);
        let state = found.expect("it is listed")["state"].as_str();
        state.expect("a word").to_owned()
    }
}

fn serial(answer: &Value) -> String {
    let serial = answer["certificate"]["serial"].as_str();
    serial.expect("it has a serial number").to_owned()
}

/// One handshake between the files that a command wrote and the authority of a hub.
async fn connect(authority: &Authority, answer: &Value) -> Result<Identity, Refused> {
    let file = |name: &str| PathBuf::from(answer["files"][name].as_str().expect("a path"));
    let config = tls::client_config(&file("certificate"), &file("key"), &file("authority"));
    let (near, far) = tokio::io::duplex(64 * 1024);
    let connector = tokio_rustls::TlsConnector::from(config.expect("the files serve"));
    let both = async {
        let (admitted, _) = tokio::join!(
            authority.admit(near),
            connector.connect(tls::director(), far)
        );
        admitted
    };
    let admitted = tokio::time::timeout(PATIENCE, both).await;
    let (_, identity) = admitted.expect("the handshake ends")?;
    Ok(identity)
}

#[tokio::test]
async fn what_is_issued_is_let_in_and_what_is_revoked_is_put_out() {
    let desk = Desk::made();
    let worker = desk.json(&["issue", "job-7/builder"]);
    let operator = desk.json(&["issue", "ann", "--role", "operator", "--out", "given"]);
    assert!(desk.home.path().join("given/ann.key").is_file());
    let authority = Authority::open(&desk.data_dir()).unwrap();
    let _watcher = authority.watch();
    let inside = connect(&authority, &worker).await.unwrap();
    assert_eq!(
        (inside.name.as_str(), inside.role),
        ("job-7/builder", Role::Worker)
    );
    let ann = connect(&authority, &operator).await.unwrap();
    assert_eq!((ann.name.as_str(), ann.role), ("ann", Role::Operator));

    let done = desk.json(&["revoke", "job-7/builder", "--reason", "lost"]);
    assert_eq!(done["revoked"][0]["reason"], "lost");
    let ended = tokio::time::timeout(PATIENCE, authority.ended(&inside)).await;
    assert_eq!(ended.unwrap(), Refused::Revoked(inside.name.clone()));
    assert!(connect(&authority, &worker).await.is_err());
    assert_eq!(authority.standing(&ann), Ok(()));
    assert_eq!(desk.state_of(&serial(&worker)), "revoked");
    assert_eq!(desk.state_of(&serial(&operator)), "live");
}

#[tokio::test]
async fn everything_can_be_rotated_while_a_hub_watches() {
    let desk = Desk::made();
    let old = desk.json(&["issue", "w", "--out", "old"]);
    let authority = Authority::open(&desk.data_dir()).unwrap();
    let _watcher = authority.watch();
    let mut generations = authority.generations();
    let mut noticed = async || {
        let changed = tokio::time::timeout(PATIENCE, generations.changed()).await;
        changed.expect("it is noticed").unwrap();
    };
    desk.json(&["rotate", "--director"]);
    noticed().await;
    connect(&authority, &old).await.unwrap();

    let rotated = desk.json(&["rotate", "--authority"]);
    assert_eq!(rotated["authorities"].as_array().unwrap().len(), 2);
    assert_eq!(rotated["orphaned"], 0);
    let new = desk.json(&["rotate", "w", "--out", "new"]);
    assert_eq!(new["alsoLive"][0], serial(&old).as_str());
    assert_ne!(serial(&new), serial(&old));
    // However many looks it took to see all of it.
    let both = async {
        while connect(&authority, &new).await.is_err() {
            noticed().await;
        }
    };
    tokio::time::timeout(PATIENCE, both).await.unwrap();
    let inside = connect(&authority, &old).await.unwrap();

    let said = desk.text(&["rotate", "--drop-old"]);
    assert!(said.contains("no longer trusted: 1;"), "{said}");
    let ended = tokio::time::timeout(PATIENCE, authority.ended(&inside)).await;
    assert_eq!(ended.unwrap(), Refused::Orphaned(inside.name.clone()));
    assert_eq!(desk.state_of(&serial(&old)), "orphaned");
    connect(&authority, &new).await.unwrap();

    let newest = desk.json(&["rotate", "w", "--out", "new", "--revoke-old"]);
    let revoked = newest["revoked"].as_array().unwrap();
    assert!(revoked.iter().any(|one| *one == serial(&new)), "{newest}");
    assert_eq!(desk.state_of(&serial(&new)), "revoked");
}

#[test]
fn a_person_reads_what_was_done_and_what_to_do_next() {
    let desk = Desk::new();
    let said = desk.text(&["init"]);
    assert!(
        said.contains("was created") && said.contains("cert issue"),
        "{said}"
    );
    let again = desk.text(&["init", "--name", "bus.example"]);
    assert!(
        again.contains("exists") && again.contains("was replaced"),
        "{again}"
    );
    assert!(again.contains("bus.example"), "{again}");
    let issued = desk.text(&["issue", "w"]);
    for word in ["w.pem", "w.key", "ca.pem", "worker w"] {
        assert!(issued.contains(word), "{word}: {issued}");
    }
    let second = desk.text(&["issue", "w", "--out", "elsewhere", "--days", "3"]);
    assert!(second.contains("still valid"), "{second}");
    let list = desk.text(&["list"]);
    for word in ["authority", "director", "live", "expiring"] {
        assert!(list.contains(word), "{word}: {list}");
    }
    let revoked = desk.text(&["revoke", "w"]);
    assert_eq!(revoked.matches("is revoked").count(), 2, "{revoked}");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_exit_code() {
    let desk = Desk::new();
    for early in [
        &["issue", "w"][..],
        &["list"],
        &["revoke", "w"],
        &["rotate", "--director"],
    ] {
        desk.refused(early, 1, &["switchboard cert init"]);
    }
    desk.json(&["init"]);
    desk.refused(&["issue", ""], 2, &["empty"]);
    desk.refused(&["issue", "a\nb"], 2, &["control"]);
    desk.refused(&["issue", &"x".repeat(129)], 2, &["128 bytes"]);
    desk.refused(&["issue", "steward"], 2, &["is reserved"]);
    desk.refused(&["issue", "w", "--role", "king"], 2, &["worker, operator"]);
    for days in ["0", "3651", "x"] {
        desk.refused(&["issue", "w", "--days", days], 2, &["days"]);
    }
    desk.refused(&["init", "--name", "a b"], 2, &["'a b'"]);
    desk.refused(&["revoke", "nobody"], 1, &["nobody", "cert list"]);
    desk.refused(&["rotate", "nobody"], 1, &["cert issue nobody"]);
    desk.refused(&["rotate"], 2, &["--authority"]);
    desk.refused(&["rotate", "w", "--authority"], 2, &["cannot be used"]);
    for more in ["--days=3", "--out=x", "--role=worker", "--revoke-old"] {
        desk.refused(&["rotate", "--authority", more], 2, &["with an id"]);
    }
    desk.json(&["issue", "w"]);
    desk.refused(&["issue", "w"], 1, &["exists", "--out"]);
    // What the bus refuses gets no certificate; one that was revoked gives way to the next.
    desk.refused(&["issue", "a b"], 2, &["'a b'", "spaces"]);
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    desk.refused(&["issue", token], 2, &["token or a key"]);
    let said = desk.text(&["revoke", "w"]);
    assert!(said.contains("run 'switchboard cert issue w'"), "{said}");
    desk.json(&["issue", "w"]);
    let file = desk.data_dir().join("bus/index.json");
    std::fs::write(&file, "{").unwrap();
    for command in [&["list"][..], &["issue", "v"], &["init"]] {
        desk.refused(command, 1, &["index.json", "backup"]);
    }
}

#[tokio::test]
async fn the_python_of_the_document_comes_in() {
    let tried = Command::new("python3").args(["-c", "import ssl"]).output();
    if !tried.is_ok_and(|ran| ran.status.success()) {
        return Missing::Python.skip("a worker in Python under mutual TLS");
    }
    let document = include_str!("../../../docs/certificates.md");
    let (_, program) = document
        .split_once("```python\n")
        .expect("it has a program");
    let (program, _) = program.split_once("```").expect("the program ends");
    let desk = Desk::made();
    desk.json(&["issue", "worker-3", "--out", "."]);
    // Whoever knows only the first authority has to follow the chain to the second.
    desk.json(&["rotate", "--authority"]);
    let authority = Authority::open(&desk.data_dir()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let program = program
        .replace("bus.example.org", "127.0.0.1")
        .replace("8731", &port.to_string());
    assert!(program.contains(&port.to_string()), "{program}");
    let running = tokio::process::Command::new("python3")
        .args(["-c", &format!("{program}\nprint(bus.recv(1))")])
        .current_dir(desk.home.path())
        .output();
    let director = async {
        let (socket, _) = listener.accept().await.unwrap();
        let (mut stream, identity) = authority.admit(socket).await.unwrap();
        stream.write_all(b"!").await.unwrap();
        // Its end of the connection outlives what it reads.
        let _ = stream.read_u8().await;
        identity
    };
    let both = async { tokio::join!(running, director) };
    let (ran, identity) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    let ran = ran.unwrap();
    let complained = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{complained}");
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "b'!'");
    assert_eq!(identity.name.as_str(), "worker-3");
}

/// A hub whose bus speaks mutual TLS, and what was issued under it.
fn guarded(desk: &Desk) -> (Project, Hub) {
    let project = Project::new().in_data_dir(desk.data_dir()).with_bus();
    let settings = "[agent_bus]\nsecurity = \"mTLS\"\n";
    std::fs::write(project.root().join("switchboard.toml"), settings).expect("there is room");
    let hub = project.start();
    (project, hub)
}

/// A connection that said hello under this name and in this role.
async fn hello(hub: &Hub, answer: &Value, role: &str, id: &str) -> Bus {
    let file = |name: &str| PathBuf::from(answer["files"][name].as_str().expect("a path"));
    let config = tls::client_config(&file("certificate"), &file("key"), &file("authority"));
    let connector = tokio_rustls::TlsConnector::from(config.expect("the files serve"));
    let socket = TcpStream::connect(hub.bus()).await.expect("it listens");
    let stream = connector.connect(tls::director(), socket).await;
    let mut bus = BufReader::new(stream.expect("it is the director"));
    let line = json!({
        "schema_version": "agentbus-envelope/v1", "message_type": "protocol_hello.v1",
        "sent_at": "2026-02-12T00:00:01.001Z", "sender": { "role": role, "id": id }, "seq": 1,
        "payload": {
            "protocol_version": "0.1", "capabilities": [],
            "worker": { "worker_id": id }, "repo": {},
        },
    });
    // One that is not let in may be gone already.
    let _ = bus.write_all(format!("{line}\n").as_bytes()).await;
    bus
}

type Bus = BufReader<tokio_rustls::client::TlsStream<TcpStream>>;

/// Every kind of message until the connection ends, or until this one.
async fn hear(bus: &mut Bus, until: &str) -> Vec<String> {
    let mut heard = Vec::new();
    let reading = async {
        let mut line = String::new();
        while matches!(bus.read_line(&mut line).await, Ok(1..)) {
            let frame: Value = serde_json::from_str(&line).expect("a line is JSON");
            heard.push(
                frame["message_type"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
            if frame["message_type"] == until {
                return;
            }
            line.clear();
        }
    };
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    ended.expect("it is told or put out");
    heard
}

const WELCOME: &str = "protocol_welcome.v1";

// agentbus.security.mtls_identity
#[tokio::test]
async fn a_served_bus_holds_everyone_to_their_certificate() {
    let desk = Desk::made();
    let worker = desk.json(&["issue", "w"]);
    let operator = desk.json(&["issue", "ann", "--role", "operator"]);
    let (_project, hub) = guarded(&desk);
    let mut inside = hello(&hub, &worker, "worker", "w").await;
    assert_eq!(hear(&mut inside, WELCOME).await, [WELCOME]);
    for (shown, role, id) in [
        (&worker, "worker", "v"),
        (&worker, "operator", "w"),
        (&operator, "worker", "ann"),
        (&operator, "operator", "w"),
    ] {
        let mut posing = hello(&hub, shown, role, id).await;
        let heard = hear(&mut posing, WELCOME).await;
        assert!(!heard.iter().any(|kind| kind == WELCOME), "{role} {id}");
        assert_eq!(heard, ["protocol_error.v1"], "{role} {id}");
    }
    let mut ann = hello(&hub, &operator, "operator", "ann").await;
    assert!(hear(&mut ann, WELCOME).await.contains(&WELCOME.to_owned()));

    // An open connection is put out, too, and a new one never gets as far as the hello.
    desk.json(&["revoke", "w"]);
    hear(&mut inside, "the end").await;
    let mut again = hello(&hub, &worker, "worker", "w").await;
    assert!(hear(&mut again, WELCOME).await.is_empty());
    hub.stop();
}

#[test]
fn a_hub_without_an_authority_says_how_to_make_one() {
    let project = Project::new().with_bus();
    let settings = "[agent_bus]\nsecurity = \"mTLS\"\n";
    std::fs::write(project.root().join("switchboard.toml"), settings).unwrap();
    let ended = project.start_in_vain();
    assert!(
        ended.stderr.contains("switchboard cert init"),
        "{}",
        ended.stderr
    );
}
