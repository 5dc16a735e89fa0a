//! Takes in what was written into the ledger's tables by hand, before any verb of the batch looks at them.

use std::collections::HashSet;
use std::sync::Arc;

use switchboard_core::assertion::Asserted;
use switchboard_core::verb::{Gauge, HandStep, Note, Written};
use switchboard_core::{GatePolicy, Meaning, Message, Refusal, Timestamp, To, Want};
use switchboard_store::Error as StoreError;
use switchboard_wire::jetpack::from_wire;
use switchboard_wire::squidrun::claims;

use super::load::ROUNDS_MAX;
use super::{Listener, Sequencer};
use crate::runtime::judge;

/// Notes that are read at a time.
const NOTES_PER_PAGE: usize = 512;
/// Pages taken in by one batch. It is over within the five seconds that direct clients wait for the file's lock.
const PAGES_MAX: usize = 64;

pub(crate) struct Adoption {
    policy: Arc<GatePolicy>,
    /// What paths in messages are relative to.
    root: String,
    /// The note that is being taken in.
    current: Option<u64>,
    /// Notes that no step may be taken for: one of them panicked.
    spoiled: HashSet<u64>,
}

impl Adoption {
    pub fn new(policy: Arc<GatePolicy>, root: String) -> Adoption {
        Adoption {
            policy,
            root,
            current: None,
            spoiled: HashSet::new(),
        }
    }

    fn meant(&self, message: &Message) -> Result<(Meaning, Vec<Asserted>), String> {
        let (kind, payload) = (&message.kind, &message.payload);
        let meaning = from_wire::meaning(kind, payload, message.to != To::Everyone, &self.root);
        let meaning = meaning.map_err(|malformed| malformed.to_string())?;
        Ok((meaning, claims::of_payload(payload)))
    }

    /// Whether it was a hand write that panicked; its row will be put back.
    pub fn panicked(&mut self) -> bool {
        let Some(note) = self.current.take() else {
            return false;
        };
        tracing::error!(
            note,
            "a direct SQL write could not be adopted; its row is restored"
        );
        self.spoiled.insert(note)
    }
}

impl<L: Listener> Sequencer<L> {
    /// Takes in what was noted, page by page. False if there is more than one batch may take: then nobody is served before
    /// the rest. Between two notes about one row it is as no hand left it, and somebody would be given a task that a
    /// later note tells is claimed.
    pub(super) fn adopt(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        for _ in 0..PAGES_MAX {
            let page = self.engine.hand_notes(NOTES_PER_PAGE, &mut self.slice)?;
            for note in page.notes {
                self.adoption.current = Some(note.number);
                if let Some(why) = self.take_in(&note, now)? {
                    tracing::warn!(row = ?note.row(), error = why, "a direct SQL write was refused; its row is restored");
                    self.slice.apply(note.undone(why), now);
                }
            }
            self.adoption.current = None;
            if page.is_last {
                return Ok(true);
            }
            // So that the engine has the next page to tell.
            let engine = &mut self.engine;
            self.slice.save_rows(|save| engine.save(save))?;
        }
        Ok(false)
    }

    /// Takes a note's steps in turn; tells why it did not hold, if so.
    fn take_in(&mut self, note: &Note, now: Timestamp) -> Result<Option<String>, StoreError> {
        if self.adoption.spoiled.contains(&note.number) {
            self.step(&*note.restore(), now)?;
            return Ok(Some("the hub could not interpret it".to_owned()));
        }
        let adoption = &self.adoption;
        let gauge = Gauge {
            policy: &adoption.policy,
            judge: &judge,
        };
        let steps = note.steps(gauge, &|message| adoption.meant(message));
        for step in steps {
            if let Some(refusal) = self.step(&*step, now)? {
                return Ok(Some(refusal.to_string()));
            }
        }
        Ok(match &note.written {
            Written::Unreadable { why, .. } => Some(why.clone()),
            _ => None,
        })
    }

    fn step(&mut self, step: &dyn HandStep, now: Timestamp) -> Result<Option<Refusal>, StoreError> {
        for _ in 0..ROUNDS_MAX {
            let mut want = Want::new(&self.slice);
            step.asks(&mut want, now);
            if want.is_satisfied() {
                return Ok(match step.decide(&self.slice, now) {
                    Ok(changes) => {
                        self.slice.apply(changes, now);
                        None
                    }
                    Err(refusal) => Some(refusal),
                });
            }
            self.load(&want.into_asks())?;
        }
        Err(StoreError::Unavailable(
            "a hand write never stopped asking".to_owned(),
        ))
    }
}
