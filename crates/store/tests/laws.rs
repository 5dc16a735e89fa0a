//! Laws that hold after every step of any history, on the model engine.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;
use switchboard_core::lane::{LaneKey, Rep};
use switchboard_core::verb::RetryTask;
use switchboard_core::{Ask, DeliveryState, Event, MessageId, Task, TaskId, TaskStatus, Verb as _};
use switchboard_store::ManualClock;
use switchboard_store::conformance::{
    Cache, Deed, Everything, Ledger, Random, START, best_for, differential, perform,
};
use switchboard_store::memory::MemoryEngine;

fn memory(clock: &ManualClock) -> Ledger {
    Ledger::new(Box::new(MemoryEngine::new(Box::new(clock.clone()))))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_step_of_any_history_obeys_the_laws(
        choices in prop::collection::vec(any::<u64>(), 1..220),
        cache in 0..3_u8,
    ) {
        let clock = ManualClock::at(START);
        let mut ledger = memory(&clock).with_cache(match cache {
            0 => Cache::Kept,
            1 => Cache::Forgotten,
            _ => Cache::ForgottenAtRandom(Random::new(choices.len() as u64)),
        });
        let mut before = Everything::read(&*ledger.reader());
        for choice in choices {
            let deed = Deed::choose(choice, &before);
            let expected = expected_claim(&deed, &before);
            let replies = perform(&mut ledger, &clock, std::slice::from_ref(&deed));
            let after = Everything::read(&*ledger.reader());
            if let Some(expected) = expected {
                prop_assert_eq!(claimed_in(&before, &after), expected, "{:?}: {:?}", &deed, &replies);
            }
            obey(&before, &after, &deed);
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

/// What a plain claim must get, by brute force; `None` if this is no plain claim.
fn expected_claim(deed: &Deed, seen: &Everything) -> Option<Option<TaskId>> {
    match deed {
        Deed::Claim(claim) if claim.task.is_none() => {
            Some(best_for(claim, seen).map(|task| task.id.clone()))
        }
        Deed::Claim(_) | Deed::Wait(_) | Deed::Sweep(_) | Deed::Other(_) => None,
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

fn obey(before: &Everything, after: &Everything, deed: &Deed) {
    holders_hold(after, deed);
    leases_exclude(after, deed);
    final_states_stay(before, after, deed);
    the_log_is_gapless(after);
    messages_are_handed_once(before, after, deed);
    the_head_counts_right(after, deed);
    blockers_are_open(after, deed);
}

fn holders_hold(after: &Everything, deed: &Deed) {
    let mut listed: BTreeMap<&TaskId, Vec<_>> = BTreeMap::new();
    for agent in &after.agents {
        for task in &agent.holds {
            listed.entry(task).or_default().push(&agent.id);
        }
        assert!(
            !agent.is_gone() || agent.holds.is_empty(),
            "{} is gone and holds {:?} after {deed:?}",
            agent.id,
            agent.holds
        );
    }
    for task in &after.tasks {
        let holders = listed.remove(&task.id).unwrap_or_default();
        let expected: Vec<_> = task.holder().into_iter().collect();
        assert_eq!(holders, expected, "holders of {} after {deed:?}", task.id);
    }
    assert!(
        listed.is_empty(),
        "held but not there: {listed:?} after {deed:?}"
    );
}

fn leases_exclude(after: &Everything, deed: &Deed) {
    let live: Vec<_> = after.leases.iter().collect();
    for (at, left) in live.iter().enumerate() {
        for right in &live[at + 1..] {
            let both_live =
                left.acquired_at < right.expires_at && right.acquired_at < left.expires_at;
            assert!(
                left.agent == right.agent || !both_live || !left.path.overlaps(&right.path),
                "{left:?} and {right:?} overlap after {deed:?}"
            );
        }
        if let Some(task) = &left.task {
            let task = after.tasks.iter().find(|row| row.id == *task);
            let holder = task.and_then(Task::holder);
            assert_eq!(holder, Some(&left.agent), "{left:?} after {deed:?}");
        }
    }
    let tokens: HashSet<u64> = live.iter().map(|lease| lease.fencing).collect();
    assert_eq!(
        tokens.len(),
        live.len(),
        "fencing tokens are unique after {deed:?}"
    );
}

fn final_states_stay(before: &Everything, after: &Everything, deed: &Deed) {
    let now: HashMap<&TaskId, &Task> = after.tasks.iter().map(|task| (&task.id, task)).collect();
    let retried = format!("{deed:?}").starts_with("Other(RetryTask");
    for was in &before.tasks {
        let Some(is) = now.get(&was.id).filter(|is| is.number == was.number) else {
            assert!(
                was.status().is_final(),
                "{} went while it was {} after {deed:?}",
                was.id,
                was.status()
            );
            continue;
        };
        assert!(
            is.epoch >= was.epoch,
            "{} lost an epoch after {deed:?}",
            is.id
        );
        if was.status().is_final() && !retried {
            assert_eq!(is.state, was.state, "{} after {deed:?}", is.id);
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

fn messages_are_handed_once(before: &Everything, after: &Everything, deed: &Deed) {
    let mut pairs = HashSet::new();
    for delivery in &after.deliveries {
        assert!(
            pairs.insert((&delivery.message, &delivery.agent)),
            "two deliveries of one message after {deed:?}"
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
            "{message} was handed to {agent} {count} times after {deed:?}"
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
                "{was:?} waits again after {deed:?}"
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

fn the_head_counts_right(after: &Everything, deed: &Deed) {
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
            "{status} tasks after {deed:?}"
        );
    }
    assert_eq!(
        head.leases,
        after.leases.len() as u64,
        "leases after {deed:?}"
    );
    let queued = |state: DeliveryState| state == DeliveryState::Queued;
    let waiting = after
        .deliveries
        .iter()
        .filter(|row| queued(row.state))
        .count();
    assert_eq!(
        head.queued_deliveries, waiting as u64,
        "waiting messages after {deed:?}"
    );
    for agent in &after.agents {
        let mine = after
            .deliveries
            .iter()
            .filter(|row| row.agent == agent.id && queued(row.state));
        assert_eq!(
            u64::from(agent.inbox),
            mine.count() as u64,
            "inbox of {} after {deed:?}",
            agent.id
        );
    }
    let last = after
        .tasks
        .iter()
        .map(|task| task.number)
        .max()
        .unwrap_or(0);
    assert!(head.task_number >= last, "task numbers after {deed:?}");
    let fencing = after
        .leases
        .iter()
        .map(|lease| lease.fencing)
        .max()
        .unwrap_or(0);
    assert!(head.fencing >= fencing, "fencing tokens after {deed:?}");
}

/// A task waits if and only if something it depends on is not completed.
fn blockers_are_open(after: &Everything, deed: &Deed) {
    for task in &after.tasks {
        for blocker in &task.blockers {
            let open = after.tasks.iter().find(|row| row.id == *blocker);
            assert!(
                open.is_none_or(|row| row.status() != TaskStatus::Completed),
                "{} waits for {blocker}, which is completed, after {deed:?}",
                task.id
            );
        }
        let waits = task.status() == TaskStatus::Waiting;
        let open = matches!(task.status(), TaskStatus::Ready | TaskStatus::Waiting);
        assert!(
            !open || waits != task.blockers.is_empty(),
            "{task:?} after {deed:?}"
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
fn retry_is_the_only_way_out_of_a_final_state() {
    // The law above recognises a retry by its name; this keeps the name honest.
    let retry = RetryTask { task: "t".into() };
    let deed = Deed::Other(Box::new(retry.clone()));
    assert!(format!("{deed:?}").starts_with("Other(RetryTask"));
    let slice = switchboard_core::Slice::default();
    let mut want = switchboard_core::Want::new(&slice);
    retry.asks(&mut want, START);
    assert!(!want.is_satisfied());
}
