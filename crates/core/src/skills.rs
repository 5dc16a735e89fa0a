//! A set of skills: lower case, sorted, without repeats.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::capability::is_granted;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Skills(Vec<Arc<str>>);

impl Skills {
    pub fn new<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Self {
        let mut set: Vec<Arc<str>> = words
            .into_iter()
            .map(|word| Arc::from(word.as_ref().trim().to_lowercase()))
            .filter(|word: &Arc<str>| !word.is_empty())
            .collect();
        set.sort();
        set.dedup();
        Self(set)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn contains(&self, word: &str) -> bool {
        self.0.binary_search_by(|known| (**known).cmp(word)).is_ok()
    }

    /// The words of `self` that `others` lack, in order.
    pub fn missing_from<'a>(&'a self, others: &'a Skills) -> impl Iterator<Item = &'a Arc<str>> {
        self.0.iter().filter(|word| !others.contains(word))
    }

    pub fn is_subset(&self, others: &Skills) -> bool {
        self.missing_from(others).next().is_none()
    }

    /// Those that an agent can say it has; the others are granted.
    pub fn own(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().filter(|word| !is_granted(word))
    }

    /// Both together.
    pub fn with(&self, others: &Skills) -> Skills {
        Skills::new(self.0.iter().chain(&others.0))
    }

    pub fn meets(&self, others: &Skills) -> bool {
        self.0.iter().any(|word| others.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_order_and_repeats_do_not_matter() {
        assert_eq!(
            Skills::new(["Rust", "rust ", "", "SQL"]),
            Skills::new(["sql", "rust"])
        );
    }

    #[test]
    fn subset_is_decided_word_by_word() {
        let table = [
            (vec![], vec![], true),
            (vec![], vec!["a"], true),
            (vec!["a"], vec!["a", "b"], true),
            (vec!["a"], vec!["ab"], false),
            (vec!["a", "c"], vec!["a", "b"], false),
        ];
        for (required, offered, fits) in table {
            assert_eq!(
                Skills::new(&required).is_subset(&Skills::new(&offered)),
                fits,
                "{required:?} in {offered:?}"
            );
        }
    }
}
