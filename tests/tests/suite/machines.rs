//! More than one machine, as a person does it: certificates, names, fingerprints, and a second hub beside the first.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use switchboard_tests::{Hub, Project, switchboard, until};

/// The command line in a directory, with this token for a hub that is named.
fn cli(here: &Path, arguments: &[&str], token: &str) -> Output {
    Command::new(switchboard())
        .args(arguments)
        .current_dir(here)
        .env("NO_COLOR", "1")
        .env("SWITCHBOARD_TOKEN", token)
        .stdin(Stdio::null())
        .output()
        .expect("it starts")
}

#[track_caller]
fn says(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn fails(output: &Output, word: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(said.contains(word), "{word:?} is not in: {said}");
}

/// A certificate and its key, as a person makes them.
fn openssl(here: &Path, more: &[&str]) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-days", "30"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .args(["-subj", "/CN=hub.example"])
        .args(more)
        .current_dir(here)
        .output()
        .expect("openssl is there");
    assert!(made.status.success(), "{made:?}");
}

const FILES: [&str; 4] = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];

fn over_tls(flags: &[&str]) -> Project {
    let mut project = Project::new();
    project.give_flags(&[&["--auth", "hmac"], flags].concat());
    project
}

fn token(project: &Project) -> String {
    let made = cli(project.root(), &["token", "create", "ann", "--json"], "");
    let made: Value = serde_json::from_str(&says(&made)).expect("one object");
    made["token"]["secret"].as_str().expect("text").to_owned()
}

/// From another machine, where the name leads to the hub.
fn curl(hub: &Hub, name: &str, ca: &Path, token: &str) -> Output {
    let port = hub.addr().port();
    Command::new("curl")
        .args(["--silent", "--show-error", "--fail-with-body", "--cacert"])
        .arg(ca)
        .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .arg(format!("https://{name}:{port}/api/v1/status"))
        .output()
        .expect("curl is there")
}

#[test]
fn with_a_certificate_for_a_name_its_own_commands_go_on_and_others_use_the_name() {
    let project = over_tls(&FILES);
    let cert = project.root().join("cert.pem");
    openssl(
        project.root(),
        &["-nodes", "-addext", "subjectAltName=DNS:hub.example"],
    );
    let hub = project.start();
    says(&cli(project.root(), &["status"], ""));
    says(&cli(project.root(), &["doctor"], ""));
    let port = hub.addr().port();
    let added = says(&cli(project.root(), &["agent", "add", "w"], ""));
    let url = format!("export SWITCHBOARD_URL=https://hub.example:{port}\n");
    assert!(added.contains(&url), "{added}");
    let token = token(&project);
    says(&curl(&hub, "hub.example", &cert, &token));

    let elsewhere = tempfile::tempdir().expect("there is room");
    let url = format!("https://{}", hub.addr());
    let remote = |more: &[&str]| {
        let arguments = [&["--url", &url], more, &["status"]].concat();
        cli(elsewhere.path(), &arguments, &token)
    };
    says(&remote(&["--ca-cert", &cert.display().to_string()]));
    fails(&remote(&[]), "self-signed, as 'openssl req -x509'");
    openssl(elsewhere.path(), &["-nodes"]);
    fails(&remote(&["--ca-cert", "cert.pem"]), "is not trusted");
    let plain = format!("http://{}", hub.addr());
    let plain = cli(elsewhere.path(), &["--url", &plain, "status"], &token);
    fails(&plain, "its address begins with https://");
    hub.stop();
}

#[test]
fn a_certificate_that_will_not_do_is_explained() {
    let project = over_tls(&FILES);
    openssl(project.root(), &["-nodes"]);
    let hub = project.start();
    assert!(hub.stderr().contains("subjectAltName"), "{}", hub.stderr());
    says(&cli(project.root(), &["status"], ""));
    hub.stop();
    let cert = fs::read(project.root().join("cert.pem")).expect("it was made");
    openssl(project.root(), &["-passout", "pass:secret"]);
    let said = project.start_in_vain().stderr;
    assert!(said.contains("passphrase"), "{said}");
    openssl(project.root(), &["-nodes"]);
    fs::write(project.root().join("cert.pem"), cert).expect("it is ours");
    let said = project.start_in_vain().stderr;
    assert!(
        said.contains("the key is not that of the certificate"),
        "{said}"
    );
}

