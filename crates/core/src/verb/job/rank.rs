//! The place of a job in the queue, as people count: 0 is the front, below 0 the end.

use super::turn::Turn;
use crate::job::{Job, JobGroup, JobShelf};
use crate::limits;
use crate::record::RecordRange;
use crate::slice::Slice;
use crate::want::Want;

pub(super) fn ask(want: &mut Want<'_>, place: i64) {
    want.private::<JobShelf>("");
    want.privates::<Job>(&before(place));
}

/// The jobs up to the one whose place is asked for, and one for the job itself.
fn before(place: i64) -> RecordRange {
    let place = usize::try_from(place)
        .unwrap_or(0)
        .min(limits::JOB_RANK_MAX);
    Job::in_group(JobGroup::Ready, place + 2)
}

/// Gives the job its rank among those that wait for a run.
pub(super) fn put(slice: &Slice, turn: &mut Turn<'_>, place: i64) {
    let mut want = Want::new(slice);
    let mut shelf = want.private::<JobShelf>("").cloned().unwrap_or_default();
    let mut others = want.privates::<Job>(&before(place));
    others.retain(|job| job.id != turn.job.id);
    let place = usize::try_from(place).ok();
    let place = place.filter(|place| *place <= limits::JOB_RANK_MAX);
    turn.job.rank = match place {
        Some(0) => shelf.give_first(),
        Some(place) => match (others.get(place - 1), others.get(place)) {
            (Some(before), Some(after)) => i64::midpoint(before.rank, after.rank),
            (Some(_) | None, Some(_) | None) => shelf.give_last(),
        },
        None => shelf.give_last(),
    };
    turn.changes.put(shelf);
}
