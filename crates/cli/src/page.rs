//! Lists that are longer than one page.

use switchboard_client::Error;
use switchboard_client::jetpack::{
    AgentPage, ClaimPage, EventPage, IncidentPage, LeasePage, MessagePage, SnapshotPage, TaskPage,
};
use switchboard_client::runtime::{AuditResponse, SessionsResponse};
use switchboard_core::limits;
use switchboard_wire::logist::http::JobPage;

/// Most rows the hub gives in one page.
const ROWS_MAX: u32 = limits::PAGE_MAX as u32;

/// One page of a list.
pub trait Page {
    type Cursor;
    fn len(&self) -> usize;
    /// Where the next page begins, if there is one.
    fn next(&self) -> Option<Self::Cursor>;
    /// Takes the rows of the page after this one, and its cursor.
    fn absorb(&mut self, later: Self);
}

/// Fetches up to `limit` rows, page by page, into one page.
pub async fn gather<P: Page>(
    limit: u32,
    fetch: impl AsyncFn(Option<P::Cursor>, u32) -> Result<P, Error>,
) -> Result<P, Error> {
    let mut all = fetch(None, limit.min(ROWS_MAX)).await?;
    loop {
        let left = limit.saturating_sub(u32::try_from(all.len()).unwrap_or(u32::MAX));
        let (true, Some(cursor)) = (left > 0, all.next()) else {
            return Ok(all);
        };
        all.absorb(fetch(Some(cursor), left.min(ROWS_MAX)).await?);
    }
}

macro_rules! pages {
    ($($page:ident.$rows:ident by $cursor:ty),+ $(,)?) => {$(
        impl Page for $page {
            type Cursor = $cursor;

            fn len(&self) -> usize {
                self.$rows.len()
            }

            fn next(&self) -> Option<$cursor> {
                self.next.clone()
            }

            fn absorb(&mut self, later: Self) {
                self.$rows.extend(later.$rows);
                self.next = later.next;
            }
        }
    )+};
}

pages! {
    SessionsResponse.sessions by String,
    AuditResponse.entries by String,
    TaskPage.tasks by String,
    JobPage.jobs by String,
    AgentPage.agents by String,
    ClaimPage.claims by String,
    MessagePage.messages by String,
    IncidentPage.incidents by String,
    LeasePage.leases by String,
    SnapshotPage.snapshots by String,
    EventPage.events by u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers(Vec<u32>, Option<u32>);

    impl Page for Numbers {
        type Cursor = u32;

        fn len(&self) -> usize {
            self.0.len()
        }

        fn next(&self) -> Option<u32> {
            self.1
        }

        fn absorb(&mut self, later: Self) {
            self.0.extend(later.0);
            self.1 = later.1;
        }
    }

    /// A list of 2500 rows, in pages of what was asked for.
    async fn page(after: Option<u32>, size: u32) -> Result<Numbers, Error> {
        let start = after.unwrap_or(0);
        let end = (start + size).min(2500);
        Ok(Numbers((start..end).collect(), (end < 2500).then_some(end)))
    }

    #[tokio::test]
    async fn pages_are_gathered_up_to_the_limit() {
        for (limit, expected, more) in [
            (1, 1, true),
            (1000, 1000, true),
            (1001, 1001, true),
            (2500, 2500, false),
            (9999, 2500, false),
        ] {
            let all = gather(limit, page).await.unwrap();
            assert_eq!(all.0, (0..expected).collect::<Vec<_>>());
            assert_eq!(all.1.is_some(), more, "{limit}");
        }
    }
}
