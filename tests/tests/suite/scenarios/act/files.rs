//! Steps about leases, quality, memory and the log.

use serde_json::Value;

use super::tasks::pair;
use super::{Call, object};
use crate::scenarios::line::Given;

const LEASE_FOR_MS: i64 = 600_000;

pub fn acquire(given: &mut Given) -> Result<Call, String> {
    let agent = given.next("which agent?")?;
    Ok(Call::of("acquireLease")
        .having("agentId", agent)
        .having("filePath", given.next("which file?")?)
        .having(
            "taskId",
            given.text("task").map_or(Value::Null, Value::from),
        )
        .having("durationMs", given.span("for")?.unwrap_or(LEASE_FOR_MS)))
}

pub fn extend(given: &mut Given) -> Result<Call, String> {
    let agent = given.next("which agent?")?;
    Ok(Call::of("extendLease")
        .having("agentId", agent)
        .having("filePath", given.next("which file?")?)
        .having("durationMs", given.span("for")?.unwrap_or(LEASE_FOR_MS))
        .with("fencingToken", given.whole("fence")?))
}

pub fn release(given: &mut Given) -> Result<Call, String> {
    let agent = given.next("which agent?")?;
    Ok(Call::of("releaseLease")
        .having("agentId", agent)
        .having("filePath", given.next("which file?")?)
        .with("fencingToken", given.whole("fence")?))
}

pub fn check(given: &mut Given) -> Result<Call, String> {
    Ok(Call::of("checkLease")
        .having("filePath", given.next("which file?")?)
        .with("agentId", given.text("by")))
}

pub fn list(given: &mut Given) -> Result<Call, String> {
    Ok(Call::of("listLeases")
        .with("agentId", given.text("by"))
        .with("taskId", given.text("task"))
        .with("under", given.text("under")))
}

/// Set by figures (`tests=passing/failing`) or from a task's completion; without words, looked at.
pub fn baseline(given: &mut Given) -> Result<Call, String> {
    if let Some(task) = given.text("from") {
        return Ok(Call::of("setBaseline").having("fromTask", task));
    }
    let Some(tests) = given.text("tests") else {
        return Ok(Call::of("getBaseline"));
    };
    let (passing, failing) = pair("tests", &tests)?;
    let figures = object([
        ("testsPassing", Some(passing.into())),
        ("testsFailing", Some(failing.into())),
        (
            "buildSuccess",
            Some(given.yes("build")?.unwrap_or(true).into()),
        ),
        (
            "typeErrors",
            Some(given.whole("types")?.unwrap_or(0).into()),
        ),
        ("lintErrors", Some(given.whole("lint")?.unwrap_or(0).into())),
        ("testCoverage", given.number("coverage")?.map(Value::from)),
    ]);
    let Some(Value::Object(figures)) = figures else {
        return Err("a baseline needs figures".to_owned());
    };
    Ok(Call {
        given: figures,
        ..Call::of("setBaseline")
    })
}

pub fn snapshots(given: &mut Given) -> Result<Call, String> {
    Ok(Call::of("listSnapshots").with("taskId", given.maybe_next()))
}

pub fn memory(given: &mut Given) -> Result<Call, String> {
    Ok(Call::of("searchMemory").having("q", given.next("which words?")?))
}

/// Events of these types since the last such step.
pub fn events(given: &mut Given) -> Result<Call, String> {
    let types = given.next("which types?")?;
    let types: Vec<String> = types.split(',').map(str::to_owned).collect();
    Ok(Call::of("events").having("types", types))
}
