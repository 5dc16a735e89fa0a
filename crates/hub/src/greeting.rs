//! What `up` says at a terminal: where everything is and what to try, then a line for each thing that matters.
//!
//! Whoever is no person at a terminal gets the doors' lines alone, and reads the event log.

use std::path::Path;
use std::time::Duration;

use switchboard_core::{Event, limits};
use tokio::time::sleep;

use crate::hub::Hub;

/// Between two looks at the log.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Lines after one look; more are counted.
const LINES_MAX: usize = 20;

/// The first screen. `said` is what the doors say of themselves, the one that everyone uses last.
pub(crate) fn text(said: &[String], data_dir: &Path, has_bus: bool, command: &str) -> String {
    let mut text = format!("\nSwitchboard {}\n\n", env!("CARGO_PKG_VERSION"));
    for line in said.iter().rev().flat_map(|said| said.lines()) {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!("  its state is in {}\n", data_dir.display()));
    text.push_str("\nTry this in another terminal:\n\n");
    let worker = has_bus.then_some("bus worker");
    for rest in [Some("task add 'Say hello'"), worker, Some("status --watch")] {
        text.extend(rest.map(|rest| format!("  {command} {rest}\n")));
    }
    text.push_str("\nCtrl-C stops the hub; everything it acknowledged is on disk.\n");
    text
}

/// Tells what matters as it happens, until the hub stops.
pub(crate) async fn follow(hub: Hub) {
    let mut latest = hub.latest();
    let mut after = *latest.borrow_and_update();
    while latest.changed().await.is_ok() {
        sleep(LOOK_EVERY).await;
        // A ledger that lost events has their numbers before it again.
        after = after.min(*latest.borrow_and_update());
        let mut lines = Vec::new();
        let mut more = 0;
        loop {
            let read = hub.read(move |ledger| ledger.events(after, limits::PAGE_MAX));
            let Ok(events) = read.await else { break };
            let Some(last) = events.last() else { break };
            after = last.seq;
            for line in events.iter().filter_map(|logged| line(&logged.event)) {
                match lines.len() < LINES_MAX {
                    true => lines.push(line),
                    false => more += 1,
                }
            }
        }
        for line in lines {
            tracing::info!("{line}");
        }
        if more > 0 {
            tracing::info!("and {more} more; see 'switchboard events'");
        }
    }
}

/// An event as a person wants to hear of it, if at all.
fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::AgentRegistered { agent, resumed } if !resumed => format!("{agent} joined"),
        Event::AgentSilent { agent } => format!("{agent} is offline: it has been silent too long"),
        Event::AgentReturned { agent } => format!("{agent} is back"),
        Event::AgentDeregistered { agent } => format!("{agent} left"),
        Event::TaskCompleted { number, agent, .. } => format!("{agent} completed task #{number}"),
        Event::TaskNeedsPerson { number, why, .. } => {
            format!("task #{number} waits for a person: {why}")
        }
        Event::TaskRetryPlanned {
            number, message, ..
        } => format!("task #{number} failed and is tried again: {message}"),
        Event::TaskFailed {
            number, message, ..
        } => format!("task #{number} failed: {message}"),
        Event::NodeJoined { node, .. } => format!("node {node} joined"),
        Event::NodeLeft { node, .. } => format!("node {node} left"),
        Event::IncidentOpened { message, .. } => format!("incident: {message}"),
        Event::DirectorSteered { by, order, reason } if reason.is_empty() => {
            format!("{by}: {order}")
        }
        Event::DirectorSteered { by, order, reason } => format!("{by}: {order} ({reason})"),
        Event::ReleasePublished { by, release, .. } => format!("{by} published {release}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_says_where_what_and_how_to_stop() {
        let said = ["switchboard serves http://127.0.0.1:7373".to_owned()];
        let dir = Path::new("/p/.switchboard");
        let with_bus = text(&said, dir, true, "sb");
        for part in [
            "serves http://127.0.0.1:7373\n",
            "/p/.switchboard\n",
            "  sb task add 'Say hello'\n",
            "  sb bus worker\n",
            "  sb status --watch\n",
            "Ctrl-C stops",
        ] {
            assert!(with_bus.contains(part), "{part}: {with_bus}");
        }
        assert!(with_bus.lines().all(|line| line.len() <= 120));
        assert!(!text(&said, dir, false, "sb").contains("bus worker"));
    }

    #[test]
    fn what_matters_is_told_and_the_rest_is_not() {
        let joins = |resumed| Event::AgentRegistered {
            agent: "ann".into(),
            resumed,
        };
        assert_eq!(line(&joins(false)).as_deref(), Some("ann joined"));
        assert_eq!(line(&joins(true)), None);
        let failed = Event::TaskFailed {
            task: "t".into(),
            number: 7,
            kind: switchboard_core::FailureKind::TaskError,
            message: "2 tests failed".to_owned(),
        };
        let told = line(&failed);
        assert_eq!(told.as_deref(), Some("task #7 failed: 2 tests failed"));
        let claimed = Event::TaskClaimed {
            task: "t".into(),
            number: 7,
            agent: "ann".into(),
            epoch: 1,
        };
        assert_eq!(line(&claimed), None);
    }
}
