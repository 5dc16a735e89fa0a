//! The file door and everything that can be wrong with a directory.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::files_kit::{Door, claims, envelope, refused, registers};
use crate::harness::{start, start_as};
use crate::world::eventually;

const BODY_MAX: usize = 1024 * 1024;

#[tokio::test]
async fn what_is_no_request_is_rejected_with_the_reason_and_answered() {
    let hub = start().await;
    let door = Door::of(&hub);
    let wrong =
        |version: &str| json!({ "operation": "CLAIM", "agentId": "a", "protocolVersion": version });
    let cases = [
        ("list", "[]".to_owned(), "not a list"),
        ("nothing", "{}".to_owned(), "operation"),
        (
            "unknown",
            json!({ "operation": "DANCE" }).to_string(),
            "operation",
        ),
        (
            "field",
            json!({ "operation": "CLAIM" }).to_string(),
            "agentId",
        ),
        ("version", wrong("7.0").to_string(), "7.0"),
    ];
    for (stem, body, word) in cases {
        door.put(stem, body);
        refused(&door.answer(stem).await, "invalid_operation");
        let reason = door.rejected(&format!("{stem}.json")).await;
        assert!(reason.contains(word), "{stem}: {reason}");
    }
    assert_eq!(
        (
            door.count("requests"),
            door.count("done"),
            door.count("taken")
        ),
        (0, 0, 0)
    );
    eventually(async || {
        let figures = hub.client.get("/metrics").await.text;
        figures.contains("switchboard_files_rejected_total 5")
            && figures.contains("switchboard_files_answered_total 0")
    })
    .await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_file_of_the_limit_is_read_and_one_byte_more_is_not() {
    let hub = start().await;
    let door = Door::of(&hub);
    let padded = |bytes: usize| {
        let mut body = registers(&format!("a{bytes}"));
        body["padding"] = "".into();
        let rest = bytes - body.to_string().len();
        body["padding"] = "x".repeat(rest).into();
        body.to_string()
    };
    for bytes in [BODY_MAX - 1, BODY_MAX] {
        door.put("fits", padded(bytes));
        assert_eq!(door.answer("fits").await["success"], true);
    }
    door.put("larger", padded(BODY_MAX + 1));
    refused(&door.answer("larger").await, "too_large");
    assert!(door.rejected("larger.json").await.contains("1 MiB"));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_is_no_ordinary_file_is_rejected_and_no_link_is_followed() {
    let hub = start().await;
    let door = Door::of(&hub);
    let elsewhere = hub.home.path().join("elsewhere.json");
    fs::write(&elsewhere, registers("a1").to_string()).unwrap();
    symlink(&elsewhere, door.file("requests", "link.json")).unwrap();
    fs::create_dir(door.file("requests", "folder.json")).unwrap();
    let pipe = door.file("requests", "pipe.json");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for (stem, word) in [
        ("link", "a symbolic link"),
        ("folder", "a directory"),
        ("pipe", "a pipe"),
    ] {
        refused(&door.answer(stem).await, "invalid_operation");
        let reason = door.rejected(&format!("{stem}.json")).await;
        assert!(reason.contains(word), "{reason}");
    }
    assert!(elsewhere.exists());
    let status = hub.client.get("/api/v1/status").await.expect(200);
    assert_eq!(status["agents"]["idle"], 0);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn an_answer_replaces_a_link_in_its_place_and_does_not_follow_it() {
    let hub = start().await;
    let door = Door::of(&hub);
    let victim = hub.home.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let answer = door.file("responses", "a1-response.json");
    symlink(&victim, &answer).unwrap();
    door.put("a1", registers("a1").to_string());
    eventually(async || answer.symlink_metadata().is_ok_and(|meta| meta.is_file())).await;
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // A directory cannot be replaced: the request is put away with the reason.
    fs::create_dir_all(door.file("responses", "a2-response.json").join("x")).unwrap();
    door.put("a2", registers("a2").to_string());
    assert!(door.rejected("a2.json").await.contains("a2-response.json"));
    hub.running.shutdown().await;
}

#[tokio::test]
async fn names_of_any_bytes_are_answered_and_one_too_long_for_its_answer_is_not_acted_on() {
    let hub = start().await;
    let door = Door::of(&hub);
    let odd = OsStr::from_bytes(b"\xff \n;.json");
    fs::write(door.file("requests", "half"), registers("odd").to_string()).unwrap();
    fs::rename(door.file("requests", "half"), door.file("requests", odd)).unwrap();
    let answer = door.file("responses", OsStr::from_bytes(b"\xff \n;-response.json"));
    eventually(async || answer.exists()).await;
    let longest = "l".repeat(255 - "-response.json".len());
    door.put(&longest, registers("longest").to_string());
    assert_eq!(door.answer(&longest).await["success"], true);
    let longer = format!("{longest}l");
    door.put(&longer, registers("longer").to_string());
    door.lies("rejected", &longer).await;
    hub.client.get("/api/v1/agents/odd").await.expect(200);
    hub.client.get("/api/v1/agents/longest").await.expect(200);
    hub.client
        .get("/api/v1/agents/longer")
        .await
        .refused(404, "agent_not_registered");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_request_older_than_any_memory_of_it_is_not_acted_on() {
    let hub = start().await;
    let door = Door::of(&hub);
    let day = Duration::from_secs(24 * 3600);
    // The ledger's clock may lag a little behind the one that the file is stamped by.
    let minute = Duration::from_secs(60);
    let almost = SystemTime::now() - day + minute;
    door.put_at("young", &registers("young"), almost);
    assert_eq!(door.answer("young").await["success"], true);
    door.put_at("old", &registers("old"), SystemTime::now() - day - minute);
    refused(&door.answer("old").await, "invalid_operation");
    assert!(door.rejected("old.json").await.contains("24 hours"));
    hub.client
        .get("/api/v1/agents/old")
        .await
        .refused(404, "agent_not_registered");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn a_file_that_is_written_in_place_is_waited_for_and_rejected_if_it_never_is_whole() {
    let hub = start().await;
    let door = Door::of(&hub);
    let whole = registers("slow").to_string();
    let (head, tail) = whole.split_at(whole.len() / 2);
    let mut file = fs::File::create(door.file("requests", "slow.json")).unwrap();
    file.write_all(head.as_bytes()).unwrap();
    eventually(async || {
        let figures = hub.client.get("/metrics").await.text;
        figures.contains("switchboard_files_waiting 1")
    })
    .await;
    file.write_all(tail.as_bytes()).unwrap();
    drop(file);
    assert_eq!(door.answer("slow").await["agentId"], "slow");
    door.put_at("broken", &json!(1), SystemTime::now());
    fs::write(door.file("requests", "broken.json"), head).unwrap();
    refused(&door.answer("broken").await, "invalid_operation");
    door.rejected("broken.json").await;
    hub.running.shutdown().await;
}

#[tokio::test]
async fn ten_thousand_stale_files_are_let_lie_and_in_nobodys_way() {
    const STALE: usize = 10_000;
    let hub = start_as(|config| config.files.rescan_every = Duration::from_millis(20)).await;
    let door = Door::of(&hub);
    for number in 0..STALE {
        for (dir, name) in [
            ("requests", format!(".half-{number}.json")),
            ("requests", format!("note-{number}.txt")),
            ("done", format!("{number}.json")),
            ("responses", format!("{number}-response.json")),
        ] {
            fs::write(door.file(dir, name), "{").unwrap();
        }
    }
    hub.client.register("a1", &[]).await;
    for number in 0..100 {
        let beat = json!({ "agentId": "a1", "status": "idle" });
        let beat = door.ask(&format!("beat-{number}"), "HEARTBEAT", beat).await;
        assert_eq!(beat["success"], true);
    }
    assert_eq!(door.count("requests"), 2 * STALE);
    assert_eq!(door.count("responses"), STALE);
    assert_eq!(door.count("rejected"), 0);
    hub.running.shutdown().await;
}

#[tokio::test]
async fn without_any_word_from_the_system_files_are_found_by_looking() {
    let hub = start_as(|config| config.files.rescan_every = Duration::from_millis(20)).await;
    let door = Door::of(&hub);
    // A directory that came with its content: nobody heard of the file in it.
    let aside = hub.home.path().join("aside");
    fs::create_dir_all(aside.join("requests")).unwrap();
    fs::write(aside.join("requests/a1.json"), registers("a1").to_string()).unwrap();
    fs::remove_dir_all(&door.path).unwrap();
    while fs::rename(&aside, &door.path).is_err() {
        // The hub was quicker and made an empty one.
        let _ = fs::remove_dir_all(&door.path);
    }
    assert_eq!(door.answer("a1").await["agentId"], "a1");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn directories_that_are_removed_are_made_again_and_served() {
    let hub = start_as(|config| config.files.rescan_every = Duration::from_millis(20)).await;
    let door = Door::of(&hub);
    for round in 0..3 {
        let agent = format!("a{round}");
        assert_eq!(
            door.ask(&agent, "REGISTER", registers(&agent)).await["agentId"],
            agent
        );
        fs::remove_dir_all(hub.home.path().join(".jetpack")).unwrap();
        eventually(async || door.path.join("rejected").is_dir()).await;
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn what_has_lain_for_long_is_removed() {
    let hub = start_as(|config| {
        config.files.keep_for = Duration::ZERO;
        config.files.rescan_every = Duration::from_millis(5);
    })
    .await;
    let door = Door::of(&hub);
    for number in 0..3000 {
        for (dir, name) in [
            ("done", format!("{number}.json")),
            ("rejected", format!("{number}.json.reason.txt")),
            ("responses", format!("{number}-response.json")),
        ] {
            fs::write(door.file(dir, name), "{}").unwrap();
        }
    }
    fs::write(door.file("responses", "notes"), "not ours").unwrap();
    for (dir, left) in [("done", 0), ("rejected", 0), ("responses", 1)] {
        eventually(async || door.count(dir) == left).await;
    }
    hub.running.shutdown().await;
}

#[tokio::test]
async fn turned_off_it_touches_nothing() {
    let hub = start_as(|config| config.files.enabled = false).await;
    hub.client.register("a1", &[]).await;
    assert!(!Door::of(&hub).path.exists());
    hub.running.shutdown().await;
}

#[tokio::test]
async fn where_the_directory_cannot_be_made_the_hub_runs_on_and_serves_it_later() {
    let hub = start_as(|config| {
        fs::write(config.project.join(".jetpack"), "in the way").unwrap();
        config.files.rescan_every = Duration::from_millis(20);
    })
    .await;
    let door = Door::of(&hub);
    hub.client.register("a1", &[]).await;
    fs::remove_file(hub.home.path().join(".jetpack")).unwrap();
    eventually(async || door.path.join("rejected").is_dir()).await;
    let claimed = door.ask("a1", "CLAIM", claims("a1")).await;
    assert_eq!(claimed["reason"], "no_matching_tasks");
    hub.running.shutdown().await;
}

#[tokio::test]
async fn of_two_hubs_on_one_directory_one_serves_it_and_the_other_takes_over() {
    let first = start().await;
    let door = Door::of(&first);
    let dir = door.path.clone();
    let second = start_as(move |config| {
        config.files.dir = dir;
        config.files.rescan_every = Duration::from_millis(20);
    })
    .await;
    for number in 0..20 {
        let agent = format!("a{number}");
        door.ask(&agent, "REGISTER", registers(&agent)).await;
    }
    let agents = |status: Value| status["agents"]["idle"].clone();
    assert_eq!(
        agents(first.client.get("/api/v1/status").await.expect(200)),
        20
    );
    first.running.shutdown().await;
    door.ask("late", "REGISTER", registers("late")).await;
    assert_eq!(
        agents(second.client.get("/api/v1/status").await.expect(200)),
        1
    );
    second.running.shutdown().await;
}

#[tokio::test]
async fn an_answer_may_be_read_by_whom_the_operator_lets_into_the_directory() {
    let hub = start().await;
    let door = Door::of(&hub);
    let responses = door.path.join("responses");
    for (of_dir, of_file) in [(0o700, 0o600), (0o770, 0o660), (0o755, 0o644)] {
        fs::set_permissions(&responses, fs::Permissions::from_mode(of_dir)).unwrap();
        door.put(
            "a",
            envelope("CLAIM", json!({ "agentId": "a" })).to_string(),
        );
        let answer = door.file("responses", "a-response.json");
        eventually(async || answer.exists()).await;
        assert_eq!(
            fs::metadata(&answer).unwrap().permissions().mode() & 0o777,
            of_file
        );
        refused(&door.answer("a").await, "agent_not_registered");
        door.lies("done", "a").await;
        fs::remove_file(door.file("done", "a.json")).unwrap();
    }
    hub.running.shutdown().await;
}
