//! The directory `.squidrun/`: who serves it, which session runs, what trigger files say.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::json;
use switchboard_hub::config::AuthMode;

use crate::squidrun_kit::{Dir, serve, serve_as};
use crate::world::eventually;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_directory_that_we_make_is_private_and_ignored_by_git() {
    let home = tempfile::tempdir().unwrap();
    let hub = serve(home.path()).await;
    let dir = Dir::of(home.path());
    assert_eq!(mode(&dir.path), 0o700);
    assert_eq!(dir.text(".gitignore").as_deref(), Some("*\n"));
    hub.stop().await;
    let theirs = tempfile::tempdir().unwrap();
    let dir = Dir::of(theirs.path());
    fs::create_dir_all(dir.path.join("notes")).unwrap();
    fs::set_permissions(&dir.path, fs::Permissions::from_mode(0o755)).unwrap();
    let hub = serve(theirs.path()).await;
    assert_eq!(mode(&dir.path), 0o755, "one that is there keeps its mode");
    assert_eq!(dir.text(".gitignore"), None);
    hub.stop().await;
}

#[tokio::test]
async fn startup_app_status_names_the_session_that_runs() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    fs::create_dir_all(&dir.path).unwrap();
    fs::write(
        dir.path.join("app-status.json"),
        r#"{"session":41,"theirs":{"x":7}}"#,
    )
    .unwrap();
    for session in [42, 43] {
        let hub = serve(home.path()).await;
        let status = dir.status();
        assert_eq!(status["session"], session, "{status}");
        assert_eq!(
            status["theirs"],
            json!({ "x": 7 }),
            "what others put there stays"
        );
        for member in ["started", "mode", "version", "platform", "lastUpdated"] {
            assert!(status[member].is_string(), "{member}: {status}");
        }
        assert_eq!(hub.session().await, session);
        hub.stop().await;
    }
    fs::write(dir.path.join("app-status.json"), "no JSON").unwrap();
    let hub = serve(home.path()).await;
    assert_eq!(dir.status()["session"], 44, "the ledger knows it too");
    hub.stop().await;
}

#[tokio::test]
async fn one_hub_serves_a_directory_and_another_serves_the_rest() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let first = serve(home.path()).await;
    let second = serve_as(home.path(), |config| {
        config.data_dir = home.path().join("second");
        config.store =
            switchboard_hub::config::StoreAt::Sqlite(home.path().join("second/ledger.db"));
        config.swarm_db = false;
        config.files.enabled = false;
    })
    .await;
    assert_eq!(second.client.get("/healthz").await.status, 200);
    assert_eq!(dir.status()["session"], 1, "nobody else began one");
    dir.put("builder", "[HM-MESSAGE-ID:m1]\n(ARCH #1): to the first");
    first.hears("m1").await;
    assert!(second.payload("m1").await.is_none());
    first.stop().await;
    eventually(async || dir.status()["session"] == 2).await;
    dir.put("builder", "[HM-MESSAGE-ID:m2]\n(ARCH #1): to the second");
    second.hears("m2").await;
    second.stop().await;
}

#[tokio::test]
async fn a_directory_that_is_removed_is_made_again_in_the_same_session() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    fs::remove_dir_all(&dir.path).unwrap();
    eventually(async || dir.path.join("app-status.json").exists()).await;
    assert_eq!(dir.status()["session"], 1);
    eventually(async || dir.path.join("triggers").exists()).await;
    dir.put("builder", "[HM-MESSAGE-ID:m1]\n(ARCH #1): still there");
    hub.hears("m1").await;
    eventually(async || dir.row("m1").is_some()).await;
    eventually(async || dir.path.join("handoffs/session.md").exists()).await;
    hub.stop().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_served_stops_nobody() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    symlink(elsewhere.path(), &dir.path).unwrap();
    let hub = serve(home.path()).await;
    assert_eq!(hub.client.get("/healthz").await.status, 200);
    assert_eq!(
        fs::read_dir(elsewhere.path()).unwrap().count(),
        0,
        "no link is followed"
    );
    fs::remove_file(&dir.path).unwrap();
    eventually(async || dir.path.join("app-status.json").exists()).await;
    hub.stop().await;
    let hub = serve_as(home.path(), |config| config.squidrun.enabled = false).await;
    assert_eq!(dir.status()["session"], 1, "it is switched off");
    hub.stop().await;
}

