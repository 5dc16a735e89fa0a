//! `.jetpack/swarm.db`: programs of that world open the hub's ledger there, and their old file comes along.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rusqlite::Connection;
use serde_json::json;
use switchboard_tests::{API, Client, PATIENCE, Project, Signal, switchboard, until};

#[test]
fn the_command_line_tool_sees_the_hubs_tasks_through_the_link() {
    let project = Project::new();
    let hub = project.start();
    hub.client().create("seen");
    let output = Command::new("sqlite3")
        .arg(swarm_db(&project))
        .arg("SELECT id, status FROM tasks; CREATE TABLE IF NOT EXISTS theirs(x); INSERT INTO theirs VALUES (1);")
        .output()
        .expect("the sqlite3 command-line tool is there");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "seen|ready\n",
        "{output:?}"
    );
    // One log, beside the real file; a second one would be a second database.
    assert!(beside(&project.database(), "-wal").exists());
    assert!(!beside(&swarm_db(&project), "-wal").exists());
    assert_eq!(links(&project), ["swarm.db"]);
    hub.stop();
}

#[test]
fn an_old_file_is_imported_with_one_line_and_its_tasks_can_be_claimed() {
    let project = Project::new();
    old_file(&project, "WAL");
    let hub = project.start();
    let said = hub.stderr();
    assert!(said.contains("imported 1 agent, 3 tasks"), "{said}");
    assert!(
        said.contains("kept as .jetpack/swarm.db.before-switchboard"),
        "{said}"
    );
    let mut client = hub.client();
    is_imported(&mut client);
    // What waited for the imported task is let go by it.
    client.register("new");
    let claimed = client.claim("new").expect("a task waits");
    assert_eq!(claimed["id"], "first");
    client.complete("new", "first", 1);
    assert_eq!(client.task("second")["status"], "ready");
    hub.stop();

    let hub = project.start();
    assert!(!hub.stderr().contains("imported"), "{}", hub.stderr());
    assert_eq!(hub.client().status()["tasks"]["total"], 3);
    assert_eq!(links(&project), ["swarm.db", "swarm.db.before-switchboard"]);
    hub.stop();
}

#[test]
fn a_start_is_refused_while_another_process_has_the_old_file_open() {
    for mode in ["WAL", "DELETE"] {
        for holder in [Holder::command_line, Holder::python] {
            let project = Project::new();
            let file = swarm_db(&project);
            old_file(&project, mode);
            let holder = holder(&file);
            let before = fs::read(&file).expect("it is there");
            let ended = project.start_in_vain();
            assert_eq!(ended.status.code(), Some(1), "{mode}: {ended:?}");
            let pid = format!("process {}", holder.child.id());
            for word in [&pid, "swarm.db is open", "start the hub again"] {
                assert!(
                    ended.stderr.contains(word),
                    "{mode}: no {word:?} in {}",
                    ended.stderr
                );
            }
            assert_eq!(
                fs::read(&file).expect("it is still there"),
                before,
                "{mode}"
            );
            assert!(!project.database().exists(), "{mode}");
            holder.end();
            let hub = project.start();
            is_imported(&mut hub.client());
            hub.stop();
        }
    }
}

