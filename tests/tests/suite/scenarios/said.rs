//! Answers in the words of the language, and how they are held against what was expected.

use serde_json::Value;
use switchboard_store::conformance::START;
use switchboard_wire::IsoTime;

use super::act::{Deed, View};
use super::line;
use super::scene::Expected;

/// One item of an answer.
pub struct Said {
    words: Vec<String>,
    /// Where facts are looked up.
    about: Value,
}

/// Tells what an answer to this deed says.
pub fn tell(deed: &Deed, body: &Value) -> Vec<Said> {
    if let Some(code) = body["error"].as_str() {
        let mut words = vec!["refused"];
        words.push(body["reason"].as_str().unwrap_or(code));
        words.extend(body["field"].as_str());
        return vec![Said::new(words.join(" "), body)];
    }
    let told = match deed {
        Deed::At(_) | Deed::Wait(_) | Deed::Down(_) => return Vec::new(),
        Deed::Caretake | Deed::Sweep => done_by_itself(&body["events"]),
        Deed::Call(call) => match call.view {
            View::Whole => whole(call.route, body),
            View::Attempts => each(&body["attempts"], attempt),
            View::Dependants => each(&body["dependants"], text),
            View::Holds => each(&body["tasks"], |task| text(&task["id"])),
            View::Orders => each(&body["commands"], order),
        },
    };
    if told.is_empty() {
        return vec![Said::new("nothing".to_owned(), body)];
    }
    told
}

fn whole(route: &str, body: &Value) -> Vec<Said> {
    let told = by_agents(route, body)
        .or_else(|| by_holders(route, body))
        .or_else(|| by_people(route, body))
        .or_else(|| by_files(route, body));
    told.unwrap_or_else(|| panic!("nobody says how the answer of {route} reads"))
}

fn one(words: impl Into<String>, about: &Value) -> Vec<Said> {
    vec![Said::new(words.into(), about)]
}

/// Agents and their messages.
fn by_agents(route: &str, body: &Value) -> Option<Vec<Said>> {
    Some(match route {
        "register" => one(pick(&body["resumed"], "resumed", "registered"), body),
        "heartbeat" => each(&body["commands"], order),
        "getAgent" => one(text(&body["agent"]["status"]), &body["agent"]),
        "commandAgent" => one("issued", &body["command"]),
        "deregister" => one("gone", body),
        "sendMessage" => one(format!("sent to {}", body["recipients"]), body),
        "receiveMessages" => each(&body["messages"], |message| {
            format!("{} from {}", text(&message["id"]), text(&message["from"]))
        }),
        "ackMessage" if body["taskId"].is_string() => {
            let took = format!("took {} epoch {}", text(&body["taskId"]), body["epoch"]);
            one(took, body)
        }
        "ackMessage" => one("acknowledged", body),
        "getMessage" => delivered(body),
        _ => return None,
    })
}

/// Claims and what their holders report.
fn by_holders(route: &str, body: &Value) -> Option<Vec<Said>> {
    let task = &body["task"];
    Some(match route {
        "claim" if body["success"] == true => {
            let claimed = format!("{} epoch {}", text(&task["id"]), task["epoch"]);
            one(claimed, task)
        }
        "claim" => one(format!("none {}", text(&body["reason"])), body),
        "progress" => {
            let stop = format!("stop {}", text(&body["reason"]));
            one(pick(&body["continue"], "continue", &stop), body)
        }
        "complete" => completed(body),
        "fail" => match body["retryAfter"].as_i64() {
            Some(after) => one(format!("retry in {}", span(after)), body),
            None => one(text(&body["status"]), body),
        },
        _ => return None,
    })
}

/// Tasks as people see them, quality, memory and the log.
fn by_people(route: &str, body: &Value) -> Option<Vec<Said>> {
    let task = &body["task"];
    Some(match route {
        "createTasks" if body["tasks"].is_array() => {
            each(&body["tasks"], |task| text(&task["status"]))
        }
        "createTasks" | "getTask" | "changeTask" | "releaseTask" | "cancelTask" | "retryTask"
        | "approveTask" | "rejectTask" => {
            let by = task["assignedAgent"].as_str();
            let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
            one(text(&task["status"]) + &by, task)
        }
        "listTasks" => each(&body["tasks"], |task| text(&task["id"])),
        "whyTask" if body["claimable"] == true => one("claimable", body),
        "whyTask" => each(&body["reasons"], |reason| {
            format!("{} {}", text(&reason["reason"]), text(&reason["detail"]))
        }),
        "pause" => one("paused", &body["paused"]),
        "resume" => one("resumed", body),
        "setBaseline" => one("set", &body["baseline"]),
        "getBaseline" if body["baseline"].is_null() => Vec::new(),
        "getBaseline" => one("baseline", &body["baseline"]),
        "listSnapshots" => each(&body["snapshots"], |row| {
            format!("{} by {}", text(&row["taskId"]), text(&row["agentId"]))
        }),
        "searchMemory" => each(&body["learnings"], |learning| text(&learning["text"])),
        "events" => each(&body["events"], event),
        _ => return None,
    })
}

/// Leases.
fn by_files(route: &str, body: &Value) -> Option<Vec<Said>> {
    Some(match route {
        "acquireLease" | "extendLease" if body["success"] == true => {
            let lease = &body["lease"];
            let until = instant(&lease["expiresAt"]);
            let granted = format!("granted fence {} until {until}", lease["fencingToken"]);
            one(granted, lease)
        }
        "acquireLease" => {
            let until = instant(&body["heldUntil"]);
            let held = format!("held by {} until {until}", text(&body["heldBy"]));
            one(held, body)
        }
        "releaseLease" => one(pick(&body["released"], "released", "nothing"), body),
        "checkLease" => {
            let held = format!("held by {}", text(&body["heldBy"]));
            one(pick(&body["free"], "free", &held), body)
        }
        "listLeases" => each(&body["leases"], |lease| {
            let (path, agent) = (text(&lease["filePath"]), text(&lease["agentId"]));
            format!("{path} by {agent}")
        }),
        _ => return None,
    })
}

