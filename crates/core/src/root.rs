//! Directories of the project, wherever a hub serves it: those who write SQL may use absolute paths below them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::record::Private;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Without a slash at its end.
    pub path: String,
}

impl Private for Root {
    fn key(&self) -> Cow<'static, str> {
        self.path.clone().into()
    }
}
