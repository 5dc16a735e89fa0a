//! Budgets with a hub of their own, and connections that are only remembered.

use std::sync::Arc;

use switchboard_core::Door;
use switchboard_core::verb::{Deregister, Join};
use switchboard_store::SystemClock;
use switchboard_store::memory::MemoryEngine;
use switchboard_wire::agentbus::{BudgetKind, BudgetPriority, BudgetResource, BudgetStatus};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::config::Config;
use crate::hub::HubConfig;

/// Long enough for a machine that is busy with other things.
const SOON: Duration = Duration::from_secs(30);

/// A coordinator with workers connected to it.
struct Desk {
    budgets: Arc<Budgets>,
    connected: Arc<Mutex<HashSet<AgentId>>>,
    told: UnboundedReceiver<(AgentId, BudgetGrant)>,
    task: JoinHandle<()>,
}

async fn hub(agents: &[&str]) -> Hub {
    let engine = Box::new(MemoryEngine::new(Box::new(SystemClock::new())));
    let hub = Hub::start(engine, HubConfig::default()).await.unwrap();
    for agent in agents {
        let joined = hub.run(Join {
            stream: Some("s".to_owned()),
            silent_after: Some(Duration::from_secs(90)),
            ..Join::by(Door::Bus, *agent)
        });
        joined.await.unwrap();
    }
    hub
}

impl Desk {
    fn new(hub: &Hub, connected: &[&str], edit: impl FnOnce(&mut config::Bus)) -> Desk {
        let mut settings = Config::for_project("project".into()).bus;
        settings.model.min_between_requests = Duration::ZERO;
        edit(&mut settings);
        let budgets = Arc::new(Budgets::new(hub.clone(), &settings));
        let agents = connected.iter().map(|agent| AgentId::from(*agent));
        let connected = Arc::new(Mutex::new(agents.collect::<HashSet<_>>()));
        let (sender, told) = unbounded_channel();
        let (ours, here) = (Arc::clone(&budgets), Arc::clone(&connected));
        let task = tokio::spawn(async move {
            ours.run(|agent, message| tell(&here, &sender, agent, message))
                .await;
        });
        Desk {
            budgets,
            connected,
            told,
            task,
        }
    }

    async fn prompt(&self, agent: &str, request: &str) -> BudgetGrant {
        let asked = BudgetRequest {
            request_id: request.to_owned(),
            resource: BudgetResource::Model,
            kind: BudgetKind::Request,
            priority: BudgetPriority::CurrentRead,
        };
        let answer = self.budgets.request(&agent.into(), &asked).await;
        answer.unwrap().expect("it was not told of it before")
    }

    async fn report(&self, agent: &str, grant: &BudgetGrant, status: BudgetStatus) {
        let told = BudgetResult {
            grant_id: grant.grant_id.clone().unwrap(),
            status,
            retry_after_seconds: None,
        };
        let reported = self.budgets.result(&agent.into(), &told).await.unwrap();
        assert_ne!(reported, BudgetReported::Unknown);
    }

    /// The next grant that a worker hears of.
    async fn heard(&mut self) -> (String, BudgetGrant) {
        let (agent, grant) = timeout(SOON, self.told.recv()).await.unwrap().unwrap();
        assert!(grant.grant_id.is_some());
        (agent.to_string(), grant)
    }

    async fn nobody_waits(&self) {
        let all_told = async {
            while !self.budgets.waiting.lock().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, all_told).await.unwrap();
    }
}

fn tell(
    connected: &Mutex<HashSet<AgentId>>,
    told: &UnboundedSender<(AgentId, BudgetGrant)>,
    agent: &AgentId,
    message: Outbound<'static>,
) -> bool {
    let Outbound::BudgetGrant(grant) = message else {
        panic!("not a grant: {message:?}")
    };
    connected.lock().contains(agent) && told.send((agent.clone(), grant)).is_ok()
}

#[tokio::test]
async fn whoever_waited_is_told_of_its_grant() {
    let hub = hub(&["a", "b"]).await;
    let mut desk = Desk::new(&hub, &["a", "b"], |_| ());
    let first = desk.prompt("a", "r1").await;
    assert!(first.grant_id.is_some(), "{first:?}");
    assert_eq!(desk.prompt("a", "r1").await, first, "asked again");
    let second = desk.prompt("b", "r1").await;
    assert_eq!((second.queued, second.position), (Some(true), Some(1)));
    desk.report("a", &first, BudgetStatus::Ok).await;
    let (agent, grant) = desk.heard().await;
    assert_eq!((agent.as_str(), grant.request_id.as_str()), ("b", "r1"));
    assert_eq!(desk.prompt("b", "r1").await, grant);
    desk.nobody_waits().await;
    hub.stop().await;
}

