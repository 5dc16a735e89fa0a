//! How often a caller may call: a generic cell rate per key, with a bound on how many keys are remembered.
//!
//! Counted per coordinator. Time comes in as an argument; nothing here knows who a caller is.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use switchboard_core::AgentId;

use crate::config::Limits;

/// Callers that are remembered at a time; past it, those nearest to a full allowance are forgotten.
pub const KEYS_MAX: usize = 65_536;

/// The kinds of calls that have an allowance of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Heartbeat,
    Claim,
    Publish,
    Other,
}

/// The allowances of all callers.
#[derive(Debug)]
pub struct RateLimits {
    on: bool,
    began: Instant,
    heartbeat: Rate,
    claim: Rate,
    publish: Rate,
    other: Rate,
    register: Rate,
    node_auth: Rate,
    agents: Mutex<Meters<(Class, AgentId)>>,
    addresses: Mutex<Meters<IpAddr>>,
    nodes: Mutex<Meters<IpAddr>>,
}

/// The allowance is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFast {
    pub retry_after: Duration,
    /// What was exceeded.
    pub limit: Limit,
}

/// So many of something in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub per_minute: u32,
    /// What is counted, and for whom.
    pub what: &'static str,
    /// Where it is set.
    pub setting: &'static str,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limit {
            per_minute,
            what,
            setting,
        } = self;
        write!(f, "at most {per_minute} {what} a minute (limits.{setting})")
    }
}

impl TooFast {
    /// For `Retry-After`: whole seconds, rounded up, so that whoever waits that long gets through.
    pub fn seconds(self) -> u64 {
        let whole = self.retry_after.as_secs();
        let rest = u64::from(self.retry_after.subsec_nanos() > 0);
        (whole + rest).max(1)
    }
}

impl RateLimits {
    pub fn new(limits: &Limits) -> Self {
        RateLimits {
            on: limits.enabled,
            began: Instant::now(),
            heartbeat: Rate::of(Limit {
                per_minute: limits.heartbeat_per_minute,
                what: "heartbeats of an agent",
                setting: "heartbeat_per_minute",
            }),
            claim: Rate::of(Limit {
                per_minute: limits.claim_per_minute,
                what: "claims of an agent",
                setting: "claim_per_minute",
            }),
            publish: Rate::of(Limit {
                per_minute: limits.publish_per_minute,
                what: "events of an agent for other nodes",
                setting: "publish_per_minute",
            }),
            other: Rate::of(Limit {
                per_minute: limits.other_per_minute,
                what: "other calls of an agent",
                setting: "other_per_minute",
            }),
            register: Rate::of(Limit {
                per_minute: limits.register_per_minute,
                what: "registrations from an address",
                setting: "register_per_minute",
            }),
            node_auth: Rate::of(Limit {
                per_minute: limits.node_auth_per_minute,
                what: "exchanges and tickets of nodes from an address",
                setting: "node_auth_per_minute",
            }),
            agents: Mutex::new(Meters::new(KEYS_MAX)),
            addresses: Mutex::new(Meters::new(KEYS_MAX)),
            nodes: Mutex::new(Meters::new(KEYS_MAX)),
        }
    }

    /// A call by an agent; a person who speaks is none.
    pub fn agent(&self, class: Class, agent: &AgentId) -> Result<(), TooFast> {
        if !self.on || agent.is_no_agent() {
            return Ok(());
        }
        let rate = match class {
            Class::Heartbeat => self.heartbeat,
            Class::Claim => self.claim,
            Class::Publish => self.publish,
            Class::Other => self.other,
        };
        let now = self.began.elapsed();
        self.agents.lock().take((class, agent.clone()), rate, now)
    }

    /// A node that shows who it is, from an address.
    pub fn node_auth(&self, from: IpAddr) -> Result<(), TooFast> {
        if !self.on {
            return Ok(());
        }
        let now = self.began.elapsed();
        let from = from.to_canonical();
        self.nodes.lock().take(from, self.node_auth, now)
    }

    /// A registration from an address. Agents on this machine share one, so loopback is free.
    pub fn register(&self, from: IpAddr) -> Result<(), TooFast> {
        if !self.on || from.to_canonical().is_loopback() {
            return Ok(());
        }
        let now = self.began.elapsed();
        self.addresses
            .lock()
            .take(from.to_canonical(), self.register, now)
    }
}

/// So many calls at once, and then one each time a call's share of the minute has passed.
#[derive(Clone, Copy, Debug)]
struct Rate {
    every: Duration,
    burst: Duration,
    limit: Limit,
}

impl Rate {
    fn of(limit: Limit) -> Self {
        let calls = limit.per_minute.max(1);
        let every = Duration::from_secs(60) / calls;
        Rate {
            every,
            burst: every * (calls - 1),
            limit,
        }
    }
}

/// For each key, the instant at which its allowance is full again.
#[derive(Debug)]
struct Meters<K> {
    full_at: HashMap<K, Duration>,
    keys_max: usize,
}

impl<K: Eq + Hash + Clone> Meters<K> {
    fn new(keys_max: usize) -> Self {
        Meters {
            full_at: HashMap::new(),
            keys_max,
        }
    }

    fn take(&mut self, key: K, rate: Rate, now: Duration) -> Result<(), TooFast> {
        if let Some(full_at) = self.full_at.get_mut(&key) {
            let due = (*full_at).max(now);
            if due > now + rate.burst {
                return Err(TooFast {
                    retry_after: due - now - rate.burst,
                    limit: rate.limit,
                });
            }
            *full_at = due + rate.every;
            return Ok(());
        }
        if self.full_at.len() >= self.keys_max {
            self.forget(now);
        }
        self.full_at.insert(key, now + rate.every);
        Ok(())
    }

