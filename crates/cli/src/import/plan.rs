//! Ordering drafts into chunks: a task never goes out before one it depends on.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Draft, Problem};

/// Most tasks in one call.
pub const CHUNK_MAX: usize = 500;
/// Most bytes of text in one call; the hub takes bodies up to 1 MiB, escapes and field names included.
const CHUNK_BYTES_MAX: usize = 400 * 1024;

/// What to send, in order.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub chunks: Vec<Vec<Draft>>,
    /// Ids that the file depends on but does not define, with the first line that does.
    pub outside: BTreeMap<String, usize>,
}

/// Orders `drafts` so that each comes after those it depends on, and cuts them into chunks.
pub fn plan(drafts: Vec<Draft>) -> Result<Plan, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        let Some(id) = draft.task.id.as_deref() else {
            continue;
        };
        if let Some(first) = by_id.insert(id, index) {
            let first = drafts[first].line;
            problems.push(Problem::at(
                draft.line,
                format!("id '{id}' is already used on line {first}"),
            ));
        }
    }
    let mut outside = BTreeMap::new();
    let mut needs: Vec<BTreeSet<usize>> = Vec::with_capacity(drafts.len());
    for draft in &drafts {
        let mut inside = BTreeSet::new();
        for id in &draft.task.dependencies {
            match by_id.get(id.as_str()) {
                Some(index) => {
                    inside.insert(*index);
                }
                None => {
                    outside.entry(id.clone()).or_insert(draft.line);
                }
            }
        }
        needs.push(inside);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let order = order(&needs).map_err(|cycle| vec![name_cycle(&drafts, &cycle)])?;
    Ok(Plan {
        chunks: chunks(drafts, &order),
        outside,
    })
}

/// A dependency-first order that otherwise keeps the file's, or the indices of a cycle.
fn order(needs: &[BTreeSet<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut waiting: Vec<usize> = needs.iter().map(BTreeSet::len).collect();
    let mut dependants: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (index, inside) in needs.iter().enumerate() {
        for need in inside {
            dependants[*need].push(index);
        }
    }
    let mut ready: BTreeSet<usize> = (0..needs.len())
        .filter(|index| waiting[*index] == 0)
        .collect();
    let mut order = Vec::with_capacity(needs.len());
    while let Some(index) = ready.pop_first() {
        order.push(index);
        for dependant in &dependants[index] {
            waiting[*dependant] -= 1;
            if waiting[*dependant] == 0 {
                ready.insert(*dependant);
            }
        }
    }
    if order.len() == needs.len() {
        Ok(order)
    } else {
        Err(cycle(needs, &waiting))
    }
}

/// Follows unmet needs until one repeats: that is a cycle.
fn cycle(needs: &[BTreeSet<usize>], waiting: &[usize]) -> Vec<usize> {
    let mut path: Vec<usize> = Vec::new();
    let mut at = waiting
        .iter()
        .position(|count| *count > 0)
        .expect("a task is left waiting");
    loop {
        if let Some(start) = path.iter().position(|seen| *seen == at) {
            return path.split_off(start);
        }
        path.push(at);
        let unmet = needs[at].iter().find(|need| waiting[**need] > 0);
        at = *unmet.expect("a waiting task waits for another waiting one");
    }
}

fn name_cycle(drafts: &[Draft], cycle: &[usize]) -> Problem {
    let mut ids: Vec<&str> = cycle
        .iter()
        .filter_map(|index| drafts[*index].task.id.as_deref())
        .collect();
    ids.extend(ids.first().copied());
    Problem::at(
        drafts[cycle[0]].line,
        format!(
            "these tasks depend on each other in a cycle: {}",
            ids.join(" → ")
        ),
    )
}

fn chunks(drafts: Vec<Draft>, order: &[usize]) -> Vec<Vec<Draft>> {
    let mut slots: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
    let mut chunks: Vec<Vec<Draft>> = Vec::new();
    let mut bytes = 0;
    for index in order {
        let draft = slots[*index].take().expect("an order names each task once");
        let size =
            draft.task.title.len() + draft.task.description.as_ref().map_or(0, String::len) + 256;
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_MAX && bytes + size <= CHUNK_BYTES_MAX => {
                chunk.push(draft)
            }
            _ => {
                bytes = 0;
                chunks.push(vec![draft]);
            }
        }
        bytes += size;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use switchboard_client::jetpack::NewTask;

    use super::*;

    fn draft(line: usize, id: &str, after: &[&str]) -> Draft {
        let task = NewTask {
            id: (!id.is_empty()).then(|| id.to_owned()),
            title: format!("t{line}"),
            dependencies: after.iter().map(|id| (*id).to_owned()).collect(),
            ..NewTask::default()
        };
        Draft { line, task }
    }

    #[test]
    fn what_others_depend_on_goes_first_and_the_rest_keeps_its_order() {
        let plan = plan(vec![
            draft(1, "", &[]),
            draft(2, "b", &["c"]),
            draft(3, "c", &["elsewhere"]),
            draft(4, "", &[]),
        ])
        .unwrap();
        let lines: Vec<_> = plan.chunks[0].iter().map(|draft| draft.line).collect();
        assert_eq!(lines, [1, 3, 2, 4]);
        assert_eq!(plan.outside, BTreeMap::from([("elsewhere".to_owned(), 3)]));
    }

    #[test]
    fn chunks_hold_at_most_their_bound() {
        for (count, expected) in [
            (0, vec![]),
            (499, vec![499]),
            (500, vec![500]),
            (501, vec![500, 1]),
        ] {
            let plan = plan((1..=count).map(|line| draft(line, "", &[])).collect()).unwrap();
            let sizes: Vec<_> = plan.chunks.iter().map(Vec::len).collect();
            assert_eq!(sizes, expected);
        }
    }

    #[test]
    fn long_descriptions_make_smaller_chunks() {
        let mut drafts: Vec<_> = (1..=10).map(|line| draft(line, "", &[])).collect();
        for draft in &mut drafts {
            draft.task.description = Some("x".repeat(100 * 1024));
        }
        let plan = plan(drafts).unwrap();
        assert_eq!(
            plan.chunks.iter().map(Vec::len).collect::<Vec<_>>(),
            [3, 3, 3, 1]
        );
    }

    #[test]
    fn a_cycle_and_a_repeated_id_are_named() {
        let problems = plan(vec![
            draft(1, "x", &[]),
            draft(2, "a", &["b"]),
            draft(3, "b", &["a"]),
        ])
        .unwrap_err();
        assert_eq!(
            problems[0].to_string(),
            "line 2: these tasks depend on each other in a cycle: a → b → a"
        );
        let problems = plan(vec![draft(1, "a", &["a"])]).unwrap_err();
        assert_eq!(
            problems[0].to_string(),
            "line 1: these tasks depend on each other in a cycle: a → a"
        );
        let problems = plan(vec![draft(1, "a", &[]), draft(5, "a", &[])]).unwrap_err();
        assert_eq!(
            problems[0].to_string(),
            "line 5: id 'a' is already used on line 1"
        );
    }
}
