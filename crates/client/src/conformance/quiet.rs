//! Two nodes that have nothing to say are silent.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::findings::Told;
use super::probe::Probe;

/// The hub has said what it had to, after it was silent for so long.
const SETTLED_FOR: Duration = Duration::from_millis(600);
const SETTLES_WITHIN: Duration = Duration::from_secs(5);
/// Then it is listened to.
const LISTENED_FOR: Duration = Duration::from_millis(1500);

/// What asks for an answer is not published here; acks, signals and reading ask for none.
pub async fn tell(probe: &Probe) -> Told {
    let main = &probe.main;
    main.announce(&[&probe.name("idle")]).await?;
    let nothing =
        json!({ "eventId": "evt_of_nobody", "kind": "message", "corrId": "corr_of_nobody" });
    main.ack(&nothing, "accepted", &probe.name("idle"), json!({}))
        .await?;
    let until = Instant::now() + SETTLES_WITHIN;
    let mut seen = probe.log.len();
    loop {
        sleep(SETTLED_FOR).await;
        let now = probe.log.len();
        if now == seen || Instant::now() >= until {
            break;
        }
        seen = now;
    }
    sleep(LISTENED_FOR).await;
    // What agents say to each other is none of the checker's.
    let of_agents = [
        "message",
        "reply",
        "task_create",
        "task_update",
        "task_accept",
    ];
    let all = probe.log.all();
    let said: Vec<&Value> = all
        .iter()
        .skip(seen)
        .filter(|event| !of_agents.iter().any(|kind| event["kind"] == *kind))
        .chain(all.iter().filter(|event| {
            event["kind"] == "ack" && event["payload"]["ackedByNodeId"] == *main.hub()
        }))
        .collect();
    probe.findings.judge(
        "runtime.plane.quiet",
        said.is_empty(),
        "a signal, an ack, and calls that read the outbox",
        json!(said),
        "no event: acks, signals and cursors are not answered",
    );
    Ok(())
}
