//! Statements for lists: conditions that come and go with what is asked for, and their values.

use switchboard_core::limits;

use super::rows::rows_max;
use super::session::Query;
use crate::Page;
use crate::paging;

/// A direction through a table.
pub(super) struct Way {
    pub compare: &'static str,
    pub order: &'static str,
    pub start: i64,
}

impl Way {
    pub fn of(newest_first: bool) -> Way {
        if newest_first {
            Way {
                compare: "<",
                order: "DESC",
                start: i64::MAX,
            }
        } else {
            Way {
                compare: ">",
                order: "ASC",
                start: 0,
            }
        }
    }
}

/// What to look for in a long table, and from where on.
pub(super) struct Scan<'a> {
    pub columns: &'a str,
    pub table: &'a str,
    pub way: Way,
    pub after: i64,
    pub conditions: Where,
}

impl Scan<'_> {
    pub fn query(self, page: &Page, width: usize) -> Query {
        let Scan {
            columns,
            table,
            mut conditions,
            ..
        } = self;
        let Way { compare, order, .. } = self.way;
        let (after, limit) = (
            conditions.int(self.after),
            conditions.int(rows_max(page.limit + 1)),
        );
        // Those below zero no hub has made, or are copies.
        let range = format!(
            "FROM {table} WHERE number {compare} {after} AND number > 0 ORDER BY number {order}"
        );
        // A limit inside keeps the server from doing both parts at once, hence the edge comes last.
        let sql = format!(
            "(SELECT {columns}, NULL::bigint FROM (SELECT * {range} LIMIT {scan}) scanned WHERE {filter})
             UNION ALL (SELECT {nothing}, (SELECT number {range} LIMIT 1 OFFSET {last})) LIMIT {limit}",
            scan = limits::PAGE_SCAN_MAX,
            filter = conditions.sql(),
            nothing = vec!["NULL"; width].join(", "),
            last = limits::PAGE_SCAN_MAX - 1,
        );
        conditions.query(sql)
    }
}

/// Conditions with their values, joined by AND.
pub(super) struct Where {
    parts: Vec<String>,
    query: Query,
    values: usize,
}

impl Where {
    pub fn new() -> Where {
        Where {
            parts: Vec::new(),
            query: Query::new(""),
            values: 0,
        }
    }

    /// Adds a value, and returns what stands for it in the statement.
    pub fn value(&mut self, add: impl FnOnce(Query) -> Query) -> String {
        let query = std::mem::replace(&mut self.query, Query::new(""));
        self.query = add(query);
        self.values += 1;
        format!("${}", self.values)
    }

    pub fn text(&mut self, value: &str) -> String {
        self.value(|query| query.text(value))
    }

    pub fn int(&mut self, value: i64) -> String {
        self.value(|query| query.int(value))
    }

    pub fn and(&mut self, condition: String) {
        self.parts.push(condition);
    }

    pub fn is(&mut self, column: &str, value: Option<&str>) {
        if let Some(value) = value {
            let value = self.text(value);
            self.and(format!("{column} = {value}"));
        }
    }

    pub fn one_of<'a>(&mut self, column: &str, words: impl Iterator<Item = &'a str>) {
        let mut words = words.peekable();
        if words.peek().is_some() {
            let words = self.value(|query| query.texts(words));
            self.and(format!("{column} = ANY({words})"));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn sql(&self) -> String {
        if self.is_empty() {
            "true".to_owned()
        } else {
            self.parts.join(" AND ")
        }
    }

    pub fn query(mut self, sql: String) -> Query {
        self.query.sql = sql;
        self.query
    }
}

pub(super) fn select(columns: &str, rest: &str) -> Query {
    Query::new(format!("SELECT {columns} FROM {rest}"))
}

/// All words as quoted prefixes, signs as blanks in the same manner as in [`LEARNING_WORDS`]: nothing a person types
/// is query syntax.
pub(super) fn prefixes(words: &str) -> String {
    let plain = paging::words(words)
        .map(|word| word.replace(|char: char| char.is_ascii_punctuation(), " "));
    let quoted = plain
        .filter(|word| !word.trim().is_empty())
        .map(|word| format!("'{}':*", word.trim()));
    quoted.collect::<Vec<_>>().join(" & ")
}

/// The words of a learning, paths and names taken apart; as the index has it.
pub(super) const LEARNING_WORDS: &str =
    "to_tsvector('simple', regexp_replace(text, '[[:punct:]]+', ' ', 'g'))";
/// The same of an engram.
pub(super) const ENGRAM_WORDS: &str = "to_tsvector('simple', regexp_replace(replace(value, '\\u0000', '\\u0020')::json ->> 'words', '[[:punct:]]+', ' ', 'g'))";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_in_a_word_stay_inside_its_quotes() {
        let table = [
            ("", ""),
            ("one", "'one':*"),
            ("one  two", "'one':* & 'two':*"),
            ("it's \\ a/b.rs", "'it s':* & 'a b rs':*"),
        ];
        for (words, expected) in table {
            assert_eq!(prefixes(words), expected, "{words:?}");
        }
    }

    #[test]
    fn each_value_gets_a_mark_of_its_own() {
        let mut conditions = Where::new();
        assert_eq!(conditions.sql(), "true");
        conditions.is("a", Some("x"));
        conditions.is("b", None);
        conditions.one_of("c", ["y", "z"].into_iter());
        conditions.one_of("d", [].into_iter());
        assert_eq!(conditions.int(1), "$3");
        assert_eq!(conditions.sql(), "a = $1 AND c = ANY($2)");
    }
}
