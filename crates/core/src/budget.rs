//! Budgets: who may make a request to something that all agents share, so that together they stay within its limits.
//!
//! One row per resource. Grants are limited in number, some kinds of requests keep a distance, and whoever was told to
//! slow down makes everyone pause: during a cooldown nothing is granted, however urgent, because asking on is what
//! makes such a pause longer. Who makes the requests, and how, is not known here. The verbs are in `verb/budget`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::id::{AgentId, GrantId, RequestId};
use crate::limits;
use crate::record::Private;
use crate::time::Timestamp;

words! {
    /// What is shared out.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Resource {
        Github = "github",
        Model = "model",
    }
}

words! {
    /// What a request does with it.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Kind {
        Read = "read",
        Write = "write",
        Request = "request",
    }
}

words! {
    /// Classes of requests, the most urgent first.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Urgency {
        Heartbeat = "heartbeat",
        Safety = "merge_safety",
        CurrentRead = "current_read",
        BestEffortRead = "best_effort_read",
        CosmeticWrite = "cosmetic_write",
    }
}

/// How a request went that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The other side wants fewer requests.
    RateLimited,
    Failed,
    /// It was not made after all.
    Unused,
}

/// What the one who keeps the other side's rules was told about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Grants at a time; never more than [`limits::BUDGET_GRANTS_MAX`].
    pub concurrent_max: u32,
    /// From one grant of a kind that keeps its distance to the next.
    pub apart_for: Duration,
    /// The shortest pause after a request was turned down.
    pub cooldown_for: Duration,
}

/// The budget of one resource: what is given out, who waits, and since when it is shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    pub resource: Resource,
    /// Those of the last request that came; coordinators of one ledger are configured alike.
    pub limits: Limits,
    pub grants: Vec<Grant>,
    /// In the order in which they came.
    pub queue: Vec<Request>,
    pub cooldown_until: Option<Timestamp>,
    /// When a request that keeps its distance was last granted.
    pub spaced_at: Option<Timestamp>,
    /// When agents were last granted something. Past a bound the longest ago are forgotten, which is as good as never.
    pub served: BTreeMap<AgentId, Timestamp>,
    /// How many grants there have been.
    pub given: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    pub request: RequestId,
    pub agent: AgentId,
    pub kind: Kind,
    pub at: Timestamp,
    /// Whoever has not reported by then has lost it.
    pub until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The agent's own; it names one request of that agent until its grant has ended.
    pub id: RequestId,
    pub agent: AgentId,
    pub kind: Kind,
    pub urgency: Urgency,
    pub at: Timestamp,
}

/// Where a request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Granted(Grant),
    /// Its place among those who wait, from 1 on.
    Queued {
        position: usize,
    },
}

/// Who goes first: the smallest, and of equal ones the first to come.
type Turn = (u128, Timestamp);

impl Kind {
    /// Whether such requests keep a distance. Reads are limited in number only.
    fn is_spaced(self) -> bool {
        match self {
            Kind::Write | Kind::Request => true,
            Kind::Read => false,
        }
    }
}

impl Resource {
    /// Whether requests of this kind can be made to it.
    pub fn takes(self, kind: Kind) -> bool {
        match self {
            Resource::Github => matches!(kind, Kind::Read | Kind::Write),
            Resource::Model => kind == Kind::Request,
        }
    }

    /// Whether it is left alone for a while after this. A model that fails is overloaded as a rule; of the other side
    /// of github one hears so explicitly.
    fn cools_after(self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::RateLimited => true,
            Outcome::Failed => self == Resource::Model,
            Outcome::Done | Outcome::Unused => false,
        }
    }
}

impl Limits {
    fn room(&self) -> usize {
        let room = self.concurrent_max.min(limits::BUDGET_GRANTS_MAX);
        usize::try_from(room).unwrap_or(usize::MAX)
    }
}

impl Private for Budget {
    fn key(&self) -> Cow<'static, str> {
        self.resource.as_str().into()
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.next_at()
    }
}

impl Budget {
    pub fn new(resource: Resource, limits: Limits) -> Budget {
        Budget {
            resource,
            limits,
            grants: Vec::new(),
            queue: Vec::new(),
            cooldown_until: None,
            spaced_at: None,
            served: BTreeMap::new(),
            given: 0,
        }
    }

    /// What has become of an agent's request; a grant that ran out is none.
    pub fn standing(
        &self,
        agent: &AgentId,
        request: &RequestId,
        now: Timestamp,
    ) -> Option<Standing> {
        let granted = self.grants.iter().find(|grant| {
            grant.agent == *agent && grant.request == *request && !grant.is_over(now)
        });
        if let Some(grant) = granted {
            return Some(Standing::Granted(grant.clone()));
        }
        let waits = |waiting: &Request| waiting.agent == *agent && waiting.id == *request;
        let at = self.queue.iter().position(waits)?;
        let turn = self.turn(&self.queue[at], now);
        let is_before =
            |(place, other): &(usize, &Request)| (self.turn(other, now), *place) < (turn, at);
        let before = self.queue.iter().enumerate().filter(is_before).count();
        Some(Standing::Queued {
            position: before + 1,
        })
    }

