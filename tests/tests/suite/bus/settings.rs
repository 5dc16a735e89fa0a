//! A user's own `config/dev.toml`, as it is.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use switchboard_tests::{Client, switchboard, until};

use super::peer::Peer;

/// What its authors keep; only the port is another, so that tests can run side by side.
const DEV_TOML: &str = r#"[director]
interval_seconds = 60
max_workers = 3
max_retries = 3

[timeouts]
worker_heartbeat_ttl_seconds = 90
worker_watchdog_seconds = 3600
issue_claim_stale_seconds = 21600

[retry]
backoff_mode = "exponential"
backoff_initial_seconds = 1
backoff_max_seconds = 30

[agent_bus]
mode = "director_broker"
listen_addr = "0.0.0.0"
listen_port = 8731
security = "docker_network_only"
max_message_bytes = 65536
heartbeat_interval_seconds = 15

[policy.sync_main]
max_commits_behind = 20
max_seconds_behind = 86400
require_catalog_hash_match = true

[memory]
catalog_path = "memory/catalog.json"
engram_root_dir = "memory"
buffer_max_bytes = 20000
compact_when_over_bytes = 20000
engram_max_bytes = 12000
st_max_total_bytes = 400000
st_max_files = 64
lt_max_total_bytes = 2000000
lt_max_files = 512
memory_md_max_bytes = 16000
memory_md_max_items = 48

[rate_limits.github]
max_concurrent_requests = 2
min_seconds_between_writes = 2
cooldown_on_rate_limit_seconds = 60

[rate_limits.model]
max_concurrent_requests = 1
min_seconds_between_requests = 1
cooldown_on_error_seconds = 10

[somebody.elses]
key = "is left alone"
"#;

/// A hub that is told nothing on its command line about its bus.
struct Plain {
    child: Child,
    http: SocketAddr,
    _home: tempfile::TempDir,
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts in a project that has this `config/dev.toml`; its last words, if it does not serve.
fn start(dev_toml: &str) -> Result<Plain, String> {
    let home = tempfile::tempdir().expect("a temporary directory can be made");
    fs::create_dir(home.path().join("config")).expect("the project is empty");
    fs::write(home.path().join("config/dev.toml"), dev_toml).expect("it can be written");
    let mut child = Command::new(switchboard())
        .args(["up", "--http", "127.0.0.1:0"])
        .current_dir(home.path())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let served = stdout.lines().map_while(Result::ok).find_map(|line| {
        let found = line.strip_prefix("switchboard serves http://");
        found.and_then(|addr| addr.parse().ok())
    });
    match served {
        Some(http) => Ok(Plain {
            child,
            http,
            _home: home,
        }),
        None => {
            let ended = child.wait_with_output().expect("it ends");
            assert!(!ended.status.success());
            Err(String::from_utf8_lossy(&ended.stderr).into_owned())
        }
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it is bound").port()
}

#[test]
fn a_config_dev_toml_of_before_works_unchanged() {
    // agentbus.overview.config_file, agentbus.config.max_message_bytes, agentbus.config.heartbeat_interval
    // Somebody may have taken the port meanwhile.
    let (hub, port) = until("a hub on a port that stayed free", || {
        let port = free_port();
        let text = DEV_TOML.replace("8731", &port.to_string());
        Some((start(&text).ok()?, port))
    });
    let bus = SocketAddr::from(([127, 0, 0, 1], port));
    let mut worker = Peer::dial(bus, "worker", "w").expect("the bus is at the file's port");
    worker.hello(&[]).expect("it can be said");
    let welcome = worker.hear("protocol_welcome.v1");
    let limits = &welcome["limits"];
    assert_eq!(limits["max_message_bytes"], 65536, "{welcome}");
    assert_eq!(limits["heartbeat_interval_seconds"], 15, "{welcome}");
    assert_eq!(limits["heartbeat_ttl_seconds"], 90, "{welcome}");
    // Three workers at most have a task at a time.
    let mut http = Client::new(hub.http);
    let names = ["a", "b", "c", "d"];
    let mut hands = names.map(|id| Peer::hand(bus, id));
    for n in 0..names.len() {
        http.create(&format!("t-{n}"));
    }
    until("all places are taken", || {
        (http.status()["tasks"]["claimed"] == 3).then_some(())
    });
    let frames = hands.each_mut().map(Peer::settle);
    let given = |frames: &Vec<serde_json::Value>| {
        let is_task = |frame: &&serde_json::Value| frame["message_type"] == "task_assigned.v1";
        frames.iter().filter(is_task).count()
    };
    assert_eq!(frames.iter().map(given).sum::<usize>(), 3);
    let busy = frames.iter().position(|frames| given(frames) == 1);
    let busy = &mut hands[busy.expect("three have one")];
    let task = busy.assigned();
    busy.finish(&task);
    until(
        "whoever waited has the last one, or the one who is free",
        || {
            let tasks = &http.status()["tasks"];
            (tasks["claimed"] == 3 && tasks["completed"] == 1).then_some(())
        },
    );
}

#[test]
fn a_wrong_type_in_config_dev_toml_is_refused_with_its_key() {
    let said = start("[agent_bus]\nlisten_port = \"yes\"\n").err();
    let said = said.expect("a hub must not start on settings that it cannot read");
    assert!(said.contains("agent_bus.listen_port"), "{said}");
    assert!(said.contains("dev.toml"), "{said}");
}
