//! Whose request goes when, and how many wait.

use super::*;

fn identity(mtime_ns: i128) -> Identity {
    Identity {
        ino: mtime_ns as u64,
        mtime_ns,
        size: 1,
    }
}

/// A queue that has seen these requests: name, agent, time of writing.
fn queue(requests: &[(&str, &str, i128)]) -> Queue {
    let mut queue = Queue::default();
    for (name, agent, at) in requests {
        see(&mut queue, name, agent, *at, false);
    }
    queue
}

fn see(queue: &mut Queue, name: &str, agent: &str, at: i128, waits: bool) {
    queue.look_at(Origin::Requests, name.as_ref());
    let looks = queue.next_to_look(1);
    assert_eq!(looks, [(Origin::Requests, name.into())]);
    let look = Turn::Request {
        identity: identity(at),
        agent: agent.into(),
        waits,
    };
    queue.looked(name.into(), look, Instant::now());
}

fn next(queue: &mut Queue) -> Option<String> {
    let item = queue.next()?;
    Some(item.name.to_string_lossy().into_owned())
}

fn item(name: &str, agent: &str, at: i128) -> Item {
    Item {
        name: name.into(),
        identity: identity(at),
        origin: Origin::Requests,
        agent: Some(agent.into()),
        waits: false,
    }
}

#[test]
fn one_agents_requests_go_in_the_order_of_writing_and_then_of_their_names() {
    let mut queue = queue(&[("b", "x", 2), ("c", "x", 1), ("a", "x", 2), ("d", "y", 9)]);
    let now = Instant::now();
    assert_eq!(next(&mut queue).as_deref(), Some("c"));
    assert_eq!(next(&mut queue).as_deref(), Some("d"), "others do not wait");
    assert_eq!(next(&mut queue), None);
    queue.worked(item("c", "x", 1), Verdict::Away, now);
    assert_eq!(next(&mut queue).as_deref(), Some("a"));
    queue.worked(item("a", "x", 2), Verdict::Away, now);
    assert_eq!(next(&mut queue).as_deref(), Some("b"));
    queue.worked(item("b", "x", 2), Verdict::Away, now);
    queue.worked(item("d", "y", 9), Verdict::Away, now);
    assert_eq!(queue.open(), 0);
    assert!(queue.known.is_empty() && queue.lanes.is_empty());
}

#[test]
fn so_many_are_in_work_at_a_time_and_no_more() {
    let mut queue = Queue::default();
    for number in 0..=IN_WORK_MAX {
        see(
            &mut queue,
            &format!("r{number}"),
            &format!("a{number}"),
            1,
            false,
        );
    }
    for _ in 0..IN_WORK_MAX {
        assert!(next(&mut queue).is_some());
    }
    assert_eq!(next(&mut queue), None);
    queue.worked(item("r0", "a0", 1), Verdict::Away, Instant::now());
    assert!(next(&mut queue).is_some());
}

#[test]
fn a_request_that_waits_holds_up_nobody_and_past_the_bound_none_waits() {
    let mut queue = Queue::default();
    for number in 0..WAITING_MAX {
        see(&mut queue, &format!("w{number}"), "a", number as i128, true);
    }
    see(&mut queue, "heartbeat", "a", WAITING_MAX as i128, false);
    for _ in 0..WAITING_MAX {
        assert!(queue.next().unwrap().waits);
    }
    assert_eq!(next(&mut queue).as_deref(), Some("heartbeat"));
    see(&mut queue, "more", "b", 1, true);
    assert!(!queue.next().unwrap().waits);
}

#[test]
fn what_is_not_whole_is_given_time_from_its_last_change() {
    let mut queue = Queue::default();
    let start = Instant::now();
    let fresh = Duration::ZERO;
    queue.look_at(Origin::Requests, "h".as_ref());
    for (after, at) in [(0, 1), (1900, 2), (3800, 2)] {
        queue.wake(start + Duration::from_millis(after));
        assert_eq!(queue.next_to_look(9).len(), 1, "{after}");
        let now = start + Duration::from_millis(after);
        queue.looked("h".into(), Turn::Half(identity(at), fresh), now);
        assert_eq!(next(&mut queue), None);
    }
    let late = start + Duration::from_millis(3900);
    queue.wake(late);
    queue.next_to_look(9);
    queue.looked("h".into(), Turn::Half(identity(2), fresh), late);
    assert_eq!(next(&mut queue).as_deref(), Some("h"), "to be rejected");
    queue.look_at(Origin::Requests, "old".as_ref());
    queue.next_to_look(9);
    queue.looked("old".into(), Turn::Half(identity(1), WHOLE_WITHIN), start);
    assert_eq!(next(&mut queue).as_deref(), Some("old"));
}

#[test]
fn the_next_file_of_a_name_is_seen_to_after_the_one_before() {
    let mut queue = queue(&[("n", "a", 1)]);
    assert!(next(&mut queue).is_some());
    queue.look_at(Origin::Requests, "n".as_ref());
    assert!(!queue.has_to_look());
    queue.worked(item("n", "a", 1), Verdict::Away, Instant::now());
    assert_eq!(queue.next_to_look(9), [(Origin::Requests, "n".into())]);
    queue.looked("n".into(), Turn::Gone, Instant::now());
    assert!(queue.known.is_empty());
}

#[test]
fn one_that_lies_among_the_taken_comes_before_the_next_of_its_name() {
    let mut queue = queue(&[("n", "a", 1)]);
    assert!(next(&mut queue).is_some());
    queue.worked(item("n", "a", 1), Verdict::Another, Instant::now());
    assert_eq!(queue.next_to_look(9), [(Origin::Taken, "n".into())]);
    queue.looked("n".into(), Turn::Gone, Instant::now());
    assert_eq!(queue.next_to_look(9), [(Origin::Requests, "n".into())]);
}

#[test]
fn what_cannot_be_moved_is_not_looked_at_again_until_it_is_another() {
    let mut queue = queue(&[("n", "a", 1)]);
    assert!(next(&mut queue).is_some());
    queue.worked(item("n", "a", 1), Verdict::Unmovable, Instant::now());
    assert_eq!(queue.open(), 0);
    assert!(!queue.meets(Origin::Requests, "n".as_ref(), 1));
    assert!(queue.meets(Origin::Requests, "n".as_ref(), 2));
    // Something was heard of it, but it is the same.
    queue.look_at(Origin::Requests, "n".as_ref());
    assert_eq!(queue.next_to_look(9).len(), 1);
    queue.looked("n".into(), Turn::Bad(identity(1)), Instant::now());
    assert_eq!(next(&mut queue), None);
    queue.swept();
    assert_eq!(queue.known.len(), 1);
    queue.swept();
    assert!(queue.known.is_empty(), "it was not met any more");
}

#[test]
fn so_many_names_are_known_and_the_rest_waits_in_the_directory() {
    let mut queue = Queue::default();
    for number in 0..KNOWN_MAX {
        queue.look_at(Origin::Requests, number.to_string().as_ref());
    }
    assert_eq!(queue.room(), 0);
    queue.look_at(Origin::Requests, "more".as_ref());
    assert_eq!(queue.open(), KNOWN_MAX);
    let first = queue.next_to_look(1).remove(0).1;
    queue.looked(first, Turn::Gone, Instant::now());
    assert_eq!(queue.room(), 1);
}
