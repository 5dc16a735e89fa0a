//! Who gets which task, by table.

use std::time::Duration;

use super::*;
use crate::agent::{CommandKind, Doing, Presence};
use crate::verb::testing::{
    Standing, Swarm, about, claim, complete, fail, order, register, task_with, word,
};
use crate::verb::{Assign, CreateTasks, Deregister, NewTask, Order, Reason, Steer, Why};

fn taken(claimed: Claimed) -> Option<String> {
    match claimed {
        Claimed::Task(task) => Some(task.id.to_string()),
        Claimed::None(_) => None,
    }
}

fn takes(swarm: &mut Swarm, agent: &str) -> Option<String> {
    taken(swarm.ok(claim(agent)))
}

fn named(agent: &str, task: &str) -> Claim {
    Claim {
        task: Some(task.into()),
        ..claim(agent)
    }
}

#[test]
fn only_a_ready_task_can_be_claimed() {
    // jetpack.claim.only_ready, jetpack.claim.dependencies_completed, jetpack.error.task_already_claimed
    for status in TaskStatus::ALL {
        let (by_name, taken) = match status {
            TaskStatus::Ready => ("ok", Some("T".to_owned())),
            TaskStatus::Waiting | TaskStatus::RetryWait | TaskStatus::NeedsPerson => {
                ("wrong_state", None)
            }
            TaskStatus::Claimed | TaskStatus::InProgress => ("not_holder", None),
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Canceled => {
                ("already_finished", None)
            }
        };
        let outcome = Swarm::with_task(*status).run(named("B", "T"));
        assert_eq!(word(&outcome), by_name, "{status}");
        let mut any = claim("B");
        any.filter.excluded.insert("D".into());
        let got = Swarm::with_task(*status).ok(any);
        assert_eq!(self::taken(got), taken, "{status}");
    }
    let outcome = Swarm::with_task(TaskStatus::Ready).run(named("A", "nothing"));
    assert_eq!(word(&outcome), "task_not_found"); // jetpack.error.task_not_found
}

#[test]
fn who_may_claim_by_standing() {
    // jetpack.error.agent_not_registered
    for standing in Standing::ALL {
        let mut swarm = Swarm::with_agent(standing);
        swarm.add("T");
        let expected = match standing {
            Standing::Unknown | Standing::Gone => ("agent_not_registered", None),
            Standing::Live | Standing::Silent => ("ok", Some("T".to_owned())),
            Standing::Stopping => ("ok", None),
        };
        let outcome = swarm.run(claim("A"));
        let seen = (word(&outcome), outcome.ok().and_then(taken));
        assert_eq!(seen, expected, "{standing:?}");
    }
    let mut swarm = Swarm::with_agent(Standing::Stopping);
    swarm.add("T");
    assert_eq!(word(&swarm.run(named("A", "T"))), "invalid");
}

#[test]
fn a_claim_sets_state_holder_epoch_and_time_together() {
    // jetpack.claim.sets_holder, jetpack.claim.one_task
    let mut swarm = Swarm::new();
    swarm.join("A", &[]);
    swarm.add("T1");
    swarm.add("T2");
    swarm.wait(Duration::from_secs(7));
    assert_eq!(takes(&mut swarm, "A").as_deref(), Some("T1"));
    let task = swarm.task("T1");
    let state = TaskState::Claimed {
        by: "A".into(),
        at: swarm.now,
    };
    assert_eq!((&task.state, task.epoch), (&state, 1));
    assert_eq!(swarm.task("T2").status(), TaskStatus::Ready);
    assert_eq!(swarm.agent("A").holds, vec![TaskId::from("T1")]);
    assert_eq!(swarm.agent("A").presence, Presence::Live(Doing::Busy));
    assert_eq!(swarm.said(), ["task_claimed"]);
}

