//! Readers: lists by looking at every row, pages by the key of their last row.

use std::collections::BTreeMap;

use switchboard_core::attempt::Attempt;
use switchboard_core::ledger::Ledger;
use switchboard_core::record::{Kind, Listed};
use switchboard_core::token::Token;
use switchboard_core::{
    Agent, AgentId, Baseline, Delivery, DeliveryState, Doing, EngramText, Head, Learning, Lease,
    Logged, Message, MessageId, Presence, Record, RecordKey, RecordRange, Snapshot, Task, TaskId,
    TaskState, TaskStatus, Timestamp, limits,
};

use super::SharedLedger;
use crate::{
    AgentCounts, AgentFilter, Error, HeldTask, LeaseFilter, MessageFilter, MessageSince, Page,
    Pages, Readable, Since, SnapshotFilter, TaskFilter, TaskRef,
};

pub(super) struct MemoryReader(pub(super) SharedLedger);

impl Readable for MemoryReader {
    type Error = Error;

    fn head(&self) -> Result<Head, Error> {
        Ok(self.0.get().head.clone())
    }

    fn task(&self, which: &TaskRef) -> Result<Option<Task>, Error> {
        let rows = self.0.get();
        let found = match which {
            TaskRef::Id(id) => rows.tasks.get(id),
            TaskRef::Number(number) => rows.tasks.values().find(|task| task.number == *number),
        };
        Ok(found.cloned())
    }

    fn tasks(&self, filter: &TaskFilter, page: &Page) -> Result<Pages<Task>, Error> {
        let rows = self.0.get();
        let after = number_in(page)?;
        let mut found = rows.by_number(|task| matches(filter, task));
        if filter.newest_first {
            found.reverse();
            found.retain(|task| after.is_none_or(|after| task.number < after));
        } else {
            found.retain(|task| after.is_none_or(|after| task.number > after));
        }
        Ok(cut(found, page, |task| task.number.to_string()))
    }

    fn attempts(&self, task: u64) -> Result<Vec<Attempt>, Error> {
        let rows = self.0.get();
        let ended = rows.attempts.iter().filter(|row| row.number == task);
        Ok(ended.cloned().collect())
    }

    fn dependants(&self, task: &TaskId) -> Result<Vec<TaskId>, Error> {
        let rows = self.0.get();
        let waiting = rows.by_number(|row| row.dependencies.contains(task));
        let ids = waiting.iter().map(|task| task.id.clone());
        Ok(ids.take(limits::PAGE_MAX).collect())
    }

    fn next_in_queue(&self, limit: usize) -> Result<Vec<u64>, Error> {
        let rows = self.0.get();
        let mut waiting = rows.by_number(|task| task.status() == TaskStatus::Ready);
        waiting.sort_by_key(|task| (task.about.priority, task.number));
        let numbers = waiting.into_iter().map(|task| task.number);
        Ok(numbers.take(limit).collect())
    }

    fn held_tasks(&self, limit: usize) -> Result<Vec<HeldTask>, Error> {
        let rows = self.0.get();
        let held = rows.tasks.values().filter_map(|task| {
            Some(HeldTask {
                agent: task.holder()?.clone(),
                id: task.id.clone(),
                number: task.number,
                status: task.status(),
                retries: task.retries,
                phase: task.progress.as_ref().map(|progress| progress.phase),
            })
        });
        Ok(held.take(limit).collect())
    }

    fn agent(&self, id: &AgentId) -> Result<Option<Agent>, Error> {
        Ok(self.0.get().agents.get(id).cloned())
    }

    fn agents(&self, filter: &AgentFilter, page: &Page) -> Result<Pages<Agent>, Error> {
        let rows = self.0.get();
        let mut found: Vec<&Agent> = rows.agents.values().collect();
        found.retain(|agent| filter.with_gone || !agent.is_gone());
        found.retain(|agent| {
            filter.statuses.is_empty() || filter.statuses.iter().any(|word| word == agent.status())
        });
        found.retain(|agent| is_after(page, agent.id.as_str()));
        Ok(cut(found, page, |agent| agent.id.to_string()))
    }

