//! Messages that fit no line: every part fits, and together they are what was cut.

use proptest::prelude::*;
use switchboard_wire::Json;
use switchboard_wire::agentbus::catalog::CatalogEntry;
use switchboard_wire::agentbus::envelope::{self, FrameWriter, Sender};
use switchboard_wire::agentbus::message::{
    AgentMessage, CatalogDelta, CatalogSnapshot, CatalogVersion, DirectorStatus, EngramContent,
    Outbound, Payload, ProjectStateSnapshot, Queue, Release, TaskAssigned, WorkerEntry,
};
use switchboard_wire::agentbus::parts::{Gather, InParts, PARTS_MAX};
use switchboard_wire::agentbus::{DirectorState, Role, Scope, Text, UtcTime, engram};

fn director() -> Sender<'static> {
    Sender {
        role: Role::Director,
        id: Text::from("director"),
        run_id: Some(Text::from("run_20260212-000000Z")),
    }
}

/// Cuts, writes, reads, joins; each line within `max`, and the whole as it was.
fn there_and_back<T>(message: T, max: usize) -> usize
where
    T: InParts + Payload + Clone + PartialEq + std::fmt::Debug,
    Outbound<'static>: From<T>,
    for<'a> T: serde::Deserialize<'a>,
{
    let room = envelope::room(max, T::TYPE.as_str(), &director());
    let cut = message.clone().cut(room);
    let count = cut.len();
    let mut writer = FrameWriter::new(director());
    let mut gather = Gather::default();
    let mut whole = None;
    for part in cut {
        assert!(whole.is_none(), "whole before the last part");
        let mut out = Vec::new();
        writer.write(UtcTime(1_770_854_400_123), &part, &mut out);
        let line = out.strip_suffix(b"\n").expect("a line");
        assert!(line.len() <= max, "{} of {max}", line.len());
        let frame = envelope::decode(line).expect("an envelope");
        let read: T = switchboard_wire::agentbus::message::read(frame.payload)
            .unwrap_or_else(|malformed| panic!("{malformed}"));
        whole = gather.add(read);
    }
    assert_eq!(whole, Some(message));
    count
}

fn worker(index: usize, text: &str) -> WorkerEntry {
    WorkerEntry {
        connected: true,
        last_heartbeat_age_seconds: Some(0.5),
        external: Some(format!("{text}\n\"quoted\"")),
        ..WorkerEntry::unheard(format!("worker-{index}"))
    }
}

fn snapshot(workers: usize, numbers: u64, text: &str) -> ProjectStateSnapshot {
    let mut snapshot = ProjectStateSnapshot::new(
        "snap_1".to_owned(),
        (0..workers).map(|index| worker(index, text)).collect(),
        Queue {
            eligible_issue_numbers: (0..numbers).collect(),
            claimed_issue_numbers: (numbers..2 * numbers).collect(),
            eligible_total: 5000,
            claimed_total: 6000,
        },
    );
    snapshot.release = Some(Release {
        release_id: "r".to_owned(),
        release_branch: "b".to_owned(),
        release_pr_number: None,
    });
    snapshot.director = Some(DirectorStatus {
        state: DirectorState::Monitor,
        since: UtcTime(0),
        paused: false,
        reason: None,
        run_id: "run".to_owned(),
    });
    snapshot
}

fn entry(index: usize) -> CatalogEntry {
    let engram_id = format!("e_{index}");
    CatalogEntry {
        scope: Scope::Short,
        version: "20260211-000000Z".to_owned(),
        path: engram::path(Scope::Short, "20260211-000000Z", &engram_id),
        hash: "sha256:00".to_owned(),
        topics: vec!["a".to_owned()],
        engram_id,
    }
}

#[test]
fn what_fits_stays_in_one_part() {
    assert_eq!(there_and_back(snapshot(0, 0, ""), 65_536), 1);
    assert_eq!(there_and_back(snapshot(3, 10, ""), 65_536), 1);
    assert!(there_and_back(snapshot(1000, 1000, "x"), 65_536) > 1);
}

