//! The known lanes, ordered as a claim walks them, each with the first of its waiting tasks.

use std::collections::{BTreeSet, VecDeque};

use super::Map;
use crate::id::TaskId;
use crate::lane::{Lane, LaneId, LaneKey, Position, Rep};
use crate::limits;
use crate::task::{Task, TaskStatus};

#[derive(Debug, Default)]
pub struct LaneBook {
    lanes: Map<LaneId, Option<Lane>>,
    keys: Map<LaneKey, Option<LaneId>>,
    reps: Map<Rep, RepView>,
    lanes_under: Map<Rep, u64>,
    queues: Map<LaneId, QueueView>,
    dirty: BTreeSet<LaneId>,
    dirty_reps: BTreeSet<Rep>,
}

#[derive(Debug, Default)]
struct RepView {
    ready: BTreeSet<Position>,
    /// Every lane of this rep that stands before this is known. `None`: nothing was loaded yet.
    known_to: Option<Reach>,
    held: Option<BTreeSet<LaneId>>,
}

/// How far a range has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Upto(Position),
    End,
}

/// The first waiting tasks of a lane.
#[derive(Debug, Default)]
pub struct QueueView {
    waiting: VecDeque<(u64, TaskId)>,
    /// Every waiting task with a smaller number is known; `None` once all are.
    known_to: Option<u64>,
}

/// Lanes kept between batches; past it all of them are dropped.
const LANES_KEPT: usize = 16_384;
/// Waiting tasks kept per lane.
const QUEUE_KEPT: usize = 4 * limits::QUEUE_PER_LOAD;

impl LaneBook {
    pub fn known(&self, id: LaneId) -> Option<Option<&Lane>> {
        self.lanes.get(&id).map(Option::as_ref)
    }

    pub fn get(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.get(&id).and_then(Option::as_ref)
    }

    pub fn by_key(&self, key: &LaneKey) -> Option<Option<&Lane>> {
        self.keys.get(key).map(|id| id.and_then(|id| self.get(id)))
    }

    pub fn lanes_under(&self, rep: &Rep) -> Option<u64> {
        self.lanes_under.get(rep).copied()
    }

    /// The known lanes of a rep with waiting tasks, in the order of a claim.
    pub fn ready_under(&self, rep: &Rep) -> impl Iterator<Item = &Lane> {
        let view = self.reps.get(rep);
        view.into_iter()
            .flat_map(|view| &view.ready)
            .filter_map(|at| self.get(at.lane))
    }

    /// Where unknown lanes of this rep begin: `Some(None)` if none was read yet, `None` if all are known.
    pub fn unknown_from(&self, rep: &Rep) -> Option<Option<Position>> {
        match self.reps.get(rep).and_then(|view| view.known_to) {
            None => Some(None),
            Some(Reach::Upto(position)) => Some(Some(position)),
            Some(Reach::End) => None,
        }
    }

    pub fn held_under(&self, rep: &Rep) -> Option<impl Iterator<Item = &Lane>> {
        let held = self.reps.get(rep)?.held.as_ref()?;
        Some(held.iter().filter_map(|id| self.get(*id)))
    }

    pub fn queue(&self, lane: LaneId) -> Option<&QueueView> {
        self.queues.get(&lane)
    }

    // What must be saved.

    pub(super) fn is_saved(&self) -> bool {
        self.dirty.is_empty() && self.dirty_reps.is_empty()
    }

    pub(super) fn mark_saved(&mut self) {
        self.dirty.clear();
        self.dirty_reps.clear();
    }

    pub(super) fn changed(&self) -> impl Iterator<Item = &Lane> {
        self.dirty.iter().filter_map(|id| self.get(*id))
    }

    pub(super) fn changed_reps(&self) -> impl Iterator<Item = (&Rep, u64)> {
        let reps = self.dirty_reps.iter();
        reps.map(|rep| (rep, self.lanes_under(rep).unwrap_or(0)))
    }

    /// Closes the lanes that became empty, and tells which.
    pub(super) fn close_empty(&mut self) -> Vec<LaneId> {
        let changed = self.changed();
        let empty: Vec<LaneId> = changed
            .filter(|lane| lane.is_empty())
            .map(|lane| lane.id)
            .collect();
        for id in &empty {
            self.close(*id);
        }
        empty
    }

    // What an engine fills in.

