//! The memory on one page, for people: decisions and facts of the newest engrams, newest first.

use std::fmt::Write as _;

use switchboard_wire::agentbus::engram::Engram;

/// Whoever finds this at the top of a file may overwrite it.
const MARK: &str = "<!-- Written by Switchboard from its ledger; what is changed here is lost. -->";

/// How long the page may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub bytes_max: usize,
    pub items_max: usize,
}

pub fn is_ours(text: &[u8]) -> bool {
    text.starts_with(MARK.as_bytes())
}

/// `engrams` come newest first; what does not fit on the page is left out whole.
pub fn digest(version: &str, engrams: &[Engram], bounds: Bounds) -> String {
    let mut page = format!("{MARK}\n\n# Memory {version}\n");
    if page.len() > bounds.bytes_max {
        return String::new();
    }
    let mut items = 0;
    for engram in engrams {
        let mut heading = format!("\n## {} {}\n", engram.scope.as_str(), engram.version);
        if !engram.topics.is_empty() {
            let _ = writeln!(heading, "\n{}\n", engram.topics.join(", "));
        }
        let decisions = engram.decisions.iter().rev();
        let decided = decisions.map(|it| format!("- **{}** {}\n", it.title, it.rationale));
        let facts = engram.facts.iter().rev().map(|fact| format!("- {fact}\n"));
        let mut heading = Some(heading);
        for item in decided.chain(facts) {
            let opening = heading.as_deref().unwrap_or_default();
            let is_full = items == bounds.items_max
                || page.len() + opening.len() + item.len() > bounds.bytes_max;
            if is_full {
                return page;
            }
            page.push_str(&heading.take().unwrap_or_default());
            page.push_str(&item);
            items += 1;
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use switchboard_wire::agentbus::Scope;

    use super::super::testing::engram;
    use super::*;

    const WIDE: Bounds = Bounds {
        bytes_max: 16_000,
        items_max: 48,
    };

    #[test]
    fn the_newest_come_first_and_the_page_is_ours() {
        let engrams = [
            engram(2, Scope::Short, &["done: 3", "done: 4"]),
            engram(1, Scope::Long, &["done: 1", "done: 2"]),
        ];
        let page = digest("20260212-120200Z", &engrams, WIDE);
        assert!(is_ours(page.as_bytes()));
        let items: Vec<&str> = page.lines().filter(|line| line.starts_with("- ")).collect();
        assert_eq!(items, ["- done: 4", "- done: 3", "- done: 2", "- done: 1"]);
        assert!(!is_ours(b"# Memory\n"));
    }

    #[test]
    fn the_page_ends_at_its_bounds() {
        let facts: Vec<String> = (0..100).map(|n| format!("done: {n}")).collect();
        let facts: Vec<&str> = facts.iter().map(String::as_str).collect();
        let engrams = [engram(1, Scope::Short, &facts)];
        let items = |page: &str| page.lines().filter(|line| line.starts_with("- ")).count();
        for items_max in [0, 1, 47, 48, 99, 100, 101] {
            let bounds = Bounds { items_max, ..WIDE };
            assert_eq!(items(&digest("v", &engrams, bounds)), items_max.min(100));
        }
        for bytes_max in 0..600 {
            let page = digest("v", &engrams, Bounds { bytes_max, ..WIDE });
            assert!(page.len() <= bytes_max);
            assert!(page.is_empty() || page.ends_with('\n'));
        }
    }
}
