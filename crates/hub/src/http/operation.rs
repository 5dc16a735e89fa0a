//! The ten operations of the protocol, wherever they arrive: on their own path, in an envelope, in a batch.

use std::net::IpAddr;
use std::time::Duration;

use switchboard_core::verb::{
    Claimed, Completed, Failed, HeartbeatTaken, LeaseAnswer, Progressed, Registered, Sent, Touch,
};
use switchboard_core::{AgentId, Received, Verb};
use switchboard_store::{MessageSince, Since};
use switchboard_wire::jetpack::from_wire::{self, Fetch};
use switchboard_wire::jetpack::{Operation, ReleaseLeaseResponse, to_wire};
use tokio::time::Instant;

use super::call::Call;
use super::error::Failure;
use super::reply::{Reply, to_json};
use super::seal::{self, Seal};
use super::with::With;
use super::{App, open};
use crate::auth::Caller;
use crate::hub::{Guard, Outcome};
use crate::long_poll::look_again_at;
use crate::rate::Class;

/// A waiting reader looks again at most this often.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// What is nearly done when the hub stops gets this long to be answered.
const LAST_MOMENT: Duration = Duration::from_millis(250);

/// An operation on its own path.
pub async fn on_path(
    app: &App,
    call: &Call,
    operation: Operation,
    path_id: Option<&str>,
) -> Result<Reply, Failure> {
    let (envelope, request) = open::operation(operation, &call.body)?;
    envelope.expect_covered(operation, request.path_member())?;
    let versionless = seal::is_versionless(call, &envelope)?;
    let asked = from_wire::Call::new(
        request,
        path_id,
        &mut app.context(&mut |kind| app.ids.fresh(kind)),
    )?;
    let caller = call.caller(app, Some(&envelope)).await?;
    let mut reply = perform(app, &caller, asked, Seal::of(call, &envelope), call.peer.ip).await?;
    reply.versionless = versionless;
    Ok(reply)
}

/// Checks that the caller may, and may now; then runs it.
///
/// Nothing is awaited before the change is queued, so that operations keep the order in which they are started.
pub async fn perform(
    app: &App,
    caller: &Caller,
    asked: from_wire::Call,
    seal: Seal<'_>,
    from: IpAddr,
) -> Result<Reply, Failure> {
    let operation = operation_of(&asked);
    let agent = asked.agent();
    allow(app, caller, operation, agent, from)?;
    let guard = seal.guard(caller, Some(agent.as_str()), operation.as_str())?;
    act(app, asked, guard, caller).await
}

/// Runs it for a caller that may, and for as long as it may.
pub async fn act(
    app: &App,
    asked: from_wire::Call,
    guard: Guard,
    caller: &Caller,
) -> Result<Reply, Failure> {
    let (from_wire::Call::Claim { wait_for, .. } | from_wire::Call::Receive { wait_for, .. }) =
        &asked
    else {
        return act_now(app, asked, guard).await;
    };
    let vigil = match wait_for.is_zero() {
        true => None,
        false => app.auth.begin_vigil(&app.hub)(caller),
    };
    let Some(mut vigil) = vigil else {
        return act_now(app, asked, guard).await;
    };
    tokio::select! {
        biased;
        answer = act_now(app, asked, guard) => answer,
        () = vigil.over(&app.auth, &app.hub) => {
            Err(Failure::Unauthenticated(format!("{} while the call waited", vigil.what_ended())))
        }
    }
}

async fn act_now(app: &App, asked: from_wire::Call, guard: Guard) -> Result<Reply, Failure> {
    use from_wire::Call as Asked;
    match asked {
        Asked::Register(verb) => {
            let agent = verb.agent.clone();
            run(app, With(verb, agent), guard, registered).await
        }
        Asked::Heartbeat(verb) => run(app, verb, guard, heartbeat).await,
        Asked::Claim { claim, wait_for } => {
            let waiting = app.hub.claim(claim, guard, claimed, wait_for);
            let outcome = unless_stopping(app, wait_for, waiting).await?;
            Ok(rendered(outcome, claimed))
        }
        Asked::Progress(verb) => run(app, verb, guard, progressed).await,
        Asked::Complete(verb) => run(app, verb, guard, completed).await,
        Asked::Fail(verb) => run(app, verb, guard, failed).await,
        Asked::Send(verb) => run(app, verb, guard, sent).await,
        Asked::Receive { fetch, wait_for } => receive(app, fetch, guard, wait_for).await,
        Asked::AcquireLease(verb) => run(app, verb, guard, lease_answer).await,
        Asked::ReleaseLease { release, .. } => run(app, release, guard, lease_released).await,
    }
}

async fn receive(
    app: &App,
    fetch: Fetch,
    guard: Guard,
    wait_for: Duration,
) -> Result<Reply, Failure> {
    match fetch {
        Fetch::Next(receive) => {
            let render = |messages: &Vec<Received>| received(messages);
            let waiting = app.hub.receive(receive, guard, render, wait_for);
            let outcome = unless_stopping(app, wait_for, waiting).await?;
            Ok(rendered(outcome, render))
        }
        Fetch::Since {
            agent,
            since,
            kinds,
            limit,
        } => {
            let since = match since {
                from_wire::Since::Time(at) => Since::Instant(at),
                from_wire::Since::Message(id) => Since::Message(id),
            };
            let wanted = MessageSince {
                agent,
                since,
                kinds,
                limit,
            };
            // To ask is a sign of life, also for who only reads; nothing is kept of the answer.
            let touch = Touch {
                agent: wanted.agent.clone(),
            };
            app.hub.run(touch.clone()).await?;
            let reply = read_since(app, wanted, wait_for).await?;
            // A signature is used up by an answer.
            if guard.nonce.is_some() {
                app.hub.run_signed(touch, guard.nonce).await?;
            }
            Ok(reply)
        }
    }
}

