//! The ten operations of the protocol, wherever they arrive: allowed, guarded, run and printed.

use std::net::IpAddr;
use std::time::Duration;

use switchboard_core::query::{MessageSince, Since};
use switchboard_core::verb::{Claimed, Completed, Touch};
use switchboard_core::{AgentId, Received, Verb};
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::from_wire::{self, Fetch};
use switchboard_wire::jetpack::{Operation, ReleaseLeaseResponse, to_wire};
use tokio::time::Instant;

use super::long_poll::look_again_at;
use super::{Answer, Calls, Class, Failure, Guard, Ids, Render, Seal, to_json};
use crate::auth::Caller;
use crate::hub;
use crate::runtime::judged;

/// A waiting reader looks again at most this often.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// What is nearly done when the hub stops gets this long to be answered.
const LAST_MOMENT: Duration = Duration::from_millis(250);

/// Prints a reply as this message.
macro_rules! printed {
    ($message:ident) => {
        |reply| to_json(&to_wire::$message(reply))
    };
}

impl Calls {
    /// Checks that the caller may, and may now; then runs it.
    ///
    /// Nothing is awaited before the change is queued, so that operations keep the order in which they are started.
    pub async fn perform(
        &self,
        caller: &Caller,
        (operation, call): (Operation, from_wire::Call),
        seal: Seal<'_>,
        from: IpAddr,
    ) -> Result<Answer, Failure> {
        self.allow(caller, operation, call.agent(), from)?;
        let guard = seal.guard(caller, Some(call.agent().as_str()), operation.as_str())?;
        self.act(call, guard, caller).await
    }

    /// Whether the caller may act as this agent, and the agent do this now; counted against its allowance.
    pub fn allow(
        &self,
        caller: &Caller,
        operation: Operation,
        agent: &AgentId,
        from: IpAddr,
    ) -> Result<(), Failure> {
        caller.may_act_as(agent)?;
        match operation {
            Operation::Register => self.limits.register(from)?,
            Operation::Heartbeat => self.limits.agent(Class::Heartbeat, agent)?,
            Operation::Claim => self.limits.agent(Class::Claim, agent)?,
            Operation::Progress
            | Operation::Complete
            | Operation::Fail
            | Operation::SendMessage
            | Operation::ReceiveMessages
            | Operation::AcquireLease
            | Operation::ReleaseLease => self.limits.agent(Class::Other, agent)?,
        }
        Ok(())
    }

    /// Runs it for a caller that may, and for as long as it may.
    pub async fn act(
        &self,
        call: from_wire::Call,
        guard: Guard,
        caller: &Caller,
    ) -> Result<Answer, Failure> {
        let vigil = match call.wait_for().is_zero() {
            true => None,
            false => self.auth.begin_vigil(&self.hub)(caller),
        };
        let Some(mut vigil) = vigil else {
            return self.act_now(call, guard).await;
        };
        tokio::select! {
            biased;
            answer = self.act_now(call, guard) => answer,
            () = vigil.over(&self.auth, &self.hub) => {
                Err(Failure::Unauthenticated(format!("{} while the call waited", vigil.what_ended())))
            }
        }
    }

