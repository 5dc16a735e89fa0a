//! Budgets of requests to github and to models, over the bus.
//!
//! Who gets what is decided by `core::budget`, in the ledger, for all coordinators. Here a grant that
//! comes later is told to the worker that waits for it on a connection of this coordinator, whoever granted it.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::budget::{Budget, Limits, Resource, Standing};
use switchboard_core::verb::BudgetReported;
use switchboard_core::{AgentId, GrantId, RequestId, Timestamp};
use switchboard_wire::agentbus::from_wire;
use switchboard_wire::agentbus::message::{BudgetGrant, BudgetRequest, BudgetResult, Outbound};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::config;
use crate::hub::{Error, Hub};

/// The rows are read no more often than this.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// And at least so often while somebody waits, whatever is heard: a worker may have come back meanwhile.
const LOOK_ANYWAY: Duration = Duration::from_secs(5);

/// What the connections of this coordinator need of budgets. What is not in the ledger is only who waits here.
pub struct Budgets {
    hub: Hub,
    github: Limits,
    model: Limits,
    waiting: Mutex<Waiting>,
    bell: Notify,
}

/// Whose grants are to be told here.
#[derive(Debug, Default)]
struct Waiting {
    /// Each under the number of its last asking. What is in no row is dropped at every look, so that there are about as
    /// many as the rows may hold.
    requests: HashMap<Place, u64>,
    /// Workers that connected since the last look. They may have asked elsewhere, or before a restart.
    newcomers: HashSet<AgentId>,
    /// Grants that were told since their worker connected, and whether it had asked on that connection. Each is told
    /// once, whoever is first.
    told: HashMap<Place, (GrantId, Told)>,
    asked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It asked before it connected.
    Unasked,
    Asked,
}

/// A request of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    resource: Resource,
    agent: AgentId,
    request: RequestId,
}

impl Budgets {
    pub fn new(hub: Hub, settings: &config::Bus) -> Budgets {
        let (github, model) = (&settings.github, &settings.model);
        Budgets {
            hub,
            github: Limits {
                concurrent_max: github.max_concurrent_requests,
                apart_for: github.min_between_writes,
                cooldown_for: github.cooldown_on_rate_limit,
            },
            model: Limits {
                concurrent_max: model.max_concurrent_requests,
                apart_for: model.min_between_requests,
                cooldown_for: model.cooldown_on_error,
            },
            waiting: Mutex::default(),
            bell: Notify::new(),
        }
    }

    /// Asks for a worker. Whoever has to wait is told again by [`Budgets::run`]; asking twice does no harm. Nothing if it
    /// was told of its grant while it asked.
    pub async fn request(
        &self,
        agent: &AgentId,
        asked: &BudgetRequest,
    ) -> Result<Option<BudgetGrant>, Error> {
        let acquire = from_wire::acquire_budget(agent, asked, |resource| self.limits(resource));
        let place = Place {
            resource: acquire.resource,
            agent: agent.clone(),
            request: acquire.request.clone(),
        };
        let acquired = self.hub.run(acquire);
        let request_id = asked.request_id.clone();
        match acquired.await? {
            Standing::Granted(grant) => {
                let now = (grant.id.clone(), Told::Asked);
                let told = self.waiting.lock().told.insert(place, now);
                let is_told = told == Some((grant.id.clone(), Told::Unasked));
                let grant = BudgetGrant::granted(request_id, grant.id.to_string());
                Ok((!is_told).then_some(grant))
            }
            Standing::Queued { position } => {
                self.waiting.lock().add(place);
                // It may have been granted since: then nothing else tells of it.
                self.bell.notify_one();
                let position = u32::try_from(position).ok();
                Ok(Some(BudgetGrant::queued(request_id, position)))
            }
        }
    }

    /// A worker tells how its request went. May be repeated: a grant that is not held any more is left as it is.
    pub async fn result(
        &self,
        agent: &AgentId,
        told: &BudgetResult,
    ) -> Result<BudgetReported, Error> {
        let report = from_wire::report_budget(agent, told);
        let reported = self.hub.run(report).await?;
        match reported {
            BudgetReported::Ended {
                resource,
                cooldown_until: Some(until),
            } => {
                let seconds = until.since(self.hub.time()).as_secs_f64().ceil();
                tracing::warn!(
                    agent.id = %agent,
                    "requests to {resource} are paused for {seconds} s, because it refused a request of {agent}"
                );
            }
            BudgetReported::Unknown => tracing::debug!(
                agent.id = %agent,
                "{agent} reports on a budget grant that it does not hold, or that has expired"
            ),
            BudgetReported::Ended {
                cooldown_until: None,
                ..
            } => {}
        }
        Ok(reported)
    }

