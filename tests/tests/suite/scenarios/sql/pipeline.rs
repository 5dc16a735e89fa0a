//! Statements through `POST /v2/pipeline`, in the words that libSQL's clients use.

use serde_json::{Value, json};
use switchboard_wire::jetpack::Method;

use super::door::{Given, Ran};
use crate::scenarios::http::HubHere;

/// All in one batch, each only if the one before went well; what was begun and not committed is undone.
pub async fn run(
    hub: &mut HubHere,
    token: &str,
    statements: &[String],
    given: &Given,
) -> Result<Vec<Ran>, String> {
    let mut all: Vec<&str> = statements.iter().map(String::as_str).collect();
    let several = all.len() > 1 && !all[0].starts_with("BEGIN");
    if several {
        all.insert(0, "BEGIN IMMEDIATE");
        all.push("COMMIT");
    }
    let steps: Vec<Value> = all.iter().enumerate().map(|one| step(one, given)).collect();
    let body = json!({"baton": null, "requests": [
        {"type": "batch", "batch": {"steps": steps}},
        {"type": "close"},
    ]});
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let answer = hub
        .send(Method::Post, "/v2/pipeline", &headers, Some(&body))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let result = &answer.body["results"][0];
    assert_eq!(result["type"], "ok", "{result}");
    let result = &result["response"]["result"];
    let mut errors = result["step_errors"].as_array().into_iter().flatten();
    if let Some(sentence) = errors.find_map(|error| error["message"].as_str()) {
        return Err(sentence.to_owned());
    }
    let results = result["step_results"].as_array().into_iter().flatten();
    let results = results.skip(several.into()).take(statements.len());
    Ok(results.map(ran).collect())
}

fn step((at, sql): (usize, &&str), given: &Given) -> Value {
    let used = given.iter().filter(|(name, _)| mentions(sql, name));
    let used: Vec<Value> = used
        .map(|(name, value)| json!({"name": name, "value": cell_of(value)}))
        .collect();
    let stmt = json!({"sql": sql, "named_args": used, "want_rows": true});
    match at.checked_sub(1) {
        Some(before) => json!({"stmt": stmt, "condition": {"type": "ok", "step": before}}),
        None => json!({"stmt": stmt}),
    }
}

/// Whether a statement has this parameter; the endpoint refuses others.
fn mentions(sql: &str, name: &str) -> bool {
    let name = format!(":{name}");
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    sql.match_indices(&name)
        .any(|(at, _)| !goes_on(&sql[at + name.len()..]))
}

fn ran(result: &Value) -> Ran {
    let columns = result["cols"].as_array().into_iter().flatten();
    let names: Vec<&str> = columns
        .filter_map(|column| column["name"].as_str())
        .collect();
    let row = |cells: &Value| {
        let cells = cells.as_array().into_iter().flatten().map(value_of);
        let names = names.iter().map(|name| (*name).to_owned());
        names.zip(cells).collect()
    };
    let rows = result["rows"].as_array().into_iter().flatten();
    Ran {
        rows: rows.map(row).collect(),
        changed: result["affected_row_count"].as_u64().unwrap_or_default(),
    }
}

fn cell_of(value: &Value) -> Value {
    match value {
        Value::Null => json!({"type": "null"}),
        Value::Bool(yes) => json!({"type": "integer", "value": u8::from(*yes).to_string()}),
        Value::Number(number) if number.is_f64() => json!({"type": "float", "value": number}),
        Value::Number(number) => json!({"type": "integer", "value": number.to_string()}),
        Value::String(text) => json!({"type": "text", "value": text}),
        Value::Array(_) | Value::Object(_) => json!({"type": "text", "value": value.to_string()}),
    }
}

fn value_of(cell: &Value) -> Value {
    match cell["type"].as_str() {
        Some("integer") => {
            let number = cell["value"]
                .as_str()
                .and_then(|text| text.parse::<i64>().ok());
            number.expect("an integer is a number as text").into()
        }
        Some("null") => Value::Null,
        _ => cell["value"].clone(),
    }
}
