//! Compares what an agent reported with what a task's contract says that it must be.
//!
//! A schema is somebody else's: whatever it says is given up after a while.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use switchboard_core::contract::{Contract, Part};
use switchboard_core::limits;
use switchboard_core::verb::{Complete, Finding};
use switchboard_core::{Refusal, TaskId};
use switchboard_wire::schema;

use crate::hub::{Error, Hub};

/// A schema is read, or a result compared, within this time.
const WITHIN: Duration = Duration::from_secs(2);
/// Schemas refer to each other as deep as 64 KiB allow.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// Whether results can be compared with a schema at all.
pub fn check_schema(schema: &str) -> Result<(), String> {
    if schema.len() > limits::CONTRACT_SCHEMA_BYTES_MAX {
        let most = limits::CONTRACT_SCHEMA_BYTES_MAX;
        return Err(format!("the schema is larger than {most} bytes"));
    }
    let schema = schema.to_owned();
    apart(move || schema::read(&schema).map(drop))
}

/// What of a result is not as it must be.
pub fn judge(contract: &Contract, result: &str) -> Finding {
    let Ok(result) = serde_json::from_str::<Value>(result) else {
        return broken("the result is not JSON".to_owned());
    };
    if let Some(part) = &contract.part {
        return Finding {
            breach: not_installed(part, &result),
        };
    }
    let Some(schema) = contract.schema.clone() else {
        return Finding { breach: None };
    };
    let compared = apart(move || {
        let output = result.get("output").unwrap_or(&result);
        let schema = schema::read(&schema)?;
        schema.validate(output).map_err(|error| {
            let place = error.instance_path().to_string();
            format!("{place}: {error}")
        })
    });
    match compared {
        Ok(()) => Finding { breach: None },
        Err(why) => broken(why),
    }
}

fn broken(why: String) -> Finding {
    let breach = format!("contract_violation: {why}");
    let breach = limits::cut(&breach, limits::NOTE_BYTES_MAX).to_owned();
    Finding {
        breach: Some(breach),
    }
}

/// A skill is installed once its agent says which one, and it is that.
fn not_installed(part: &Part, result: &Value) -> Option<String> {
    let installed = &result["installed"];
    let (name, version) = (&part.skill.name, &part.skill.version);
    if installed["name"] == **name && installed["version"] == **version {
        return None;
    }
    broken(format!(
        "expected \"installed\": {{\"name\": \"{name}\", \"version\": \"{version}\"}} in the result, found {installed}"
    ))
    .breach
}

/// On a stack of its own, and no longer than it may take.
fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (done, wait) = mpsc::sync_channel(1);
    let began = thread::Builder::new()
        .name("schema".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || drop(done.send(work())));
    if let Err(error) = began {
        return Err(format!("it could not be compared: {error}"));
    }
    match wait.recv_timeout(WITHIN) {
        Ok(result) => result,
        Err(_) => Err(format!(
            "it could not be compared within {} s",
            WITHIN.as_secs()
        )),
    }
}

/// Runs a completion. Where the task has a contract it is given back, its result is compared with that, and it is run
/// again with what was found: a refusal is what no key keeps, and others need no look at the task beforehand.
pub async fn judged<T, F>(
    hub: &Hub,
    complete: Complete,
    run: impl Fn(Complete) -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    match run(complete).await {
        Err(Error::Refused(Refusal::Unjudged(complete))) => {
            let finding = Some(find(hub, &complete.task, &complete.result).await?);
            let judged = Complete {
                finding,
                ..*complete
            };
            run(judged).await
        }
        done => done,
    }
}

