//! Engrams out of the buffer and out of each other, put into the ledger.

use std::time::Duration;

use switchboard_core::engram::{Engram as Row, EngramEntry, Scope as Tier};
use switchboard_core::verb::{AdoptEngrams, KeepEngram, Kept};
use switchboard_core::{EngramId, Timestamp};
use switchboard_wire::agentbus::Scope;
use switchboard_wire::agentbus::engram::{self, Engram};
use switchboard_wire::redact;
use ulid::Ulid;

use super::Keeper;
use crate::config::CATALOG;
use crate::hub::Error;
use crate::memory::compact::{Cover, compact, condense};

/// Engrams of the short term that become one of the long term.
const CONDENSED_AT_ONCE: usize = 8;
/// Engrams that a ledger takes over from the files of another one.
const ADOPTED_MAX: usize = 1024;
/// Larger files of others are not taken over.
const ADOPTED_BYTES_MAX: usize = 64 * 1024;

impl Keeper {
    /// Keeps an engram of the oldest records, as many of them as fit.
    pub(super) async fn keep(&mut self, oldest: usize) -> Result<(), Error> {
        if !self.shared.duty.standing().is_held {
            // Another coordinator keeps them. What is in its engrams need not be buffered here.
            return self.refresh().await;
        }
        if self.is_short_term_full() && !self.condense().await? {
            return Ok(());
        }
        let cover = self.cover(Scope::Short);
        let records = self.buffer.iter().take(oldest);
        let (engram, taken) = compact(records, &cover, self.settings.config.engram_max_bytes);
        let Some(last) = self.buffer.iter().nth(taken.saturating_sub(1)) else {
            return Ok(());
        };
        let to_seq = if taken == self.buffer.len() {
            self.cursor.max(last.seq)
        } else {
            last.seq
        };
        let stretch = (self.done + 1, to_seq);
        self.put(&engram, stretch, Vec::new()).await?;
        Ok(())
    }

    fn is_short_term_full(&self) -> bool {
        let (mut files, mut bytes) = (1, self.settings.config.engram_max_bytes as u64);
        for entry in self.short_term() {
            files += 1;
            bytes += entry.bytes;
        }
        let budget = self.settings.config.budgets.short_term;
        files > budget.files_max || bytes > budget.bytes_max
    }

    fn short_term(&self) -> impl Iterator<Item = &EngramEntry> {
        let entries = self.entries.iter();
        entries.filter(|entry| entry.scope == Tier::ShortTerm)
    }

    /// Makes one engram of the long term out of the oldest of the short term. False if somebody was quicker.
    async fn condense(&mut self) -> Result<bool, Error> {
        let oldest = self.short_term().take(CONDENSED_AT_ONCE);
        let (mut ids, mut stretch) = (Vec::new(), (u64::MAX, 0));
        for entry in oldest {
            ids.push(entry.id.clone());
            stretch = (stretch.0.min(entry.from_seq), stretch.1.max(entry.to_seq));
        }
        if ids.is_empty() {
            return Ok(true);
        }
        let parts = self.bodies(ids.clone()).await?;
        let cover = self.cover(Scope::Long);
        let engram = condense(&parts, &cover, self.settings.config.engram_max_bytes);
        self.put(&engram, stretch, ids).await
    }

    /// Runs the verb; true if it was not too late. Either way the rows are known afterwards.
    async fn put(
        &mut self,
        engram: &Engram,
        (from_seq, to_seq): (u64, u64),
        instead_of: Vec<EngramId>,
    ) -> Result<bool, Error> {
        let duty = self.shared.duty.standing();
        if !duty.is_held {
            return Ok(false);
        }
        let kept = self
            .shared
            .hub
            .run(KeepEngram {
                engram: row(engram, engram.to_text(), from_seq, to_seq),
                after: self.done,
                instead_of,
                budgets: self.settings.config.budgets,
                fence: duty.fence,
            })
            .await;
        // Also when it is in doubt: the rows tell.
        self.entries_are_old = true;
        let was_kept = match kept? {
            Kept::Yes { .. } => true,
            Kept::TooLate => false,
        };
        self.refresh().await?;
        Ok(was_kept)
    }

