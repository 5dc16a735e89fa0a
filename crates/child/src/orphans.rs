//! Processes that outlived who started them, found by the run id in their environment (Linux; elsewhere none is found).
//!
//! A run id is noted durably before anything is started under it; whoever starts next ends what still carries it.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::time::Instant;

use crate::RUN_ID;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What has not died of SIGKILL by then cannot be ended.
const BURIED_WITHIN: Duration = Duration::from_secs(5);

/// Every process but ours that carries one of these ids. One that has ended and was not buried carries nothing.
pub fn carriers(run_ids: &[&str]) -> HashSet<Pid> {
    let marks: Vec<Vec<u8>> = run_ids
        .iter()
        .map(|id| format!("{RUN_ID}={id}").into_bytes())
        .collect();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        // One that is not ours to read, or is gone, is none of ours.
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut set = environ.split(|byte| *byte == 0);
        !marks.is_empty() && set.any(|one| marks.iter().any(|mark| mark == one))
    })
    .filter_map(Pid::from_raw)
    .filter(|pid| *pid != getpid())
    .collect()
}

/// Ends whatever carries one of these ids, politely first. Says how many there were, and how many are still there.
pub async fn end(run_ids: &[&str], grace: Duration) -> (usize, usize) {
    let began = Instant::now();
    let mut seen = HashSet::new();
    loop {
        let left = carriers(run_ids);
        let is_patient = began.elapsed() < grace;
        if left.is_empty() || began.elapsed() > grace + BURIED_WITHIN {
            seen.extend(left.iter().copied());
            return (seen.len(), left.len());
        }
        for pid in left {
            let is_new = seen.insert(pid);
            let signal = match is_patient {
                true if is_new => Signal::TERM,
                true => continue,
                false => Signal::KILL,
            };
            // One that is gone needs no signal.
            let _ = kill_process(pid, signal);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
