//! Tasks as people see and steer them.

use switchboard_core::query::{Readable, TaskRef};
use switchboard_core::rights::Right;
use switchboard_core::verb::{AddMissing, CreateTasks, RetryTask, Review, Ruling, Why};
use switchboard_core::{Refusal, Task, TaskId};
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::{
    CreateTasksRequest, PatchTaskRequest, RejectTaskRequest, ReleaseTaskRequest, SteerTaskRequest,
    TaskDetails, TaskPage, TaskQuery, TaskResponse, TasksResponse, WhyQuery, from_wire, to_wire,
};

use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use super::{App, AppState};
use crate::call::{open, to_json};
use crate::hub;

pub async fn create(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (envelope, request) = open::new_tasks(&call.body)?;
    let change = Change::around(&app, &call, envelope).await?;
    app.counts(&change.caller)?;
    let render: fn(&Vec<Task>) -> Vec<u8> = match &request {
        CreateTasksRequest::One(_) => |tasks| made_one(tasks),
        CreateTasksRequest::Many { .. } => |tasks| made_many(tasks),
    };
    let skips =
        matches!(&request, CreateTasksRequest::Many { skip_existing, .. } if *skip_existing);
    let verb = from_wire::create(request, &mut app.context(&mut |kind| app.ids.fresh(kind)))?;
    match skips {
        true => change.run(AddMissing(verb), 201, render).await,
        false => change.run::<CreateTasks>(verb, 201, render).await,
    }
}

fn made_one(tasks: &[Task]) -> Vec<u8> {
    match tasks.first() {
        Some(task) => changed(task),
        None => made_many(tasks),
    }
}

fn made_many(tasks: &[Task]) -> Vec<u8> {
    to_json(&TasksResponse {
        success: true,
        tasks: tasks.iter().map(to_wire::task).collect(),
    })
}

fn changed(task: &Task) -> Vec<u8> {
    to_json(&TaskResponse {
        success: true,
        task: to_wire::task(task),
    })
}

pub async fn list(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: TaskQuery = call.query()?;
    let (mut tasks, mut next) = (Vec::new(), None);
    if let Some((filter, page)) = from_wire::lists::tasks(query)? {
        let read = app.hub.read(move |ledger| {
            let found = ledger.tasks(&filter, &page)?;
            let mut tasks = Vec::with_capacity(found.rows.len());
            for task in &found.rows {
                let attempts = match from_wire::has_verdict(task) {
                    true => ledger.attempts(task.number)?,
                    false => Vec::new(),
                };
                tasks.push(to_wire::judged_task(task, &attempts));
            }
            Ok((tasks, found.next))
        });
        (tasks, next) = read.await?;
    }
    Ok(Reply::ok(&TaskPage {
        success: true,
        tasks,
        next,
    }))
}

pub async fn show(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let named = from_wire::task_ref(&call.id()?)?;
    let id = named.id.clone();
    let found = app
        .hub
        .read(move |reader| {
            let Some(task) = find(reader, &named)? else {
                return Ok(None);
            };
            let attempts = reader.attempts(task.number)?;
            let dependants = reader.dependants(&task.id)?;
            Ok(Some((task, attempts, dependants)))
        })
        .await?;
    let Some((task, attempts, dependants)) = found else {
        return Err(hub::Error::Refused(Refusal::TaskNotFound { task: id }).into());
    };
    let ended = attempts.iter().map(to_wire::attempt);
    Ok(Reply::ok(&TaskDetails {
        success: true,
        attempts: ended.chain(to_wire::running_attempt(&task)).collect(),
        task: to_wire::judged_task(&task, &attempts),
        dependants: dependants.iter().map(ToString::to_string).collect(),
    }))
}

fn find<E>(
    ledger: &dyn Readable<Error = E>,
    named: &from_wire::TaskRef,
) -> Result<Option<Task>, E> {
    if let Some(task) = ledger.task(&TaskRef::Id(named.id.clone()))? {
        return Ok(Some(task));
    }
    named
        .number
        .map_or(Ok(None), |number| ledger.task(&TaskRef::Number(number)))
}

/// The task that a path names, by its id or by its number.
async fn named_task(app: &App, call: &Call) -> Result<TaskId, Failure> {
    let named = from_wire::task_ref(&call.id()?)?;
    if named.number.is_none() {
        return Ok(named.id);
    }
    let id = named.id.clone();
    let found = app.hub.read(move |reader| find(reader, &named)).await?;
    Ok(found.map_or(id, |task| task.id))
}

pub async fn change(app: AppState, call: Call) -> Result<Reply, Failure> {
    if call.body.trim_ascii().is_empty() {
        return Err(
            Malformed::whole("a body is required: an object with what is to change").into(),
        );
    }
    let (change, patch) = Change::read::<PatchTaskRequest>(&app, &call).await?;
    let verb = from_wire::change(named_task(&app, &call).await?, patch)?;
    change.run(verb, 200, changed).await
}

pub async fn release(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (mut change, request) = Change::read::<ReleaseTaskRequest>(&app, &call).await?;
    let mut verb = from_wire::release(named_task(&app, &call).await?, request)?;
    // An agent that names nobody lets go of its own; a person may let go for anyone.
    verb.agent = verb.agent.or_else(|| change.caller.is_agent().cloned());
    match &verb.agent {
        Some(agent) => change.acts_as(agent)?,
        None => change.caller.may(Right::Steer)?,
    }
    change.run(verb, 200, changed).await
}

pub async fn cancel(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<SteerTaskRequest>(&app, &call).await?;
    let verb = from_wire::cancel(named_task(&app, &call).await?, request.reason)?;
    change.run(verb, 200, changed).await
}

pub async fn retry(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<SteerTaskRequest>(&app, &call).await?;
    from_wire::reason(request.reason, "")?;
    let verb = RetryTask {
        task: named_task(&app, &call).await?,
    };
    change.run(verb, 200, changed).await
}

pub async fn approve(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<SteerTaskRequest>(&app, &call).await?;
    let reason = from_wire::reason(request.reason, "approved by a person")?;
    let verb = Review {
        task: named_task(&app, &call).await?,
        ruling: Ruling::Approve,
        reason,
    };
    change.run(verb, 200, changed).await
}

pub async fn reject(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<RejectTaskRequest>(&app, &call).await?;
    let verb = from_wire::reject(named_task(&app, &call).await?, request)?;
    change.run(verb, 200, changed).await
}

pub async fn why(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: WhyQuery = call.query()?;
    let agent = query
        .agent_id
        .map(|agent| from_wire::agent_id("agentId", &agent))
        .transpose()?;
    let task = named_task(&app, &call).await?;
    let answer = app.hub.run(Why { task, agent }).await?;
    Ok(Reply::ok(&to_wire::why(&answer)))
}
