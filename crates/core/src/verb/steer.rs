//! A person says that no new work is handed out, or that it is again, or what is released. It holds for every
//! coordinator and every door, and across restarts.

use std::time::Duration;

use super::Verb;
use crate::changes::Changes;
use crate::director::{Director, Paused, Release};
use crate::event::Event;
use crate::limits;
use crate::refusal::Refusal;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steer {
    pub by: String,
    pub reason: String,
    pub order: Order,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Hand out no new work until told otherwise.
    Pause,
    Resume,
    /// Hand out no new work for a while.
    Cooldown {
        lasts_for: Duration,
    },
    PauseUntil(Timestamp),
    Release(Release),
}

impl Order {
    fn word(&self) -> &'static str {
        match self {
            Order::Pause => "pause",
            Order::Resume => "resume",
            Order::Cooldown { .. } | Order::PauseUntil(_) => "cooldown",
            Order::Release(_) => "release",
        }
    }
}

impl Verb for Steer {
    type Reply = Director;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<Director>("");
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(Director, Changes), Refusal> {
        let known = Want::new(slice).private::<Director>("");
        let mut director = known.cloned().unwrap_or_default();
        let mut changes = Changes::default();
        let told = || Paused {
            by: self.by.clone(),
            reason: self.reason.clone(),
            at: now,
        };
        match &self.order {
            Order::Pause => director.paused = Some(told()),
            Order::Resume => {
                director.paused = None;
                director.end_cooldown();
            }
            Order::Cooldown { lasts_for } => {
                director.cool_down(now + (*lasts_for).min(limits::PAUSE_FOR_MAX), told());
            }
            Order::PauseUntil(until) => {
                if *until <= now || *until > now + limits::PAUSE_FOR_MAX {
                    return Err(Refusal::Invalid {
                        field: "until",
                        message: "is in the past, or more than 30 days ahead".to_owned(),
                    });
                }
                director.cool_down(*until, told());
            }
            Order::Release(release) => {
                director.release = Some(release.clone());
                director.release_seq = slice.head.seq + 1;
            }
        }
        changes.event(match &self.order {
            Order::Release(release) => Event::ReleasePublished {
                by: self.by.clone(),
                release: release.id.clone(),
                main_sha: release.main_sha.clone(),
                image_tag: release.image_tag.clone(),
            },
            order => Event::DirectorSteered {
                by: self.by.clone(),
                order: order.word().to_owned(),
                reason: self.reason.clone(),
            },
        });
        changes.put(director.clone());
        Ok((director, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, word};
    use super::*;

    fn steer(order: Order) -> Steer {
        Steer {
            by: "desk".to_owned(),
            reason: "a deploy".to_owned(),
            order,
        }
    }

    #[test]
    fn what_was_told_stands_until_it_is_taken_back() {
        let mut swarm = Swarm::new();
        let minute = Duration::from_secs(60);
        assert!(!swarm.ok(steer(Order::Pause)).hands_out(swarm.now));
        let cooldown = Order::Cooldown { lasts_for: minute };
        assert!(swarm.ok(steer(cooldown.clone())).paused.is_some());
        let resumed = swarm.ok(steer(Order::Resume));
        assert!(resumed.hands_out(swarm.now));
        let cooling = swarm.ok(steer(cooldown));
        assert!(!cooling.hands_out(swarm.now));
        assert!(cooling.hands_out(swarm.now + minute));
        let release = Release {
            id: "v2".to_owned(),
            branch: "release/v2".to_owned(),
            pr_number: None,
            main_sha: None,
            image_tag: None,
        };
        let told = swarm.ok(steer(Order::Release(release.clone())));
        assert_eq!(told.release, Some(release));
        assert_eq!(swarm.said(), ["release_published"]);
        assert_eq!(told.release_seq, swarm.head.seq);
        assert!(told.cooldown_until.is_some(), "nothing else is forgotten");
    }

    #[test]
    fn a_pause_with_an_end_lies_ahead_and_the_longest_holds() {
        let tick = Duration::from_millis(1);
        let mut swarm = Swarm::new();
        let last = swarm.now + limits::PAUSE_FOR_MAX;
        for (until, expected) in [
            (swarm.now, "invalid"),
            (swarm.now + tick, "ok"),
            (last, "ok"),
            (last + tick, "invalid"),
        ] {
            let outcome = swarm.run(steer(Order::PauseUntil(until)));
            assert_eq!(word(&outcome), expected, "{until:?}");
        }
        let short = Order::Cooldown { lasts_for: tick };
        let told = swarm.ok(Steer {
            by: "other".to_owned(),
            ..steer(short)
        });
        let hold = told.hold(swarm.now).map(|hold| (hold.by, hold.until));
        assert_eq!(hold, Some(("desk".to_owned(), Some(last))));
    }
}
