//! Keeps the journal's file in step with the ledger's log, and the handoff index with the journal.
//!
//! The ledger's commit is the journal; the file follows a moment later, and begins anew wherever it is missing or
//! damaged. Nothing of the hub waits for it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchboard_core::id::HUB_ROLE;
use switchboard_core::query::Readable;
use switchboard_core::talk::Refused;
use switchboard_core::verb::Speaker;
use switchboard_core::{AgentId, Event, MessageId, Timestamp};
use switchboard_store::journal::{Journal, JournalError, Row, Upto};
use switchboard_wire::squidrun::{Addressees, CLI, Roles, Saying, Status};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::directory::{Context, RUNTIME};
use super::entry::{self, merge};
use super::handoff;
use crate::data_dir::ledger_files;
use crate::hub::Error;
use crate::projection::folder;
use crate::spool::{self, Place};

/// A start waits so long for the journal.
const BEGINS_WITHIN: Duration = Duration::from_secs(2);
/// News of the log are gathered for this long, so that what is said and its delivery are one row written once.
const GATHERED_FOR: Duration = Duration::from_millis(60);
/// A file that could not be written is tried again so soon.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Rows of others are looked for, and the index is written, this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// No more often than this a file is set aside.
const RENAMED_EVERY: Duration = Duration::from_secs(60);
const THIN_EVERY: Duration = Duration::from_secs(3600);
const THINNED_AT_ONCE: usize = 10_000;
/// Of the log, in one go: little enough that nobody who waits for a thread or for a core notices.
const EVENTS_PER_PAGE: usize = 128;
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Events without a message are noted as seen once there are so many.
const NOTED_EVERY: u64 = 5000;
/// So many messages of others are remembered as such.
const ELSEWHERE_MAX: usize = 4096;
/// Who is briefed.
const ARCHITECT: &str = "architect";
const INDEX: &str = "session.md";
pub const FILE: &str = "evidence-ledger.db";

pub struct Follower {
    pub(super) context: Arc<Context>,
    journal: Option<Journal>,
    /// How far the file holds the log, and how far the log was looked at; unknown after it was opened anew.
    kept: Option<Upto>,
    seen: Upto,
    pub(super) session: u32,
    /// Rows have changed since the index was written.
    pub(super) is_news: bool,
    is_behind: bool,
    thinned_at: Option<Instant>,
    /// Where the next look at rows of others begins.
    pub(super) looked: i64,
    /// What the architect is still to be told.
    briefing: Option<Saying>,
    /// A file that would not do was renamed.
    renamed_at: Option<Instant>,
    is_awaited: bool,
    trouble: Option<String>,
    elsewhere: Elsewhere,
}

/// A stretch of the log.
struct Page {
    rows: Vec<Row>,
    upto: Upto,
    is_end: bool,
    /// The architect came.
    has_architect: bool,
}

impl Follower {
    pub fn new(context: Arc<Context>) -> Follower {
        Follower {
            context,
            journal: None,
            kept: None,
            seen: Upto::default(),
            session: 0,
            is_news: true,
            is_behind: false,
            thinned_at: None,
            looked: 0,
            briefing: None,
            renamed_at: None,
            is_awaited: false,
            trouble: None,
            elsewhere: Elsewhere::default(),
        }
    }

    /// A session begins: the journal is brought up to date, the index is written, the architect is told.
    pub async fn begin(&mut self, session: u32) {
        self.session = session;
        // The rest of a long log is read while the hub serves.
        let _ = timeout(BEGINS_WITHIN, self.catch_up()).await;
        let rows = self.write_index().await;
        self.briefing = Some(briefing(session, &rows));
        self.is_awaited = !rows.is_empty();
        self.brief().await;
    }

    /// Tells the architect, once. Where nothing was ever said, and so there may be no architect, when it comes.
    async fn brief(&mut self) {
        if self.is_awaited
            && let Some(saying) = self.briefing.take()
            && self.context.broker.say(saying.clone()).await == Status::HandlerError
        {
            self.briefing = Some(saying);
        }
    }

