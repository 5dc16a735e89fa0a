//! The rules on an engine with a clock that the scene moves: no socket, no sequencer, no threads.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use switchboard_core::verb::{
    Deregister, EndCooldown, ExpireLeases, ExpireMessages, MarkSilent, Prune, PruneTasks,
    ReleaseRetries, Retention, RetryTask, Review, Ruling, Serve, Steer, Sweep, Why,
};
use switchboard_core::{CommandId, GatePolicy, Refusal, STEWARD, Verb};
use switchboard_store::ManualClock;
use switchboard_store::conformance::{Cache, Ledger, START};
use switchboard_wire::jetpack::from_wire::{self, Context, Fetch};
use switchboard_wire::jetpack::{
    BaselineRequest, BaselineResponse, CommandResponse, CreateTasksRequest, Done, ErrorBody,
    Operation, ReleaseLeaseResponse, Request, TaskResponse, TasksResponse, to_wire,
};
use switchboard_wire::parse;

use super::act::{Call, Deed};
use super::engine::{Ground, Kind};
use super::scene::Scene;
use super::{Answer, Driver};

mod look;

pub struct Rules {
    kind: Kind,
    cache: Cache,
    stage: Option<Stage>,
}

/// One scene's ledger.
pub struct Stage {
    ledger: Ledger,
    clock: ManualClock,
    policy: Arc<GatePolicy>,
    ids: u64,
    events_seen: u64,
    _ground: Ground,
}

/// The project that lease paths are relative to.
const ROOT: &str = "/project";

impl Rules {
    pub fn new(kind: Kind, cache: Cache) -> Self {
        Rules {
            kind,
            cache,
            stage: None,
        }
    }
}

impl Driver for Rules {
    fn name(&self) -> String {
        let forgets = match &self.cache {
            Cache::Kept => "",
            Cache::Forgotten | Cache::ForgottenAtRandom(_) => ", forgetting",
        };
        format!("the rules over {}{forgets}", self.kind.name())
    }

    /// Everything but idempotency keys, which belong to the sequencer.
    fn can_run(&self, scene: &Scene) -> bool {
        !scene.steps.iter().any(|step| step.deed.needs_keys())
    }

    fn begin(&mut self, scene: &Scene) {
        let clock = ManualClock::at(START);
        let (engine, ground) = self.kind.open(clock.clone());
        let mut ledger = Ledger::new(engine).with_cache(self.cache.clone());
        let serve = Serve { starting: true };
        ledger.run(serve).expect("a caretaker is not refused");
        self.stage = Some(Stage {
            ledger,
            clock,
            policy: Arc::new(scene.policy.clone()),
            ids: 0,
            events_seen: 0,
            _ground: ground,
        });
    }

    fn perform(&mut self, deed: &Deed) -> Answer {
        let stage = self.stage.as_mut().expect("a scene has begun");
        let body = stage.perform(deed).unwrap_or_else(|error| json(&error));
        Answer { body }
    }

    fn end(&mut self) {
        self.stage = None;
    }
}

/// The answer as JSON, or the error body that says why not.
type Answered = Result<Value, ErrorBody>;

fn json<T: Serialize>(answer: &T) -> Value {
    serde_json::to_value(answer).expect("answers are JSON")
}

impl Stage {
    fn perform(&mut self, deed: &Deed) -> Answered {
        match deed {
            Deed::Call(call) => self.call(call),
            Deed::At(at) => {
                let to = START + *at;
                assert!(to >= self.clock.now(), "`at` must not go back");
                self.clock.set(to);
                Ok(Value::Null)
            }
            Deed::Wait(span) => {
                self.clock.advance(*span);
                Ok(Value::Null)
            }
            Deed::Down(span) => {
                self.clock.advance(*span);
                self.run(Serve { starting: true })?;
                Ok(Value::Null)
            }
            Deed::Caretake => self.caretake(),
            Deed::Sweep => self.sweep(),
        }
    }

    fn run<V: Verb>(&mut self, verb: V) -> Result<V::Reply, ErrorBody> {
        let ran = self.ledger.run(verb);
        ran.map_err(|refusal: Refusal| ErrorBody::from(&refusal))
    }

