//! Ids for tasks that have none: the same plan gives the same ids, so that importing it again adds nothing.

use std::collections::HashMap;

use aws_lc_rs::digest::{Context, SHA256};
use switchboard_wire::signature::to_hex;

use super::Draft;

/// So much of a title is in the id.
const SLUG_MAX: usize = 24;
/// Bytes of the hash that tell tasks apart.
const HASH_BYTES: usize = 6;

/// Gives every task without an id the one that follows from where the plan is from, the task's title, and how many of
/// that title come before it. So a plan that was edited keeps the tasks that it had, and two plans never share one.
pub fn identify(drafts: &mut [Draft], plan: &str) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for draft in drafts {
        let task = &mut draft.task;
        if task.id.is_none() {
            let before = seen.entry(task.title.clone()).or_default();
            task.id = Some(id(plan, &task.title, *before));
            *before += 1;
        }
    }
}

fn id(plan: &str, title: &str, before: usize) -> String {
    let mut hash = Context::new(&SHA256);
    for part in [plan, title, &before.to_string()] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    let hash = to_hex(&hash.finish().as_ref()[..HASH_BYTES]);
    format!("{}-{hash}", slug(title))
}

/// The title as far as it can be part of an id.
fn slug(title: &str) -> String {
    let lower = title.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let mut slug = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        if !slug.is_empty() && slug.len() + 1 + word.len() > SLUG_MAX {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.extend(word.chars().take(SLUG_MAX));
    }
    match slug.is_empty() {
        true => "task".to_owned(),
        false => slug,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, read};
    use super::*;

    fn ids(text: &str, plan: &str) -> Vec<String> {
        let mut drafts = read(text, Format::Markdown).unwrap();
        identify(&mut drafts, plan);
        let ids = drafts.into_iter().filter_map(|draft| draft.task.id);
        ids.collect()
    }

    #[test]
    fn the_same_plan_has_the_same_ids_and_every_task_its_own() {
        let text = "- Write the docs\n- Test\n- Test\n- named id:own\n- ährenlese\n";
        let first = ids(text, "/p/plan.md");
        assert_eq!(first, ids(text, "/p/plan.md"));
        assert_eq!(first[3], "own");
        assert!(first[0].starts_with("write-the-docs-"), "{first:?}");
        assert_ne!(first[1], first[2]);
        let others = ids(text, "/p/other.md");
        assert!(others.iter().all(|id| id == "own" || !first.contains(id)));
    }

    #[test]
    fn what_was_there_before_an_edit_keeps_its_id() {
        let before = ids("- One\n- Two\n", "p");
        let after = ids("- Zero\n- Two p:high\n  More of it.\n- One\n", "p");
        assert_eq!([&after[2], &after[1]], [&before[0], &before[1]]);
    }

    #[test]
    fn a_slug_is_short_and_never_empty() {
        for (title, expected) in [
            (
                "Fix the parser: it crashes on empty input",
                "fix-the-parser-it",
            ),
            ("  !!! ", "task"),
            ("ünïcödé", "n-c-d"),
        ] {
            assert_eq!(slug(title), expected);
        }
        assert_eq!(slug(&"x".repeat(100)).len(), SLUG_MAX);
    }
}
