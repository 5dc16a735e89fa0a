//! What a starting agent should know, from the journal alone: the handoff index `session.md`, and the briefing.
//!
//! The same rows give the same bytes. Texts of messages are shown as code: they are never markup.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use switchboard_core::assertion::{AssertionKind, AssertionStatus};
use switchboard_store::journal::{Journal, JournalError, Row};
use switchboard_wire::IsoTime;
use switchboard_wire::jetpack::{JournalEntry, JournalQuery};
use switchboard_wire::squidrun::{Tags, claims, header, tags};

use super::entry::{self, Stage};

/// Rows of the journal that are looked at.
pub const ROWS_MAX: usize = 2000;
/// Characters of a body that are looked at.
pub const BODY_CHARS_MAX: usize = 4096;
/// Lines of a section, and of the last one.
const LINES_MAX: usize = 50;
const RECENT_MAX: usize = 250;
/// Characters of a text that are shown.
const SHOWN_MAX: usize = 160;

/// The rows in the order of their writing.
struct Scanned<'a> {
    rows: Vec<&'a Row>,
    /// The session of the newest one that says so.
    session: &'a str,
}

/// A line of a message that begins with one of the words, and what follows.
struct Signal<'a> {
    kind: AssertionKind,
    status: AssertionStatus,
    text: &'a str,
    row: &'a Row,
}

/// Where the journal is in the directory.
pub fn journal(dir: &Path) -> PathBuf {
    dir.join(super::directory::RUNTIME)
        .join(super::journal::FILE)
}

/// What was said, newest first. Where nothing ever was, there is no journal.
pub fn said(
    dir: &Path,
    query: &JournalQuery,
    limit: usize,
) -> Result<Vec<JournalEntry>, JournalError> {
    let file = journal(dir);
    if !file.is_file() {
        return Ok(Vec::new());
    }
    let mut rows = Journal::read(&file, ROWS_MAX, BODY_CHARS_MAX)?;
    rows.sort_by_key(|row| std::cmp::Reverse(time(row)));
    rows.retain(|row| {
        let is = |word: &Option<String>| *word == query.role;
        let theirs = query.role.is_none() || is(&row.sender_role) || is(&row.target_role);
        theirs && (query.failed != Some(true) || Stage::of(row) == Stage::Failed)
    });
    rows.truncate(limit);
    Ok(rows.into_iter().map(entry::shown).collect())
}

/// The handoff index.
pub fn index(rows: &[Row]) -> String {
    let scanned = Scanned::of(rows);
    let (oldest, newest) = scanned.window();
    let mut out = String::from("# Session Handoff Index\n\n");
    let _ = writeln!(out, "- generated_at: {newest}");
    let _ = writeln!(
        out,
        "- source: .squidrun/runtime/evidence-ledger.db (comms_journal)"
    );
    let _ = writeln!(out, "- session_id: {}", scanned.session);
    let _ = writeln!(out, "- rows_scanned: {}", scanned.rows.len());
    let _ = writeln!(out, "- window: {oldest} to {newest}");
    section(&mut out, "Coverage", scanned.coverage());
    section(&mut out, "Unresolved Claims", scanned.unresolved());
    section(&mut out, "Decision Digest", scanned.decisions(true));
    section(
        &mut out,
        "Cross-Session Decisions",
        scanned.decisions(false),
    );
    let signals = scanned.signals();
    let tagged = signals.iter().map(named).collect();
    section(&mut out, "Tagged Signals", last(tagged, LINES_MAX));
    section(
        &mut out,
        "Failed Deliveries",
        scanned.at(&[Stage::Failed], LINES_MAX),
    );
    let pending = [Stage::Recorded, Stage::Brokered];
    section(
        &mut out,
        "Pending Deliveries",
        scanned.at(&pending, LINES_MAX),
    );
    let all = [
        Stage::Recorded,
        Stage::Brokered,
        Stage::Failed,
        Stage::Routed,
        Stage::Acked,
    ];
    section(
        &mut out,
        &format!("Recent Messages ({RECENT_MAX})"),
        scanned.at(&all, RECENT_MAX),
    );
    out
}

/// What the architect is told when a session begins: what was decided, what is unresolved, which deliveries failed.
pub fn briefing(rows: &[Row]) -> String {
    const SHOWN: usize = 10;
    let scanned = Scanned::of(rows);
    let (oldest, newest) = scanned.window();
    let count = scanned.rows.len();
    let mut out = match count {
        0 => "Startup briefing: nothing has been said yet.\n".to_owned(),
        _ => format!("Startup briefing from {count} journaled messages, {oldest} to {newest}.\n"),
    };
    let mut decided = scanned.decisions(false);
    decided.extend(scanned.decisions(true));
    section(&mut out, "Decided", last(decided, SHOWN));
    section(&mut out, "Unresolved", last(scanned.unresolved(), SHOWN));
    section(
        &mut out,
        "Failed deliveries",
        scanned.at(&[Stage::Failed], SHOWN),
    );
    out.push_str("\nMore is in .squidrun/handoffs/session.md.");
    out
}

