//! Who may sign on at which door, and what it keeps.

use std::time::Duration;

use super::super::testing::{
    Standing, Swarm, about, complete, join_bus, order, register, without_machine, word,
};
use super::super::{Complete, Deregister, MarkSilent, RotateKey, Serve};
use super::*;
use crate::agent::{CommandKind, Doing, Presence};
use crate::limits;
use crate::task::{FailureKind, TaskStatus};

const TTL: Duration = Duration::from_secs(90);
const TICK: Duration = Duration::from_millis(1);

fn another_process(agent: &str) -> Join {
    let mut join = register(agent, &[]);
    let machine = about(&mut join).machine.as_mut();
    machine.expect("it says on which machine it is").pid = 2;
    join
}

#[test]
fn no_agent_takes_the_name_of_the_steward_or_the_hub() {
    for id in ["steward", "switchboard"] {
        let outcome = Swarm::default().run(register(id, &[]));
        assert_eq!(word(&outcome), "invalid", "{id}");
    }
}

#[test]
fn who_may_register_by_standing() {
    // jetpack.register.active_rejected, jetpack.register.stale_reregister, jetpack.register.response
    for standing in Standing::ALL {
        let (same, other) = match standing {
            Standing::Unknown | Standing::Silent | Standing::Gone => ("ok", "ok"),
            Standing::Live | Standing::Stopping => ("ok", "agent_already_registered"),
        };
        let outcome = Swarm::with_agent(standing).run(register("A", &[]));
        assert_eq!(word(&outcome), same, "the same process, {standing:?}");
        for newcomer in [another_process("A"), without_machine(register("A", &[]))] {
            let outcome = Swarm::with_agent(standing).run(newcomer);
            assert_eq!(word(&outcome), other, "another, {standing:?}");
        }
    }
}

#[test]
fn what_was_said_is_stored() {
    // jetpack.register.timestamp_recorded, jetpack.register.machine_optional, jetpack.register.capability_limits
    let mut swarm = Swarm::new();
    let said = register("A", &["Rust", "SQL"]);
    let answer = swarm.ok(said.clone());
    let agent = swarm.agent("A");
    assert_eq!(
        (answer.agent.registered_at, answer.resumed),
        (agent.registered_at, false)
    );
    assert_eq!(agent.registered_at, swarm.now);
    assert_eq!(agent.skills, Skills::new(["rust", "sql"]));
    let about = said.about.expect("it says who it is");
    assert_eq!(
        (&agent.capabilities, &agent.machine),
        (&about.capabilities, &about.machine)
    );
    assert_eq!(agent.presence, Presence::Live(Doing::Idle));
    assert_eq!(swarm.said(), ["agent_registered"]);
}

#[test]
fn an_id_is_free_once_it_has_been_silent_for_more_than_two_minutes() {
    // jetpack.register.stale_reregister, jetpack.register.active_rejected
    for (after, expected) in [
        (
            limits::SILENT_AFTER - Duration::from_millis(1),
            "agent_already_registered",
        ),
        (limits::SILENT_AFTER, "agent_already_registered"),
        (limits::SILENT_AFTER + Duration::from_millis(1), "ok"),
    ] {
        let mut swarm = Swarm::with_agent(Standing::Live);
        swarm.wait(after);
        let outcome = swarm.run(another_process("A"));
        assert_eq!(word(&outcome), expected, "{after:?}");
    }
}

#[test]
fn silence_during_an_outage_frees_no_id() {
    let mut swarm = Swarm::with_agent(Standing::Live);
    swarm.wait(Duration::from_secs(600));
    swarm.ok(Serve { starting: true });
    assert_eq!(
        word(&swarm.run(another_process("A"))),
        "agent_already_registered"
    );
}

#[test]
fn the_same_process_keeps_tasks_leases_and_epochs() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    swarm.lease("A", "src", Some("T"));
    swarm.ok(order("A", CommandKind::Ping));
    let answer = swarm.ok(register("A", &["new"]));
    assert!(answer.resumed);
    assert_eq!(swarm.task("T").holder(), Some(&"A".into()));
    assert_eq!(swarm.task("T").epoch, 1);
    assert_eq!(swarm.leased(), [("src", "A")]);
    let agent = swarm.agent("A");
    assert_eq!((agent.status(), agent.commands.len()), ("busy", 1));
    assert_eq!(agent.skills, Skills::new(["new"]));
}

