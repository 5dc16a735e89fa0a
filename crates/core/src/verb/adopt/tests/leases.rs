//! Leases that a hand has taken, renewed, passed on or dropped.

use std::time::Duration;

use super::*;
use crate::limits;

const PATH: &str = "src/a.rs";

/// A holds T; nobody has a lease.
fn stage() -> Swarm {
    Swarm::with_task(TaskStatus::Claimed)
}

/// A row as a hand inserts it: no fencing, no rev.
fn row(swarm: &Swarm, agent: &str, lasts_for: Duration) -> Lease {
    Lease {
        path: LeasePath::stored(PATH),
        spelled: None,
        agent: agent.into(),
        task: None,
        acquired_at: swarm.now,
        expires_at: swarm.now + lasts_for,
        renewals: 0,
        fencing: 0,
        rev: 0,
    }
}

/// A hand writes this agent's lease on the path.
fn write(swarm: &mut Swarm, agent: &str, seconds: u64) -> Result<(), Refusal> {
    let is = row(swarm, agent, Duration::from_secs(seconds));
    let written = swarm.lease_by_hand(PATH, Some(is));
    swarm.adopt(written)
}

fn lease(swarm: &Swarm) -> &Lease {
    &swarm.leases[&LeasePath::stored(PATH)]
}

#[test]
fn a_lease_taken_by_hand_is_granted_under_a_fencing_token_of_the_hub() {
    let mut swarm = stage();
    swarm.lease("B", "docs", None);
    swarm.wait(Duration::from_secs(1));
    assert_eq!(write(&mut swarm, "A", 600), Ok(()));
    assert_eq!(swarm.said(), ["lease_acquired"]);
    let lease = lease(&swarm);
    assert_eq!((&lease.agent, lease.renewals), (&"A".into(), 0));
    assert_eq!(lease.fencing, 2);
    assert_eq!(lease.acquired_at, swarm.now);
    assert_eq!(lease.expires_at, swarm.now + Duration::from_secs(600));
    assert!(lease.rev > 0);
    assert_eq!(swarm.agent("A").seen_at, swarm.now);
}

#[test]
fn a_lease_taken_by_hand_for_a_task_ends_with_it() {
    let mut swarm = stage();
    let is = Lease {
        task: Some("T".into()),
        ..row(&swarm, "A", Duration::from_secs(600))
    };
    let written = swarm.lease_by_hand(PATH, Some(is));
    assert_eq!(swarm.adopt(written), Ok(()));
    set(&mut swarm, "completed").expect("A holds T");
    assert_eq!(swarm.said(), ["lease_released", "task_completed"]);
    assert!(swarm.leases.is_empty());
}

#[test]
fn a_lease_renewed_by_hand_lasts_longer_and_never_shorter() {
    let mut swarm = stage();
    swarm.lease("A", PATH, None);
    let before = lease(&swarm).clone();
    let table = [(300, 600), (900, 900)];
    for (at, (seconds, lasts)) in table.into_iter().enumerate() {
        assert_eq!(write(&mut swarm, "A", seconds), Ok(()));
        assert_eq!(swarm.said(), ["lease_extended"]);
        let lease = lease(&swarm);
        assert_eq!(lease.expires_at, swarm.now + Duration::from_secs(lasts));
        assert_eq!(lease.renewals as usize, at + 1);
        assert_eq!(lease.fencing, before.fencing);
        assert_eq!(lease.acquired_at, before.acquired_at);
    }
}

#[test]
fn a_lease_that_ran_out_is_passed_on_by_hand() {
    let mut swarm = stage();
    swarm.lease("A", PATH, None);
    swarm.wait(Duration::from_secs(600));
    assert_eq!(write(&mut swarm, "B", 60), Ok(()));
    assert_eq!(swarm.said(), ["lease_expired", "lease_acquired"]);
    assert_eq!(swarm.leased(), [(PATH, "B")]);
    assert_eq!(lease(&swarm).fencing, 2);

    // And taken again by the one that had it.
    swarm.wait(Duration::from_secs(60));
    assert_eq!(write(&mut swarm, "B", 60), Ok(()));
    assert_eq!(swarm.said(), ["lease_expired", "lease_acquired"]);
    assert_eq!(lease(&swarm).fencing, 3);
}

