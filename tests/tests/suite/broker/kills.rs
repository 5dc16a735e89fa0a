//! Ten SIGKILLs while everybody talks: by script, on a connection that stays, by trigger file, to one role and to all.
//!
//! What was accepted arrives; what was refused does not; only what was written and not settled when the hub was killed
//! comes again, and says so; and the journal tells the same as the ledger.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use switchboard_tests::{Hub, Project, until};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use super::{dial, frame, next, project};

const KILLS: usize = 10;
/// Messages that are accepted between two kills, at least.
const BETWEEN: usize = 60;
/// So many hubs are killed after something of theirs was settled, the others as soon as may be.
const SETTLING: usize = 3;
const ROLES: [&str; 3] = ["architect", "builder", "oracle"];
const HEADERS: [&str; 3] = ["ARCH", "BUILDER", "ORACLE"];
/// Messages that the connection that stays has under way.
const WINDOW: usize = 8;
/// How fast everybody talks. Decides how much is said, never whether it arrives.
const PACE: Duration = Duration::from_millis(15);
/// No text that is refused is without it.
const FORBIDDEN: &str = "must not arrive";

/// A copy of a message that a role got.
#[derive(Debug)]
struct Came {
    to: &'static str,
    id: String,
    content: String,
    is_marked: bool,
    /// From which hub.
    run: usize,
}

#[derive(Default)]
struct World {
    project: Option<Project>,
    /// How many hubs were killed before the one that runs.
    run: AtomicUsize,
    readers: AtomicUsize,
    /// Nobody begins anything new; nobody reads on.
    is_enough: AtomicBool,
    is_over: AtomicBool,
    /// By id: what was said, and to whom.
    accepted: Mutex<BTreeMap<String, (String, Vec<&'static str>)>>,
    /// By id: the status that its sender was told.
    refused: Mutex<BTreeMap<String, &'static str>>,
    came: Mutex<Vec<Came>>,
}

/// The hub that runs. Whatever happens, nobody goes on for ever after it.
struct Last<'a> {
    world: &'a World,
    hub: Hub,
}

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.world.is_enough.store(true, Ordering::SeqCst);
        self.world.is_over.store(true, Ordering::SeqCst);
        self.hub.kill();
    }
}

/// What the ledger has as handed over: message and role.
type Settled = HashSet<(String, String)>;

#[test]
fn ten_kills_under_load_lose_nothing_and_deliver_nothing_that_was_refused() {
    let world = World {
        project: Some(project()),
        ..World::default()
    };
    let mut settled: Vec<Settled> = Vec::new();
    thread::scope(|scope| {
        let world = &world;
        let hub = world.project().start();
        let mut last = Last { world, hub };
        for role in ROLES {
            scope.spawn(move || read_all(world, role));
        }
        until("every role is there", || {
            (world.readers.load(Ordering::SeqCst) == ROLES.len()).then_some(())
        });
        for at in 0..ROLES.len() {
            scope.spawn(move || speak_by_script(world, at));
        }
        scope.spawn(move || speak_on_one_connection(world));
        scope.spawn(move || speak_by_file(world));
        for kill in 0..KILLS {
            let enough = world.accepted_count() + BETWEEN;
            until("more is accepted", || {
                (world.accepted_count() >= enough).then_some(())
            });
            if kill < SETTLING {
                let before = settled.last().map_or(0, HashSet::len);
                until("something is settled", || {
                    let now = settled_in(&Connection::open(world.project().database()).ok()?)?;
                    (now.len() > before).then_some(())
                });
            }
            last.hub.kill();
            settled.push(left_behind(&world.project().database()));
            world.run.fetch_add(1, Ordering::SeqCst);
            last.hub = world.project().start();
        }
        world.is_enough.store(true, Ordering::SeqCst);
        until("every accepted message has arrived", || {
            world.has_everything().then_some(())
        });
        journal_agrees(world);
    });
    world.check(&settled);
}

impl World {
    fn project(&self) -> &Project {
        self.project.as_ref().expect("it is there from the start")
    }

    fn goes_on(&self) -> bool {
        thread::sleep(PACE);
        !self.is_enough.load(Ordering::SeqCst)
    }

