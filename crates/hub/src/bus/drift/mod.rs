//! How far a worker has drifted from the main branch: what the project's git repository says, and what follows from it.
//!
//! One task asks git, one command at a time. [`Drift`] is the handle to it; [`Policy`] and [`Told`] are pure.

mod answers;
mod policy;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::config::SyncMain;
use crate::git::{self, Git, Sha};
use answers::Answers;
pub use policy::{Expected, Finding, Policy, Seen, Told, Verdict};

/// How often the head of the main branch is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often, while there is nothing to be seen.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The hub does not wait longer for the first look before it serves.
const FIRST_LOOK_WITHIN: Duration = Duration::from_secs(2);
/// Questions that may wait; past it they are answered that nobody knows.
const QUESTIONS_MAX: usize = 1024;
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The main branch as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Main {
    pub sha: String,
    /// The committer's time, in seconds since 1970.
    committed_at: i64,
}

/// How far behind the main branch a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    By {
        commits: u32,
        /// Between the heads of both: when main's was committed, and when the commit they share was.
        seconds: u64,
    },
    /// The repository does not know the commit, or nothing connects it with main.
    Stranger,
    /// There is no repository, or it did not answer: nothing is known.
    Unanswered,
}

/// A cheap handle; the task behind it ends with the last one.
#[derive(Clone)]
pub struct Drift {
    shared: Arc<DriftState>,
    ask: mpsc::Sender<Question>,
    main: watch::Receiver<Option<Main>>,
}

struct DriftState {
    answers: Mutex<Answers>,
}

struct Question {
    sha: Sha,
    answer: oneshot::Sender<Behind>,
}

impl Drift {
    /// Looks at the repository once, for a moment at most, and from then on in the background.
    pub async fn start(settings: &SyncMain) -> Drift {
        let git = Git::new(settings.repository.clone());
        Self::start_with(git, settings.branch.clone(), LOOK_EVERY).await
    }

    async fn start_with(git: Git, branch: String, look_every: Duration) -> Drift {
        let (ask, questions) = mpsc::channel(QUESTIONS_MAX);
        let (seen, main) = watch::channel(None);
        let (looked, first) = oneshot::channel();
        let shared = Arc::new(DriftState {
            answers: Mutex::new(Answers::default()),
        });
        let looker = Looker {
            git,
            branch,
            look_every,
            shared: Arc::clone(&shared),
            main: seen,
            ailing: None,
            unanswered: None,
        };
        tokio::spawn(looker.run(questions, looked));
        // Whatever it found, or did not find in time, is seen through the channel.
        let _ = timeout(FIRST_LOOK_WITHIN, first).await;
        Drift { shared, ask, main }
    }

    /// The head of the main branch as it was last seen; a repository that fails later does not unsay it.
    pub fn main_sha(&self) -> Option<String> {
        self.main.borrow().as_ref().map(|main| main.sha.clone())
    }

    /// Wakes whoever waits for the main branch to move.
    pub fn watch(&self) -> watch::Receiver<Option<Main>> {
        self.main.clone()
    }

    /// How far behind the main branch this commit is. Known answers come at once, others when git has been asked.
    pub async fn behind(&self, sha: &str) -> Behind {
        let Some(sha) = Sha::parse(sha) else {
            return Behind::Stranger;
        };
        if let Some(known) = self.shared.answers.lock().get(&sha, Instant::now()) {
            return known;
        }
        let (answer, answered) = oneshot::channel();
        if self.ask.try_send(Question { sha, answer }).is_err() {
            return Behind::Unanswered;
        }
        match timeout(ANSWER_WITHIN, answered).await {
            Ok(Ok(behind)) => behind,
            Ok(Err(_)) | Err(_) => Behind::Unanswered,
        }
    }
}

