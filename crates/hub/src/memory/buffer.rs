//! What was noted and is in no engram yet: bounded, oldest first. A function of the log, so that it survives nothing.

use std::collections::VecDeque;

use super::noted::Noted;

#[derive(Debug)]
pub struct Buffer {
    records: VecDeque<Noted>,
    bytes: usize,
    bytes_max: usize,
}

impl Buffer {
    /// Never holds more than `bytes_max`, but always one record.
    pub fn new(bytes_max: usize) -> Buffer {
        Buffer {
            records: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Takes a record in, or gives it back if the oldest must go first.
    pub fn push(&mut self, noted: Noted) -> Option<Noted> {
        let bytes = noted.bytes();
        if !self.records.is_empty() && self.bytes + bytes > self.bytes_max {
            return Some(noted);
        }
        self.bytes += bytes;
        self.records.push_back(noted);
        None
    }

    /// The oldest records that make up about half of what is here; at least one, if there is one.
    pub fn older_half(&self) -> impl Iterator<Item = &Noted> {
        let (mut seen, half) = (0, self.bytes / 2);
        self.records.iter().take_while(move |noted| {
            let takes = seen <= half;
            seen += noted.bytes();
            takes
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Noted> {
        self.records.iter()
    }

    /// Lets go of everything up to an event's number.
    pub fn drop_upto(&mut self, seq: u64) {
        while let Some(oldest) = self.records.front()
            && oldest.seq <= seq
        {
            self.bytes -= oldest.bytes();
            self.records.pop_front();
        }
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::noted;
    use super::*;

    #[test]
    fn the_buffer_is_full_at_its_bound_and_takes_more_only_after_the_oldest_went() {
        // agentbus.memory_event.bounded_buffer
        let one = noted(1, "x").bytes();
        for (bound, fits) in [(2 * one - 1, 1), (2 * one, 2), (2 * one + 1, 2)] {
            let mut buffer = Buffer::new(bound);
            let taken = (1..=5).take_while(|seq| buffer.push(noted(*seq, "x")).is_none());
            assert_eq!(taken.count(), fits, "{bound}");
            assert!(buffer.bytes() <= bound);
            buffer.drop_upto(1);
            assert_eq!((buffer.len(), buffer.bytes()), (fits - 1, (fits - 1) * one));
            assert_eq!(buffer.push(noted(9, "x")), None);
            buffer.drop_upto(9);
            assert_eq!((buffer.len(), buffer.bytes()), (0, 0));
        }
    }

    #[test]
    fn a_record_larger_than_the_buffer_is_taken_alone() {
        let mut buffer = Buffer::new(10);
        assert_eq!(buffer.push(noted(1, "x")), None);
        assert_eq!(buffer.push(noted(2, "x")), Some(noted(2, "x")));
        assert_eq!(buffer.older_half().count(), 1);
    }

    #[test]
    fn the_older_half_is_the_oldest_and_never_nothing() {
        for many in 1..20 {
            let mut buffer = Buffer::new(usize::MAX);
            (1..=many).for_each(|seq| assert_eq!(buffer.push(noted(seq, "x")), None));
            let half: Vec<u64> = buffer.older_half().map(|noted| noted.seq).collect();
            let expected: Vec<u64> = (1..=many / 2 + 1).take(many as usize).collect();
            assert_eq!(half, expected);
        }
    }
}