    pub async fn run(&mut self) {
        let mut latest = self.context.hub.latest();
        let mut told = self.context.broker.told();
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What was logged before somebody listened.
        self.is_behind = true;
        loop {
            tokio::select! {
                changed = latest.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    sleep(GATHERED_FOR).await;
                    latest.borrow_and_update();
                    self.catch_up().await;
                    self.brief().await;
                }
                Ok(told) = told.recv() => {
                    let rows = entry::told(&told, self.session);
                    self.is_news = true;
                    self.with(move |journal| journal.put(&rows, None, merge)).await;
                }
                () = sleep(RETRY_AFTER), if self.is_behind => self.catch_up().await,
                _ = looks.tick() => self.look().await,
            }
        }
    }

    async fn look(&mut self) {
        self.brief().await;
        self.take_in_foreign().await;
        if self.kept.is_none() {
            self.catch_up().await;
        }
        if self.is_news {
            self.write_index().await;
        }
        if self.thinned_at.is_none_or(|at| at.elapsed() >= THIN_EVERY) {
            let kept_from = self.context.hub.wall() - self.context.settings.journal_for;
            let thinned = self.with(move |journal| journal.thin(kept_from.0, THINNED_AT_ONCE));
            match thinned.await {
                Some(THINNED_AT_ONCE) | None => {}
                Some(_) => self.thinned_at = Some(Instant::now()),
            }
        }
    }

    /// Writes what is new in the log. What cannot be written is tried again.
    pub async fn catch_up(&mut self) {
        self.is_behind = match self.follow().await {
            Ok(is_done) => !is_done,
            Err(Error::Stopping) => false,
            Err(error) => {
                tracing::debug!(%error, "the journal will retry in a moment");
                true
            }
        };
    }

    /// False if the file could not be written.
    async fn follow(&mut self) -> Result<bool, Error> {
        loop {
            let hub = self.context.hub.clone();
            let (kept, from, is_new) = match self.kept {
                Some(kept) => (kept, self.seen, false),
                None => match self.with(|journal| journal.upto()).await {
                    Some(kept) => (kept, kept, true),
                    None => return Ok(false),
                },
            };
            let session = self.session;
            let roles = Arc::clone(&self.context.roles);
            let mut elsewhere = std::mem::take(&mut self.elsewhere);
            let read = hub.read(move |ledger| {
                let page = read(ledger, from, is_new, session, &roles, &mut elsewhere)?;
                Ok((page, elsewhere))
            });
            let (page, elsewhere) = read.await?;
            self.elsewhere = elsewhere;
            self.kept = Some(kept);
            let (upto, is_end) = (page.upto, page.is_end);
            self.is_awaited |= page.has_architect;
            if !page.rows.is_empty() || upto.seq.abs_diff(kept.seq) >= NOTED_EVERY {
                self.is_news |= !page.rows.is_empty();
                let put = self.with(move |journal| {
                    let is_same = journal.upto()? == kept;
                    if is_same {
                        journal.put(&page.rows, Some(upto), merge)?;
                    }
                    Ok(is_same)
                });
                match put.await {
                    Some(true) => self.kept = Some(upto),
                    Some(false) => {
                        self.kept = None;
                        continue;
                    }
                    None => return Ok(false),
                }
            }
            self.seen = upto;
            if is_end {
                return Ok(true);
            }
        }
    }

    /// Writes `session.md`, if it is to change. Tells the rows that it was made of.
    async fn write_index(&mut self) -> Vec<Row> {
        let read =
            |journal: &mut Journal| journal.newest(handoff::ROWS_MAX, handoff::BODY_CHARS_MAX);
        let (rows, is_known) = match self.with(read).await {
            Some(rows) => (rows, true),
            None => (Vec::new(), false),
        };
        let text = handoff::index(&rows).into_bytes();
        let put = self.context.with(move |dirs| {
            let there = folder::read(&dirs.handoffs, Path::new(INDEX))?;
            // What cannot be read now has been written before, or is written as empty.
            match there.is_some_and(|there| !is_known || there == text) {
                true => Ok(()),
                false => spool::put(&dirs.handoffs, OsStr::new(INDEX), &text, &dirs.handoffs),
            }
        });
        if let Err(error) = put.await {
            self.complain(&format!("{INDEX} cannot be written: {error}"));
            return rows;
        }
        self.is_news = !is_known;
        rows
    }

    /// Does something with the file, off the threads that serve; `None` if it cannot be used now.
    pub(super) async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Journal) -> Result<T, JournalError> + Send + 'static,
    ) -> Option<T> {
        let (held, place) = (self.journal.take(), self.context.place.clone());
        let held = held.filter(Journal::is_in_place);
        if held.is_none() {
            self.kept = None;
        }
        let may_rename = self
            .renamed_at
            .is_none_or(|at| at.elapsed() >= RENAMED_EVERY);
        let done = tokio::task::spawn_blocking(move || {
            let unreached = |error: io::Error| JournalError::Unavailable(error.to_string());
            let path = path_of(&place).map_err(unreached)?;
            let journal = held.map_or_else(|| Journal::open(&path), Ok);
            let done = journal.and_then(|mut journal| Ok((work(&mut journal)?, journal)));
            match &done {
                Err(JournalError::Unfit(why)) if may_rename => set_aside(&path, why),
                Ok(_) | Err(_) => {}
            }
            done
        });
        let error = match done.await {
            Ok(Ok((done, journal))) => {
                self.trouble = None;
                self.journal = Some(journal);
                return Some(done);
            }
            Ok(Err(error)) => {
                if may_rename && matches!(error, JournalError::Unfit(_)) {
                    self.renamed_at = Some(Instant::now());
                }
                error.to_string()
            }
            Err(error) => format!("it crashed: {error}"),
        };
        self.kept = None;
        self.is_behind = true;
        self.complain(&error);
        None
    }

    /// Says what is wrong, once.
    fn complain(&mut self, what: &str) {
        if self.trouble.as_deref() != Some(what) {
            tracing::warn!("the journal cannot be written: {what}; it is tried again");
            self.trouble = Some(what.to_owned());
        }
    }
}

