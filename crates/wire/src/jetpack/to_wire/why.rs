//! Why nobody, or an agent, can claim a task: a word for programs and a sentence for people.

use switchboard_core::AgentId;
use switchboard_core::lane::Unfit;
use switchboard_core::verb::{Agents, Reason, WhyAnswer};

use crate::IsoTime;
use crate::jetpack::{AbleAgent, Why, WhyReason, WhyResponse};

/// Whom a reason keeps from the task.
#[derive(Clone, Copy)]
enum Whom<'a> {
    Everyone,
    /// None of so many agents can.
    AllOf(usize),
    One(&'a AgentId),
}

/// The answer to `why`.
pub fn why(reply: &WhyAnswer) -> WhyResponse {
    let mut reasons: Vec<Why> = told(Whom::Everyone, &reply.reasons).collect();
    let mut able = Vec::new();
    let mut unnamed = 0;
    if let Some(agents) = &reply.agents {
        reasons.extend(nobody(agents));
        reasons.extend(told(Whom::AllOf(agents.total), &agents.common));
        let each = agents.each.iter();
        reasons.extend(each.flat_map(|(agent, reasons)| told(Whom::One(agent), reasons)));
        able.extend(agents.able.iter().map(|(agent, task)| AbleAgent {
            agent_id: agent.to_string(),
            busy_with: task.as_ref().map(ToString::to_string),
        }));
        unnamed = agents.unnamed() as u64;
    }
    WhyResponse {
        success: true,
        claimable: reply.is_claimable(),
        reasons,
        able,
        unnamed,
    }
}

fn nobody(agents: &Agents) -> Option<Why> {
    (agents.total == 0).then(|| Why {
        reason: WhyReason::NoAgents,
        detail: None,
        agent_id: None,
        message: "no agent is registered".to_owned(),
    })
}

fn told<'a>(whom: Whom<'a>, reasons: &'a [Reason]) -> impl Iterator<Item = Why> + 'a {
    reasons.iter().map(move |reason| {
        let (word, detail) = named(reason);
        let agent_id = match whom {
            Whom::Everyone | Whom::AllOf(_) => None,
            Whom::One(agent) => Some(agent.to_string()),
        };
        Why {
            reason: word,
            detail,
            agent_id,
            message: sentence(whom, reason),
        }
    })
}

fn named(reason: &Reason) -> (WhyReason, Option<String>) {
    match reason {
        Reason::HeldBy(agent) => (WhyReason::HeldBy, Some(agent.to_string())),
        Reason::WaitsForDependency(task) => (WhyReason::WaitsForDependency, Some(task.to_string())),
        Reason::RetryNotDue(until) => (
            WhyReason::RetryNotDue,
            Some(IsoTime::from(*until).to_string()),
        ),
        Reason::NeedsPerson => (WhyReason::NeedsPerson, None),
        Reason::Finished(status) => (WhyReason::Finished, Some((*status).to_owned())),
        Reason::Paused(hold) => {
            let until = hold.until.map(IsoTime::from);
            let until = until.map_or(String::new(), |until| format!(" until {until}"));
            let detail = format!("by {}{until}: {}", hold.by, hold.why);
            (WhyReason::Paused, Some(detail))
        }
        Reason::AgentNotRegistered => (WhyReason::AgentNotRegistered, None),
        Reason::AgentOffline => (WhyReason::AgentOffline, None),
        Reason::AgentStopping => (WhyReason::AgentStopping, None),
        Reason::Unfit(unfit) => match unfit {
            Unfit::NotInAudience => (WhyReason::NotInAudience, None),
            Unfit::Barred => (WhyReason::Barred, None),
            Unfit::MissingSkill(skill) => (WhyReason::MissingSkill, Some(skill.to_string())),
            Unfit::OverTimeLimit { estimate, limit } => (
                WhyReason::OverTimeLimit,
                Some(format!("estimated {estimate} minutes, limit {limit}")),
            ),
            Unfit::NeedsBrowser => (WhyReason::NeedsBrowser, None),
            Unfit::NeedsTests => (WhyReason::NeedsTests, None),
            Unfit::FailedBefore { until } => (
                WhyReason::FailedItBefore,
                Some(format!("others come first until {}", IsoTime::from(*until))),
            ),
        },
    }
}

fn sentence(whom: Whom<'_>, reason: &Reason) -> String {
    let detail = || named(reason).1.unwrap_or_default();
    // As it is said of one agent, and of none of many.
    let (one, none) = match reason {
        Reason::HeldBy(agent) => return format!("{agent} holds it"),
        Reason::WaitsForDependency(task) => return format!("it waits for task {task}"),
        Reason::RetryNotDue(_) => return format!("it is tried again at {}", detail()),
        Reason::NeedsPerson => return "it waits for a person to approve or reject it".to_owned(),
        Reason::Finished(status) => return format!("it is {status}"),
        Reason::Paused(_) => return format!("no work is handed out: paused {}", detail()),
        Reason::AgentNotRegistered => ("not registered".to_owned(), "is registered".to_owned()),
        Reason::AgentOffline => ("offline".to_owned(), "is online".to_owned()),
        Reason::AgentStopping => (
            "shutting down".to_owned(),
            "takes work: all shut down".to_owned(),
        ),
        Reason::Unfit(unfit) => match unfit {
            Unfit::NotInAudience => (
                "not one of the agents that it is for".to_owned(),
                "is one that it is for".to_owned(),
            ),
            Unfit::Barred => (
                "barred from it".to_owned(),
                "is not barred from it".to_owned(),
            ),
            Unfit::MissingSkill(skill) => {
                (format!("does not have {skill}"), format!("has {skill}"))
            }
            Unfit::OverTimeLimit { estimate, limit } => (
                format!("estimated {estimate} minutes, takes up to {limit}"),
                format!("takes more than {limit} minutes; it is estimated at {estimate}"),
            ),
            Unfit::NeedsBrowser => ("has no browser".to_owned(), "has a browser".to_owned()),
            Unfit::NeedsTests => ("cannot run tests".to_owned(), "can run tests".to_owned()),
            Unfit::FailedBefore { .. } => (
                format!("failed it before, and {}", detail()),
                format!("has not failed it before; {}", detail()),
            ),
        },
    };
    match whom {
        Whom::One(agent) => format!("{agent}: {one}"),
        Whom::AllOf(total) => format!("none of {total} agents {none}"),
        Whom::Everyone => one,
    }
}
