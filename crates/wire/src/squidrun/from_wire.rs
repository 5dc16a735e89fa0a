//! From what was said, by frame or by file, to the verb: whom it is for, what stands in front of it, what is kept of it.
//!
//! Nothing is looked up but words: whether a number follows or a message is known is for the rules to say.

use serde::Serialize;
use switchboard_core::assertion::Asserted;
use switchboard_core::talk::Gist;
use switchboard_core::verb::{NewTask, Refuse, Say, Speaker};
use switchboard_core::{
    AgentId, CorrId, Description, Door, MessageId, Priority, TaskId, TaskKind, To, limits,
};

use super::claims;
use super::frame::{MESSAGE_ID_BYTES_MAX, Spoken, TraceContext};
use super::header;
use super::members::Members;
use super::roles::{CLI, Roles, Target};
use super::tags::{self, Tags};
use super::trigger;
use super::words::Status;
use crate::jetpack::from_wire::check;
use crate::{Json, Malformed};

/// What a frame and a trigger file have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Saying {
    pub id: Option<String>,
    pub from: Speaker,
    pub to: Addressees,
    /// With its header and its tags.
    pub content: String,
    pub priority: Option<String>,
    /// An object.
    pub metadata: Option<Json>,
    pub trace: Option<TraceContext>,
    /// The same under another id a moment ago is the same.
    pub once: bool,
}

/// Whom something is said to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addressees {
    /// A word that may name a target.
    One(String),
    /// Everyone but the sender.
    All,
    /// Every role but this one and the sender.
    Others(AgentId),
}

impl Addressees {
    /// As it is told to people.
    fn word(&self) -> String {
        match self {
            Self::One(word) => limits::cut(word, limits::ID_BYTES_MAX).to_owned(),
            Self::All => "all".to_owned(),
            Self::Others(but) => format!("others-{but}"),
        }
    }
}

impl Saying {
    /// A `send` on this speaker's connection.
    pub fn by_send(spoken: Spoken, from: Speaker) -> Saying {
        let to = Addressees::One(spoken.target.clone());
        Self::by_frame(spoken, from, to)
    }

    /// A `broadcast` on this speaker's connection.
    pub fn by_broadcast(spoken: Spoken, from: Speaker) -> Saying {
        Self::by_frame(spoken, from, Addressees::All)
    }

    fn by_frame(spoken: Spoken, from: Speaker, to: Addressees) -> Saying {
        Saying {
            id: spoken.message_id,
            from,
            to,
            content: spoken.content,
            priority: spoken.priority,
            metadata: spoken.metadata,
            trace: spoken.trace_context,
            once: spoken.ack_required,
        }
    }

    /// The text of a trigger file: a line of its own or the header says which role speaks; else it is [`CLI`].
    pub fn by_file(text: String, to: Addressees, roles: &Roles) -> Saying {
        let content = trigger::read(&text);
        let named = content.from.and_then(|word| roles.target(word));
        let named = named.filter(|it| matches!(it, Target::Role(_) | Target::Slot { .. }));
        let header = header::parse(content.body);
        let header = header.and_then(|header| roles.by_header(header.role));
        let role = named.map(|target| target.id().to_string());
        let role = role.or_else(|| header.map(|role| role.id.clone()));
        let from = roles.speaker(role.as_deref().unwrap_or(CLI));
        let mut metadata = Members::default();
        metadata.mark(FALLBACK);
        Saying {
            id: None,
            from,
            to,
            content: text,
            priority: None,
            metadata: metadata.json(),
            trace: None,
            once: false,
        }
    }
}

/// Of the metadata: it came by a trigger file.
pub(super) const FALLBACK: &str = "fallback";

/// Something that is not said: the answer, and the verb that keeps it on record if it has an id.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub status: Status,
    pub why: Malformed,
    pub record: Option<Refuse>,
}

