//! The ledger has lost what was told, as after a failover: streams say so, and go on where it still holds.

use switchboard_core::verb::BeginEpoch;

use crate::events::Stream;
use crate::harness::TestHub;
use crate::world::{Ledger, World, eventually};

async fn latest(hub: &TestHub) -> u64 {
    let page = hub.client.get("/api/v1/events?limit=1").await.expect(200);
    page["latest"].as_u64().unwrap()
}

/// Of what was told, the last two events are lost. Tells how many there were.
async fn rewind(hub: &TestHub, world: &World) -> u64 {
    let told = latest(hub).await;
    let common = told - 2;
    *world.0.rewound.lock().unwrap() = Some(BeginEpoch { told, common });
    hub.client.task("afterwards").await;
    told
}

#[tokio::test]
async fn every_stream_is_told_and_sent_back() {
    let ledger = Ledger::new();
    let (one, world) = ledger.coordinator().await;
    let (other, _) = ledger.coordinator().await;
    for number in 0..5 {
        one.client.task(&number.to_string()).await;
    }
    let told = latest(&one).await;
    let mut streams = Vec::new();
    for hub in [&one, &other] {
        // Only creations: that something was lost is told to everyone.
        let path = format!("/api/v1/events?types=task_created&after={}", told - 1);
        let mut stream = Stream::open(hub, &path, None).await;
        assert_eq!(stream.next().await.unwrap().0, told);
        streams.push(stream);
    }
    assert_eq!(rewind(&one, &world).await, told);
    for stream in &mut streams {
        let (seq, kind, data) = stream.next().await.unwrap();
        assert_eq!((seq, &*kind), (told - 2, "ledger_rewound"));
        assert_eq!((&data["epoch"], &data["seq"]), (&2.into(), &seq.into()));
        for expected in [told - 1, told, told + 3] {
            let (seq, kind, _) = stream.next().await.unwrap();
            assert_eq!((seq, &*kind), (expected, "task_created"));
        }
    }
    let began = format!("/api/v1/events?types=epoch_began&after={told}");
    let began = one.client.get(&began).await.expect(200);
    assert_eq!(began["events"][0]["told"], told);
    one.running.shutdown().await;
    other.running.shutdown().await;
}

#[tokio::test]
async fn who_comes_back_from_another_epoch_is_told_and_a_plain_number_is_taken_as_it_is() {
    let ledger = Ledger::new();
    let (hub, world) = ledger.coordinator().await;
    for number in 0..5 {
        hub.client.task(&number.to_string()).await;
    }
    let told = rewind(&hub, &world).await;
    eventually(async || latest(&hub).await > told).await;
    for (place, goes_on_after) in [
        (format!("1.{told}"), Some(told - 2)),
        (format!("1.{}", told - 3), Some(told - 3)),
        (format!("2.{}", told - 1), None),
        ((told - 1).to_string(), None),
        ("7.3".to_owned(), Some(0)),
        ("2.999999".to_owned(), Some(0)),
    ] {
        let path = format!("/api/v1/events?after={place}");
        let page = hub.client.get(&path).await.expect(200);
        let first = page["events"][0]["seq"].as_u64();
        let mut by_id = Stream::open(&hub, "/api/v1/events", Some(&place)).await;
        let mut by_query = Stream::open(&hub, &path, None).await;
        assert_eq!(page["epoch"], 2);
        if let Some(after) = goes_on_after {
            assert_eq!(page["ledger_rewound"], true, "{place}");
            assert_eq!(first, Some(after + 1), "{place}");
            for stream in [&mut by_id, &mut by_query] {
                let (seq, kind, _) = stream.next().await.unwrap();
                assert_eq!((seq, &*kind), (after, "ledger_rewound"), "{place}");
                assert_eq!(stream.next().await.unwrap().0, after + 1, "{place}");
            }
        } else {
            assert!(page["ledger_rewound"].is_null(), "{place}");
            assert_eq!(first, Some(told), "{place}");
            for stream in [&mut by_id, &mut by_query] {
                assert_eq!(stream.next().await.unwrap().0, told, "{place}");
            }
        }
    }
    hub.running.shutdown().await;
}
