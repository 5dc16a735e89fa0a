//! How many event streams may be open: in all, and for one caller.

use std::sync::Arc;

use switchboard_core::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Failure;
use super::seats::{Place, Places};
use crate::auth::Principal;

/// Streams that may be open at a time.
const STREAMS_MAX: usize = 512;

pub struct Streams {
    free: Arc<Semaphore>,
    by_caller: Places<Principal>,
}

/// One stream; dropping it makes room for another.
pub struct OpenStream {
    _permit: OwnedSemaphorePermit,
    _place: Option<Place<Principal>>,
}

impl Default for Streams {
    fn default() -> Self {
        Streams {
            free: Arc::new(Semaphore::new(STREAMS_MAX)),
            by_caller: Places(Arc::default()),
        }
    }
}

impl Streams {
    /// For a caller; absent where nobody can tell callers apart.
    pub fn take(&self, caller: Option<Principal>) -> Result<OpenStream, Failure> {
        let permit = Arc::clone(&self.free).try_acquire_owned();
        let permit = permit.map_err(|_| Failure::TooManyStreams)?;
        let most = limits::EVENT_STREAMS_PER_CALLER_MAX;
        let place = caller.map(|caller| {
            let place = self.by_caller.take(caller, most);
            place.ok_or(Failure::TooManyOfYours)
        });
        Ok(OpenStream {
            _permit: permit,
            _place: place.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = limits::EVENT_STREAMS_PER_CALLER_MAX;

    #[test]
    fn a_caller_has_so_many_seats_and_others_have_theirs() {
        let streams = Streams::default();
        let take = |caller: &str| streams.take(Some(Principal::Agent(caller.into())));
        let mut held: Vec<OpenStream> = (1..MAX).map(|_| take("a").unwrap()).collect();
        held.push(take("a").unwrap());
        assert!(matches!(take("a"), Err(Failure::TooManyOfYours)));
        let other = take("b").unwrap();
        held.pop();
        held.push(take("a").unwrap());
        assert!(take("a").is_err());
        drop((held, other));
        assert_eq!(streams.free.available_permits(), STREAMS_MAX);
        let again: Vec<OpenStream> = (0..MAX).map(|_| take("a").unwrap()).collect();
        assert_eq!(again.len(), MAX);
    }

    #[test]
    fn there_are_so_many_seats_in_all() {
        let streams = Streams::default();
        let held: Vec<OpenStream> = (0..STREAMS_MAX)
            .map(|_| streams.take(None).unwrap())
            .collect();
        assert!(matches!(streams.take(None), Err(Failure::TooManyStreams)));
        drop(held);
        assert!(streams.take(None).is_ok());
    }
}