    fn call(&mut self, call: &Call) -> Answered {
        let id = call.id.as_deref();
        let body = serde_json::to_vec(&call.given).expect("a body is JSON");
        match call.route {
            "register" => self.operate(Operation::Register, id, &body),
            "heartbeat" => self.operate(Operation::Heartbeat, id, &body),
            "claim" => self.operate(Operation::Claim, id, &body),
            "progress" => self.operate(Operation::Progress, id, &body),
            "complete" => self.operate(Operation::Complete, id, &body),
            "fail" => self.operate(Operation::Fail, id, &body),
            "sendMessage" => self.operate(Operation::SendMessage, id, &body),
            "receiveMessages" => self.operate(Operation::ReceiveMessages, id, &body),
            "acquireLease" => self.operate(Operation::AcquireLease, id, &body),
            "releaseLease" => self.operate(Operation::ReleaseLease, id, &body),
            "createTasks" => self.create(&body),
            "extendLease" => {
                let verb = from_wire::extend_lease(parse(&body)?, ROOT)?;
                Ok(json(&to_wire::lease_granted(&self.run(verb)?)))
            }
            "setBaseline" => self.set_baseline(&body),
            "deregister" => {
                let agent = id.expect("the path names an agent").into();
                self.run(Deregister { agent })?;
                Ok(json(&Done { success: true }))
            }
            "commandAgent" => {
                let agent = id.expect("the path names an agent").into();
                let order = CommandId::from(self.fresh("cmd"));
                let verb = from_wire::command(agent, parse(&body)?, order)?;
                let command = to_wire::command(&self.run(verb)?);
                Ok(json(&CommandResponse {
                    success: true,
                    command,
                }))
            }
            "ackMessage" => {
                let message = id.expect("the path names a message");
                let verb = from_wire::acknowledge(message, &parse(&body)?)?;
                Ok(json(&to_wire::acknowledged(&self.run(verb)?)))
            }
            "whyTask" => {
                let task = id.expect("the path names a task").into();
                let agent = call.given.get("agentId").and_then(Value::as_str);
                let agent = agent.map(Into::into);
                Ok(json(&to_wire::why(&self.run(Why { task, agent })?)))
            }
            "pause" => {
                let verb = from_wire::pause(parse(&body)?, STEWARD.to_owned())?;
                self.told(verb)
            }
            "resume" => {
                let verb = from_wire::resume(parse(&body)?, STEWARD.to_owned())?;
                self.told(verb)
            }
            "changeTask" | "releaseTask" | "cancelTask" | "retryTask" | "approveTask"
            | "rejectTask" => self.steer(call.route, id.expect("the path names a task"), &body),
            _ => self.look(call),
        }
    }

    fn told(&mut self, verb: Steer) -> Answered {
        let now = self.clock.now();
        let hold = self.run(verb)?.hold(now);
        Ok(json(&to_wire::steered(hold.as_ref())))
    }

    fn fresh(&mut self, kind: &str) -> String {
        self.ids += 1;
        format!("{kind}_{}", self.ids)
    }