#[test]
fn a_new_process_under_a_stale_id_gives_the_old_tasks_back_in_the_same_commit() {
    let mut swarm = Swarm::with_task(TaskStatus::InProgress);
    swarm.lease("A", "src", Some("T"));
    swarm.lease("A", "docs", None);
    swarm.wait(limits::SILENT_AFTER + Duration::from_secs(1));
    let answer = swarm.ok(another_process("A"));
    assert!(!answer.resumed);
    let task = swarm.task("T");
    assert_eq!((task.status(), task.retries), (TaskStatus::Ready, 1));
    assert_eq!(task.previous_agents, vec![AgentId::from("A")]);
    let failure = task.last_failure.as_ref().map(|failure| failure.kind);
    assert_eq!(failure, Some(FailureKind::AgentCrash));
    assert!(swarm.leased().is_empty() && swarm.agent("A").holds.is_empty());
}

#[test]
fn a_new_process_that_resumes_goes_on_under_new_epochs() {
    for (after, standing) in [(0, "alive"), (600, "silent, and nobody has noticed")] {
        let mut swarm = Swarm::with_task(TaskStatus::InProgress);
        swarm.lease("A", "src", Some("T"));
        swarm.wait(Duration::from_secs(after));
        let answer = swarm.ok(Join {
            resume: true,
            ..another_process("A")
        });
        assert!(answer.resumed, "{standing}");
        assert_eq!(answer.handed_over, [("T".into(), 2)], "{standing}");
        let task = swarm.task("T");
        assert_eq!((task.status(), task.retries), (TaskStatus::InProgress, 0));
        assert_eq!(swarm.leased(), [("src", "A")]);
        assert_eq!(swarm.said(), ["agent_registered", "task_handed_over"]);
        // What the old process still says no longer counts, with its epoch or without one.
        for (epoch, expected) in [
            (None, "stale_epoch"),
            (Some(1), "stale_epoch"),
            (Some(2), "ok"),
        ] {
            let report = Complete {
                epoch,
                ..complete("A", "T")
            };
            assert_eq!(word(&swarm.run(report)), expected, "{epoch:?}, {standing}");
        }
    }
}

#[test]
fn an_epoch_is_needed_until_the_claim_ends() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    swarm.ok(Join {
        resume: true,
        ..another_process("A")
    });
    assert!(swarm.task("T").epoch_needed);
    let epoch = swarm.task("T").epoch;
    for (given, expected) in [
        (None, "stale_epoch"),
        (Some(epoch - 1), "stale_epoch"),
        (Some(epoch), "ok"),
    ] {
        let outcome = swarm.run(super::super::AcquireLease {
            agent: "A".into(),
            task: Some("T".into()),
            epoch: given,
            path: crate::path::LeasePath::stored("src"),
            lasts_for: Duration::from_secs(60),
        });
        assert_eq!(word(&outcome), expected, "a lease under {given:?}");
    }
    swarm.ok(super::super::ReleaseTask {
        task: "T".into(),
        agent: None,
        epoch: None,
    });
    swarm.hold("A", "T");
    assert!(!swarm.task("T").epoch_needed);
    assert_eq!(word(&swarm.run(complete("A", "T"))), "ok");
}

#[test]
fn who_has_nothing_to_resume_registers() {
    for standing in Standing::ALL {
        let answer = Swarm::with_agent(standing).ok(Join {
            resume: true,
            ..another_process("A")
        });
        assert!(answer.handed_over.is_empty(), "{standing:?}");
    }
}

#[test]
fn a_refusal_names_what_is_held_and_how_to_go_on() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    let refused = swarm.run(another_process("A")).unwrap_err().to_string();
    assert!(
        refused.contains("T") && refused.contains("resume"),
        "{refused}"
    );
}

#[test]
fn a_gone_agent_keeps_its_counters_when_it_comes_again() {
    let mut swarm = Swarm::with_task(TaskStatus::Completed);
    swarm.ok(Deregister { agent: "A".into() });
    swarm.ok(another_process("A"));
    assert_eq!(swarm.agent("A").completed, 1);
}

#[test]
fn an_agent_may_get_its_key_before_it_first_registers() {
    let mut swarm = Swarm::new();
    swarm.ok(RotateKey { agent: "A".into() });
    assert!(swarm.agent("A").is_gone());
    swarm.ok(register("A", &[]));
    assert_eq!(
        (swarm.agent("A").key_generation, swarm.agent("A").is_live()),
        (1, true)
    );
}

#[test]
fn who_joins_a_door_that_asks_who_it_is_by_standing() {
    // agentbus.reconnect.continuation
    for standing in Standing::ALL {
        let mut swarm = Swarm::with_agent(standing);
        let joined = swarm.ok(join_bus("A"));
        let was_there = !matches!(standing, Standing::Unknown | Standing::Gone);
        assert_eq!(joined.resumed, was_there, "{standing:?}");
        assert!(swarm.agent("A").is_live());
        assert!(swarm.agent("A").doors.contains(&Door::Bus));
        assert!(swarm.said().contains(&"agent_registered"), "{standing:?}");
        assert!(swarm.ok(join_bus("A")).resumed);
        assert!(swarm.said().is_empty(), "a reconnect is no news");
    }
}

