//! A change that is none of the ten operations: its envelope, its sender, its key, its answer.

use serde::Deserialize;
use switchboard_core::{AgentId, Verb};
use switchboard_wire::jetpack::Envelope;
use switchboard_wire::parse;

use super::App;
use super::call::{Call, VERSION};
use super::error::Failure;
use super::reply::Reply;
use crate::auth::Caller;
use crate::call::{Class, Guard, open};

/// A call whose envelope was read and whose sender is known.
pub struct Change<'a> {
    app: &'a App,
    call: &'a Call,
    envelope: Envelope,
    pub caller: Caller,
    /// The agent that it acts as, if it does.
    actor: Option<AgentId>,
    /// The call did not say which version it speaks.
    pub versionless: bool,
}

impl<'a> Change<'a> {
    /// A call whose body says nothing beyond its envelope.
    pub async fn new(app: &'a App, call: &'a Call) -> Result<Self, Failure> {
        Self::around(app, call, parse(&call.body)?).await
    }

    /// A call with a message in its body.
    pub async fn read<T: Deserialize<'a>>(
        app: &'a App,
        call: &'a Call,
    ) -> Result<(Self, T), Failure> {
        let (envelope, message) = open::open(&call.body)?;
        Ok((Self::around(app, call, envelope).await?, message))
    }

    pub async fn around(app: &'a App, call: &'a Call, envelope: Envelope) -> Result<Self, Failure> {
        let versionless = open::lacks_version(&envelope, call.header(VERSION))?;
        // A signature in the body says nothing of the path, and so counts only for what names itself in the body.
        let caller = call.caller(app, None).await?;
        Ok(Change {
            app,
            call,
            envelope,
            caller,
            actor: None,
            versionless,
        })
    }

    /// The call acts as this agent: it must be allowed to, and counts against the agent's allowance.
    pub fn acts_as(&mut self, agent: &AgentId) -> Result<(), Failure> {
        self.acts_in(Class::Other, agent)
    }

    /// The same of a class that has an allowance of its own.
    pub fn acts_in(&mut self, class: Class, agent: &AgentId) -> Result<(), Failure> {
        self.caller.may_act_as(agent)?;
        self.app.limits.agent(class, agent)?;
        self.actor = Some(agent.clone());
        Ok(())
    }

    /// What is committed with it. The key is kept under the name of its route.
    pub fn guard(&self) -> Result<Guard, Failure> {
        let actor = self.actor.as_ref().map(AgentId::as_str);
        let seal = self.call.seal(&self.envelope);
        Ok(seal.guard(&self.caller, actor, self.call.operation)?)
    }

    /// Runs it under this call's key and prints its reply.
    pub async fn run<V>(
        &self,
        verb: V,
        status: u16,
        render: fn(&V::Reply) -> Vec<u8>,
    ) -> Result<Reply, Failure>
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        let answer = self.app.run(verb, self.guard()?, render).await?;
        let mut reply = Reply::from(answer);
        reply.status = status;
        reply.versionless = self.versionless;
        Ok(reply)
    }
}