#[test]
fn what_is_no_database_stops_the_start_and_is_left_as_it_is() {
    let project = Project::new();
    let file = swarm_db(&project);
    fs::create_dir_all(file.parent().expect("it has a folder")).expect("it can be made");
    fs::write(&file, "once upon a time there was a database").expect("it can be written");
    let ended = project.start_in_vain();
    assert!(
        ended.stderr.contains("not an intact database"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("swarm_db = false"),
        "{}",
        ended.stderr
    );
    // The setting that the sentence names does what it says.
    let project = project.with_variable("SWITCHBOARD_STORE_SWARM_DB", "false");
    project.start().stop();
    let text = fs::read_to_string(&file).expect("it is still there");
    assert_eq!(text, "once upon a time there was a database");
}

#[test]
fn killed_while_it_imports_the_next_start_finishes_without_doubling_anything() {
    let project = Project::new();
    old_file(&project, "WAL");
    let db = Connection::open(swarm_db(&project)).expect("it can be opened");
    db.execute_batch(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)
         INSERT INTO tasks(id, title) SELECT 'bulk-' || x, 'T' FROM n",
    )
    .expect("rows can be put in");
    drop(db);
    // Each kill comes when something new can be seen from outside.
    let kept = swarm_db(&project).with_file_name("swarm.db.before-switchboard");
    project.start_and_kill(|| wait_for(|| project.database().exists()));
    project.start_and_kill(|| wait_for(|| beside(&project.database(), "-wal").exists()));
    project.start_and_kill(|| wait_for(|| kept.exists()));
    let hub = project.start();
    let mut client = hub.client();
    until("everything is adopted", || {
        (client.status()["tasks"]["total"] == 20_003).then_some(())
    });
    is_imported(&mut client);
    hub.stop();
    assert_eq!(links(&project), ["swarm.db", "swarm.db.before-switchboard"]);
    let db = Connection::open(project.database()).expect("it can be opened");
    let count: i64 = db
        .query_row("SELECT count(*) FROM tasks", [], |row| row.get(0))
        .expect("tasks can be counted");
    assert_eq!(count, 20_003);
}

#[test]
fn a_folder_that_cannot_be_written_is_warned_about_and_the_hub_serves() {
    let project = Project::new();
    let folder = project.root().join(".jetpack");
    fs::create_dir(&folder).expect("it can be made");
    let project = if rustix::process::geteuid().is_root() {
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
        project.through(wrapper.into_iter().chain([folder.clone().into_os_string()]))
    } else {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).expect("it is ours");
        project
    };
    let hub = project.start();
    hub.client().create("t");
    let said = hub.stderr();
    assert!(
        said.contains("[store] path = \".jetpack/swarm.db\""),
        "{said}"
    );
    hub.stop();
}

#[test]
fn the_file_itself_lies_there_if_the_settings_say_so() {
    let project = Project::new();
    old_file(&project, "DELETE");
    let project = project.with_variable("SWITCHBOARD_STORE_PATH", ".jetpack/swarm.db");
    let hub = project.start();
    is_imported(&mut hub.client());
    hub.stop();
    let found = fs::symlink_metadata(swarm_db(&project)).expect("it is there");
    assert!(found.is_file());
    let hub = project.start();
    is_imported(&mut hub.client());
    hub.stop();
}

#[test]
fn doctor_says_whether_the_link_leads_to_the_ledger() {
    let project = Project::new();
    let hub = project.start();
    let doctor = || {
        let output = Command::new(switchboard())
            .args(["doctor", "--json"])
            .current_dir(project.root())
            .output()
            .expect("the binary runs");
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("it prints JSON");
        let checks = report["checks"].as_array().expect("a list").clone();
        let check = checks.into_iter().find(|check| check["name"] == "swarm.db");
        check.expect("it is looked at")["state"].clone()
    };
    assert_eq!(doctor(), "ok");
    fs::remove_file(swarm_db(&project)).expect("it can be removed");
    fs::write(swarm_db(&project), "").expect("it can be written");
    assert_eq!(doctor(), "warn");
    hub.signal(Signal::TERM);
    hub.wait();
}

fn swarm_db(project: &Project) -> PathBuf {
    project.root().join(".jetpack/swarm.db")
}

