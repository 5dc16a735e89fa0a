//! Agents: they announce themselves, stay alive, are looked at, asked to stop, and leave.

use switchboard_core::query::{LeaseFilter, Page, TaskRef};
use switchboard_core::verb::{Deregister, IssueCommand};
use switchboard_core::{CommandId, Task};
use switchboard_wire::jetpack::{
    AgentPage, AgentQuery, AgentResponse, CommandRequest, CommandResponse, Done, from_wire, to_wire,
};

use super::AppState;
use super::call::Call;
use super::change::Change;
use super::error::Failure;
use super::reply::Reply;
use crate::call::to_json;

pub async fn list(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: AgentQuery = call.query()?;
    let (filter, page) = from_wire::lists::agents(query)?;
    let mut found = app
        .hub
        .read(move |reader| reader.agents(&filter, &page))
        .await?;
    found
        .rows
        .iter_mut()
        .for_each(|agent| app.hub.freshen(agent));
    let agents = found.rows.iter().map(to_wire::agent).collect();
    Ok(Reply::ok(&AgentPage {
        success: true,
        agents,
        next: found.next,
    }))
}

pub async fn show(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let id = from_wire::agent_id("id", &call.id()?)?;
    let wanted = id.clone();
    let found = app
        .hub
        .read(move |reader| {
            let Some(agent) = reader.agent(&wanted)? else {
                return Ok(None);
            };
            let held = agent
                .holds
                .iter()
                .map(|id| reader.task(&TaskRef::Id(id.clone())));
            let tasks = held
                .filter_map(Result::transpose)
                .collect::<Result<Vec<Task>, _>>()?;
            let filter = LeaseFilter {
                agent: Some(wanted),
                ..LeaseFilter::default()
            };
            let leases = reader.leases(&filter, &Page::first())?.rows;
            Ok(Some((agent, tasks, leases)))
        })
        .await?;
    let Some((mut agent, tasks, leases)) = found else {
        let refusal = switchboard_core::Refusal::AgentNotRegistered { agent: id };
        return Err(crate::hub::Error::Refused(refusal).into());
    };
    app.hub.freshen(&mut agent);
    Ok(Reply::ok(&AgentResponse {
        success: true,
        agent: to_wire::agent(&agent),
        tasks: tasks.iter().map(to_wire::task).collect(),
        leases: leases.iter().map(to_wire::lease).collect(),
        commands: agent.commands.iter().map(to_wire::command).collect(),
    }))
}

pub async fn deregister(app: AppState, call: Call) -> Result<Reply, Failure> {
    let mut change = Change::new(&app, &call).await?;
    let agent = from_wire::agent_id("id", &call.id()?)?;
    change.acts_as(&agent)?;
    let done = |(): &()| to_json(&Done { success: true });
    change.run(Deregister { agent }, 200, done).await
}

pub async fn command(app: AppState, call: Call) -> Result<Reply, Failure> {
    let (change, request) = Change::read::<CommandRequest>(&app, &call).await?;
    let agent = from_wire::agent_id("id", &call.id()?)?;
    let id = CommandId::from(app.ids.fresh("cmd"));
    let verb: IssueCommand = from_wire::command(agent, request, id)?;
    change
        .run(verb, 201, |command| {
            to_json(&CommandResponse {
                success: true,
                command: to_wire::command(command),
            })
        })
        .await
}