#[test]
fn a_message_in_parts_that_misses_one_never_becomes_whole() {
    let parts = snapshot(50, 0, "x").cut(1000);
    assert!(parts.len() > 3);
    let mut gather = Gather::default();
    for (index, part) in parts.iter().enumerate() {
        if index != 2 {
            assert_eq!(gather.add(part.clone()), None);
        }
    }
    // A new one begins afresh, also in the middle of another.
    assert_eq!(gather.add(parts[0].clone()), None);
    let mut other = snapshot(1, 0, "y");
    other.snapshot_id = "snap_2".to_owned();
    assert_eq!(gather.add(other.clone()), Some(other));
    assert_eq!(gather.add(parts[1].clone()), None);
}

#[test]
fn parts_beyond_the_bound_are_not_kept() {
    let mut part = snapshot(1, 0, "");
    part.parts = PARTS_MAX + 1;
    let mut gather = Gather::default();
    assert_eq!(gather.add(part.clone()), None);
    part.part = 2;
    assert_eq!(gather.add(part), None);
}

#[test]
fn an_engram_that_is_not_there_is_said_to_be_missing() {
    let missing = EngramContent::missing("e_1".to_owned());
    assert_eq!(missing.clone().cut(1000), std::slice::from_ref(&missing));
    assert_eq!(Gather::default().add(missing.clone()), Some(missing));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn snapshots_come_together_again(workers in 0_usize..60, numbers in 0_u64..300, max in 1200_usize..9000, text in "\\PC{0,20}") {
        there_and_back(snapshot(workers, numbers, &text), max);
    }

    #[test]
    fn catalogs_and_deltas_come_together_again(entries in 0_usize..80, removed in 0_usize..80, max in 1000_usize..9000) {
        there_and_back(CatalogSnapshot {
            catalog_version: CatalogVersion::Text("20260211-000000Z".to_owned()),
            catalog_hash: "sha256:00".to_owned(),
            catalog_path: "memory/catalog.json".to_owned(),
            snapshot_id: "20260211-000000Z".to_owned(),
            part: 1,
            parts: 1,
            entries: (0..entries).map(entry).collect(),
        }, max);
        there_and_back(CatalogDelta {
            from_version: CatalogVersion::Number(1),
            from_hash: "sha256:00".to_owned(),
            to_version: CatalogVersion::Number(2),
            to_hash: "sha256:01".to_owned(),
            part: 1,
            parts: 1,
            added: (0..entries).map(entry).collect(),
            removed: (0..removed).map(|index| format!("e_{index}")).collect(),
        }, max);
    }

    #[test]
    fn texts_are_cut_between_letters(text in "(\\PC|\"|\\\\|\n|\u{1}|🦀){0,3000}", files in 0_usize..50, max in 900_usize..4000) {
        there_and_back(EngramContent::new("e_1".to_owned(), "sha256:00".to_owned(), text.clone()), max);
        there_and_back(TaskAssigned {
            issue_number: 1,
            task_id: "tsk_1".to_owned(),
            epoch: 1,
            attempt: 1,
            title: "a title".to_owned(),
            description: text.clone(),
            files: (0..files).map(|index| format!("src/file_{index}.rs")).collect(),
            branch: Some("main".to_owned()),
            deadline: None,
            corr_id: None,
            resumed: false,
            redacted: 0,
            part: 0,
            parts: 1,
        }, max);
        let body = Json::of(&[text]).expect("JSON");
        there_and_back(AgentMessage {
            message_id: "m".to_owned(),
            from: "a".to_owned(),
            to: None,
            kind: "custom".to_owned(),
            body,
            ack_required: true,
            priority: None,
            redelivered: false,
            redacted: 0,
            corr_id: None,
            part: 0,
            parts: 1,
        }, max);
    }
}
