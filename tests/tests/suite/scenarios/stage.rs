//! A hub in this process for one scene, with the scene's clock.
//!
//! The clock stands still between steps and is moved as if the hub had served all the time. The hub's own caretaker
//! wakes now and then besides; what it does is told at the next `caretake`, whoever did it.

use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard_core::verb::{
    EndCooldown, ExpireLeases, ExpireMessages, MarkSilent, ReleaseRetries, Serve, Sweep,
};
use switchboard_core::{Timestamp, Verb, limits};
use switchboard_hub::config::Config;
use switchboard_store::ManualClock;
use switchboard_store::conformance::START;
use switchboard_wire::IsoTime;

use super::act::{Call, Deed};
use super::engine::Kind;
use super::http::{HubHere, Transport, check_status, operation, route};
use super::scene::Scene;
use super::sql::is_nothing;

/// The answer, or that the door gave or took nothing.
pub type Answered = Result<Value, Nothing>;

pub struct Nothing;

pub struct Stage {
    pub hub: HubHere,
    clock: ManualClock,
    /// How much later than in scenes it is here, in milliseconds.
    later: i64,
    events_seen: u64,
    /// Events up to here are known to come from a step or from the caretaker.
    accounted: u64,
    /// Events that no step brought about.
    by_itself: Vec<Value>,
}

impl Stage {
    /// An empty hub whose scene begins at `start`. Opened outside of the runtime, which an engine may not block.
    pub fn open(
        runtime: &tokio::runtime::Runtime,
        kind: &Kind,
        scene: &Scene,
        start: Timestamp,
    ) -> Stage {
        Stage::open_with(runtime, kind, scene, start, |_| {})
    }