impl<'a> Scanned<'a> {
    fn of(rows: &'a [Row]) -> Scanned<'a> {
        let mut rows: Vec<&Row> = rows.iter().collect();
        rows.sort_by_key(|row| (time(row), &row.message_id));
        let session = rows.iter().rev().find_map(|row| row.session_id.as_deref());
        Scanned {
            session: session.unwrap_or("none"),
            rows,
        }
    }

    /// From when to when.
    fn window(&self) -> (IsoTime, IsoTime) {
        let at = |row: Option<&&Row>| IsoTime(row.map_or(0, |row| time(row)));
        (at(self.rows.first()), at(self.rows.last()))
    }

    /// How many rows of each session there are, and from when.
    fn coverage(&self) -> Vec<String> {
        let mut sessions: Vec<(&str, i64, BTreeMap<&str, usize>)> = Vec::new();
        for row in &self.rows {
            let name = row.session_id.as_deref().unwrap_or("none");
            let known = sessions.iter().position(|(known, _, _)| *known == name);
            let index = known.unwrap_or_else(|| {
                sessions.push((name, time(row), BTreeMap::new()));
                sessions.len() - 1
            });
            *sessions[index]
                .2
                .entry(Stage::of(row).as_str())
                .or_default() += 1;
        }
        let lines = sessions.iter().map(|(name, since, counts)| {
            let counts = counts.iter().map(|(word, count)| format!("{count} {word}"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            format!("{} since {}: {counts}", code(name), IsoTime(*since))
        });
        last(lines.collect(), LINES_MAX)
    }

    fn signals(&self) -> Vec<Signal<'a>> {
        let mut found = Vec::new();
        for row in &self.rows {
            let (tags, text) = in_front(row);
            let judged = entry::judged(row);
            let claims = claims::of(text).filter(|_| !tags.escalate);
            found.extend((0..).zip(claims).map(|(line, (kind, text))| {
                Signal {
                    kind,
                    status: judged
                        .get(&line)
                        .copied()
                        .unwrap_or(AssertionStatus::Proposed),
                    text,
                    row,
                }
            }));
        }
        found
    }

    /// Claims that somebody has yet to look after, and acknowledgements that were asked for and not given.
    fn unresolved(&self) -> Vec<String> {
        let signals = self.signals();
        let open = signals
            .iter()
            .filter(|signal| signal.status.is_unresolved(signal.kind));
        let mut lines: Vec<String> = open.map(named).collect();
        let owed = self.rows.iter().filter(|row| {
            let (tags, _) = in_front(row);
            tags.ack_required && !matches!(Stage::of(row), Stage::Acked | Stage::Failed)
        });
        lines.extend(owed.map(|row| format!("not acknowledged: {}", line(row))));
        last(lines, LINES_MAX)
    }

    /// Decisions of the newest session, or of those before.
    fn decisions(&self, of_newest: bool) -> Vec<String> {
        let is_newest = |row: &Row| row.session_id.as_deref() == Some(self.session);
        let signals = self.signals();
        let decided = signals.iter().filter(|signal| {
            signal.kind == AssertionKind::Decision
                && signal.status != AssertionStatus::Deprecated
                && is_newest(signal.row) == of_newest
        });
        last(decided.map(told).collect(), LINES_MAX)
    }

    fn at(&self, stages: &[Stage], most: usize) -> Vec<String> {
        let rows = self
            .rows
            .iter()
            .filter(|row| stages.contains(&Stage::of(row)));
        last(rows.map(|row| line(row)).collect(), most)
    }
}

/// The tags of a body, and the text behind its header and them.
fn in_front(row: &Row) -> (Tags<'_>, &str) {
    let body = row.raw_body.as_deref().unwrap_or_default();
    tags::parse(header::parse(body).map_or(body, |header| header.body))
}

fn section(out: &mut String, title: &str, lines: Vec<String>) {
    let _ = write!(out, "\n## {title}\n\n");
    if lines.is_empty() {
        out.push_str("- none\n");
    }
    for line in lines {
        let _ = writeln!(out, "- {line}");
    }
}

/// The last ones of too many.
fn last(mut lines: Vec<String>, most: usize) -> Vec<String> {
    lines.drain(..lines.len().saturating_sub(most));
    lines
}

/// With its word, and with its status once somebody has judged it.
fn named(signal: &Signal<'_>) -> String {
    let (word, told) = (claims::word(signal.kind), told(signal));
    match signal.status {
        AssertionStatus::Proposed => format!("{word}: {told}"),
        status => format!("{word} ({status}): {told}"),
    }
}

fn told(signal: &Signal<'_>) -> String {
    let from = signal.row.sender_role.as_deref().unwrap_or("unknown");
    let at = IsoTime(time(signal.row));
    format!("{} ({}, {at})", code(signal.text), code(from))
}

fn line(row: &Row) -> String {
    let word = |word: &Option<String>| code(word.as_deref().unwrap_or("unknown"));
    let error = row
        .error_code
        .as_deref()
        .map(|error| format!(" ({})", code(error)));
    format!(
        "{} {} to {} {}{}: {}",
        IsoTime(time(row)),
        word(&row.sender_role),
        word(&row.target_role),
        Stage::of(row).as_str(),
        error.unwrap_or_default(),
        code(row.raw_body.as_deref().unwrap_or_default())
    )
}

fn time(row: &Row) -> i64 {
    let known = row.brokered_at_ms.or(row.sent_at_ms);
    known.or(row.updated_at_ms).unwrap_or_default()
}

/// Any text, cut, in one line, and as code.
fn code(text: &str) -> String {
    let shown = text.chars().take(SHOWN_MAX).map(|letter| match letter {
        '`' => '\'',
        letter if letter.is_control() => ' ',
        letter => letter,
    });
    let shown: String = shown.collect();
    let more = if text.chars().nth(SHOWN_MAX).is_some() {
        "…"
    } else {
        ""
    };
    format!("`{}{more}`", shown.trim())
}
