//! Agents: they announce themselves, stay alive, are looked at, asked to stop, and leave.

use switchboard_core::verb::{Deregister, IssueCommand};
use switchboard_core::{CommandId, Task};
use switchboard_store::{AgentFilter, LeaseFilter, TaskRef};
use switchboard_wire::jetpack::{
    AgentPage, AgentQuery, AgentResponse, CommandRequest, CommandResponse, Done, Operation,
    from_wire, to_wire,
};

use super::call::Call;
use super::error::Failure;
use super::lists::{all, page};
use super::reply::{Reply, to_json};
use super::seal::Opened;
use super::{Shared, operation};

pub async fn register(app: Shared, call: Call) -> Result<Reply, Failure> {
    operation::on_path(&app, &call, Operation::Register, None).await
}

pub async fn heartbeat(app: Shared, call: Call) -> Result<Reply, Failure> {
    operation::on_path(&app, &call, Operation::Heartbeat, Some(&call.id()?)).await
}

pub async fn list(app: Shared, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let query: AgentQuery = call.query()?;
    let statuses = query
        .status
        .iter()
        .map(|status| status.as_str().to_owned())
        .collect();
    let filter = AgentFilter {
        statuses,
        with_gone: false,
    };
    let page = page(query.limit, query.after)?;
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

pub async fn show(app: Shared, call: Call) -> Result<Reply, Failure> {
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
            let leases = reader.leases(&filter, &all())?.rows;
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

pub async fn deregister(app: Shared, call: Call) -> Result<Reply, Failure> {
    let opened = Opened::new(&app, &call).await?;
    let agent = from_wire::agent_id("id", &call.id()?)?;
    opened.acts_as(&agent)?;
    let guard = opened.guard(Some(&agent), "deregister")?;
    opened
        .run(Deregister { agent }, guard, 200, |()| {
            to_json(&Done { success: true })
        })
        .await
}

pub async fn command(app: Shared, call: Call) -> Result<Reply, Failure> {
    let (opened, request) = Opened::read::<CommandRequest>(&app, &call).await?;
    let agent = from_wire::agent_id("id", &call.id()?)?;
    let id = CommandId::from(app.ids.fresh("cmd"));
    let verb: IssueCommand = from_wire::command(agent, request, id)?;
    let guard = opened.guard(None, "commandAgent")?;
    opened
        .run(verb, guard, 201, |command| {
            to_json(&CommandResponse {
                success: true,
                command: to_wire::command(command),
            })
        })
        .await
}
