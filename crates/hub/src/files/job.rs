//! One request from its file to its answer, however often that takes a try.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use switchboard_core::{AgentId, limits};
use switchboard_wire::Malformed;
use tokio::sync::Semaphore;

use super::act::{self, Patience, Remedy, Request, act, remedy};
use super::place::Dirs;
use super::request_file::{Fate, Origin, answer_name};
use super::surface::Tally;
use crate::call::{Calls, Failure, to_json};
use crate::spool::{Found, Identity, Place};

/// A request whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub name: OsString,
    pub identity: Identity,
    pub origin: Origin,
    /// Whose it is, if that can be read.
    pub agent: Option<AgentId>,
    /// It waits for something to come, and so for nobody's turn.
    pub waits: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Away,
    /// Answered, and still in its place.
    Unmovable,
    /// There was another file of this name by then; it lies among the taken ones and was not looked at.
    Another,
    /// It is not the file that it was.
    Changed,
    /// The files around it cannot be worked with; later, perhaps.
    Stuck,
}

/// What all jobs work with.
pub struct Context {
    pub calls: Arc<Calls>,
    pub place: Place,
    /// Errands to the disk that run at a time.
    pub disk: Semaphore,
    pub tally: Arc<Tally>,
}

const RETRY_AFTER_MIN: Duration = Duration::from_millis(50);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(2);
/// Tries to put an answer down before others get their turn.
const SETTLE_TRIES: u32 = 5;

impl Context {
    /// Does something with the directories, off the threads that serve.
    pub async fn with<T: Send + 'static>(
        self: &Arc<Self>,
        errand: impl FnOnce(&Context, &Dirs) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let _permit = self.disk.acquire().await.map_err(io::Error::other)?;
        let context = Arc::clone(self);
        let done =
            tokio::task::spawn_blocking(move || errand(&context, &Dirs::open(&context.place)?));
        done.await.map_err(io::Error::other)?
    }

    /// False if the hub stops instead.
    async fn pause(&self, tries: u32) -> bool {
        let pause = RETRY_AFTER_MIN * 2_u32.saturating_pow(tries.min(16));
        tokio::select! {
            () = tokio::time::sleep(pause.min(RETRY_AFTER_MAX)) => true,
            () = self.calls.stopping.cancelled() => false,
        }
    }
}

/// Acts on a request and answers it.
pub async fn handle(context: Arc<Context>, item: Item) -> Verdict {
    let (origin, name) = (item.origin, item.name.clone());
    let found = context.with(move |_, dirs| dirs.read(origin, &name)).await;
    let outcome = match found {
        Ok(Found::Gone) => return Verdict::Away,
        Ok(Found::Changing(_)) if item.agent.is_some() => return Verdict::Changed,
        // It had its time to become whole.
        Ok(Found::Changing(_)) => refused(Malformed::whole("it is still being written").into()),
        Ok(Found::TooLarge(found) | Found::Unfit(found, _) | Found::Whole(found, _))
            if found != item.identity =>
        {
            return Verdict::Changed;
        }
        Ok(Found::TooLarge(_)) => refused(Failure::TooLarge),
        Ok(Found::Unfit(_, why)) => refused(Malformed::whole(why).into()),
        Ok(Found::Whole(_, body)) => match perform(&context, &item, body).await {
            Ok(outcome) => outcome,
            Err(verdict) => return verdict,
        },
        Err(error) => {
            tracing::debug!("request file {:?} cannot be read: {error}", item.name);
            return Verdict::Stuck;
        }
    };
    settle(&context, item, outcome).await
}

/// The answer, and where the request goes.
type Outcome = (Bytes, Fate);

async fn perform(context: &Arc<Context>, item: &Item, body: Vec<u8>) -> Result<Outcome, Verdict> {
    if let Some(why) = unanswerable(item, super::now(&context.calls)) {
        return Ok(refused(Malformed::whole(why).into()));
    }
    let mut request = Request {
        file_key: item.identity.key(&item.name, &body),
        body,
        patience: match item.waits {
            true => Patience::AsAsked,
            false => Patience::None,
        },
        counted: false,
    };
    for tries in 0.. {
        let failure = match act(&context.calls, &mut request).await {
            Ok(answer) => return Ok((answer.body, Fate::Done)),
            Err(failure) => failure,
        };
        match act::remedy(&failure) {
            Remedy::Answer | Remedy::Reject => return Ok(refused(failure)),
            Remedy::TryAgain => {}
        }
        if !context.pause(tries).await {
            return Err(Verdict::Stuck);
        }
        let (origin, name) = (item.origin, item.name.clone());
        let still = context
            .with(move |_, dirs| dirs.identity(origin, &name))
            .await;
        // Whoever took its request back does not want it done any more.
        if still.is_ok_and(|found| found != Some(item.identity)) {
            return Err(Verdict::Changed);
        }
    }
    Err(Verdict::Stuck)
}

/// Why a request is not acted on, whatever it says.
fn unanswerable(item: &Item, now: SystemTime) -> Option<String> {
    if answer_name(&item.name).is_none() {
        return Some("its name is too long: the name of the response would not fit".to_owned());
    }
    let age = item.identity.age(now);
    (age >= limits::IDEMPOTENCY_FOR).then(|| {
        let hours = limits::IDEMPOTENCY_FOR.as_secs() / 3600;
        format!(
            "it was written more than {hours} hours ago, so it is unknown whether it was already handled; write it again if it was not"
        )
    })
}

fn refused(failure: Failure) -> Outcome {
    let (body, _) = failure.answer();
    let fate = match remedy(&failure) {
        Remedy::Reject => Fate::Rejected(match &failure {
            Failure::Malformed(malformed) => malformed.to_string(),
            _ => body.message.clone(),
        }),
        Remedy::Answer | Remedy::TryAgain => Fate::Done,
    };
    (to_json(&body).into(), fate)
}

async fn settle(context: &Arc<Context>, item: Item, (answer, fate): Outcome) -> Verdict {
    let item = Arc::new(item);
    for tries in 0..SETTLE_TRIES {
        let (file, answer, end) = (Arc::clone(&item), answer.clone(), fate.clone());
        let settled = context
            .with(move |_, dirs| dirs.settle(file.origin, &file.name, file.identity, &answer, &end))
            .await;
        match settled {
            Ok(verdict) => {
                count(context, &item, verdict, &fate);
                return verdict;
            }
            Err(error) => {
                tracing::warn!("request file {:?} cannot be answered: {error}", item.name);
            }
        }
        if !context.pause(tries).await {
            break;
        }
    }
    Verdict::Stuck
}

fn count(context: &Context, item: &Item, verdict: Verdict, fate: &Fate) {
    let tally = &context.tally;
    match (verdict, fate) {
        (Verdict::Another | Verdict::Changed | Verdict::Stuck, _) => {}
        (Verdict::Away | Verdict::Unmovable, Fate::Done) => {
            tally.answered.fetch_add(1, Ordering::Relaxed);
        }
        (Verdict::Away | Verdict::Unmovable, Fate::Rejected(reason)) => {
            tally.rejected.fetch_add(1, Ordering::Relaxed);
            tracing::info!("request file {:?} was rejected: {reason}", item.name);
        }
    }
}
