//! Pages of lists.

use switchboard_core::limits;
use switchboard_store::Page;
use switchboard_wire::Malformed;
use switchboard_wire::jetpack::from_wire;

/// The page that a query asks for.
pub fn page(limit: Option<u32>, after: Option<String>) -> Result<Page, Malformed> {
    Ok(Page {
        after,
        limit: from_wire::page_size(limit)?,
    })
}

/// The largest first page: all of what is few.
pub fn all() -> Page {
    Page {
        after: None,
        limit: limits::PAGE_MAX,
    }
}