#[test]
fn required_skills_are_a_subset_of_the_agents_in_any_case() {
    // jetpack.claim.skills_cover, jetpack.register.skills
    let table: [(&[&str], &[&str], bool); 7] = [
        (&[], &[], true),
        (&[], &["rust"], true),
        (&["rust"], &["rust"], true),
        (&["Rust"], &["rUST", "sql"], true),
        (&["rust"], &["rustic"], false),
        (&["rust", "sql"], &["rust"], false),
        (&["rust"], &[], false),
    ];
    for (required, offered, fits) in table {
        let mut swarm = Swarm::new();
        swarm.join("A", offered);
        swarm.create(task_with("T", |task| {
            task.about.required_skills = Skills::new(required)
        }));
        let got = takes(&mut swarm, "A").is_some();
        assert_eq!(got, fits, "{required:?} by {offered:?}");
    }
}

#[test]
fn skills_decide_among_any_number_of_waiting_lanes() {
    // jetpack.claim.skills_cover: more lanes of a word than are read at a time, all but the last unfit.
    let mut swarm = Swarm::new();
    swarm.join("A", &["common"]);
    let lanes = limits::LANES_PER_LOAD * 2 + 3;
    let tasks: Vec<NewTask> = (0..lanes)
        .map(|at| {
            task_with(&format!("T{at}"), |task| {
                let other = format!("rare{at}");
                task.about.required_skills = Skills::new(["common", other.as_str()]);
                task.about.priority = Priority::Critical;
            })
        })
        .collect();
    // Filed under their rare words they are not even looked at; so file some under the common one.
    swarm.ok(CreateTasks { tasks });
    swarm.create(task_with("mine", |task| {
        task.about.required_skills = Skills::new(["common"]);
    }));
    assert_eq!(takes(&mut swarm, "A").as_deref(), Some("mine"));
    assert_eq!(takes(&mut swarm, "A"), None);
}

#[test]
fn many_lanes_under_one_word_are_read_page_by_page() {
    let mut swarm = Swarm::new();
    swarm.join("A", &[]);
    let lanes = limits::LANES_PER_LOAD as u32 * 3;
    for at in 0..lanes {
        // Too long for anyone here, each in a lane of its own under the shared word.
        swarm.create(task_with(&format!("T{at}"), |task| {
            task.about.estimated_minutes = Some(1000 + at);
            task.about.priority = Priority::High;
        }));
    }
    assert_eq!(takes(&mut swarm, "A"), None);
    swarm.create(task_with("last", |task| {
        task.about.priority = Priority::Low
    }));
    assert_eq!(takes(&mut swarm, "A").as_deref(), Some("last"));
}

#[test]
fn other_capabilities_by_table() {
    // jetpack.register.capability_limits
    let minutes = |minutes| move |task: &mut NewTask| task.about.estimated_minutes = minutes;
    let kind = |kind| move |task: &mut NewTask| task.about.kind = kind;
    type Edit = Box<dyn Fn(&mut NewTask)>;
    let table: Vec<(Edit, bool, &str)> = vec![
        (Box::new(minutes(None)), true, "no estimate"),
        (Box::new(minutes(Some(59))), true, "59 minutes"),
        (Box::new(minutes(Some(60))), true, "60 minutes"),
        (Box::new(minutes(Some(61))), false, "61 minutes"),
        (Box::new(kind(TaskKind::BrowserTest)), false, "browser test"),
        (Box::new(kind(TaskKind::Test)), false, "test"),
        (Box::new(kind(TaskKind::Review)), true, "review"),
    ];
    for (edit, fits, what) in table {
        let mut swarm = Swarm::new();
        let mut plain = register("A", &[]);
        about(&mut plain).capabilities.can_run_tests = false;
        swarm.ok(plain);
        let mut able = register("B", &[]);
        about(&mut able).capabilities.can_access_browser = true;
        about(&mut able).capabilities.max_task_minutes = 1000;
        swarm.create(task_with("T", edit));
        assert_eq!(takes(&mut swarm, "A").is_some(), fits, "{what}");
        swarm.ok(able);
        assert_eq!(takes(&mut swarm, "B").is_some(), !fits, "{what}, able");
    }
}

