//! Keys of agents that were looked up a moment ago.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use switchboard_core::AgentId;
use switchboard_wire::signature::AgentKey;

/// A revoked key works no longer than this on a coordinator that did not hear of it.
const FRESH_FOR: Duration = Duration::from_secs(1);
const KEYS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub struct KeyCache {
    known: HashMap<AgentId, (Instant, AgentKey)>,
}

impl KeyCache {
    pub fn get(&self, agent: &AgentId) -> Option<AgentKey> {
        let (at, key) = self.known.get(agent)?;
        (at.elapsed() < FRESH_FOR).then(|| key.clone())
    }

    pub fn put(&mut self, agent: AgentId, key: AgentKey) {
        if self.known.len() >= KEYS_MAX {
            self.known.retain(|_, (at, _)| at.elapsed() < FRESH_FOR);
        }
        if self.known.len() < KEYS_MAX {
            self.known.insert(agent, (Instant::now(), key));
        }
    }

    pub fn forget(&mut self, agent: &AgentId) {
        self.known.remove(agent);
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::signature::MasterKey;

    use super::*;

    #[test]
    fn the_cache_holds_so_many_keys_and_forgets_one_when_told() {
        let key = MasterKey::new([1; 32]).agent_key("a", 1);
        let mut cache = KeyCache::default();
        for number in 0..=KEYS_MAX {
            cache.put(AgentId::from(format!("a{number}")), key.clone());
        }
        assert!(cache.known.len() <= KEYS_MAX);
        cache.forget(&"a0".into());
        assert!(!cache.known.contains_key(&AgentId::from("a0")));
    }
}
