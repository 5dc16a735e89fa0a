//! SQL over HTTP as libSQL's clients send it: one statement a request, each on a stream of its own.

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::ground::{Ground, Place};
use super::rows::{DoorsReport, LibsqlRow};
use super::statements::{Bound, CLAIM, COMPLETE, Values};
use crate::answers;
use crate::http::{Answer, Requests};
use crate::load::{self, Ask, Outcome, Script, Verdict};
use crate::report::median;

const CONNECTIONS: [usize; 2] = [1, 8];
const READ: &str = "SELECT status FROM tasks WHERE id = :task";
const PATH: &str = "/v2/pipeline";

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Read,
    Pairs,
}

impl What {
    const ALL: [Self; 2] = [Self::Read, Self::Pairs];

    fn name(self) -> &'static str {
        match self {
            Self::Read => "execute: one task's status",
            Self::Pairs => "execute: claim, then complete",
        }
    }
}

pub fn measure(ground: &Ground<'_>, report: &mut DoorsReport) -> anyhow::Result<()> {
    let runs: Vec<(What, usize)> = What::ALL
        .into_iter()
        .flat_map(|what| CONNECTIONS.map(|connections| (what, connections)))
        .collect();
    let mut samples: Vec<Vec<Outcome>> = runs.iter().map(|_| Vec::new()).collect();
    for round in 1..=ground.settings.rounds {
        crate::progress(format_args!(
            "doors: libSQL over HTTP, round {round} of {}",
            ground.settings.rounds
        ));
        let place = ground.new_hub()?;
        let token = make_token(&place)?;
        for (&(what, connections), samples) in runs.iter().zip(&mut samples) {
            samples.push(measure_run(ground, &place, &token, what, connections)?);
        }
    }
    let rows = runs.iter().zip(&samples);
    report.libsql = rows
        .map(|(&(what, connections), samples)| summarize(what, connections, samples))
        .collect();
    Ok(())
}

fn make_token(place: &Place) -> anyhow::Result<String> {
    let wanted = json!({"name": "bench", "scope": "sql"});
    let (status, answer) = place.hub.post("/api/v1/tokens", &wanted)?;
    let secret = answers::text_of(&answer, "secret");
    let words = || format!("no token: {status} {}", String::from_utf8_lossy(&answer));
    secret.map(ToOwned::to_owned).with_context(words)
}

fn measure_run(
    ground: &Ground<'_>,
    place: &Place,
    token: &str,
    what: What,
    connections: usize,
) -> anyhow::Result<Outcome> {
    place.prepare(ground.tasks_per_run())?;
    let known = match what {
        What::Read => Some(some_task(place)?),
        What::Pairs => None,
    };
    let mut scripts = Vec::new();
    for number in 0..connections {
        let agent = format!("libsql-{connections}-{number}");
        if what == What::Pairs {
            place.register_by_sql(&agent)?;
        }
        scripts.push(Pipeline {
            requests: Requests::new(place.hub.server),
            token: token.to_owned(),
            agent,
            known: known.clone(),
            held: None,
        });
    }
    let plan = ground.settings.plan(ground.settings.hub_for);
    let server: SocketAddr = place.hub.server;
    load::run(plan, server, scripts)
}

fn some_task(place: &Place) -> anyhow::Result<String> {
    let (status, answer) = place.hub.get("/api/v1/tasks?limit=1")?;
    ensure!(status == 200, "no list of tasks: {status}");
    let id = answers::text_of(&answer, "id");
    id.map(ToOwned::to_owned).context("there is no task")
}

/// Reads one task again and again, or claims and completes one after the other.
struct Pipeline {
    requests: Requests,
    token: String,
    agent: String,
    known: Option<String>,
    held: Option<(String, i64)>,
}

impl Script for Pipeline {
    fn request(&mut self, out: &mut Vec<u8>) -> Ask {
        let (sql, task, epoch) = match (&self.known, &self.held) {
            (Some(task), _) => (READ, task.as_str(), 0),
            (None, Some((task, epoch))) => (*COMPLETE, task.as_str(), *epoch),
            (None, None) => (*CLAIM, "", 0),
        };
        let values = Values {
            agent: &self.agent,
            task,
            epoch,
        };
        let body = pipeline(sql, values).to_string();
        self.requests
            .post_with_token(out, format_args!("{PATH}"), &self.token, body.as_bytes());
        Ask::Timed
    }

    fn answer(&mut self, answer: &Answer<'_>) -> Verdict {
        let completed = self.held.take().is_some();
        let claims = self.known.is_none() && !completed;
        match first_row(answer) {
            FirstRow::Of(row) if claims => {
                self.held = task_of(&row);
                match self.held {
                    Some(_) => Verdict::Good { units: 0 },
                    None => Verdict::Failed,
                }
            }
            FirstRow::Of(_) => Verdict::Good { units: 1 },
            FirstRow::Missing if claims => Verdict::Exhausted,
            FirstRow::Missing | FirstRow::NoRows => Verdict::Failed,
        }
    }
}

