//! Workers that drifted: from main, from the catalog, from the protocol.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use switchboard_hub::config::{Config, SyncAction};

use super::kit::{Peer, SENT_AT, bus, bus_as, hello};

/// A repository whose main branch has so many commits; their names, oldest first.
fn repository(path: &Path, commits: usize) -> Vec<String> {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
            command.env_remove(name);
        }
        let done = command
            .current_dir(path)
            .envs([
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ])
            .envs([
                ("GIT_AUTHOR_NAME", "ann"),
                ("GIT_AUTHOR_EMAIL", "ann@localhost"),
            ])
            .envs([
                ("GIT_COMMITTER_NAME", "ann"),
                ("GIT_COMMITTER_EMAIL", "ann@localhost"),
            ])
            .envs([
                ("GIT_COMMITTER_DATE", "1700000000 +0000"),
                ("GIT_AUTHOR_DATE", "1700000000 +0000"),
            ])
            .args(args)
            .output()
            .unwrap();
        assert!(done.status.success(), "git {args:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    for n in 0..commits {
        git(&[
            "commit",
            "--quiet",
            "--allow-empty",
            "--message",
            &format!("c{n}"),
        ]);
    }
    let log = git(&["log", "--reverse", "--format=%H"]);
    log.lines().map(str::to_owned).collect()
}

async fn worker_at(hub: &crate::harness::TestHub, id: &str, repo: Value) -> (Peer, Value) {
    let mut peer = Peer::open(hub).await;
    let mut hello = hello(id, &[]);
    hello["repo"] = repo;
    peer.greet("worker", id, hello).await;
    let welcome = peer.expect("protocol_welcome.v1").await;
    (peer, welcome)
}

async fn beat_from(peer: &mut Peer, repo: Value) {
    let state = json!({
        "stage": "CODE", "issue_number": 0, "attempt": 1, "last_update_at": SENT_AT, "repo": repo,
    });
    peer.send("heartbeat.v1", json!({ "state": state })).await;
}

