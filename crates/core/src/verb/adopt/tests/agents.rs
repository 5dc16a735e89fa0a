//! Agents that a hand has inserted, changed or deleted.

use std::time::Duration;

use super::*;
use crate::agent::{AgentKind, Current, Doing, Machine, Presence};
use crate::message::To;
use crate::task::Phase;
use crate::verb::testing::{Standing, register, send};
use crate::{Skills, limits};

/// A row as a hand inserts it.
fn row(id: &str, pid: Option<u32>) -> Agent {
    let mut scratch = Swarm::new();
    scratch.join("scratch", &["rust"]);
    let machine = pid.map(|pid| Machine {
        id: "box".to_owned(),
        hostname: "box.local".to_owned(),
        pid,
    });
    Agent {
        id: id.into(),
        name: format!("{id} by hand"),
        machine,
        rev: 0,
        ..scratch.agent("scratch").clone()
    }
}

/// An insert, over the row that is there if its agent lives.
fn inserted(swarm: &Swarm, is: Agent) -> Written {
    let was = swarm.agents.get(&is.id).cloned();
    Written::Agent {
        id: is.id.clone(),
        was: was.filter(Agent::is_live).map(Box::new),
        is: Some(is.into()),
        how: AgentWritten::Inserted,
    }
}

fn deleted(swarm: &Swarm, id: &str) -> Written {
    Written::Agent {
        id: id.into(),
        was: swarm.agents.get(&AgentId::from(id)).cloned().map(Box::new),
        is: None,
        how: AgentWritten::Changed,
    }
}

/// A holds T, with a lease for it; it runs as process 1 of "box".
fn at_work() -> Swarm {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    swarm.lease("A", "src/a.rs", Some("T"));
    swarm
}

const LET_GO: [&str; 4] = [
    "lease_released",
    "task_requeued",
    "task_ready",
    "agent_deregistered",
];

#[test]
fn an_agent_inserted_by_hand_is_registered() {
    let mut swarm = Swarm::new();
    let written = inserted(&swarm, row("A", None));
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(swarm.said(), ["agent_registered"]);
    let agent = swarm.agent("A");
    assert_eq!(agent.presence, Presence::Live(Doing::Idle));
    assert_eq!((agent.name.as_str(), &agent.machine), ("A by hand", &None));
    assert_eq!(agent.skills, Skills::new(["rust"]));
    assert_eq!((agent.registered_at, agent.seen_at), (swarm.now, swarm.now));
    assert!(agent.rev > 0);
}

#[test]
fn an_agent_inserted_as_offline_has_been_here() {
    let mut swarm = Swarm::new();
    let mut is = row("A", None);
    is.presence = Presence::Gone { at: Timestamp(0) };
    let written = inserted(&swarm, is);
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(swarm.said(), ["agent_registered", "agent_deregistered"]);
    assert!(swarm.agent("A").is_gone());
}

#[test]
fn an_agent_inserted_under_a_reserved_id_leaves_no_row() {
    for id in [crate::HUB, "Switchboard", "ste\u{200b}ward"] {
        let mut swarm = Swarm::new();
        let written = inserted(&swarm, row(id, None));
        assert_eq!(word(&swarm.adopt(written)), "invalid", "{id:?}");
        assert_eq!(swarm.said(), ["write_undone"]);
        assert!(swarm.agents.is_empty());
    }
}

#[test]
fn an_agent_that_comes_back_by_hand_has_its_counters_and_its_messages() {
    let mut swarm = Swarm::with_task(TaskStatus::Completed);
    swarm.ok(send("M", "B", Some("A")));
    swarm.ok(crate::verb::Deregister { agent: "A".into() });
    let written = inserted(&swarm, row("A", Some(2)));
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(swarm.said(), ["agent_registered"]);
    let agent = swarm.agent("A");
    assert!(agent.is_live());
    assert_eq!((agent.completed, agent.inbox), (1, 1));
}

