//! The rows of one kind that a batch has looked for, with what must be saved of them.

use std::collections::hash_map::Entry;

use super::Map;
use crate::row::Noun;

#[derive(Debug)]
pub struct Cells<T: Noun> {
    cells: Map<T::Key, Cell<T>>,
    /// Rows to write, each once; some may be gone again.
    changed: Vec<T::Key>,
    /// Rows to delete, with the row where it was known.
    dropped: Vec<(T::Key, Option<T>)>,
}

/// A row that was looked for: there, or known to be absent; and what must be saved of it.
#[derive(Debug)]
struct Cell<T> {
    row: Option<T>,
    put: Put,
    is_changed: bool,
}

/// How a row is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// It is not in the store yet.
    pub is_new: bool,
    /// Which groups of its columns changed, beside those that change with every write.
    pub groups: u8,
}

impl Put {
    pub fn has(self, group: u8) -> bool {
        self.groups & group != 0
    }
}

impl<T: Noun> Default for Cells<T> {
    fn default() -> Self {
        Cells {
            cells: Map::default(),
            changed: Vec::new(),
            dropped: Vec::new(),
        }
    }
}

impl<T: Noun> Cells<T> {
    /// `None`: not loaded. `Some(None)`: there is no such row.
    pub fn known(&self, key: &T::Key) -> Option<Option<&T>> {
        self.cells.get(key).map(|cell| cell.row.as_ref())
    }

    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.known(key).flatten()
    }

    pub(super) fn get_mut(&mut self, key: &T::Key) -> Option<(&mut T, Put)> {
        let cell = self.cells.get_mut(key)?;
        cell.row.as_mut().map(|row| (row, cell.put))
    }

    /// Takes in what the store has. A row that is here already is as new, or newer.
    pub(super) fn load(&mut self, key: T::Key, row: impl FnOnce() -> Option<T>) {
        if let Entry::Vacant(entry) = self.cells.entry(key) {
            entry.insert(Cell {
                row: row(),
                put: Put::default(),
                is_changed: false,
            });
        }
    }

    /// A row as it is from now on, and which groups of its columns changed.
    pub(super) fn put(&mut self, row: T, groups: u8) {
        let key = row.key();
        let cell = self.cells.entry(key.clone()).or_insert(Cell {
            row: None,
            put: Put::default(),
            is_changed: false,
        });
        cell.put.is_new |= cell.row.is_none();
        cell.put.groups |= groups;
        cell.row = Some(row);
        if !std::mem::replace(&mut cell.is_changed, true) {
            self.changed.push(key);
        }
    }

    /// Has a row written though nothing else about it changed. `None` if there is none.
    pub(super) fn touch(&mut self, key: &T::Key, groups: u8) -> Option<&mut T> {
        let cell = self.cells.get_mut(key)?;
        let row = cell.row.as_mut()?;
        cell.put.groups |= groups;
        if !std::mem::replace(&mut cell.is_changed, true) {
            self.changed.push(key.clone());
        }
        Some(row)
    }

    /// From now on there is no such row. Returns what was known of it.
    pub(super) fn remove(&mut self, key: T::Key) -> Option<&T> {
        let row = self.cells.get_mut(&key).and_then(|cell| {
            cell.put = Put::default();
            cell.row.take()
        });
        self.load(key.clone(), || None);
        self.dropped.push((key, row));
        self.dropped.last().and_then(|(_, row)| row.as_ref())
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T::Key, Option<&T>) -> bool) {
        self.cells
            .retain(|key, cell| cell.is_changed || keep(key, cell.row.as_ref()));
    }

    pub fn len(&self) -> usize {
        self.cells.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The rows to write, in the order in which they first changed.
    pub(super) fn puts(&self) -> impl Iterator<Item = (&T, Put)> {
        let cells = self.changed.iter().filter_map(|key| self.cells.get(key));
        cells.filter_map(|cell| cell.row.as_ref().map(|row| (row, cell.put)))
    }

    /// The rows to delete, before any is written.
    pub(super) fn drops(&self) -> impl Iterator<Item = (&T::Key, Option<&T>)> {
        let dropped = self.dropped.iter();
        dropped.map(|(key, row)| (key, row.as_ref()))
    }
}

/// What goes for rows of every kind.
pub trait AnyCells {
    fn is_saved(&self) -> bool;
    fn mark_saved(&mut self);
    fn clear(&mut self);
}

impl<T: Noun> AnyCells for Cells<T> {
    fn is_saved(&self) -> bool {
        self.changed.is_empty() && self.dropped.is_empty()
    }

    fn mark_saved(&mut self) {
        for key in self.changed.drain(..) {
            if let Some(cell) = self.cells.get_mut(&key) {
                cell.is_changed = false;
                cell.put = Put::default();
            }
        }
        self.dropped.clear();
    }

    fn clear(&mut self) {
        if !self.cells.is_empty() {
            self.cells.clear();
        }
        self.changed.clear();
        self.dropped.clear();
    }
}
