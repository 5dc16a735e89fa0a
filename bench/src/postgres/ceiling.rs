//! The same work as plain SQL by pgbench, one row at a time: what a queue in PostgreSQL usually is.
//!
//! A pair is a claim (`FOR UPDATE SKIP LOCKED`) and a completion, each with an event row, each a transaction of its own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::ground::Ground;
use crate::histogram::Histogram;
use crate::report::PgbenchRow;

/// How a transaction is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// BEGIN, UPDATE, INSERT and COMMIT, each with a trip of its own, as programs usually do it.
    Statements,
    /// Both changes in one statement that commits itself: the best that one row at a time can be.
    Terse,
}

impl Manner {
    pub const ALL: [Self; 2] = [Self::Statements, Self::Terse];

    pub fn name(self) -> &'static str {
        match self {
            Self::Statements => "statement by statement",
            Self::Terse => "one statement a transaction",
        }
    }

    fn script(self) -> String {
        let claim = format!("{CLAIM} RETURNING id");
        let complete = "UPDATE tasks SET status = 'completed', completed_at = now(), updated_at = now(), result = :result WHERE id = :id";
        let result = r#"'{"filesModified":["src/lib.rs"],"summary":"The function is changed and its tests pass."}'"#;
        let complete = complete.replace(":result", result);
        match self {
            Self::Statements => format!(
                "BEGIN;\n{claim} \\gset\n{EVENT} VALUES ('task.claimed', :id, '{{\"agent\":\"a\"}}');\nEND;\n\
                 BEGIN;\n{complete};\n{EVENT} VALUES ('task.completed', :id, '{{\"agent\":\"a\"}}');\nEND;\n"
            ),
            Self::Terse => format!(
                "WITH done AS ({claim}), event AS ({EVENT} SELECT 'task.claimed', id, '{{\"agent\":\"a\"}}' FROM done) SELECT id FROM done \\gset\n\
                 WITH done AS ({complete} RETURNING id) {EVENT} SELECT 'task.completed', id, '{{\"agent\":\"a\"}}' FROM done;\n"
            ),
        }
    }
}

const SCHEMA: &str = "
DROP TABLE IF EXISTS tasks, events;
CREATE TABLE tasks (
  id bigint PRIMARY KEY, title text NOT NULL, description text, status text NOT NULL, priority int NOT NULL, type text NOT NULL,
  assigned_agent text, claimed_at timestamptz, required_skills text, files text, started_at timestamptz, completed_at timestamptz,
  estimated_minutes int, retry_count int NOT NULL DEFAULT 0, max_retries int NOT NULL DEFAULT 2, result text,
  created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now(), epoch bigint NOT NULL DEFAULT 0);
CREATE TABLE events (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(),
  type text NOT NULL, task bigint NOT NULL, body text NOT NULL);";
const INDEX: &str = "CREATE INDEX tasks_ready ON tasks(priority, id) WHERE status = 'ready'";
const CLAIM: &str = "UPDATE tasks SET status = 'claimed', assigned_agent = 'a', claimed_at = now(), started_at = now(), updated_at = now(), epoch = epoch + 1 \
  WHERE id = (SELECT id FROM tasks WHERE status = 'ready' ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED)";
const EVENT: &str = "INSERT INTO events (type, task, body)";
/// Tasks stored for a run, by its seconds: more than are taken one at a time.
const TASKS_PER_CLIENT_SECOND: u64 = 4_000;
const TASKS_PER_SECOND_MAX: u64 = 20_000;

/// Whether there is a pgbench beside the server.
pub fn is_installed(ground: &Ground<'_>) -> bool {
    ground.cluster.bindir().join("pgbench").is_file()
}

/// Runs pgbench once on fresh tables.
pub fn measure(ground: &Ground<'_>, manner: Manner, clients: usize) -> anyhow::Result<PgbenchRow> {
    let settings = ground.settings;
    let (warm_up_for, measure_for) = (settings.warm_up_for, settings.hub_for);
    // It counts whole seconds only.
    let seconds = (warm_up_for + measure_for).as_secs_f64().ceil() as u64;
    let database = ground.cluster.create_database();
    let per_second = TASKS_PER_SECOND_MAX.min(clients as u64 * TASKS_PER_CLIENT_SECOND);
    let tasks = per_second * (seconds + 1);
    database.sql(SCHEMA);
    database.sql(&format!(
        "INSERT INTO tasks (id, title, description, status, priority, type, required_skills, files, estimated_minutes)
         SELECT n, 'Task ' || n || ' of the bench', 'Change one function and run its tests.', 'ready', 2, 'code', '[\"rust\"]', '[\"src/lib.rs\"]', 10
         FROM generate_series(1, {tasks}) n"
    ));
    database.sql(INDEX);
    database.sql("VACUUM ANALYZE");
    crate::cpu::settle(|| ground.postgres_cpu_time())?;
    let home = settings.new_home()?;
    let script = home.path().join("pair.sql");
    std::fs::write(&script, manner.script())?;
    let meter = ground.meter(&[])?;
    let done = Command::new(ground.cluster.bindir().join("pgbench"))
        .args(["-n", "-M", "prepared", "-j", "2", "-l", "--log-prefix=pair"])
        .args(["-c", &clients.to_string(), "-T", &seconds.to_string()])
        .arg("-f")
        .arg(&script)
        .arg(&database.url)
        .current_dir(home.path())
        .stdin(Stdio::null())
        .output()
        .context("cannot run pgbench")?;
    let cpu = meter.end()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "pgbench failed: {said}");
    let log = read_log(home.path())?;
    let pairs = within(&log, warm_up_for, measure_for);
    ensure!(pairs.total() > 0, "pgbench finished no pair: {said}");
    Ok(PgbenchRow {
        manner: manner.name().to_owned(),
        clients,
        pairs_per_s: pairs.total() as f64 / measure_for.as_secs_f64(),
        p50_ms: pairs.p50_ms(),
        p99_ms: pairs.p99_ms(),
        cpu,
    })
}

/// When a pair ended, since 1970, and how long it took.
struct Pair {
    ended_at: Duration,
    took: Duration,
}

/// Reads the logs of all of pgbench's threads.
fn read_log(dir: &Path) -> anyhow::Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("pair.")
            || entry.path().ends_with("pair.sql")
        {
            continue;
        }
        for line in BufReader::new(std::fs::File::open(entry.path())?).lines() {
            let line = line?;
            let pair = parse_line(&line);
            pairs.push(pair.with_context(|| format!("pgbench logged {line:?}"))?);
        }
    }
    Ok(pairs)
}

/// Client, number, microseconds, script, then the end in seconds and microseconds.
fn parse_line(line: &str) -> Option<Pair> {
    let words: Vec<u64> = line
        .split(' ')
        .map_while(|word| word.parse().ok())
        .collect();
    let &[_, _, took, _, seconds, micros, ..] = words.as_slice() else {
        return None;
    };
    Some(Pair {
        ended_at: Duration::from_secs(seconds) + Duration::from_micros(micros),
        took: Duration::from_micros(took),
    })
}

/// What ended in the window behind the warm-up.
fn within(log: &[Pair], warm_up_for: Duration, measure_for: Duration) -> Histogram {
    let mut counted = Histogram::default();
    let began = log
        .iter()
        .map(|pair| pair.ended_at.saturating_sub(pair.took));
    let Some(began_at) = began.min() else {
        return counted;
    };
    let opens_at = began_at + warm_up_for;
    for pair in log {
        if (opens_at..opens_at + measure_for).contains(&pair.ended_at) {
            counted.record(pair.took);
        }
    }
    counted
}