/// The task that asks git.
struct Looker {
    git: Git,
    branch: String,
    look_every: Duration,
    shared: Arc<DriftState>,
    main: watch::Sender<Option<Main>>,
    /// Why main cannot be seen, so that it is said once.
    ailing: Option<String>,
    /// Why a question was last left unanswered, likewise.
    unanswered: Option<String>,
}

impl Looker {
    async fn run(mut self, mut questions: mpsc::Receiver<Question>, looked: oneshot::Sender<()>) {
        let mut look_at = self.look().await;
        let _ = looked.send(());
        loop {
            tokio::select! {
                biased;
                // First, so that no number of questions keeps it from looking.
                () = sleep_until(look_at) => look_at = self.look().await,
                question = questions.recv() => match question {
                    Some(question) if question.answer.is_closed() => {}
                    Some(Question { sha, answer }) => {
                        // Whoever asked may have gone.
                        let _ = answer.send(self.answer(&sha).await);
                    }
                    None => return,
                },
            }
        }
    }

    /// Returns when to look again.
    async fn look(&mut self) -> Instant {
        let head = self.head().await;
        match head {
            Ok(main) => {
                self.well();
                let moved = self.main.send_if_modified(|known| {
                    let moved = known.as_ref() != Some(&main);
                    *known = Some(main);
                    moved
                });
                if moved {
                    self.shared.answers.lock().forget();
                }
                Instant::now() + self.look_every
            }
            Err(error) => {
                self.ail(&error);
                Instant::now() + LOOK_AGAIN
            }
        }
    }

    async fn head(&mut self) -> Result<Main, git::Failed> {
        let sha = self.git.branch(&self.branch).await?;
        let known = self.main.borrow().clone();
        if let Some(main) = known.filter(|main| main.sha == sha.as_str()) {
            return Ok(main);
        }
        let committed_at = self.git.committed_at(&sha).await?;
        Ok(Main {
            sha: sha.as_str().to_owned(),
            committed_at,
        })
    }

    async fn answer(&mut self, sha: &Sha) -> Behind {
        let known = self.shared.answers.lock().get(sha, Instant::now());
        if let Some(known) = known {
            return known;
        }
        let Some(main) = self.main.borrow().clone() else {
            return Behind::Unanswered;
        };
        match self.measure(sha, &main).await {
            Ok(behind) => {
                let mut answers = self.shared.answers.lock();
                answers.put(sha.clone(), behind, Instant::now());
                behind
            }
            Err(error) => {
                self.leave_unanswered(&error);
                Behind::Unanswered
            }
        }
    }

    async fn measure(&mut self, sha: &Sha, main: &Main) -> Result<Behind, git::Failed> {
        let head = Sha::parse(&main.sha).expect("git named it");
        if !self.git.knows(sha).await? {
            return Ok(Behind::Stranger);
        }
        let commits = self.git.count_missing(sha, &head).await?;
        if commits == 0 {
            return Ok(Behind::By {
                commits,
                seconds: 0,
            });
        }
        // What the worker calls its ancestor is checked: it may have commits of its own.
        let Some(shared) = self.git.merge_base(sha, &head).await? else {
            return Ok(Behind::Stranger);
        };
        let shared_at = self.git.committed_at(&shared).await?;
        let seconds = main.committed_at.saturating_sub(shared_at);
        Ok(Behind::By {
            commits,
            seconds: u64::try_from(seconds).unwrap_or(0),
        })
    }

    fn ail(&mut self, error: &git::Failed) {
        let said = error.to_string();
        if self.ailing.as_ref() != Some(&said) {
            tracing::info!("workers are not compared with the main branch: {said}");
            self.ailing = Some(said);
        }
    }

    fn leave_unanswered(&mut self, error: &git::Failed) {
        let said = error.to_string();
        if self.unanswered.as_ref() != Some(&said) {
            tracing::info!("a worker cannot be compared with the main branch: {said}");
            self.unanswered = Some(said);
        }
    }

    fn well(&mut self) {
        if self.ailing.take().is_some() {
            tracing::info!("workers are compared with the main branch again");
        }
    }
}
