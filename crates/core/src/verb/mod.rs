//! Every change to the ledger is one of these verbs: what it must see, and a pure decision.
//!
//! One file per verb. A verb that refuses writes nothing.

use crate::agent::Agent;
use crate::changes::Changes;
use crate::event::Event;
use crate::id::AgentId;
use crate::refusal::{NotYours, Refusal};
use crate::slice::Slice;
use crate::task::Task;
use crate::time::Timestamp;
use crate::want::Want;

mod acknowledge;
mod acquire_lease;
mod add_missing;
mod admit_agent;
mod admit_node;
mod adopt;
mod adopt_issue;
mod announce;
mod ask_ticket;
mod assign;
mod attend;
mod begin_epoch;
mod begin_run;
mod begin_session;
mod budget;
mod cancel;
mod change_task;
mod chase;
mod chase_orders;
mod check_lease;
mod claim;
mod close_door;
mod compact_outbox;
mod complete;
mod consume;
mod create_tasks;
mod create_token;
mod deregister;
mod distribute;
mod end_cooldown;
mod end_deadlines;
mod end_overdue;
mod end_promises;
mod end_run;
mod end_sessions;
mod end_stale;
mod ending;
mod expire_leases;
mod expire_messages;
mod extend_lease;
#[cfg(test)]
mod external_laws;
mod fail;
mod fail_delivery;
mod forget_node;
mod grants;
mod hand;
mod hear_node;
mod heartbeat;
mod invite_agent;
mod invite_node;
mod issue_command;
pub mod job;
mod join;
mod judge;
mod keep_engram;
mod keep_node;
mod leave_node;
mod mark_silent;
mod note_chat;
mod note_memory;
mod note_reader;
mod note_refusal;
mod note_step;
mod note_unrouted;
mod open_gateway;
mod open_mailbox;
mod open_reviews;
mod progress;
mod prune;
mod publish;
mod publish_step;
mod receive;
mod refresh_session;
mod refuse;
mod release;
mod release_lease;
mod release_retries;
mod release_task;
mod report_error;
mod resend_order;
mod reset_cursor;
mod resolve_incident;
mod resolve_review;
mod retry_task;
mod review;
mod revoke_sessions;
mod revoke_token;
mod rotate_key;
mod say;
mod send;
mod serve;
mod serve_root;
mod set_baseline;
mod sign_gate;
mod steer;
mod take_duty;
mod tell_capabilities;
mod tell_nodes;
mod tell_requesters;
#[cfg(test)]
mod testing;
mod touch;
mod unassign;
mod unpublish;
mod vouch;
mod why;

pub use acknowledge::{Acknowledge, Acknowledged};
pub use acquire_lease::{AcquireLease, LeaseAnswer};
pub use add_missing::AddMissing;
pub use admit_agent::AdmitAgent;
pub use admit_node::{AdmitNode, Admitted};
pub use adopt::{AgentWritten, Gauge, HandStep, Meant, Note, TRANSITIONS, Written, is_stewards};
pub use adopt_issue::AdoptIssue;
pub use announce::Announce;
pub use ask_ticket::AskTicket;
pub use assign::Assign;
pub use attend::Attend;
pub use begin_epoch::BeginEpoch;
pub use begin_run::BeginRun;
pub use begin_session::BeginSession;
pub use budget::{AcquireBudget, BudgetReported, BudgetsSwept, GrantBudgets, ReportBudget};
pub use cancel::Cancel;
pub use change_task::ChangeTask;
pub use chase::Chase;
pub use chase_orders::ChaseOrders;
pub use check_lease::{CheckLease, LeaseState};
pub use claim::{Claim, Claimed, Filter, NoTask, Nothing};
pub use close_door::CloseDoor;
pub use compact_outbox::CompactOutbox;
pub use complete::{Complete, Completed, Finding};
pub use consume::{Consume, Consumed, Gap, Outcome as TakenIn};
pub use create_tasks::{CreateTasks, NewTask};
pub use create_token::CreateToken;
pub use deregister::Deregister;
pub use end_cooldown::EndCooldown;
pub use end_deadlines::EndDeadlines;
pub use end_overdue::EndOverdue;
pub use end_promises::EndPromises;
pub use end_run::EndRun;
pub use end_sessions::EndSessions;
pub use end_stale::EndStale;
pub use expire_leases::ExpireLeases;
pub use expire_messages::ExpireMessages;
pub use extend_lease::ExtendLease;
pub use fail::{Fail, Failed};
pub use fail_delivery::FailDelivery;
pub use forget_node::ForgetNode;
pub use hand::{EndStream, Hand, Handed, TakeBack};
pub use hear_node::HearNode;
pub use heartbeat::{Heartbeat, HeartbeatTaken, ReportedTask};
pub use invite_agent::InviteAgent;
pub use invite_node::InviteNode;
pub use issue_command::IssueCommand;
pub use join::{Able, About, Join, Joined};
pub use judge::Judge;
pub use keep_engram::{AdoptEngrams, KeepEngram, Kept};
pub use keep_node::KeepNode;
pub use leave_node::LeaveNode;
pub use mark_silent::MarkSilent;
pub use note_chat::NoteChat;
pub use note_memory::NoteMemory;
pub use note_reader::NoteReader;
pub use note_refusal::NoteRefusal;
pub use note_step::NoteStep;
pub use note_unrouted::NoteUnrouted;
pub use open_gateway::OpenGateway;
pub use open_mailbox::OpenMailbox;
pub use open_reviews::OpenReviews;
pub use progress::{Progressed, ReportProgress};
pub use prune::{Prune, PruneTasks, Retention};
pub use publish::{Publication, Publish, Published, Targets};
pub use publish_step::{PublishStep, Step};
pub use receive::Receive;
pub use refresh_session::{RefreshSession, Refreshed};
pub use refuse::Refuse;
pub use release::{BeginRelease, Begun, EndReleases, FinishRelease, Finished};
pub use release_lease::ReleaseLease;
pub use release_retries::ReleaseRetries;
pub use release_task::ReleaseTask;
pub use report_error::{Backoff, BackoffMode, ErrorFlags, ErrorTaken, ReportError};
pub use resend_order::ResendOrder;
pub use reset_cursor::{Reset, ResetCursor};
pub use resolve_incident::ResolveIncident;
pub use resolve_review::ResolveReview;
pub use retry_task::RetryTask;
pub use review::{Review, Ruling};
pub use revoke_sessions::{RevokeSessions, Sessions};
pub use revoke_token::RevokeToken;
pub use rotate_key::RotateKey;
pub use say::{Heard, Likeness, Said, Say, Speaker, TakeUp};
pub use send::{Send, Sent};
pub use serve::Serve;
pub use serve_root::ServeRoot;
pub use set_baseline::{BaselineSource, SetBaseline};
pub use sign_gate::{OpenGate, SignGate};
pub use steer::{Order, Steer};
pub use take_duty::{LeaveDuty, TakeDuty};
pub use tell_capabilities::TellCapabilities;
pub use tell_nodes::TellNodes;
pub use tell_requesters::TellRequesters;
pub use touch::Touch;
pub use unassign::Unassign;
pub use unpublish::Unpublish;
pub use vouch::Vouch;
pub use why::{Agents, Reason, Why, WhyAnswer};