    /// Runs a change and prints its reply, or hands out what was printed the first time.
    pub async fn run<V>(
        &self,
        verb: V,
        guard: Guard,
        render: fn(&V::Reply) -> Vec<u8>,
    ) -> Result<Answer, Failure>
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        Ok(self.hub.call(verb, guard, render).await?.print(render))
    }

    async fn act_now(&self, call: from_wire::Call, guard: Guard) -> Result<Answer, Failure> {
        use from_wire::Call;
        match call {
            Call::Register(verb) => self.run(verb, guard, printed!(registered)).await,
            Call::Heartbeat(verb) => self.run(verb, guard, printed!(heartbeat)).await,
            Call::Claim { claim, wait_for } => {
                let render: Render<Claimed> = printed!(claimed);
                let waiting = self.hub.claim(claim, guard, render, wait_for);
                let outcome = self.unless_stopping(wait_for, waiting).await?;
                Ok(outcome.print(render))
            }
            Call::Progress(verb) => self.run(verb, guard, printed!(progressed)).await,
            Call::Complete(verb) => {
                let render: Render<Completed> = printed!(completed);
                let call = |verb| self.hub.call(verb, guard.clone(), render);
                Ok(judged(&self.hub, verb, call).await?.print(render))
            }
            Call::Fail(verb) => self.run(verb, guard, printed!(failed)).await,
            Call::Send(verb) => self.run(verb, guard, printed!(sent)).await,
            Call::Receive { fetch, wait_for } => self.receive(fetch, guard, wait_for).await,
            Call::AcquireLease(verb) => self.run(verb, guard, printed!(lease_answer)).await,
            Call::ReleaseLease { release, .. } => self.run(release, guard, lease_released).await,
        }
    }

    async fn receive(
        &self,
        fetch: Fetch,
        guard: Guard,
        wait_for: Duration,
    ) -> Result<Answer, Failure> {
        match fetch {
            Fetch::Next(receive) => {
                let render: Render<Vec<Received>> = printed!(received);
                let waiting = self.hub.receive(receive, guard, render, wait_for);
                let outcome = self.unless_stopping(wait_for, waiting).await?;
                Ok(outcome.print(render))
            }
            Fetch::Since(wanted) => {
                // To ask is a sign of life, also for who only reads; nothing is kept of the answer.
                let touch = Touch {
                    agent: wanted.agent.clone(),
                };
                self.hub.run(touch.clone()).await?;
                self.check_since(&wanted.since).await?;
                let answer = self.read_since(wanted, wait_for).await?;
                // A signature is used up by an answer.
                if guard.nonce.is_some() {
                    self.hub.run_signed(touch, guard.nonce).await?;
                }
                Ok(answer)
            }
        }
    }

    /// A point that is no message's would be taken for one before all messages. An id that the hub makes is a message's, also
    /// when that one is no longer kept.
    async fn check_since(&self, since: &Since) -> Result<(), Failure> {
        let Since::Message(id) = since else {
            return Ok(());
        };
        let wanted = id.clone();
        if Ids::made("msg", id.as_str())
            || self
                .hub
                .read(move |ledger| ledger.message(&wanted))
                .await?
                .is_some()
        {
            return Ok(());
        }
        let message = "expected an ISO-8601 time or the id of a message that is kept";
        Err(Malformed::field("since", message).into())
    }

    /// A call that waits is let go when the hub stops; one that is nearly done is still answered.
    async fn unless_stopping<T>(
        &self,
        wait_for: Duration,
        waiting: impl Future<Output = Result<T, hub::Error>>,
    ) -> Result<T, hub::Error> {
        if wait_for.is_zero() {
            return waiting.await;
        }
        let mut waiting = std::pin::pin!(waiting);
        tokio::select! {
            biased;
            done = &mut waiting => done,
            () = self.stopping.cancelled() => tokio::time::timeout(LAST_MOMENT, waiting)
                .await
                .unwrap_or(Err(hub::Error::Stopping)),
        }
    }

    /// Everything after a point, again; nothing is marked.
    async fn read_since(&self, since: MessageSince, wait_for: Duration) -> Result<Answer, Failure> {
        let deadline = Instant::now() + wait_for;
        // Subscribed before it looks, so that a message that comes in between still wakes it.
        let mut latest = self.hub.latest();
        let mut waits = false;
        loop {
            latest.mark_unchanged();
            let (wanted, now) = (since.clone(), self.hub.time());
            let read = self
                .hub
                .read(move |ledger| ledger.messages_since(&wanted, now));
            let looked = read.await;
            let over = Instant::now() >= deadline;
            let sleep_until = match looked {
                Ok(messages) if messages.is_empty() && !over => deadline,
                Ok(messages) => {
                    let messages = messages.into_iter();
                    let messages: Vec<_> = messages.map(|it| it.read_by(&since.agent)).collect();
                    return Ok(Answer {
                        body: to_json(&to_wire::read_messages(&messages)).into(),
                        replayed: false,
                    });
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
                () = self.stopping.cancelled() => return Err(hub::Error::Stopping.into()),
            }
        }
    }
}

fn lease_released(released: &bool) -> Vec<u8> {
    to_json(&ReleaseLeaseResponse {
        success: true,
        released: *released,
    })
}
