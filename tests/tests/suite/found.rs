//! A hub that is found by its files: nothing secret goes to whoever else listens there.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use switchboard_tests::{Hub, Project, switchboard};

/// The command line in a project, with this in `SWITCHBOARD_TOKEN`.
fn cli(project: &Project, arguments: &[&str], token: &str) -> Output {
    Command::new(switchboard())
        .args(arguments)
        .current_dir(project.root())
        .env("NO_COLOR", "1")
        .env_remove("SWITCHBOARD_URL")
        .env("SWITCHBOARD_TOKEN", token)
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

#[track_caller]
fn fails(output: &Output, code: i32, word: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(word), "{said}");
}

fn signed() -> Project {
    Project::new().with_variable("SWITCHBOARD_AUTH_MODE", "hmac")
}

/// Somebody who listens, passes everything on, and reads along.
struct Eavesdropper {
    addr: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Eavesdropper {
    fn before(hub: SocketAddr) -> Eavesdropper {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        Self::on(listener, Some(hub))
    }

    fn on(listener: TcpListener, hub: Option<SocketAddr>) -> Eavesdropper {
        let addr = listener.local_addr().expect("it is bound");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&heard);
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let there = hub.and_then(|hub| TcpStream::connect(hub).ok());
                listen(caller, there, &notes);
            }
        });
        Eavesdropper { addr, heard }
    }

    fn heard(&self) -> String {
        let heard = self.heard.lock().expect("nobody panicked");
        String::from_utf8_lossy(&heard).to_ascii_lowercase()
    }
}

/// Copies both ways, and writes down what the caller says.
fn listen(mut caller: TcpStream, hub: Option<TcpStream>, notes: &Arc<Mutex<Vec<u8>>>) {
    if let (Some(mut hub), Ok(mut back)) = (
        hub.as_ref().and_then(|hub| hub.try_clone().ok()),
        caller.try_clone(),
    ) {
        thread::spawn(move || std::io::copy(&mut hub, &mut back));
    }
    let notes = Arc::clone(notes);
    thread::spawn(move || {
        let mut hub = hub;
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = caller.read(&mut piece) {
            notes
                .lock()
                .expect("nobody panicked")
                .extend_from_slice(&piece[..read]);
            if let Some(hub) = &mut hub {
                let _ = hub.write_all(&piece[..read]);
            }
        }
    });
}

/// Has the announcement of a hub that runs name another address.
fn redirect(project: &Project, hub: &Hub, to: SocketAddr) {
    let file = project.data_dir().join("hub.json");
    let card = fs::read_to_string(&file).expect("a hub tells where it is");
    let (from, to) = (hub.addr().to_string(), to.to_string());
    assert!(card.contains(&from), "{card}");
    fs::write(&file, card.replace(&from, &to)).expect("it is ours");
}

#[test]
fn whoever_passes_everything_on_to_the_hub_gets_no_token() {
    let project = signed();
    let hub = project.start();
    let between = Eavesdropper::before(hub.addr());
    redirect(&project, &hub, between.addr);
    for arguments in [
        &["status"][..],
        &["--token", "sbt_typed", "status"],
        &["doctor"],
    ] {
        fails(&cli(&project, arguments, "sbt_exported"), 1, "");
    }
    fails(
        &cli(&project, &["status"], ""),
        1,
        "did not prove that it is the hub",
    );
    let heard = between.heard();
    assert!(heard.contains("get /proof?nonce="), "{heard}");
    for secret in ["authorization", "sbt_", "/api/v1/"] {
        assert!(!heard.contains(secret), "{heard}");
    }
    redirect_back(&project, &hub, between.addr);
    let output = cli(&project, &["status"], "sbt_exported");
    assert!(output.status.success(), "{output:?}");
    hub.stop();
}

fn redirect_back(project: &Project, hub: &Hub, from: SocketAddr) {
    let file = project.data_dir().join("hub.json");
    let card = fs::read_to_string(&file).expect("it is there");
    let card = card.replace(&from.to_string(), &hub.addr().to_string());
    fs::write(&file, card).expect("it is ours");
}

#[test]
fn the_token_in_the_environment_goes_to_a_hub_that_is_named() {
    let project = signed();
    let hub = project.start();
    let url = format!("http://{}", hub.addr());
    // Found, the hub is shown the steward's own token, and lets it in.
    let output = cli(&project, &["status"], "sbt_exported");
    assert!(output.status.success(), "{output:?}");
    fails(
        &cli(&project, &["--url", &url, "status"], "sbt_exported"),
        1,
        "token is unknown",
    );
    let spy = Eavesdropper::before(hub.addr());
    let url = format!("http://{}", spy.addr);
    fails(
        &cli(&project, &["--url", &url, "status"], "sbt_exported"),
        1,
        "token is unknown",
    );
    assert!(spy.heard().contains("authorization: bearer sbt_exported"));
    hub.stop();
}

#[test]
fn whoever_takes_the_place_of_a_hub_that_is_gone_hears_nothing() {
    let project = signed();
    let mut hub = project.start();
    let addr = hub.addr();
    hub.kill();
    assert!(project.data_dir().join("hub.json").exists());
    let listener = TcpListener::bind(addr).expect("the port is free again");
    let thief = Eavesdropper::on(listener, None);
    fails(
        &cli(&project, &["status"], "sbt_exported"),
        3,
        "no hub is running",
    );
    assert_eq!(thief.heard(), "");
}