#[test]
fn filters_by_table() {
    // jetpack.claim.filter_skills, filter_priorities, filter_types, filter_exclude_ids, filter_max_minutes
    let filters: Vec<(Filter, Option<&str>)> = vec![
        (Filter::default(), Some("rusty")),
        (
            with(|f| f.skills = Some(Skills::new(["RUST"]))),
            Some("rusty"),
        ),
        (
            with(|f| f.skills = Some(Skills::new(["sql", "go"]))),
            Some("both"),
        ),
        (with(|f| f.skills = Some(Skills::new(["go"]))), None),
        (
            with(|f| f.priorities = Some(vec![Priority::Low])),
            Some("docs"),
        ),
        (
            with(|f| f.priorities = Some(vec![Priority::Critical])),
            None,
        ),
        (
            with(|f| f.kinds = Some(vec![TaskKind::Documentation])),
            Some("docs"),
        ),
        (with(|f| f.kinds = Some(vec![])), None),
        (with(|f| f.excluded = ["rusty".into()].into()), Some("both")),
        (with(|f| f.max_minutes = Some(29)), Some("both")),
        (with(|f| f.max_minutes = Some(30)), Some("rusty")),
    ];
    for (filter, expected) in filters {
        let mut swarm = Swarm::new();
        swarm.join("A", &["rust", "sql"]);
        swarm.create(task_with("rusty", |task| {
            task.about.required_skills = Skills::new(["rust"]);
            task.about.priority = Priority::High;
            task.about.estimated_minutes = Some(30);
        }));
        swarm.create(task_with("both", |task| {
            task.about.required_skills = Skills::new(["rust", "sql"]);
        }));
        swarm.create(task_with("docs", |task| {
            task.about.priority = Priority::Low;
            task.about.kind = TaskKind::Documentation;
        }));
        let words = format!("{filter:?}");
        let got = taken(swarm.ok(Claim {
            filter,
            ..claim("A")
        }));
        assert_eq!(got.as_deref(), expected, "{words}");
    }
}

fn with(edit: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    edit(&mut filter);
    filter
}

#[test]
fn exclusions_reach_past_one_page_of_a_lane() {
    // jetpack.claim.filter_exclude_ids
    let mut swarm = Swarm::new();
    swarm.join("A", &[]);
    let count = limits::QUEUE_PER_LOAD * 2;
    let tasks = (0..=count).map(|at| task_with(&format!("T{at}"), |_| ()));
    swarm.ok(CreateTasks {
        tasks: tasks.collect(),
    });
    let mut picky = claim("A");
    picky.filter.excluded = (0..count)
        .map(|at| TaskId::from(format!("T{at}")))
        .collect();
    assert_eq!(taken(swarm.ok(picky)), Some(format!("T{count}")));
}

#[test]
fn priority_first_then_age() {
    // jetpack.claim.priority_order, jetpack.claim.fifo_within_priority
    let mut swarm = Swarm::new();
    swarm.join("A", &["rust"]);
    let made = [
        ("low", Priority::Low),
        ("medium1", Priority::Medium),
        ("critical", Priority::Critical),
        ("high", Priority::High),
        ("medium2", Priority::Medium),
    ];
    for (at, (id, priority)) in made.into_iter().enumerate() {
        swarm.create(task_with(id, |task| {
            task.about.priority = priority;
            // Different lanes, so that the order is found across them.
            task.about.required_skills = Skills::new(["rust"].iter().take(at % 2));
        }));
    }
    let got: Vec<String> = std::iter::from_fn(|| takes(&mut swarm, "A")).collect();
    assert_eq!(got, ["critical", "high", "medium1", "medium2", "low"]);
}

/// `T` was failed by `A` and has just become ready again; `B` could take it, `C` could not.
fn failed_once() -> Swarm {
    let mut swarm = Swarm::new();
    swarm.join("A", &["rust"]);
    swarm.join("B", &["rust"]);
    swarm.join("C", &[]);
    swarm.create(task_with("T", |task| {
        task.about.required_skills = Skills::new(["rust"])
    }));
    swarm.hold("A", "T");
    swarm.ok(fail("A", "T"));
    swarm.wait(Duration::from_secs(60));
    swarm.ok(crate::verb::ReleaseRetries);
    swarm
}

