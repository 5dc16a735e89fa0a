//! Query strings.

use std::fmt::Debug;

use switchboard_wire::Query;
use switchboard_wire::jetpack::{
    AgentQuery, CheckLeaseQuery, EventQuery, LeaseQuery, MemoryQuery, MessageQuery, ProofQuery,
    SnapshotQuery, TaskQuery, WaitQuery, WhyQuery, from_wire,
};

use crate::bodies::told;

pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    again::<AgentQuery>(&text);
    again::<CheckLeaseQuery>(&text);
    again::<EventQuery>(&text);
    again::<LeaseQuery>(&text);
    again::<MemoryQuery>(&text);
    again::<SnapshotQuery>(&text);
    again::<TaskQuery>(&text);
    again::<WaitQuery>(&text);
    again::<WhyQuery>(&text);
    if let Some(query) = again::<MessageQuery>(&text)
        && let Err(malformed) = from_wire::receive_query(query).and_then(from_wire::receive)
    {
        assert!(malformed.field.is_some(), "{malformed}");
    }
    if let Some(query) = again::<ProofQuery>(&text)
        && let Ok(nonce) = from_wire::proof_nonce(query)
    {
        assert!(nonce.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!((32..=128).contains(&nonce.len()));
    }
}

/// What is accepted prints and reads back the same.
fn again<Q: Query + Debug + PartialEq>(text: &str) -> Option<Q> {
    match Q::from_query(text) {
        Ok(query) => {
            let printed = query.to_query();
            let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"');
            assert!(printed.bytes().all(plain), "{printed}");
            assert_eq!(Q::from_query(&printed).as_ref(), Ok(&query));
            Some(query)
        }
        Err(malformed) => {
            told(text.as_bytes(), &malformed);
            None
        }
    }
}