#[test]
fn the_id_of_a_silent_agent_is_free_for_a_hand() {
    for (pid, resumed) in [(Some(1), true), (Some(2), false), (None, false)] {
        let mut swarm = Swarm::with_agent(Standing::Silent);
        let written = inserted(&swarm, row("A", pid));
        assert_eq!(swarm.adopt(written), Ok(()));
        let agent = AgentId::from("A");
        assert_eq!(swarm.said, [Event::AgentRegistered { agent, resumed }]);
        assert!(swarm.agent("A").is_live());
    }
}

#[test]
fn an_agent_that_replaces_its_own_row_keeps_what_it_holds() {
    // The same process, or one that says nothing of its process.
    for pid in [Some(1), None] {
        let mut swarm = at_work();
        let machine = swarm.agent("A").machine.clone();
        swarm.wait(Duration::from_secs(1));
        let written = inserted(&swarm, row("A", pid));
        assert_eq!(swarm.adopt(written), Ok(()));
        assert!(swarm.said().is_empty(), "{pid:?}: {:?}", swarm.said());
        let agent = swarm.agent("A");
        assert_eq!(agent.name, "A by hand");
        assert_eq!(agent.machine, machine, "{pid:?}");
        assert_eq!(agent.holds, ["T".into()]);
        assert_eq!(agent.status(), "busy", "{pid:?}");
        assert_eq!(agent.seen_at, swarm.now);
        assert_eq!(swarm.leased(), [("src/a.rs", "A")]);
        // So the process may still register again over another door.
        assert!(swarm.ok(register("A", &[])).resumed, "{pid:?}");
    }
}

#[test]
fn an_agent_replaced_by_another_process_starts_anew() {
    let mut swarm = at_work();
    let written = inserted(&swarm, row("A", Some(2)));
    assert_eq!(swarm.adopt(written), Ok(()));
    let said: Vec<&str> = LET_GO.into_iter().chain(["agent_registered"]).collect();
    assert_eq!(swarm.said(), said);
    assert_eq!(swarm.agent("A").status(), "idle");
    assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
    assert_eq!(swarm.task("T").retries, 0);
    assert!(swarm.leases.is_empty());

    // A process where none was known is another one.
    let mut swarm = Swarm::new();
    for (pid, said) in [
        (None, &["agent_registered"][..]),
        (Some(1), &["agent_deregistered", "agent_registered"]),
    ] {
        let written = inserted(&swarm, row("A", pid));
        assert_eq!(swarm.adopt(written), Ok(()));
        assert_eq!(swarm.said(), said, "{pid:?}");
    }
}

#[test]
fn a_heartbeat_by_hand_is_a_sign_of_life_of_whoever_beats() {
    let table: [(Standing, &[&str]); 4] = [
        (Standing::Live, &[]),
        (Standing::Stopping, &[]),
        (Standing::Silent, &["agent_returned"]),
        (Standing::Gone, &["agent_registered"]),
    ];
    for (standing, said) in table {
        let mut swarm = Swarm::with_agent(standing);
        swarm.wait(Duration::from_secs(1));
        let beats = swarm.agent("A").heartbeats;
        let written = swarm.agent_by_hand("A", AgentWritten::Beat, |agent| {
            if !agent.is_live() {
                agent.presence = Presence::Live(Doing::Idle);
            }
        });
        assert_eq!(swarm.adopt(written), Ok(()), "{standing:?}");
        assert_eq!(swarm.said(), said, "{standing:?}");
        let agent = swarm.agent("A");
        assert_eq!(agent.seen_at, swarm.now, "{standing:?}");
        let is_back = standing == Standing::Gone;
        assert_eq!(
            agent.heartbeats,
            beats + u64::from(!is_back),
            "{standing:?}"
        );
        assert!(agent.is_live(), "{standing:?}");
        assert_eq!(agent.is_stopping(), standing == Standing::Stopping);
    }
}

