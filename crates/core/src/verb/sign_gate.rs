//! The gate before a restart is opened for a commit, and signed step by step.

use super::Verb;
use crate::changes::Changes;
use crate::id::AgentId;
use crate::refusal::Refusal;
use crate::release_gate::{GateStep, ReleaseGate, SignOff};
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

/// Whatever was signed before counts no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGate {
    pub commit: String,
    pub by: String,
}

impl Verb for OpenGate {
    type Reply = ReleaseGate;

    fn asks(&self, _want: &mut Want<'_>, _now: Timestamp) {}

    fn decide(&self, _slice: &Slice, now: Timestamp) -> Result<(ReleaseGate, Changes), Refusal> {
        let gate = ReleaseGate {
            commit: self.commit.clone(),
            by: self.by.clone(),
            at: now,
            signed: Vec::new(),
        };
        let mut changes = Changes::default();
        changes.put(gate.clone());
        Ok((gate, changes))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignGate {
    pub step: GateStep,
    pub by: AgentId,
    pub commit: String,
    pub note: String,
}

impl Verb for SignGate {
    type Reply = ReleaseGate;

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        want.private::<ReleaseGate>("");
    }

    fn decide(&self, slice: &Slice, now: Timestamp) -> Result<(ReleaseGate, Changes), Refusal> {
        let invalid = |field, message| Err(Refusal::Invalid { field, message });
        let (mut changes, role) = (Changes::default(), self.step.role());
        let Some(known) = Want::new(slice).private::<ReleaseGate>("") else {
            return invalid("commit", "no gate is open; open one first".to_owned());
        };
        if self.by.as_str() != role {
            let message = format!("{} is signed by {role}, not by {}", self.step, self.by);
            return invalid("role", message);
        }
        let mut gate = known.clone();
        if gate.commit != self.commit {
            gate.commit.clone_from(&self.commit);
            gate.signed.clear();
        }
        if gate.is_signed(self.step) {
            return Ok((gate, changes));
        }
        if let Some(next) = gate.next().filter(|next| *next != self.step) {
            let message = format!(
                "{next} comes first, signed by {}{}",
                next.role(),
                match known.commit == self.commit {
                    true => "",
                    false => "; the gate was for another commit",
                }
            );
            return invalid("step", message);
        }
        gate.signed.push(SignOff {
            step: self.step,
            by: self.by.to_string(),
            at: now,
            note: self.note.clone(),
        });
        changes.put(gate.clone());
        Ok((gate, changes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Swarm, word};
    use super::*;

    fn sign(step: GateStep, by: &str, commit: &str) -> SignGate {
        SignGate {
            step,
            by: by.into(),
            commit: commit.to_owned(),
            note: String::new(),
        }
    }

    fn open(swarm: &mut Swarm) -> ReleaseGate {
        swarm.ok(OpenGate {
            commit: "c1".to_owned(),
            by: "ann".to_owned(),
        })
    }

    #[test]
    fn each_step_by_its_own_role_and_in_order() {
        let mut swarm = Swarm::new();
        let first = sign(GateStep::Tests, "builder", "c1");
        assert_eq!(word(&swarm.run(first)), "invalid", "nothing is open");
        open(&mut swarm);
        let steps = GateStep::ALL;
        for (at, step) in steps.iter().enumerate() {
            for by in ["builder", "architect", "oracle"] {
                for later in &steps[at..] {
                    let is_next = later == step && by == step.role();
                    if !is_next {
                        let outcome = swarm.run(sign(*later, by, "c1"));
                        assert_eq!(word(&outcome), "invalid", "{later} by {by}");
                    }
                }
            }
            let gate = swarm.ok(sign(*step, step.role(), "c1"));
            assert_eq!(gate.next(), steps.get(at + 1).copied());
            assert_eq!(swarm.ok(sign(*step, step.role(), "c1")), gate, "once");
        }
    }

    #[test]
    fn another_commit_and_another_gate_need_everything_anew() {
        let mut swarm = Swarm::new();
        open(&mut swarm);
        swarm.ok(sign(GateStep::Tests, "builder", "c1"));
        let other = sign(GateStep::Verified, "architect", "c2");
        assert_eq!(word(&swarm.run(other)), "invalid");
        let gate = swarm.ok(sign(GateStep::Tests, "builder", "c2"));
        assert_eq!((gate.commit.as_str(), gate.signed.len()), ("c2", 1));
        assert_eq!(open(&mut swarm).signed, []);
    }
}
