//! How many event streams may be open: in all, and for one caller.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::limits;

use super::error::Failure;
use crate::auth::Principal;

/// Streams that may be open at a time.
const STREAMS_MAX: usize = 512;

#[derive(Default)]
pub struct Streams {
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_caller: HashMap<Principal, usize>,
}

/// One stream; dropping it makes room for another.
pub struct OpenStream {
    streams: Arc<Streams>,
    caller: Option<Principal>,
}

impl Streams {
    /// For a caller; absent where nobody can tell callers apart.
    pub fn take(self: &Arc<Self>, caller: Option<Principal>) -> Result<OpenStream, Failure> {
        let mut taken = self.taken.lock();
        if taken.all >= STREAMS_MAX {
            return Err(Failure::TooManyStreams);
        }
        if let Some(caller) = &caller {
            let own = taken.by_caller.get(caller).copied().unwrap_or(0);
            if own >= limits::EVENT_STREAMS_PER_CALLER_MAX {
                return Err(Failure::TooManyOfYours);
            }
            taken.by_caller.insert(caller.clone(), own + 1);
        }
        taken.all += 1;
        Ok(OpenStream {
            streams: Arc::clone(self),
            caller,
        })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut taken = self.streams.taken.lock();
        taken.all -= 1;
        let Some(caller) = &self.caller else { return };
        match taken.by_caller.get_mut(caller) {
            Some(own) if *own > 1 => *own -= 1,
            Some(_) | None => drop(taken.by_caller.remove(caller)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = limits::EVENT_STREAMS_PER_CALLER_MAX;

    #[test]
    fn a_caller_has_so_many_seats_and_others_have_theirs() {
        let streams = Arc::new(Streams::default());
        let take = |caller: &str| streams.take(Some(Principal::Agent(caller.into())));
        let mut held: Vec<OpenStream> = (1..MAX).map(|_| take("a").unwrap()).collect();
        held.push(take("a").unwrap());
        assert!(matches!(take("a"), Err(Failure::TooManyOfYours)));
        let other = take("b").unwrap();
        held.pop();
        held.push(take("a").unwrap());
        assert!(take("a").is_err());
        drop((held, other));
        let taken = streams.taken.lock();
        assert_eq!((taken.all, taken.by_caller.len()), (0, 0));
    }

    #[test]
    fn there_are_so_many_seats_in_all() {
        let streams = Arc::new(Streams::default());
        let held: Vec<OpenStream> = (0..STREAMS_MAX)
            .map(|_| streams.take(None).unwrap())
            .collect();
        assert!(matches!(streams.take(None), Err(Failure::TooManyStreams)));
        drop(held);
        assert!(streams.take(None).is_ok());
    }
}