#[test]
fn the_most_patient_door_decides_about_silence() {
    let bus = |limit| Join {
        silent_after: limit,
        ..join_bus("A")
    };
    let jetpack = || register("A", &[]);
    let week = Duration::from_secs(7 * 24 * 3600);
    for (joins, limit) in [
        (vec![bus(Some(TTL))], Some(TTL)),
        (vec![bus(Some(TTL)), jetpack()], Some(limits::SILENT_AFTER)),
        (vec![jetpack(), bus(Some(TTL))], Some(limits::SILENT_AFTER)),
        (vec![bus(Some(TTL * 2)), bus(Some(TTL))], Some(TTL)),
        (vec![bus(None)], None),
        (vec![jetpack(), bus(None)], None),
        (vec![bus(None), jetpack()], None),
    ] {
        let mut swarm = Swarm::new();
        let doors: Vec<_> = joins.iter().map(|join| join.door).collect();
        for join in joins {
            swarm.ok(join);
        }
        swarm.wait(limit.unwrap_or(week));
        assert_eq!(swarm.ok(MarkSilent).done, 0, "{doors:?}");
        swarm.wait(TICK);
        let silent = usize::from(limit.is_some());
        assert_eq!(swarm.ok(MarkSilent).done, silent, "{doors:?}");
    }
}

#[test]
fn a_second_door_is_one_more_of_the_same_agent() {
    let mut swarm = Swarm::with_task(TaskStatus::InProgress);
    let joined = swarm.ok(join_bus("A"));
    assert_eq!(joined.holds.len(), 1);
    assert_eq!(swarm.agent("A").doors, [Door::Jetpack, Door::Bus]);
    let mut swarm = Swarm::new();
    swarm.ok(join_bus("A"));
    assert!(swarm.ok(register("A", &["go"])).resumed);
    assert_eq!(swarm.agent("A").doors, [Door::Jetpack, Door::Bus]);
    let other = without_machine(register("A", &[]));
    assert_eq!(word(&swarm.run(other)), "agent_already_registered");
    swarm.ok(Deregister { agent: "A".into() });
    swarm.ok(join_bus("A"));
    assert_eq!(swarm.agent("A").doors, [Door::Bus]);
}

#[test]
fn skills_are_added_to_those_of_another_door_or_replace_them_as_the_policy_says() {
    let bus = |skills: &[&str]| Join {
        skills: Skills::new(skills),
        ..join_bus("A")
    };
    for (joins, skills) in [
        (vec![bus(&["rust"]), bus(&["go"])], &["go"][..]),
        (
            vec![register("A", &["rust"]), bus(&["go"])],
            &["go", "rust"],
        ),
        (vec![bus(&["go"]), register("A", &["rust"])], &["rust"]),
    ] {
        let mut swarm = Swarm::new();
        for join in joins {
            swarm.ok(join);
        }
        assert_eq!(swarm.agent("A").skills, Skills::new(skills));
    }
}

#[test]
fn what_it_is_able_to_is_what_it_says_then_what_other_doors_know_then_what_is_usual() {
    let bus = |max_task_minutes, can_access_browser| Join {
        able: Some(Able {
            max_task_minutes,
            default_minutes: 120,
            can_access_browser,
        }),
        ..join_bus("A")
    };
    let jetpack = |browser| {
        let mut join = register("A", &[]);
        about(&mut join).capabilities.can_access_browser = browser;
        join
    };
    for (joins, minutes, browser) in [
        (vec![bus(None, false)], 120, false),
        (vec![bus(Some(15), true)], 15, true),
        (vec![bus(Some(15), true), bus(None, false)], 120, false),
        (vec![jetpack(true), bus(None, false)], 60, true),
        (vec![jetpack(false), bus(Some(15), true)], 15, true),
        (vec![bus(Some(15), true), jetpack(false)], 60, false),
    ] {
        let mut swarm = Swarm::new();
        for join in joins {
            swarm.ok(join);
        }
        let can = &swarm.agent("A").capabilities;
        assert_eq!(can.max_task_minutes, minutes);
        assert_eq!(can.can_access_browser, browser);
    }
}

#[test]
fn nobody_joins_under_a_name_of_the_hub_or_one_that_reads_like_it() {
    for id in ["steward", "Switchboard", "stew\u{2060}ard"] {
        assert_eq!(word(&Swarm::new().run(join_bus(id))), "invalid", "{id:?}");
    }
}