#[tokio::test]
async fn a_trigger_file_reaches_whom_its_name_says() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    for (number, (name, target)) in [
        ("architect", "architect"),
        ("1", "architect"),
        ("devops", "builder"),
        ("2", "builder"),
        ("workers", "builder"),
        ("builder~a.b.c", "builder"),
        ("analyst", "oracle"),
        ("3", "oracle"),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("m{number}");
        dir.put(
            name,
            &format!(
                "[HM-MESSAGE-ID:{id}]\nno header, {number}\n[PROJECT CONTEXT] name=demo | path=/x"
            ),
        );
        let payload = hub.hears(&id).await;
        assert_eq!(payload["text"], format!("no header, {number}"), "{name}");
        assert_eq!(payload["metadata"]["project"]["name"], "demo", "{name}");
        assert_eq!(hub.recipients(&id).await, [*target], "{name}");
        assert_eq!(hub.sender(&id).await, "cli", "{name}");
    }
    dir.put("others-devops", "[HM-MESSAGE-ID:all]\n(ARCH #1): roll call");
    hub.hears("all").await;
    assert_eq!(hub.recipients("all").await, ["oracle"]);
    assert_eq!(
        hub.sender("all").await,
        "architect",
        "the header says who speaks"
    );
    dir.is_taken("others-devops").await;
    assert!(dir.names("triggers").is_empty());
    hub.stop().await;
}

#[tokio::test]
async fn a_file_that_is_written_in_place_is_taken_once_it_is_closed() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    fs::write(
        dir.path.join("triggers/builder.txt"),
        "[HM-MESSAGE-ID:m1]\n(ARCH #1): by hand",
    )
    .unwrap();
    hub.hears("m1").await;
    // Nothing is heard of one that is linked into place.
    let half = dir.path.join("half");
    fs::write(&half, "[HM-MESSAGE-ID:m2]\n(ARCH #2): found by looking").unwrap();
    fs::hard_link(&half, dir.path.join("triggers/oracle.txt")).unwrap();
    hub.hears("m2").await;
    hub.stop().await;
}

#[tokio::test]
async fn a_message_that_came_twice_is_said_once() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    for _ in 0..3 {
        dir.put("builder", "[HM-MESSAGE-ID:m1]\n(ARCH #1): once");
        hub.hears("m1").await;
        dir.is_taken("builder").await;
    }
    dir.put("builder", "[HM-MESSAGE-ID:m1]\n(ARCH #1): something else");
    let reason = dir.rejected("builder").await;
    assert!(reason.contains("invalid_message"), "{reason}");
    assert_eq!(hub.messages().await, ["(ARCH #1): once"]);
    hub.stop().await;
}

#[tokio::test]
async fn what_was_taken_before_a_crash_is_said_once_after_it() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let taken = dir.path.join("triggers/taken");
    fs::create_dir_all(&taken).unwrap();
    // The one has an id, the other one only itself.
    let files = [
        (
            taken.join("00000000000000000001-builder.txt"),
            "[HM-MESSAGE-ID:m1]\n(ARCH #1): with an id",
        ),
        (
            taken.join("00000000000000000002-2~x.txt"),
            "(ARCH #2): without an id",
        ),
    ];
    let kept = home.path().join("kept");
    fs::create_dir(&kept).unwrap();
    for (path, text) in &files {
        fs::write(path, text).unwrap();
        // The same file, to be found again as it was.
        fs::hard_link(path, kept.join(path.file_name().unwrap())).unwrap();
    }
    for _ in 0..2 {
        let hub = serve(home.path()).await;
        eventually(async || dir.names("triggers/taken").is_empty()).await;
        assert_eq!(
            hub.messages().await,
            ["(ARCH #1): with an id", "(ARCH #2): without an id"]
        );
        hub.stop().await;
        for (path, _) in &files {
            fs::hard_link(kept.join(path.file_name().unwrap()), path).unwrap();
        }
    }
}

#[tokio::test]
async fn trigger_no_background_and_no_unknown_target() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let hub = serve(home.path()).await;
    for name in [
        "builder-bg-1",
        "bg-2-1",
        "nobody",
        "user",
        "others-nobody",
        "others-..",
        "%2e%2e",
    ] {
        dir.put(name, "(ARCH #1): to nobody");
        let reason = dir.rejected(name).await;
        assert!(reason.contains("invalid_target"), "{name}: {reason}");
    }
    assert!(hub.messages().await.is_empty());
    hub.stop().await;
}

