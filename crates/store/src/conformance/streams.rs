//! Messages on their way through streams, streams that end, deliveries that fail.

use std::time::Duration;

use switchboard_core::query::{MessageSince, Since};
use switchboard_core::verb::{EndStream, FailDelivery, Hand, Handed, Join, Receive};
use switchboard_core::{Ask, DeliveryState, Door, Received, RowKey, Stream, Timestamp};

use super::acts::send;
use super::ledger::{Ledger, must};
use super::{START, World};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn messages_on_their_way(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    for agent in ["ann", "bob"] {
        ledger.join(agent, &[]);
    }
    for id in ["m1", "m2"] {
        ledger
            .run(send(id, "ann", Some("bob")))
            .expect("bob is there");
    }
    let mut hand = Hand {
        agent: "bob".into(),
        via: Door::Bus,
        stream: "s1".to_owned(),
        limit: 1,
        hold_for: MINUTE,
    };
    let taken = ledger.run(hand.clone()).expect("bob is there");
    assert_eq!(taken[0].message.id, "m1".into());
    let state = |ledger: &Ledger, id: &str| {
        let found = must("read a message", ledger.reader().message(&id.into()));
        let (_, deliveries) = found.expect("it was sent");
        let row = &deliveries[0];
        let held = row.stream.as_deref().map(str::to_owned);
        (row.state, row.via.zip(held), row.handing_until)
    };
    let of = |via, stream: &str| Some((via, stream.to_owned()));
    let until = START + MINUTE;
    let (queued, handed) = (DeliveryState::Queued, DeliveryState::Handed);
    let held = (queued, of(Door::Bus, "s1"), Some(until));
    assert_eq!(state(&ledger, "m1"), held, "held");
    assert_eq!(state(&ledger, "m2"), (queued, None, None), "not taken up");
    let slice = ledger.look(&[Ask::Row(RowKey::Delivery(("m1".into(), "bob".into())))]);
    let row = slice.delivery(&"m1".into(), &"bob".into());
    let held = row.and_then(|row| row.handing_until);
    assert_eq!(held, Some(until), "in a batch");
    hand.limit = 9;
    let ids = |taken: Vec<Received>| {
        let ids = taken.into_iter().map(|taken| taken.message.id.to_string());
        ids.collect::<Vec<_>>()
    };
    let receive = Receive {
        agent: "bob".into(),
        kinds: Vec::new(),
        limit: 9,
        via: Door::Jetpack,
    };
    let rest = ledger.run(receive.clone()).expect("bob is there");
    assert_eq!(ids(rest), ["m2"], "what another door holds is left alone");
    assert!(ledger.run(receive).expect("bob is there").is_empty());
    clock.advance(MINUTE);
    let all = ledger.run(hand).expect("bob is there");
    assert_eq!(ids(all), ["m1"], "a stream may take it up again");
    let settled = ledger.run(Handed {
        agent: "bob".into(),
        stream: "s1".to_owned(),
        messages: vec!["m1".into()],
    });
    assert_eq!(settled.expect("bob is there"), 1);
    let over = (handed, of(Door::Bus, "s1"), None);
    assert_eq!(state(&ledger, "m1"), over, "handed over");
    let agent = must("read an agent", ledger.reader().agent(&"bob".into()));
    let stream = agent.expect("bob is there").stream;
    assert_eq!(stream, Stream::default(), "nothing is owed");
    let head = must("read the head", ledger.reader().head());
    assert_eq!(head.queued_deliveries, 0, "nothing waits");
}

pub(super) fn messages_that_fail(world: &mut World<'_>) {
    let (mut ledger, _) = world.ledger();
    for agent in ["ann", "bob"] {
        ledger.join(agent, &[]);
    }
    for id in ["m1", "m2"] {
        let sent = ledger.run(send(id, "ann", Some("bob")));
        sent.expect("bob is there");
    }
    let failed = ledger.run(FailDelivery {
        agent: "bob".into(),
        via: Door::Bus,
        stream: None,
        messages: vec!["m1".into()],
        reason: "refused".to_owned(),
    });
    assert_eq!(failed.expect("bob is there"), 1);
    let found = must("read a message", ledger.reader().message(&"m1".into()));
    let (_, deliveries) = found.expect("it was sent");
    let row = &deliveries[0];
    assert_eq!(row.state, DeliveryState::Failed);
    assert_eq!(row.reason.as_deref(), Some("refused"));
    let head = must("read the head", ledger.reader().head());
    assert_eq!(head.queued_deliveries, 1, "the other waits");
    let since = MessageSince {
        agent: "bob".into(),
        since: Since::Instant(Timestamp(0)),
        kinds: Vec::new(),
        limit: 9,
    };
    let read = ledger.reader().messages_since(&since, START + MINUTE);
    let read = must("read messages", read);
    let left: Vec<&str> = read.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(left, ["m2"], "what failed is left out");
}

pub(super) fn streams_that_end(world: &mut World<'_>) {
    let (mut ledger, clock) = world.ledger();
    ledger.join("ann", &[]);
    let join = |stream: &str| Join {
        silent_after: Some(MINUTE),
        stream: Some(stream.to_owned()),
        ..Join::by(Door::Bus, "bob")
    };
    ledger.run(join("s1")).expect("the id is free");
    let mut mail = send("m1", "ann", Some("bob"));
    mail.ack_required = true;
    ledger.run(mail).expect("bob is there");
    let hand = |stream: &str| Hand {
        agent: "bob".into(),
        via: Door::Bus,
        stream: stream.to_owned(),
        limit: 9,
        hold_for: MINUTE,
    };
    let handed = |stream: &str| Handed {
        agent: "bob".into(),
        stream: stream.to_owned(),
        messages: vec!["m1".into()],
    };
    let stream = |ledger: &Ledger| {
        let agent = must("read an agent", ledger.reader().agent(&"bob".into()));
        agent.expect("bob is there").stream
    };
    for (name, redelivered) in [("s1", false), ("s2", true)] {
        let taken = ledger.run(hand(name)).expect("bob is there");
        assert_eq!(taken.len(), 1, "{name}");
        assert_eq!(taken[0].redelivered, redelivered, "{name}");
        clock.advance(SECOND);
        ledger.run(handed(name)).expect("bob is there");
        let kept = Stream {
            name: Some(name.to_owned()),
            unacknowledged: vec!["m1".into()],
            silent_after: join(name).silent_after,
            ..Stream::default()
        };
        assert_eq!(stream(&ledger), kept, "{name}");
        let next = if redelivered { "s3" } else { "s2" };
        ledger.run(join(next)).expect("it comes back");
        let found = must("read a message", ledger.reader().message(&"m1".into()));
        let (message, deliveries) = found.expect("it was sent");
        assert_eq!(message.delivered_at, None, "{name}");
        assert_eq!(deliveries[0].state, DeliveryState::Queued, "{name}");
        assert!(deliveries[0].is_redelivered(), "{name}");
        let head = must("read the head", ledger.reader().head());
        assert_eq!(head.queued_deliveries, 1, "{name}");
    }
    let end = EndStream {
        agent: "bob".into(),
        stream: "s3".to_owned(),
    };
    ledger.run(end).expect("it is over");
    let ended = Stream {
        name: Some("s3".to_owned()),
        silent_after: join("s3").silent_after,
        ..Stream::default()
    };
    assert_eq!(stream(&ledger), ended);
}
