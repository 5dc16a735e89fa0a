//! Steps about tasks.

use serde_json::{Map, Value, json};

use super::{Call, View, object};
use crate::scenarios::line::Given;

pub fn create(given: &mut Given) -> Result<Call, String> {
    Ok(Call {
        given: new_task(given)?,
        ..Call::of("createTasks")
    })
}

/// Parted by semicolons, because each has words of its own.
pub fn several(words: &[String]) -> Result<Call, String> {
    let mut tasks = Vec::new();
    for one in words.split(|word| word == ";") {
        let mut given = Given::new(one);
        tasks.push(Value::Object(new_task(&mut given)?));
        given.finish()?;
    }
    Ok(Call::of("createTasks").having("tasks", tasks))
}

fn new_task(given: &mut Given) -> Result<Map<String, Value>, String> {
    let id = given.next("which task?")?;
    let title = given.text("title").unwrap_or_else(|| format!("do {id}"));
    let call = described(Call::of("createTasks"), given)?
        .having("id", id)
        .having("title", title)
        .with("dependencies", given.list("after"))
        .with("onDependencyFailure", given.text("on_failure"));
    Ok(call.given)
}

/// What a new task says and a change may say anew.
fn described(call: Call, given: &mut Given) -> Result<Call, String> {
    Ok(call
        .with("description", given.text("text"))
        .with("priority", given.text("p"))
        .with("type", given.text("type"))
        .with("requiredSkills", given.list("skills"))
        .with("estimatedMinutes", given.whole("minutes")?)
        .with("files", given.list("files"))
        .with("branch", given.text("branch"))
        .with("maxRetries", given.whole("retries")?)
        .with("audience", given.list("audience")))
}

pub fn claim(given: &mut Given) -> Result<Call, String> {
    let agent = given.next("which agent?")?;
    let filter = object([
        ("skills", given.list("skills").map(Value::from)),
        ("priorities", given.list("p").map(Value::from)),
        ("types", given.list("types").map(Value::from)),
        ("excludeIds", given.list("not").map(Value::from)),
        ("maxMinutes", given.whole("minutes")?.map(Value::from)),
    ]);
    Ok(Call::of("claim")
        .having("agentId", agent)
        .with("filter", filter)
        .with("taskId", given.text("task")))
}

/// `<agent> <task> [epoch n]`.
fn report(route: &'static str, given: &mut Given) -> Result<Call, String> {
    let agent = given.next("which agent?")?;
    let task = given.next("which task?")?;
    Ok(Call::about(route, task.clone())
        .having("agentId", agent)
        .having("taskId", task)
        .with("epoch", given.whole("epoch")?))
}

pub fn progress(given: &mut Given) -> Result<Call, String> {
    let call = report("progress", given)?;
    let percent = given.maybe_next().unwrap_or_else(|| "50".to_owned());
    let percent: f64 = percent
        .parse()
        .map_err(|_| format!("`{percent}` is not a number"))?;
    let phase = given
        .maybe_next()
        .unwrap_or_else(|| "implementing".to_owned());
    let progress = object([
        ("percentComplete", Some(percent.into())),
        ("phase", Some(phase.into())),
        (
            "description",
            Some(given.text("note").unwrap_or_default().into()),
        ),
        ("filesModified", given.list("files").map(Value::from)),
    ]);
    Ok(call.with("progress", progress))
}

pub fn complete(given: &mut Given) -> Result<Call, String> {
    let learnings: Option<Vec<String>> = given
        .text("learned")
        .map(|text| text.split('|').map(str::to_owned).collect());
    let result = object([
        (
            "filesCreated",
            Some(given.list("created").unwrap_or_default().into()),
        ),
        (
            "filesModified",
            Some(given.list("modified").unwrap_or_default().into()),
        ),
        (
            "filesDeleted",
            Some(given.list("deleted").unwrap_or_default().into()),
        ),
        (
            "summary",
            Some(
                given
                    .text("summary")
                    .unwrap_or_else(|| "done".to_owned())
                    .into(),
            ),
        ),
        ("learnings", learnings.map(Value::from)),
    ]);
    let metrics = metrics(given)?;
    Ok(report("complete", given)?
        .with("result", result)
        .with("qualityMetrics", metrics))
}

