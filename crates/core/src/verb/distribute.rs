//! Everybody but its owner is asked to install the skill to delegate to a capability: a task for each node, and there one
//! for each agent. The node's is done once each of them has confirmed what it installed, or let it lapse.

use super::announce::is_shown;
use super::publish::accept;
use super::{CreateTasks, NewTask, Verb};
use crate::capability::Manifest;
use crate::changes::Changes;
use crate::contract::{Contract, Deadline, Part};
use crate::cursor::FarAgent;
use crate::description::Description;
use crate::distribution::Distribution;
use crate::id::{AgentId, CorrId, EventId, HUB, NodeId, TaskId};
use crate::limits;
use crate::node::{Gateway, Node};
use crate::order::{Delivered, Destination, Order, Ordered, TaskOrder, TaskOrderState, Wants};
use crate::outbox::{
    Answer, AnswerKind, Commission, Dispatch, FailureClass, Installs, News, own_id,
};
use crate::record::{Listed as _, Record};
use crate::route::Whereabouts;
use crate::slice::Slice;
use crate::talk::fnv;
use crate::task::{Priority, Task, TaskKind};
use crate::time::Timestamp;
use crate::want::Want;

/// One node's, and those of its agents who are asked.
struct Asked {
    commission: Commission,
    corr_id: CorrId,
}

impl Asked {
    fn new(manifest: &Manifest, node: &NodeId, to: Vec<AgentId>, at: Timestamp) -> Asked {
        let (id, skill) = (&manifest.capability, &manifest.delegation);
        let salt = format!("{id}|{}|{node}", manifest.version);
        let task = own_id("tsk", &manifest.owner_node, &salt, at);
        let installs = Installs {
            capability: id.clone(),
            skill: skill.clone(),
            required_by: at + limits::SKILL_INSTALLED_WITHIN,
        };
        Asked {
            corr_id: CorrId::new(format!("corr_{task}")),
            commission: Commission {
                task: task.into(),
                title: format!("Install the skill {} {}", skill.name, skill.version),
                description: Some(format!(
                    "It delegates to {id}. Complete this task with \"installed\": {{\"name\", \"version\"}} in the result."
                )),
                to,
                required: Vec::new(),
                priority: Priority::Low,
                requester: HUB.into(),
                response_required: false,
                deadline_at: None,
                installs: Some(Box::new(installs)),
            },
        }
    }
}

/// Every agent that is there but the owner, by node.
fn targets(want: &mut Want<'_>, owner: &AgentId) -> Whereabouts {
    let mut found = Whereabouts::default();
    let present = want.present_agents().unwrap_or_default();
    for id in present.iter().filter(|id| *id != owner) {
        let is_asked = want.agent(id).is_some_and(is_shown);
        if is_asked && found.here.len() < limits::SKILL_TARGETS_MAX {
            found.here.push(id.clone());
        }
    }
    let limit = limits::SKILL_TARGETS_MAX;
    for node in want.privates::<Node>(&Node::all()) {
        for far in want.privates::<FarAgent>(&FarAgent::of_node(&node.node_id, limit)) {
            if far.is_live {
                found.add_far(far);
            }
        }
    }
    found
}

pub(super) fn want_distributed(want: &mut Want<'_>, manifest: &Manifest, now: Timestamp) {
    let found = targets(want, &manifest.owner_agent);
    let asked = Asked::new(manifest, &manifest.owner_node, found.here.clone(), now);
    parts(&asked.commission, &found.here, &asked.corr_id).asks(want, now);
}

pub(super) fn distribute(
    slice: &Slice,
    here: &Gateway,
    manifest: &Manifest,
    changes: &mut Changes,
    now: Timestamp,
) {
    let found = targets(&mut Want::new(slice), &manifest.owner_agent);
    if !found.here.is_empty() {
        let asked = Asked::new(manifest, &here.node_id, found.here.clone(), now);
        let event = give(here, asked, None, changes, now);
        let given = changes.dispatches.last().cloned();
        if let Some(given) = given
            && let News::TaskCreate(task) = &given.news
        {
            let origin = (&here.node_id, &event, &given.corr_id);
            take_up(slice, here, task, origin, &found.here, changes, now);
            let by = (found.here, installed_by(task));
            accept(here, changes, &event, "task_create", by, now);
        }
    }
    for far in found.far {
        let asked = Asked::new(manifest, &far.node, far.agents.clone(), now);
        give(here, asked, Some(far), changes, now);
    }
}

