//! The cluster does what its users rely on.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use switchboard_test_cluster::{Cluster, Missing, PgBouncer, PoolMode, Server, Tls};

#[test]
fn data_survives_a_stop_without_warning() {
    let Some(cluster) = started(Cluster::start(), "a cluster that crashes") else {
        return;
    };
    let database = cluster.create_database();
    database.sql("CREATE TABLE kept (it int)");
    database.sql("INSERT INTO kept VALUES (7)");
    let first = cluster.pid().expect("a running cluster has a process");

    cluster.stop_immediate();
    assert_eq!(cluster.pid(), None);
    assert!(
        cluster.try_sql("postgres", "SELECT 1").is_err(),
        "a stopped cluster answered"
    );

    cluster.start_again();
    assert_ne!(cluster.pid().expect("it runs again"), first);
    assert_eq!(database.sql("SELECT it FROM kept"), "7");
    assert_eq!(cluster.sql("postgres", "SHOW fsync"), "on");
    assert_eq!(cluster.sql("postgres", "SHOW synchronous_commit"), "on");
}

#[test]
fn a_standby_has_what_it_received_and_can_take_over() {
    let Some(primary) = started(Cluster::start(), "a standby") else {
        return;
    };
    let database = primary.create_database();
    database.sql("CREATE TABLE kept (it int)");
    let standby = primary.standby("second");
    primary.sql(
        "postgres",
        "ALTER SYSTEM SET synchronous_standby_names = 'second'",
    );
    primary.sql("postgres", "SELECT pg_reload_conf()");
    let replicated = || primary.sql("postgres", "SELECT sync_state FROM pg_stat_replication");
    until("it is waited for", || replicated() == "sync");
    database.sql("INSERT INTO kept VALUES (1)");
    standby.follow(None);
    until("it is cut off", || replicated().is_empty());
    standby.follow(Some(&primary));
    until("it follows again", || replicated() == "sync");
    database.sql("INSERT INTO kept VALUES (2)");

    primary.stop_immediate();
    let copy = standby.database(&database.name);
    let write = "INSERT INTO kept VALUES (3)";
    assert!(standby.try_sql(&copy.name, write).is_err());
    standby.promote();
    copy.sql(write);
    assert_eq!(copy.sql("SELECT sum(it) FROM kept"), "6");
}

#[test]
fn a_cluster_takes_settings_and_is_reached_by_its_socket() {
    let conf = [("cluster_name", "it's"), ("max_connections", "42")];
    let Some(cluster) = started(Cluster::with(&conf), "a cluster's settings") else {
        return;
    };
    assert_eq!(cluster.sql("postgres", "SHOW cluster_name"), "it's");
    assert_eq!(cluster.sql("postgres", "SHOW max_connections"), "42");
    let output = Command::new(cluster.bindir().join("psql"))
        .args([
            "-qAtc",
            "SELECT inet_server_addr() IS NULL",
            &cluster.socket_url("postgres"),
        ])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "t");
}

#[test]
fn databases_are_separate_and_end_with_their_test() {
    let Some(server) = Cluster::shared("a database per test") else {
        return;
    };
    let (one, other) = (server.create_database(), server.create_database());
    one.sql("CREATE TABLE mine ()");
    assert_eq!(other.sql("SELECT to_regclass('mine') IS NULL"), "t");
    let named = format!(
        "SELECT count(*) FROM pg_database WHERE datname IN ('{}', '{}')",
        one.name, other.name
    );
    assert_eq!(server.sql("postgres", &named), "2");
    drop((one, other));
    assert_eq!(server.sql("postgres", &named), "0");
}

#[test]
fn a_cluster_ends_with_an_owner_that_is_killed() {
    if Cluster::shared("a killed owner").is_none() {
        return;
    }
    let mut owner = Command::new(env!("CARGO_BIN_EXE_switchboard-test-cluster"))
        .args(["sh", "-c", "echo $SWITCHBOARD_TEST_POSTGRES; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(owner.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let server = Server::at(url.trim()).unwrap();
    let data = server.sql("postgres", "SHOW data_directory");
    assert!(Path::new(&data).exists());

    owner.kill().unwrap();
    owner.wait().unwrap();
    until("the cluster is gone", || !Path::new(&data).exists());
    assert!(
        server.try_sql("postgres", "SELECT 1").is_err(),
        "an orphaned cluster answered"
    );
}

#[test]
fn a_command_beside_a_cluster_passes_its_exit_code_on() {
    if let Some(_server) = Cluster::shared("an exit code") {
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard-test-cluster"));
        assert_eq!(
            command
                .args(["sh", "-c", "exit 7"])
                .status()
                .unwrap()
                .code(),
            Some(7)
        );
    }
}

#[test]
fn a_pooler_hands_few_server_connections_round() {
    let Some(server) = Cluster::shared("PgBouncer") else {
        return;
    };
    let Some(pooler) = started(PgBouncer::start(server, PoolMode::Transaction), "a pooler") else {
        return;
    };
    let database = server.create_database();
    assert_eq!(
        pooler.sql(&database.name, "SELECT current_database()"),
        database.name
    );
    let first = pooler.sql(&database.name, "SELECT pg_backend_pid()");
    assert_eq!(pooler.sql(&database.name, "SELECT pg_backend_pid()"), first);
    assert!(
        pooler
            .sql("pgbouncer", "SHOW CONFIG")
            .contains("pool_mode|transaction|")
    );
}

#[test]
fn a_cluster_with_a_certificate_speaks_tls() {
    let made = tempfile::tempdir().unwrap();
    let tls = Tls {
        certificate: made.path().join("it.crt"),
        key: made.path().join("it.key"),
    };
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(&tls.certificate, pair.cert.pem()).unwrap();
    fs::write(&tls.key, pair.signing_key.serialize_pem()).unwrap();
    let Some(cluster) = started(Cluster::with_tls(&tls, &[]), "TLS") else {
        return;
    };
    let server = Server::at(&format!("{}?sslmode=require", cluster.url("postgres"))).unwrap();
    assert_eq!(
        server.sql(
            "postgres",
            "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        ),
        "t"
    );
}

fn started<T>(outcome: Result<T, Missing>, what: &str) -> Option<T> {
    outcome.map_err(|missing| missing.skip(what)).ok()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
