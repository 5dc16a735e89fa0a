//! A Markdown list as tasks: one item, one task.
//!
//! ```text
//! - [ ] Parse the config file p:high #rust ~30m id:parse
//!   Everything indented below an item is its description.
//!   - [ ] Read TOML            (inherits p:high and #rust)
//! - [x] Already done           (skipped)
//! - Write the docs @builder-2 after:parse
//! ```
//!
//! Nesting orders nothing: a nested item inherits priority, type, skills, branch and audience, and depends only
//! on what its own `after:` names. Headings and paragraphs that belong to no item are prose and are left alone.

use super::tags::{Tags, words};
use super::{Draft, Problem};

/// Reads every open item of the list; all problems are reported, not just the first.
pub fn parse(text: &str) -> Result<Vec<Draft>, Vec<Problem>> {
    let mut reader = Reader::default();
    for (index, raw) in text.lines().enumerate() {
        reader.line(index + 1, &raw.replace('\t', "    "));
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    drafts: Vec<Draft>,
    problems: Vec<Problem>,
    /// The chain of items the current line may be nested in, outermost first.
    open: Vec<Level>,
    /// The marker that closes the code fence we are inside of.
    fence: Option<String>,
}

/// One item that later, deeper lines may belong to.
struct Level {
    /// Column of the list marker.
    marker: usize,
    /// Column where the item's own text begins.
    body: usize,
    /// Index into `drafts`; `None` for a skipped item.
    draft: Option<usize>,
    tags: Tags,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let content = line[indent..].trim_end();
        if let Some(fence) = &self.fence {
            if content.trim_end().starts_with(fence.as_str()) {
                self.fence = None;
            }
            self.describe(indent, line);
            return;
        }
        if content.starts_with("```") || content.starts_with("~~~") {
            self.fence = Some(content[..3].to_owned());
            self.describe(indent, line);
            return;
        }
        if content.is_empty() {
            self.describe(usize::MAX, "");
            return;
        }
        match item(content) {
            Some(item) => self.open_item(number, indent, &item),
            None => self.describe(indent, line),
        }
    }

    fn open_item(&mut self, number: usize, indent: usize, item: &Item<'_>) {
        self.open.retain(|level| level.marker < indent);
        let inherited = self
            .open
            .last()
            .map(|level| level.tags.inherited())
            .unwrap_or_default();
        let body = indent + item.width;
        let (title, own) = match words(item.text) {
            Ok(read) => read,
            Err(reason) => {
                // A done item is not imported, so what its words say cannot be wrong.
                if !item.done {
                    self.problems.push(Problem::at(number, reason));
                }
                (String::new(), Tags::default())
            }
        };
        let tags = own.over(inherited);
        let draft = (!item.done).then(|| {
            if title.is_empty()
                && self
                    .problems
                    .last()
                    .is_none_or(|problem| problem.line != number)
            {
                self.problems
                    .push(Problem::at(number, "the item has no title"));
            }
            self.drafts.push(tags.draft(number, title));
            self.drafts.len() - 1
        });
        self.open.push(Level {
            marker: indent,
            body,
            draft,
            tags,
        });
    }

    /// Adds an indented line to the item it stands under.
    fn describe(&mut self, indent: usize, line: &str) {
        if indent != usize::MAX {
            self.open.retain(|level| level.marker < indent);
        }
        let Some(level) = self.open.last() else {
            return;
        };
        let Some(draft) = level.draft else { return };
        let cut = level
            .body
            .min(line.len() - line.trim_start_matches(' ').len());
        let text = self.drafts[draft].task.description.get_or_insert_default();
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line[cut..].trim_end());
    }

    fn finish(mut self) -> Result<Vec<Draft>, Vec<Problem>> {
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        for draft in &mut self.drafts {
            let text = draft.task.description.take();
            draft.task.description = text
                .map(|text| text.trim_matches('\n').to_owned())
                .filter(|text| !text.is_empty());
        }
        Ok(self.drafts)
    }
}

struct Item<'a> {
    done: bool,
    text: &'a str,
    /// Width of the list marker with the space after it.
    width: usize,
}

/// The list item that `content` opens, if it opens one: `-`, `*`, `+`, `1.` or `1)`, then a space.
fn item(content: &str) -> Option<Item<'_>> {
    let digits = content.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match content.as_bytes().get(digits) {
        Some(b'-' | b'*' | b'+') if digits == 0 => 1,
        Some(b'.' | b')') if (1..=9).contains(&digits) => digits + 1,
        _ => return None,
    };
    let rest = &content[marker..];
    // `---` and `**bold**` are not items.
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let text = rest.trim_start();
    let width = marker + 1;
    for (mark, done) in [("[ ]", false), ("[]", false), ("[x]", true), ("[X]", true)] {
        if let Some(text) = text.strip_prefix(mark)
            && (text.is_empty() || text.starts_with(' '))
        {
            return Some(Item {
                done,
                text: text.trim(),
                width,
            });
        }
    }
    Some(Item {
        done: false,
        text: text.trim(),
        width,
    })
}