pub(super) fn installed_by(task: &Commission) -> Option<Timestamp> {
    task.installs.as_ref().map(|installs| installs.required_by)
}

/// Tells a node what its agents are asked; `None` is this one.
fn give(
    here: &Gateway,
    asked: Asked,
    far: Option<Destination>,
    changes: &mut Changes,
    now: Timestamp,
) -> EventId {
    let (task, to) = (asked.commission.task.clone(), asked.commission.to.clone());
    let ends_at = installed_by(&asked.commission);
    let wanted = asked.commission.installs.as_ref();
    let wanted = wanted.map(|installs| installs.skill.clone());
    let news = News::TaskCreate(Box::new(asked.commission));
    let mut told = Dispatch::own(&here.node_id, task.as_str(), asked.corr_id, news, now);
    told.expires_at = ends_at.unwrap_or(told.expires_at);
    if let [only] = &to[..] {
        told.to = Some(only.clone());
    }
    let node = far.as_ref().map_or(&here.node_id, |far| &far.node).clone();
    told.to_node = Some(node.clone());
    let state = match far {
        Some(_) => TaskOrderState::Emitted,
        None => TaskOrderState::Accepted,
    };
    let far = far.into_iter().map(|far| Destination {
        state: Delivered::Emitted,
        ..far
    });
    let mut order = Order::new(&told, far.collect(), here.timings);
    order.wants = Wants::Outcome;
    order.recipients = to;
    order.task = Some(TaskOrder {
        task: task.clone(),
        node: Some(node),
        requester: HUB.into(),
        response_required: false,
        state,
        by: None,
        eta_at: ends_at,
        percent: None,
        note: None,
        capability: None,
        installs: wanted,
    });
    changes.put(Ordered {
        task,
        event: told.id.clone(),
        at: now,
    });
    changes.put(order);
    let event = told.id.clone();
    changes.dispatches.push(told);
    event
}

/// The tasks of one node's agents.
pub(super) fn parts(task: &Commission, agents: &[AgentId], corr_id: &CorrId) -> CreateTasks {
    let each = agents.iter().map(|agent| NewTask {
        about: Description {
            title: task.title.clone(),
            description: task.description.clone(),
            priority: Priority::Low,
            kind: TaskKind::SkillDistribution,
            audience: vec![agent.clone()],
            max_retries: limits::ROUTED_RETRIES,
            ..Description::default()
        },
        corr_id: corr_id.clone(),
        ..NewTask::plain(part_id(&task.task, agent), "")
    });
    CreateTasks {
        tasks: each.collect(),
    }
}

/// `<task>:<agent>`, as far as it is an id.
fn part_id(task: &TaskId, agent: &AgentId) -> TaskId {
    let id = format!("{task}:{agent}");
    match id.len() <= limits::ID_BYTES_MAX {
        true => id.into(),
        false => format!("{:x}:{:x}", fnv(task.as_str().bytes()), fnv(id.bytes())).into(),
    }
}

