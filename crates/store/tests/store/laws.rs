//! Laws that hold after every step of any history, on the model engine.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;
use switchboard_core::lane::{LaneKey, Rep};
use switchboard_core::verb::{
    Claim, Claimed, CreateTasks, Filter, Join, NewTask, NoTask, RetryTask,
};
use switchboard_core::{
    Ask, DeliveryState, Door, Event, MessageId, Task, TaskId, TaskStatus, Timestamp,
};
use switchboard_store::ManualClock;
use switchboard_store::conformance::{
    AnyVerb, Cache, Deed, Everything, Ledger, Random, START, best_for, differential, perform,
};
use switchboard_store::memory::MemoryEngine;

fn memory(clock: &ManualClock) -> Ledger {
    Ledger::new(Box::new(MemoryEngine::new(Box::new(clock.clone()))))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_batch_of_any_history_obeys_the_laws(
        choices in prop::collection::vec(any::<u64>(), 1..220),
        cache in 0..3_u8,
        batch in 1..4_usize,
    ) {
        let clock = ManualClock::at(START);
        let mut ledger = memory(&clock).with_cache(match cache {
            0 => Cache::Kept,
            1 => Cache::Forgotten,
            _ => Cache::ForgottenAtRandom(Random::new(choices.len() as u64)),
        });
        let mut before = Everything::read(&*ledger.reader());
        for choices in choices.chunks(batch) {
            let deeds: Vec<Deed> = choices.iter().map(|choice| Deed::choose(*choice, &before)).collect();
            let expected = expected_claim(&deeds, &before, clock.now());
            let replies = perform(&mut ledger, &clock, &deeds);
            let after = Everything::read(&*ledger.reader());
            if let Some(expected) = expected {
                prop_assert_eq!(claimed_in(&before, &after), expected, "{:?}: {:?}", &deeds, &replies);
            }
            obey(&before, &after, &deeds);
            lanes_count_right(&mut ledger, &after);
            before = after;
        }
    }
}

#[test]
fn a_cache_makes_no_difference() {
    for seed in 0..40 {
        let clock = ManualClock::at(START);
        let mut kept = memory(&clock);
        let mut other = memory(&clock).with_cache(match seed % 2 {
            0 => Cache::Forgotten,
            _ => Cache::ForgottenAtRandom(Random::new(seed)),
        });
        differential(&mut kept, &mut other, &clock, seed, 300);
    }
}

/// What a plain claim must get, by brute force; `None` if this is not one plain claim alone.
fn expected_claim(deeds: &[Deed], seen: &Everything, now: Timestamp) -> Option<Option<TaskId>> {
    match deeds {
        [Deed::Claim(claim)] if claim.task.is_none() => {
            Some(best_for(claim, seen, now).map(|task| task.id.clone()))
        }
        _ => None,
    }
}

fn claimed_in(before: &Everything, after: &Everything) -> Option<TaskId> {
    let new = after
        .log
        .iter()
        .filter(|logged| logged.seq > before.head.seq);
    let mut claims = new.filter_map(|logged| match &logged.event {
        Event::TaskClaimed { task, .. } => Some(task.clone()),
        _ => None,
    });
    let first = claims.next();
    assert_eq!(claims.next(), None, "one claim takes one task");
    first
}

/// Panics at the first law that does not hold.
pub fn obey(before: &Everything, after: &Everything, deeds: &[Deed]) {
    holders_hold(after, deeds);
    leases_exclude(after, deeds);
    final_states_stay(before, after, deeds);
    the_log_is_gapless(after);
    messages_are_handed_once(before, after, deeds);
    the_head_counts_right(after, deeds);
    blockers_are_open(after, deeds);
}

fn holders_hold(after: &Everything, deeds: &[Deed]) {
    let mut listed: BTreeMap<&TaskId, Vec<_>> = BTreeMap::new();
    for agent in &after.agents {
        for task in &agent.holds {
            listed.entry(task).or_default().push(&agent.id);
        }
        assert!(
            !agent.is_gone() || agent.holds.is_empty(),
            "{} is gone and holds {:?} after {deeds:?}",
            agent.id,
            agent.holds
        );
    }
    for task in &after.tasks {
        let holders = listed.remove(&task.id).unwrap_or_default();
        let expected: Vec<_> = task.holder().into_iter().collect();
        assert_eq!(holders, expected, "holders of {} after {deeds:?}", task.id);
    }
    assert!(
        listed.is_empty(),
        "held but not there: {listed:?} after {deeds:?}"
    );
}

