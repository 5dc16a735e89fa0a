//! Passes of external agents, and what holds whatever order things happen in.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::testing::{Passes, Swarm, admit, audit, invite_agent, pass, refresh, session, word};
use super::{EndSessions, Refreshed, RevokeSessions, Sessions};
use crate::audit::Outcome;
use crate::external::AgentScope;
use crate::limits;
use crate::pass::Pass;
use crate::time::Timestamp;

fn admitted() -> Swarm {
    let mut swarm = Swarm::new();
    swarm.ok(invite_agent("i", "far"));
    swarm.ok(admit("i", "far", "n", "s"));
    swarm.add("T");
    swarm
}

#[test]
fn a_pass_is_held_against_its_session() {
    type Edit = fn(&mut Pass);
    let cases: &[(Edit, &str)] = &[
        (|_| {}, "ok"),
        (
            |it| it.session = "another".to_owned(),
            "invalid_access_token",
        ),
        (|it| it.agent = "another".into(), "invalid_access_token"),
        (
            |it| it.thumbprint = "another".to_owned(),
            "invalid_access_token",
        ),
        (|it| it.expires_at = Timestamp::ZERO, "expired_access_token"),
        (|it| it.granted.clear(), "scope_denied"),
        // The session has it not, whatever the token says.
        (
            |it| {
                it.granted.push(AgentScope::StatusRead);
                it.scope = Some(AgentScope::StatusRead);
            },
            "scope_denied",
        ),
        (|it| it.context = Some("corr".into()), "scope_denied"),
        (|it| it.context = Some("T".into()), "ok"),
        (|it| it.scope = None, "ok"),
    ];
    for (edit, outcome) in cases {
        let mut swarm = admitted();
        let mut pass = pass("s", session(&swarm, "s").access_until, "p");
        edit(&mut pass);
        let told = audit(&swarm).len();
        assert_eq!(word(&swarm.run(Passes(pass.clone()))), *outcome, "{pass:?}");
        let more = usize::from(*outcome == "ok");
        assert_eq!(audit(&swarm).len(), told + more, "{pass:?}");
    }
}

#[test]
fn a_pass_counts_once_until_its_end_and_not_after_its_session() {
    let mut swarm = admitted();
    let until = session(&swarm, "s").access_until;
    swarm.ok(Passes(pass("s", until, "p")));
    assert_eq!(
        word(&swarm.run(Passes(pass("s", until, "p")))),
        "replay_detected"
    );
    swarm.wait(limits::ACCESS_FOR_MAX - Duration::from_millis(1));
    swarm.ok(Passes(pass("s", until, "q")));
    swarm.wait(Duration::from_millis(1));
    let late = swarm.run(Passes(pass("s", until, "r")));
    assert_eq!(word(&late), "expired_access_token");
    let told = audit(&swarm);
    assert!(told.iter().all(|entry| entry.outcome == Outcome::Allowed));
    assert!(
        told.iter()
            .all(|entry| entry.session.as_deref() == Some("s"))
    );
}

#[derive(Clone, Debug)]
enum Step {
    Invite,
    /// With which invite.
    Exchange(usize),
    /// Which session, and which of its refresh tokens.
    Refresh(usize, u32),
    /// Which of the access tokens that were ever given, and which proof.
    Use(usize, u8),
    Revoke(usize),
    RevokeAll,
    Sweep,
    /// The clock goes on by so many seconds: it never goes back.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..6_usize;
    prop_oneof![
        2 => Just(Step::Invite),
        3 => which.clone().prop_map(Step::Exchange),
        4 => (which.clone(), 0..4_u32).prop_map(|(session, turn)| Step::Refresh(session, turn)),
        8 => (0..12_usize, any::<u8>()).prop_map(|(token, once)| Step::Use(token, once)),
        1 => which.prop_map(Step::Revoke),
        1 => Just(Step::RevokeAll),
        1 => Just(Step::Sweep),
        3 => prop_oneof![Just(1), Just(60), Just(301), Just(900), Just(90_000)].prop_map(Step::Wait),
    ]
}

/// What an honest observer knows: who was given what, and what has ended.
#[derive(Default)]
struct Known {
    invites: usize,
    used_invites: BTreeSet<usize>,
    /// Sessions, and the next turn of each.
    sessions: Vec<u32>,
    ended: BTreeSet<usize>,
    /// Session and end of each access token.
    tokens: Vec<(usize, Timestamp)>,
    proofs: BTreeSet<String>,
    serial: usize,
}

impl Known {
    fn run(&mut self, swarm: &mut Swarm, step: &Step) {
        self.serial += 1;
        let once = format!("once {}", self.serial);
        match step {
            Step::Invite => {
                swarm.ok(invite_agent(&format!("i{}", self.invites), "far"));
                self.invites += 1;
            }
            Step::Exchange(invite) => {
                let id = format!("s{}", self.sessions.len());
                let made = swarm.run(admit(&format!("i{invite}"), "far", &once, &id));
                let Ok(made) = made else { return };
                assert!(*invite < self.invites && self.used_invites.insert(*invite));
                self.tokens.push((self.sessions.len(), made.access_until));
                self.sessions.push(0);
            }
            Step::Refresh(which, turn) => {
                let reply = swarm.run(refresh(&format!("s{which}"), *turn, &once));
                match reply {
                    Ok(Refreshed::Goes(session)) => {
                        assert!(!self.ended.contains(which));
                        assert_eq!(self.sessions[*which], *turn, "only the newest counts");
                        self.sessions[*which] += 1;
                        self.tokens.push((*which, session.access_until));
                    }
                    Ok(Refreshed::Ended(_)) => {
                        assert!(*turn < self.sessions[*which]);
                        self.ended.insert(*which);
                    }
                    Err(_) => {}
                }
            }
            Step::Use(which, once) => {
                let Some((session, until)) = self.tokens.get(*which).copied() else {
                    return;
                };
                let once = format!("proof {once}");
                let used = swarm.run(Passes(pass(&format!("s{session}"), until, &once)));
                if used.is_ok() {
                    assert!(swarm.now < until, "no token works after its end");
                    assert!(!self.ended.contains(&session), "nor after it was revoked");
                    assert!(self.proofs.insert(once), "no proof counts twice");
                }
            }
            Step::Revoke(which) => {
                swarm.ok(revoke(Sessions::One(format!("s{which}")), &once));
                if *which < self.sessions.len() {
                    self.ended.insert(*which);
                }
            }
            Step::RevokeAll => {
                swarm.ok(revoke(Sessions::Of("far".into()), &once));
                self.ended.extend(0..self.sessions.len());
            }
            Step::Sweep => {
                swarm.ok(EndSessions);
            }
            Step::Wait(seconds) => swarm.wait(Duration::from_secs(*seconds)),
        }
    }
}

fn revoke(which: Sessions, entry: &str) -> RevokeSessions {
    RevokeSessions {
        which,
        by: "ann".to_owned(),
        entry: entry.to_owned(),
    }
}

proptest! {
    #[test]
    fn no_token_works_after_its_end_and_no_proof_twice(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let (mut swarm, mut known) = (Swarm::new(), Known::default());
        swarm.add("T");
        for step in &steps {
            known.run(&mut swarm, step);
        }
        for (at, _) in known.sessions.iter().enumerate() {
            let row = session(&swarm, &format!("s{at}"));
            assert_eq!(row.scopes, [AgentScope::TaskRead, AgentScope::TaskClaim], "they never grow");
        }
    }
}