fn briefing(session: u32, rows: &[Row]) -> Saying {
    Saying {
        id: Some(format!("briefing-{session}")),
        from: Speaker::Other(HUB_ROLE.into()),
        to: Addressees::One(ARCHITECT.to_owned()),
        content: format!("(HUB #1): {}", handoff::briefing(rows)),
        priority: None,
        metadata: None,
        trace: None,
        once: false,
    }
}

/// Where the file is; what is above it is made.
fn path_of(place: &Place) -> io::Result<PathBuf> {
    place.enter_inner(&place.enter()?, RUNTIME)?;
    // SQLite follows no link on the whole way.
    let runtime = place.path().join(RUNTIME).canonicalize()?;
    Ok(runtime.join(FILE))
}

/// Gives a file that will not do another name, so that a new one can be written.
fn set_aside(path: &Path, why: &str) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(
        ".set-aside-{}",
        since.unwrap_or_default().as_millis()
    ));
    let aside = PathBuf::from(aside);
    let renamed = ledger_files(path)
        .into_iter()
        .zip(ledger_files(&aside))
        .map(|(from, to)| std::fs::rename(from, to))
        .filter(Result::is_ok);
    if renamed.count() > 0 {
        tracing::warn!(
            "{} cannot be used ({why}); it was renamed to {}",
            path.display(),
            aside.display()
        );
    }
}

fn read<E>(
    ledger: &dyn Readable<Error = E>,
    mut from: Upto,
    is_new: bool,
    session: u32,
    roles: &Roles,
    elsewhere: &mut Elsewhere,
) -> Result<Page, E> {
    let head = ledger.head()?;
    if is_new {
        // A file that was just opened may have followed another ledger. What is further than this one is rewound below.
        let last = ledger.events(from.seq.saturating_sub(1), 1)?;
        let mut last = last.iter().filter(|last| last.seq == from.seq);
        if last.any(|last| last.at.0 != from.at_ms) {
            from = Upto::default();
        }
    }
    let rewound = head.epoch.rewinds(from.epoch, from.seq, head.seq);
    from.seq = rewound.unwrap_or(from.seq);
    let events = ledger.events(from.seq, EVENTS_PER_PAGE)?;
    let mut page = Page {
        rows: Vec::new(),
        upto: Upto {
            epoch: head.epoch.number,
            ..from
        },
        is_end: events.len() < EVENTS_PER_PAGE,
        has_architect: false,
    };
    let mut last: HashMap<&MessageId, Timestamp> = HashMap::new();
    let mut judged: HashMap<&MessageId, BTreeMap<u32, &str>> = HashMap::new();
    for logged in &events {
        elsewhere.note(&logged.event, roles);
        last.extend(message_of(&logged.event).map(|id| (id, logged.at)));
        if let Event::ClaimJudged {
            message,
            line,
            status,
            ..
        } = &logged.event
        {
            let of_message: &mut BTreeMap<u32, &str> = judged.entry(message).or_default();
            of_message.insert(*line, status);
        }
    }
    let mut bytes = 0;
    for logged in &events {
        page.upto.seq = logged.seq;
        page.upto.at_ms = logged.at.0;
        page.has_architect |= matches!(&logged.event,
            Event::AgentRegistered { agent, .. } | Event::AgentReturned { agent }
            if agent.as_str() == ARCHITECT);
        let news = message_of(&logged.event).and_then(|id| last.remove_entry(id));
        let Some((id, at)) = news else {
            continue;
        };
        let mut row = match elsewhere.ids.contains(id) {
            true => None,
            false => row_of(ledger, id, at, session, roles)?,
        };
        if let Some(judged) = judged.get(id) {
            // The message itself may be forgotten; the journal keeps it for longer.
            let there = row.unwrap_or_else(|| Row {
                message_id: id.to_string(),
                updated_at_ms: Some(at.0),
                ..Row::default()
            });
            row = Some(entry::with_judged(there, judged));
        }
        let body = row.as_ref().and_then(|row| row.raw_body.as_ref());
        bytes += body.map_or(0, String::len);
        page.rows.extend(row);
        if bytes > PAGE_BYTES_MAX {
            page.is_end = false;
            break;
        }
    }
    Ok(page)
}