fn leases_exclude(after: &Everything, deeds: &[Deed]) {
    let live: Vec<_> = after.leases.iter().collect();
    for (at, left) in live.iter().enumerate() {
        for right in &live[at + 1..] {
            let both_live =
                left.acquired_at < right.expires_at && right.acquired_at < left.expires_at;
            assert!(
                left.agent == right.agent || !both_live || !left.path.overlaps(&right.path),
                "{left:?} and {right:?} overlap after {deeds:?}"
            );
        }
        if let Some(task) = &left.task {
            let task = after.tasks.iter().find(|row| row.id == *task);
            let holder = task.and_then(Task::holder);
            assert_eq!(holder, Some(&left.agent), "{left:?} after {deeds:?}");
        }
    }
    let tokens: HashSet<u64> = live.iter().map(|lease| lease.fencing).collect();
    assert_eq!(
        tokens.len(),
        live.len(),
        "fencing tokens are unique after {deeds:?}"
    );
}

fn final_states_stay(before: &Everything, after: &Everything, deeds: &[Deed]) {
    let now: HashMap<&TaskId, &Task> = after.tasks.iter().map(|task| (&task.id, task)).collect();
    let retried = deeds
        .iter()
        .any(|deed| format!("{deed:?}").starts_with("Other(RetryTask"));
    for was in &before.tasks {
        let Some(is) = now.get(&was.id).filter(|is| is.number == was.number) else {
            assert!(
                was.status().is_final() || deeds.len() > 1,
                "{} went while it was {} after {deeds:?}",
                was.id,
                was.status()
            );
            continue;
        };
        assert!(
            is.epoch >= was.epoch,
            "{} lost an epoch after {deeds:?}",
            is.id
        );
        if was.status().is_final() && !retried {
            assert_eq!(is.state, was.state, "{} after {deeds:?}", is.id);
        }
    }
}

fn the_log_is_gapless(after: &Everything) {
    for (logged, expected) in after.log.iter().zip(1_u64..) {
        assert_eq!(logged.seq, expected, "a gap in the log");
    }
    assert_eq!(
        after.log.len() as u64,
        after.head.seq,
        "the head ends the log"
    );
    for pair in after.log.windows(2) {
        assert!(
            pair[0].at <= pair[1].at,
            "time went backwards in the log: {pair:?}"
        );
    }
}

fn messages_are_handed_once(before: &Everything, after: &Everything, deeds: &[Deed]) {
    let mut pairs = HashSet::new();
    for delivery in &after.deliveries {
        assert!(
            pairs.insert((&delivery.message, &delivery.agent)),
            "two deliveries of one message after {deeds:?}"
        );
    }
    let mut handed: HashMap<(&MessageId, String), u32> = HashMap::new();
    for logged in &after.log {
        if let Event::MessageDelivered { message, agent } = &logged.event {
            *handed.entry((message, agent.to_string())).or_default() += 1;
        }
    }
    // An id may be used again once its message is pruned.
    let reused: HashSet<MessageId> = duplicates(after);
    for ((message, agent), count) in handed {
        assert!(
            count == 1 || reused.contains(message),
            "{message} was handed to {agent} {count} times after {deeds:?}"
        );
    }
    for was in &before.deliveries {
        let is = after
            .deliveries
            .iter()
            .find(|is| (&is.message, &is.agent) == (&was.message, &was.agent));
        if was.state != DeliveryState::Queued && is.is_some_and(|is| is.number == was.number) {
            assert_ne!(
                is.map(|is| is.state),
                Some(DeliveryState::Queued),
                "{was:?} waits again after {deeds:?}"
            );
        }
    }
}

fn duplicates(after: &Everything) -> HashSet<MessageId> {
    let mut seen = HashSet::new();
    let sent = after.log.iter().filter_map(|logged| match &logged.event {
        Event::MessageSent { message, .. } => Some(message.clone()),
        _ => None,
    });
    sent.filter(|message| !seen.insert(message.clone()))
        .collect()
}

fn the_head_counts_right(after: &Everything, deeds: &[Deed]) {
    let head = &after.head;
    for status in TaskStatus::ALL {
        let real = after
            .tasks
            .iter()
            .filter(|task| task.status() == *status)
            .count();
        assert_eq!(
            head.count(*status),
            real as u64,
            "{status} tasks after {deeds:?}"
        );
    }
    assert_eq!(
        head.leases,
        after.leases.len() as u64,
        "leases after {deeds:?}"
    );
    let queued = |state: DeliveryState| state == DeliveryState::Queued;
    let waiting = after
        .deliveries
        .iter()
        .filter(|row| queued(row.state))
        .count();
    assert_eq!(
        head.queued_deliveries, waiting as u64,
        "waiting messages after {deeds:?}"
    );
    for agent in &after.agents {
        let mine = after
            .deliveries
            .iter()
            .filter(|row| row.agent == agent.id && queued(row.state));
        assert_eq!(
            u64::from(agent.inbox),
            mine.count() as u64,
            "inbox of {} after {deeds:?}",
            agent.id
        );
    }
    let last = after
        .tasks
        .iter()
        .map(|task| task.number)
        .max()
        .unwrap_or(0);
    assert!(head.task_number >= last, "task numbers after {deeds:?}");
    let fencing = after
        .leases
        .iter()
        .map(|lease| lease.fencing)
        .max()
        .unwrap_or(0);
    assert!(head.fencing >= fencing, "fencing tokens after {deeds:?}");
}

