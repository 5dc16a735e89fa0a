//! A swarm in plain maps, for the tables in the verbs' files: every run loads from nothing and saves everything.
//!
//! So a verb that looks at a row it did not ask for fails here, not in a hub.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::agent::{AgentKind, Capabilities, CommandKind, Machine};
use crate::doors::Door;
use crate::event::Event;
use crate::id::{AgentId, TaskId};
use crate::ledger::Ledger;
use crate::message::{Meaning, Sender};
use crate::node::{Gateway, Node, NodeKey, PROTOCOL_VERSION, Tier, Timings};
use crate::path::LeasePath;
use crate::record::Record;
use crate::refusal::{Denied, NotAdmitted, Refusal};
use crate::slice::Slice;
use crate::task::{FailureKind, Phase, Priority, Task, TaskStatus};
use crate::time::Timestamp;
use crate::verb::{
    About, AcquireLease, Assign, Cancel, Claim, Claimed, Complete, CreateTasks, Deregister, Fail,
    Filter, IssueCommand, Join, LeaseAnswer, MarkSilent, NewTask, OpenGateway, Publication,
    Publish, Published, ReportProgress, Send, Targets, Verb,
};
use crate::want::Want;
use crate::{Agent, GatePolicy, Skills, limits};

mod commission;
mod external;
mod hand;

pub(crate) use commission::{commissioned, publish_task};
pub(crate) use external::{Passes, admit, audit, invite_agent, pass, refresh, session};
pub(crate) use hand::{measured, unreadable};

#[derive(Clone, Debug, Default)]
pub(crate) struct Swarm {
    pub now: Timestamp,
    ledger: Ledger,
    /// Events of the last run.
    pub said: Vec<Event>,
}

impl Deref for Swarm {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

impl DerefMut for Swarm {
    fn deref_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

/// Makes this swarm the node "here", and another one known to it.
pub(crate) fn joined(swarm: &mut Swarm, node: &str) {
    joined_as(swarm, "here", node);
}

pub(crate) fn joined_as(swarm: &mut Swarm, here: &str, node: &str) {
    let now = swarm.now;
    let gateway = Gateway {
        node_id: here.into(),
        route_epoch: format!("route-epoch-{here}"),
        created_at: now,
        endpoint: None,
        tier: Tier::Backbone,
        key: NodeKey(String::new()),
        timings: Timings::default(),
        moved_after: None,
    };
    let node = Node {
        node_id: node.into(),
        public_key: node.to_owned(),
        endpoint: None,
        certificate: None,
        tier: Tier::Edge,
        protocol_version: "1.0".to_owned(),
        joined_at: now,
        invited_by: None,
        vouched_by: None,
        rev: 0,
        left: None,
    };
    for record in [Record::from(gateway), Record::from(node)] {
        swarm.records.insert(record.key(), record);
    }
}

/// A message that an agent publishes.
pub(crate) fn publish(event: &str, from: &str, to: &[&str]) -> Publish {
    Publish {
        event: event.into(),
        from: Sender::Agent(from.into()),
        corr_id: "corr".into(),
        expires_in: None,
        what: Publication::Message {
            to: Targets::Named(to.iter().map(|id| AgentId::from(*id)).collect()),
            payload: r#"{"subject":"s","body":"b"}"#.into(),
            priority: Priority::Medium,
            expects_reply: false,
        },
        sum: 1,
    }
}

pub(crate) fn published(swarm: &mut Swarm, event: &str, from: &str, to: &[&str]) -> Published {
    swarm.ok(publish(event, from, to))
}

/// Where an agent can be when a verb meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Unknown,
    Live,
    Stopping,
    Silent,
    Gone,
}

impl Standing {
    pub const ALL: [Standing; 5] = [
        Standing::Unknown,
        Standing::Live,
        Standing::Stopping,
        Standing::Silent,
        Standing::Gone,
    ];
}

const START: Timestamp = Timestamp(1_760_000_000_000);

impl Swarm {
    pub fn new() -> Swarm {
        Swarm {
            now: START,
            ..Swarm::default()
        }
    }