    /// One of the ten, read and answered as every surface does it.
    fn operate(&mut self, operation: Operation, id: Option<&str>, body: &[u8]) -> Answered {
        use from_wire::Call as Asked;
        let request = Request::parse(operation, body)?;
        let policy = Arc::clone(&self.policy);
        let ids = &mut self.ids;
        let mut fresh = |kind: &'static str| {
            *ids += 1;
            format!("{kind}_{ids}")
        };
        let mut context = Context {
            root: ROOT,
            policy: &policy,
            fresh: &mut fresh,
        };
        Ok(match Asked::new(request, id, &mut context)? {
            Asked::Register(verb) => json(&to_wire::registered(&self.run(verb)?)),
            Asked::Heartbeat(verb) => json(&to_wire::heartbeat(&self.run(verb)?)),
            Asked::Claim { claim, .. } => json(&to_wire::claimed(&self.run(claim)?)),
            Asked::Progress(verb) => json(&to_wire::progressed(&self.run(verb)?)),
            Asked::Complete(verb) => json(&to_wire::completed(&self.run(verb)?)),
            Asked::Fail(verb) => json(&to_wire::failed(&self.run(verb)?)),
            Asked::Send(verb) => json(&to_wire::sent(&self.run(verb)?)),
            Asked::Receive { fetch, .. } => self.receive(fetch)?,
            Asked::AcquireLease(verb) => json(&to_wire::lease_answer(&self.run(verb)?)),
            Asked::ReleaseLease { release, .. } => json(&ReleaseLeaseResponse {
                success: true,
                released: self.run(release)?,
            }),
        })
    }

    fn receive(&mut self, fetch: Fetch) -> Answered {
        let messages = match fetch {
            Fetch::Next(verb) => return Ok(json(&to_wire::received(&self.run(verb)?))),
            Fetch::Since(since) => {
                let now = self.clock.now();
                let found = self.ledger.reader().messages_since(&since, now);
                found.expect("messages can be read")
            }
        };
        Ok(json(&to_wire::read_messages(&messages)))
    }

    fn create(&mut self, body: &[u8]) -> Answered {
        let request = CreateTasksRequest::parse(body)?;
        let one = matches!(request, CreateTasksRequest::One(_));
        let policy = Arc::clone(&self.policy);
        let mut fresh = |_: &'static str| unreachable!("tasks of scenes have ids");
        let mut context = Context {
            root: ROOT,
            policy: &policy,
            fresh: &mut fresh,
        };
        let made = self.run(from_wire::create(request, &mut context)?)?;
        let mut tasks: Vec<_> = made.iter().map(to_wire::task).collect();
        Ok(if one {
            let task = tasks.remove(0);
            json(&TaskResponse {
                success: true,
                task,
            })
        } else {
            json(&TasksResponse {
                success: true,
                tasks,
            })
        })
    }

    fn set_baseline(&mut self, body: &[u8]) -> Answered {
        let request = BaselineRequest::parse(body)?;
        let verb = from_wire::baseline(request, "steward".to_owned())?;
        let baseline = to_wire::baseline(&self.run(verb)?);
        Ok(json(&BaselineResponse {
            success: true,
            baseline: Some(baseline),
        }))
    }

    /// What people do with one task.
    fn steer(&mut self, route: &str, id: &str, body: &[u8]) -> Answered {
        let task = id.into();
        let given: Map<String, Value> = parse(body)?;
        let reason = given.get("reason").and_then(Value::as_str);
        let reason = reason.map(str::to_owned);
        let changed = match route {
            "changeTask" => self.run(from_wire::change(task, parse(body)?)?)?,
            "releaseTask" => self.run(from_wire::release(task, parse(body)?)?)?,
            "cancelTask" => self.run(from_wire::cancel(task, reason)?)?,
            "retryTask" => self.run(RetryTask { task })?,
            "approveTask" => self.run(Review {
                task,
                ruling: Ruling::Approve,
                reason: from_wire::reason(reason, "approved by a person")?,
            })?,
            "rejectTask" => self.run(from_wire::reject(task, parse(body)?)?)?,
            other => unreachable!("{other} does not steer a task"),
        };
        let task = to_wire::task(&changed);
        Ok(json(&TaskResponse {
            success: true,
            task,
        }))
    }

    /// Every caretaker until nothing is due; tells the events of that.
    fn caretake(&mut self) -> Answered {
        let before = self.latest();
        self.steps(ReleaseRetries)?;
        self.run(EndCooldown)?;
        self.steps(ExpireLeases)?;
        self.steps(ExpireMessages)?;
        self.steps(MarkSilent)?;
        Ok(self.events_after(before, &[]))
    }

    fn steps<V: Verb<Reply = Sweep> + Copy>(&mut self, verb: V) -> Result<(), ErrorBody> {
        while self.run(verb)?.more {}
        Ok(())
    }

    fn sweep(&mut self) -> Answered {
        let before = self.latest();
        let keep = Retention::default();
        self.run(Prune { keep })?;
        let mut from = Some(0);
        while let Some(next) = from {
            from = self.run(PruneTasks {
                keep: keep.tasks,
                from: next,
            })?;
        }
        Ok(self.events_after(before, &[]))
    }
}
