//! Engrams out of records, and one engram out of several: pure, and never larger than allowed.

use switchboard_core::Timestamp;
use switchboard_wire::agentbus::Scope;
use switchboard_wire::agentbus::engram::{Decision, Engram, Link, Provenance, SourceWindow};

use super::noted::{Noted, Weight};
use super::topics::{TOPICS_PER_ENGRAM, Tally, WORD_BYTES_MAX};

/// Smaller engrams than this are not made, whatever is configured: one record must always fit.
pub const ENGRAM_BYTES_MIN: usize = 4096;
const LINKS_MAX: usize = 32;
/// Of the room of an engram that is made of others, so much is for decisions.
const DECISIONS_SHARE: usize = 2;

/// What an engram says about itself.
#[derive(Clone, Debug)]
pub struct Cover {
    pub id: String,
    pub scope: Scope,
    /// The batch it is written in.
    pub version: String,
    pub created_at: Timestamp,
    pub run_id: String,
}

/// An engram of the first of these records that fit, and how many those are: at least one, if there is any.
pub fn compact<'a>(
    records: impl IntoIterator<Item = &'a Noted>,
    cover: &Cover,
    bytes_max: usize,
) -> (Engram, usize) {
    let mut page = Page::new(bytes_max);
    let mut window: Option<(Timestamp, Timestamp)> = None;
    let mut taken = 0;
    for noted in records {
        let decided = noted.decision.as_ref().map_or(0, cost_of_decision);
        let links = noted.links.iter().map(cost_of_link).sum::<usize>();
        let fact = cost_of_fact(&noted.fact);
        if page.take(fact + decided + links) {
            page.decisions.extend(noted.decision.clone());
            page.link(&noted.links);
        } else if taken > 0 || !page.take(fact) {
            break;
        }
        page.facts.push(noted.fact.clone());
        page.tally.add(&noted.topics);
        let (start, end) = window.unwrap_or((noted.at, noted.at));
        window = Some((start.min(noted.at), end.max(noted.at)));
        taken += 1;
    }
    let window = window.unwrap_or((cover.created_at, cover.created_at));
    let window = SourceWindow {
        start_ts: window.0.into(),
        end_ts: window.1.into(),
    };
    (page.bound(cover, window), taken)
}

/// What is left of several engrams, oldest first: their topics, the newest decisions, the most telling facts.
pub fn condense(engrams: &[Engram], cover: &Cover, bytes_max: usize) -> Engram {
    let mut page = Page::new(bytes_max);
    let room = page.room;
    let decisions: Vec<&Decision> = engrams.iter().flat_map(|it| &it.decisions).collect();
    let mut kept = Vec::new();
    for decision in decisions.into_iter().rev() {
        let cost = cost_of_decision(decision);
        let is_new = !kept.contains(&decision);
        if is_new && page.room > cost + room - room / DECISIONS_SHARE && page.take(cost) {
            kept.push(decision);
        }
    }
    page.decisions = kept.into_iter().rev().cloned().collect();
    // The newest of the most telling ones first; then they stand in their own order again.
    let facts: Vec<&String> = engrams.iter().flat_map(|it| &it.facts).collect();
    let mut ranked: Vec<usize> = (0..facts.len()).collect();
    ranked.sort_by_key(|at| (Weight::of(facts[*at]), usize::MAX - at));
    ranked.retain(|at| page.take(cost_of_fact(facts[*at])));
    ranked.sort_unstable();
    page.facts = ranked.into_iter().map(|at| facts[at].clone()).collect();
    for engram in engrams.iter().rev() {
        let links = engram.links.iter();
        let fits: Vec<Link> = links
            .filter(|link| page.take(cost_of_link(link)))
            .cloned()
            .collect();
        page.link(&fits);
        page.tally.add(&engram.topics);
    }
    let starts = engrams.iter().map(|it| it.source_window.start_ts).min();
    let ends = engrams.iter().map(|it| it.source_window.end_ts).max();
    let now = cover.created_at.into();
    let window = SourceWindow {
        start_ts: starts.unwrap_or(now),
        end_ts: ends.unwrap_or(now),
    };
    page.bound(cover, window)
}

/// An engram in the making.
struct Page {
    /// Bytes that are left for facts, decisions and links.
    room: usize,
    facts: Vec<String>,
    decisions: Vec<Decision>,
    links: Vec<Link>,
    tally: Tally,
}

/// All that an engram has beside its facts, decisions and links: names of fields, ids, instants, the hash.
const COVER_BYTES: usize = 1024;
const TOPICS_BYTES: usize = TOPICS_PER_ENGRAM * (WORD_BYTES_MAX + 2 + LINE_BYTES);

impl Page {
    fn new(bytes_max: usize) -> Page {
        Page {
            room: bytes_max.max(ENGRAM_BYTES_MIN) - COVER_BYTES - TOPICS_BYTES,
            facts: Vec::new(),
            decisions: Vec::new(),
            links: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Takes so many bytes of what is left, if there are so many.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.room;
        if fits {
            self.room -= bytes;
        }
        fits
    }

    fn link(&mut self, links: &[Link]) {
        for link in links {
            if self.links.len() < LINKS_MAX && !self.links.contains(link) {
                self.links.push(link.clone());
            }
        }
    }

    fn bound(self, cover: &Cover, source_window: SourceWindow) -> Engram {
        Engram {
            engram_id: cover.id.clone(),
            version: cover.version.clone(),
            scope: cover.scope,
            created_at: cover.created_at.into(),
            source_window,
            hash: String::new(),
            topics: self.tally.top(TOPICS_PER_ENGRAM),
            facts: self.facts,
            decisions: self.decisions,
            links: self.links,
            provenance: Provenance {
                created_by: "director".to_owned(),
                run_id: cover.run_id.clone(),
            },
        }
        .sealed()
    }
}

/// What a line takes beside its text: indentation, a comma, its end.
const LINE_BYTES: usize = 8;

/// What a text takes as JSON on a line of its own.
fn printed(text: &str) -> usize {
    let quoted = serde_json::to_string(text).expect("a string is always printable");
    quoted.len() + LINE_BYTES
}

fn cost_of_fact(fact: &str) -> usize {
    printed(fact)
}

fn cost_of_decision(decision: &Decision) -> usize {
    const REST: usize = r#""title": "rationale": {}"#.len() + 2 * LINE_BYTES;
    printed(&decision.title) + printed(&decision.rationale) + REST
}

fn cost_of_link(link: &Link) -> usize {
    const REST: usize = r#""type": "ref": {}"#.len() + 2 * LINE_BYTES;
    printed(&link.kind) + printed(&link.target) + REST
}

#[cfg(test)]
mod tests;