    /// A swarm with agents A and B and a task T in this state; where somebody holds or held it, that is A.
    pub fn with_task(status: TaskStatus) -> Swarm {
        let mut swarm = Swarm::new();
        swarm.join("A", &[]);
        swarm.join("B", &[]);
        let mut task = NewTask::plain("T", "the task");
        if status == TaskStatus::Waiting {
            swarm.add("D");
            task.dependencies.push("D".into());
        }
        swarm.create(task);
        match status {
            TaskStatus::Waiting | TaskStatus::Ready => {}
            TaskStatus::Claimed => swarm.hold("A", "T"),
            TaskStatus::InProgress => {
                swarm.hold("A", "T");
                swarm.ok(progress("A", "T"));
            }
            TaskStatus::RetryWait => {
                swarm.hold("A", "T");
                swarm.ok(fail("A", "T"));
            }
            TaskStatus::NeedsPerson => {
                swarm.hold("A", "T");
                let policy = GatePolicy {
                    require_metrics: true,
                    ..GatePolicy::default()
                };
                let mut complete = complete("A", "T");
                complete.policy = policy.into();
                swarm.ok(complete);
            }
            TaskStatus::Completed => {
                swarm.hold("A", "T");
                swarm.ok(complete("A", "T"));
            }
            TaskStatus::Failed => {
                swarm.hold("A", "T");
                let mut fail = fail("A", "T");
                fail.recoverable = false;
                swarm.ok(fail);
            }
            TaskStatus::Canceled => {
                swarm.ok(Cancel {
                    task: "T".into(),
                    reason: "unwanted".to_owned(),
                });
            }
        }
        assert_eq!(swarm.task("T").status(), status);
        swarm
    }

    /// A swarm in which the agent A stands like this.
    pub fn with_agent(standing: Standing) -> Swarm {
        let mut swarm = Swarm::new();
        if standing == Standing::Unknown {
            return swarm;
        }
        swarm.join("A", &[]);
        match standing {
            Standing::Unknown | Standing::Live => {}
            Standing::Stopping => {
                swarm.ok(order(
                    "A",
                    CommandKind::Shutdown {
                        reason: "enough".to_owned(),
                    },
                ));
            }
            Standing::Silent => {
                swarm.wait(limits::SILENT_AFTER + Duration::from_millis(1));
                swarm.ok(MarkSilent);
            }
            Standing::Gone => swarm.ok(Deregister { agent: "A".into() }),
        }
        swarm
    }

