//! What readers of every engine share: cursors, pages, words, and events as they stand in the log.

use serde::Deserialize;
use switchboard_core::{Event, Lease, Logged, Skills, TaskStatus, Timestamp, limits};

use crate::{AgentCounts, Error, LeaseFilter, Page, Pages};

/// Statuses that have an index of their own, because few tasks are in them.
const RARE: [TaskStatus; 5] = [
    TaskStatus::Waiting,
    TaskStatus::RetryWait,
    TaskStatus::NeedsPerson,
    TaskStatus::Failed,
    TaskStatus::Canceled,
];

/// Words of one search; what comes after them is not looked for.
const WORDS_MAX: usize = 64;
/// Longer words are looked for by their beginning.
const WORD_BYTES_MAX: usize = 256;

/// Lanes of one priority that `next_in_queue` looks into.
pub(crate) const LANES_LOOKED_AT: usize = 256;
/// Lanes among which it looks for them.
pub(crate) const LANES_SCANNED: usize = 20_000;

/// Whether tasks in these statuses, and no others, can be listed without looking at the rest.
pub(crate) fn all_rare(statuses: &[TaskStatus]) -> bool {
    !statuses.is_empty() && statuses.iter().all(|status| RARE.contains(status))
}

/// The number at which a page begins.
pub(crate) fn cursor(page: &Page) -> Result<Option<i64>, Error> {
    let parse = |text: &String| text.parse().map_err(|_| Error::BadCursor(text.clone()));
    page.after.as_ref().map(parse).transpose()
}

pub(crate) fn pages<T>(mut rows: Vec<T>, page: &Page, cursor: impl Fn(&T) -> String) -> Pages<T> {
    // One row more than a page was read, to know whether this is the last one.
    let more = rows.len() > page.limit;
    rows.truncate(page.limit);
    let next = rows.last().filter(|_| more).map(cursor);
    Pages { rows, next }
}

/// How many leases are read for one page. Whether two paths overlap is nothing a database can tell.
pub(crate) fn leases_to_read(filter: &LeaseFilter, page: &Page) -> usize {
    if filter.near.is_some() {
        limits::PAGE_SCAN_MAX
    } else {
        page.limit + 1
    }
}

/// The page of leases among those that were read for it.
pub(crate) fn leases_page(read: Vec<Lease>, filter: &LeaseFilter, page: &Page) -> Pages<Lease> {
    let full = read.len() == leases_to_read(filter, page);
    let last = read.last().map(|lease| lease.spelling().to_owned());
    let fits = |lease: &Lease| {
        let near = filter.near.as_ref();
        near.is_none_or(|near| near.overlaps(&lease.path))
    };
    let rows: Vec<Lease> = read.into_iter().filter(fits).collect();
    if rows.len() > page.limit {
        return pages(rows, page, |lease| lease.spelling().to_owned());
    }
    Pages {
        rows,
        next: last.filter(|_| full),
    }
}

/// A skill as it stands in the rows.
pub(crate) fn skill(word: &str) -> String {
    let skills = Skills::new([word]);
    let kept = skills.iter().next();
    kept.map(ToString::to_string).unwrap_or_default()
}

/// Counts of agents by the public word of their status.
pub(crate) fn agent_counts(found: impl IntoIterator<Item = (String, u64)>) -> AgentCounts {
    let mut counts = AgentCounts::default();
    for (status, count) in found {
        match status.as_str() {
            "idle" => counts.idle += count,
            "busy" => counts.busy += count,
            "error" => counts.error += count,
            "shutting_down" => counts.shutting_down += count,
            _ => counts.offline += count,
        }
    }
    counts
}

/// What a person looks for, word by word.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
        .take(WORDS_MAX)
        .map(|word| &word[..word.floor_char_boundary(WORD_BYTES_MAX)])
}

