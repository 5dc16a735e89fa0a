//! What a task says: the part that people write, the same in a task, in a new one and, as a patch, in a change.

use crate::id::AgentId;
use crate::skills::Skills;
use crate::task::{Priority, TaskKind, WhenSpent};

/// Makes [`Description`] and [`Patch`] of one list: field, type, what it is unless said, and whether it decides who may take the
/// task (then it stays while somebody holds it).
macro_rules! description {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $default:expr, $decides_who:literal;)*) => {
        #[derive(Clone, Debug, PartialEq)]
        pub struct Description { $($(#[$doc])* pub $field: $type,)* }

        /// Fields that are `None` stay as they are; `Some(None)` empties one that may be empty.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Patch { $(pub $field: Option<$type>,)* }

        impl Default for Description {
            fn default() -> Self {
                Description { $($field: $default,)* }
            }
        }

        impl Patch {
            /// What makes the second of the first.
            pub fn between(was: &Description, is: &Description) -> Patch {
                Patch { $($field: (was.$field != is.$field).then(|| is.$field.clone()),)* }
            }

            /// Makes the change, and names the fields that it changed.
            pub fn apply(&self, to: &mut Description) -> Vec<String> {
                let mut changed = Vec::new();
                $(if let Some(value) = self.$field.as_ref().filter(|value| **value != to.$field) {
                    to.$field = value.clone();
                    changed.push(stringify!($field).to_owned());
                })*
                changed
            }

            pub fn decides_who_may_take_it(&self) -> bool {
                [$($decides_who && self.$field.is_some(),)*].contains(&true)
            }
        }
    };
}

description! {
    title: String = String::new(), false;
    description: Option<String> = None, false;
    files: Vec<String> = Vec::new(), false;
    branch: Option<String> = None, false;
    max_retries: u32 = 2, false;
    /// What happens once the retries are spent.
    when_spent: WhenSpent = WhenSpent::Fail, false;
    priority: Priority = Priority::Medium, true;
    kind: TaskKind = TaskKind::Code, true;
    required_skills: Skills = Skills::default(), true;
    estimated_minutes: Option<u32> = None, true;
    /// If not empty, only these agents may claim it and skills are not asked.
    audience: Vec<AgentId> = Vec::new(), true;
    /// These agents may not claim it, whatever they can do.
    barred: Vec<AgentId> = Vec::new(), true;
}
