//! The disk, the file and the neighbours misbehave: clear words, nothing acknowledged lost, and back to work.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::process::Command;

use rusqlite::Connection;
use serde_json::json;
use switchboard_tests::faults::{Disk, Fault};
use switchboard_tests::{API, Answer, Client, Ended, Hub, Project, Request, until};

#[test]
fn a_full_disk_is_unavailability_and_work_goes_on_when_there_is_space_again() {
    let (project, disk) = Disk::project();
    let mut hub = project.start();
    let mut client = hub.client();
    client.create("before");
    disk.begin(Fault::DiskFull);
    let refused = client
        .send(&new_task("during").key("k"))
        .expect("it is answered");
    is_unavailable(&refused, "full");
    // What is there can still be read.
    assert_eq!(client.task("before")["status"], "ready");
    assert!(hub.runs());
    disk.end(Fault::DiskFull);
    comes_back(&hub, &project, &mut client);
    hub.stop();
}

#[test]
fn a_limit_on_the_size_of_files_is_unavailability_and_work_goes_on_when_it_is_lifted() {
    let project = Project::new();
    let mut hub = project.start();
    let mut client = hub.client();
    client.create("before");
    hub.limit_file_size(Some(4096));
    let refused = client
        .send(&new_task("during").key("k"))
        .expect("it is answered");
    is_unavailable(&refused, "");
    assert_eq!(client.task("before")["status"], "ready");
    assert!(hub.runs());
    hub.limit_file_size(None);
    comes_back(&hub, &project, &mut client);
    hub.stop();
}

#[test]
fn a_change_that_cannot_be_made_durable_ends_the_hub_and_is_not_acknowledged() {
    let (project, disk) = Disk::project();
    let hub = project.start();
    let mut client = hub.client();
    client.create("before");
    disk.begin(Fault::SyncFails);
    let answer = client.send(&new_task("during").key("k"));
    assert!(answer.is_err(), "it was answered: {answer:?}");
    let ended = hub.wait();
    says(&ended, &["could not be synced to disk", "restart it"]);
    disk.end(Fault::SyncFails);

    let hub = project.start();
    let mut client = hub.client();
    client.task("before");
    // Whether it happened or not: with its key it happens once.
    client
        .send(&new_task("during").key("k"))
        .expect("it is answered")
        .expect(201);
    client.create("after");
    assert_eq!(client.status()["tasks"]["total"], 3);
    hub.stop();
}

#[test]
fn a_checkpoint_that_cannot_be_made_durable_ends_the_hub_and_nothing_is_lost() {
    let (project, disk) = Disk::project();
    let hub = project.start();
    let mut client = hub.client();
    disk.begin(Fault::CheckpointFails);
    let mut acknowledged = 0;
    // The log is moved every now and then; until that fails, everything is durable in the log.
    until("a checkpoint fails", || {
        let answer = client.send(&new_task(&format!("t-{acknowledged}")));
        acknowledged += u64::from(answer.as_ref().is_ok_and(|answer| answer.status == 201));
        answer.is_err().then_some(())
    });
    says(&hub.wait(), &["could not be synced to disk", "restart it"]);
    disk.end(Fault::CheckpointFails);
    let hub = project.start();
    let total = hub.client().status()["tasks"]["total"].as_u64();
    // The last one may have been written without being acknowledged.
    assert!(
        total == Some(acknowledged) || total == Some(acknowledged + 1),
        "{total:?} of {acknowledged}"
    );
    hub.stop();
}

#[test]
fn a_hub_does_not_start_on_a_full_disk_and_says_so() {
    let (project, disk) = Disk::project();
    project.start().stop();
    disk.begin(Fault::DiskFull);
    says(
        &project.start_in_vain(),
        &["No space left", &project.data_dir().display().to_string()],
    );
    disk.end(Fault::DiskFull);
    project.start().stop();
}

#[test]
fn a_database_that_somebody_else_has_locked_is_unavailability_until_it_is_free() {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    client.create("before");
    let foreign = Connection::open(project.database()).expect("the file can be opened");
    for lock in ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"] {
        foreign.execute_batch(lock).expect("nobody else writes");
        let refused = client
            .send(&new_task("during").key("k"))
            .expect("it is answered");
        is_unavailable(&refused, "lock");
        assert_eq!(client.task("before")["status"], "ready");
        foreign.execute_batch("ROLLBACK").expect("it was begun");
    }
    comes_back(&hub, &project, &mut client);
    hub.stop();
}