#[test]
fn a_self_signed_hub_is_known_by_its_name_and_the_fingerprint_that_it_prints() {
    let project = over_tls(&["--tls-self-signed", "--host", "hub.example"]);
    let hub = project.start();
    let port = hub.addr().port();
    let start = format!("from other machines: switchboard --url https://hub.example:{port} ");
    let fingerprint = until("it prints its fingerprint", || {
        let printed = hub.stdout();
        let line = printed
            .lines()
            .find_map(|line| line.strip_prefix(&*start))?;
        Some(line.strip_prefix("--ca-fingerprint ")?.to_owned())
    });
    let token = token(&project);
    let elsewhere = tempfile::tempdir().expect("there is room");
    let url = format!("https://{}", hub.addr());
    let remote = |fingerprint: &str| {
        let arguments = ["--url", &url, "--ca-fingerprint", fingerprint, "status"];
        cli(elsewhere.path(), &arguments, &token)
    };
    says(&remote(&fingerprint));
    let other = format!("sha256:{}", "0".repeat(64));
    fails(&remote(&other), &fingerprint);
    let added = says(&cli(project.root(), &["agent", "add", "w"], ""));
    for line in [
        format!("export SWITCHBOARD_URL=https://hub.example:{port}\n"),
        format!("export SWITCHBOARD_CA_FINGERPRINT={fingerprint}\n"),
    ] {
        assert!(added.contains(&line), "{added}");
    }
    let cert = project.data_dir().join("tls-cert.pem");
    says(&curl(&hub, "hub.example", &cert, &token));
    hub.stop();
}

#[test]
fn a_port_that_the_bus_did_not_ask_for_gives_way() {
    const PORT: u16 = 8731;
    let _taken = until("the port is taken", || {
        TcpListener::bind(("127.0.0.1", PORT)).ok()
    });
    let project = Project::new().with_plain_bus();
    let hub = project.start();
    assert_ne!(hub.bus().port(), PORT);
    let said = hub.stderr();
    assert!(said.contains("8731 is already in use"), "{said}");
    let bus = says(&cli(project.root(), &["bus", "status"], ""));
    assert!(bus.contains(&hub.bus().to_string()), "{bus}");
    let asked = Project::new().with_bus_at(([127, 0, 0, 1], PORT).into());
    let said = asked.start_in_vain().stderr;
    assert!(said.contains("--bus"), "{said}");
    let http = Project::new().at(hub.addr());
    let said = http.start_in_vain().stderr;
    assert!(said.contains("--http"), "{said}");
    hub.stop();
}

#[test]
fn every_command_finds_a_hub_by_its_data_directory() {
    let home = tempfile::tempdir().expect("there is room");
    let state = home.path().join("state");
    let project = Project::new().in_data_dir(&state).with_bus();
    let hub = project.start();
    let said = hub.stderr();
    let told = format!("--data-dir '{}'", state.display());
    assert!(said.contains(&told), "{said}");
    let dir = state.display().to_string();
    let elsewhere = tempfile::tempdir().expect("there is room");
    fails(
        &cli(elsewhere.path(), &["status"], ""),
        "pass its data directory with --data-dir",
    );
    for line in [
        "task add one",
        "status",
        "task list",
        "agent list",
        "lease list",
        "message list",
        "events",
        "incident list",
        "token list",
        "quality history",
        "pause",
        "resume",
        "bus status",
        "cert init",
        "cert list",
        "key rotate",
        "doctor",
        "backup",
    ] {
        let mut arguments: Vec<&str> = line.split(' ').collect();
        arguments.extend(["--data-dir", &dir]);
        says(&cli(elsewhere.path(), &arguments, ""));
    }
    let left: Vec<_> = fs::read_dir(elsewhere.path()).expect("ours").collect();
    assert!(left.is_empty(), "{left:?}");
    hub.stop();
}

#[test]
fn a_data_directory_that_the_settings_name_is_found_from_below_them() {
    let home = tempfile::tempdir().expect("there is room");
    let state = home.path().join("state");
    let project = Project::new().in_data_dir(&state);
    let settings = format!("data_dir = {:?}\n", state.display().to_string());
    fs::write(project.root().join("switchboard.toml"), settings).expect("it is ours");
    let below = project.root().join("a/b");
    fs::create_dir_all(&below).expect("it is ours");
    let hub = project.start();
    let said = hub.stderr();
    assert!(!said.contains("--data-dir"), "{said}");
    says(&cli(&below, &["status"], ""));
    hub.stop();
}