fn completed(body: &Value) -> Vec<Said> {
    let head = format!("{} {}", text(&body["status"]), text(&body["nextAction"]));
    let mut told = vec![Said::new(head, body)];
    told.extend(each(&body["regressions"], |found| {
        format!("{} {}", text(&found["metric"]), text(&found["severity"]))
    }));
    told
}

/// One item per recipient; facts are about the message.
fn delivered(body: &Value) -> Vec<Said> {
    let words = |delivery: &Value| {
        format!(
            "{} {}",
            text(&delivery["agentId"]),
            text(&delivery["state"])
        )
    };
    let mut told = each(&body["deliveries"], words);
    for said in &mut told {
        said.about = body["message"].clone();
    }
    told
}

fn order(command: &Value) -> String {
    let parts = ["type", "taskId", "reason"].map(|name| text(&command[name]));
    parts.join(" ")
}

fn attempt(attempt: &Value) -> String {
    let outcome = attempt["outcome"].as_str().unwrap_or("running");
    format!(
        "{} {} {outcome}",
        attempt["epoch"],
        text(&attempt["agentId"])
    )
}

/// The type, and what it is about.
fn event(event: &Value) -> String {
    let kind = text(&event["type"]);
    let family = kind.split('_').next().unwrap_or_default();
    let subject = match family {
        "agent" | "command" => &event["agent"],
        "task" | "dependency" => &event["task"],
        "message" => &event["message"],
        "lease" => &event["path"],
        _ => &Value::Null,
    };
    format!("{kind} {}", text(subject))
}

/// What is requeued is ready again; that is not said twice.
fn done_by_itself(events: &Value) -> Vec<Said> {
    let mut told = each(events, event);
    let requeued = |told: &[Said], task: &Value| {
        let mut earlier = told.iter();
        earlier.any(|said| said.about["type"] == "task_requeued" && said.about["task"] == *task)
    };
    let mut at = 0;
    while at < told.len() {
        let about = &told[at].about;
        if about["type"] == "task_ready" && requeued(&told[..at], &about["task"]) {
            told.remove(at);
        } else {
            at += 1;
        }
    }
    told
}

fn each(list: &Value, words: impl Fn(&Value) -> String) -> Vec<Said> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items
        .iter()
        .map(|item| Said::new(words(item), item))
        .collect()
}

fn pick(condition: &Value, yes: &str, no: &str) -> String {
    if condition == true { yes } else { no }.to_owned()
}

/// A text as it is; what is not there is empty.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An instant as a span since the scene's beginning.
fn instant(value: &Value) -> String {
    let parsed = value.as_str().and_then(|text| text.parse::<IsoTime>().ok());
    parsed.map_or_else(|| text(value), |at| format!("+{}", span(at.0 - START.0)))
}

fn span(millis: i64) -> String {
    if millis % 1000 == 0 {
        format!("{}s", millis / 1000)
    } else {
        format!("{millis}ms")
    }
}

impl Said {
    fn new(words: String, about: &Value) -> Self {
        // Commas part items, so words have none.
        let words = words
            .split_whitespace()
            .map(|word| word.trim_end_matches(','));
        Said {
            words: words.map(str::to_owned).collect(),
            about: about.clone(),
        }
    }

    /// A member by its path, as a word: lists joined by commas, `none` for nothing, `absent` for no such member.
    fn fact(&self, path: &str) -> String {
        let mut at = &self.about;
        for name in path.split('.') {
            let next = match name.parse::<usize>() {
                Ok(index) => at.get(index),
                Err(_) => at.get(name),
            };
            match next {
                Some(next) => at = next,
                None => return "absent".to_owned(),
            }
        }
        match at {
            Value::Null => "none".to_owned(),
            Value::Array(items) if items.is_empty() => "none".to_owned(),
            Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
            Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
            Value::Number(number) => number
                .as_f64()
                .map_or_else(|| number.to_string(), |number| number.to_string()),
            Value::String(text) => text.clone(),
            Value::Object(_) => at.to_string(),
        }
    }
}

/// Holds what was told against what was expected; tells the first difference.
pub fn compare(expected: &[Expected], told: &[Said]) -> Result<(), String> {
    let all = || {
        let items: Vec<String> = told.iter().map(|said| said.words.join(" ")).collect();
        items.join(", ")
    };
    if expected.len() != told.len() {
        return Err(format!("the answer was `{}`", all()));
    }
    for (wanted, said) in expected.iter().zip(told) {
        let words = wanted.words.iter().zip(&said.words);
        let same = words.clone().count() == wanted.words.len()
            && words
                .into_iter()
                .all(|(wanted, said)| is_same(wanted, said));
        if !same {
            return Err(format!("the answer was `{}`", all()));
        }
        for (name, value) in &wanted.facts {
            let fact = said.fact(name);
            if !is_same(value, &fact) && !is_same(value, &instant(&fact.as_str().into())) {
                return Err(format!("{name} is `{fact}`"));
            }
        }
        let message = text(&said.about["message"]);
        if let Some(part) = wanted
            .message
            .as_ref()
            .filter(|part| !message.contains(*part))
        {
            return Err(format!("the message does not say `{part}`"));
        }
    }
    Ok(())
}

/// Equal as words, or as spans of time.
fn is_same(wanted: &str, said: &str) -> bool {
    wanted == said
        || matches!((line::span(wanted), line::span(said)), (Ok(left), Ok(right)) if left == right)
}