#[test]
fn a_hub_does_not_start_on_a_locked_database_and_says_so() {
    let project = stopped_with_tasks(1);
    let foreign = Connection::open(project.database()).expect("the file can be opened");
    foreign
        .execute_batch("BEGIN EXCLUSIVE")
        .expect("nobody else writes");
    says(&project.start_in_vain(), &["locked", "another program"]);
    foreign.execute_batch("ROLLBACK").expect("it was begun");
    assert_eq!(project.start().client().status()["tasks"]["total"], 1);
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named() {
    let project = Project::new();
    let file = project.root().join("file");
    fs::write(&file, "not a directory").expect("a file can be written");
    let below = file.join("data");
    let ended = project.in_data_dir(&below).start_in_vain();
    says(
        &ended,
        &[
            "cannot use the data directory",
            &below.display().to_string(),
        ],
    );
}

#[test]
fn a_data_directory_that_cannot_be_written_is_named() {
    let project = stopped_with_tasks(1);
    let dir = project.data_dir().to_owned();
    let project = if is_root() {
        // Permissions do not stop root, a read-only mount does, where the system lets us make one.
        let mount = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
        let wrapper = ["unshare", "-m", "sh", "-c", mount].map(Into::into);
        if !Command::new("unshare")
            .args(["-m", "true"])
            .status()
            .is_ok_and(|status| status.success())
        {
            println!("not tried: this system lets root make no mounts");
            return;
        }
        project.through(wrapper.into_iter().chain([dir.clone().into_os_string()]))
    } else {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o500)).expect("it is ours");
        project
    };
    let ended = project.start_in_vain();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("it is ours");
    says(&ended, &[&dir.display().to_string()]);
}

#[test]
fn a_database_of_a_newer_version_is_refused_and_left_as_it_is() {
    let project = stopped_with_tasks(1);
    let db = Connection::open(project.database()).expect("the file can be opened");
    let newer =
        "INSERT INTO sb_migration(version, name, checksum) VALUES (4711, 'of tomorrow', '')";
    db.execute(newer, []).expect("the schema can be marked");
    says(
        &project.start_in_vain(),
        &["schema version 4711", "newer build"],
    );
    db.execute("DELETE FROM sb_migration WHERE version = 4711", [])
        .expect("the mark can go");
    assert_eq!(project.start().client().status()["tasks"]["total"], 1);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let project = stopped_with_tasks(1);
    let mut garbage = fs::read(project.database()).expect("there is a file");
    garbage[..100].fill(b'x');
    fs::write(project.database(), &garbage).expect("it can be written");
    says(&project.start_in_vain(), &["damaged", "backup"]);
    assert!(
        fs::read(project.database()).expect("it is still there") == garbage,
        "it was changed"
    );
}

#[test]
fn a_damaged_page_is_noticed_and_no_row_is_left_out_in_silence() {
    const TASKS: usize = 2000;
    let project = stopped_with_tasks(TASKS);
    let page = a_page_of(&project, "tasks");
    let hub = project.start();
    damage(&project, page);
    let mut client = hub.client();
    let (listed, failed) = list_all(&mut client);
    let failed =
        failed.unwrap_or_else(|| panic!("{listed} of {TASKS} tasks, and no word about the others"));
    is_unavailable(&failed, "damaged");
    // Damage that anyone has seen is the end, without another word from whoever asks.
    let ended = hub.wait();
    assert!(!ended.status.success());
    says(&ended, &["the ledger is damaged", "doctor", "backup"]);
    // Nor is it served again.
    says(
        &project.start_in_vain(),
        &["the ledger is damaged", "doctor", "backup"],
    );
}

#[test]
fn a_second_hub_on_the_same_directory_is_refused_and_told_who_holds_it() {
    let project = Project::new();
    let hub = project.start();
    let ended = project.start_in_vain();
    says(&ended, &[&format!("process {}", hub.pid()), "--data-dir"]);
    hub.client().create("served-by-the-first");
    hub.stop();
    project.start().stop();
}