#[test]
fn a_retry_goes_to_others_first_for_a_while() {
    // jetpack.fail.previous_agents
    let tick = Duration::from_millis(1);
    for (after, got) in [
        (Duration::ZERO, None),
        (limits::OTHERS_FIRST_FOR - tick, None),
        (limits::OTHERS_FIRST_FOR, Some("T")),
        (limits::OTHERS_FIRST_FOR + tick, Some("T")),
    ] {
        let mut swarm = failed_once();
        let until = swarm.now + limits::OTHERS_FIRST_FOR;
        swarm.wait(after);
        let claimed = swarm.ok(claim("A"));
        if got.is_none() {
            let nothing = Nothing {
                others_first_until: Some(until),
                ..NoTask::NoMatchingTasks.into()
            };
            assert_eq!(claimed, Claimed::None(nothing), "{after:?}");
            assert_eq!(word(&swarm.run(named("A", "T"))), "invalid", "{after:?}");
        } else {
            assert_eq!(taken(claimed).as_deref(), got, "{after:?}");
            assert_eq!(swarm.task("T").epoch, 2);
        }
        let mut swarm = failed_once();
        swarm.wait(after);
        assert_eq!(word(&swarm.run(named("B", "T"))), "ok", "{after:?}");
    }
}

#[test]
fn others_come_first_only_while_one_of_them_is_idle() {
    type Turn = fn(&mut Swarm);
    let turns: [(&str, Turn); 3] = [
        ("gone", |swarm| {
            swarm.ok(Deregister { agent: "B".into() });
        }),
        ("stopping", |swarm| {
            let reason = "enough".to_owned();
            swarm.ok(order("B", CommandKind::Shutdown { reason }));
        }),
        ("at work", |swarm| {
            swarm.add("other");
            swarm.hold("B", "other");
        }),
    ];
    for (what, turn) in turns {
        let mut swarm = failed_once();
        assert_eq!(takes(&mut swarm, "A"), None, "{what}");
        turn(&mut swarm);
        assert_eq!(takes(&mut swarm, "A").as_deref(), Some("T"), "{what}");
    }
}

#[test]
fn what_others_come_first_with_holds_nothing_else_back() {
    let mut swarm = failed_once();
    let less_urgent = |task: &mut NewTask| task.about.priority = Priority::Low;
    swarm.create(task_with("fresh", less_urgent));
    assert_eq!(takes(&mut swarm, "A").as_deref(), Some("fresh"));
    // Held by another it is a task that fits, and is held.
    swarm.hold("B", "T");
    assert_eq!(
        swarm.ok(claim("A")),
        Claimed::None(NoTask::AllTasksClaimed.into())
    );
}

#[test]
fn of_many_that_others_come_first_with_the_first_due_is_found() {
    let many = limits::WITHHELD_PER_LOOK;
    for (fresh, found) in [(many - 1, Some("old")), (many, None)] {
        let mut swarm = Swarm::new();
        swarm.join("A", &[]);
        swarm.join("B", &[]);
        let ids: Vec<String> = (0..fresh).map(|at| format!("T{at}")).collect();
        for id in ids.iter().map(String::as_str).chain(["old"]) {
            swarm.add(id);
            swarm.hold("A", id);
        }
        let end = |swarm: &mut Swarm, id: &str| {
            swarm.ok(fail("A", id));
            swarm.ok(crate::verb::RetryTask { task: id.into() });
        };
        end(&mut swarm, "old");
        swarm.wait(limits::OTHERS_FIRST_FOR);
        ids.iter().for_each(|id| end(&mut swarm, id));
        assert_eq!(
            takes(&mut swarm, "A").as_deref(),
            found,
            "{fresh} before it"
        );
        swarm.wait(limits::OTHERS_FIRST_FOR);
        assert!(takes(&mut swarm, "A").is_some(), "nothing stays withheld");
    }
}

#[test]
fn an_audience_overrides_skills() {
    for audience in [vec!["A"], vec!["A", "C"]] {
        let mut swarm = Swarm::new();
        swarm.join("A", &[]);
        swarm.join("B", &["rust"]);
        swarm.create(task_with("T", |task| {
            task.about.required_skills = Skills::new(["rust"]);
            task.about.audience = audience.into_iter().map(AgentId::from).collect();
        }));
        assert_eq!(takes(&mut swarm, "B"), None);
        assert_eq!(takes(&mut swarm, "A").as_deref(), Some("T"));
    }
}