#[tokio::test]
async fn a_worker_21_commits_behind_is_told_to_sync_once_and_one_20_behind_is_not() {
    // agentbus.config.max_commits_behind, agentbus.sync.sent_to_drifting, agentbus.sync.reason, agentbus.sync.expected,
    // agentbus.sync.policy, agentbus.hello.main_ancestor, agentbus.accept.drift_detected
    let project = tempfile::tempdir().unwrap();
    let commits = repository(project.path(), 23);
    let head = commits.last().unwrap();
    let place = |behind: usize| &commits[commits.len() - 1 - behind];
    let hub = bus_as(|config: &mut Config| {
        config.bus.sync_main.repository = project.path().to_owned();
        config.bus.memory.enabled = true;
    })
    .await;
    let (mut near, welcome) =
        worker_at(&hub, "near", json!({ "main_ancestor_sha": place(20) })).await;
    assert_eq!(welcome["director"]["main_sha_expected"], **head);
    let catalog = welcome["director"]["catalog_hash_expected"].clone();
    let (mut far, _) = worker_at(&hub, "far", json!({ "main_ancestor_sha": place(21) })).await;
    let told = far.expect("sync_required.v1").await;
    assert_eq!(told["reason"], "behind_main");
    assert_eq!(told["main_sha_expected"], **head);
    assert_eq!(told["catalog_hash_expected"], catalog);
    assert_eq!(
        told["policy"],
        json!({ "max_commits_behind": 20, "max_seconds_behind": 86400, "require_catalog_hash_match": true })
    );
    assert_eq!(told["required_action"], "merge_main");
    // Another stale place is no news; another reason is. Git was asked about both before it comes.
    beat_from(
        &mut far,
        json!({ "main_ancestor_sha": place(22), "catalog_hash_seen": "sha256:0" }),
    )
    .await;
    assert_eq!(
        far.expect("sync_required.v1").await["reason"],
        "catalog_mismatch"
    );
    near.fence().await;
    assert_eq!(near.came("sync_required.v1"), 0);
    // Now it falls back, too.
    beat_from(
        &mut near,
        json!({ "main_ancestor_sha": place(21), "catalog_hash_seen": catalog }),
    )
    .await;
    assert_eq!(
        near.expect("sync_required.v1").await["reason"],
        "behind_main"
    );
    for peer in [&mut near, &mut far] {
        peer.fence().await;
        assert_eq!(peer.came("sync_required.v1"), 0);
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_commit_that_the_repository_does_not_know_counts_as_behind() {
    // agentbus.sync.action_enum
    let project = tempfile::tempdir().unwrap();
    repository(project.path(), 1);
    let hub = bus_as(|config| {
        config.bus.sync_main.repository = project.path().to_owned();
        config.bus.sync_main.required_action = SyncAction::RebaseMain;
    })
    .await;
    let stranger = json!({ "main_ancestor_sha": "0123456789abcdef0123456789abcdef01234567" });
    let (mut worker, _) = worker_at(&hub, "w1", stranger).await;
    let told = worker.expect("sync_required.v1").await;
    assert_eq!(
        (&told["reason"], &told["required_action"]),
        (&json!("behind_main"), &json!("rebase_main"))
    );
    hub.running.shutdown().await;
}

#[tokio::test]
async fn another_catalog_than_the_director_s_asks_for_a_sync_unless_that_is_allowed() {
    // agentbus.config.catalog_match, agentbus.hello.catalog_hash, agentbus.welcome.director
    for required in [true, false] {
        let hub = bus_as(|config| {
            config.bus.memory.enabled = true;
            config.bus.sync_main.require_catalog_hash_match = required;
        })
        .await;
        let (mut worker, welcome) =
            worker_at(&hub, "w1", json!({ "catalog_hash_seen": "sha256:00" })).await;
        let expected = &welcome["director"]["catalog_hash_expected"];
        assert!(
            expected
                .as_str()
                .is_some_and(|hash| hash.starts_with("sha256:")),
            "{welcome}"
        );
        assert!(
            welcome["director"].get("main_sha_expected").is_none(),
            "there is no repository"
        );
        if required {
            let told = worker.expect("sync_required.v1").await;
            assert_eq!(told["reason"], "catalog_mismatch");
            assert_eq!(told["catalog_hash_expected"], *expected);
            assert_eq!(told["main_sha_expected"], "unknown");
        }
        let (mut same, _) = worker_at(&hub, "w2", json!({ "catalog_hash_seen": expected })).await;
        for peer in [&mut worker, &mut same] {
            peer.fence().await;
            assert_eq!(peer.came("sync_required.v1"), 0, "{required}");
        }
        hub.running.shutdown().await;
    }
}

async fn speaking(hub: &crate::harness::TestHub, role: &'static str, version: &str) -> Peer {
    let mut peer = Peer::open(hub).await;
    let mut hello = hello("w1", &["of-tomorrow"]);
    hello["protocol_version"] = json!(version);
    hello["of_tomorrow"] = json!({ "x": 1 });
    peer.greet(role, "w1", hello).await;
    peer
}

#[tokio::test]
async fn another_minor_version_is_welcomed_with_the_lower_of_both() {
    // agentbus.version.minor_compatible, agentbus.welcome.version, agentbus.version.answer
    let hub = bus().await;
    for (theirs, agreed) in [
        ("0.1", "0.1"),
        ("0.2", "0.1"),
        ("0.1.7", "0.1"),
        ("0.0", "0.0"),
    ] {
        let mut worker = speaking(&hub, "worker", theirs).await;
        let welcome = worker.expect("protocol_welcome.v1").await;
        assert_eq!(welcome["protocol_version"], agreed);
        assert!(welcome["director"]["run_id"].is_string());
        if agreed == "0.0" {
            let told = worker.expect("sync_required.v1").await;
            assert_eq!(told["reason"], "protocol_change");
        }
        worker.fence().await;
        assert_eq!(worker.came("sync_required.v1"), 0);
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn another_major_version_is_told_so_and_gets_no_further() {
    // agentbus.version.major_breaks, agentbus.version.string, agentbus.incompat.fields, agentbus.incompat.action
    let hub = bus().await;
    for role in ["worker", "operator"] {
        for theirs in ["1.0", "2", "one", ""] {
            let mut peer = speaking(&hub, role, theirs).await;
            let told = peer.expect("protocol_incompatibility.v1").await;
            assert_eq!(told["expected_protocol_version"], "0.1");
            assert_eq!(told["sender_protocol_version"], theirs);
            assert_eq!(told["required_action"], "sync_main_and_restart");
            assert!(told["reason"].as_str().is_some_and(|text| !text.is_empty()));
            peer.ended().await;
            assert!(peer.passed.is_empty());
        }
    }
    let agents = hub.client.get("/api/v1/agents").await.expect(200)["agents"].take();
    assert_eq!(agents, json!([]), "nobody signed on");
    hub.running.shutdown().await;
}
