//! The search for tasks that ended long ago: a bounded stretch of numbers at a time.

use switchboard_core::TaskId;
use switchboard_core::slice::FinishedPage;

/// What a search looks at in a task.
pub(crate) struct Seen {
    pub number: u64,
    pub id: TaskId,
    /// It ended before the given instant.
    pub is_old: bool,
    /// It was created at or after the given instant.
    pub is_young: bool,
}

/// Tasks looked at to find so many.
pub(crate) fn stretch(limit: usize) -> usize {
    limit * 4
}

/// What a stretch holds, no further than the first task that is too young itself.
pub(crate) fn page(seen: &[Seen], limit: usize) -> FinishedPage {
    let mut page = FinishedPage::default();
    for task in seen {
        if task.is_young {
            page.next = None;
            return page;
        }
        if task.is_old {
            page.tasks.push(task.id.clone());
        }
        page.next = Some(task.number + 1);
        if page.tasks.len() == limit {
            return page;
        }
    }
    if seen.len() < stretch(limit) {
        page.next = None;
    }
    page
}