#[cfg(test)]
mod tests {
    use switchboard_client::jetpack::{Priority, TaskType};

    use super::*;

    fn titles(text: &str) -> Vec<String> {
        parse(text)
            .unwrap()
            .into_iter()
            .map(|draft| draft.task.title)
            .collect()
    }

    #[test]
    fn every_open_item_is_a_task_and_done_ones_are_skipped() {
        let text = "# Plan\n\nSome prose.\n\n- [ ] one\n- two\n- [x] three\n* [X] four\n+ five\n1. six\n2) seven\n---\n**eight**\n";
        assert_eq!(titles(text), ["one", "two", "five", "six", "seven"]);
    }

    #[test]
    fn inline_tags_become_fields_and_leave_the_title() {
        let drafts = parse("- [ ] Fix the parser p:high #rust #parsing ~1h30m @builder-2 after:a,b id:fix type:test branch:x").unwrap();
        let draft = &drafts[0].task;
        assert_eq!(draft.title, "Fix the parser");
        assert_eq!(draft.priority, Some(Priority::High));
        assert_eq!(draft.required_skills, ["rust", "parsing"]);
        assert_eq!(draft.estimated_minutes, Some(90));
        assert_eq!(draft.audience, ["builder-2"]);
        assert_eq!(draft.dependencies, ["a", "b"]);
        assert_eq!(draft.id.as_deref(), Some("fix"));
        assert_eq!(draft.kind, Some(TaskType::Test));
        assert_eq!(draft.branch.as_deref(), Some("x"));
        assert_eq!(drafts[0].line, 1);
    }

    #[test]
    fn what_only_looks_like_a_tag_stays_in_the_title() {
        for title in [
            "fix #12 now",
            "bump @types/node",
            "about ~ten files",
            "use `p:high #x` here",
            "a std::mem fix",
            "note: later",
        ] {
            assert_eq!(titles(&format!("- {title}")), [title]);
        }
        assert_eq!(
            titles("- write \\#rust and \\p:high"),
            ["write #rust and p:high"]
        );
    }

    #[test]
    fn nested_items_inherit_but_depend_on_nothing() {
        let drafts = parse("- parent p:high #rust @a ~2h after:z id:p\n  - child #sql\n    - grandchild p:low @b\n- next").unwrap();
        assert_eq!(drafts[1].task.priority, Some(Priority::High));
        assert_eq!(drafts[1].task.required_skills, ["sql", "rust"]);
        assert_eq!(drafts[1].task.audience, ["a"]);
        assert_eq!(
            (
                drafts[1].task.dependencies.len(),
                drafts[1].task.estimated_minutes,
                &drafts[1].task.id
            ),
            (0, None, &None)
        );
        assert_eq!(drafts[2].task.priority, Some(Priority::Low));
        assert_eq!(drafts[2].task.audience, ["b"]);
        assert_eq!(
            (
                drafts[3].task.priority,
                drafts[3].task.required_skills.len()
            ),
            (None, 0)
        );
    }

    #[test]
    fn indented_text_is_the_description_and_code_in_it_is_kept() {
        let text = "- one\n  first line\n\n  ```\n  - not an item\n  ```\n  - nested\n    its own\n- two\n\nprose\n";
        let drafts = parse(text).unwrap();
        assert_eq!(
            drafts[0].task.description.as_deref(),
            Some("first line\n\n```\n- not an item\n```")
        );
        assert_eq!(drafts[1].task.title, "nested");
        assert_eq!(drafts[1].task.description.as_deref(), Some("its own"));
        assert_eq!(
            (
                drafts[2].task.title.as_str(),
                drafts[2].task.description.as_deref()
            ),
            ("two", None)
        );
    }

    #[test]
    fn open_items_under_a_done_one_are_still_imported() {
        let drafts = parse("- [x] done p:high\n  its text\n  - [ ] open\n").unwrap();
        assert_eq!((drafts.len(), drafts[0].task.title.as_str()), (1, "open"));
        assert_eq!(
            (
                drafts[0].task.priority,
                drafts[0].task.description.as_deref()
            ),
            (Some(Priority::High), None)
        );
    }

    #[test]
    fn bad_lines_are_all_named_with_their_numbers() {
        let problems = parse("- ok\n- [ ] #rust\n- x ~5x\n- y after:\n- z p:urgent\n").unwrap_err();
        let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 3, 4, 5]);
        assert!(
            problems[1].reason.contains("'5x'"),
            "{}",
            problems[1].reason
        );
        assert!(
            problems[3].reason.contains("low, medium, high, critical"),
            "{}",
            problems[3].reason
        );
    }
}
