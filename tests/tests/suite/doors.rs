//! One swarm through every door: agents over HTTP, by SQL and by files work on one pool, and nobody is in another's way.

mod by_files;
mod by_http;
mod by_sql;
mod check;
mod python;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use switchboard_tests::{API, Client, Hub, PATIENCE, Project, Random};

use self::by_sql::Sql;
use crate::crash::world::{EndsWith, World};
use crate::scenarios::sql::page::Page;

const SEED: &str = "SWITCHBOARD_DOORS_SEED";
const TASKS: usize = 5_000;
/// So many of them are put into the table by SQL while a hub serves, and so many while none does.
const BY_SQL: usize = 500;
const WHILE_DOWN: usize = 500;
/// Completions that must come while no hub serves.
const GOES_ON: i64 = 100;
const BY_HTTP_AGENTS: usize = 3;
const BY_SQL_AGENTS: usize = 3;
const BY_FILE_AGENTS: usize = 2;

/// What all agents share.
struct Pool {
    world: World,
    root: PathBuf,
    database: PathBuf,
    page: Page,
    /// Everything is done.
    is_done: AtomicBool,
}

/// A task under the epoch of its claim.
type Claim = (String, u64);

/// What one agent was told.
#[derive(Debug, Default)]
struct Record {
    agent: String,
    /// Tasks that it was handed, in order.
    handed: Vec<Claim>,
    /// Those whose completion was acknowledged.
    completed: Vec<Claim>,
}

/// How long an agent rests that found nothing. Only paces it.
const REST: Duration = Duration::from_millis(5);

#[test]
fn agents_of_every_door_share_one_pool_while_the_hub_is_killed_and_each_task_is_done_once() {
    let seed = Random::seed_from(SEED);
    println!("{SEED}={seed}");
    let mut random = Random::seeded(seed);
    let project = Project::new();
    let hub = project.start();
    let pool = Pool {
        world: World::of(1),
        root: project.root().to_owned(),
        database: project.database(),
        page: Page::read(),
        is_done: AtomicBool::new(false),
    };
    let needs = fill(&pool, &mut hub.client(), &mut random);
    pool.world.hub_serves(0, hub.addr());
    let (hub, records) = thread::scope(|scope| {
        let workers = set_to_work(scope, &pool, &mut random);
        let _end = Ends(&pool);
        let third = i64::try_from(TASKS / 3).expect("not that many");
        let hub = without_a_hub(&project, hub, &pool, third, |sql| {
            let late = (TASKS - WHILE_DOWN..TASKS).map(|at| (task(at), json!([])));
            sql.create(late.collect());
        });
        let hub = without_a_hub(&project, hub, &pool, 2 * third, |_| {});
        pool.reaches("everything is completed", TASKS as i64);
        pool.is_done.store(true, Ordering::Relaxed);
        let records: Vec<Record> = workers.into_iter().map(join).collect();
        (hub, records)
    });
    check::everything_was_done_once(&project, hub, &records, &needs);
}

/// Ends everything also when somebody fails, so that the others do not work in vain.
struct Ends<'a>(&'a Pool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.is_done.store(true, Ordering::Relaxed);
        drop(EndsWith(&self.0.world));
    }
}

fn join(worker: Worker<'_>) -> Record {
    worker
        .join()
        .unwrap_or_else(|failed| std::panic::resume_unwind(failed))
}

type Worker<'scope> = thread::ScopedJoinHandle<'scope, Record>;

fn set_to_work<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    pool: &'scope Pool,
    random: &mut Random,
) -> Vec<Worker<'scope>> {
    let mut workers = Vec::new();
    for at in 0..BY_HTTP_AGENTS {
        let random = random.fork();
        workers.push(scope.spawn(move || by_http::work(pool, &format!("http-{at}"), random)));
    }
    for at in 0..BY_SQL_AGENTS {
        workers.push(scope.spawn(move || by_sql::work(pool, &format!("sql-{at}"))));
    }
    for at in 0..BY_FILE_AGENTS {
        workers.push(scope.spawn(move || by_files::work(pool, &format!("files-{at}"))));
    }
    if python::is_here("a Python agent in the mixed swarm") {
        workers.push(scope.spawn(move || python::work(pool, "python")));
    }
    workers
}

/// Kills the hub once so many tasks are completed; agents of SQL go on, and then a hub comes back.
fn without_a_hub(
    project: &Project,
    mut hub: Hub,
    pool: &Pool,
    completed: i64,
    meanwhile: impl FnOnce(&Sql<'_>),
) -> Hub {
    pool.reaches("tasks are completed", completed);
    pool.world.hub_ends(0);
    hub.kill();
    meanwhile(&Sql::open(pool));
    let before = pool.completed();
    pool.reaches("agents of SQL go on without a hub", before + GOES_ON);
    let hub = project.start();
    pool.world.hub_serves(0, hub.addr());
    hub
}

impl Pool {
    fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    fn rows(&self) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let db = Connection::open_with_flags(&self.database, flags);
        let db = db.expect("the file can be read");
        db.busy_timeout(PATIENCE).expect("it can be set");
        db
    }

    fn completed(&self) -> i64 {
        let sql = "SELECT count(*) FROM tasks WHERE status = 'completed'";
        let counted = self.rows().query_row(sql, [], |row| row.get(0));
        counted.expect("tasks can be counted")
    }

    /// Looks from time to time, so as not to be in anybody's way.
    fn reaches(&self, what: &str, completed: i64) {
        const EVERY: Duration = Duration::from_millis(20);
        const SEVERAL: u32 = 4;
        let deadline = Instant::now() + PATIENCE * SEVERAL;
        while self.completed() < completed {
            assert!(!self.is_done(), "an agent gave up before {what}");
            assert!(
                Instant::now() < deadline,
                "waited in vain until {what}: {} of {completed}",
                self.completed()
            );
            thread::sleep(EVERY);
        }
    }
}

fn task(at: usize) -> String {
    format!("t-{at:04}")
}

/// What each task depends on.
type Needs = BTreeMap<String, Vec<String>>;

/// All but those that come later; every fourth depends on two others.
fn fill(pool: &Pool, client: &mut Client, random: &mut Random) -> Needs {
    const PAGE: usize = 250;
    let mut needs = Needs::new();
    let last = TASKS - WHILE_DOWN;
    let all: Vec<(String, Value)> = (0..last)
        .map(|at| {
            let on: Vec<String> = match at {
                20.. if at % 4 == 3 => vec![task(at - 1), task(at - 20)],
                _ => Vec::new(),
            };
            needs.insert(task(at), on.clone());
            (task(at), json!(on))
        })
        .collect();
    let (by_http, by_sql) = all.split_at(last - BY_SQL);
    for page in by_http.chunks(PAGE) {
        let tasks: Vec<Value> = page
            .iter()
            .map(|(id, on)| {
                let priority = *random.choose(&["low", "medium", "high", "critical"]);
                json!({"id": id, "title": id, "priority": priority, "dependencies": on})
            })
            .collect();
        let made = client.post(&format!("{API}/tasks"), &json!({"tasks": tasks}));
        made.expect(201);
    }
    Sql::open(pool).create(by_sql.to_vec());
    needs
}

fn directory(root: &Path, name: &str) -> PathBuf {
    root.join(".jetpack/protocol").join(name)
}

/// The result that every completion brings.
fn result() -> Value {
    json!({"filesCreated": [], "filesModified": [], "filesDeleted": [], "summary": "done"})
}
