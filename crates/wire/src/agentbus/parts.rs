//! Messages that fit no line, cut into parts that do, and put together again.
//!
//! Parts are counted from 1 and sent in order on one connection. Lists are spread over the parts, texts are cut between
//! letters; what a message says once stands in every part or in the first.

use serde::Serialize;

use super::message::{
    AgentMessage, CatalogDelta, CatalogSnapshot, EngramContent, ProjectStateSnapshot, Queue,
    TaskAssigned,
};
use crate::Json;

/// Parts of one message; a client keeps no more.
pub const PARTS_MAX: u32 = 1024;

/// A message that may come in parts.
pub trait InParts: Sized {
    /// The number of a message in one piece; 0 where it is then not printed.
    const WHOLE: u32 = 1;

    /// Cuts it so that each payload has at most `room` bytes ([`super::envelope::room`]).
    ///
    /// What cannot be cut further, such as one entry of a list, has a part of its own even if that is too large.
    fn cut(self, room: usize) -> Vec<Self>;

    /// Which message it is a part of.
    fn key(&self) -> String;

    /// This part, and how many there are.
    fn place(&mut self) -> (&mut u32, &mut u32);

    /// Puts the next part behind this one; called in order.
    fn append(&mut self, next: Self);

    /// After the last part: in one piece again.
    fn complete(mut self) -> Option<Self> {
        // What says that there is nothing has no parts.
        if *self.place().1 > 0 {
            number(&mut self, Self::WHOLE, 1);
        }
        Some(self)
    }
}

fn number<T: InParts>(message: &mut T, part: u32, parts: u32) {
    let place = message.place();
    (*place.0, *place.1) = (part, parts);
}

/// For serde: the part of a message in one piece.
pub(super) fn only() -> u32 {
    1
}

/// For serde: not worth printing.
pub(super) fn is_only(value: &u32) -> bool {
    *value == 1
}

/// Collects the parts of one kind of message.
#[derive(Clone, Debug)]
pub struct Gather<T> {
    /// With the number of its last part, and of all.
    begun: Option<(T, u32, u32)>,
}

impl<T> Default for Gather<T> {
    fn default() -> Self {
        Self { begun: None }
    }
}

impl<T: InParts> Gather<T> {
    /// Takes a part; the last one gives the whole. A part out of its order ends what was begun.
    pub fn add(&mut self, mut part: T) -> Option<T> {
        let (number, parts) = ((*part.place().0).max(1), *part.place().1);
        let begun = self.begun.take();
        if parts > PARTS_MAX {
            return None;
        }
        let whole = match (number, begun) {
            (1, _) => part,
            (_, Some((mut whole, last, of)))
                if last.checked_add(1) == Some(number)
                    && of == parts
                    && whole.key() == part.key() =>
            {
                whole.append(part);
                whole
            }
            (_, Some(_) | None) => return None,
        };
        if number >= parts {
            return whole.complete();
        }
        self.begun = Some((whole, number, parts));
        None
    }
}

impl InParts for ProjectStateSnapshot {
    fn cut(mut self, room: usize) -> Vec<Self> {
        let workers = std::mem::take(&mut self.workers);
        let eligible = std::mem::take(&mut self.queue.eligible_issue_numbers);
        let claimed = std::mem::take(&mut self.queue.claimed_issue_numbers);
        let mut packer = Packer::new(self, room);
        (packer.blank.release, packer.blank.director) = (None, None);
        packer.next_room = room.saturating_sub(printed_len(&packer.blank));
        for worker in workers {
            let len = printed_len(&worker);
            packer.part_for(len).workers.push(worker);
        }
        for number in eligible {
            let queue = &mut packer.part_for(printed_len(&number)).queue;
            queue.eligible_issue_numbers.push(number);
        }
        for number in claimed {
            let queue = &mut packer.part_for(printed_len(&number)).queue;
            queue.claimed_issue_numbers.push(number);
        }
        packer.finish()
    }

    fn key(&self) -> String {
        self.snapshot_id.clone()
    }

    fn place(&mut self) -> (&mut u32, &mut u32) {
        (&mut self.part, &mut self.parts)
    }

    fn append(&mut self, next: Self) {
        self.workers.extend(next.workers);
        let Queue {
            eligible_issue_numbers,
            claimed_issue_numbers,
            eligible_total: _,
            claimed_total: _,
        } = next.queue;
        let queue = &mut self.queue;
        queue.eligible_issue_numbers.extend(eligible_issue_numbers);
        queue.claimed_issue_numbers.extend(claimed_issue_numbers);
    }
}

impl InParts for CatalogSnapshot {
    fn cut(mut self, room: usize) -> Vec<Self> {
        let entries = std::mem::take(&mut self.entries);
        let mut packer = Packer::new(self, room);
        for entry in entries {
            let len = printed_len(&entry);
            packer.part_for(len).entries.push(entry);
        }
        packer.finish()
    }

    fn key(&self) -> String {
        format!("{} {}", self.snapshot_id, self.catalog_hash)
    }

    fn place(&mut self) -> (&mut u32, &mut u32) {
        (&mut self.part, &mut self.parts)
    }

    fn append(&mut self, next: Self) {
        self.entries.extend(next.entries);
    }
}

impl InParts for CatalogDelta {
    fn cut(mut self, room: usize) -> Vec<Self> {
        let added = std::mem::take(&mut self.added);
        let removed = std::mem::take(&mut self.removed);
        let mut packer = Packer::new(self, room);
        for entry in added {
            let len = printed_len(&entry);
            packer.part_for(len).added.push(entry);
        }
        for id in removed {
            let len = printed_len(&id);
            packer.part_for(len).removed.push(id);
        }
        packer.finish()
    }