    fn accept(&self, id: &str, content: &str, to: Vec<&'static str>) {
        let mut accepted = self.accepted.lock().expect("nobody panicked");
        accepted.insert(id.to_owned(), (content.to_owned(), to));
    }

    fn accepted_count(&self) -> usize {
        self.accepted.lock().expect("nobody panicked").len()
    }

    fn has_everything(&self) -> bool {
        let came = self.came.lock().expect("nobody panicked");
        let came: HashSet<(&str, &str)> = came.iter().map(|it| (&*it.id, it.to)).collect();
        let accepted = self.accepted.lock().expect("nobody panicked");
        let mut wanted = accepted
            .iter()
            .flat_map(|(id, (_, to))| to.iter().map(move |to| (&**id, *to)));
        wanted.all(|copy| came.contains(&copy))
    }

    fn check(&self, settled: &[Settled]) {
        let accepted = self.accepted.lock().expect("nobody panicked");
        let came = self.came.lock().expect("nobody panicked");
        let mut copies: HashMap<(&str, &str), Vec<&Came>> = HashMap::new();
        for it in came.iter() {
            let (content, to) = accepted
                .get(&it.id)
                .unwrap_or_else(|| panic!("never accepted: {it:?}"));
            assert_eq!(it.content, *content, "{it:?}");
            assert!(to.contains(&it.to), "for others: {it:?}");
            assert!(!it.content.contains(FORBIDDEN), "{it:?}");
            let before = settled.iter().take(it.run);
            let copy = (it.id.clone(), it.to.to_owned());
            assert!(
                before.into_iter().all(|kill| !kill.contains(&copy)),
                "settled, and yet it came again: {it:?}"
            );
            copies.entry((&it.id, it.to)).or_default().push(it);
        }
        for copies in copies.values() {
            let unmarked = copies.iter().skip(1).filter(|it| !it.is_marked);
            assert_eq!(unmarked.count(), 0, "again, and not marked: {copies:?}");
            let runs: BTreeSet<usize> = copies.iter().map(|it| it.run).collect();
            assert_eq!(runs.len(), copies.len(), "twice by one hub: {copies:?}");
        }
        // What was tested has happened.
        assert!(settled.iter().any(|kill| !kill.is_empty()));
        assert!(copies.values().any(|copies| copies.len() > 1));
        assert!(self.refused.lock().expect("nobody panicked").len() > KILLS);
    }
}

/// Everything that a role gets, over however many connections.
fn read_all(world: &World, role: &'static str) {
    let mut is_known = false;
    while !world.is_over.load(Ordering::SeqCst) {
        let run = world.run.load(Ordering::SeqCst);
        let Some(mut ws) = dial(world.project(), role) else {
            thread::sleep(PACE);
            continue;
        };
        if run != world.run.load(Ordering::SeqCst) {
            continue;
        }
        if !is_known {
            world.readers.fetch_add(1, Ordering::SeqCst);
            is_known = true;
        }
        while let Some(frame) = frame(&mut ws) {
            let is_mail = frame["type"] == "message" || frame["type"] == "broadcast";
            if !is_mail || frame["from"] == "hub" {
                continue;
            }
            let text = |name: &str| frame[name].as_str().expect("it is text").to_owned();
            let came = Came {
                to: role,
                id: text("traceId"),
                content: text("content"),
                is_marked: frame["metadata"]["redelivered"] == true,
                run,
            };
            world.came.lock().expect("nobody panicked").push(came);
        }
    }
}

fn sends(id: &str, target: &str, content: &str) -> Value {
    match target {
        "all" => {
            json!({ "type": "broadcast", "content": content, "messageId": id, "ackRequired": true })
        }
        target => {
            json!({ "type": "send", "target": target, "content": content, "messageId": id, "ackRequired": true })
        }
    }
}

/// Who gets what is sent there by a role.
fn recipients(target: &str, from: &str) -> Vec<&'static str> {
    let gets = |role: &&str| *role == target || (target == "all" && *role != from);
    ROLES.into_iter().filter(gets).collect()
}

