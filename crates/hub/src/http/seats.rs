//! How many connections there may be: in all, and from one address.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use switchboard_core::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Open files that are not connections: the ledger's, those of readers, a margin.
const FILES_KEPT: usize = 128;

#[derive(Debug)]
pub struct Seats {
    free: Arc<Semaphore>,
    /// Those that are not counted are not here.
    by_address: Places<IpAddr>,
}

/// A connection's place, for as long as this is there.
#[derive(Debug)]
pub struct Seat {
    _permit: OwnedSemaphorePermit,
    counted: Option<Place<IpAddr>>,
}

impl Seats {
    pub fn new(connections_max: u32) -> Self {
        Seats {
            free: Arc::new(Semaphore::new(seats(connections_max, files_max()))),
            by_address: Places(Arc::default()),
        }
    }

    /// A place for the next connection, once there is one; until then it waits in the system's queue.
    pub async fn free(&self) -> std::io::Result<Seat> {
        let permit = Arc::clone(&self.free).acquire_owned().await;
        Ok(Seat {
            _permit: permit.map_err(std::io::Error::other)?,
            counted: None,
        })
    }

    /// Gives it to an address of which many may not come; `None` if it has its share already.
    pub fn give(&self, mut seat: Seat, address: IpAddr) -> Option<Seat> {
        let most = limits::CONNECTIONS_PER_ADDRESS_MAX;
        seat.counted = Some(self.by_address.take(network(address), most)?);
        Some(seat)
    }
}

/// So many places for each of those who come.
#[derive(Clone, Debug)]
pub struct Places<K>(pub Arc<Mutex<HashMap<K, usize>>>);

/// One of them; dropping it makes room for another.
#[derive(Debug)]
pub struct Place<K: Eq + Hash> {
    places: Places<K>,
    whose: K,
}

impl<K: Clone + Eq + Hash> Places<K> {
    /// `None` for who has so many.
    pub fn take(&self, whose: K, most: usize) -> Option<Place<K>> {
        let mut taken = self.0.lock();
        let own = taken.entry(whose.clone()).or_default();
        if *own >= most {
            return None;
        }
        *own += 1;
        Some(Place {
            places: self.clone(),
            whose,
        })
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock();
        if let Some(own) = taken.get_mut(&self.whose) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.whose);
            }
        }
    }
}

/// Who has one IPv6 address has the other 2^64 of its network, too.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let prefix = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(prefix.into())
        }
    }
}

/// As many connections as were asked for, or as the system lets this process have files for.
fn seats(connections_max: u32, files_max: Option<usize>) -> usize {
    let wanted = usize::try_from(connections_max).unwrap_or(usize::MAX);
    let room = files_max.map_or(usize::MAX, |files| files.saturating_sub(FILES_KEPT).max(1));
    if room < wanted {
        tracing::warn!(
            "the limit of open files is low: {room} connections are served instead of {wanted} (raise it with ulimit -n)"
        );
    }
    wanted.min(room).min(Semaphore::MAX_PERMITS)
}

fn files_max() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_places_than_files() {
        assert_eq!(seats(100, None), 100);
        assert_eq!(seats(100, Some(FILES_KEPT + 100)), 100);
        assert_eq!(seats(100, Some(FILES_KEPT + 99)), 99);
        assert_eq!(seats(100, Some(1)), 1);
        assert!(seats(u32::MAX, None) <= Semaphore::MAX_PERMITS);
    }

    #[tokio::test]
    async fn one_address_has_its_share_and_leaves_the_rest_to_others() {
        let seats = Seats::new(1000);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut held = Vec::new();
        for number in 1..=limits::CONNECTIONS_PER_ADDRESS_MAX + 1 {
            let seat = seats.give(seats.free().await.unwrap(), one);
            let fits = number <= limits::CONNECTIONS_PER_ADDRESS_MAX;
            assert_eq!(seat.is_some(), fits, "{number}");
            held.extend(seat);
        }
        assert!(seats.give(seats.free().await.unwrap(), other).is_some());
        let v6 = |text: &str| network(text.parse().unwrap());
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:1"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
        held.pop();
        held.extend(seats.give(seats.free().await.unwrap(), one));
        assert_eq!(held.len(), limits::CONNECTIONS_PER_ADDRESS_MAX);
        drop(held);
        assert!(seats.by_address.0.lock().is_empty());
        assert_eq!(seats.free.available_permits(), 1000);
    }
}
