//! A role on the broker: tasks are delegated to it by messages, and it answers with messages.

use std::sync::Arc;

use switchboard_client::broker::{Address, Arrived, Heard, Outgoing, Receiver, send};

use super::plan::Random;
use super::world::{Told, World, stuck};
use crate::failure::Failure;

/// Who delegates.
pub const LEAD: &str = "architect";
/// Who does it; one of the roles that there always are.
pub const ROLE: &str = "builder";

/// Listens as a role, and does what it is told until it is stopped.
pub async fn work(world: Arc<World>, at: Address) -> Result<(), Failure> {
    let mut random = Random::new(world.seed, ROLE);
    let mut said = 0;
    let connect = at.clone();
    let mut receiver = Receiver::connect(move || Some(connect.clone()));
    loop {
        let Heard::Message(message) = receiver.next().await else {
            continue;
        };
        receiver.received(&message.trace_id);
        let Some(number) = delegated(&message) else {
            continue;
        };
        world.work(&mut random).await;
        said += 1;
        let text = format!("(BUILDER #{said}): [DONE #{number}] it is");
        tell(&at, LEAD, format!("demo-done-{number}"), text).await?;
        world.tell(Told::Done(number)).await;
    }
}

/// Delegates these to the role, one message each.
pub async fn delegate(world: Arc<World>, at: Address) -> Result<(), Failure> {
    let lead = Address {
        role: LEAD.to_owned(),
        ..at
    };
    for (at, title) in world.delegated.iter().enumerate() {
        let number = at + 1;
        let text = format!("(ARCH #{number}): [TASK] {title}");
        tell(&lead, ROLE, format!("demo-role-{number}"), text).await?;
    }
    Ok(())
}

async fn tell(at: &Address, target: &str, id: String, content: String) -> Result<(), Failure> {
    let message = Outgoing {
        target: target.to_owned(),
        content,
        priority: "normal".to_owned(),
        message_id: id,
    };
    let ack = send(at, &message).await?;
    match ack.accepted {
        true => Ok(()),
        false => Err(stuck(&at.role, ack.status)),
    }
}

/// The number at the end of what was delegated: `… (task #7)`.
fn delegated(message: &Arrived) -> Option<u64> {
    let (_, number) = message.content.rsplit_once("(task #")?;
    number.strip_suffix(')')?.parse().ok()
}