/// Messages between agents that are nobody here: they need not be read to know it.
#[derive(Default)]
struct Elsewhere {
    ids: HashSet<MessageId>,
    /// In the order in which they came: the first ones are forgotten first, and read.
    order: VecDeque<MessageId>,
}

impl Elsewhere {
    fn note(&mut self, event: &Event, roles: &Roles) {
        let Event::MessageSent {
            message,
            from,
            to,
            to_several,
            ..
        } = event
        else {
            return;
        };
        // To whom a broadcast went, its event does not say.
        let mut parties = to.iter().chain(to_several).peekable();
        if parties.peek().is_none() || parties.chain([from]).any(|agent| is_here(agent, roles)) {
            return;
        }
        if self.ids.insert(message.clone()) {
            self.order.push_back(message.clone());
        }
        if self.order.len() > ELSEWHERE_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.ids.remove(&first);
        }
    }
}

fn is_here(agent: &AgentId, roles: &Roles) -> bool {
    matches!(agent.as_str(), CLI | HUB_ROLE) || roles.target(agent.as_str()).is_some()
}

/// The message that an event is about.
fn message_of(event: &Event) -> Option<&MessageId> {
    match event {
        Event::MessageSent { message, .. }
        | Event::MessageDelivered { message, .. }
        | Event::MessageQueuedAgain { message, .. }
        | Event::MessageAcknowledged { message, .. }
        | Event::MessageExpired { message, .. }
        | Event::MessageFailed { message, .. }
        | Event::MessageRefused { message, .. }
        | Event::ClaimJudged { message, .. } => Some(message),
        _ => None,
    }
}

/// What the ledger has under an id, if it is of interest to anybody here.
pub(super) fn row_of<E>(
    ledger: &dyn Readable<Error = E>,
    id: &MessageId,
    at: Timestamp,
    session: u32,
    roles: &Roles,
) -> Result<Option<Row>, E> {
    if let Some((message, deliveries)) = ledger.message(id)? {
        let recipients = deliveries.iter().map(|delivery| &delivery.agent);
        let mut parties = recipients.chain([&message.from]);
        let is_ours = parties.any(|agent| is_here(agent, roles));
        return Ok(is_ours.then(|| entry::row_of(&message, &deliveries, session, at)));
    }
    let refused = ledger.private::<Refused>(id.to_string())?;
    Ok(refused.map(|refused| entry::refused(&refused, session)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(id: &str, from: &str, to: &[&str]) -> Event {
        Event::MessageSent {
            message: id.into(),
            from: from.into(),
            to: None,
            to_several: to.iter().map(|agent| AgentId::from(*agent)).collect(),
            kind: "custom".to_owned(),
            recipients: 1,
        }
    }

    #[test]
    fn what_agents_of_other_doors_say_to_each_other_is_not_read() {
        let roles = Roles::default();
        let mut elsewhere = Elsewhere::default();
        for (id, from, to, is_elsewhere) in [
            ("one", "ann", &["bob"] as &[_], true),
            ("several", "ann", &["bob", "eve"], true),
            ("to a role", "ann", &["bob", "architect"], false),
            ("of a role", "builder", &["bob"], false),
            ("of a person", "cli", &["bob"], false),
            ("to all", "ann", &[], false),
        ] {
            elsewhere.note(&sent(id, from, to), &roles);
            assert_eq!(elsewhere.ids.contains(&id.into()), is_elsewhere, "{id}");
        }
        for n in 0..ELSEWHERE_MAX {
            elsewhere.note(&sent(&n.to_string(), "ann", &["bob"]), &roles);
        }
        assert!(!elsewhere.ids.contains(&"one".into()));
        assert_eq!(elsewhere.ids.len(), ELSEWHERE_MAX);
        assert_eq!(elsewhere.order.len(), ELSEWHERE_MAX);
    }
}