pub fn operation_of(asked: &from_wire::Call) -> Operation {
    use from_wire::Call as Asked;
    match asked {
        Asked::Register(_) => Operation::Register,
        Asked::Heartbeat(_) => Operation::Heartbeat,
        Asked::Claim { .. } => Operation::Claim,
        Asked::Progress(_) => Operation::Progress,
        Asked::Complete(_) => Operation::Complete,
        Asked::Fail(_) => Operation::Fail,
        Asked::Send(_) => Operation::SendMessage,
        Asked::Receive { .. } => Operation::ReceiveMessages,
        Asked::AcquireLease(_) => Operation::AcquireLease,
        Asked::ReleaseLease { .. } => Operation::ReleaseLease,
    }
}

/// Whether the caller may act as this agent, and the agent do this now; counted against its allowance.
pub fn allow(
    app: &App,
    caller: &Caller,
    operation: Operation,
    agent: &AgentId,
    from: IpAddr,
) -> Result<(), Failure> {
    caller.may_act_as(agent)?;
    match operation {
        Operation::Register => app.limits.register(from)?,
        Operation::Heartbeat => app.limits.agent(Class::Heartbeat, agent)?,
        Operation::Claim => app.limits.agent(Class::Claim, agent)?,
        Operation::Progress
        | Operation::Complete
        | Operation::Fail
        | Operation::SendMessage
        | Operation::ReceiveMessages
        | Operation::AcquireLease
        | Operation::ReleaseLease => app.limits.agent(Class::Other, agent)?,
    }
    Ok(())
}

/// Runs a change and prints its reply, or hands out what was printed the first time.
pub async fn run<V>(
    app: &App,
    verb: V,
    guard: Guard,
    render: fn(&V::Reply) -> Vec<u8>,
) -> Result<Reply, Failure>
where
    V: Verb + Send + 'static,
    V::Reply: Send,
{
    Ok(rendered(app.hub.call(verb, guard, render).await?, render))
}

fn rendered<R>(outcome: Outcome<R>, render: fn(&R) -> Vec<u8>) -> Reply {
    match outcome {
        Outcome::Fresh(reply) => Reply::bytes(200, render(&reply)),
        Outcome::Replayed(answer) => {
            let mut reply = Reply::bytes(200, answer.to_vec());
            reply.replayed = true;
            reply
        }
    }
}

/// A call that waits is let go when the hub stops; one that is nearly done is still answered.
async fn unless_stopping<T>(
    app: &App,
    wait_for: Duration,
    waiting: impl Future<Output = Result<T, crate::hub::Error>>,
) -> Result<T, Failure> {
    if wait_for.is_zero() {
        return Ok(waiting.await?);
    }
    let mut waiting = std::pin::pin!(waiting);
    tokio::select! {
        biased;
        done = &mut waiting => Ok(done?),
        () = app.stopping.cancelled() => match tokio::time::timeout(LAST_MOMENT, waiting).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(crate::hub::Error::Stopping.into()),
        },
    }
}

/// Everything after a point, again; nothing is marked.
async fn read_since(app: &App, since: MessageSince, wait_for: Duration) -> Result<Reply, Failure> {
    let deadline = Instant::now() + wait_for;
    // Subscribed before it looks, so that a message that comes in between still wakes it.
    let mut latest = app.hub.latest();
    let mut waits = false;
    loop {
        latest.mark_unchanged();
        let (wanted, now) = (since.clone(), app.hub.time());
        let looked = app
            .hub
            .read(move |reader| reader.messages_since(&wanted, now))
            .await;
        let over = Instant::now() >= deadline;
        let sleep_until = match looked {
            Ok(messages) if messages.is_empty() && !over => deadline,
            Ok(messages) => {
                return Ok(Reply::bytes(
                    200,
                    to_json(&to_wire::read_messages(&messages)),
                ));
            }
            // The ledger is away: who waits already goes on.
            Err(error) if waits && !over && error.may_pass() => look_again_at().min(deadline),
            Err(error) => return Err(error.into()),
        };
        waits = true;
        let looked_at = Instant::now();
        let woken = async {
            let changed = latest.changed().await;
            tokio::time::sleep_until(looked_at + LOOK_AGAIN_AFTER).await;
            changed
        };
        tokio::select! {
            _ = tokio::time::timeout_at(sleep_until, woken) => {}
            () = app.stopping.cancelled() => return Err(crate::hub::Error::Stopping.into()),
        }
    }
}

fn registered((agent, reply): &(AgentId, Registered)) -> Vec<u8> {
    to_json(&to_wire::registered(agent, reply))
}

fn heartbeat(reply: &HeartbeatTaken) -> Vec<u8> {
    to_json(&to_wire::heartbeat(reply))
}

fn claimed(reply: &Claimed) -> Vec<u8> {
    to_json(&to_wire::claimed(reply))
}

fn progressed(reply: &Progressed) -> Vec<u8> {
    to_json(&to_wire::progressed(reply))
}

fn completed(reply: &Completed) -> Vec<u8> {
    to_json(&to_wire::completed(reply))
}

fn failed(reply: &Failed) -> Vec<u8> {
    to_json(&to_wire::failed(reply))
}

fn sent(reply: &Sent) -> Vec<u8> {
    to_json(&to_wire::sent(reply))
}

fn received(messages: &[Received]) -> Vec<u8> {
    to_json(&to_wire::received(messages))
}

fn lease_answer(reply: &LeaseAnswer) -> Vec<u8> {
    to_json(&to_wire::lease_answer(reply))
}

fn lease_released(released: &bool) -> Vec<u8> {
    to_json(&ReleaseLeaseResponse {
        success: true,
        released: *released,
    })
}
