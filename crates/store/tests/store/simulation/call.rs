//! What agents ask of a coordinator: a verb under a key, so that it happens once however often it is sent.

use std::sync::Arc;

use switchboard_core::idempotency::{Key, Remembered};
use switchboard_core::verb::{
    Acknowledge, AcquireLease, Claim, Claimed, Complete, CreateTasks, Fail, Heartbeat, Join,
    LeaseAnswer, Progressed, Receive, ReleaseLease, ReleaseTask, ReportProgress, Send,
};
use switchboard_core::{
    AgentId, Changes, MessageId, Refusal, Slice, TaskId, Timestamp, Verb, Want,
};

#[derive(Clone, Debug)]
pub struct Call {
    pub by: AgentId,
    pub key: u64,
    pub act: Act,
}

#[derive(Clone, Debug)]
pub enum Act {
    Register(Join),
    Beat(Heartbeat),
    Create(CreateTasks),
    Claim(Claim),
    Progress(ReportProgress),
    Complete(Complete),
    Fail(Fail),
    Release(ReleaseTask),
    Send(Send),
    Receive(Receive),
    Acknowledge(Acknowledge),
    Acquire(AcquireLease),
    Unlease(ReleaseLease),
}

/// As much of a reply as an agent needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    Task(TaskId, u64),
    NoTask,
    /// The task is no longer this agent's.
    NotYours,
    Messages(Vec<MessageId>),
    Lease(u64),
    HeldByOther,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub reply: Reply,
    pub is_replay: bool,
}

impl Call {
    fn key(&self) -> Key {
        Key {
            principal: self.by.to_string().into(),
            operation: "simulated",
            key: self.key.to_string().into(),
        }
    }
}

/// As the hub treats a call with a key.
impl Verb for Call {
    type Reply = Answer;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        if want.remembered(&self.key()).is_none() {
            self.act.asks(want, now);
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Answer, Changes), Refusal> {
        let key = self.key();
        if let Some(before) = Want::new(slice).remembered(&key) {
            let reply = Reply::parse(&before.answer);
            return Ok((
                Answer {
                    reply,
                    is_replay: true,
                },
                Changes::default(),
            ));
        }
        let (reply, mut changes) = self.act.decide(slice, now)?;
        changes.put(Remembered {
            key,
            body_hash: [0; 32],
            answer: reply.text().into_bytes().into(),
            at: now,
        });
        Ok((
            Answer {
                reply,
                is_replay: false,
            },
            changes,
        ))
    }
}

impl Verb for Act {
    type Reply = Reply;

    fn asks(&self, want: &mut Want<'_>, now: Timestamp) {
        match self {
            Act::Register(verb) => verb.asks(want, now),
            Act::Beat(verb) => verb.asks(want, now),
            Act::Create(verb) => verb.asks(want, now),
            Act::Claim(verb) => verb.asks(want, now),
            Act::Progress(verb) => verb.asks(want, now),
            Act::Complete(verb) => verb.asks(want, now),
            Act::Fail(verb) => verb.asks(want, now),
            Act::Release(verb) => verb.asks(want, now),
            Act::Send(verb) => verb.asks(want, now),
            Act::Receive(verb) => verb.asks(want, now),
            Act::Acknowledge(verb) => verb.asks(want, now),
            Act::Acquire(verb) => verb.asks(want, now),
            Act::Unlease(verb) => verb.asks(want, now),
        }
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Reply, Changes), Refusal> {
        fn done<R>((_, changes): (R, Changes)) -> (Reply, Changes) {
            (Reply::Done, changes)
        }
        match self {
            Act::Register(verb) => verb.decide(slice, now).map(done),
            Act::Beat(verb) => verb.decide(slice, now).map(done),
            Act::Create(verb) => verb.decide(slice, now).map(done),
            Act::Complete(verb) => verb.decide(slice, now).map(done),
            Act::Fail(verb) => verb.decide(slice, now).map(done),
            Act::Release(verb) => verb.decide(slice, now).map(done),
            Act::Send(verb) => verb.decide(slice, now).map(done),
            Act::Acknowledge(verb) => verb.decide(slice, now).map(done),
            Act::Unlease(verb) => verb.decide(slice, now).map(done),
            Act::Claim(verb) => verb
                .decide(slice, now)
                .map(|(claimed, changes)| match claimed {
                    Claimed::Task(task) => (Reply::Task(task.id.clone(), task.epoch), changes),
                    Claimed::None(..) => (Reply::NoTask, changes),
                }),
            Act::Progress(verb) => verb.decide(slice, now).map(|(told, changes)| match told {
                Progressed::Continue => (Reply::Done, changes),
                Progressed::Abort(_) => (Reply::NotYours, changes),
            }),
            Act::Receive(verb) => verb.decide(slice, now).map(|(messages, changes)| {
                let ids = messages.into_iter().map(|received| received.message.id);
                (Reply::Messages(ids.collect()), changes)
            }),
            Act::Acquire(verb) => verb.decide(slice, now).map(|(told, changes)| match told {
                LeaseAnswer::Granted(lease) => (Reply::Lease(lease.fencing), changes),
                LeaseAnswer::Held(_) => (Reply::HeldByOther, changes),
            }),
        }
    }
}

impl Reply {
    fn text(&self) -> String {
        match self {
            Reply::Done => "done".to_owned(),
            Reply::Task(task, epoch) => format!("task {task} {epoch}"),
            Reply::NoTask => "no-task".to_owned(),
            Reply::NotYours => "not-yours".to_owned(),
            Reply::Messages(ids) => {
                let ids = ids.iter().map(|id| format!(" {id}"));
                ids.fold("messages".to_owned(), |all, id| all + &id)
            }
            Reply::Lease(fencing) => format!("lease {fencing}"),
            Reply::HeldByOther => "held".to_owned(),
        }
    }

    fn parse(text: &Arc<[u8]>) -> Reply {
        let text = String::from_utf8_lossy(text);
        let words: Vec<&str> = text.split(' ').collect();
        let number = |text: &str| text.parse().expect("it was printed from a number");
        match words[..] {
            ["done"] => Reply::Done,
            ["task", task, epoch] => Reply::Task(task.into(), number(epoch)),
            ["no-task"] => Reply::NoTask,
            ["not-yours"] => Reply::NotYours,
            ["messages", ref ids @ ..] => {
                Reply::Messages(ids.iter().map(|id| MessageId::from(*id)).collect())
            }
            ["lease", fencing] => Reply::Lease(number(fencing)),
            ["held"] => Reply::HeldByOther,
            _ => panic!("never printed: {text}"),
        }
    }
}