#[tokio::test]
async fn what_only_time_allows_is_granted_without_anybody_asking() {
    let hub = hub(&["a", "b"]).await;
    let mut desk = Desk::new(&hub, &["a", "b"], |settings| {
        settings.model.min_between_requests = Duration::from_millis(50);
        settings.model.cooldown_on_error = Duration::from_millis(100);
    });
    let first = desk.prompt("a", "r1").await;
    desk.report("a", &first, BudgetStatus::Unused).await;
    assert!(desk.prompt("b", "r1").await.queued.is_some(), "too soon");
    let (agent, grant) = desk.heard().await;
    assert_eq!(agent, "b");
    desk.report("b", &grant, BudgetStatus::Error).await;
    assert!(desk.prompt("a", "r2").await.queued.is_some(), "a pause");
    assert_eq!(desk.heard().await.0, "a");
    hub.stop().await;
}

#[tokio::test]
async fn what_an_agent_held_that_left_goes_to_the_next() {
    let hub = hub(&["a", "b"]).await;
    let mut desk = Desk::new(&hub, &["a", "b"], |_| ());
    desk.prompt("a", "r1").await;
    desk.prompt("b", "r1").await;
    hub.run(Deregister { agent: "a".into() }).await.unwrap();
    assert_eq!(desk.heard().await.0, "b");
    hub.stop().await;
}

#[tokio::test]
async fn a_grant_waits_for_a_worker_that_comes_back() {
    let hub = hub(&["a", "b"]).await;
    let mut desk = Desk::new(&hub, &["a"], |_| ());
    let first = desk.prompt("a", "r1").await;
    desk.prompt("b", "r1").await;
    desk.report("a", &first, BudgetStatus::Ok).await;
    desk.connected.lock().insert("b".into());
    desk.budgets.joined(&"b".into());
    assert_eq!(desk.heard().await.0, "b");
    desk.nobody_waits().await;
    hub.stop().await;
}

#[tokio::test]
async fn a_worker_that_asked_another_coordinator_is_told_by_this_one() {
    let hub = hub(&["a", "b", "c"]).await;
    let there = Desk::new(&hub, &[], |_| ());
    let first = there.prompt("a", "r1").await;
    there.prompt("b", "r1").await;
    there.prompt("c", "r1").await;
    there.task.abort();
    let mut here = Desk::new(&hub, &["a", "b", "c"], |_| ());
    for agent in ["a", "b"] {
        here.budgets.joined(&agent.into());
    }
    let (agent, grant) = here.heard().await;
    assert_eq!((agent.as_str(), &grant), ("a", &first), "it is held still");
    here.report("a", &first, BudgetStatus::Ok).await;
    let (agent, second) = here.heard().await;
    assert_eq!(agent, "b");
    here.report("b", &second, BudgetStatus::Ok).await;
    here.nobody_waits().await;
    assert!(here.told.try_recv().is_err(), "c is not waited for here");
    hub.stop().await;
}

#[tokio::test]
async fn past_its_bound_a_request_is_refused_with_the_bound() {
    let hub = hub(&["a", "b"]).await;
    let desk = Desk::new(&hub, &["a", "b"], |_| ());
    let most = switchboard_core::limits::BUDGET_QUEUE_PER_AGENT_MAX;
    for number in 0..=most {
        desk.prompt("a", &number.to_string()).await;
    }
    let one_more = BudgetRequest {
        request_id: "more".to_owned(),
        resource: BudgetResource::Model,
        kind: BudgetKind::Request,
        priority: BudgetPriority::Heartbeat,
    };
    let refused = desk.budgets.request(&"a".into(), &one_more).await;
    let said = refused.unwrap_err().to_string();
    assert!(said.contains(&most.to_string()), "{said}");
    assert!(desk.prompt("b", "1").await.queued.is_some(), "others may");
    hub.stop().await;
}

#[tokio::test]
async fn a_grant_is_told_once_whether_the_worker_asks_or_is_told_first() {
    let hub = hub(&["a"]).await;
    let mut desk = Desk::new(&hub, &["a"], |_| ());
    let asked = BudgetRequest {
        request_id: "r1".to_owned(),
        resource: BudgetResource::Model,
        kind: BudgetKind::Request,
        priority: BudgetPriority::CurrentRead,
    };
    // It connects and asks in the same moment, each time under the same name.
    for _ in 0..20 {
        desk.budgets.joined(&"a".into());
        let answer = desk.budgets.request(&"a".into(), &asked).await.unwrap();
        desk.nobody_waits().await;
        let told = desk.told.try_recv().ok().map(|(_, grant)| grant);
        assert!(answer.is_some() != told.is_some(), "{answer:?} {told:?}");
        let grant = answer.or(told).unwrap();
        desk.report("a", &grant, BudgetStatus::Ok).await;
    }
    // It comes back with a grant, is told of it, and asks again.
    let asked = BudgetRequest {
        request_id: "r2".to_owned(),
        ..asked
    };
    let answer = desk.budgets.request(&"a".into(), &asked).await.unwrap();
    if answer.is_none() {
        // The look for the last connection was still under way, and told it.
        desk.heard().await;
    }
    desk.budgets.joined(&"a".into());
    desk.heard().await;
    let answer = desk.budgets.request(&"a".into(), &asked).await.unwrap();
    assert_eq!(answer, None, "it was told");
    let answer = desk.budgets.request(&"a".into(), &asked).await.unwrap();
    assert!(answer.is_some(), "it asks again");
    hub.stop().await;
}
