//! Tasks: CLAIM, and what people do with tasks.

use std::time::Duration;

use switchboard_core::task::OnDependencyFailure;
use switchboard_core::{
    AgentId, CorrId, Description, Patch, Priority, TaskId, TaskKind, limits, verb,
};

use super::Context;
use super::check::{
    self, agent_id, at_most, each, filled, id, maybe, maybe_text, task_id, wait_for,
};
use crate::Malformed;
use crate::jetpack::{
    ClaimFilter, ClaimRequest, CreateTasksRequest, NewTask, PatchTaskRequest, RejectTaskRequest,
    ReleaseTaskRequest,
};

/// CLAIM, and how long it may wait.
pub fn claim(request: ClaimRequest) -> Result<(verb::Claim, Duration), Malformed> {
    let claim = verb::Claim {
        agent: agent_id("agentId", &request.agent_id)?,
        filter: request.filter.map(filter).transpose()?.unwrap_or_default(),
        task: maybe("taskId", request.task_id, task_id)?,
    };
    Ok((claim, wait_for(request.wait)?))
}

fn filter(filter: ClaimFilter) -> Result<verb::Filter, Malformed> {
    let skills = check::skills("filter.skills", &filter.skills)?;
    let excluded = each(
        "filter.excludeIds",
        &filter.exclude_ids,
        limits::EXCLUDED_IDS_MAX,
        |place, task| task_id(place, task),
    )?;
    let priorities: Vec<Priority> = filter.priorities.into_iter().map(Into::into).collect();
    let kinds: Vec<TaskKind> = filter.types.into_iter().map(Into::into).collect();
    Ok(verb::Filter {
        skills: (!skills.is_empty()).then_some(skills),
        priorities: (!priorities.is_empty()).then_some(priorities),
        kinds: (!kinds.is_empty()).then_some(kinds),
        excluded: excluded.into_iter().collect(),
        max_minutes: filter.max_minutes,
    })
}

/// `POST /tasks`.
pub fn create(
    request: CreateTasksRequest,
    context: &mut Context<'_>,
) -> Result<verb::CreateTasks, Malformed> {
    let tasks = match request {
        CreateTasksRequest::One(task) => vec![new_task("", *task, context)?],
        CreateTasksRequest::Many { tasks, .. } => {
            if tasks.is_empty() || tasks.len() > limits::TASKS_PER_CREATE_MAX {
                let message = format!("must have 1 to {} items", limits::TASKS_PER_CREATE_MAX);
                return Err(Malformed::field("tasks", message));
            }
            let numbered = tasks.into_iter().enumerate();
            let tasks =
                numbered.map(|(index, task)| new_task(&format!("tasks[{index}]."), task, context));
            tasks.collect::<Result<_, _>>()?
        }
    };
    Ok(verb::CreateTasks { tasks })
}

/// `at` is the place of the task in the body, with its dot.
fn new_task(
    at: &str,
    task: NewTask,
    context: &mut Context<'_>,
) -> Result<verb::NewTask, Malformed> {
    let place = |member: &str| format!("{at}{member}");
    filled(&place("title"), &task.title, limits::TITLE_BYTES_MAX)?;
    maybe_text(
        &place("description"),
        task.description.as_ref(),
        limits::DESCRIPTION_BYTES_MAX,
    )?;
    maybe_text(
        &place("branch"),
        task.branch.as_ref(),
        limits::NAME_BYTES_MAX,
    )?;
    check::files(&place("files"), &task.files)?;
    let id = match &task.id {
        Some(given) => task_id(&place("id"), given)?,
        None => TaskId::from((context.fresh)("tsk")),
    };
    let corr_id = match &task.corr_id {
        Some(given) => CorrId::from(check::id(&place("corrId"), given)?),
        None => CorrId::from(id.as_str()),
    };
    let dependencies = each(
        &place("dependencies"),
        &task.dependencies,
        limits::DEPENDENCIES_MAX,
        |place, id| task_id(place, id),
    )?;
    let unsaid = Description::default();
    Ok(verb::NewTask {
        id,
        about: Description {
            title: task.title,
            description: task.description,
            files: task.files,
            branch: task.branch,
            max_retries: match task.max_retries {
                Some(given) => at_most(&place("maxRetries"), given, limits::RETRIES_MAX)?,
                None => unsaid.max_retries,
            },
            when_spent: unsaid.when_spent,
            priority: task.priority.map_or(unsaid.priority, Into::into),
            kind: task.kind.map_or(unsaid.kind, Into::into),
            required_skills: check::skills(&place("requiredSkills"), &task.required_skills)?,
            estimated_minutes: minutes(&place("estimatedMinutes"), task.estimated_minutes)?,
            audience: audience(&place("audience"), &task.audience)?,
            barred: Vec::new(),
        },
        dependencies,
        on_dependency_failure: task
            .on_dependency_failure
            .map_or(OnDependencyFailure::Block, Into::into),
        corr_id,
    })
}

