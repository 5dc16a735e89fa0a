//! The rules of Switchboard: nouns with their transitions, and one pure decision per verb.
//!
//! Nothing here does I/O, reads a clock or draws a random number: rows and `now` come in, a reply and
//! [`Changes`] go out. The crate knows no database, and of protocols only what [`doors`] says. Start with [`verb`], then [`slice`].

#[macro_use]
mod words;

pub mod agent;
pub mod assertion;
pub mod attempt;
pub mod audit;
pub mod budget;
pub mod capability;
pub mod changes;
pub mod contract;
pub mod coordinators;
pub mod cursor;
pub mod description;
pub mod director;
pub mod distribution;
pub mod doors;
pub mod duty;
pub mod engram;
pub mod event;
pub mod evidence;
pub mod external;
pub mod head;
pub mod id;
pub mod idempotency;
pub mod incident;
pub mod iso;
pub mod job;
pub mod job_history;
pub mod lane;
pub mod lease;
#[cfg(any(test, feature = "ledger"))]
pub mod ledger;
pub mod limits;
pub mod memory;
pub mod message;
pub mod node;
pub mod order;
pub mod outbox;
pub mod pass;
pub mod path;
pub mod quality;
pub mod query;
pub mod record;
pub mod recurrence;
pub mod refusal;
pub mod release_gate;
pub mod replay;
pub mod rights;
pub mod root;
mod route;
pub mod row;
pub mod run;
pub mod said;
pub mod served;
pub mod skill_review;
pub mod skills;
pub mod slice;
pub mod talk;
pub mod task;
pub mod time;
pub mod token;
pub mod verb;
pub mod want;

pub use agent::FormerAgent;
pub use agent::{
    Agent, AgentKind, Capabilities, Command, CommandKind, Doing, Machine, Presence, Stream,
    TakenBack,
};
pub use attempt::{Attempt, Outcome};
pub use changes::Changes;
pub use description::{Description, Patch};
pub use director::Director;
pub use doors::Door;
pub use engram::{Engram, EngramEntry, EngramText};
pub use event::{Event, Logged};
pub use evidence::{Evidence, Verdict};
pub use head::{Head, LedgerEpoch};
pub use id::{
    AgentId, CapabilityId, CommandId, CorrId, EngramId, EventId, GrantId, JobId, LearningId,
    MessageId, NodeId, RequestId, SnapshotId, TaskId, TokenId,
};
pub use id::{HUB, HUB_ROLE, STEWARD, TELEGRAM, USER};
pub use incident::Incident;
pub use job::{Job, JobAction, JobRole, JobSpec, JobState};
pub use lane::{Lane, LaneId, LaneKey};
pub use lease::Lease;
pub use memory::Learning;
pub use message::{Delivery, DeliveryState, Meaning, Message, Received, Sender, To};
pub use node::{Gateway, Node};
pub use pass::Pass;
pub use path::LeasePath;
pub use quality::{Baseline, GatePolicy, Metric, Metrics, Regression, Severity, Snapshot};
pub use record::{Record, RecordKey, RecordRange};
pub use refusal::Refusal;
pub use row::{Noun, Row, RowKey};
pub use skills::Skills;
pub use slice::Slice;
pub use task::{
    FailureKind, Phase, Priority, Progress, Task, TaskKind, TaskState, TaskStatus, Watch, WhenSpent,
};
pub use time::Timestamp;
pub use verb::Verb;
pub use want::{Ask, Want};
