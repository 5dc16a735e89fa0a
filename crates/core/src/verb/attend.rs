//! A coordinator says that it is there, and hears which others no longer are.
//!
//! Nobody ends the streams of one that was killed. So each is written down while it serves, and stays there until somebody
//! has ended what it left behind.

use super::Verb;
use crate::changes::Changes;
use crate::coordinators::Coordinators;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attend {
    pub me: String,
    /// Those whose streams were ended.
    pub ended: Vec<String>,
}

impl Verb for Attend {
    /// Those that were not heard of for too long.
    type Reply = Vec<String>;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Coordinators>("");
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Vec<String>, Changes), Refusal> {
        let known = Want::new(slice).private::<Coordinators>("");
        let mut present = known.cloned().unwrap_or_default();
        // While nobody served, none of them could say anything.
        let floor = slice.head.floor;
        let is_gone = |seen: Timestamp| now.since(seen.max(floor)) > limits::COORDINATOR_GONE_AFTER;
        present.seen.insert(self.me.clone(), now);
        present
            .seen
            .retain(|name, seen| !(is_gone(*seen) && self.ended.contains(name)));
        let gone = present.seen.iter().filter(|(_, seen)| is_gone(**seen));
        let gone = gone.map(|(name, _)| name.clone()).collect();
        let mut changes = Changes::default();
        changes.put(present);
        Ok((gone, changes))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Serve;
    use super::super::testing::Swarm;
    use super::*;

    fn attend(me: &str, ended: &[&str]) -> Attend {
        Attend {
            me: me.to_owned(),
            ended: ended.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    const GONE: Duration = limits::COORDINATOR_GONE_AFTER;
    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn one_that_says_nothing_is_gone_until_what_it_left_is_ended() {
        let mut swarm = Swarm::new();
        assert!(swarm.ok(attend("a", &[])).is_empty());
        assert!(swarm.ok(attend("b", &[])).is_empty());
        swarm.wait(GONE);
        assert!(swarm.ok(attend("b", &[])).is_empty());
        swarm.wait(MOMENT);
        assert_eq!(swarm.ok(attend("b", &[])), ["a"]);
        assert_eq!(swarm.ok(attend("b", &[])), ["a"], "nobody has seen to it");
        assert!(swarm.ok(attend("b", &["a"])).is_empty());
    }

    #[test]
    fn one_that_comes_back_is_there_whoever_ended_its_streams() {
        let mut swarm = Swarm::new();
        swarm.ok(attend("a", &[]));
        swarm.wait(GONE + MOMENT);
        assert_eq!(swarm.ok(attend("b", &[])), ["a"]);
        assert!(swarm.ok(attend("a", &[])).is_empty());
        assert!(swarm.ok(attend("b", &["a"])).is_empty());
        swarm.wait(GONE + MOMENT);
        assert_eq!(swarm.ok(attend("b", &[])), ["a"], "it was still known");
    }

    #[test]
    fn while_nobody_served_nobody_could_say_anything() {
        let mut swarm = Swarm::new();
        swarm.ok(Serve { starting: false });
        swarm.ok(attend("a", &[]));
        swarm.wait(Duration::from_secs(3600));
        swarm.ok(Serve { starting: false });
        assert!(swarm.ok(attend("b", &[])).is_empty());
        swarm.wait(GONE + MOMENT);
        assert_eq!(swarm.ok(attend("b", &[])), ["a"]);
    }
}