#[test]
fn a_taken_port_is_reported_with_its_owner_and_the_flag_to_use() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let addr = taken.local_addr().expect("it has an address");
    let ended = Project::new().at(addr).start_in_vain();
    let owner = format!("process {}", std::process::id());
    says(
        &ended,
        &[&addr.to_string(), "already in use", &owner, "--http"],
    );
}

fn new_task(id: &str) -> Request {
    Request::post(format!("{API}/tasks"), &json!({"id": id, "title": id}))
}

#[track_caller]
fn is_unavailable(answer: &Answer, why: &str) {
    answer.expect_error(503, "db_unavailable");
    assert!(answer.header("Retry-After").is_some(), "{answer:?}");
    assert!(answer.text().contains(why), "{}", answer.text());
}

/// The same call succeeds now, happens once, and everything acknowledged is there after another start.
#[track_caller]
fn comes_back(hub: &Hub, project: &Project, client: &mut Client) {
    let created = until("the hub can write again", || {
        let answer = client
            .send(&new_task("during").key("k"))
            .expect("it is answered");
        (answer.status != 503).then_some(answer)
    });
    created.expect(201);
    client.create("after");
    assert_eq!(client.status()["tasks"]["total"], 3, "{}", hub.stderr());
    let db = Connection::open(project.database()).expect("the file can be opened");
    let count: i64 = db
        .query_row(
            "SELECT count(*) FROM tasks WHERE id IN ('before', 'during', 'after')",
            [],
            |row| row.get(0),
        )
        .expect("tasks can be counted");
    assert_eq!(count, 3);
}

#[track_caller]
fn says(ended: &Ended, words: &[&str]) {
    assert!(!ended.status.success(), "{ended:?}");
    for word in words {
        assert!(
            ended.stderr.contains(word),
            "no {word:?} in:\n{}",
            ended.stderr
        );
    }
}

/// A project with a ledger in it, all in one file, and no hub.
fn stopped_with_tasks(count: usize) -> Project {
    let project = Project::new();
    let hub = project.start();
    let mut client = hub.client();
    for from in (0..count).step_by(1000) {
        let tasks: Vec<_> = (from..count.min(from + 1000))
            .map(|n| json!({"id": format!("t-{n}"), "title": "x".repeat(100)}))
            .collect();
        client
            .post(&format!("{API}/tasks"), &json!({"tasks": tasks}))
            .expect(201);
    }
    hub.stop();
    let db = Connection::open(project.database()).expect("the file can be opened");
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .expect("the log can be moved");
    project
}

/// Where a page of a table lies in the file, and its size.
fn a_page_of(project: &Project, table: &str) -> (u64, u64) {
    let db = Connection::open(project.database()).expect("the file can be opened");
    let leaves = "SELECT pageno FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' ORDER BY path";
    let pages: Vec<u64> = db
        .prepare(leaves)
        .and_then(|mut found| {
            found
                .query_map([table], |row| row.get::<_, i64>(0))?
                .map(|page| page.map(i64::unsigned_abs))
                .collect()
        })
        .expect("a table has pages");
    let size: i64 = db
        .query_row("PRAGMA page_size", [], |row| row.get(0))
        .expect("pages have a size");
    let size = size.unsigned_abs();
    ((pages[pages.len() / 2] - 1) * size, size)
}

fn damage(project: &Project, (from, bytes): (u64, u64)) {
    let file = fs::OpenOptions::new()
        .write(true)
        .open(project.database())
        .expect("it can be written");
    file.write_all_at(&vec![0xa5; bytes as usize], from)
        .expect("it can be written");
}

/// How many tasks the pages show until the end, or until one fails.
fn list_all(client: &mut Client) -> (usize, Option<Answer>) {
    let mut listed = 0;
    let mut after = String::new();
    loop {
        let answer = client.get(&format!("{API}/tasks?limit=100&order=old{after}"));
        if answer.status != 200 {
            return (listed, Some(answer));
        }
        let page = answer.json();
        listed += page["tasks"].as_array().map_or(0, Vec::len);
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (listed, None),
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