/// What a hub tells of itself in its data directory.
fn card(project: &Project) -> Value {
    let card = fs::read(project.data_dir().join("hub.json")).expect("it runs");
    serde_json::from_slice(&card).expect("JSON")
}

fn with_broker(listen: &str, flags: &[&str]) -> Project {
    let mut project = Project::new().with_variable("SWITCHBOARD_BROKER_LISTEN", listen);
    project.give_flags(&[&["--auth", "hmac"], flags].concat());
    project
}

#[test]
fn roles_talk_over_tls_to_a_broker_that_they_trust() {
    let project = with_broker("0.0.0.0:0", &["--tls-self-signed"]);
    let hub = project.start();
    let card = card(&project);
    assert_eq!(card["brokerTls"], true);
    let (_, port) = card["broker"].as_str().unwrap().rsplit_once(':').unwrap();
    let fingerprint = card["tlsFingerprint"].as_str().unwrap();
    let here = |arguments: &[&str]| says(&cli(project.root(), arguments, ""));
    let said = here(&["say", "user", "(BUILDER #1): from here"]);
    assert!(said.contains("accepted.unverified"), "{said}");
    let read = here(&["inbox", "--user"]);
    assert!(read.contains("(BUILDER #1): from here"), "{read}");
    here(&["bg", "list"]);

    let made = "token create ann --scope agent --agent builder --json";
    let made = here(&made.split(' ').collect::<Vec<_>>());
    let made: Value = serde_json::from_str(&made).expect("one object");
    let token = made["token"]["secret"].as_str().expect("text");
    let elsewhere = tempfile::tempdir().expect("there is room");
    let broker = format!("wss://127.0.0.1:{port}");
    let say = |more: &[&str], broker: &str, token: &str| {
        let arguments = ["say", "user", "(BUILDER #2): from elsewhere"];
        let arguments = [&arguments[..], &["--broker", broker], more].concat();
        cli(elsewhere.path(), &arguments, token)
    };
    let trusting = ["--ca-fingerprint", fingerprint];
    let wrong = format!("sha256:{}", "0".repeat(64));
    fails(&say(&[], &broker, token), "--ca-fingerprint");
    fails(
        &say(&["--ca-fingerprint", &wrong], &broker, token),
        fingerprint,
    );
    fails(&say(&trusting, &broker, ""), "requires authentication");
    let as_oracle = [&trusting[..], &["--from", "oracle"]].concat();
    fails(&say(&as_oracle, &broker, token), "builder");
    let plain = broker.replace("wss", "ws");
    fails(&say(&trusting, &plain, token), "begins with wss://");
    says(&say(&trusting, &broker, token));
    let cert = project.data_dir().join("tls-cert.pem");
    says(&say(
        &["--ca-cert", &cert.display().to_string()],
        &broker,
        token,
    ));

    // By the hub's address: its broker is at the port that it tells where it is found, else beside it.
    let url = format!("https://localhost:{}", hub.addr().port());
    let named = ["say", "user", "(BUILDER #3): x", "--url", &url];
    let named = [&named, &trusting[..]].concat();
    says(&cli(project.root(), &named, token));
    let steward = here(&["token", "create", "eve", "--scope", "steward", "--json"]);
    let steward: Value = serde_json::from_str(&steward).expect("one object");
    let read = Command::new(switchboard())
        .args([
            "inbox",
            "--user",
            "--url",
            &format!("https://{}", hub.addr()),
        ])
        .current_dir(elsewhere.path())
        .env("SWITCHBOARD_CA_FINGERPRINT", fingerprint)
        .env(
            "SWITCHBOARD_TOKEN",
            steward["token"]["secret"].as_str().unwrap(),
        )
        .env("HM_SEND_PORT", port)
        .output()
        .expect("it starts");
    let read = says(&read);
    assert!(read.contains("(BUILDER #2): from elsewhere"), "{read}");
    hub.stop();
}

#[test]
fn a_broker_gets_no_token_before_its_hub_has_proven_itself() {
    let project = with_broker("127.0.0.1:0", &[]);
    let hub = project.start();
    let say = || cli(project.root(), &["say", "user", "(BUILDER #1): x"], "");
    says(&say());
    // The hub has another key than this one by now.
    fs::write(project.data_dir().join("key"), "07".repeat(32)).expect("it is ours");
    fails(&say(), "did not prove that it is the hub");
    hub.stop();
}
