//! What of the ledger's log is worth remembering, each as one line with what it is about.
//!
//! Knows nothing of buffers and engrams. Texts are clean from here on: redacted, on one line, bounded.

use serde::Deserialize;
use switchboard_core::{AgentId, Event, FailureKind, Logged, Task, TaskId, Timestamp};
use switchboard_wire::agentbus::engram::{Decision, Link};

use super::line::{FACT_BYTES_MAX, FACT_TITLE_BYTES_MAX, RATIONALE_BYTES_MAX, line};
use super::topics::{self, TOPICS_PER_RECORD};

/// An event as it is remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct Noted {
    pub seq: u64,
    pub at: Timestamp,
    /// The word of the event in the log.
    pub event_type: String,
    pub fact: String,
    pub decision: Option<Decision>,
    pub topics: Vec<String>,
    pub links: Vec<Link>,
}

/// What a record costs beside its texts.
const RECORD_BYTES: usize = 64;

impl Noted {
    /// About how much it takes as `{event_type, event}`.
    pub fn bytes(&self) -> usize {
        let decision = self.decision.as_ref();
        let decided = decision.map_or(0, |it| it.title.len() + it.rationale.len());
        let topics: usize = self.topics.iter().map(String::len).sum();
        let links: usize = self.links.iter().map(|link| link.target.len()).sum();
        RECORD_BYTES + self.event_type.len() + self.fact.len() + decided + topics + links
    }
}

/// What a fact tells of, by its first word. Where not all can stay, the first of these do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    Learned,
    Person,
    Failed,
    Release,
    Note,
    Error,
    Done,
    Retry,
    Other,
}

impl Weight {
    const WORDS: [(&'static str, Weight); 8] = [
        ("learned", Weight::Learned),
        ("person", Weight::Person),
        ("failed", Weight::Failed),
        ("release", Weight::Release),
        ("note", Weight::Note),
        ("error", Weight::Error),
        ("done", Weight::Done),
        ("retry", Weight::Retry),
    ];

    pub fn of(fact: &str) -> Weight {
        let word = fact.split_once(':').map_or("", |(word, _)| word);
        let found = Weight::WORDS.iter().find(|(begins, _)| *begins == word);
        found.map_or(Weight::Other, |(_, weight)| *weight)
    }
}

/// One event of the log, if it is worth a line. Events only name their task; `look` finds it, if it still can.
pub fn note<E>(
    logged: &Logged,
    look: impl FnOnce(&TaskId) -> Result<Option<Task>, E>,
) -> Result<Option<Noted>, E> {
    let Some(told) = Told::of(&logged.event) else {
        return Ok(None);
    };
    let task = match told.task {
        Some(id) => look(id)?,
        None => None,
    };
    Ok(Some(told.noted(logged, task.as_ref())))
}

/// What an event tells, before its task is known.
struct Told<'a> {
    /// The first word of the fact.
    begins: &'static str,
    task: Option<&'a TaskId>,
    /// How the fact names its subject, if that is no task or the task is gone.
    subject: String,
    says: String,
    topics: Vec<&'a str>,
    link: Option<Link>,
    decides: Decides,
}