/// What comparing a result with its task's contract finds.
pub async fn find(hub: &Hub, task: &TaskId, result: &str) -> Result<Finding, Error> {
    let wanted = switchboard_core::query::TaskRef::Id(task.clone());
    let known = hub.read(move |reader| reader.task(&wanted)).await?;
    let contract = known.and_then(|task| task.contract);
    let contract = contract.ok_or_else(|| Refusal::TaskNotFound { task: task.clone() })?;
    let result = result.to_owned();
    let judged = tokio::task::spawn_blocking(move || judge(&contract, &result));
    judged.await.map_err(|_| Error::Broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(schema: &str) -> Contract {
        let terms = serde_json::json!({
            "here": "a", "origin": "b", "event": "e", "corr_id": "c", "requester": "r", "eta_seconds": null,
            "deadline_at": null, "capability": "cap.x", "schema": schema,
        });
        serde_json::from_value(terms).unwrap()
    }

    fn breach(schema: &str, result: &str) -> Option<String> {
        judge(&contract(schema), result).breach
    }

    #[test]
    fn the_output_is_compared_and_without_one_the_whole_result() {
        let schema =
            r#"{"type":"object","required":["sum"],"properties":{"sum":{"type":"integer"}}}"#;
        for (result, fits) in [
            (r#"{"output":{"sum":1}}"#, true),
            (r#"{"summary":"done","sum":2}"#, true),
            (r#"{"sum":1,"output":{}}"#, false),
            (r#"{"output":{"sum":"1"}}"#, false),
            (r#"{"summary":"done"}"#, false),
            ("nothing", false),
        ] {
            let found = breach(schema, result);
            assert_eq!(found.is_none(), fits, "{result}: {found:?}");
            let word = found
                .as_deref()
                .is_none_or(|why| why.starts_with("contract_violation: "));
            assert!(word, "{found:?}");
        }
    }

    #[test]
    fn a_skill_is_installed_if_its_name_and_version_are_as_wanted() {
        let mut contract = contract("{}");
        contract.part = Some(Part {
            of: "T".into(),
            skill: switchboard_core::capability::SkillRef {
                name: "x".to_owned(),
                version: "1.0.0".to_owned(),
                path: String::new(),
            },
        });
        for (result, is_installed) in [
            (r#"{"installed":{"name":"x","version":"1.0.0"}}"#, true),
            (r#"{"installed":{"name":"x","version":"1.0.1"}}"#, false),
            (r#"{"installed":{"name":"y","version":"1.0.0"}}"#, false),
            (r#"{"installed":true}"#, false),
            ("{}", false),
        ] {
            assert_eq!(
                judge(&contract, result).breach.is_none(),
                is_installed,
                "{result}"
            );
        }
    }

    #[test]
    fn a_schema_that_refers_outward_is_none() {
        for reference in [
            "http://127.0.0.1:1/x.json",
            "https://example.com/x.json",
            "file:///etc/passwd",
            "other.json",
        ] {
            let schema = format!(r#"{{"$ref":"{reference}"}}"#);
            let why = check_schema(&schema).expect_err(reference);
            assert!(why.contains("the schema cannot be used"), "{why}");
        }
        check_schema(r##"{"$defs":{"a":{"type":"null"}},"$ref":"#/$defs/a"}"##).unwrap();
        for odd in ["{", "7", r#"{"type":"nothing"}"#, r#"{"pattern":"(?=a)b"}"#] {
            check_schema(odd).expect_err(odd);
        }
    }

    #[test]
    fn a_schema_that_never_ends_ends() {
        // Each name stands for twice the next one.
        let doubled = |depth: usize| {
            let each = (0..depth).map(|n| {
                let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, n + 1);
                format!(r#""d{n}":{{"anyOf":[{next},{next}]}},"#)
            });
            let all: String = each.collect();
            format!(r##"{{"$defs":{{{all}"d{depth}":false}},"$ref":"#/$defs/d0"}}"##)
        };
        // Each refers to the next one, as deep as it goes.
        let chained = |depth: usize| {
            let each = (0..depth).map(|n| format!(r##""d{n}":{{"$ref":"#/$defs/d{}"}},"##, n + 1));
            let all: String = each.collect();
            format!(r##"{{"$defs":{{{all}"d{depth}":false}},"$ref":"#/$defs/d0"}}"##)
        };
        let twice = r##"{"anyOf":[{"properties":{"a":{"$ref":"#"}},"required":["b"]},{"properties":{"a":{"$ref":"#"}},"required":["b"]}]}"##;
        let deep = format!("{}1{}", r#"{"a":"#.repeat(60), "}".repeat(60));
        for (schema, result) in [
            (r##"{"$ref":"#"}"##.to_owned(), "{}"),
            (
                r##"{"allOf":[{"$ref":"#"},{"$ref":"#"}]}"##.to_owned(),
                "{}",
            ),
            (doubled(600), "{}"),
            (chained(1800), "{}"),
            (twice.to_owned(), &deep),
        ] {
            assert!(
                schema.len() <= limits::CONTRACT_SCHEMA_BYTES_MAX,
                "{}",
                schema.len()
            );
            let _ = check_schema(&schema);
            let _ = breach(&schema, result);
        }
    }

    #[test]
    fn a_schema_has_at_most_64_kib() {
        let of = |bytes: usize| format!(r#"{{"title":"{}"}}"#, "x".repeat(bytes - 12));
        let most = limits::CONTRACT_SCHEMA_BYTES_MAX;
        assert_eq!(of(most).len(), most);
        check_schema(&of(most - 1)).unwrap();
        check_schema(&of(most)).unwrap();
        check_schema(&of(most + 1)).unwrap_err();
    }
}
