//! What is only looked at: single rows, lists, the log.

use serde_json::{Value, json};
use switchboard_core::Refusal;
use switchboard_core::limits::PAGE_MAX;
use switchboard_store::{LeaseFilter, Page, Reader, SnapshotFilter, TaskFilter, TaskRef};
use switchboard_wire::jetpack::{ErrorBody, Priority, TaskStatus, TaskType, from_wire, to_wire};

use super::{Answered, ROOT, Stage};
use crate::scenarios::act::Call;

fn page() -> Page {
    Page {
        after: None,
        limit: PAGE_MAX,
    }
}

impl Stage {
    pub(super) fn look(&mut self, call: &Call) -> Answered {
        let reader = self.ledger.reader();
        let reader = &*reader;
        let id = call.id.as_deref().unwrap_or_default();
        let given = |name: &str| call.given.get(name).and_then(Value::as_str);
        match call.route {
            "getTask" => task(reader, id),
            "getAgent" => agent(reader, id),
            "getMessage" => message(reader, id),
            "listTasks" => tasks(reader, call),
            "checkLease" => {
                let query = switchboard_wire::jetpack::CheckLeaseQuery {
                    file_path: given("filePath").map(str::to_owned),
                    agent_id: given("agentId").map(str::to_owned),
                };
                let state = self.run(from_wire::check_lease(query, ROOT)?)?;
                Ok(super::json(&to_wire::lease_state(&state)))
            }
            "listLeases" => {
                let near = given("under").map(|path| from_wire::lease_path("under", path, ROOT));
                let filter = LeaseFilter {
                    agent: given("agentId").map(Into::into),
                    task: given("taskId").map(Into::into),
                    near: near.transpose()?,
                };
                let rows = reader
                    .leases(&filter, &page())
                    .expect("leases can be read")
                    .rows;
                let leases: Vec<_> = rows.iter().map(to_wire::lease).collect();
                Ok(json!({ "success": true, "leases": leases }))
            }
            "getBaseline" => {
                let row = reader.baseline().expect("the baseline can be read");
                let baseline = row.as_ref().map(to_wire::baseline);
                Ok(json!({ "success": true, "baseline": baseline }))
            }
            "listSnapshots" => {
                let filter = SnapshotFilter {
                    task: given("taskId").map(Into::into),
                };
                let rows = reader.snapshots(&filter, &page());
                let rows = rows.expect("snapshots can be read").rows;
                let snapshots: Vec<_> = rows.iter().map(to_wire::snapshot).collect();
                Ok(json!({ "success": true, "snapshots": snapshots }))
            }
            "searchMemory" => {
                let words = given("q").unwrap_or_default();
                let rows = reader.learnings(words, PAGE_MAX);
                let rows = rows.expect("learnings can be read");
                let learnings: Vec<_> = rows.iter().map(to_wire::learning).collect();
                Ok(json!({ "success": true, "learnings": learnings }))
            }
            "events" => {
                let types = call.given["types"].as_array().cloned().unwrap_or_default();
                let answer = self.events_after(self.events_seen, &types);
                self.events_seen = self.latest();
                Ok(answer)
            }
            other => panic!("nobody runs {other} on the rules alone"),
        }
    }

    pub(super) fn latest(&self) -> u64 {
        let head = self.ledger.reader().head();
        head.expect("the head can be read").seq
    }

    /// No types: all of them.
    pub(super) fn events_after(&self, after: u64, types: &[Value]) -> Value {
        let found = self.ledger.reader().events(after, PAGE_MAX);
        let found = found.expect("events can be read");
        let wanted = found
            .iter()
            .filter(|logged| types.is_empty() || types.contains(&logged.event.kind().into()));
        let events: Vec<_> = wanted.map(to_wire::event).collect();
        json!({ "success": true, "events": events })
    }
}

fn refused(refusal: &Refusal) -> ErrorBody {
    ErrorBody::from(refusal)
}

fn task(reader: &dyn Reader, id: &str) -> Answered {
    let row = reader
        .task(&TaskRef::Id(id.into()))
        .expect("a task can be read");
    let row = row.ok_or_else(|| refused(&Refusal::TaskNotFound { task: id.into() }))?;
    let ended = reader.attempts(row.number).expect("attempts can be read");
    let ended = ended.iter().map(to_wire::attempt);
    let attempts: Vec<_> = ended.chain(to_wire::running_attempt(&row)).collect();
    let dependants = reader.dependants(&row.id).expect("dependants can be read");
    let dependants: Vec<&str> = dependants.iter().map(|id| id.as_str()).collect();
    let task = to_wire::task(&row);
    Ok(json!({ "success": true, "task": task, "attempts": attempts, "dependants": dependants }))
}

fn agent(reader: &dyn Reader, id: &str) -> Answered {
    let row = reader.agent(&id.into()).expect("an agent can be read");
    let row = row.ok_or_else(|| refused(&Refusal::AgentNotRegistered { agent: id.into() }))?;
    let held = row.holds.iter().map(|task| {
        let task = reader.task(&TaskRef::Id(task.clone()));
        task.expect("a task can be read")
            .expect("what is held is there")
    });
    let tasks: Vec<_> = held.map(|task| to_wire::task(&task)).collect();
    let commands: Vec<_> = row.commands.iter().map(to_wire::command).collect();
    let agent = to_wire::agent(&row);
    Ok(json!({ "success": true, "agent": agent, "tasks": tasks, "commands": commands }))
}

fn message(reader: &dyn Reader, id: &str) -> Answered {
    let row = reader.message(&id.into()).expect("a message can be read");
    let missing = || refused(&Refusal::MessageNotFound { message: id.into() });
    let (message, deliveries) = row.ok_or_else(missing)?;
    let deliveries: Vec<_> = deliveries.iter().map(to_wire::delivery).collect();
    let message = to_wire::message(&message);
    Ok(json!({ "success": true, "message": message, "deliveries": deliveries }))
}

fn tasks(reader: &dyn Reader, call: &Call) -> Answered {
    let words = |name: &str| -> Vec<Value> {
        let list = call.given.get(name).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let read = |value: Value| serde_json::from_value::<TaskStatus>(value).expect("a status");
    let statuses = words("status").into_iter().map(read);
    let priority = |value: Value| serde_json::from_value::<Priority>(value).expect("a priority");
    let kind = |value: Value| serde_json::from_value::<TaskType>(value).expect("a type");
    let given = |name: &str| call.given.get(name).and_then(Value::as_str);
    let filter = TaskFilter {
        statuses: statuses.filter_map(|status| status.to_core()).collect(),
        priorities: words("priority")
            .into_iter()
            .map(|one| priority(one).into())
            .collect(),
        kinds: words("type")
            .into_iter()
            .map(|one| kind(one).into())
            .collect(),
        holder: given("assignedAgent").map(Into::into),
        skill: given("skill").map(str::to_owned),
        branch: given("branch").map(str::to_owned),
        newest_first: false,
    };
    let rows = reader
        .tasks(&filter, &page())
        .expect("tasks can be read")
        .rows;
    let tasks: Vec<_> = rows.iter().map(to_wire::task).collect();
    Ok(json!({ "success": true, "tasks": tasks }))
}