    fn key(&self) -> String {
        format!("{} {}", self.from_hash, self.to_hash)
    }

    fn place(&mut self) -> (&mut u32, &mut u32) {
        (&mut self.part, &mut self.parts)
    }

    fn append(&mut self, next: Self) {
        self.added.extend(next.added);
        self.removed.extend(next.removed);
    }
}

impl InParts for EngramContent {
    fn cut(mut self, room: usize) -> Vec<Self> {
        if self.is_missing() {
            return vec![self];
        }
        let content = std::mem::take(&mut self.content);
        let mut packer = Packer::new(self, room);
        for piece in pieces(&content, packer.room) {
            packer.part_for(escaped_len(piece)).content.push_str(piece);
        }
        packer.finish()
    }

    fn key(&self) -> String {
        self.engram_id.clone()
    }

    fn place(&mut self) -> (&mut u32, &mut u32) {
        (&mut self.part, &mut self.parts)
    }

    fn append(&mut self, next: Self) {
        self.content.push_str(&next.content);
    }
}

impl InParts for TaskAssigned {
    const WHOLE: u32 = 0;

    fn cut(mut self, room: usize) -> Vec<Self> {
        if printed_len(&self) <= room {
            return vec![self];
        }
        let description = std::mem::take(&mut self.description);
        let files = std::mem::take(&mut self.files);
        let mut packer = Packer::new(self, room);
        for piece in pieces(&description, packer.room) {
            let part = packer.part_for(escaped_len(piece));
            part.description.push_str(piece);
        }
        for file in files {
            let len = printed_len(&file);
            packer.part_for(len).files.push(file);
        }
        packer.finish()
    }

    fn key(&self) -> String {
        format!("{} {}", self.task_id, self.epoch)
    }

    fn place(&mut self) -> (&mut u32, &mut u32) {
        (&mut self.part, &mut self.parts)
    }

    fn append(&mut self, next: Self) {
        self.description.push_str(&next.description);
        self.files.extend(next.files);
    }
}

impl InParts for AgentMessage {
    const WHOLE: u32 = 0;

    fn cut(mut self, room: usize) -> Vec<Self> {
        if printed_len(&self) <= room {
            return vec![self];
        }
        let body = std::mem::take(&mut self.body);
        self.body = text_json("");
        let mut packer = Packer::new(self, room);
        for piece in pieces(body.get(), packer.room) {
            packer.part_for(escaped_len(piece)).body = text_json(piece);
        }
        packer.finish()
    }

    fn key(&self) -> String {
        format!("{} {}", self.from, self.message_id)
    }

    fn place(&mut self) -> (&mut u32, &mut u32) {
        (&mut self.part, &mut self.parts)
    }

    fn append(&mut self, next: Self) {
        let text = |body: &Json| body.read::<String>().unwrap_or_default();
        self.body = text_json(&(text(&self.body) + &text(&next.body)));
    }

    /// The pieces together are the body again; pieces of something else are no message.
    fn complete(mut self) -> Option<Self> {
        if self.parts > 1 {
            self.body = Json::from_text(self.body.read::<String>().ok()?).ok()?;
            (self.part, self.parts) = (Self::WHOLE, 1);
        }
        Some(self)
    }
}

fn text_json(text: &str) -> Json {
    Json::of(text).expect("a string is always printable")
}

/// Fills parts one after the other.
struct Packer<T> {
    done: Vec<T>,
    now: T,
    used: usize,
    room: usize,
    next_room: usize,
    blank: T,
}

impl<T: InParts + Clone + Serialize> Packer<T> {
    /// Parts that begin like this one.
    fn new(mut first: T, room: usize) -> Self {
        number(&mut first, PARTS_MAX, PARTS_MAX);
        let room = room.saturating_sub(printed_len(&first));
        Self {
            done: Vec::new(),
            blank: first.clone(),
            now: first,
            used: 0,
            room,
            next_room: room,
        }
    }

    /// The part that the next item of this printed length belongs to.
    fn part_for(&mut self, len: usize) -> &mut T {
        // An item brings a comma along.
        let len = len + 1;
        if self.used > 0 && self.used + len > self.room {
            let full = std::mem::replace(&mut self.now, self.blank.clone());
            self.done.push(full);
            self.used = 0;
            self.room = self.next_room;
        }
        self.used += len;
        &mut self.now
    }

    fn finish(mut self) -> Vec<T> {
        self.done.push(self.now);
        let parts = u32::try_from(self.done.len()).unwrap_or(u32::MAX);
        for (part, message) in (1..).zip(&mut self.done) {
            number(message, part, parts);
        }
        self.done
    }
}

/// Printed length as JSON, without printing it.
fn printed_len<T: Serialize>(value: &T) -> usize {
    struct Count(usize);

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("messages print, and counting never fails");
    count.0
}

/// Pieces whose printed length, and the comma that is counted, fit the room.
fn pieces(text: &str, room: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut used = 1;
        let end = rest.char_indices().find_map(|(at, letter)| {
            used += escaped_char(letter);
            (used > room && at > 0).then_some(at)
        });
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(piece)
    })
}

fn escaped_len(text: &str) -> usize {
    text.chars().map(escaped_char).sum()
}

/// What a letter takes within a JSON string.
fn escaped_char(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\u{0}'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    }
}