#[test]
fn the_reason_tells_held_from_unfit() {
    // jetpack.claim.no_task, jetpack.claim.reason_enum
    let mut swarm = Swarm::new();
    swarm.join("A", &["rust"]);
    swarm.join("B", &["rust"]);
    let none = |swarm: &mut Swarm| swarm.ok(claim("B"));
    assert_eq!(
        none(&mut swarm),
        Claimed::None(NoTask::NoMatchingTasks.into())
    );
    swarm.create(task_with("T", |task| {
        task.about.required_skills = Skills::new(["rust"])
    }));
    swarm.create(task_with("U", |task| {
        task.about.required_skills = Skills::new(["go"])
    }));
    swarm.hold("A", "T");
    assert_eq!(
        none(&mut swarm),
        Claimed::None(NoTask::AllTasksClaimed.into())
    );
    swarm.ok(complete("A", "T"));
    assert_eq!(
        none(&mut swarm),
        Claimed::None(NoTask::NoMatchingTasks.into())
    );
}

#[test]
fn a_silent_agent_returns_by_claiming() {
    let mut swarm = Swarm::with_agent(Standing::Silent);
    swarm.add("T");
    swarm.hold("A", "T");
    assert_eq!(swarm.said(), ["agent_returned", "task_claimed"]);
    assert_eq!(swarm.agent("A").presence, Presence::Live(Doing::Busy));
}

#[test]
fn tasks_in_one_agents_hands_are_bounded() {
    let mut swarm = Swarm::new();
    swarm.join("A", &[]);
    let tasks = (0..=limits::CLAIMS_PER_AGENT_MAX).map(|at| task_with(&format!("T{at}"), |_| ()));
    swarm.ok(CreateTasks {
        tasks: tasks.collect(),
    });
    for held in 0..limits::CLAIMS_PER_AGENT_MAX {
        assert!(takes(&mut swarm, "A").is_some(), "claim {held}");
    }
    assert_eq!(word(&swarm.run(claim("A"))), "too_many");
    swarm.ok(complete("A", "T7"));
    assert!(takes(&mut swarm, "A").is_some());
}

fn steer(order: Order) -> Steer {
    Steer {
        by: "desk".to_owned(),
        reason: "a deploy".to_owned(),
        order,
    }
}

#[test]
fn while_work_is_paused_nobody_takes_a_task_by_any_verb() {
    let mut swarm = Swarm::with_task(TaskStatus::Ready);
    let until = swarm.now + Duration::from_secs(60);
    for (order, end) in [
        (Order::PauseUntil(until), Some(until)),
        (Order::Pause, None),
    ] {
        swarm.ok(steer(order));
        let hold = Hold {
            by: "desk".to_owned(),
            why: "a deploy".to_owned(),
            until: end,
        };
        let paused = Claimed::None(Nothing {
            paused: Some(hold.clone()),
            ..NoTask::NoMatchingTasks.into()
        });
        assert_eq!(swarm.ok(claim("A")), paused);
        assert_eq!(swarm.ok(named("A", "T")), paused);
        let assign = Assign {
            claim: claim("A"),
            cap: Duration::from_secs(60),
            stale_after: Duration::from_secs(60),
        };
        assert_eq!(swarm.ok(assign), paused);
        let why = Why {
            task: "T".into(),
            agent: Some("A".into()),
        };
        assert_eq!(swarm.ok(why).reasons, [Reason::Paused(hold)]);
    }
    assert_eq!(swarm.task("T").status(), TaskStatus::Ready);
    swarm.ok(steer(Order::Resume));
    assert_eq!(takes(&mut swarm, "A").as_deref(), Some("T"));
}

#[test]
fn a_pause_with_an_end_ends_in_its_time_and_touches_no_claim_that_is_there() {
    let mut swarm = Swarm::with_task(TaskStatus::Claimed);
    swarm.add("next");
    let minute = Duration::from_secs(60);
    swarm.ok(steer(Order::Cooldown { lasts_for: minute }));
    swarm.wait(minute - Duration::from_millis(1));
    assert_eq!(takes(&mut swarm, "B"), None);
    swarm.ok(complete("A", "T"));
    swarm.wait(Duration::from_millis(1));
    assert_eq!(takes(&mut swarm, "B").as_deref(), Some("next"));
}