#[tokio::test]
async fn bad_files_are_rejected_and_hold_up_nobody() {
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    let secret = home.path().join("secret");
    fs::write(&secret, "(ARCH #1): secret").unwrap();
    let hub = serve(home.path()).await;
    let triggers = dir.path.join("triggers");
    symlink(&secret, triggers.join("builder~link.txt")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        triggers.join("builder~pipe.txt"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    fs::create_dir(triggers.join("builder~dir.txt")).unwrap();
    for (name, reason) in [
        ("builder~link", "symbolic link"),
        ("builder~pipe", "pipe"),
        ("builder~dir", "directory"),
    ] {
        let said = dir.rejected(name).await;
        assert!(said.contains(reason), "{name}: {said}");
    }
    assert!(secret.exists(), "what a link leads to is left alone");
    let too_long = "x".repeat(2 * 1024 * 1024);
    for (name, bytes, reason) in [
        ("builder~utf8", b"\xff\xc3".to_vec(), "invalid_message"),
        (
            "builder~half",
            b"\xff\xfe\x00\xd8".to_vec(),
            "invalid_message",
        ),
        ("builder~long", too_long.into_bytes(), "larger"),
        ("builder~empty", Vec::new(), "invalid_message"),
        ("builder~nothing", b" \n\0\n".to_vec(), "invalid_message"),
        (
            "builder~id",
            b"[HM-MESSAGE-ID:\x20]\nx".to_vec(),
            "invalid_message",
        ),
    ] {
        dir.put_bytes(name, &bytes);
        let said = dir.rejected(name).await;
        assert!(said.contains(reason), "{name}: {said}");
    }
    let utf16 = "\u{feff}[HM-MESSAGE-ID:m1]\n(ARCH #1): h\u{e9}llo\0 \u{1b}[2J🦑";
    let utf16: Vec<u8> = utf16.encode_utf16().flat_map(u16::to_le_bytes).collect();
    dir.put_bytes("builder", &utf16);
    assert_eq!(hub.hears("m1").await["text"], "(ARCH #1): héllo [2J🦑");
    let name = format!("builder~{}", "n".repeat(255 - "builder~.txt".len()));
    dir.put(
        &name,
        "[HM-MESSAGE-ID:m2]\n(ARCH #2): a name as long as can be",
    );
    hub.hears("m2").await;
    hub.stop().await;
}

#[tokio::test]
async fn thousands_of_files_are_said_once_each_and_in_order() {
    const FILES: usize = 2000;
    let home = tempfile::tempdir().unwrap();
    let dir = Dir::of(home.path());
    fs::create_dir_all(dir.path.join("triggers")).unwrap();
    for number in 0..FILES {
        dir.put(
            &format!("builder~{number:05}"),
            &format!("(ORACLE #{}): {number}", number + 1),
        );
    }
    let hub = serve(home.path()).await;
    eventually(async || dir.names("triggers").is_empty() && dir.names("triggers/taken").is_empty())
        .await;
    let written = (0..FILES).map(|number| format!("(ORACLE #{}): {number}", number + 1));
    assert!(written.eq(hub.messages().await), "all of them, in order");
    hub.stop().await;
}

#[tokio::test]
async fn where_callers_prove_who_they_are_trigger_files_are_off_unless_asked_for() {
    for (triggers, served) in [(false, false), (true, true)] {
        let home = tempfile::tempdir().unwrap();
        let dir = Dir::of(home.path());
        let hub = serve_as(home.path(), |config| {
            config.auth = AuthMode::Hmac;
            config.squidrun.triggers = triggers;
        })
        .await;
        dir.put("builder", "[HM-MESSAGE-ID:m1]\n(ARCH #1): who knows");
        match served {
            true => drop(hub.hears("m1").await),
            // It is looked at all the same: a removed directory is made again.
            false => {
                fs::remove_dir_all(dir.path.join("runtime")).unwrap();
                eventually(async || dir.path.join("runtime/evidence-ledger.db").exists()).await;
                assert_eq!(dir.names("triggers"), ["builder.txt"]);
            }
        }
        hub.stop().await;
    }
}