    pub fn wait(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// Runs a verb on an empty working set, and saves what it changed.
    pub fn run<V: Verb>(&mut self, verb: V) -> Result<V::Reply, Refusal> {
        let now = self.now;
        let mut slice = self.load(|want| verb.asks(want, now));
        let (reply, changes) = verb.decide(&slice, now)?;
        slice.apply(changes, now);
        self.said = self.save(slice);
        Ok(reply)
    }

    /// Runs verbs in one batch, each on what those before it left behind, until one does not go on. Nothing may be refused.
    pub fn batch<V: Verb>(
        &mut self,
        verbs: impl IntoIterator<Item = V>,
        goes_on: impl Fn(&V::Reply) -> bool,
    ) {
        let now = self.now;
        let mut slice = Slice::default();
        slice.head = self.head.clone();
        for verb in verbs {
            self.load_into(&mut slice, |want| verb.asks(want, now));
            let decided = verb.decide(&slice, now);
            let (reply, changes) = decided.expect("nothing of the batch is refused");
            slice.apply(changes, now);
            if !goes_on(&reply) {
                break;
            }
        }
        self.said = self.save(slice);
    }

    /// Everything that is asked for, and nothing else.
    fn load(&mut self, asks: impl Fn(&mut Want<'_>)) -> Slice {
        let mut slice = Slice::default();
        slice.head = self.head.clone();
        self.load_into(&mut slice, asks);
        slice
    }

    fn load_into(&mut self, slice: &mut Slice, asks: impl Fn(&mut Want<'_>)) {
        for round in 0.. {
            let mut want = Want::new(slice);
            asks(&mut want);
            let asked = want.into_asks();
            if asked.is_empty() {
                break;
            }
            assert!(round < 1000, "a verb goes on asking for {asked:?}");
            // A range that is read now must not miss what the batch did so far.
            if slice.has_unsaved_rows() {
                let saved: Result<(), ()> = slice.save_rows(|save| {
                    self.ledger.save(save);
                    Ok(())
                });
                saved.expect("plain maps do not fail");
            }
            for ask in &asked {
                self.answer(ask, slice);
            }
        }
    }

    /// Keeps what changed; returns the events.
    fn save(&mut self, mut slice: Slice) -> Vec<Event> {
        let log = slice.log().iter();
        let said = log.map(|logged| logged.event.clone()).collect();
        let saved: Result<(), ()> = slice.save_all(self.now, true, |save| {
            self.ledger.save(save);
            Ok(())
        });
        saved.expect("plain maps do not fail");
        said
    }

    /// Runs a verb that must not be refused.
    pub fn ok<V: Verb>(&mut self, verb: V) -> V::Reply {
        match self.run(verb) {
            Ok(reply) => reply,
            Err(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    /// The kinds of the events of the last run, in order.
    pub fn said(&self) -> Vec<&'static str> {
        let known = |event: &Event| Event::KINDS.iter().find(|kind| **kind == event.kind());
        self.said.iter().filter_map(known).copied().collect()
    }

    pub fn join(&mut self, agent: &str, skills: &[&str]) {
        self.ok(register(agent, skills));
    }

    pub fn create(&mut self, task: NewTask) {
        self.ok(CreateTasks { tasks: vec![task] });
    }

    pub fn add(&mut self, id: &str) {
        self.create(NewTask::plain(id, id));
    }

    /// This agent claims this task.
    pub fn hold(&mut self, agent: &str, task: &str) {
        let mut claim = claim(agent);
        claim.task = Some(task.into());
        let claimed = self.ok(claim);
        assert!(matches!(claimed, Claimed::Task(_)), "{claimed:?}");
    }

    pub fn task(&self, id: &str) -> &Task {
        self.tasks.get(&TaskId::from(id)).expect("the task exists")
    }

    pub fn agent(&self, id: &str) -> &Agent {
        self.agents
            .get(&AgentId::from(id))
            .expect("the agent exists")
    }

    pub fn lease(&mut self, agent: &str, path: &str, task: Option<&str>) -> LeaseAnswer {
        self.ok(AcquireLease {
            agent: agent.into(),
            task: task.map(TaskId::from),
            epoch: None,
            path: LeasePath::stored(path),
            lasts_for: Duration::from_secs(600),
        })
    }

    /// Who holds which path.
    pub fn leased(&self) -> Vec<(&str, &str)> {
        let leases = self.leases.values();
        leases
            .map(|lease| (lease.path.as_str(), lease.agent.as_str()))
            .collect()
    }
}

pub(crate) fn task_with(id: &str, edit: impl FnOnce(&mut NewTask)) -> NewTask {
    let mut task = NewTask::plain(id, id);
    edit(&mut task);
    task
}

pub(crate) fn register(agent: &str, skills: &[&str]) -> Join {
    Join {
        skills: Skills::new(skills),
        about: Some(About {
            name: agent.to_owned(),
            kind: AgentKind::Custom,
            capabilities: Capabilities {
                max_task_minutes: 60,
                can_run_tests: true,
                can_run_build: true,
                can_access_browser: false,
            },
            machine: Some(Machine {
                id: "box".to_owned(),
                hostname: "box.local".to_owned(),
                pid: 1,
            }),
        }),
        ..Join::by(Door::Jetpack, agent)
    }
}

/// Says nothing of its process.
pub(crate) fn without_machine(mut join: Join) -> Join {
    about(&mut join).machine = None;
    join
}

pub(crate) fn about(join: &mut Join) -> &mut About {
    join.about.as_mut().expect("it says who it is")
}

pub(crate) fn join_bus(agent: &str) -> Join {
    Join {
        silent_after: Some(Duration::from_secs(90)),
        stream: Some("s".to_owned()),
        ..Join::by(Door::Bus, agent)
    }
}

pub(crate) fn assign(agent: &str) -> Assign {
    let minute = Duration::from_secs(60);
    Assign {
        claim: claim(agent),
        cap: minute * 10,
        stale_after: minute,
    }
}

pub(crate) fn claim(agent: &str) -> Claim {
    Claim {
        agent: agent.into(),
        filter: Filter::default(),
        task: None,
    }
}

pub(crate) fn progress(agent: &str, task: &str) -> ReportProgress {
    ReportProgress {
        agent: agent.into(),
        task: task.into(),
        epoch: None,
        phase: Phase::Implementing,
        percent: 40,
        note: "half way".to_owned(),
        files: vec!["src/a.rs".to_owned()],
    }
}

pub(crate) fn complete(agent: &str, task: &str) -> Complete {
    Complete {
        agent: agent.into(),
        task: task.into(),
        epoch: None,
        result: r#"{"summary":"done"}"#.into(),
        learnings: Vec::new(),
        metrics: None,
        evidence: Vec::new(),
        policy: GatePolicy::default().into(),
        finding: None,
    }
}

/// A failure after which it may be tried again.
pub(crate) fn fail(agent: &str, task: &str) -> Fail {
    Fail {
        agent: agent.into(),
        task: task.into(),
        epoch: None,
        kind: FailureKind::TaskError,
        message: "it broke".to_owned(),
        details: None,
        recoverable: true,
        suggested_action: None,
        is_free: false,
    }
}

pub(crate) fn send(id: &str, from: &str, to: Option<&str>) -> Send {
    Send {
        id: id.into(),
        from: Sender::Agent(from.into()),
        to: to.map(AgentId::from).into(),
        kind: "custom".to_owned(),
        payload: r#"{"a":1}"#.into(),
        ack_required: false,
        priority: Priority::Medium,
        expires_in: None,
        corr_id: id.into(),
        meaning: Meaning::Nothing,
        claims: Vec::new(),
    }
}

pub(crate) fn order(agent: &str, kind: CommandKind) -> IssueCommand {
    IssueCommand {
        agent: agent.into(),
        id: "o1".into(),
        kind,
    }
}

pub(crate) fn open_gateway(id: &str) -> OpenGateway {
    OpenGateway {
        node_id: Some(id.into()),
        fresh_id: id.into(),
        fresh_key: NodeKey(id.to_owned()),
        public_key: None,
        endpoint: None,
        tier: Tier::Backbone,
        timings: Timings::default(),
    }
}

/// A node as it introduces itself.
pub(crate) fn node(id: &str) -> Node {
    Node {
        node_id: id.into(),
        public_key: format!("key of {id}"),
        endpoint: None,
        certificate: None,
        tier: Tier::Edge,
        protocol_version: PROTOCOL_VERSION.to_owned(),
        joined_at: Timestamp::ZERO,
        invited_by: None,
        vouched_by: None,
        rev: 0,
        left: None,
    }
}

/// A refusal in one word, or "ok".
pub(crate) fn word<T>(outcome: &Result<T, Refusal>) -> &'static str {
    let Err(refusal) = outcome else { return "ok" };
    match refusal {
        Refusal::AgentNotRegistered { .. } => "agent_not_registered",
        Refusal::AgentAlreadyRegistered { .. } => "agent_already_registered",
        Refusal::TaskNotFound { .. } => "task_not_found",
        Refusal::TaskAlreadyExists { .. } => "task_already_exists",
        Refusal::TaskNotYours { why, .. } => why.word(),
        Refusal::WrongState { .. } => "wrong_state",
        Refusal::UnknownDependency { .. } => "unknown_dependency",
        Refusal::DependencyCycle { .. } => "dependency_cycle",
        Refusal::RecipientNotFound { .. } => "recipient_not_found",
        Refusal::MessageNotFound { .. } => "message_not_found",
        Refusal::MessageAlreadyExists { .. } => "message_already_exists",
        Refusal::NotARecipient { .. } => "not_a_recipient",
        Refusal::OwnerBinding { .. } => "owner_binding",
        Refusal::LeaseNotYours { .. } => "lease_not_yours",
        Refusal::LeaseNotFound { .. } => "lease_not_found",
        Refusal::StaleFencingToken { .. } => "stale_fencing_token",
        Refusal::KeyReused => "key_reused",
        Refusal::Replayed => "replayed",
        Refusal::TokenNotFound => "token_not_found",
        Refusal::IncidentNotFound { .. } => "incident_not_found",
        Refusal::ClaimNotFound { .. } => "claim_not_found",
        Refusal::DutyLost { .. } => "duty_lost",
        Refusal::SnapshotNotFound { .. } => "snapshot_not_found",
        Refusal::NodeNotFound { .. } => "node_not_found",
        Refusal::EventAlreadyExists { .. } => "event_already_exists",
        Refusal::DeadLetterNotFound { .. } => "dead_letter_not_found",
        Refusal::NoRoute(why) => why.as_str(),
        Refusal::NotAdmitted(why) => match why {
            NotAdmitted::UnknownInvite => "invalid_invite",
            NotAdmitted::ExpiredInvite(_) => "expired_invite",
            NotAdmitted::UsedInvite(_) => "invite_used",
            NotAdmitted::OtherProtocol(_) => "other_protocol",
            NotAdmitted::Mismatch(_) => "node_mismatch",
            NotAdmitted::Unproven(_) => "node_proof_invalid",
            NotAdmitted::Replayed => "replay_detected",
        },
        Refusal::Denied(why) => match why {
            Denied::UnknownInvite => "invalid_invite",
            Denied::ExpiredInvite(_) => "expired_invite",
            Denied::UsedInvite => "invite_used",
            Denied::Replayed => "replay_detected",
            Denied::AccessToken => "invalid_access_token",
            Denied::ExpiredAccess(_) => "expired_access_token",
            Denied::RefreshToken => "invalid_refresh_token",
            Denied::Proof(_) => "invalid_proof",
            Denied::Scope(_) => "scope_denied",
            Denied::OtherNode => "other_node",
        },
        Refusal::CapabilityNotFound { .. } => "capability_not_found",
        Refusal::VersionExists { .. } => "version_exists",
        Refusal::WrongNode { .. } => "wrong_node",
        Refusal::ReviewNotFound { .. } => "review_not_found",
        Refusal::Unjudged { .. } => "unjudged",
        Refusal::Job { why, .. } => why.word(),
        Refusal::TooMany { .. } => "too_many",
        Refusal::Invalid { .. } => "invalid",
    }
}