#[test]
fn a_lease_deleted_by_hand_is_released() {
    for (waited, said) in [(0, "lease_released"), (600, "lease_expired")] {
        let mut swarm = stage();
        swarm.lease("A", PATH, None);
        swarm.wait(Duration::from_secs(waited));
        let written = swarm.lease_by_hand(PATH, None);
        let again = written.clone();
        assert_eq!(swarm.adopt(written), Ok(()));
        assert_eq!(swarm.said(), [said]);
        assert!(swarm.leases.is_empty());

        // The hub may have ended it first.
        assert_eq!(swarm.adopt(again), Ok(()));
        assert!(swarm.said().is_empty());
    }
}

#[test]
fn a_lease_by_hand_that_another_covers_is_undone() {
    for held in ["src", "src/*.rs", "**/a.rs"] {
        let mut swarm = stage();
        swarm.lease("B", held, None);
        assert_eq!(word(&write(&mut swarm, "A", 600)), "invalid", "{held}");
        assert_eq!(swarm.said(), ["write_undone"], "{held}");
        assert_eq!(swarm.leased(), [(held, "B")]);
    }
}

#[test]
fn a_lease_by_hand_never_takes_one_that_has_not_run_out() {
    let mut swarm = stage();
    swarm.lease("B", PATH, None);
    let before = lease(&swarm).clone();
    // The hand saw no row; the hub was first.
    let written = Written::Lease {
        path: LeasePath::stored(PATH),
        was: None,
        is: Some(row(&swarm, "A", Duration::from_secs(600))),
    };
    assert_eq!(word(&swarm.adopt(written)), "invalid");
    assert_undone(&swarm, (&before, lease(&swarm)), |lease| &mut lease.rev);
}

#[test]
fn a_lease_by_hand_for_a_task_or_an_agent_that_may_not_have_it_is_undone() {
    let table = [
        ("B", Some("T"), "not_holder"),
        ("A", Some("nothing"), "task_not_found"),
        ("nobody", None, "agent_not_registered"),
    ];
    for (agent, task, expected) in table {
        let mut swarm = stage();
        let is = Lease {
            task: task.map(TaskId::from),
            ..row(&swarm, agent, Duration::from_secs(600))
        };
        let written = swarm.lease_by_hand(PATH, Some(is));
        assert_eq!(word(&swarm.adopt(written)), expected);
        assert_eq!(swarm.said(), ["write_undone"]);
        assert!(swarm.leases.is_empty());
    }
}

#[test]
fn a_lease_by_hand_lasts_an_hour_at_most() {
    let max = limits::LEASE_FOR_MAX;
    let step = Duration::from_millis(1);
    for (asked, expected) in [(max - step, max - step), (max, max), (max + step, max)] {
        let mut swarm = stage();
        let is = row(&swarm, "A", asked);
        let written = swarm.lease_by_hand(PATH, Some(is));
        assert_eq!(swarm.adopt(written), Ok(()));
        assert_eq!(lease(&swarm).expires_at, swarm.now + expected);
    }
}

#[test]
fn a_lease_that_ran_out_before_the_hub_saw_it_keeps_nobody_away() {
    let mut swarm = stage();
    let is = row(&swarm, "A", Duration::from_secs(60));
    swarm.wait(Duration::from_secs(120));
    let written = swarm.lease_by_hand(PATH, Some(is));
    assert_eq!(swarm.adopt(written), Ok(()));
    swarm.wait(Duration::from_millis(1));
    assert_eq!(write(&mut swarm, "B", 60), Ok(()));
    assert_eq!(swarm.leased(), [(PATH, "B")]);
}

#[test]
fn leases_by_hand_stop_at_the_bound_of_one_agent() {
    let max = limits::LEASES_PER_AGENT_MAX;
    let mut swarm = stage();
    for n in 0..=max {
        let path = format!("src/{n}.rs");
        let is = Lease {
            path: LeasePath::stored(&path),
            spelled: None,
            ..row(&swarm, "A", Duration::from_secs(60))
        };
        let written = swarm.lease_by_hand(&path, Some(is));
        let expected = if n < max { "ok" } else { "too_many" };
        assert_eq!(word(&swarm.adopt(written)), expected, "{n}");
    }
    assert_eq!(swarm.leases.len(), max);
}