    /// The same with other settings.
    pub fn open_with(
        runtime: &tokio::runtime::Runtime,
        kind: &Kind,
        scene: &Scene,
        start: Timestamp,
        change: impl FnOnce(&mut Config),
    ) -> Stage {
        let clock = ManualClock::at(start);
        let policy = scene.policy.clone();
        let opened = kind.open(clock.clone());
        let hub = HubHere::start_on(opened, kind.name(), |config| {
            config.limits.enabled = false;
            config.quality = policy;
            change(config);
        });
        let hub = runtime.block_on(hub);
        let mut stage = Stage {
            hub,
            clock,
            later: start.0 - START.0,
            events_seen: 0,
            accounted: 0,
            by_itself: Vec::new(),
        };
        stage.accounted = stage.latest();
        stage
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn clock(&self) -> ManualClock {
        self.clock.clone()
    }

    /// Number of the newest event.
    pub fn latest(&self) -> u64 {
        *self.hub.itself().latest().borrow()
    }

    /// Before a step: what has happened since the last one was nobody's step.
    pub async fn before(&mut self) {
        let latest = self.latest();
        if latest > self.accounted {
            let events = self.events(self.accounted).await;
            let due = events
                .into_iter()
                .filter(|event| event["type"] != "outage_ended");
            self.by_itself.extend(due);
            self.accounted = latest;
        }
    }

    /// After a step: what has happened since [`Stage::before`] came of it.
    pub fn after(&mut self) {
        self.accounted = self.latest();
    }

    async fn events(&mut self, after: u64) -> Vec<Value> {
        let given = json!({"after": after, "limit": limits::PAGE_MAX});
        let body = self.get("events", None, given).await;
        let events = body["events"].as_array();
        events.cloned().expect("a list of events")
    }

    /// A GET, as it is; instants are the hub's.
    pub async fn get(&mut self, name: &str, id: Option<&str>, given: Value) -> Value {
        let given = given.as_object().cloned().expect("a query has members");
        let response = self.hub.on_path(route(name), id, given, None).await;
        check_status(route(name), &response);
        response.body
    }

    /// The task as everyone sees it; null if there is none.
    pub async fn task(&mut self, id: &str) -> Value {
        let mut body = self.get("getTask", Some(id), json!({})).await;
        body["task"].take()
    }

    /// The state of a delivery; null if there is none.
    pub async fn delivery(&mut self, agent: &str, message: &str) -> Value {
        let body = self.get("getMessage", Some(message), json!({})).await;
        let mut deliveries = body["deliveries"].as_array().into_iter().flatten();
        let his = deliveries.find(|delivery| delivery["agentId"] == agent);
        his.map(|delivery| delivery["state"].clone())
            .unwrap_or_default()
    }

    pub async fn call(&mut self, call: &Call, transport: Transport) -> Value {
        let route = route(call.route);
        let mut given: Map<String, Value> = call.given.clone();
        given.values_mut().for_each(|value| self.to_hub(value));
        if call.route == "events" {
            given.insert("after".to_owned(), self.events_seen.into());
        }
        let key = call.key.as_deref();
        let response = match (transport, operation(call.route)) {
            (Transport::Files, Some(operation)) => {
                let mut body = self.hub.in_file(operation, given, key).await;
                self.to_scene(&mut body);
                return body;
            }
            (Transport::Envelopes, Some(operation)) => {
                self.hub.envelope(operation, given, key).await
            }
            (Transport::Paths | Transport::Envelopes | Transport::Files, _) => {
                self.hub
                    .on_path(route, call.id.as_deref(), given, key)
                    .await
            }
        };
        check_status(route, &response);
        let mut body = response.body;
        if call.route == "events" {
            self.events_seen = body["latest"].as_u64().expect("the newest number");
        }
        self.to_scene(&mut body);
        body
    }

    /// The answer of a door that may have had words for a call. Where it gave or took nothing, HTTP is asked why, and must
    /// find nothing either.
    pub async fn answer(&mut self, call: &Call, answered: Option<Answered>, door: &str) -> Value {
        if let Some(Ok(mut body)) = answered {
            self.to_scene(&mut body);
            return body;
        }
        let body = self.call(call, Transport::Paths).await;
        match answered.is_none() || is_nothing(call.route, &body) {
            true => body,
            false => {
                json!({"error": format!("the_{door}_gave_nothing"), "message": body.to_string()})
            }
        }
    }

    /// Instants of the hub as instants of the scene.
    pub fn to_scene(&self, value: &mut Value) {
        shift(value, -self.later);
    }

    fn to_hub(&self, value: &mut Value) {
        shift(value, self.later);
    }

    /// A step that is no request.
    pub async fn pass(&mut self, deed: &Deed) -> Value {
        self.before().await;
        match deed {
            Deed::Call(_) => unreachable!("a request is called"),
            Deed::At(at) => self.move_to(Timestamp(START.0 + self.later) + *at).await,
            Deed::Wait(span) => self.move_to(self.now() + *span).await,
            Deed::Down(span) => {
                self.clock.advance(*span);
                self.run(Serve { starting: true }).await;
            }
            Deed::Caretake => {
                self.steps(ReleaseRetries).await;
                self.run(EndCooldown).await;
                self.steps(ExpireLeases).await;
                self.steps(ExpireMessages).await;
                self.steps(MarkSilent).await;
                self.before().await;
                let mut events = Value::Array(std::mem::take(&mut self.by_itself));
                self.to_scene(&mut events);
                return json!({ "success": true, "events": events });
            }
            Deed::Sweep => unreachable!("nobody serves a ledger for weeks here"),
        }
        self.before().await;
        Value::Null
    }

    /// A hub that serves says so at least this often.
    async fn move_to(&mut self, to: Timestamp) {
        const TICK: Duration = limits::SERVED_EVERY;
        assert!(to >= self.now(), "`at` must not go back");
        while self.now() < to {
            self.clock.set(to.min(self.now() + TICK));
            self.run(Serve { starting: false }).await;
        }
    }

    async fn run<V>(&self, verb: V) -> V::Reply
    where
        V: Verb + Send + 'static,
        V::Reply: Send,
    {
        let ran = self.hub.itself().run(verb).await;
        ran.unwrap_or_else(|error| panic!("a caretaker is not refused: {error}"))
    }

    async fn steps<V: Verb<Reply = Sweep> + Copy + Send + 'static>(&self, verb: V) {
        while self.run(verb).await.more {}
    }
}

fn shift(value: &mut Value, by: i64) {
    match value {
        Value::String(text) if by != 0 => {
            if let Ok(at) = text.parse::<IsoTime>() {
                *text = IsoTime(at.0 + by).to_string();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shift(item, by)),
        Value::Object(members) => members.values_mut().for_each(|member| shift(member, by)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Scenes of weeks are for those who have no hub to keep alive meanwhile.
pub fn can_pass(scene: &Scene) -> bool {
    let long = |deed: &Deed| matches!(deed, Deed::Sweep);
    !scene.steps.iter().any(|step| long(&step.deed))
}