/// The file that SQLite keeps beside a database.
fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// What lies in the folder, without what other doors keep there.
fn links(project: &Project) -> Vec<String> {
    let folder = fs::read_dir(project.root().join(".jetpack")).expect("there is a folder");
    let mut names: Vec<String> = folder
        .map(|found| {
            found
                .expect("it can be read")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.starts_with("swarm.db"))
        .collect();
    names.sort();
    names
}

/// Made by another program, by the tables of the notes.
fn old_file(project: &Project, mode: &str) {
    let file = swarm_db(project);
    fs::create_dir_all(file.parent().expect("it has a folder")).expect("it can be made");
    let script = format!(
        "import sqlite3
db = sqlite3.connect('.jetpack/swarm.db')
db.execute('PRAGMA journal_mode = {mode}')
db.executescript('''
CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, description TEXT, status TEXT DEFAULT 'pending',
  priority TEXT DEFAULT 'medium', type TEXT DEFAULT 'code', assigned_agent TEXT, dependencies TEXT DEFAULT '[]',
  required_skills TEXT DEFAULT '[]', result TEXT, completed_at TEXT, retry_count INTEGER DEFAULT 0,
  created_at TEXT DEFAULT (datetime('now')), updated_at TEXT DEFAULT (datetime('now')));
CREATE TABLE agents (id TEXT PRIMARY KEY, name TEXT, type TEXT, status TEXT, skills TEXT, tasks_completed INTEGER,
  last_heartbeat TEXT, registered_at TEXT DEFAULT (datetime('now')));
INSERT INTO agents VALUES ('gone', 'Gone', 'codex', 'busy', '[]', 4, '2026-01-01T00:00:00.000Z', '2026-01-01 00:00:00');
INSERT INTO tasks(id, title, status, assigned_agent) VALUES ('first', 'First', 'in_progress', 'gone');
INSERT INTO tasks(id, title, status, dependencies) VALUES ('second', 'Second', 'blocked', '[\"first\"]');
INSERT INTO tasks(id, title, status, assigned_agent, result, completed_at, created_at, retry_count)
  VALUES ('done', 'Done', 'completed', 'gone', '{{\"x\":1}}', '2026-01-02T00:00:00Z', '2026-01-01 00:00:00', 1);
''')
db.commit()
db.close()"
    );
    let made = Command::new("python3")
        .args(["-c", &script])
        .current_dir(project.root())
        .output()
        .expect("Python is there");
    assert!(made.status.success(), "{made:?}");
}

#[track_caller]
fn is_imported(client: &mut Client) {
    until("the imported rows are adopted", || {
        let found = client.get(&format!("{API}/tasks/done"));
        (found.status == 200).then_some(())
    });
    assert_eq!(client.task("first")["status"], "ready");
    assert_eq!(client.task("second")["status"], "blocked");
    let done = client.task("done");
    assert_eq!(done["status"], "completed");
    assert_eq!(done["assignedAgent"], "gone");
    assert_eq!(done["createdAt"], "2026-01-01T00:00:00.000Z");
    assert_eq!(done["completedAt"], "2026-01-02T00:00:00.000Z");
    assert_eq!(done["result"], json!({"x": 1}));
    assert_eq!(done["retryCount"], 1);
    let agent = client.get(&format!("{API}/agents/gone")).expect(200);
    assert_eq!(agent["agent"]["status"], json!("offline"), "{agent}");
}

fn wait_for(seen: impl Fn() -> bool) {
    until("a start gets so far", || seen().then_some(()));
}

/// Another process that has a file open and does nothing.
struct Holder {
    child: Child,
    input: ChildStdin,
}

impl Holder {
    fn command_line(file: &Path) -> Holder {
        let mut command = Command::new("sqlite3");
        command.arg(file);
        Holder::start(command, "SELECT 'it is open' FROM tasks LIMIT 1;\n")
    }

    fn python(file: &Path) -> Holder {
        let mut command = Command::new("python3");
        let script = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute('SELECT count(*) FROM tasks').fetchall()
print('it is open', flush=True)
sys.stdin.read()";
        command.args(["-c", script]).arg(file);
        Holder::start(command, "")
    }

    fn start(mut command: Command, says: &str) -> Holder {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(says.as_bytes()).expect("it reads");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        output.read_line(&mut line).expect("it answers");
        assert_eq!(line, "it is open\n");
        Holder { child, input }
    }

    fn end(mut self) {
        drop(self.input);
        let ended = self.child.wait().expect("a child can be waited for");
        assert!(ended.success(), "within {PATIENCE:?}");
    }
}