fn minutes(field: &str, given: Option<u32>) -> Result<Option<u32>, Malformed> {
    given
        .map(|minutes| at_most(field, minutes, limits::MINUTES_MAX))
        .transpose()
}

fn audience(field: &str, agents: &[String]) -> Result<Vec<AgentId>, Malformed> {
    each(field, agents, limits::AUDIENCE_MAX, |place, agent| {
        agent_id(place, agent)
    })
}

/// `PATCH /tasks/:id`.
pub fn change(task: TaskId, patch: PatchTaskRequest) -> Result<verb::ChangeTask, Malformed> {
    if let Some(title) = &patch.title {
        filled("title", title, limits::TITLE_BYTES_MAX)?;
    }
    maybe_text(
        "description",
        patch.description.iter().flatten().next(),
        limits::DESCRIPTION_BYTES_MAX,
    )?;
    maybe_text(
        "branch",
        patch.branch.iter().flatten().next(),
        limits::NAME_BYTES_MAX,
    )?;
    check::files("files", patch.files.as_deref().unwrap_or_default())?;
    let max_retries = patch
        .max_retries
        .map(|retries| at_most("maxRetries", retries, limits::RETRIES_MAX));
    let patch = Patch {
        title: patch.title,
        description: patch.description,
        files: patch.files,
        branch: patch.branch,
        max_retries: max_retries.transpose()?,
        priority: patch.priority.map(Into::into),
        kind: patch.kind.map(Into::into),
        required_skills: patch
            .required_skills
            .map(|skills| check::skills("requiredSkills", &skills))
            .transpose()?,
        estimated_minutes: patch
            .estimated_minutes
            .map(|given| minutes("estimatedMinutes", given))
            .transpose()?,
        audience: patch
            .audience
            .map(|agents| audience("audience", &agents))
            .transpose()?,
        ..Patch::default()
    };
    Ok(verb::ChangeTask { task, patch })
}

/// `POST /tasks/:id/release`.
pub fn release(task: TaskId, request: ReleaseTaskRequest) -> Result<verb::ReleaseTask, Malformed> {
    maybe_text("reason", request.reason.as_ref(), limits::NOTE_BYTES_MAX)?;
    let agent = maybe("agentId", request.agent_id, agent_id)?;
    Ok(verb::ReleaseTask {
        task,
        agent,
        epoch: request.epoch,
    })
}

/// `POST /tasks/:id/cancel`.
pub fn cancel(task: TaskId, given: Option<String>) -> Result<verb::Cancel, Malformed> {
    Ok(verb::Cancel {
        task,
        reason: reason(given, "canceled by a person")?,
    })
}

/// `POST /tasks/:id/reject`.
pub fn reject(task: TaskId, request: RejectTaskRequest) -> Result<verb::Review, Malformed> {
    let ruling = if request.retry.unwrap_or(true) {
        verb::Ruling::Redo
    } else {
        verb::Ruling::Drop
    };
    Ok(verb::Review {
        task,
        ruling,
        reason: reason(request.reason, "rejected by a person")?,
    })
}

/// A reason that was given, or the one that goes without saying.
pub fn reason(given: Option<String>, default: &str) -> Result<String, Malformed> {
    maybe_text("reason", given.as_ref(), limits::NOTE_BYTES_MAX)?;
    Ok(given
        .filter(|given| !given.trim().is_empty())
        .unwrap_or_else(|| default.to_owned()))
}

/// A task as people name it: an id, or its number as `42` or `#42`. An id that is there wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRef {
    pub id: TaskId,
    pub number: Option<u64>,
}

/// Reads the id in a path.
pub fn task_ref(text: &str) -> Result<TaskRef, Malformed> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    let number = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())
        .flatten();
    Ok(TaskRef {
        id: id("id", text)?.into(),
        number,
    })
}