/// A change to the ledger, or a question that must see it as the changes do.
pub trait Verb {
    type Reply;

    /// Looks at what is loaded and asks for what is missing; called until it asks nothing new.
    fn asks(&self, want: &mut Want<'_>, now: Timestamp);

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Self::Reply, Changes), Refusal>;

    /// Whether this reply ends the call; a caller that waits for more asks again under the same key.
    fn is_final(&self, _reply: &Self::Reply) -> bool {
        true
    }
}

/// How far a sweep of the caretaker came: a bounded number of rows at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub done: usize,
    /// It was full: there may be more to do right now.
    pub more: bool,
}

/// The agent that speaks: known, and not signed off.
fn speaker<'a>(slice: &'a Slice, id: &AgentId) -> Result<&'a Agent, Refusal> {
    let known = slice.agent(id).filter(|agent| !agent.is_gone());
    known.ok_or_else(|| Refusal::AgentNotRegistered { agent: id.clone() })
}

/// Whoever may be handed its messages: an agent that is there, or somebody who is none and has a mailbox.
fn reader<'a>(slice: &'a Slice, id: &AgentId) -> Result<&'a Agent, Refusal> {
    match slice.agent(id).filter(|agent| agent.id.is_no_agent()) {
        Some(mailbox) => Ok(mailbox),
        None => speaker(slice, id),
    }
}

/// No agent goes by a name that others speak under.
fn check_unreserved(id: &AgentId) -> Result<(), Refusal> {
    if id.is_reserved() {
        return Err(Refusal::Invalid {
            field: "agent.id",
            message: format!(
                "{:?} is a reserved id, or looks like one; use another id",
                id.as_str()
            ),
        });
    }
    Ok(())
}

/// Speaking is a sign of life, and brings a silent agent back.
fn awake(agent: &Agent, changes: &mut Changes, now: Timestamp) -> Agent {
    let mut agent = agent.clone();
    wake(&mut agent, changes, now);
    agent
}

fn wake(agent: &mut Agent, changes: &mut Changes, now: Timestamp) {
    agent.seen_at = now;
    // Who is there by no door stays away, whatever is said in its name.
    if !agent.is_live() && !agent.doors.is_empty() {
        agent.appear();
        changes.event(Event::AgentReturned {
            agent: agent.id.clone(),
        });
    }
}

/// The same for verbs that do not change the agent otherwise.
fn sign_of_life(agent: &Agent, changes: &mut Changes, now: Timestamp) {
    if agent.is_live() {
        changes.pulse(&agent.id, now);
    } else {
        let agent = awake(agent, changes, now);
        changes.put(agent);
    }
}

/// A call that is refused keeps a live agent alive, and brings nobody back.
fn refused_sign_of_life(agent: &Agent, changes: &mut Changes, now: Timestamp) {
    if agent.is_live() {
        changes.pulse(&agent.id, now);
    }
}

/// Only the holder may report, and only under the epoch of its claim.
fn check_holder(task: &Task, agent: &AgentId, epoch: Option<u64>) -> Result<(), NotYours> {
    match task.holder() {
        Some(holder) if holder == agent => match epoch {
            Some(epoch) if epoch == task.epoch => Ok(()),
            None if !task.epoch_needed => Ok(()),
            Some(_) | None => Err(NotYours::StaleEpoch {
                current: task.epoch,
            }),
        },
        holder
            if task.previous_agents.contains(agent)
                || epoch.is_some_and(|epoch| epoch < task.epoch) =>
        {
            Err(NotYours::Reassigned {
                to: holder.cloned(),
            })
        }
        Some(holder) => Err(NotYours::NotHolder {
            holder: Some(holder.clone()),
        }),
        None if task.status().is_final() => Err(NotYours::AlreadyFinished {
            status: task.status(),
        }),
        None => Err(NotYours::NotHolder { holder: None }),
    }
}