/// This node's agents are asked. That it is accepted is told before anything else of it.
pub(super) fn take_up(
    slice: &Slice,
    here: &Gateway,
    task: &Commission,
    (origin, event, corr_id): (&NodeId, &EventId, &CorrId),
    agents: &[AgentId],
    changes: &mut Changes,
    now: Timestamp,
) -> bool {
    let Some(installs) = &task.installs else {
        return false;
    };
    let Ok((made, mut created)) = parts(task, agents, corr_id).decide(slice, now) else {
        return false;
    };
    for row in created.rows_mut::<Task>() {
        row.contract = Some(Box::new(Contract {
            part: Some(Part {
                of: task.task.clone(),
                skill: installs.skill.clone(),
            }),
            ..Contract::new(here, origin, event, corr_id, &task.requester)
        }));
    }
    for row in &made {
        let task = row.id.clone();
        let at = installs.required_by;
        changes.put(Deadline { task, at });
    }
    changes.puts.extend(created.puts);
    changes.events.extend(created.events);
    let distribution = Distribution {
        task: task.task.clone(),
        origin: origin.clone(),
        event: event.clone(),
        corr_id: corr_id.clone(),
        waiting: agents.to_vec(),
        confirmed: 0,
        asked: u32::try_from(agents.len()).unwrap_or(u32::MAX),
    };
    let accepted = News::TaskAccept {
        task: task.task.clone(),
        by: HUB.into(),
        eta_at: installs.required_by,
        plan: None,
    };
    tell(here, &distribution, accepted, changes, now);
    changes.put(distribution);
    true
}

pub(super) fn want_settled(want: &mut Want<'_>, task: &Task) {
    if let Some(part) = part_of(task) {
        want.private::<Gateway>("");
        want.private::<Distribution>(part.of.to_string());
    }
}

fn part_of(task: &Task) -> Option<&Part> {
    task.contract.as_ref().and_then(|terms| terms.part.as_ref())
}

/// One of them has confirmed, or it is too late. With the last one the whole is done.
pub(super) fn settle(
    slice: &Slice,
    task: &Task,
    is_confirmed: bool,
    changes: &mut Changes,
    now: Timestamp,
) {
    let mut want = Want::new(slice);
    let Some(part) = part_of(task) else { return };
    let (Some(here), Some(known)) = (
        want.private::<Gateway>(""),
        want.private::<Distribution>(part.of.to_string()),
    ) else {
        return;
    };
    let mut known = known.clone();
    let before = known.waiting.len();
    known
        .waiting
        .retain(|agent| !task.about.audience.contains(agent));
    if known.waiting.len() == before {
        return;
    }
    known.confirmed += u32::from(is_confirmed);
    if !known.waiting.is_empty() {
        changes.put(known);
        return;
    }
    let end = end(&known, part, now);
    tell(here, &known, end, changes, now);
    let processed = News::Ack(Answer {
        to: known.event.clone(),
        kind: "task_create".to_owned(),
        answer: AnswerKind::Processed,
        by: vec![HUB.into()],
        at: now,
        eta_at: None,
        reason: None,
        accepts: None,
    });
    tell(here, &known, processed, changes, now);
    changes.remove::<Record>(Distribution::at(known.task.to_string()));
}

/// It is done if anybody has it. The names in it need no escapes: both are letters, digits and a few signs.
fn end(known: &Distribution, part: &Part, now: Timestamp) -> News {
    let (task, confirmed, asked) = (known.task.clone(), known.confirmed, known.asked);
    let (name, version) = (&part.skill.name, &part.skill.version);
    let said = format!("installed by {confirmed} of {asked} agents");
    if confirmed == 0 {
        return News::TaskFailed {
            task,
            by: HUB.into(),
            class: FailureClass::Timeout,
            error: said,
            at: now,
        };
    }
    let result =
        format!(r#"{{"summary":"{said}","installed":{{"name":"{name}","version":"{version}"}}}}"#);
    News::TaskComplete {
        task,
        by: HUB.into(),
        result: Some(result.into()),
        at: now,
    }
}

/// For the node that gave it.
fn tell(here: &Gateway, of: &Distribution, news: News, changes: &mut Changes, now: Timestamp) {
    let corr_id = of.corr_id.clone();
    let mut told = Dispatch::own(&here.node_id, of.task.as_str(), corr_id, news, now);
    told.to_node = Some(of.origin.clone());
    if told.news.is_answered() && of.origin != here.node_id {
        changes.put(Order::to_one(
            &told,
            of.origin.clone(),
            &HUB.into(),
            here.timings,
        ));
    }
    changes.dispatches.push(told);
}