    /// What an agent may do by this grant, unless it ran out.
    pub fn grant(&self, agent: &AgentId, id: &GrantId, now: Timestamp) -> Option<&Grant> {
        self.grants
            .iter()
            .find(|grant| grant.id == *id && grant.agent == *agent && !grant.is_over(now))
    }

    /// Whether anything may be granted under these limits: only then does it matter who of those who wait is there.
    pub fn is_open(&self, limits: &Limits, now: Timestamp) -> bool {
        let held = self.grants.iter().filter(|grant| !grant.is_over(now));
        self.cooldown_until.is_none_or(|until| until <= now) && held.count() < limits.room()
    }

    /// Ends what ran out, and grants what may be granted.
    #[must_use = "each grant is an event"]
    pub fn settle(&mut self, now: Timestamp, is_there: impl Fn(&AgentId) -> bool) -> Vec<Event> {
        self.grants.retain(|grant| !grant.is_over(now));
        let mut events = Vec::new();
        if !self.is_open(&self.limits, now) {
            return events;
        }
        self.queue.retain(|request| is_there(&request.agent));
        while let Some(next) = self.next(now) {
            let request = self.queue.remove(next);
            events.push(self.give(request, now));
        }
        events
    }

    /// Takes note of how a request went. The other side's wish to be left alone is heeded whatever else it said, and
    /// never shortens a pause.
    pub fn end(
        &mut self,
        grant: &GrantId,
        outcome: Outcome,
        retry_after: Option<Duration>,
        now: Timestamp,
    ) -> Option<Event> {
        let at = self.grants.iter().position(|held| held.id == *grant)?;
        let ended = self.grants.remove(at);
        let asked = retry_after.map(|span| span.min(limits::BUDGET_RETRY_AFTER_MAX));
        let own = Some(self.limits.cooldown_for).filter(|_| self.resource.cools_after(outcome));
        let pause = asked.max(own).filter(|pause| !pause.is_zero())?;
        let until = now + pause;
        if self.cooldown_until.is_some_and(|before| before >= until) {
            return None;
        }
        self.cooldown_until = Some(until);
        Some(Event::BudgetCooled {
            resource: self.resource,
            agent: ended.agent,
            until,
        })
    }

    /// The earliest instant at which somebody who waits may get something, if nobody reports before.
    pub fn next_at(&self) -> Option<Timestamp> {
        let soonest = self.queue.iter().map(|request| self.free_at(request.kind));
        Some(soonest.min()?.max(self.room_at()?))
    }

    fn room_at(&self) -> Option<Timestamp> {
        let Some(over) = self.grants.len().checked_sub(self.limits.room()) else {
            return Some(Timestamp::ZERO);
        };
        let mut ends: Vec<Timestamp> = self.grants.iter().map(|grant| grant.until).collect();
        ends.sort_unstable();
        ends.get(over).copied()
    }

    /// From when on requests of a kind may be granted, as far as their number allows.
    fn free_at(&self, kind: Kind) -> Timestamp {
        let cool_at = self.cooldown_until.unwrap_or(Timestamp::ZERO);
        match self.spaced_at {
            Some(at) if kind.is_spaced() => cool_at.max(at + self.limits.apart_for),
            Some(_) | None => cool_at,
        }
    }

    /// Whose turn it is.
    fn next(&self, now: Timestamp) -> Option<usize> {
        if self.grants.len() >= self.limits.room() {
            return None;
        }
        let places = self.queue.iter().enumerate();
        let may_go = places.filter(|(_, request)| self.free_at(request.kind) <= now);
        may_go
            .min_by_key(|(_, request)| self.turn(request, now))
            .map(|(place, _)| place)
    }

    /// The more urgent class first, and in a class whoever was served the longest ago. Waiting lifts a request from
    /// class to class, in the end above the most urgent one. Up there it counts how long somebody has had nothing:
    /// everyone who is served goes to the end, so nobody is passed by the same agent twice.
    fn turn(&self, request: &Request, now: Timestamp) -> Turn {
        let lifted = now.since(request.at).as_millis() / limits::BUDGET_LIFT_AFTER.as_millis();
        let class = (request.urgency as u128 + 1).saturating_sub(lifted);
        let served = self.served.get(&request.agent).copied();
        let served = served.unwrap_or(Timestamp::ZERO);
        let since = if class == 0 {
            served.max(request.at)
        } else {
            served
        };
        (class, since)
    }

    fn give(&mut self, request: Request, now: Timestamp) -> Event {
        self.given += 1;
        let grant = Grant {
            id: GrantId::new(format!("{}-{}", self.resource, self.given)),
            request: request.id,
            agent: request.agent,
            kind: request.kind,
            at: now,
            until: now + limits::BUDGET_HOLD,
        };
        if grant.kind.is_spaced() {
            self.spaced_at = Some(now);
        }
        self.served.insert(grant.agent.clone(), now);
        if self.served.len() > limits::BUDGET_SERVED_MAX {
            let longest_ago = self.served.iter().min_by_key(|(_, at)| **at);
            if let Some(agent) = longest_ago.map(|(agent, _)| agent.clone()) {
                self.served.remove(&agent);
            }
        }
        let event = Event::BudgetGranted {
            resource: self.resource,
            agent: grant.agent.clone(),
            request: grant.request.clone(),
            grant: grant.id.clone(),
        };
        self.grants.push(grant);
        event
    }
}

impl Grant {
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until <= now
    }
}