    /// A worker connected here: it is told what it was granted and has not reported on, and what it waits for still.
    pub fn joined(&self, agent: &AgentId) {
        let mut waiting = self.waiting.lock();
        waiting.told.retain(|place, _| place.agent != *agent);
        waiting.newcomers.insert(agent.clone());
        drop(waiting);
        self.bell.notify_one();
    }

    /// Tells workers of grants as they come, by `send`, which says whether the worker is connected here. Returns when
    /// the hub stops; dropping it loses nothing.
    pub async fn run(&self, send: impl Fn(&AgentId, Outbound<'static>) -> bool) {
        let mut latest = self.hub.latest();
        loop {
            if self.waiting.lock().is_empty() {
                self.bell.notified().await;
            } else {
                tokio::select! {
                    () = self.bell.notified() => {}
                    () = sleep(LOOK_ANYWAY) => {}
                    // Each grant is an event.
                    changed = latest.changed() => if changed.is_err() { return },
                }
            }
            // Before the rows are read, so that what changes meanwhile is looked at again.
            latest.mark_unchanged();
            match self.look(&send).await {
                Ok(()) => {}
                Err(Error::Stopping) => return,
                Err(error) => tracing::debug!(%error, "budget grants will be sent in a moment"),
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&self, send: &impl Fn(&AgentId, Outbound<'static>) -> bool) -> Result<(), Error> {
        let (requests, newcomers, told_before) = {
            let mut waiting = self.waiting.lock();
            let newcomers = std::mem::take(&mut waiting.newcomers);
            (waiting.requests.clone(), newcomers, waiting.told.clone())
        };
        let rows = self.read().await.inspect_err(|_| {
            self.waiting.lock().newcomers.extend(newcomers.clone());
        })?;
        let standing = standing(&rows, self.hub.time());
        let told = |(place, grant): (&Place, &Option<GrantId>)| {
            let is_ours = requests.contains_key(place) || newcomers.contains(&place.agent);
            let grant = grant.as_ref().filter(|_| is_ours)?;
            let mut waiting = self.waiting.lock();
            // It connected since this look began: the next one tells it what it holds by then.
            if waiting.newcomers.contains(&place.agent) {
                return None;
            }
            if waiting
                .told
                .get(place)
                .is_some_and(|(told, _)| told == grant)
            {
                return Some(place.clone());
            }
            let message = BudgetGrant::granted(place.request.to_string(), grant.to_string());
            if !send(&place.agent, message.into()) {
                return None;
            }
            let told = match requests.contains_key(place) {
                true => Told::Asked,
                false => Told::Unasked,
            };
            waiting.told.insert(place.clone(), (grant.clone(), told));
            Some(place.clone())
        };
        let told: HashSet<Place> = standing.iter().filter_map(told).collect();
        let mut waiting = self.waiting.lock();
        for place in standing.keys() {
            let is_new = newcomers.contains(&place.agent) && !requests.contains_key(place);
            let is_told = told.contains(place) || waiting.newcomers.contains(&place.agent);
            if is_new && !is_told {
                waiting.add(place.clone());
            }
        }
        // What was told since is of grants that the rows may not have had yet.
        waiting.told.retain(|place, told| {
            standing.contains_key(place) || told_before.get(place) != Some(told)
        });
        // What was asked for again since the rows were read stays.
        waiting.requests.retain(|place, asked| {
            let is_same = requests.get(place) == Some(asked);
            let is_over = told.contains(place) || !standing.contains_key(place);
            !(is_same && is_over)
        });
        Ok(())
    }

    async fn read(&self) -> Result<Vec<Budget>, Error> {
        let mut rows = Vec::new();
        for resource in Resource::ALL {
            let read = self
                .hub
                .read(|reader| reader.private::<Budget>(resource.as_str()));
            rows.extend(read.await?);
        }
        Ok(rows)
    }

    fn limits(&self, resource: Resource) -> Limits {
        match resource {
            Resource::Github => self.github,
            Resource::Model => self.model,
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.newcomers.is_empty()
    }

    fn add(&mut self, place: Place) {
        self.asked += 1;
        self.requests.insert(place, self.asked);
    }
}

/// Every request of these rows, with its grant if it has one.
fn standing(rows: &[Budget], now: Timestamp) -> HashMap<Place, Option<GrantId>> {
    let mut standing = HashMap::new();
    for budget in rows {
        let resource = budget.resource;
        for request in &budget.queue {
            let place = Place {
                resource,
                agent: request.agent.clone(),
                request: request.id.clone(),
            };
            standing.insert(place, None);
        }
        for grant in budget.grants.iter().filter(|grant| !grant.is_over(now)) {
            let place = Place {
                resource,
                agent: grant.agent.clone(),
                request: grant.request.clone(),
            };
            standing.insert(place, Some(grant.id.clone()));
        }
    }
    standing
}