/// A task waits if and only if something it depends on is not completed.
fn blockers_are_open(after: &Everything, deeds: &[Deed]) {
    for task in &after.tasks {
        for blocker in &task.blockers {
            let open = after.tasks.iter().find(|row| row.id == *blocker);
            assert!(
                open.is_none_or(|row| row.status() != TaskStatus::Completed),
                "{} waits for {blocker}, which is completed, after {deeds:?}",
                task.id
            );
        }
        let waits = task.status() == TaskStatus::Waiting;
        let open = matches!(task.status(), TaskStatus::Ready | TaskStatus::Waiting);
        assert!(
            !open || waits != task.blockers.is_empty(),
            "{task:?} after {deeds:?}"
        );
    }
}

/// Every lane's counters equal what its tasks say, and every open task is in the lane of its kind.
fn lanes_count_right(ledger: &mut Ledger, after: &Everything) {
    let mut real: BTreeMap<LaneKey, (u64, u64, u64)> = BTreeMap::new();
    for task in &after.tasks {
        let entry = real.entry(LaneKey::of(task)).or_insert((0, 0, u64::MAX));
        match task.status() {
            TaskStatus::Ready => {
                entry.0 += 1;
                entry.2 = entry.2.min(task.number);
            }
            TaskStatus::Claimed | TaskStatus::InProgress => entry.1 += 1,
            TaskStatus::Waiting
            | TaskStatus::RetryWait
            | TaskStatus::NeedsPerson
            | TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Canceled => {}
        }
    }
    let asks: Vec<Ask> = real.keys().cloned().map(Ask::LaneByKey).collect();
    let slice = ledger.look(&asks);
    let mut under: BTreeMap<Rep, u64> = BTreeMap::new();
    for (key, (ready, held, head)) in real {
        let lane = slice.lanes.by_key(&key).expect("it was asked for");
        let Some(lane) = lane else {
            assert_eq!((ready, held), (0, 0), "no lane for {key:?}");
            continue;
        };
        assert_eq!((lane.ready, lane.held), (ready, held), "{lane:?}");
        assert!(lane.ready + lane.held > 0, "an empty lane stays: {lane:?}");
        assert!(
            lane.ready == 0 || lane.head <= head,
            "{lane:?} begins at {head}"
        );
        *under.entry(lane.rep.clone()).or_default() += 1;
    }
    let asks: Vec<Ask> = under.keys().cloned().map(Ask::LanesUnder).collect();
    let slice = ledger.look(&asks);
    for (rep, count) in under {
        assert_eq!(
            slice.lanes.lanes_under(&rep),
            Some(count),
            "lanes under {rep:?}"
        );
    }
}

#[test]
fn a_lane_longer_than_what_is_remembered_of_it_is_claimed_in_order() {
    let clock = ManualClock::at(START);
    let mut ledger = memory(&clock);
    let count = 1000;
    let tasks = (0..count).map(|at| NewTask::plain(format!("t{at:04}"), "one of many"));
    let tasks = tasks.collect();
    ledger.run(CreateTasks { tasks }).expect("the ids are new");
    let agents: Vec<Join> = (0..4).map(|at| newcomer(&format!("a{at}"))).collect();
    for agent in agents {
        ledger.run(agent).expect("the id is free");
    }
    let claims: Vec<Claim> = (0..4).map(|at| claim(&format!("a{at}"))).collect();
    let mut expected = 0;
    while expected < count {
        let verbs: Vec<&dyn AnyVerb> = (0..40).map(|at| &claims[at % 4] as &dyn AnyVerb).collect();
        for reply in ledger.run_batch(&verbs) {
            let reply = reply.expect("the agents are there");
            assert!(
                reply.contains(&format!("id: t{expected:04},")),
                "{expected}: {reply}"
            );
            expected += 1;
        }
    }
    let last = ledger.run(claim("a0")).expect("a0 is there");
    assert_eq!(last, Claimed::None(NoTask::AllTasksClaimed.into()));
}

fn claim(agent: &str) -> Claim {
    Claim {
        agent: agent.into(),
        filter: Filter::default(),
        task: None,
    }
}

fn newcomer(agent: &str) -> Join {
    Join::by(Door::Jetpack, agent)
}

#[test]
fn the_laws_know_a_retry_when_they_see_one() {
    // A retry is the only way out of a final state, and the laws recognise it by its name.
    let deed = Deed::Other(Box::new(RetryTask { task: "t".into() }));
    assert!(format!("{deed:?}").starts_with("Other(RetryTask"));
}