    fn agent_counts(&self) -> Result<AgentCounts, Error> {
        let mut counts = AgentCounts::default();
        for agent in self.0.get().agents.values() {
            match agent.presence {
                Presence::Live(Doing::Idle) => counts.idle += 1,
                Presence::Live(Doing::Busy) => counts.busy += 1,
                Presence::Live(Doing::Error) => counts.error += 1,
                Presence::Live(Doing::Stopping) => counts.shutting_down += 1,
                Presence::Silent { .. } => counts.offline += 1,
                Presence::Gone { .. } => {}
            }
        }
        Ok(counts)
    }

    fn leases(&self, filter: &LeaseFilter, page: &Page) -> Result<Pages<Lease>, Error> {
        let rows = self.0.get();
        let mut found: Vec<&Lease> = rows.leases.values().collect();
        let wanted = |lease: &Lease| {
            filter.agent.as_ref().is_none_or(|id| *id == lease.agent)
                && (filter.task.is_none() || filter.task == lease.task)
                && filter
                    .near
                    .as_ref()
                    .is_none_or(|path| path.overlaps(&lease.path))
        };
        found.retain(|lease| wanted(lease) && is_after(page, lease.spelling()));
        Ok(cut(found, page, |lease| lease.spelling().to_owned()))
    }

    fn message(&self, id: &MessageId) -> Result<Option<(Message, Vec<Delivery>)>, Error> {
        let rows = self.0.get();
        let Some(message) = rows.messages.get(id) else {
            return Ok(None);
        };
        let deliveries = rows.deliveries.values().filter(|row| row.message == *id);
        Ok(Some((message.clone(), deliveries.cloned().collect())))
    }

    fn messages(&self, filter: &MessageFilter, page: &Page) -> Result<Pages<Message>, Error> {
        let rows = self.0.get();
        let before = number_in(page)?;
        let mut found = by_number(&rows);
        found.reverse();
        found.retain(|message| {
            filter.from.as_ref().is_none_or(|id| *id == message.from)
                && filter
                    .to
                    .as_ref()
                    .is_none_or(|id| message.to.named().contains(id))
                && (filter.kinds.is_empty() || filter.kinds.contains(&message.kind))
                && before.is_none_or(|before| message.number < before)
        });
        Ok(cut(found, page, |message| message.number.to_string()))
    }

    fn messages_since(&self, since: &MessageSince, now: Timestamp) -> Result<Vec<Message>, Error> {
        let rows = self.0.get();
        let after = match &since.since {
            Since::Instant(at) => (*at, 0),
            // A message that is no longer kept lies before everything that is.
            Since::Message(id) => match rows.messages.get(id) {
                Some(message) => (Timestamp(i64::MIN), message.number),
                None => (Timestamp(i64::MIN), 0),
            },
        };
        let mut found = by_number(&rows);
        found.retain(|message| {
            let key = (message.id.clone(), since.agent.clone());
            let delivery = rows.deliveries.get(&key);
            delivery.is_some_and(|row| row.state != DeliveryState::Failed)
                && message.created_at > after.0
                && message.number > after.1
                && !message.is_over(now)
                && (since.kinds.is_empty() || since.kinds.contains(&message.kind))
        });
        Ok(found.into_iter().take(since.limit).cloned().collect())
    }

    fn baseline(&self) -> Result<Option<Baseline>, Error> {
        Ok(self.0.get().baseline.clone())
    }

    fn snapshots(&self, filter: &SnapshotFilter, page: &Page) -> Result<Pages<Snapshot>, Error> {
        let rows = self.0.get();
        let before = number_in(page)?.unwrap_or(u64::MAX);
        let numbered = (1_u64..).zip(&rows.snapshots);
        let mut found: Vec<(u64, &Snapshot)> = numbered.collect();
        found.reverse();
        found.retain(|(number, row)| {
            *number < before && (filter.task.is_none() || filter.task == row.task)
        });
        let more = found.len() > limit_of(page);
        found.truncate(limit_of(page));
        let next = found.last().filter(|_| more).map(|(at, _)| at.to_string());
        let rows = found.into_iter().map(|(_, row)| row.clone()).collect();
        Ok(Pages { rows, next })
    }

    fn learnings(&self, words: &str, limit: usize) -> Result<Vec<Learning>, Error> {
        let words = words.to_lowercase();
        let rows = self.0.get();
        let newest_first = rows.learnings.iter().rev();
        let found = newest_first.filter(|learning| {
            let text = learning.text.to_lowercase();
            words.split_whitespace().all(|word| text.contains(word))
        });
        Ok(found.take(limit).cloned().collect())
    }