/// `tests=passed/ran`; what is not said is clean. Without any of these words there are no metrics.
fn metrics(given: &mut Given) -> Result<Option<Value>, String> {
    let tests = given.text("tests");
    let (lint, types) = (given.whole("lint")?, given.whole("types")?);
    let build = given.yes("build")?;
    let coverage = given.number("coverage")?;
    if tests.is_none() && lint.or(types).is_none() && build.is_none() && coverage.is_none() {
        return Ok(None);
    }
    let (passed, ran) = pair("tests", tests.as_deref().unwrap_or("10/10"))?;
    let mut metrics = json!({
        "testsRan": ran, "testsPassed": passed, "lintErrors": lint.unwrap_or(0),
        "typeErrors": types.unwrap_or(0), "buildSuccess": build.unwrap_or(true),
    });
    if let Some(coverage) = coverage {
        metrics["testCoverage"] = coverage.into();
    }
    Ok(Some(metrics))
}

/// Two whole numbers with a slash between them.
pub fn pair(name: &str, text: &str) -> Result<(u64, u64), String> {
    let both = text
        .split_once('/')
        .and_then(|(left, right)| Some((left.parse().ok()?, right.parse().ok()?)));
    both.ok_or_else(|| format!("`{name}={text}` must be two numbers with a slash"))
}

pub fn fail(given: &mut Given) -> Result<Call, String> {
    let call = report("fail", given)?;
    let recoverable = !given.flag("final");
    let kind = given
        .maybe_next()
        .unwrap_or_else(|| "task_error".to_owned());
    let message = given
        .text("message")
        .unwrap_or_else(|| "it broke".to_owned());
    let failure = object([
        ("type", Some(kind.into())),
        ("message", Some(message.into())),
        ("recoverable", Some(recoverable.into())),
        ("details", given.text("details").map(Value::from)),
        ("suggestedAction", given.text("suggest").map(Value::from)),
    ]);
    Ok(call.with("failure", failure))
}

pub fn show(given: &mut Given) -> Result<Call, String> {
    Ok(Call::about("getTask", given.next("which task?")?))
}

pub fn history(given: &mut Given) -> Result<Call, String> {
    Ok(show(given)?.view(View::Attempts))
}

pub fn dependants(given: &mut Given) -> Result<Call, String> {
    Ok(show(given)?.view(View::Dependants))
}

pub fn list(given: &mut Given) -> Result<Call, String> {
    Ok(Call::of("listTasks")
        .with("status", given.list("status"))
        .with("priority", given.list("p"))
        .with("type", given.list("type"))
        .with("assignedAgent", given.text("by"))
        .with("skill", given.text("skill"))
        .with("branch", given.text("branch")))
}

pub fn why(given: &mut Given) -> Result<Call, String> {
    let task = given.next("which task?")?;
    Ok(Call::about("whyTask", task).with("agentId", given.maybe_next()))
}

pub fn change(given: &mut Given) -> Result<Call, String> {
    let task = given.next("which task?")?;
    let call = Call::about("changeTask", task).with("title", given.text("title"));
    described(call, given)
}

pub fn release(given: &mut Given) -> Result<Call, String> {
    let task = given.next("which task?")?;
    Ok(Call::about("releaseTask", task)
        .with("agentId", given.text("by"))
        .with("epoch", given.whole("epoch")?))
}

/// What a person does to a task, perhaps with a reason.
fn steer(route: &'static str, given: &mut Given) -> Result<Call, String> {
    let task = given.next("which task?")?;
    Ok(Call::about(route, task).with("reason", given.text("reason")))
}

pub fn cancel(given: &mut Given) -> Result<Call, String> {
    steer("cancelTask", given)
}

pub fn retry(given: &mut Given) -> Result<Call, String> {
    steer("retryTask", given)
}

pub fn approve(given: &mut Given) -> Result<Call, String> {
    steer("approveTask", given)
}

pub fn reject(given: &mut Given) -> Result<Call, String> {
    let dropped = given.flag("final");
    Ok(steer("rejectTask", given)?.with("retry", dropped.then_some(false)))
}
