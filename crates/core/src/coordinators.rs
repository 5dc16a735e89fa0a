//! Who serves one ledger together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::Private;
use crate::time::Timestamp;

/// When each last said that it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinators {
    pub seen: BTreeMap<String, Timestamp>,
}

impl Private for Coordinators {}