/// As the send script does: a connection for each message, and the same id again until the hub has decided.
fn decided(world: &World, role: &str, send: &Value) -> Value {
    until("the message is decided on", || {
        let mut ws = dial(world.project(), role)?;
        ws.send(Message::text(send.to_string())).ok()?;
        let ack = next(&mut ws, "send-ack")?;
        // The hub may have been killed between the commit and its last word.
        (ack["status"] != "handler_error").then_some(ack)
    })
}

fn speak_by_script(world: &World, at: usize) {
    let (role, header) = (ROLES[at], HEADERS[at]);
    let targets = [
        ROLES[(at + 1) % 3],
        ROLES[(at + 2) % 3],
        "all",
        "nobody",
        "builder-bg-1",
    ];
    for n in 1.. {
        if !world.goes_on() {
            return;
        }
        let (id, target) = (format!("script-{role}-{n}"), targets[n % targets.len()]);
        let refused = match target {
            "nobody" => Some("invalid_target"),
            // Its owner may.
            "builder-bg-1" if role == "builder" => continue,
            "builder-bg-1" => Some("owner_binding_violation"),
            _ => None,
        };
        let what = refused.map_or("hello", |_| FORBIDDEN);
        let content = format!("({header} #{n}): {id} {what}");
        let ack = decided(world, role, &sends(&id, target, &content));
        let Some(status) = refused else {
            assert_eq!(ack["accepted"], true, "{ack}");
            world.accept(&id, &content, recipients(target, role));
            // Another text under the same id is nobody's.
            let other = format!("({header} #{n}): {id} {FORBIDDEN}");
            let ack = decided(world, role, &sends(&id, target, &other));
            assert_eq!(ack["status"], "invalid_message", "{ack}");
            continue;
        };
        assert_eq!(
            (&ack["status"], &ack["accepted"]),
            (&json!(status), &json!(false))
        );
        let mut all = world.refused.lock().expect("nobody panicked");
        all.insert(id, status);
    }
}

/// Several under way at a time; what was not answered is sent again on the next connection.
fn speak_on_one_connection(world: &World) {
    let mut under_way: BTreeMap<String, (String, &str)> = BTreeMap::new();
    let mut ws: Option<WebSocket<TcpStream>> = None;
    let mut n = 0;
    while world.goes_on() || !under_way.is_empty() {
        let Some(mut on) = ws.take().or_else(|| dial(world.project(), "runner")) else {
            continue;
        };
        while under_way.len() < WINDOW && !world.is_enough.load(Ordering::SeqCst) {
            n += 1;
            let id = format!("runner-{n}");
            let target = ["architect", "builder", "oracle", "all"][n % 4];
            under_way.insert(id.clone(), (format!("(RUNNER #{n}): {id}"), target));
        }
        ws = speak(world, &mut on, &mut under_way).map(|()| on);
    }
}

/// Sends all that is under way, and hears what became of it; nothing, if the connection ended.
fn speak(
    world: &World,
    ws: &mut WebSocket<TcpStream>,
    under_way: &mut BTreeMap<String, (String, &str)>,
) -> Option<()> {
    for (id, (content, target)) in under_way.iter() {
        let frame = sends(id, target, content).to_string();
        ws.write(Message::text(frame)).ok()?;
    }
    ws.flush().ok()?;
    for _ in 0..under_way.len() {
        let ack = next(ws, "send-ack")?;
        if ack["accepted"] == true {
            let id = ack["messageId"].as_str().expect("it has one");
            let (content, target) = under_way.remove(id).expect("it was under way");
            world.accept(id, &content, recipients(target, "runner"));
        }
    }
    Some(())
}

/// By file, every other one by a frame as well.
fn speak_by_file(world: &World) {
    let triggers = world.project().root().join(".squidrun/triggers");
    for n in 1.. {
        if !world.goes_on() {
            break;
        }
        let id = format!("file-{n}");
        let (name, role) = [("architect", "oracle"), ("2", "architect"), ("all", "cli")][n % 3];
        let content = match role {
            "oracle" => format!("(ORACLE #{n}): {id}"),
            "architect" => format!("(ARCH #{n}): {id}"),
            _ => id.clone(),
        };
        put(&triggers, &format!("{name}~{id}"), &id, &content);
        let target = if name == "2" { "builder" } else { name };
        world.accept(&id, &content, recipients(target, role));
        if n % 2 == 0 && role != "cli" {
            let ack = decided(world, role, &sends(&id, target, &content));
            assert_eq!(ack["accepted"], true, "{ack}");
        }
        let refused = format!("refused-{n}");
        put(
            &triggers,
            &format!("builder-bg-1~{refused}"),
            &refused,
            FORBIDDEN,
        );
    }
    until("every file is taken or rejected", || {
        let left = fs::read_dir(&triggers).expect("it is there");
        let mut names = left.map(|entry| entry.expect("it has a name").file_name());
        names
            .all(|name| !name.to_string_lossy().ends_with(".txt"))
            .then_some(())
    });
}

