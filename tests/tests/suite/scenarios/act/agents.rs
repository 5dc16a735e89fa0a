//! Steps about agents and what they say to each other.

use serde_json::{Value, json};

use super::{Call, View, object};
use crate::scenarios::line::Given;

pub fn register(given: &mut Given) -> Result<Call, String> {
    let id = given.next("which agent?")?;
    let machine = given.text("machine").map(|text| {
        let (machine, pid) = text.split_once('/').unwrap_or((&text, "1"));
        json!({ "id": machine, "hostname": machine, "pid": pid.parse::<u32>().unwrap_or(1) })
    });
    let mut agent = json!({
        "id": id,
        "name": given.text("name").unwrap_or_else(|| id.clone()),
        "type": given.text("type").unwrap_or_else(|| "custom".to_owned()),
        "capabilities": {
            "skills": given.list("skills").unwrap_or_default(),
            "maxTaskMinutes": given.whole("minutes")?.unwrap_or(60),
            "canRunTests": given.yes("tests")?.unwrap_or(true),
            "canRunBuild": given.yes("build")?.unwrap_or(true),
            "canAccessBrowser": given.yes("browser")?.unwrap_or(false),
        },
    });
    if let Some(machine) = machine {
        agent["machine"] = machine;
    }
    Ok(Call::of("register")
        .having("agent", agent)
        .with("resume", given.yes("resume")?))
}

pub fn heartbeat(given: &mut Given) -> Result<Call, String> {
    let agent = given.next("which agent?")?;
    let status = given.maybe_next().unwrap_or_else(|| "idle".to_owned());
    let task = object([
        ("id", given.text("task").map(Value::from)),
        ("progress", given.number("percent")?.map(Value::from)),
        ("phase", given.text("phase").map(Value::from)),
    ]);
    let metrics = object([
        ("memoryUsedMB", given.number("memory")?.map(Value::from)),
        (
            "tasksCompletedSession",
            given.whole("done")?.map(Value::from),
        ),
    ]);
    Ok(Call::about("heartbeat", agent.clone())
        .having("agentId", agent)
        .having("status", status)
        .with("currentTask", task)
        .with("metrics", metrics))
}

pub fn who(given: &mut Given) -> Result<Call, String> {
    Ok(Call::about("getAgent", given.next("which agent?")?))
}

pub fn holds(given: &mut Given) -> Result<Call, String> {
    Ok(who(given)?.view(View::Holds))
}

pub fn orders(given: &mut Given) -> Result<Call, String> {
    Ok(who(given)?.view(View::Orders))
}

pub fn command(given: &mut Given) -> Result<Call, String> {
    let agent = given.next("which agent?")?;
    Ok(Call::about("commandAgent", agent)
        .having("type", given.next("which command?")?)
        .with("taskId", given.text("task"))
        .with("reason", given.text("reason")))
}

pub fn leave(given: &mut Given) -> Result<Call, String> {
    Ok(Call::about("deregister", given.next("which agent?")?))
}

pub fn pause(given: &mut Given) -> Result<Call, String> {
    let seconds = given.span("for")?.map(|millis| millis / 1000);
    Ok(Call::of("pause")
        .with("why", given.text("why"))
        .with("forSeconds", seconds))
}

pub fn resume(given: &mut Given) -> Result<Call, String> {
    Ok(Call::of("resume").with("why", given.text("why")))
}

pub fn send(given: &mut Given) -> Result<Call, String> {
    let from = given.next("which agent?")?;
    let id = given.next("which message?")?;
    let task = given.text("task");
    let file = given.text("file");
    let kind = match (&task, &file, given.text("type")) {
        (_, _, Some(kind)) => kind,
        (Some(_), _, None) => "task.handoff".to_owned(),
        (None, Some(_), None) => "file.lock_request".to_owned(),
        (None, None, None) => "custom".to_owned(),
    };
    let payload = match given.text("payload") {
        Some(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        None => object([
            ("taskId", task.map(Value::from)),
            ("filePath", file.map(Value::from)),
        ])
        .unwrap_or(Value::Null),
    };
    // Several with commas in between.
    let to = given.text("to").map(|to| match to.contains(',') {
        true => to.split(',').collect(),
        false => Value::from(to),
    });
    let message = object([
        ("id", Some(id.into())),
        ("to", to),
        ("type", Some(kind.into())),
        ("payload", Some(payload)),
        ("ackRequired", given.yes("ack")?.map(Value::from)),
        ("expiresIn", given.span("expires")?.map(Value::from)),
    ]);
    Ok(Call::of("sendMessage")
        .having("agentId", from)
        .with("message", message))
}

pub fn receive(given: &mut Given) -> Result<Call, String> {
    Ok(Call::of("receiveMessages")
        .having("agentId", given.next("which agent?")?)
        .with("since", given.text("since"))
        .with("types", given.list("types"))
        .with("limit", given.whole("limit")?))
}

pub fn acknowledge(given: &mut Given) -> Result<Call, String> {
    let agent = given.next("which agent?")?;
    let message = given.next("which message?")?;
    Ok(Call::about("ackMessage", message).having("agentId", agent))
}

pub fn message(given: &mut Given) -> Result<Call, String> {
    Ok(Call::about("getMessage", given.next("which message?")?))
}