/// One statement on a stream that is closed behind it.
fn pipeline(sql: &str, values: Values<'_>) -> Value {
    let named = sql
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == ':'))
        .filter_map(|word| Some((word.strip_prefix(':')?, values.of(word)?)));
    let mut args = serde_json::Map::new();
    for (name, value) in named {
        let value = match value {
            Bound::Text(text) => json!({"type": "text", "value": text}),
            Bound::Whole(number) => json!({"type": "integer", "value": number.to_string()}),
        };
        args.insert(name.to_owned(), value);
    }
    let args: Vec<Value> = args
        .into_iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    json!({"baton": null, "requests": [
        {"type": "execute", "stmt": {"sql": sql, "args": [], "named_args": args, "want_rows": true}},
        {"type": "close"},
    ]})
}

/// What an answer brought.
#[derive(Debug, PartialEq, Eq)]
enum FirstRow {
    /// Its values by the names of their columns.
    Of(HashMap<String, Value>),
    Missing,
    /// Anything but the rows of a statement.
    NoRows,
}

fn first_row(answer: &Answer<'_>) -> FirstRow {
    let read = || {
        let body: Value = serde_json::from_slice(&answer.body).ok()?;
        let result = &body["results"][0];
        if answer.status != 200 || result["type"] != "ok" {
            return None;
        }
        let result = &result["response"]["result"];
        let (columns, rows) = (result["cols"].as_array()?, result["rows"].as_array()?);
        let Some(row) = rows.first() else {
            return Some(FirstRow::Missing);
        };
        let named = columns
            .iter()
            .zip(row.as_array()?)
            .filter_map(|(column, value)| {
                Some((column["name"].as_str()?.to_owned(), value["value"].clone()))
            });
        Some(FirstRow::Of(named.collect()))
    };
    read().unwrap_or(FirstRow::NoRows)
}

fn task_of(row: &HashMap<String, Value>) -> Option<(String, i64)> {
    let id = row.get("id")?.as_str()?.to_owned();
    let epoch = row.get("epoch")?.as_str()?.parse().ok()?;
    Some((id, epoch))
}

fn summarize(what: What, connections: usize, samples: &[Outcome]) -> LibsqlRow {
    let of = |figure: fn(&Outcome) -> f64| median(samples.iter().map(figure));
    let told = samples.iter().flat_map(|outcome| &outcome.errors_told);
    LibsqlRow {
        what: what.name().to_owned(),
        connections,
        requests_per_s: of(Outcome::requests_per_s),
        pairs_per_s: (what == What::Pairs).then(|| of(Outcome::units_per_s)),
        p50_ms: of(Outcome::p50_ms),
        p99_ms: of(Outcome::p99_ms),
        errors: samples.iter().map(|outcome| outcome.errors).sum(),
        errors_told: told.take(3).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_of(status: u16, body: &str) -> FirstRow {
        first_row(&Answer {
            status,
            body: body.as_bytes().into(),
            used: body.len(),
        })
    }

    #[test]
    fn a_pipeline_names_each_value_that_its_statement_asks_for_once() {
        let values = Values {
            agent: "a",
            task: "t",
            epoch: 7,
        };
        let sql = "SELECT :agent, :epoch, :agent, strftime('%H:%M')";
        let body = pipeline(sql, values);
        let args = &body["requests"][0]["stmt"]["named_args"];
        let names: Vec<_> = args.as_array().expect("a list").iter().collect();
        assert_eq!(names.len(), 2, "{args}");
        assert_eq!(
            *names[0],
            json!({"name": "agent", "value": {"type": "text", "value": "a"}})
        );
        assert_eq!(
            *names[1],
            json!({"name": "epoch", "value": {"type": "integer", "value": "7"}})
        );
        assert_eq!(body["requests"][1], json!({"type": "close"}));
    }

    #[test]
    fn a_row_an_empty_result_and_an_error_are_told_apart() {
        let row = r#"{"results":[{"type":"ok","response":{"type":"execute","result":{"cols":[{"name":"id"},{"name":"epoch"}],
            "rows":[[{"type":"text","value":"t"},{"type":"integer","value":"3"}]]}}}]}"#;
        let FirstRow::Of(row) = first_of(200, row) else {
            panic!("there is a row");
        };
        assert_eq!(task_of(&row), Some(("t".to_owned(), 3)));
        let empty = r#"{"results":[{"type":"ok","response":{"type":"execute","result":{"cols":[],"rows":[]}}}]}"#;
        assert_eq!(first_of(200, empty), FirstRow::Missing);
        let error =
            r#"{"results":[{"type":"error","error":{"message":"no","code":"SQLITE_ERROR"}}]}"#;
        assert_eq!(first_of(200, error), FirstRow::NoRows);
        assert_eq!(first_of(404, "{}"), FirstRow::NoRows);
    }
}
