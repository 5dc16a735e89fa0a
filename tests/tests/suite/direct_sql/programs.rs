//! The programs that run the page: the `sqlite3` command-line tool, Python, and `psql`.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use serde_json::{Map, Value, json};
use switchboard_test_cluster::{Missing, Server};

use super::page::{Flavour, Page};

/// A statement's parameters, by name.
pub type Values = Map<String, Value>;

/// Somebody who runs named blocks of the page.
pub trait Runner {
    /// The rows that a block returned, or the database's own words.
    fn run(&mut self, block: &str, values: &Values) -> Result<Vec<Value>, String>;
}

/// Tells that `what` is skipped if the program is not installed.
fn has(program: &str, probe: &[&str], missing: Missing, what: &str) -> bool {
    let found = Command::new(program).args(probe).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        missing.skip(what);
    }
    found
}

/// `sqlite3`, started anew for each block.
#[derive(Debug)]
pub struct CommandLine {
    page: Page,
    database: PathBuf,
}

impl CommandLine {
    pub fn open(database: &Path, what: &str) -> Option<CommandLine> {
        has("sqlite3", &["-version"], Missing::Sqlite3, what).then(|| CommandLine {
            page: Page::read(Flavour::Sqlite),
            database: database.to_owned(),
        })
    }

    /// What a person types: the settings of the page, the parameters, the statement.
    fn script(&self, block: &str, values: &Values) -> String {
        let mut script = String::from(
            ".timeout 5000\n.output /dev/null\nPRAGMA wal_autocheckpoint = 0;\n.output stdout\n.parameter init\n",
        );
        for (name, value) in values {
            let literal = match value {
                Value::Null => "NULL".to_owned(),
                Value::String(text) => format!("'{}'", text.replace('\'', "''")),
                other => other.to_string(),
            };
            let _ = writeln!(
                script,
                "INSERT INTO temp.sqlite_parameters(key, value) VALUES (':{name}', {literal});"
            );
        }
        script + self.page.sql(block)
    }
}

impl Runner for CommandLine {
    fn run(&mut self, block: &str, values: &Values) -> Result<Vec<Value>, String> {
        let mut sqlite3 = Command::new("sqlite3");
        sqlite3
            .args(["-init", "/dev/null", "-batch", "-bail", "-json"])
            .arg(&self.database);
        let output = fed(sqlite3, &self.script(block, values));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() || said.contains("rror") {
            return Err(said);
        }
        let results =
            serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Vec<Value>>();
        let results: Result<Vec<Vec<Value>>, _> = results.collect();
        Ok(results.expect("it prints JSON").concat())
    }
}

/// Runs a program to its end with this on its standard input.
fn fed(mut program: Command, input: &str) -> Output {
    let program = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = program.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // It may end at an error before it has read everything.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

/// A Python program of `tests/python`, if Python is there.
pub fn python(program: &str, what: &str) -> Option<Command> {
    let there = has("python3", &["-c", "import sqlite3"], Missing::Python, what);
    there.then(|| {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let mut python = Command::new("python3");
        python
            .arg(programs.join(program))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        python
    })
}

/// Python's `sqlite3` with one connection that stays.
#[derive(Debug)]
pub struct Python {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Python {
    pub fn open(database: &Path, what: &str) -> Option<Python> {
        let mut child = python("statements.py", what)?
            .arg(super::page::path())
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        Some(Python {
            child,
            stdin,
            stdout: BufReader::new(stdout),
        })
    }
}

impl Runner for Python {
    fn run(&mut self, block: &str, values: &Values) -> Result<Vec<Value>, String> {
        let asked = json!({"block": block, "values": values});
        writeln!(self.stdin, "{asked}").expect("it reads");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it answers");
        let mut answer: Value = serde_json::from_str(&line).expect("it answers in JSON");
        match answer["rows"].take() {
            Value::Array(rows) => Ok(rows),
            _ => Err(answer["error"].to_string()),
        }
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `psql`, started anew for each block.
#[derive(Debug)]
pub struct Psql {
    page: Page,
    program: PathBuf,
    url: String,
}

/// What stands between the fields and the records that psql prints: no text has them.
const FIELD: char = '\u{1f}';
const RECORD: char = '\u{1e}';

impl Psql {
    pub fn open(server: &Server, url: &str) -> Psql {
        Psql {
            page: Page::read(Flavour::Postgres),
            program: server.bindir().join("psql"),
            url: url.to_owned(),
        }
    }

    /// The rows of a result that was printed: its names, then a record each.
    fn rows(printed: &str) -> Vec<Value> {
        let mut records = printed
            .trim_end_matches(['\n', RECORD])
            .split(RECORD)
            .map(|record| record.split(FIELD).collect::<Vec<_>>());
        let names = records.next().unwrap_or_default();
        let field = |text: &str| {
            text.parse::<i64>()
                .map_or_else(|_| Value::from(text), Value::from)
        };
        let row = |record: Vec<&str>| {
            let fields = names.iter().zip(record);
            fields
                .map(|(name, text)| ((*name).to_owned(), field(text)))
                .collect()
        };
        records.map(row).collect()
    }
}

impl Runner for Psql {
    fn run(&mut self, block: &str, values: &Values) -> Result<Vec<Value>, String> {
        let mut psql = Command::new(&self.program);
        psql.args(["--no-psqlrc", "--no-password", "-qA", "-P", "footer=off"])
            .args(["-v", "ON_ERROR_STOP=1", "-f", "-", "-d", &self.url])
            .args(["-F", &FIELD.to_string(), "-R", &RECORD.to_string()]);
        for (name, value) in values {
            let text = match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            psql.arg("-v").arg(format!("{name}={text}"));
        }
        let output = fed(psql, self.page.sql(block));
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(Psql::rows(&String::from_utf8_lossy(&output.stdout)))
    }
}