    fn engram_texts(&self, words: &str, limit: usize) -> Result<Vec<Record>, Error> {
        let words = words.to_lowercase();
        let mut newest_first = self.records(&RecordRange::newest::<EngramText>("", usize::MAX))?;
        newest_first.retain(|row| {
            let text = EngramText::of(row).map(|row| row.words.to_lowercase());
            text.is_some_and(|text| words.split_whitespace().all(|word| text.contains(word)))
        });
        newest_first.truncate(limit);
        Ok(newest_first)
    }

    fn record(&self, key: &RecordKey) -> Result<Option<Record>, Error> {
        Ok(self.0.get().records.get(key).cloned())
    }

    fn records(&self, range: &RecordRange) -> Result<Vec<Record>, Error> {
        let rows = self.0.get();
        Ok(rows.records_in(range).into_iter().cloned().collect())
    }

    fn record_counts(&self, kind: Kind) -> Result<Vec<(String, u64)>, Error> {
        let mut counts = BTreeMap::new();
        for record in self
            .0
            .get()
            .records
            .values()
            .filter(|record| record.kind() == kind)
        {
            if record.position().is_some() {
                *counts.entry(record.owner().to_owned()).or_default() += 1;
            }
        }
        Ok(counts.into_iter().collect())
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<Logged>, Error> {
        let rows = self.0.get();
        let later = rows.log.iter().filter(|logged| logged.seq > after);
        Ok(later.take(limit).cloned().collect())
    }

    fn oldest_event(&self) -> Result<Option<u64>, Error> {
        Ok(self.0.get().log.first().map(|logged| logged.seq))
    }

    fn tokens(&self) -> Result<Vec<Token>, Error> {
        Ok(self.0.get().tokens.values().cloned().collect())
    }

    fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<Token>, Error> {
        let rows = self.0.get();
        Ok(rows
            .tokens
            .values()
            .find(|token| token.hash == *hash)
            .cloned())
    }
}

fn by_number(ledger: &Ledger) -> Vec<&Message> {
    let mut messages: Vec<&Message> = ledger.messages.values().collect();
    messages.sort_by_key(|message| message.number);
    messages
}

fn matches(filter: &TaskFilter, task: &Task) -> bool {
    let among = |list_is_empty: bool, found: bool| list_is_empty || found;
    among(
        filter.statuses.is_empty(),
        filter.statuses.contains(&task.status()),
    ) && among(
        filter.priorities.is_empty(),
        filter.priorities.contains(&task.about.priority),
    ) && among(
        filter.kinds.is_empty(),
        filter.kinds.contains(&task.about.kind),
    ) && filter
        .holder
        .as_ref()
        .is_none_or(|id| assigned(task) == Some(id))
        && filter
            .skill
            .as_ref()
            .is_none_or(|skill| task.about.required_skills.contains(&skill.to_lowercase()))
        && (filter.branch.is_none() || filter.branch == task.about.branch)
}

/// The agent that the public row names: who holds it, or who brought it to an end.
fn assigned(task: &Task) -> Option<&AgentId> {
    match &task.state {
        TaskState::Claimed { by, .. }
        | TaskState::InProgress { by, .. }
        | TaskState::NeedsPerson { by, .. }
        | TaskState::Completed { by, .. } => Some(by),
        TaskState::Waiting
        | TaskState::Ready
        | TaskState::RetryWait { .. }
        | TaskState::Failed { .. }
        | TaskState::Canceled { .. } => None,
    }
}

fn number_in(page: &Page) -> Result<Option<u64>, Error> {
    let Some(text) = &page.after else {
        return Ok(None);
    };
    let number = text.parse().map_err(|_| Error::BadCursor(text.clone()))?;
    Ok(Some(number))
}

fn is_after(page: &Page, key: &str) -> bool {
    page.after.as_deref().is_none_or(|after| key > after)
}

fn limit_of(page: &Page) -> usize {
    page.limit.clamp(1, limits::PAGE_MAX)
}

/// The first rows of what is left of a list, with a cursor if that is not all of it.
fn cut<T: Clone>(found: Vec<&T>, page: &Page, cursor: impl Fn(&T) -> String) -> Pages<T> {
    let limit = limit_of(page);
    let last = found.get(limit - 1).filter(|_| found.len() > limit);
    Pages {
        next: last.map(|row| cursor(row)),
        rows: found.into_iter().take(limit).cloned().collect(),
    }
}
