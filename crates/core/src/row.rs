//! Every kind of row as data: what a decision puts or removes, what a verb asks for, what the working set keeps.
//!
//! A kind is named in the list at the end of this file, and nowhere else in what loads, applies and saves rows.

use std::fmt::Debug;
use std::hash::Hash;

use crate::agent::{Agent, FormerAgent};
use crate::attempt::Attempt;
use crate::changes::Nonce;
use crate::id::{AgentId, LearningId, MessageId, SnapshotId, TaskId, TokenId};
use crate::idempotency::{Key, Remembered};
use crate::lease::Lease;
use crate::memory::Learning;
use crate::message::{Delivery, Message};
use crate::path::LeasePath;
use crate::quality::{Baseline, Snapshot};
use crate::record::{Record, RecordKey};
use crate::slice::{AnyCells, Cells};
use crate::task::Task;
use crate::token::Token;

/// A kind of row.
pub trait Noun: Clone + Debug + PartialEq + Into<Row> + Sized + 'static {
    type Key: Clone + Debug + Eq + Hash;

    fn key(&self) -> Self::Key;
    fn of(row: &Row) -> Option<&Self>;
    fn of_mut(row: &mut Row) -> Option<&mut Self>;
    fn named(key: Self::Key) -> RowKey;
    fn cells(rows: &Rows) -> &Cells<Self>;
    fn cells_mut(rows: &mut Rows) -> &mut Cells<Self>;
}

/// `lasting` rows are kept from batch to batch; what is known of others ends with the batch.
macro_rules! nouns {
    ($($field:ident: $name:ident, $key:ty, $key_of:expr, $lasts:ident;)*) => {
        #[derive(Clone, Debug, PartialEq)]
        pub enum Row { $($name(Box<$name>),)* }

        /// Names one row.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum RowKey { $($name($key),)* }

        /// What the working set knows of each kind.
        #[derive(Debug, Default)]
        pub struct Rows { $(pub(crate) $field: Cells<$name>,)* }

        impl Rows {
            pub(crate) fn each(&self) -> impl Iterator<Item = &dyn AnyCells> {
                [$(&self.$field as &dyn AnyCells,)*].into_iter()
            }

            pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut dyn AnyCells> {
                [$(&mut self.$field as &mut dyn AnyCells,)*].into_iter()
            }

            /// Drops what is known of rows that do not last.
            pub(crate) fn end_batch(&mut self) {
                $(nouns!(@end $lasts, self.$field);)*
            }
        }

        $(
            impl From<$name> for Row {
                fn from(row: $name) -> Row {
                    Row::$name(Box::new(row))
                }
            }

            impl Noun for $name {
                type Key = $key;

                fn key(&self) -> $key {
                    let key: fn(&$name) -> $key = $key_of;
                    key(self)
                }

                fn of(row: &Row) -> Option<&Self> {
                    match row { Row::$name(row) => Some(row), _ => None }
                }

                fn of_mut(row: &mut Row) -> Option<&mut Self> {
                    match row { Row::$name(row) => Some(row), _ => None }
                }

                fn named(key: $key) -> RowKey {
                    RowKey::$name(key)
                }

                fn cells(rows: &Rows) -> &Cells<Self> {
                    &rows.$field
                }

                fn cells_mut(rows: &mut Rows) -> &mut Cells<Self> {
                    &mut rows.$field
                }
            }
        )*
    };
    (@end lasting, $cells:expr) => {};
    (@end batch, $cells:expr) => { $cells.clear() };
}

nouns! {
    agents: Agent, AgentId, |row| row.id.clone(), lasting;
    former_agents: FormerAgent, AgentId, |row| row.id.clone(), lasting;
    tasks: Task, TaskId, |row| row.id.clone(), lasting;
    attempts: Attempt, (u64, u64), |row| (row.number, row.epoch), batch;
    leases: Lease, LeasePath, |row| row.path.clone(), batch;
    messages: Message, MessageId, |row| row.id.clone(), batch;
    deliveries: Delivery, (MessageId, AgentId), |row| (row.message.clone(), row.agent.clone()), batch;
    snapshots: Snapshot, SnapshotId, |row| row.id.clone(), batch;
    baselines: Baseline, (), |_| (), batch;
    learnings: Learning, LearningId, |row| row.id.clone(), batch;
    records: Record, RecordKey, |row| row.key(), lasting;
    tokens: Token, TokenId, |row| row.id.clone(), batch;
    answers: Remembered, Key, |row| row.key.clone(), batch;
    nonces: Nonce, (AgentId, Box<str>), |row| (row.agent.clone(), row.value.clone()), batch;
}