    pub fn put(&mut self, lane: Lane) {
        if self.lanes.contains_key(&lane.id) {
            return;
        }
        self.keys.insert(lane.key.clone(), Some(lane.id));
        self.file(&lane);
        self.lanes.insert(lane.id, Some(lane));
    }

    pub fn put_absent_id(&mut self, id: LaneId) {
        self.lanes.entry(id).or_insert(None);
    }

    pub fn put_absent(&mut self, key: &LaneKey) {
        self.keys.entry(key.clone()).or_insert(None);
    }

    pub fn put_lanes_under(&mut self, rep: &Rep, count: u64) {
        self.lanes_under.entry(rep.clone()).or_insert(count);
    }

    /// The lanes of a rep that follow those known so far; fewer than [`limits::LANES_PER_LOAD`] is the end.
    pub fn put_ready(&mut self, rep: &Rep, page: Vec<Lane>) {
        let reach = match page.last() {
            Some(last) if page.len() >= limits::LANES_PER_LOAD => {
                let at = last.position();
                Reach::Upto(Position {
                    lane: LaneId(at.lane.0 + 1),
                    ..at
                })
            }
            _ => Reach::End,
        };
        for lane in page {
            self.put(lane);
        }
        self.reps.entry(rep.clone()).or_default().known_to = Some(reach);
    }

    pub fn put_held(&mut self, rep: &Rep, lanes: Vec<Lane>) {
        let ids: BTreeSet<LaneId> = lanes.iter().map(|lane| lane.id).collect();
        for lane in lanes {
            self.put(lane);
        }
        self.reps.entry(rep.clone()).or_default().held = Some(ids);
    }

    /// Waiting tasks of a lane from `from` on; fewer than `size` is the end.
    pub fn put_queue(&mut self, lane: LaneId, from: u64, page: Vec<(u64, TaskId)>, size: usize) {
        let view = self.queues.entry(lane).or_insert_with(|| QueueView {
            known_to: Some(0),
            ..QueueView::default()
        });
        if view.known_to != Some(from) {
            return;
        }
        let full = page.len() >= size;
        view.known_to = page.last().filter(|_| full).map(|(number, _)| number + 1);
        view.waiting.extend(page);
    }

    // What a change of a task does to its lanes.

    /// Files a task by its state; `was` is the row before, if there was one. Returns the lane it counts in.
    pub(super) fn moved(
        &mut self,
        was: Option<&Task>,
        task: &Task,
        next_lane: &mut u64,
    ) -> Option<LaneId> {
        let before = was.and_then(|was| Some((was.lane?, standing(was)?)));
        let Some(now) = standing(task) else {
            if let Some((lane, standing)) = before {
                self.leave(lane, standing, task.number);
            }
            return task.lane;
        };
        let same =
            before.filter(|(lane, _)| self.get(*lane).is_some_and(|lane| lane.key.matches(task)));
        let lane = match same {
            Some((lane, _)) => lane,
            None => self.lane_for(LaneKey::of(task), next_lane),
        };
        if before == Some((lane, now)) {
            return Some(lane);
        }
        if let Some((lane, standing)) = before {
            self.leave(lane, standing, task.number);
        }
        self.enter(lane, now, task);
        Some(lane)
    }

    fn lane_for(&mut self, key: LaneKey, next_lane: &mut u64) -> LaneId {
        let found = *self
            .keys
            .get(&key)
            .expect("a verb asks for the lane of every task it moves");
        if let Some(id) = found {
            return id;
        }
        *next_lane += 1;
        let id = LaneId(*next_lane);
        let rep = key.rep(|skill| self.lanes_under(&Rep(skill.into())).unwrap_or(0));
        *self.lanes_under.entry(rep.clone()).or_default() += 1;
        self.dirty_reps.insert(rep.clone());
        self.keys.insert(key.clone(), Some(id));
        self.queues.insert(id, QueueView::default());
        self.lanes.insert(
            id,
            Some(Lane {
                id,
                key,
                rep,
                ready: 0,
                held: 0,
                head: u64::MAX >> 1,
            }),
        );
        id
    }

    fn enter(&mut self, id: LaneId, standing: Standing, task: &Task) {
        self.change(id, |lane, queues| match standing {
            Standing::Held => lane.held += 1,
            Standing::Waits => {
                lane.head = if lane.ready == 0 {
                    task.number
                } else {
                    lane.head.min(task.number)
                };
                lane.ready += 1;
                if let Some(view) = queues.get_mut(&id) {
                    view.insert(task.number, &task.id);
                }
            }
        });
    }

