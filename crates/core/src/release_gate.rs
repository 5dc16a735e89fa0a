//! The gate before a restart: four sign-offs for one commit, in order, each by its own role.

use serde::{Deserialize, Serialize};

use crate::record::Private;
use crate::time::Timestamp;

words! {
    #[derive(Hash, Serialize, Deserialize)]
    pub enum GateStep {
        /// The change is made and its tests pass.
        Tests = "tests",
        /// Somebody else has verified it.
        Verified = "verified",
        /// The risk of a restart was reviewed.
        Risk = "risk",
        /// What a starting agent reads says what changed.
        Docs = "docs",
    }
}

impl GateStep {
    /// Who signs it.
    pub const fn role(self) -> &'static str {
        match self {
            GateStep::Tests => "builder",
            GateStep::Verified => "architect",
            GateStep::Risk | GateStep::Docs => "oracle",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseGate {
    /// What it is about; another commit needs every sign-off anew.
    pub commit: String,
    pub by: String,
    pub at: Timestamp,
    pub signed: Vec<SignOff>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignOff {
    pub step: GateStep,
    pub by: String,
    pub at: Timestamp,
    pub note: String,
}

impl Private for ReleaseGate {}

impl ReleaseGate {
    pub fn is_signed(&self, step: GateStep) -> bool {
        self.signed.iter().any(|signed| signed.step == step)
    }

    /// What is to be signed next; nothing once everything is.
    pub fn next(&self) -> Option<GateStep> {
        let steps = GateStep::ALL.iter().copied();
        steps.into_iter().find(|step| !self.is_signed(*step))
    }
}
