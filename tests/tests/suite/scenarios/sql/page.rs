//! The statements of `docs/direct-sql.md`, by the names that the page gives them.

use std::collections::BTreeMap;
use std::path::Path;

/// Name to statements, in order.
pub struct Page(BTreeMap<String, Vec<String>>);

const NAMED: &str = "<!-- sql: ";
const OPENING: &str = "```sql\n";
const CLOSING: &str = "```";

impl Page {
    pub fn read() -> Page {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/direct-sql.md");
        let text = std::fs::read_to_string(path).expect("docs/direct-sql.md can be read");
        Page::parse(&text)
    }

    fn parse(text: &str) -> Page {
        let mut named = BTreeMap::new();
        for part in text.split(NAMED).skip(1) {
            let (name, rest) = part.split_once(" -->").expect("a name ends");
            let rest = rest.trim_start().strip_prefix(OPENING);
            let block = rest.and_then(|rest| rest.split_once(CLOSING));
            let (block, _) = block.unwrap_or_else(|| panic!("no statements follow `{name}`"));
            let before = named.insert(name.to_owned(), statements(block));
            assert!(before.is_none(), "`{name}` is on the page twice");
        }
        Page(named)
    }

    pub fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    pub fn statements(&self, name: &str) -> Vec<String> {
        let found = self.0.get(name);
        found
            .unwrap_or_else(|| panic!("docs/direct-sql.md has no `{name}`"))
            .clone()
    }
}

/// Each ends with a semicolon at the end of a line.
fn statements(block: &str) -> Vec<String> {
    let parts = block.split(";\n").map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn blocks_are_found_by_their_names() {
    let page = Page::parse(
        "text\n<!-- sql: one -->\n```sql\nSELECT ';'\n  FROM x;\n\nSELECT 2;\n```\nmore\n<!-- sql: two -->\n```sql\nSELECT 3;\n```\n",
    );
    assert_eq!(page.statements("one"), ["SELECT ';'\n  FROM x", "SELECT 2"]);
    assert_eq!(page.statements("two"), ["SELECT 3"]);
}