/// Whether somebody decided something.
enum Decides {
    Nothing,
    /// What the task's result says in summary.
    Summary,
    /// The fact itself.
    Itself(&'static str),
}

impl<'a> Told<'a> {
    fn of(event: &'a Event) -> Option<Told<'a>> {
        match event {
            Event::TaskCompleted { .. }
            | Event::TaskNeedsPerson { .. }
            | Event::TaskRetryPlanned { .. }
            | Event::TaskRequeued { .. }
            | Event::TaskFailed { .. }
            | Event::TaskCanceled { .. } => Told::of_task(event),
            Event::ErrorReported { .. }
            | Event::DirectorSteered { .. }
            | Event::ReleasePublished { .. }
            | Event::MemoryNoted { .. } => Told::of_bus(event),
            Event::BaselineSet { by, snapshot } => {
                let from = snapshot.as_ref().map(|id| format!(" from snapshot {id}"));
                let says = format!("set by {by}{}", from.unwrap_or_default());
                Some(Told {
                    decides: Decides::Itself("quality baseline"),
                    ..Told::new("baseline", String::new(), says)
                })
            }
            Event::LearningStored { text, task, agent } => {
                let by = agent.as_ref().map_or("somebody", AgentId::as_str);
                Some(Told {
                    task: task.as_ref(),
                    ..Told::new("learned", by.to_owned(), text.clone())
                })
            }
            Event::WriteUndone { table, key, why } => {
                let subject = format!("{key} in {table}");
                Some(Told::new("undone", subject, why.clone()))
            }
            #[rustfmt::skip]
            Event::AgentRegistered { .. } | Event::AgentStatusChanged { .. } | Event::AgentSilent { .. }
            | Event::AgentReturned { .. } | Event::AgentDeregistered { .. } | Event::AgentKeyRotated { .. }
            | Event::AgentForgotten { .. } | Event::CommandIssued { .. } | Event::CommandObeyed { .. }
            | Event::TaskCreated { .. } | Event::TaskChanged { .. } | Event::TaskReady { .. }
            | Event::TaskBlocked { .. } | Event::TaskClaimed { .. } | Event::TaskHandedOver { .. }
            | Event::TaskProgressed { .. } | Event::TaskForgotten { .. } | Event::DependencyFailed { .. }
            | Event::MessageSent { .. } | Event::MessageDelivered { .. } | Event::MessageQueuedAgain { .. }
            | Event::MessageAcknowledged { .. } | Event::MessageExpired { .. } | Event::MessageRefused { .. }
            | Event::MessageFailed { .. } | Event::LeaseAcquired { .. } | Event::LeaseExtended { .. }
            | Event::LeaseReleased { .. } | Event::LeaseExpired { .. } | Event::EngramKept { .. }
            | Event::EngramEvicted { .. } | Event::BudgetGranted { .. } | Event::BudgetCooled { .. }
            | Event::TokenCreated { .. } | Event::TokenRevoked { .. } | Event::ClaimJudged { .. }
            | Event::FailureRecurred { .. } | Event::AgentInvited { .. } | Event::SessionBegan { .. }
            | Event::SessionEnded { .. } | Event::NodeInvited { .. } | Event::NodeJoined { .. }
            | Event::NodeLeft { .. } | Event::IncidentOpened { .. } | Event::IncidentResolved { .. }
            | Event::OutageEnded { .. } | Event::ClockSteppedBack { .. } | Event::ClockSteppedForward { .. }
            | Event::CapabilityPublished { .. } | Event::CapabilityRejected { .. } | Event::CapabilityWithdrawn { .. }
            | Event::CapabilityMoved { .. } | Event::ReviewOpened { .. } | Event::ReviewResolved { .. }
            | Event::JobCreated { .. } | Event::JobChanged { .. } | Event::JobMoved { .. }
            | Event::JobRunBegan { .. } | Event::JobRunEnded { .. }
            | Event::JobWarned { .. } | Event::JobForgotten { .. }
            | Event::EpochBegan { .. } | Event::Newer { .. } => None,
        }
    }

    fn new(begins: &'static str, subject: String, says: String) -> Told<'a> {
        Told {
            begins,
            task: None,
            subject,
            says,
            topics: Vec::new(),
            link: None,
            decides: Decides::Nothing,
        }
    }

    fn of_task(event: &'a Event) -> Option<Told<'a>> {
        let by_kind = |kind: &FailureKind, message: &str| format!("{}: {message}", kind.as_str());
        let about = |begins, task: &'a TaskId, number: &u64, says: String| Told {
            task: Some(task),
            ..Told::new(begins, format!("#{number}"), says)
        };
        let told = match event {
            Event::TaskCompleted {
                task,
                number,
                agent,
                ..
            } => Told {
                decides: Decides::Summary,
                ..about("done", task, number, format!("by {agent}"))
            },
            Event::TaskNeedsPerson {
                task, number, why, ..
            } => about("person", task, number, format!("needs a person: {why}")),
            Event::TaskRetryPlanned {
                task,
                number,
                kind,
                message,
                ..
            } => Told {
                topics: vec![kind.as_str()],
                ..about("retry", task, number, by_kind(kind, message))
            },
            Event::TaskRequeued {
                task,
                number,
                agent,
                why,
            } => about("retry", task, number, format!("taken from {agent}: {why}")),
            Event::TaskFailed {
                task,
                number,
                kind,
                message,
            } => Told {
                topics: vec![kind.as_str()],
                ..about("failed", task, number, by_kind(kind, message))
            },
            Event::TaskCanceled { task, number, why } => {
                about("canceled", task, number, why.clone())
            }
            _ => return None,
        };
        Some(told)
    }

    fn of_bus(event: &'a Event) -> Option<Told<'a>> {
        let told = match event {
            Event::ErrorReported {
                agent,
                error,
                task,
                number,
                stage,
                error_type,
                attempt,
                message,
            } => Told {
                task: task.as_ref(),
                topics: vec![error_type],
                link: Some(Link {
                    kind: "error".to_owned(),
                    target: error.clone(),
                }),
                ..Told::new(
                    "error",
                    format!("#{number}"),
                    format!("{error_type} of {agent} at {stage}, attempt {attempt}: {message}"),
                )
            },
            Event::DirectorSteered { by, order, reason } => Told {
                decides: Decides::Itself("director"),
                ..Told::new("steered", by.clone(), format!("{order}: {reason}"))
            },
            Event::ReleasePublished {
                by,
                release,
                main_sha,
                image_tag,
            } => {
                let part = |name: &str, value: &Option<String>| {
                    let value = value.as_ref();
                    value
                        .map(|value| format!(", {name} {value}"))
                        .unwrap_or_default()
                };
                let says = format!(
                    "published by {by}{}{}",
                    part("main", main_sha),
                    part("image", image_tag)
                );
                Told {
                    link: Some(Link {
                        kind: "release".to_owned(),
                        target: release.clone(),
                    }),
                    ..Told::new("release", release.clone(), says)
                }
            }
            Event::MemoryNoted {
                agent,
                event_type,
                text,
            } => Told {
                topics: vec![event_type.trim_end_matches(".v1")],
                ..Told::new("note", format!("{agent}, {event_type}"), text.clone())
            },
            _ => return None,
        };
        Some(told)
    }
}

impl Told<'_> {
    fn noted(self, logged: &Logged, task: Option<&Task>) -> Noted {
        let titled = task.map(|task| (task.number, line(&task.about.title, FACT_TITLE_BYTES_MAX)));
        let summary = match self.decides {
            Decides::Summary => task.and_then(summary_of),
            Decides::Nothing | Decides::Itself(_) => None,
        };
        let subject = match &titled {
            Some((number, title)) if self.subject.starts_with('#') => format!("#{number} {title}"),
            Some((number, title)) => format!("{} (#{number} {title})", self.subject),
            None => self.subject,
        };
        let parts = [Some(subject), Some(self.says), summary.clone()];
        let parts: Vec<String> = parts
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        let said = line(&parts.join(": "), FACT_BYTES_MAX - self.begins.len() - 2);
        let title = titled.as_ref().map(|(_, title)| title.as_str());
        let decision = match self.decides {
            Decides::Nothing => None,
            Decides::Summary => summary.map(|why| (title.unwrap_or_default().to_owned(), why)),
            Decides::Itself(title) => Some((title.to_owned(), said.clone())),
        };
        let linked = titled.as_ref().map(|(number, _)| Link {
            kind: "task".to_owned(),
            target: format!("#{number}"),
        });
        Noted {
            seq: logged.seq,
            at: logged.at,
            event_type: logged.event.kind().to_owned(),
            decision: decision.map(|(title, rationale)| Decision {
                title,
                rationale: line(&rationale, RATIONALE_BYTES_MAX),
            }),
            topics: topics_of(&self.topics, task, title.unwrap_or(&said)),
            links: linked.into_iter().chain(self.link.map(clean)).collect(),
            fact: format!("{}: {said}", self.begins),
        }
    }
}

/// What the worker says it did.
fn summary_of(task: &Task) -> Option<String> {
    /// All that is looked for in a result; every dialect has its own around it.
    #[derive(Deserialize)]
    struct Summary {
        summary: String,
    }
    let found: Summary = serde_json::from_str(task.result.as_deref()?).ok()?;
    Some(found.summary.trim().to_owned()).filter(|summary| !summary.is_empty())
}

/// Words of the event first, then skills, then the words of its title or text.
fn topics_of(given: &[&str], task: Option<&Task>, text: &str) -> Vec<String> {
    let skills = task
        .into_iter()
        .flat_map(|task| task.about.required_skills.iter());
    let given = given.iter().copied().chain(skills.map(AsRef::as_ref));
    let given = given.filter_map(|word| topics::word(&line(word, topics::WORD_BYTES_MAX)));
    let mut found: Vec<String> = Vec::new();
    for topic in given.chain(topics::words(text)) {
        if found.len() < TOPICS_PER_RECORD && !found.contains(&topic) {
            found.push(topic);
        }
    }
    found
}

/// Ids of others are as little to be trusted as their texts.
fn clean(link: Link) -> Link {
    Link {
        target: line(&link.target, FACT_TITLE_BYTES_MAX),
        ..link
    }
}

#[cfg(test)]
mod tests;
