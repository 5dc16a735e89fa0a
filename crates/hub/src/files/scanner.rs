//! The one loop of the file door: hears of files, looks through the directory, hands out work, cleans up.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use rustix::fs::{Dir, DirEntry};
use serde::de::IgnoredAny;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::act::glance;
use super::job::{Context, Item, Verdict, handle};
use super::place::{Dirs, REQUESTS};
use super::queue::{Queue, Turn};
use super::request_file::{Origin, is_request};
use crate::call::Calls;
use crate::config::Files;
use crate::spool::{self, Cleanup, Found, Heard, Hints, Interest, Lock, names};

/// Names that one rescan reads; the next goes on where it ended.
const NAMES_PER_RESCAN: usize = 200_000;
/// Files that are opened in one go.
const LOOKS: usize = 256;
/// An answer that is ready for longer than this was left behind by its job.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(10);
/// A request that waits for something stays in memory meanwhile, so it must be small.
const WAITING_BYTES_MAX: usize = 16 * 1024;

pub struct Scanner {
    context: Arc<Context>,
    settings: Files,
    hints: Hints,
    queue: Queue,
    jobs: JoinSet<Verdict>,
    in_work: HashMap<Id, Item>,
    lock: Option<Lock>,
    /// A sweep that has not come to its end.
    sweep: Option<Dir>,
    cleanup: Cleanup,
    /// What was last complained of.
    trouble: Option<String>,
    told_remote: bool,
}

/// What a rescan found.
struct Survey {
    met: Vec<Met>,
    sweep: Option<Dir>,
    cleanup: Cleanup,
    requests_id: u64,
}

/// A name as it stands in a directory.
struct Met {
    origin: Origin,
    name: OsString,
    ino: u64,
}

impl Scanner {
    pub fn new(context: Context, settings: Files) -> Scanner {
        Scanner {
            context: Arc::new(context),
            settings,
            hints: Hints::new(Interest {
                is_ours: is_request,
                only_whole: false,
            }),
            queue: Queue::default(),
            jobs: JoinSet::new(),
            in_work: HashMap::new(),
            lock: None,
            sweep: None,
            cleanup: Cleanup::default(),
            trouble: None,
            told_remote: false,
        }
    }

    /// Makes the directories and begins to watch them.
    pub async fn open(&mut self) {
        match self.enter().await {
            Ok(true) => {
                let path = self.context.place.path();
                tracing::debug!("request files are served in {}", path.display());
            }
            // It was said why.
            Ok(false) => {}
            Err(error) => self.complain(&error.to_string()),
        }
    }

