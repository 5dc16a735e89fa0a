//! A call's body: read whole, in memory that grows as it arrives.
//!
//! Whoever shows a token is known by then. All others share one room until they are, so that strangers cannot fill the
//! memory however many they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use switchboard_core::limits;

use super::error::Failure;
use crate::call;

/// A body that takes longer than this is given up.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// What the bodies of callers that are not yet known may take together.
#[derive(Debug)]
pub struct Room {
    taken: AtomicUsize,
    bytes_max: usize,
}

impl Default for Room {
    fn default() -> Self {
        Room {
            taken: AtomicUsize::new(0),
            bytes_max: limits::UNKNOWN_BODIES_BYTES_MAX,
        }
    }
}

impl Room {
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> Result<(), Failure> {
        let more = |taken: usize| {
            let taken = taken + bytes;
            (taken <= self.bytes_max).then_some(taken)
        };
        let took = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        took.map(drop).map_err(|_| Failure::NoRoom)
    }
}

/// What one body takes of the room: given back once its caller is known, or with the call.
#[derive(Debug, Default)]
pub struct Share {
    /// Absent for a caller that is known from the start.
    room: Option<Arc<Room>>,
    bytes: AtomicUsize,
}

impl Share {
    pub fn of(room: Option<Arc<Room>>) -> Self {
        Share {
            room,
            bytes: AtomicUsize::new(0),
        }
    }

    pub fn give_back(&self) {
        if let Some(room) = &self.room {
            let bytes = self.bytes.swap(0, Ordering::Relaxed);
            room.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Makes room for `more` bytes behind those that are there, and for no more than will come.
    fn grow(&self, body: &mut Vec<u8>, more: usize, told: usize) -> Result<(), Failure> {
        let needed = body.len() + more;
        if needed <= body.capacity() {
            return Ok(());
        }
        let size = needed.max((2 * body.capacity()).min(told));
        if let Some(room) = &self.room {
            let bytes = size - body.capacity();
            room.take(bytes)?;
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        body.reserve_exact(size - body.len());
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The whole body; one that says it is too large is refused before it is read.
pub async fn read(headers: &HeaderMap, body: Body, share: &Share) -> Result<Bytes, Failure> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let told = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let told = told.unwrap_or(limits::BODY_BYTES_MAX);
    if told > limits::BODY_BYTES_MAX {
        return Err(call::Failure::TooLarge.into());
    }
    match tokio::time::timeout(BODY_WITHIN, collect(body, told, share)).await {
        Ok(read) => read,
        Err(_) => Err(Failure::BodyCut),
    }
}

async fn collect(mut body: Body, told: usize, share: &Share) -> Result<Bytes, Failure> {
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Failure::BodyCut)?.into_data() else {
            continue;
        };
        if all.len() + data.len() > limits::BODY_BYTES_MAX {
            return Err(call::Failure::TooLarge.into());
        }
        // Nearly every body comes in one piece, need not be copied, and waits for nobody.
        if all.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        share.grow(&mut all, data.len(), told)?;
        all.extend_from_slice(&data);
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: usize) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_LENGTH, bytes.into())])
    }

    fn pieces(body: &[u8], size: usize) -> Body {
        let pieces: Vec<Result<Bytes, std::io::Error>> = body
            .chunks(size)
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        Body::from_stream(futures_util::stream::iter(pieces))
    }

    async fn of_nobody(headers: &HeaderMap, body: Body) -> Result<Bytes, Failure> {
        read(headers, body, &Share::default()).await
    }

    #[tokio::test]
    async fn a_body_of_the_limit_is_read_and_one_byte_more_is_not() {
        for (bytes, fits) in [
            (limits::BODY_BYTES_MAX - 1, true),
            (limits::BODY_BYTES_MAX, true),
            (limits::BODY_BYTES_MAX + 1, false),
        ] {
            let body = vec![b' '; bytes];
            // In one piece, announced; and in pieces that nobody announced.
            let whole = of_nobody(&told(bytes), Body::from(body.clone())).await;
            assert_eq!(whole.is_ok(), fits, "{bytes}");
            let read = of_nobody(&HeaderMap::new(), pieces(&body, 100_000)).await;
            assert_eq!(
                read.map(|read| read.len()).ok(),
                fits.then_some(bytes),
                "{bytes}"
            );
        }
    }

    #[tokio::test]
    async fn an_announced_body_is_refused_before_it_is_read() {
        let unread = Body::from_stream(futures_util::stream::poll_fn(
            |_| -> std::task::Poll<Option<std::io::Result<Bytes>>> {
                panic!("the body was read");
            },
        ));
        assert!(matches!(
            of_nobody(&told(limits::BODY_BYTES_MAX + 1), unread).await,
            Err(Failure::Call(call::Failure::TooLarge))
        ));
    }

    #[tokio::test]
    async fn what_strangers_send_fits_the_room_or_is_refused() {
        for (bytes_max, fits) in [(999, false), (1000, true), (1001, true)] {
            let room = Arc::new(Room {
                bytes_max,
                ..Room::default()
            });
            let share = Share::of(Some(Arc::clone(&room)));
            let body = read(&told(1000), pieces(&[b' '; 1000], 10), &share).await;
            assert_eq!(body.is_ok(), fits, "{bytes_max}");
            assert_eq!(room.taken() == 1000, fits, "{bytes_max}: {}", room.taken());
            drop(share);
            assert_eq!(room.taken(), 0, "{bytes_max}");
        }
    }

    #[tokio::test]
    async fn a_share_grows_with_what_arrived_and_is_given_back_once() {
        let room = Arc::new(Room::default());
        let share = Share::of(Some(Arc::clone(&room)));
        let mut body = Vec::new();
        for (sent, taken) in [(10, 10), (5, 20), (5, 20), (1, 25), (4, 25)] {
            share.grow(&mut body, sent, 25).unwrap();
            body.resize(body.len() + sent, b' ');
            assert_eq!((room.taken(), body.capacity()), (taken, taken));
        }
        share.give_back();
        share.give_back();
        drop(share);
        assert_eq!(room.taken(), 0);
        let whole = Share::of(Some(Arc::clone(&room)));
        read(&told(9), Body::from("one piece"), &whole)
            .await
            .unwrap();
        assert_eq!(room.taken(), 0, "what waits for nobody is not counted");
    }
}
