//! Roles: who can be spoken to, and who is there.

use std::sync::Arc;

use switchboard_core::AgentId;
use switchboard_core::run::Run;
use switchboard_core::talk::{Holders, Owed, Session, Spoken};
use switchboard_wire::jetpack::{RolesResponse, to_wire};

use super::AppState;
use super::call::Call;
use super::error::Failure;
use super::reply::Reply;

pub async fn list(app: AppState, call: Call) -> Result<Reply, Failure> {
    app.reader(&call).await?;
    let broker = Arc::clone(&app.broker);
    let read = app.hub.read(move |reader| {
        let session = reader.private::<Session>("")?;
        let session = session.map_or(0, |session| session.number);
        let runs = reader.privates::<Run>(&Run::all())?;
        let mut shown = Vec::new();
        for role in broker.roles().iter() {
            let id = AgentId::from(role.id.as_str());
            let named = reader.private::<Holders>(role.id.clone())?;
            let mut holders = Vec::new();
            for agent in named.map(|row| row.agents).unwrap_or_default() {
                holders.extend(reader.agent(&agent)?);
            }
            let known = to_wire::Known {
                agent: reader.agent(&id)?,
                holders,
                spoken: reader.private::<Spoken>(role.id.clone())?,
                runs: runs.iter().any(|run| run.agent == id),
                owed: reader.privates::<Owed>(&Owed::owed_by(&id))?.len(),
            };
            shown.push(to_wire::role(role, &known, session));
        }
        Ok((session, shown))
    });
    let (session, roles) = read.await?;
    Ok(Reply::ok(&RolesResponse {
        success: true,
        session,
        roles,
    }))
}