    /// Serves until the hub stops; what is in work then is finished, or left for the next start.
    pub async fn run(mut self) {
        let stopping = self.context.calls.stopping.clone();
        let mut rescans = tokio::time::interval(self.settings.rescan_every);
        rescans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.hand_out();
            let later = self.queue.next_later();
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                Some(ended) = self.jobs.join_next_with_id() => self.ended(ended),
                _ = rescans.tick() => self.rescan().await,
                () = sleep_until(later) => self.queue.wake(Instant::now()),
                () = std::future::ready(()), if self.can_look() => {
                    self.look().await;
                    // What came meanwhile gets its turn after the next few.
                    self.hear(self.hints.heard_so_far(), &mut rescans);
                }
                heard = self.hints.heard() => self.hear(heard, &mut rescans),
            }
        }
        while let Some(ended) = self.jobs.join_next_with_id().await {
            self.ended(ended);
        }
    }

    fn hear(&mut self, heard: Heard, rescans: &mut Interval) {
        if heard.more {
            rescans.reset_immediately();
        }
        for name in &heard.names {
            self.queue.look_at(Origin::Requests, name);
        }
    }

    fn hand_out(&mut self) {
        while let Some(item) = self.queue.next() {
            let job = handle(Arc::clone(&self.context), item.clone());
            self.in_work.insert(self.jobs.spawn(job).id(), item);
        }
    }

    fn ended(&mut self, ended: Result<(Id, Verdict), JoinError>) {
        let (id, verdict) = match ended {
            Ok((id, verdict)) => (id, verdict),
            Err(error) => {
                tracing::error!("handling a request file crashed: {error}");
                (error.id(), Verdict::Stuck)
            }
        };
        if let Some(item) = self.in_work.remove(&id) {
            self.queue.worked(item, verdict, Instant::now());
        }
    }

    fn can_look(&self) -> bool {
        self.lock.is_some() && self.queue.has_to_look()
    }

    /// Looks at the next few files, to learn whose they are.
    async fn look(&mut self) {
        let files = self.queue.next_to_look(LOOKS);
        let names: Vec<OsString> = files.iter().map(|(_, name)| name.clone()).collect();
        let looks = self.context.with(move |context, dirs| {
            let look = |(origin, name): (Origin, OsString)| {
                let look = look_at(&context.calls, dirs, origin, &name);
                (name, look)
            };
            Ok(files.into_iter().map(look).collect::<Vec<_>>())
        });
        let now = Instant::now();
        match looks.await {
            Ok(looks) => {
                for (name, look) in looks {
                    self.queue.looked(name, look, now);
                }
            }
            Err(error) => {
                self.complain(&error.to_string());
                for name in names {
                    self.queue.looked(name, Turn::Failed, now);
                }
            }
        }
    }

    /// Looks through the whole directory, whatever was or was not heard of it.
    async fn rescan(&mut self) {
        let waiting = self.queue.open() as u64;
        self.context.tally.waiting.store(waiting, Ordering::Relaxed);
        match self.survey().await {
            Ok(Some(survey)) => {
                self.trouble = None;
                self.watch(survey.requests_id);
                self.cleanup = survey.cleanup;
                self.take_in(survey.met).await;
                if survey.sweep.is_none() {
                    self.queue.swept();
                }
                self.sweep = survey.sweep;
            }
            Ok(None) => {}
            Err(error) => self.complain(&error.to_string()),
        }
    }

    async fn survey(&mut self) -> io::Result<Option<Survey>> {
        if !self.enter().await? {
            return Ok(None);
        }
        let (sweep, mut cleanup) = (self.sweep.take(), std::mem::take(&mut self.cleanup));
        let keep_for = self.settings.keep_for;
        let now = super::now(&self.context.calls);
        let survey = self.context.with(move |_, dirs| {
            if let Err(error) = cleanup.step(&dirs.cleaned(), keep_for, now) {
                tracing::debug!("cannot clean up: {error}");
            }
            let (met, sweep) = sweep_on(dirs, sweep)?;
            Ok(Survey {
                met,
                sweep,
                cleanup,
                requests_id: spool::id(&dirs.requests)?,
            })
        });
        survey.await.map(Some)
    }

    /// Makes what is missing, and sees to it that nobody else serves this directory. False if somebody does.
    async fn enter(&mut self) -> io::Result<bool> {
        let held = self.lock.take();
        let entered = self.context.with(move |_, dirs| {
            let (lock, left_for) = match held {
                Some(held) if held.is_of(&dirs.base) => (Some(held), LEFT_BEHIND_AFTER),
                Some(_) | None => (Lock::take(&dirs.base)?, Duration::ZERO),
            };
            if lock.is_some() {
                dirs.publish_left_behind(left_for, SystemTime::now())?;
            }
            let is_remote = spool::is_remote(&dirs.requests);
            Ok((lock, spool::id(&dirs.requests)?, is_remote))
        });
        let (lock, requests_id, is_remote) = entered.await?;
        let is_ours = lock.is_some();
        self.lock = lock;
        if !is_ours {
            let path = self.context.place.path();
            self.complain(&format!("another hub serves {}", path.display()));
            return Ok(false);
        }
        if is_remote && !std::mem::replace(&mut self.told_remote, true) {
            tracing::info!(
                "{} is on a file system where changes may go unnoticed; it is polled every {:?}",
                self.context.place.path().display(),
                self.settings.rescan_every
            );
        }
        self.watch(requests_id);
        Ok(true)
    }

    fn watch(&mut self, requests_id: u64) {
        let path = self.context.place.path().join(REQUESTS);
        self.hints.watch(&path, requests_id);
    }

    /// Puts names that are news in line, in the order of their writing.
    async fn take_in(&mut self, met: Vec<Met>) {
        let mut news: Vec<(Origin, OsString)> = Vec::new();
        for Met { origin, name, ino } in met {
            if self.queue.meets(origin, &name, ino) && news.len() < self.queue.room() {
                news.push((origin, name));
            }
        }
        if news.len() > 1 {
            let unsorted = news.clone();
            news = match self
                .context
                .with(move |_, dirs| Ok(by_age(dirs, unsorted)))
                .await
            {
                Ok(sorted) => sorted,
                Err(_) => return,
            };
        }
        for (origin, name) in news {
            self.queue.look_at(origin, &name);
        }
    }

    /// Says what is wrong, once.
    fn complain(&mut self, what: &str) {
        if self.trouble.as_deref() != Some(what) {
            tracing::warn!(
                "request files cannot be served: {what}; the hub continues without them, and retries"
            );
            self.trouble = Some(what.to_owned());
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Reads names on from where the last sweep was, or from the beginning: first what was left behind, then requests.
fn sweep_on(dirs: &Dirs, sweep: Option<Dir>) -> io::Result<(Vec<Met>, Option<Dir>)> {
    let mut met = Vec::new();
    for entry in names(&dirs.taken)?.take(NAMES_PER_RESCAN) {
        meet(&mut met, Origin::Taken, &entry?);
    }
    let mut sweep = match sweep {
        Some(sweep) => sweep,
        None => names(&dirs.requests)?,
    };
    for _ in 0..NAMES_PER_RESCAN {
        match sweep.next() {
            Some(entry) => meet(&mut met, Origin::Requests, &entry?),
            None => return Ok((met, None)),
        }
    }
    Ok((met, Some(sweep)))
}

fn meet(met: &mut Vec<Met>, origin: Origin, entry: &DirEntry) {
    let name = entry.file_name().to_bytes();
    if is_request(name) {
        met.push(Met {
            origin,
            name: OsStr::from_bytes(name).to_owned(),
            ino: entry.ino(),
        });
    }
}

fn by_age(dirs: &Dirs, names: Vec<(Origin, OsString)>) -> Vec<(Origin, OsString)> {
    let mut aged: Vec<_> = names
        .into_iter()
        .filter_map(|(origin, name)| {
            let identity = dirs.identity(origin, &name).ok().flatten()?;
            // What was taken was acted on already.
            Some((origin == Origin::Requests, identity.mtime_ns, name, origin))
        })
        .collect();
    aged.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
    aged.into_iter()
        .map(|(_, _, name, origin)| (origin, name))
        .collect()
}

fn look_at(calls: &Calls, dirs: &Dirs, origin: Origin, name: &OsStr) -> Turn {
    match dirs.read(origin, name) {
        Ok(Found::Gone) => Turn::Gone,
        Ok(Found::Changing(identity)) => Turn::Half(identity, Duration::ZERO),
        Ok(Found::TooLarge(identity) | Found::Unfit(identity, _)) => Turn::Bad(identity),
        Ok(Found::Whole(identity, body)) => match glance(calls, &body) {
            Ok((agent, waits)) => Turn::Request {
                identity,
                agent,
                waits: waits && body.len() <= WAITING_BYTES_MAX,
            },
            Err(_) if serde_json::from_slice::<IgnoredAny>(&body).is_ok() => Turn::Bad(identity),
            Err(_) => Turn::Half(identity, identity.age(SystemTime::now())),
        },
        Err(error) => {
            tracing::debug!("request file {name:?} cannot be examined: {error}");
            Turn::Failed
        }
    }
}