#[test]
fn a_heartbeat_by_hand_says_what_its_agent_does() {
    let mut swarm = Swarm::with_agent(Standing::Live);
    for how in [AgentWritten::Beat, AgentWritten::Changed] {
        for doing in [Doing::Error, Doing::Busy, Doing::Stopping, Doing::Idle] {
            let say = |agent: &mut Agent| agent.presence = Presence::Live(doing);
            let written = swarm.agent_by_hand("A", how, say);
            assert_eq!(swarm.adopt(written), Ok(()));
            assert_eq!(swarm.said(), ["agent_status_changed"], "{doing}");
            assert_eq!(swarm.agent("A").presence, Presence::Live(doing));
        }
    }
}

#[test]
fn a_heartbeat_that_says_nothing_of_its_agent_does_not_take_back_the_notes_before_it() {
    // One transaction completes T and beats: when it beats, the row still has what the hub last wrote.
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    let beat = swarm.agent_by_hand("A", AgentWritten::Beat, |_| {});
    set(&mut swarm, "completed").expect("A holds T");
    assert_eq!(swarm.adopt(beat), Ok(()));
    assert!(swarm.said().is_empty(), "{:?}", swarm.said());
    assert_eq!(swarm.agent("A").status(), "idle");
    assert_eq!(swarm.agent("A").current, None);

    let mut swarm = Swarm::with_task(TaskStatus::Ready);
    let beat = swarm.agent_by_hand("A", AgentWritten::Beat, |_| {});
    set(&mut swarm, "claimed").expect("T is ready");
    assert_eq!(swarm.adopt(beat), Ok(()));
    assert!(swarm.said().is_empty(), "{:?}", swarm.said());
    assert_eq!(swarm.agent("A").status(), "busy");
    assert_eq!(swarm.agent("A").heartbeats, 1);
}

#[test]
fn progress_in_an_agents_row_is_progress_of_the_task_that_it_holds() {
    let work = |task: &str| {
        let current = Current {
            task: task.into(),
            since: Timestamp(1),
            percent: Some(60),
            phase: Some(Phase::Testing),
        };
        move |agent: &mut Agent| agent.current = Some(current)
    };
    let mut swarm = at_work();
    let written = swarm.agent_by_hand("A", AgentWritten::Changed, work("T"));
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(swarm.said(), ["task_progressed"]);
    let task = swarm.task("T");
    assert_eq!(task.status(), TaskStatus::InProgress);
    let progress = task.progress.as_ref();
    let progress = progress.map(|progress| (progress.percent, progress.phase));
    assert_eq!(progress, Some((60, Phase::Testing)));

    // One that it does not hold is not its business.
    let mut swarm = at_work();
    swarm.add("other");
    let current = swarm.agent("A").current.clone();
    let written = swarm.agent_by_hand("A", AgentWritten::Changed, work("other"));
    assert_eq!(swarm.adopt(written), Ok(()));
    assert_eq!(swarm.agent("A").current, current);
    assert_eq!(swarm.task("other").status(), TaskStatus::Ready);
}

#[test]
fn what_an_agent_says_of_itself_may_be_changed_by_hand() {
    let edits: [fn(&mut Agent); 4] = [
        |agent| agent.name = "another".to_owned(),
        |agent| agent.kind = AgentKind::Codex,
        |agent| agent.skills = Skills::new(["go"]),
        |agent| agent.capabilities.can_access_browser = true,
    ];
    for edit in edits {
        for standing in [Standing::Live, Standing::Silent] {
            let mut swarm = Swarm::with_agent(standing);
            let mut expected = swarm.agent("A").clone();
            swarm.wait(Duration::from_secs(1));
            let written = swarm.agent_by_hand("A", AgentWritten::Changed, edit);
            assert_eq!(swarm.adopt(written), Ok(()));
            assert!(swarm.said().is_empty());
            edit(&mut expected);
            expected.rev = swarm.agent("A").rev;
            // Also: no sign of life.
            assert_eq!(*swarm.agent("A"), expected);
        }
    }
}