    fn cover(&self, scope: Scope) -> Cover {
        let created_at = self.shared.hub.time();
        let newest = self
            .entries
            .iter()
            .map(|entry| entry.version.as_str())
            .max();
        Cover {
            id: format!("e_{}", Ulid::generate()),
            scope,
            version: next_version(created_at, newest),
            created_at,
            run_id: self.settings.run_id.clone(),
        }
    }

    pub(super) async fn bodies(&self, ids: Vec<EngramId>) -> Result<Vec<Engram>, Error> {
        let read = self.shared.hub.read(move |ledger| {
            let found = ids.iter().map(|id| ledger.engram(id));
            found.collect::<Result<Vec<Option<Row>>, _>>()
        });
        let rows = read.await?;
        let texts = rows.into_iter().flatten();
        Ok(texts
            .filter_map(|row| Engram::from_text(row.body.as_bytes()).ok())
            .collect())
    }

    pub(super) async fn adopt(&mut self) -> Result<(), Error> {
        let mut places = vec![self.files.clone()];
        if let Some(root) = &self.settings.before {
            let mut before = self.files.clone();
            before.catalog = root.join(CATALOG);
            before.projection.root.clone_from(root);
            places.push(before);
        }
        let look = move || {
            let found = places.into_iter().find_map(|files| {
                let found = files.found(ADOPTED_MAX);
                (!found.is_empty()).then_some((files.projection.root, found))
            });
            found.unwrap_or_default()
        };
        let found = tokio::task::spawn_blocking(look).await;
        let (root, found) = found.map_err(|_| Error::Broken)?;
        let engrams: Vec<Row> = found
            .into_iter()
            .filter(|(_, text)| {
                text.len() <= ADOPTED_BYTES_MAX && redact::json(text) == text.as_str()
            })
            .map(|(engram, text)| row(&engram, text, 0, 0))
            .collect();
        if engrams.is_empty() {
            return Ok(());
        }
        let many = engrams.len();
        let budgets = self.settings.config.budgets;
        self.shared
            .hub
            .run(AdoptEngrams { engrams, budgets })
            .await?;
        tracing::info!("{many} engrams were found in {}", root.display());
        self.refresh().await
    }
}

fn row(engram: &Engram, body: String, from_seq: u64, to_seq: u64) -> Row {
    Row {
        entry: EngramEntry {
            id: EngramId::from(engram.engram_id.as_str()),
            scope: engram.scope.into(),
            version: engram.version.clone(),
            created_at: engram.created_at.into(),
            hash: engram.hash.clone(),
            bytes: body.len() as u64,
            topics: engram.topics.clone(),
            from_seq,
            to_seq,
        },
        body: body.into(),
        words: words(engram).into(),
    }
}

/// What an engram is found by, a line each.
fn words(engram: &Engram) -> String {
    let decided = engram.decisions.iter();
    let decided = decided.map(|it| format!("{}: {}", it.title, it.rationale));
    let lines = engram.facts.iter().cloned().chain(decided);
    let topics = engram.topics.join(" ");
    lines.chain([topics]).collect::<Vec<_>>().join("\n")
}

/// The batch of this instant, or the one after the newest if that is not before it.
fn next_version(now: Timestamp, newest: Option<&str>) -> String {
    let version = engram::batch_id(now.into());
    match newest {
        Some(newest) if version.as_str() <= newest => {
            let newest = engram::batch_time(newest).map_or(now, Timestamp::from);
            engram::batch_id((newest + Duration::from_secs(1)).into())
        }
        Some(_) | None => version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_follow_the_clock_and_never_go_back() {
        // agentbus.engram.batch_id
        let noon = Timestamp(1_770_897_600_000);
        for (newest, expected) in [
            (None, "20260212-120000Z"),
            (Some("20260212-115959Z"), "20260212-120000Z"),
            (Some("20260212-120000Z"), "20260212-120001Z"),
            (Some("20260212-235959Z"), "20260213-000000Z"),
        ] {
            assert_eq!(next_version(noon, newest), expected, "{newest:?}");
        }
    }
}
