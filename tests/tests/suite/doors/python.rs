//! A process of its own: Python with its `sqlite3`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};
use switchboard_test_cluster::Missing;

use super::by_sql::registration;
use super::{Pool, Record};

const PROGRAM: &str = include_str!("agent.py");

/// Told loudly if it is not.
pub fn is_here(what: &str) -> bool {
    let tried = Command::new("python3").arg("--version").output();
    let is_here = tried.is_ok_and(|ran| ran.status.success());
    if !is_here {
        Missing::Python.skip(what);
    }
    is_here
}

pub fn work(pool: &Pool, agent: &str) -> Record {
    let mut child = Command::new("python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    write!(stdin, "{}", told(pool, agent)).expect("it can be told");
    drop(stdin);
    let stdout = child.stdout.take().expect("it is piped");
    let mut record = Record {
        agent: agent.to_owned(),
        ..Record::default()
    };
    for line in BufReader::new(stdout).lines() {
        let line = line.expect("it speaks in lines");
        let (word, task, epoch): (String, String, u64) =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        match word.as_str() {
            "handed" => record.handed.push((task, epoch)),
            "completed" => record.completed.push((task, epoch)),
            _ => panic!("{agent} lost what it held: {task}"),
        }
    }
    let ended = child.wait().expect("a child can be waited for");
    assert!(ended.success(), "{agent} ended with {ended}");
    record
}

fn told(pool: &Pool, agent: &str) -> Value {
    let plain = |value: Value| match value {
        Value::Array(_) => value.to_string().into(),
        other => other,
    };
    let given = registration(agent).into_iter();
    let given: Map<String, Value> = given
        .map(|(name, value)| (name.to_owned(), plain(value)))
        .collect();
    let only = |block: &str| pool.page.statements(block).swap_remove(0);
    json!({
        "database": pool.database,
        "register": only("register"),
        "claim": only("claim"),
        "complete": only("complete"),
        "registration": given,
    })
}