fn put(triggers: &Path, name: &str, id: &str, content: &str) {
    let half = triggers.join(format!(".{id}"));
    let text = format!("[HM-MESSAGE-ID:{id}]\n{content}\n");
    fs::write(&half, text).expect("a trigger file can be written");
    fs::rename(half, triggers.join(format!("{name}.txt"))).expect("and put in its place");
}

/// What the hub that was just killed had settled. A copy is read, so that the next hub finds its files as they were left.
fn left_behind(database: &Path) -> Settled {
    let copy = tempfile::TempDir::new().expect("a temporary directory");
    let file = copy.path().join("ledger.db");
    for end in ["", "-wal"] {
        let from = format!("{}{end}", database.display());
        let to = format!("{}{end}", file.display());
        if Path::new(&from).exists() {
            fs::copy(from, to).expect("it can be copied");
        }
    }
    let ledger = Connection::open(file).expect("the copy can be read");
    settled_in(&ledger).expect("it is a ledger")
}

fn settled_in(ledger: &Connection) -> Option<Settled> {
    let handed = "SELECT message, agent FROM sb_delivery WHERE state = 'delivered'";
    let mut handed = ledger.prepare(handed).ok()?;
    let rows = handed.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.ok()?.collect::<Result<Settled, _>>().ok()
}

/// Sender, text and status by id.
type Rows = BTreeMap<String, (String, String, String)>;

/// Each message has its row, with the status that its deliveries have; what was refused has one that says so.
fn journal_agrees(world: &World) {
    let journal = world
        .project()
        .root()
        .join(".squidrun/runtime/evidence-ledger.db");
    let journal = Connection::open(journal).expect("the journal can be read");
    let ledger = Connection::open(world.project().database()).expect("the ledger can be read");
    let rows = |from: &Connection, query: &str| -> Option<Rows> {
        let mut query = from.prepare(query).ok()?;
        let rows = query.query_map([], |row| {
            Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?)))
        });
        rows.ok()?.collect::<Result<_, _>>().ok()
    };
    let said = || {
        rows(
            &ledger,
            "SELECT id, from_agent, json_extract(payload, '$.text'),
                    CASE WHEN EXISTS (SELECT 1 FROM sb_delivery WHERE message = id AND state = 'delivered')
                         THEN 'routed' ELSE 'brokered' END
             FROM messages WHERE copy_of IS NULL AND from_agent NOT IN ('hub', 'switchboard')",
        )
    };
    let written = || {
        rows(
            &journal,
            "SELECT message_id, sender_role, raw_body, status FROM comms_journal
             WHERE status <> 'failed' AND sender_role <> 'hub'",
        )
    };
    let said = until("all that was said is settled, and in the journal", || {
        let (said, written) = (said()?, written()?);
        let is_settled = said.values().all(|(_, _, status)| status == "routed");
        (is_settled && said == written).then_some(said)
    });
    let accepted = world.accepted.lock().expect("nobody panicked");
    for (id, (content, _)) in accepted.iter() {
        assert_eq!(said[id].1, *content, "{id}");
    }
    assert_eq!(said.len(), accepted.len());
    let refused = rows(
        &journal,
        "SELECT message_id, sender_role, ack_status, error_code FROM comms_journal WHERE status = 'failed'",
    );
    let refused = refused.expect("they can be read");
    for (id, status) in world.refused.lock().expect("nobody panicked").iter() {
        let (_, ack, error) = refused.get(id).unwrap_or_else(|| panic!("{id} has no row"));
        assert_eq!((&**ack, &**error), (*status, *status), "{id}");
    }
}