/// The events of one batch, as they stand in the log.
pub(crate) fn events(body: &str) -> impl Iterator<Item = Result<Logged, Error>> {
    body.lines().map(|line| {
        serde_json::from_str(line).or_else(|error| {
            newer(line).ok_or_else(|| Error::Corrupt(format!("an event cannot be read: {error}")))
        })
    })
}

/// An event of a type that only a newer build knows. Coordinators are replaced one by one, and the older ones go on.
fn newer(line: &str) -> Option<Logged> {
    #[derive(Deserialize)]
    struct Unknown {
        seq: u64,
        at: Timestamp,
        #[serde(rename = "type")]
        kind: String,
        #[serde(flatten)]
        members: serde_json::Map<String, serde_json::Value>,
    }
    let Unknown {
        seq,
        at,
        kind,
        members,
    } = serde_json::from_str(line).ok()?;
    if Event::KINDS.contains(&kind.as_str()) {
        return None;
    }
    let members = serde_json::Value::Object(members).to_string();
    let event = Event::Newer { kind, members };
    Some(Logged { seq, at, event })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(after: &str, limit: usize) -> Page {
        Page {
            after: Some(after.to_owned()),
            limit,
        }
    }

    #[test]
    fn a_page_has_a_cursor_only_if_there_is_more() {
        let cut = |rows: &[u8], limit| pages(rows.to_vec(), &page("0", limit), u8::to_string);
        let table: [(&[u8], Option<&str>); 4] = [
            (&[], None),
            (&[1], None),
            (&[1, 2], None),
            (&[1, 2, 3], Some("2")),
        ];
        for (rows, next) in table {
            let found = cut(rows, 2);
            assert_eq!(found.rows, rows[..rows.len().min(2)], "of {rows:?}");
            assert_eq!(found.next.as_deref(), next, "of {rows:?}");
        }
        assert!(matches!(
            cursor(&page("x", 1)),
            Err(Error::BadCursor(text)) if text == "x"
        ));
    }

    #[test]
    fn an_event_of_a_newer_build_is_carried_and_a_damaged_one_is_noticed() {
        let known = r#"{"seq":1,"at":5,"type":"agent_silent","agent":"a1"}"#;
        let newer = r#"{"seq":2,"at":6,"type":"quorum_reached","of":["a1",2]}"#;
        let read: Vec<Logged> = events(&format!("{known}\n{newer}\n"))
            .collect::<Result<_, _>>()
            .expect("both are read");
        assert_eq!(read[0].event.kind(), "agent_silent");
        let event = Event::Newer {
            kind: "quorum_reached".to_owned(),
            members: r#"{"of":["a1",2]}"#.to_owned(),
        };
        assert_eq!((read[1].seq, &read[1].event), (2, &event));
        for damaged in [
            r#"{"seq":1,"at":5,"type":"agent_silent"}"#,
            r#"{"seq":1,"at":5,"type":"quorum_rea"#,
            r#"{"at":5,"type":"quorum_reached"}"#,
        ] {
            assert!(
                matches!(events(damaged).next(), Some(Err(Error::Corrupt(_)))),
                "{damaged}"
            );
        }
    }

    #[test]
    fn words_are_bounded_in_number_and_length() {
        for (given, kept) in [(WORDS_MAX - 1, WORDS_MAX - 1), (WORDS_MAX + 1, WORDS_MAX)] {
            assert_eq!(words(&"word ".repeat(given)).count(), kept);
        }
        for (given, kept) in [
            (WORD_BYTES_MAX - 1, WORD_BYTES_MAX - 1),
            (WORD_BYTES_MAX, WORD_BYTES_MAX),
            (WORD_BYTES_MAX + 1, WORD_BYTES_MAX),
        ] {
            assert_eq!(words(&"a".repeat(given)).next().map(str::len), Some(kept));
        }
        // Never half a letter.
        let umlauts = format!("a{}", "ä".repeat(WORD_BYTES_MAX));
        let cut = words(&umlauts).next().expect("there is one");
        assert_eq!(cut.len(), WORD_BYTES_MAX - 1);
    }
}
