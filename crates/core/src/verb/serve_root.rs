//! A hub says in which directory the project is that it serves.

use super::Verb;
use crate::changes::Changes;
use crate::refusal::Refusal;
use crate::root::Root;
use crate::slice::Slice;
use crate::time::Timestamp;
use crate::want::Want;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeRoot {
    path: String,
}

impl ServeRoot {
    pub fn new(root: &str) -> ServeRoot {
        let path = root.trim_end_matches('/').to_owned();
        ServeRoot { path }
    }

    fn is_known(&self, want: &mut Want<'_>) -> bool {
        want.private::<Root>(self.path.clone()).is_some()
    }
}

impl Verb for ServeRoot {
    type Reply = ();

    fn asks(&self, want: &mut Want<'_>, _now: Timestamp) {
        self.is_known(want);
    }

    fn decide(&self, slice: &Slice, _now: Timestamp) -> Result<((), Changes), Refusal> {
        let mut changes = Changes::default();
        if !self.is_known(&mut Want::new(slice)) {
            let path = self.path.clone();
            changes.put(Root { path });
        }
        Ok(((), changes))
    }
}
