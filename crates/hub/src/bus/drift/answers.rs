//! Answers that were had before: two generations, so that what is asked for again stays and the rest goes.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Behind;
use crate::git::Sha;

/// Answers of one generation; at most twice as many are kept.
const GENERATION_MAX: usize = 2048;
/// A commit that is unknown now may be fetched at any time.
const STRANGER_FOR: Duration = Duration::from_secs(30);

/// What is known of commits, as long as the main branch stays where it is.
#[derive(Default)]
pub struct Answers {
    young: HashMap<Sha, Answer>,
    old: HashMap<Sha, Answer>,
}

#[derive(Clone, Copy)]
struct Answer {
    behind: Behind,
    had_at: Instant,
}

impl Answers {
    pub fn get(&mut self, sha: &Sha, now: Instant) -> Option<Behind> {
        let (answer, young) = match self.young.get(sha) {
            Some(answer) => (*answer, true),
            None => (*self.old.get(sha)?, false),
        };
        let fresh = match answer.behind {
            Behind::By { .. } => true,
            Behind::Stranger => now.duration_since(answer.had_at) < STRANGER_FOR,
            Behind::Unanswered => false,
        };
        if fresh && !young {
            self.keep(sha.clone(), answer);
        }
        fresh.then_some(answer.behind)
    }

    pub fn put(&mut self, sha: Sha, behind: Behind, now: Instant) {
        self.keep(
            sha,
            Answer {
                behind,
                had_at: now,
            },
        );
    }

    /// The main branch has moved.
    pub fn forget(&mut self) {
        *self = Answers::default();
    }

    fn keep(&mut self, sha: Sha, answer: Answer) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(sha, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(number: usize) -> Sha {
        Sha::parse(&format!("{number:040x}")).unwrap()
    }

    fn by(commits: u32) -> Behind {
        Behind::By {
            commits,
            seconds: 0,
        }
    }

    #[test]
    fn never_more_than_two_generations_are_kept_and_the_last_one_is_whole() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        for number in 0..10 * GENERATION_MAX {
            answers.put(sha(number), by(1), now);
            // What is asked for again and again stays.
            assert!(number < 1 || answers.get(&sha(1), now).is_some());
            assert!(answers.young.len() + answers.old.len() <= 2 * GENERATION_MAX);
        }
        for number in 9 * GENERATION_MAX..10 * GENERATION_MAX {
            assert_eq!(answers.get(&sha(number), now), Some(by(1)));
        }
        assert_eq!(answers.get(&sha(2), now), None);
        answers.forget();
        assert_eq!(answers.get(&sha(1), now), None);
    }

    #[test]
    fn a_stranger_is_asked_for_again_after_a_while() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        answers.put(sha(1), Behind::Stranger, now);
        answers.put(sha(2), by(3), now);
        let later = now + STRANGER_FOR;
        let just_before = later - Duration::from_millis(1);
        assert_eq!(answers.get(&sha(1), just_before), Some(Behind::Stranger));
        assert_eq!(answers.get(&sha(1), later), None);
        assert_eq!(answers.get(&sha(2), later), Some(by(3)));
    }
}