    /// Drops the keys whose allowance is full; if that is not an eighth, also the fullest of the rest.
    fn forget(&mut self, now: Duration) {
        self.full_at.retain(|_, full_at| *full_at > now);
        let keep = self.keys_max - self.keys_max.div_ceil(8);
        let Some(over) = self
            .full_at
            .len()
            .checked_sub(keep)
            .filter(|over| *over > 0)
        else {
            return;
        };
        let mut ends: Vec<Duration> = self.full_at.values().copied().collect();
        let (_, last_out, _) = ends.select_nth_unstable(over - 1);
        let last_out = *last_out;
        self.full_at.retain(|_, full_at| *full_at > last_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1000);

    fn meters(keys_max: usize) -> Meters<u32> {
        Meters::new(keys_max)
    }

    fn per_minute(calls: u32) -> Rate {
        Rate::of(Limit {
            per_minute: calls,
            what: "calls",
            setting: "calls_per_minute",
        })
    }

    #[test]
    fn the_nth_call_of_a_minute_passes_and_the_next_is_told_when() {
        // jetpack, Rate Limiting: REGISTER, HEARTBEAT, CLAIM, Other.
        for calls in [10, 12, 30, 60] {
            let rate = per_minute(calls);
            let mut meters = meters(8);
            for call in 1..=calls {
                assert_eq!(meters.take(1, rate, NOW), Ok(()), "call {call} of {calls}");
            }
            let refused = meters.take(1, rate, NOW).unwrap_err();
            assert_eq!(refused.retry_after, rate.every);
            assert_eq!(refused.seconds(), u64::from(60_u32.div_ceil(calls)));
            let almost = NOW + rate.every - Duration::from_nanos(1);
            assert!(meters.take(1, rate, almost).is_err());
            assert_eq!(meters.take(1, rate, NOW + rate.every), Ok(()));
            assert!(meters.take(1, rate, NOW + rate.every).is_err());
        }
    }

    #[test]
    fn a_refused_call_costs_nothing() {
        let rate = per_minute(2);
        let mut meters = meters(8);
        for _ in 0..2 {
            meters.take(1, rate, NOW).unwrap();
        }
        for _ in 0..100 {
            assert!(meters.take(1, rate, NOW).is_err());
        }
        assert_eq!(meters.take(1, rate, NOW + rate.every), Ok(()));
    }

    #[test]
    fn a_minute_of_quiet_restores_the_whole_allowance() {
        let rate = per_minute(12);
        let mut meters = meters(8);
        for round in 0..3 {
            let now = NOW + Duration::from_secs(60) * round;
            for _ in 0..12 {
                assert_eq!(meters.take(1, rate, now), Ok(()));
            }
            assert!(meters.take(1, rate, now).is_err());
        }
    }

    #[test]
    fn keys_do_not_share_an_allowance() {
        let rate = per_minute(1);
        let mut meters = meters(8);
        assert_eq!(meters.take(1, rate, NOW), Ok(()));
        assert_eq!(meters.take(2, rate, NOW), Ok(()));
        assert!(meters.take(1, rate, NOW).is_err());
    }

    #[test]
    fn the_number_of_keys_is_bounded_and_the_busiest_are_kept() {
        let rate = per_minute(60);
        let mut meters = meters(16);
        for _ in 0..60 {
            meters.take(0, rate, NOW).unwrap();
        }
        for key in 1..=15 {
            meters.take(key, rate, NOW).unwrap();
        }
        assert_eq!(meters.full_at.len(), 16);
        meters.take(16, rate, NOW).unwrap();
        assert!(meters.full_at.len() <= 16);
        assert!(
            meters.take(0, rate, NOW).is_err(),
            "the busiest key was forgotten"
        );
        for key in 17..1000 {
            meters.take(key, rate, NOW).unwrap();
            assert!(meters.full_at.len() <= 16);
        }
        assert!(
            meters.take(0, rate, NOW).is_err(),
            "the busiest key was forgotten"
        );
    }

    #[test]
    fn registrations_from_loopback_are_free_and_others_count_by_address() {
        let limits = RateLimits::new(&Limits::default());
        for _ in 0..100 {
            assert_eq!(limits.register("127.0.0.1".parse().unwrap()), Ok(()));
            assert_eq!(limits.register("::1".parse().unwrap()), Ok(()));
            assert_eq!(limits.register("::ffff:127.0.0.1".parse().unwrap()), Ok(()));
        }
        let far = "192.0.2.1".parse().unwrap();
        for _ in 0..10 {
            assert_eq!(limits.register(far), Ok(()));
        }
        assert!(limits.register(far).is_err());
        assert_eq!(limits.register("192.0.2.2".parse().unwrap()), Ok(()));
    }

    #[test]
    fn classes_have_allowances_of_their_own_and_the_switch_turns_all_off() {
        let agent = AgentId::from("a1");
        let limits = RateLimits::new(&Limits::default());
        for (class, calls) in [
            (Class::Heartbeat, 12),
            (Class::Claim, 30),
            (Class::Publish, 120),
            (Class::Other, 60),
        ] {
            for _ in 0..calls {
                assert_eq!(limits.agent(class, &agent), Ok(()));
            }
            assert!(limits.agent(class, &agent).is_err());
        }
        let off = RateLimits::new(&Limits {
            enabled: false,
            ..Limits::default()
        });
        for _ in 0..1000 {
            assert_eq!(off.agent(Class::Heartbeat, &agent), Ok(()));
        }
    }
}