#[test]
fn columns_of_an_agent_that_the_hub_keeps_are_put_back_without_a_word() {
    let edits: [fn(&mut Agent); 4] = [
        |agent| agent.completed = 9,
        |agent| agent.failed = 9,
        |agent| agent.last_active_at = Timestamp(9),
        |agent| agent.registered_at = Timestamp(9),
    ];
    for edit in edits {
        let mut swarm = at_work();
        let mut before = swarm.agent("A").clone();
        let written = swarm.agent_by_hand("A", AgentWritten::Changed, edit);
        assert_eq!(swarm.adopt(written), Ok(()));
        assert!(swarm.said().is_empty());
        before.rev += 1;
        assert_eq!(*swarm.agent("A"), before);
    }
}

#[test]
fn an_agent_set_offline_or_deleted_by_hand_signs_off_and_keeps_its_history() {
    for delete in [false, true] {
        let mut swarm = at_work();
        swarm.ok(send("M", "B", Some("A")));
        let at = Timestamp(1);
        let written = if delete {
            deleted(&swarm, "A")
        } else {
            let offline = |agent: &mut Agent| agent.presence = Presence::Gone { at };
            swarm.agent_by_hand("A", AgentWritten::Changed, offline)
        };
        assert_eq!(swarm.adopt(written), Ok(()));
        assert_eq!(swarm.said(), LET_GO);
        let agent = swarm.agent("A");
        assert_eq!(agent.presence, Presence::Gone { at: swarm.now });
        assert_eq!(agent.inbox, 1);
        assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
        assert_eq!(swarm.attempts.len(), 1);
        assert_eq!(swarm.message("M").to, To::One("A".into()));
    }
}

#[test]
fn an_agent_that_left_already_is_left_alone() {
    let mut swarm = Swarm::with_agent(Standing::Gone);
    let gone = swarm.agent("A").presence.clone();
    swarm.wait(Duration::from_secs(1));
    let renamed = |agent: &mut Agent| agent.name = "another".to_owned();
    for written in [
        deleted(&swarm, "A"),
        swarm.agent_by_hand("A", AgentWritten::Changed, renamed),
    ] {
        assert_eq!(swarm.adopt(written), Ok(()));
        assert!(swarm.said().is_empty());
        assert_eq!(swarm.agent("A").presence, gone);
        assert_eq!(swarm.agent("A").name, "A");
    }
    // Two notes from before the hub saw the first: deleted, and then once more.
    let mut swarm = at_work();
    let (first, again) = (deleted(&swarm, "A"), deleted(&swarm, "A"));
    assert_eq!(swarm.adopt(first), Ok(()));
    assert_eq!(swarm.adopt(again), Ok(()));
    assert!(swarm.said().is_empty());
}

#[test]
fn notes_of_an_agent_that_signed_off_in_the_meantime_bring_it_back_only_by_a_sign_of_life() {
    let renamed = |agent: &mut Agent| agent.name = "another".to_owned();
    for (how, back) in [(AgentWritten::Beat, true), (AgentWritten::Changed, false)] {
        let mut swarm = at_work();
        let late = swarm.agent_by_hand("A", how, renamed);
        let first = deleted(&swarm, "A");
        assert_eq!(swarm.adopt(first), Ok(()));
        assert_eq!(swarm.adopt(late), Ok(()));
        assert_eq!(swarm.agent("A").is_live(), back, "{how:?}");
        let said: &[&str] = if back { &["agent_registered"] } else { &[] };
        assert_eq!(swarm.said(), said, "{how:?}");
    }
}

#[test]
fn an_agent_that_beats_by_hand_is_not_taken_for_silent() {
    let mut swarm = at_work();
    swarm.wait(limits::SILENT_AFTER);
    let beat = swarm.agent_by_hand("A", AgentWritten::Beat, |_| {});
    assert_eq!(swarm.adopt(beat), Ok(()));
    swarm.wait(Duration::from_secs(1));
    swarm.ok(crate::verb::MarkSilent);
    assert!(swarm.agent("A").is_live());
    assert!(!swarm.agent("B").is_live());
}
