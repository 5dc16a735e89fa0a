//! Records and engrams for the tests of this module.

use switchboard_core::Description;
use switchboard_core::{Skills, Task, Timestamp};
use switchboard_wire::agentbus::Scope;
use switchboard_wire::agentbus::catalog::{Catalog, CatalogEntry};
use switchboard_wire::agentbus::engram::{self, Decision, Engram, Link};

use super::compact::{Cover, compact};
use super::noted::Noted;

pub const NOON: Timestamp = Timestamp(1_770_897_600_000);

pub fn noted(seq: u64, fact: &str) -> Noted {
    Noted {
        seq,
        at: Timestamp(NOON.0 + i64::try_from(seq).unwrap() * 1000),
        event_type: "task_completed".to_owned(),
        fact: fact.to_owned(),
        decision: None,
        topics: Vec::new(),
        links: Vec::new(),
    }
}

pub fn decided(seq: u64, title: &str, rationale: &str) -> Noted {
    Noted {
        decision: Some(Decision {
            title: title.to_owned(),
            rationale: rationale.to_owned(),
        }),
        topics: vec![title.to_lowercase()],
        links: vec![link(seq)],
        ..noted(seq, &format!("done: #{seq} {title}: {rationale}"))
    }
}

pub fn link(number: u64) -> Link {
    Link {
        kind: "task".to_owned(),
        target: format!("#{number}"),
    }
}

/// What an engram of this number says about itself.
pub fn cover(n: u64, scope: Scope) -> Cover {
    let created_at = Timestamp(NOON.0 + i64::try_from(n).unwrap() * 60_000);
    Cover {
        id: format!("e_{n:026}"),
        scope,
        version: engram::batch_id(created_at.into()),
        created_at,
        run_id: "run_20260212-120000Z".to_owned(),
    }
}

pub fn engram(n: u64, scope: Scope, facts: &[&str]) -> Engram {
    let records: Vec<Noted> = facts.iter().map(|fact| noted(n, fact)).collect();
    compact(&records, &cover(n, scope), 1 << 20).0
}

/// A catalog of these engrams.
pub fn catalog(engrams: &[Engram]) -> Catalog {
    let entries = engrams.iter().map(CatalogEntry::from);
    let newest = engrams.iter().max_by(|a, b| a.version.cmp(&b.version));
    let (version, created_at) = newest.map_or_else(
        || ("19700101-000000Z".to_owned(), Timestamp::ZERO.into()),
        |newest| (newest.version.clone(), newest.created_at),
    );
    Catalog::new(version, created_at, entries.collect())
}

pub fn task(number: u64, title: &str) -> Task {
    let about = Description {
        title: title.to_owned(),
        required_skills: Skills::new(["rust"]),
        ..Description::default()
    };
    Task {
        epoch: 1,
        rev: 1,
        ..Task::new("T".into(), number, about, "T".into(), NOON)
    }
}
