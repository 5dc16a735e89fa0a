//! What there is to do, and what goes wrong with it: made of a seed, and nothing else.

use switchboard_client::jetpack::{NewTask, Priority, TaskType};

/// Fewer tasks do not hold all that the demo shows.
pub const TASKS_MIN: u16 = 24;
pub const TASKS_MAX: u16 = 1000;
/// The file that two agents want to edit.
const SHARED: &str = "src/lib.rs";

/// What happens to a task on the way, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The first agent that works on it fails.
    Fails,
    /// Its first result has failing tests: the steward sends it back.
    Red,
    /// Its result has a lint error: the steward looks at it and approves.
    Arguable,
    /// It is about the file that another one is about, too.
    Contended,
}

pub struct Plan {
    /// Added at once; a task's fate is told by its place.
    pub tasks: Vec<(NewTask, Option<Fate>)>,
    /// Titles of tasks that are delegated to a role by a message.
    pub delegated: Vec<String>,
    /// Titles of tasks that are published as events of the node.
    pub published: Vec<String>,
}

impl Plan {
    pub fn new(count: u16, seed: u64) -> Plan {
        let mut random = Random::new(seed, "plan");
        let count = usize::from(count);
        let share = |part: usize| count / part;
        let mut plan = Plan {
            tasks: Vec::new(),
            delegated: titles(share(12), &mut random),
            published: titles(share(12), &mut random),
        };
        for at in 0..share(10) {
            plan.add(&["real"], None, &mut random, |task| {
                task.files = vec![format!("work/{at}.txt")];
            });
        }
        for at in 0..share(6).max(4) {
            plan.add(
                &["bus"],
                (at % 4 == 1).then_some(Fate::Fails),
                &mut random,
                |_| {},
            );
        }
        for skill in ["http", "sse", "sql", "libsql", "files"] {
            plan.add(&[skill], None, &mut random, |_| {});
        }
        for fate in [Fate::Contended, Fate::Contended, Fate::Red, Fate::Arguable] {
            plan.add(&["edit"], Some(fate), &mut random, |task| match fate {
                Fate::Contended => {
                    task.priority = Some(Priority::Critical);
                    task.files = vec![SHARED.to_owned()];
                }
                Fate::Red | Fate::Arguable | Fate::Fails => task.priority = Some(Priority::High),
            });
        }
        let fixed = plan.delegated.len() + plan.published.len();
        let mut at = 0;
        while plan.tasks.len() + fixed < count {
            // The rest is for anybody, in an order that dependencies make.
            plan.add(
                &["any"],
                (at % 10 == 0).then_some(Fate::Fails),
                &mut random,
                |_| {},
            );
            at += 1;
        }
        plan
    }

    /// All tasks that there will be.
    pub fn count(&self) -> usize {
        self.tasks.len() + self.delegated.len() + self.published.len()
    }

    fn add(
        &mut self,
        skills: &[&str],
        fate: Option<Fate>,
        random: &mut Random,
        change: impl FnOnce(&mut NewTask),
    ) {
        let mut task = NewTask {
            id: Some(format!("demo-{}", self.tasks.len() + 1)),
            title: title(random),
            kind: Some(TaskType::Code),
            required_skills: skills.iter().map(|skill| (*skill).to_owned()).collect(),
            ..NewTask::default()
        };
        let (earlier, is_free) = (self.tasks.len() as u64, skills == ["any"]);
        if is_free && random.below(10) < 6 {
            let mut on = vec![random.below(earlier), random.below(earlier)];
            on.sort_unstable();
            on.dedup();
            task.dependencies = on.iter().map(|at| format!("demo-{}", at + 1)).collect();
        }
        change(&mut task);
        self.tasks.push((task, fate));
    }
}

const VERBS: [&str; 8] = [
    "Fix",
    "Test",
    "Document",
    "Speed up",
    "Simplify",
    "Review",
    "Extend",
    "Translate",
];
const THINGS: [&str; 12] = [
    "parser",
    "cache",
    "login page",
    "importer",
    "scheduler",
    "index",
    "settings",
    "exporter",
    "search",
    "mailer",
    "report",
    "installer",
];

fn title(random: &mut Random) -> String {
    let mut word = |words: &[&'static str]| words[random.below(words.len() as u64) as usize];
    format!("{} the {}", word(&VERBS), word(&THINGS))
}

fn titles(count: usize, random: &mut Random) -> Vec<String> {
    (0..count.max(1)).map(|_| title(random)).collect()
}

/// Numbers that a seed and a name decide.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, name: &str) -> Random {
        let letters = name.bytes().map(u64::from);
        Random(letters.fold(seed, |sum, letter| {
            sum.wrapping_mul(31).wrapping_add(letter)
        }))
    }

    /// Of the numbers below `bound`, which is above zero; by splitmix64.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_as_many_tasks_as_were_asked_for_and_all_that_is_shown() {
        for count in [TASKS_MIN, 60, TASKS_MAX] {
            for seed in 0..20 {
                let plan = Plan::new(count, seed);
                assert_eq!(plan.count(), usize::from(count));
                for (fate, least) in [
                    (Fate::Fails, 2),
                    (Fate::Red, 1),
                    (Fate::Arguable, 1),
                    (Fate::Contended, 2),
                ] {
                    let found = plan.tasks.iter().filter(|(_, it)| *it == Some(fate));
                    assert!(found.count() >= least, "{fate:?} of {count} by {seed}");
                }
                assert!(!plan.delegated.is_empty() && !plan.published.is_empty());
                let waits = |(task, _): &&(NewTask, _)| !task.dependencies.is_empty();
                assert!(count < 60 || plan.tasks.iter().any(|it| waits(&it)));
            }
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_plan_and_another_another() {
        let print = |seed| {
            let plan = Plan::new(60, seed);
            let tasks = plan.tasks.iter();
            tasks
                .map(|(task, fate)| format!("{task:?} {fate:?}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(print(1), print(1));
        assert_ne!(print(1), print(2));
    }
}