    fn leave(&mut self, id: LaneId, standing: Standing, number: u64) {
        self.change(id, |lane, queues| match standing {
            Standing::Held => lane.held = lane.held.saturating_sub(1),
            Standing::Waits => {
                lane.ready = lane.ready.saturating_sub(1);
                let view = queues.get_mut(&id);
                let next = view.and_then(|view| view.remove(number));
                if lane.head == number {
                    lane.head = next.unwrap_or(number + 1);
                }
            }
        });
    }

    fn change(&mut self, id: LaneId, change: impl FnOnce(&mut Lane, &mut Map<LaneId, QueueView>)) {
        let Some(Some(mut lane)) = self.lanes.remove(&id) else {
            unreachable!("a verb asks for the lane of every task it moves");
        };
        let before = (lane.ready > 0).then(|| lane.position());
        change(&mut lane, &mut self.queues);
        let after = (lane.ready > 0).then(|| lane.position());
        if before != after
            && let Some(view) = self.reps.get_mut(&lane.rep)
        {
            before.map(|at| view.ready.remove(&at));
            after.map(|at| view.ready.insert(at));
        }
        self.file(&lane);
        self.dirty.insert(id);
        self.lanes.insert(id, Some(lane));
    }

    fn file(&mut self, lane: &Lane) {
        let view = match self.reps.get_mut(&lane.rep) {
            Some(view) => view,
            None => self.reps.entry(lane.rep.clone()).or_default(),
        };
        if lane.ready > 0 {
            view.ready.insert(lane.position());
        }
        if let Some(held) = &mut view.held {
            if lane.held > 0 {
                held.insert(lane.id);
            } else {
                held.remove(&lane.id);
            }
        }
    }

    /// Takes a lane that nothing counts in any more out of the book.
    fn close(&mut self, id: LaneId) {
        let Some(Some(lane)) = self.lanes.remove(&id) else {
            return;
        };
        self.keys.insert(lane.key, None);
        self.queues.remove(&id);
        self.lanes.insert(id, None);
        let count = self
            .lanes_under
            .get_mut(&lane.rep)
            .expect("a verb asks how crowded the word of a lane is before it leaves the lane");
        *count = count.saturating_sub(1);
        self.dirty_reps.insert(lane.rep);
    }

    pub(super) fn trim(&mut self) {
        if self.lanes.len() > LANES_KEPT
            || self.keys.len() > LANES_KEPT
            || self.reps.len() > LANES_KEPT
        {
            *self = LaneBook::default();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Waits,
    Held,
}

fn standing(task: &Task) -> Option<Standing> {
    match task.status() {
        TaskStatus::Ready => Some(Standing::Waits),
        TaskStatus::Claimed | TaskStatus::InProgress => Some(Standing::Held),
        TaskStatus::Waiting
        | TaskStatus::RetryWait
        | TaskStatus::NeedsPerson
        | TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Canceled => None,
    }
}

impl QueueView {
    pub fn waiting(&self) -> impl Iterator<Item = &(u64, TaskId)> {
        self.waiting.iter()
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Where unknown tasks of the lane begin; `None` if all are known.
    pub fn unknown_from(&self) -> Option<u64> {
        self.known_to
    }

    fn insert(&mut self, number: u64, task: &TaskId) {
        if self.known_to.is_some_and(|known_to| number >= known_to) {
            return;
        }
        let at = self.waiting.partition_point(|(other, _)| *other < number);
        self.waiting.insert(at, (number, task.clone()));
        if self.waiting.len() > QUEUE_KEPT {
            let dropped = self.waiting.drain(QUEUE_KEPT / 2..).next();
            self.known_to = dropped.map(|(number, _)| number);
        }
    }

    /// Removes a task; returns a number below which nothing waits any more, if it is known.
    fn remove(&mut self, number: u64) -> Option<u64> {
        let at = self.waiting.partition_point(|(other, _)| *other < number);
        if self
            .waiting
            .get(at)
            .is_some_and(|(other, _)| *other == number)
        {
            self.waiting.remove(at);
        }
        self.waiting
            .front()
            .map(|(number, _)| *number)
            .or(self.known_to)
    }
}