/// The verb, in this session; `fresh` makes an id that begins with the given letters.
pub fn say(
    saying: Saying,
    roles: &Roles,
    session: u32,
    fresh: &mut dyn FnMut(&'static str) -> String,
) -> Result<Say, Box<Refused>> {
    let text = trigger::clean(&saying.content);
    let content = trigger::read(&text);
    let id = match saying.id.as_deref().or(content.id) {
        None => MessageId::from(fresh("msg")),
        Some(given) => message_id(given)?,
    };
    let header = header::parse(content.body);
    let body = header.map_or(content.body, |header| header.body);
    let (tags, rest) = tags::parse(body);
    let header_role = header.and_then(|header| roles.by_header(header.role));
    let header_role = header_role.map(|role| AgentId::from(role.id.as_str()));
    let about = About {
        role: header_role
            .as_ref()
            .map(AgentId::as_str)
            .or(header.map(|it| it.role)),
        seq: header.map(|header| header.number),
        tags: tags.words(),
        metadata: metadata(
            &saying,
            content.project,
            header.is_some(),
            header_role.as_ref(),
        ),
        session,
        priority: saying.priority.as_deref().filter(|word| *word != NORMAL),
    };
    let (payload, body_bytes) = about.payload(content.body);
    let refused = |status: Status, why| {
        let record = Some(Refuse {
            message: id.clone(),
            from: saying.from.id().clone(),
            to: saying.to.word(),
            payload: about.shortened(content.body, &payload),
            reason: status.as_str(),
        });
        Box::new(Refused {
            status,
            why,
            record,
        })
    };
    check::filled("content", content.body, limits::PAYLOAD_BYTES_MAX)
        .and_then(|()| check::text("content and metadata", &payload, limits::PAYLOAD_BYTES_MAX))
        .map_err(|why| refused(Status::InvalidMessage, why))?;
    let (to, bound_to) = to(&saying, roles).map_err(|why| refused(Status::InvalidTarget, why))?;
    let trace = saying.trace.and_then(|trace| trace.trace_id);
    let corr_id = trace.map_or_else(|| CorrId::from(id.as_str()), CorrId::from);
    let priority = priority(&tags, saying.priority.as_deref());
    let (names, claims, failed) = meant(&tags, body, rest);
    let task = || Box::new(task(&id, rest, priority, &corr_id));
    let gist = gist(rest, saying.from.id(), roles);
    Ok(Say {
        task: tags.task.then(task),
        body_bytes,
        number: header.map(|header| header.number),
        header_role,
        priority,
        ack_required: tags.ack_required,
        names,
        is_ack: tags::is_ack(rest),
        gist,
        claims,
        failed,
        corr_id,
        once: saying.once,
        bound_to,
        ..Say::plain(Door::Squidrun, id, saying.from, to, payload)
    })
}

/// The record of something that the rules refused to have said.
pub fn refuse(say: &Say, status: Status) -> Refuse {
    let named = say.to.named().iter().map(AgentId::as_str);
    Refuse {
        message: say.id.clone(),
        from: say.from.id().clone(),
        to: match say.to {
            To::Everyone => "all".to_owned(),
            To::One(_) | To::Several(_) => named.collect::<Vec<_>>().join(" "),
        },
        payload: say.payload.clone(),
        reason: status.as_str(),
    }
}

/// Numbers that it names, what it claims, and the failure that it tells of.
fn meant(tags: &Tags<'_>, body: &str, rest: &str) -> (Vec<u32>, Vec<Asserted>, Option<String>) {
    if tags.escalate {
        // A log says many things, and means none of them.
        let line = tags::first_error(rest).to_owned();
        return (Vec::new(), Vec::new(), Some(line));
    }
    (tags::names(body), claims::asserted(rest), None)
}

/// `<role> online` from that role is its check-in; a word that says nothing is counted.
fn gist(text: &str, from: &AgentId, roles: &Roles) -> Option<Gist> {
    let mut words = text
        .split_whitespace()
        .map(|word| word.trim_matches(is_mark));
    let (first, second) = (words.next()?, words.next());
    let is_online = second.is_some_and(|word| word.eq_ignore_ascii_case("online"));
    if is_online && roles.speaker(first).id() == from {
        return Some(Gist::CheckIn);
    }
    let whole = text.trim_matches(is_mark);
    let is_empty = |word: &&str| whole.eq_ignore_ascii_case(word);
    EMPTY.iter().any(is_empty).then_some(Gist::EmptyAck)
}

fn is_mark(letter: char) -> bool {
    letter.is_whitespace() || letter.is_ascii_punctuation()
}

const EMPTY: [&str; 10] = [
    "ok",
    "okay",
    "ack",
    "acknowledged",
    "received",
    "noted",
    "understood",
    "roger",
    "got it",
    "copy that",
];

fn message_id(given: &str) -> Result<MessageId, Box<Refused>> {
    let fits = check::text("messageId", given, MESSAGE_ID_BYTES_MAX);
    let id = fits.and_then(|()| check::id("messageId", given));
    id.map(MessageId::from).map_err(|why| {
        Box::new(Refused {
            status: Status::InvalidMessage,
            why,
            record: None,
        })
    })
}

/// Metadata as sent, without the content that is in there once more, and with what the text itself tells.
fn metadata(
    saying: &Saying,
    project: Option<&str>,
    numbered: bool,
    header_role: Option<&AgentId>,
) -> Option<Json> {
    let mut kept = saying
        .metadata
        .as_ref()
        .map(Members::of)
        .unwrap_or_default();
    if let Some(envelope) = kept.get("envelope") {
        let mut envelope = Members::of(envelope);
        envelope.remove("content");
        if let Some(json) = envelope.json() {
            kept.set("envelope", json);
        }
    }
    if let (Some(line), None) = (project, kept.get("project")) {
        kept.set("project", trigger::project(line));
    }
    if !numbered {
        kept.mark("unsequenced");
    }
    if header_role.is_some_and(|role| role != saying.from.id()) {
        kept.mark("headerMismatch");
    }
    kept.json()
}

/// Recipients by their canonical names, and whom the only one belongs to.
fn to(saying: &Saying, roles: &Roles) -> Result<(To, Option<AgentId>), Malformed> {
    let nobody = |word: &str| Malformed::field("target", format!("nobody is called {word:?}"));
    match &saying.to {
        Addressees::All => Ok((To::Everyone, None)),
        Addressees::Others(but) => {
            let from = saying.from.id();
            let others = roles.ids().filter(|id| *id != but && *id != from).cloned();
            let to = To::agents(others).ok_or_else(|| nobody("others"))?;
            Ok((to, None))
        }
        Addressees::One(word) => match roles.target(word) {
            Some(Target::Slot { id, owner }) => Ok((To::One(id), Some(owner))),
            Some(target) => Ok((To::One(target.id()), None)),
            None if word.trim().is_empty() => Err(Malformed::missing("target")),
            None => Err(nobody(limits::cut(word, limits::ID_BYTES_MAX))),
        },
    }
}

const NORMAL: &str = "normal";

/// A tag says more than the frame.
fn priority(tags: &Tags<'_>, said: Option<&str>) -> Priority {
    let is = |word: &str| said.is_some_and(|said| said.eq_ignore_ascii_case(word));
    match () {
        () if tags.urgent || (!tags.fyi && (is("urgent") || is("critical"))) => Priority::Critical,
        () if tags.fyi || is("low") => Priority::Low,
        () if is("high") => Priority::High,
        () => Priority::Medium,
    }
}

/// A task of a message; its recipients are its audience, its sender hears of its end.
fn task(id: &MessageId, text: &str, priority: Priority, corr_id: &CorrId) -> NewTask {
    let line = text.lines().next().unwrap_or_default().trim();
    let end = line.char_indices().nth(TITLE_CHARS_MAX).map(|(end, _)| end);
    let title = &line[..end.unwrap_or(line.len())];
    NewTask {
        about: Description {
            title: if title.is_empty() { "task" } else { title }.to_owned(),
            description: (text != title).then(|| text.to_owned()),
            max_retries: 0,
            priority,
            kind: TaskKind::Custom,
            ..Description::default()
        },
        corr_id: corr_id.clone(),
        ..NewTask::plain(task_id(id), "")
    }
}

pub(super) fn task_id(message: &MessageId) -> TaskId {
    TaskId::from(format!("sq:{message}"))
}

const TITLE_CHARS_MAX: usize = 80;

/// What is kept of a message beside its text.
#[derive(Default, Serialize)]
struct About<'a> {
    role: Option<&'a str>,
    seq: Option<u32>,
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Json>,
    session: u32,
    /// Of the frame, if it said another than the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'a str>,
}

impl About<'_> {
    /// Text and all, and how much of it is the text.
    fn payload(&self, text: &str) -> (String, usize) {
        let json = |value: Result<String, _>| value.expect("its keys are strings");
        let mut printed = format!("{{\"text\":{}", json(serde_json::to_string(text)));
        let body_bytes = printed.len();
        printed.push(',');
        printed.push_str(&json(serde_json::to_string(self))[1..]);
        (printed, body_bytes)
    }

    /// The payload of what is refused: of one that is too long, as much of its text as is worth keeping.
    fn shortened(&self, text: &str, payload: &str) -> Box<str> {
        if payload.len() <= limits::PAYLOAD_BYTES_MAX {
            return payload.into();
        }
        let session = self.session;
        let about = About {
            session,
            ..About::default()
        };
        about
            .payload(limits::cut(text, limits::DETAILS_BYTES_MAX))
            .0
            .into()
    }
}
