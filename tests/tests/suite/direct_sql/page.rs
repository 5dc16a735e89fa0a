//! The statements of the page, found by the comment before each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// The named blocks for one kind of database.
#[derive(Debug)]
pub struct Page {
    blocks: BTreeMap<String, String>,
}

/// Which database a block is for: the word of its comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Sqlite,
    Postgres,
}

impl Flavour {
    fn word(self) -> &'static str {
        match self {
            Flavour::Sqlite => "sql",
            Flavour::Postgres => "psql",
        }
    }
}

pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/direct-sql.md")
}

pub fn text() -> String {
    fs::read_to_string(path()).expect("the page is there")
}

impl Page {
    #[track_caller]
    pub fn read(flavour: Flavour) -> Page {
        let text = text();
        let opening = format!("<!-- {}: ", flavour.word());
        let mut blocks = BTreeMap::new();
        for piece in text.split(opening.as_str()).skip(1) {
            let (name, rest) = piece.split_once(" -->\n```sql\n").unwrap_or_else(|| {
                panic!("a comment is followed by its statement: {piece:.60}");
            });
            let (sql, _) = rest
                .split_once("```")
                .expect("a block that was opened is closed");
            let before = blocks.insert(name.to_owned(), sql.to_owned());
            assert!(before.is_none(), "the page has two blocks {name}");
        }
        assert!(!blocks.is_empty(), "the page has no statements");
        Page { blocks }
    }

    pub fn names(&self) -> BTreeSet<&str> {
        self.blocks.keys().map(String::as_str).collect()
    }

    #[track_caller]
    pub fn sql(&self, name: &str) -> &str {
        let sql = self.blocks.get(name);
        sql.unwrap_or_else(|| panic!("the page has no statement {name}"))
    }
}

#[test]
fn the_page_has_the_same_statements_for_both_databases() {
    let (sqlite, postgres) = (Page::read(Flavour::Sqlite), Page::read(Flavour::Postgres));
    assert_eq!(sqlite.names(), postgres.names());
}
