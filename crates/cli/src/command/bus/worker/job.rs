//! A task at work, and what is heard of it.

use switchboard_wire::agentbus::message::{Accomplished, TaskAssigned, WorkerState};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Notes that wait to be read; the work waits with them.
const NOTES_MAX: usize = 64;

/// The one task that the worker is at. Dropped, its work is ended.
pub struct Job {
    pub task: TaskAssigned,
    notes: mpsc::Receiver<Note>,
    stop: Option<oneshot::Sender<()>>,
    work: JoinHandle<()>,
}

/// What the work says.
pub enum Note {
    /// It is at another place.
    At(WorkerState<'static>),
    /// It printed a line.
    Output(String),
    Ended(Outcome),
}

pub enum Outcome {
    Done(Accomplished),
    Failed(Mishap),
}

/// What went wrong.
#[derive(Debug, Default)]
pub struct Mishap {
    pub error_type: String,
    pub message: String,
    pub is_transient: bool,
    pub should_retry: bool,
    pub exit_code: Option<i64>,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
}

/// The work's end of the notes.
pub type Notes = mpsc::Sender<Note>;
/// Rings when the work is to be ended politely.
pub type Stop = oneshot::Receiver<()>;

impl Job {
    /// Starts the work; whatever it comes to is its last note.
    pub fn start<W>(task: TaskAssigned, work: impl FnOnce(Notes, Stop) -> W) -> Self
    where
        W: Future<Output = Outcome> + Send + 'static,
    {
        let (to_bench, notes) = mpsc::channel(NOTES_MAX);
        let (stop, stopping) = oneshot::channel();
        let working = work(to_bench.clone(), stopping);
        let work = tokio::spawn(async move {
            let outcome = working.await;
            // If nobody reads it, the task was taken away.
            let _ = to_bench.send(Note::Ended(outcome)).await;
        });
        Self {
            task,
            notes,
            stop: Some(stop),
            work,
        }
    }

    /// The next note; never one without a job.
    pub async fn next(job: &mut Option<Job>) -> Note {
        match job {
            Some(job) => match job.notes.recv().await {
                Some(note) => note,
                None => Note::Ended(Outcome::Failed(Mishap {
                    error_type: "worker_crashed".to_owned(),
                    message: "the work ended unexpectedly".to_owned(),
                    ..Mishap::default()
                })),
            },
            None => std::future::pending().await,
        }
    }

    /// Ends the work politely.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            // If it does not listen any more, it has ended.
            let _ = stop.send(());
        }
        while let Some(note) = self.notes.recv().await {
            if let Note::Ended(_) = note {
                return;
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.work.abort();
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn task(issue_number: u64) -> TaskAssigned {
        TaskAssigned {
            issue_number,
            task_id: "tsk_1".to_owned(),
            epoch: 4,
            attempt: 2,
            title: "Fix the parser".to_owned(),
            description: "It stumbles.".to_owned(),
            files: Vec::new(),
            branch: None,
            deadline: None,
            corr_id: None,
            resumed: false,
            redacted: 0,
            part: 0,
            parts: 1,
        }
    }

    /// Everything up to the end.
    pub async fn all(job: Job) -> (Vec<Note>, Outcome) {
        let mut job = Some(job);
        let mut notes = Vec::new();
        loop {
            match Job::next(&mut job).await {
                Note::Ended(outcome) => return (notes, outcome),
                note => notes.push(note),
            }
        }
    }
}
