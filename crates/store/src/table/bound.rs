//! What strangers may write into a column, with the sentence that they read otherwise; as a condition of each dialect
//! that is true of what is refused.

use switchboard_core::limits;

/// What a value must be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// Whatever the column takes.
    Any,
    Id,
    /// Text of so many bytes; from one on it is not blank either.
    Text(usize, usize),
    Words(&'static [&'static str]),
    /// A JSON array of at most so many strings of at most so many bytes.
    List(usize, usize),
    /// The same without control characters.
    PlainList(usize, usize),
    Whole(u64),
    Flag,
    Percent,
    /// ISO-8601 with a T, or SQLite's own form: no less than what the hub can read, and no more.
    Time,
    Path,
    MessageType,
}

impl Bound {
    pub fn sentence(self) -> String {
        match self {
            Bound::Any => String::new(),
            Bound::Id => format!(
                "text of 1 to {} bytes without spaces or control characters",
                limits::ID_BYTES_MAX
            ),
            Bound::Text(0, max) => format!("text of at most {max} bytes"),
            Bound::Text(min, max) => format!("text of {min} to {max} bytes"),
            Bound::Words(words) => format!("one of {}", words.join(", ")),
            Bound::List(items, bytes) | Bound::PlainList(items, bytes) => {
                format!("a JSON array of at most {items} strings of 1 to {bytes} bytes")
            }
            Bound::Whole(max) => format!("a whole number from 0 to {max}"),
            Bound::Flag => "0 or 1".to_owned(),
            Bound::Percent => "a number from 0 to 100".to_owned(),
            Bound::Time => {
                "a time such as 2026-01-31T23:59:59.000Z or 2026-01-31 23:59:59".to_owned()
            }
            Bound::Path => format!(
                "text of 1 to {} bytes without control characters",
                limits::PATH_BYTES_MAX
            ),
            Bound::MessageType => {
                "custom, or words joined by dots such as info.discovery".to_owned()
            }
        }
    }

    /// For a value that may be of any type, but is not NULL where that is allowed.
    pub fn broken_on_sqlite(self, x: &str) -> String {
        let bytes = format!("length(CAST({x} AS BLOB))");
        let text = format!("typeof({x}) <> 'text'");
        match self {
            Bound::Any => String::new(),
            Bound::Id => format!(
                "{text} OR {bytes} NOT BETWEEN 1 AND {} OR {}",
                limits::ID_BYTES_MAX,
                has_control(x, 32)
            ),
            Bound::Text(0, max) => format!("{text} OR {bytes} > {max}"),
            Bound::Text(min, max) => {
                format!("{text} OR {bytes} > {max} OR length(trim({x})) < {min}")
            }
            Bound::Words(words) => format!("{x} IS NULL OR {x} NOT IN ({})", quoted(words)),
            Bound::List(items, bytes) => sqlite_list(x, items, bytes, ""),
            Bound::PlainList(items, bytes) => sqlite_list(
                x,
                items,
                bytes,
                &format!(" OR {}", has_control("value", 31)),
            ),
            Bound::Whole(max) => {
                format!("typeof({x}) <> 'integer' OR {x} NOT BETWEEN 0 AND {max}")
            }
            Bound::Flag => format!("{x} IS NULL OR {x} NOT IN (0, 1)"),
            Bound::Percent => {
                format!("typeof({x}) NOT IN ('real', 'integer') OR {x} NOT BETWEEN 0 AND 100")
            }
            Bound::Time => sqlite_time(x),
            Bound::Path => format!(
                "{text} OR {bytes} NOT BETWEEN 1 AND {} OR {}",
                limits::PATH_BYTES_MAX,
                has_control(x, 31)
            ),
            Bound::MessageType => format!(
                "{text} OR {bytes} NOT BETWEEN 1 AND {} OR {} OR ({x} <> 'custom' AND {x} NOT GLOB '?*.?*')",
                limits::ID_BYTES_MAX,
                has_control(x, 32)
            ),
        }
    }

    /// For a value of the column's type; NULL breaks nothing.
    pub fn broken_on_postgres(self, x: &str) -> String {
        let list = |items: usize, bytes: usize, plain: bool| {
            format!("NOT sb_is_list({x}, {items}, {bytes}, {plain})")
        };
        match self {
            Bound::Any => String::new(),
            Bound::Id => format!(
                r"octet_length({x}) NOT BETWEEN 1 AND {} OR {x} ~ '[\u0001-\u0020\u007f]'",
                limits::ID_BYTES_MAX
            ),
            Bound::Text(0, max) => format!("octet_length({x}) > {max}"),
            Bound::Text(_, max) => format!("octet_length({x}) > {max} OR btrim({x}) = ''"),
            Bound::Words(words) => format!("{x} NOT IN ({})", quoted(words)),
            Bound::List(items, bytes) => list(items, bytes, false),
            Bound::PlainList(items, bytes) => list(items, bytes, true),
            Bound::Whole(max) => format!("{x} NOT BETWEEN 0 AND {max}"),
            Bound::Flag => format!("{x} NOT IN (0, 1)"),
            Bound::Percent => format!("{x} NOT BETWEEN 0 AND 100"),
            Bound::Time => format!("{x} IS NOT NULL AND sb_instant({x}) IS NULL"),
            Bound::Path => format!(
                r"octet_length({x}) NOT BETWEEN 1 AND {} OR {x} ~ '[\u0001-\u001f\u007f]'",
                limits::PATH_BYTES_MAX
            ),
            Bound::MessageType => format!(
                r"octet_length({x}) NOT BETWEEN 1 AND {} OR {x} ~ '[\u0001-\u0020\u007f]' OR {x} !~ '^(custom|.+\..+)$'",
                limits::ID_BYTES_MAX
            ),
        }
    }
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    words.join(", ")
}

/// Whether a text has characters up to this code, or a delete.
fn has_control(text: &str, upto: u8) -> String {
    format!(
        "instr({text}, char(0)) > 0 OR {text} GLOB '*[' || char(1) || '-' || char({upto}) || char(127) || ']*'"
    )
}

fn sqlite_list(x: &str, items: usize, bytes: usize, odd: &str) -> String {
    // With room for quotes, commas and escapes.
    let max = items * (bytes + 16);
    format!(
        "{x} <> '[]' AND CASE WHEN typeof({x}) = 'text' AND length(CAST({x} AS BLOB)) <= {max} AND json_valid({x}) THEN json_type({x}) <> 'array'
      OR json_array_length({x}) > {items}
      OR EXISTS (SELECT 1 FROM json_each({x}) WHERE type <> 'text' OR length(CAST(value AS BLOB)) NOT BETWEEN 1 AND {bytes}{odd}) ELSE 1 END"
    )
}

fn sqlite_time(x: &str) -> String {
    // Behind the seconds: a fraction, then Z or an offset.
    let zone = format!(
        "CASE WHEN {x} GLOB '???????????????????.[0-9]*' THEN ltrim(substr({x}, 21), '0123456789') ELSE substr({x}, 20) END"
    );
    format!(
        "typeof({x}) <> 'text' OR length(CAST({x} AS BLOB)) > 40 OR instr({x}, char(0)) > 0 OR julianday({x}) IS NULL
      OR date(substr({x}, 1, 10)) IS NOT substr({x}, 1, 10)
      OR {x} NOT GLOB '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9]:[0-5][0-9]*' OR substr({x}, 12, 2) > '23'
      OR NOT ({zone} IN ('', 'Z') OR {zone} GLOB '[+-][0-1][0-9]:[0-5][0-9]')"
    )
}
