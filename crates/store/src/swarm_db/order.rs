//! The order in which tasks can be made: what a task depends on comes before it.

use std::collections::{HashMap, HashSet};

/// A task and what it depends on.
pub type Edges = HashMap<String, Vec<String>>;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Order {
    pub tasks: Vec<String>,
    /// Dependencies that would close a circle: the task, and what it cannot depend on.
    pub circular: Vec<(String, String)>,
}

/// Orders `tasks`, which are given oldest first, by `edges`. What has no edges is taken as done.
pub fn order(tasks: &[String], edges: &Edges) -> Order {
    let mut order = Order::default();
    let mut done: HashSet<&str> = HashSet::with_capacity(tasks.len());
    let mut under_way: HashSet<&str> = HashSet::new();
    for start in tasks {
        // The way down from `start`, each with the dependencies not looked at yet.
        let mut path: Vec<(&str, std::slice::Iter<'_, String>)> = Vec::new();
        if let Some(first) = edges.get(start).filter(|_| !done.contains(start.as_str())) {
            under_way.insert(start);
            path.push((start, first.iter()));
        }
        while let Some((task, rest)) = path.last_mut() {
            let Some(next) = rest.next() else {
                under_way.remove(task);
                done.insert(task);
                order.tasks.push((*task).to_owned());
                path.pop();
                continue;
            };
            if under_way.contains(next.as_str()) {
                order.circular.push(((*task).to_owned(), next.clone()));
            } else if !done.contains(next.as_str())
                && let Some(below) = edges.get(next)
            {
                under_way.insert(next);
                path.push((next, below.iter()));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(given: &[(&str, &[&str])]) -> Order {
        let tasks: Vec<String> = given.iter().map(|(task, _)| (*task).to_owned()).collect();
        let edges = given.iter().map(|(task, needs)| {
            let needs = needs.iter().map(|need| (*need).to_owned()).collect();
            ((*task).to_owned(), needs)
        });
        order(&tasks, &edges.collect())
    }

    #[test]
    fn what_is_needed_comes_first_and_the_rest_stays_in_its_order() {
        let found = ordered(&[
            ("d", &["c", "b"]),
            ("a", &["elsewhere"]),
            ("c", &["b"]),
            ("b", &["elsewhere"]),
        ]);
        assert_eq!(found.tasks, ["b", "c", "d", "a"]);
        assert_eq!(found.circular, []);
    }

    #[test]
    fn circles_are_cut_where_they_close_and_only_there() {
        let found = ordered(&[
            ("a", &["b"]),
            ("b", &["c"]),
            ("c", &["a"]),
            ("d", &["a"]),
            ("self", &["self"]),
        ]);
        assert_eq!(found.tasks, ["c", "b", "a", "d", "self"]);
        let cut = [("c", "a"), ("self", "self")];
        let cut = cut.map(|(task, need)| (task.to_owned(), need.to_owned()));
        assert_eq!(found.circular, cut);
    }

    #[test]
    fn a_long_chain_costs_no_stack() {
        let chain: Vec<(String, Vec<String>)> = (0..100_000)
            .map(|n| (n.to_string(), vec![(n + 1).to_string()]))
            .collect();
        let tasks: Vec<String> = chain.iter().map(|(task, _)| task.clone()).collect();
        let found = order(&tasks, &chain.into_iter().collect());
        assert_eq!(found.tasks.first().map(String::as_str), Some("99999"));
        assert_eq!(found.tasks.len(), 100_000);
    }
}
