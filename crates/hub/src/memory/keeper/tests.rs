//! The keeper on a ledger in memory, with files of its own.

use std::collections::BTreeMap;
use std::path::Path;

use switchboard_core::EngramId;
use switchboard_core::engram::{Budget, Budgets};
use switchboard_core::verb::NoteMemory;
use switchboard_store::SystemClock;
use switchboard_store::conformance::register;
use switchboard_store::sqlite::SqliteEngine;
use switchboard_wire::agentbus::Scope;
use switchboard_wire::agentbus::catalog::Catalog;
use switchboard_wire::agentbus::engram::Engram;
use tempfile::TempDir;

use super::super::compact::ENGRAM_BYTES_MIN;
use super::super::{Memory, Since};
use super::*;
use crate::config::Config;
use crate::hub::{Hub, HubConfig};

const PATIENCE: Duration = Duration::from_secs(30);

struct Place {
    home: TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            home: tempfile::tempdir().unwrap(),
        }
    }

    async fn hub(&self) -> Hub {
        let path = self.home.path().join("ledger.db");
        let engine = SqliteEngine::open(&path, Box::new(SystemClock::new())).unwrap();
        let hub = Hub::start(Box::new(engine), HubConfig::default())
            .await
            .unwrap();
        // Refused where it is still there from an earlier run.
        let _ = hub.run(register("A", &[])).await;
        hub
    }

    fn settings(&self) -> Settings {
        self.settings_at(&self.home.path().join("memory"))
    }

    fn settings_at(&self, root: &Path) -> Settings {
        let mut config = Config::for_project(self.home.path().to_owned()).bus.memory;
        config.root_dir = root.to_owned();
        config.catalog = root.join("catalog.json");
        config.buffer_max_bytes = 2000;
        config.engram_max_bytes = ENGRAM_BYTES_MIN;
        let budget = Budget {
            bytes_max: 1 << 20,
            files_max: 64,
        };
        config.budgets = Budgets {
            short_term: budget,
            long_term: budget,
        };
        Settings {
            config,
            record: root.with_extension("written.json"),
            before: None,
            run_id: "run_1".to_owned(),
            look_every: Duration::from_millis(1),
        }
    }

    fn file(&self, path: &str) -> std::path::PathBuf {
        self.home.path().join(path)
    }

    fn catalog(&self) -> Catalog {
        let text = std::fs::read(self.file("memory/catalog.json")).unwrap();
        Catalog::from_text(&text).unwrap()
    }

    /// Every fact of every engram that the catalog names, with how often it is there; all files are whole.
    fn facts(&self) -> BTreeMap<String, usize> {
        let mut facts = BTreeMap::new();
        for entry in self.catalog().entries {
            let engram =
                Engram::from_text(&std::fs::read(self.file(&entry.path)).unwrap()).unwrap();
            assert_eq!((engram.path(), engram.hash), (entry.path, entry.hash));
            for fact in engram.facts {
                *facts.entry(fact).or_default() += 1;
            }
        }
        facts
    }
}

async fn note(hub: &Hub, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let noted = NoteMemory {
            agent: "A".into(),
            event_type: "task_progress.v1".to_owned(),
            text: format!("number {n} {}", "of many ".repeat(10)),
        };
        hub.run(noted).await.unwrap();
    }
}

async fn until(memory: &Memory, is_it: impl Fn(&Catalog) -> bool) -> Arc<Catalog> {
    let mut watch = memory.watch();
    let found = tokio::time::timeout(PATIENCE, watch.wait_for(|catalog| is_it(catalog))).await;
    Arc::clone(&found.expect("it comes").expect("the memory lives"))
}

fn has(many: usize) -> impl Fn(&Catalog) -> bool {
    move |catalog| catalog.entries.len() >= many
}

#[tokio::test]
async fn what_happened_becomes_engrams_in_files_that_the_catalog_names() {
    // agentbus.memory_event.bounded_buffer, agentbus.engram.id_hash
    let place = Place::new();
    let hub = place.hub().await;
    let memory = Memory::start(hub.clone(), place.settings()).await;
    assert!(memory.catalog().entries.is_empty());
    let first = memory.catalog();
    note(&hub, 0..60).await;
    let catalog = until(&memory, has(3)).await;
    assert!(catalog.is_sound());
    assert!(catalog.catalog_version > first.catalog_version);
    let versions: Vec<&String> = catalog.entries.iter().map(|entry| &entry.version).collect();
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    match memory.since(&first.catalog_version, &first.hash) {
        Since::Changed(delta) => assert!(delta.added.len() >= 3),
        other => panic!("{other:?}"),
    }
    let current = memory.catalog();
    assert_eq!(
        memory.since(&current.catalog_version, &current.hash),
        Since::Same
    );
    assert_eq!(
        memory.since("20200101-000000Z", "sha256:no"),
        Since::Unknown
    );
    memory.stop().await;
    assert_eq!(place.catalog().hash, memory.catalog().hash);
    assert!(place.facts().values().all(|times| *times == 1));
    let entry = &memory.catalog().entries[0];
    let content = memory.content(&entry.engram_id).await.unwrap().unwrap();
    assert_eq!(
        content.as_bytes(),
        std::fs::read(place.file(&entry.path)).unwrap()
    );
    assert_eq!(memory.content("e_none").await.unwrap(), None);
    assert_eq!(memory.content("../catalog").await.unwrap(), None);
    let page = std::fs::read_to_string(place.file("memory/memory.md")).unwrap();
    assert!(
        page.contains("- note: A, task_progress.v1: number"),
        "{page}"
    );
    hub.stop().await;
}

#[tokio::test]
async fn the_buffer_survives_its_process_and_nothing_is_remembered_twice() {
    let place = Place::new();
    for round in 0..6 {
        let hub = place.hub().await;
        let memory = Memory::start(hub.clone(), place.settings()).await;
        note(&hub, round * 10..(round + 1) * 10).await;
        until(&memory, has(round.max(1))).await;
        // Dropped in the middle of whatever it does.
        memory.shared.keeper.lock().take().unwrap().abort();
        hub.stop().await;
    }
    let hub = place.hub().await;
    let memory = Memory::start(hub.clone(), place.settings()).await;
    note(&hub, 60..90).await;
    let newest = |catalog: &Catalog| catalog.entries.len() >= 8;
    until(&memory, newest).await;
    memory.stop().await;
    let facts = place.facts();
    assert!(facts.values().all(|times| *times == 1), "{facts:?}");
    let numbers = facts
        .keys()
        .filter_map(|fact| fact.split(' ').nth(4)?.parse().ok());
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    let expected: Vec<usize> = (0..numbers.len()).collect();
    assert_eq!(numbers, expected, "the oldest, without a gap");
    hub.stop().await;
}

#[tokio::test]
async fn several_coordinators_keep_one_memory() {
    let place = Place::new();
    let hub = place.hub().await;
    let other = place.home.path().join("other");
    let memories = [
        Memory::start(hub.clone(), place.settings()).await,
        Memory::start(hub.clone(), place.settings_at(&other)).await,
    ];
    note(&hub, 0..150).await;
    let first = until(&memories[0], has(8)).await;
    until(&memories[1], |catalog| {
        catalog.catalog_version >= first.catalog_version
    })
    .await;
    // One after the other, so that both see the last word.
    for memory in &memories {
        memory.stop().await;
    }
    let memory = Memory::start(hub.clone(), place.settings_at(&other)).await;
    let rows = hub.read(|reader| reader.engrams()).await.unwrap();
    let mut stretches: Vec<(u64, u64)> =
        rows.iter().map(|row| (row.from_seq, row.to_seq)).collect();
    stretches.sort_unstable();
    for pair in stretches.windows(2) {
        assert_eq!(pair[0].1 + 1, pair[1].0, "no event is in two engrams");
    }
    until(&memory, |catalog| catalog.entries.len() == rows.len()).await;
    memory.stop().await;
    hub.stop().await;
}

#[tokio::test]
async fn a_full_short_term_becomes_long_term_and_no_tier_exceeds_its_budget() {
    let place = Place::new();
    let hub = place.hub().await;
    let mut settings = place.settings();
    settings.config.budgets.short_term.files_max = 4;
    settings.config.budgets.long_term.files_max = 2;
    let memory = Memory::start(hub.clone(), settings).await;
    let mut seen = Vec::new();
    for round in 0..12 {
        let before = memory.catalog().catalog_version.clone();
        note(&hub, round * 20..(round + 1) * 20).await;
        let catalog = until(&memory, |catalog| catalog.catalog_version > before).await;
        let count = |scope| {
            catalog
                .entries
                .iter()
                .filter(|it| it.scope == scope)
                .count()
        };
        assert!(count(Scope::Short) <= 4 && count(Scope::Long) <= 2);
        seen.push(catalog.catalog_version.clone());
    }
    until(&memory, |catalog| {
        let long = catalog.entries.iter().filter(|it| it.scope == Scope::Long);
        long.count() == 2
    })
    .await;
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    memory.stop().await;
    let catalog = place.catalog();
    place.facts();
    // What went is gone from the disk too, with the directories it was in.
    for tier in [Scope::Short, Scope::Long] {
        let named = catalog.entries.iter().filter(|it| it.scope == tier).count();
        let batches = std::fs::read_dir(place.file(&format!("memory/{tier}"))).unwrap();
        assert_eq!(batches.count(), named, "{tier}");
    }
    hub.stop().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_takes_nothing_but_the_files() {
    let place = Place::new();
    std::fs::write(place.file("memory"), "a file").unwrap();
    let hub = place.hub().await;
    let memory = Memory::start(hub.clone(), place.settings()).await;
    note(&hub, 0..60).await;
    let catalog = until(&memory, has(2)).await;
    let id = &catalog.entries[0].engram_id;
    assert!(memory.content(id).await.unwrap().is_some());
    memory.stop().await;
    hub.stop().await;
}

#[tokio::test]
async fn a_new_ledger_takes_over_the_engrams_that_were_checked_out() {
    let place = Place::new();
    let hub = place.hub().await;
    let memory = Memory::start(hub.clone(), place.settings()).await;
    note(&hub, 0..60).await;
    until(&memory, has(3)).await;
    memory.stop().await;
    hub.stop().await;
    let before = place.catalog();
    for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        let _ = std::fs::remove_file(place.file(file));
    }
    let hub = place.hub().await;
    let memory = Memory::start(hub.clone(), place.settings()).await;
    assert_eq!(memory.catalog().hash, before.hash);
    memory.stop().await;
    hub.stop().await;
    // Also from where they were before, which is left as it is.
    for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        let _ = std::fs::remove_file(place.file(file));
    }
    let hub = place.hub().await;
    let settings = Settings {
        before: Some(place.file("memory")),
        ..place.settings_at(&place.file("elsewhere"))
    };
    let memory = Memory::start(hub.clone(), settings).await;
    assert_eq!(memory.catalog().hash, before.hash);
    note(&hub, 60..90).await;
    until(&memory, has(4)).await;
    memory.stop().await;
    hub.stop().await;
    assert_eq!(place.catalog().hash, before.hash);
}

#[tokio::test]
async fn whoever_is_too_far_behind_leaves_events_out_and_counts_them() {
    let place = Place::new();
    let hub = place.hub().await;
    let memory = Memory::start(hub.clone(), place.settings()).await;
    memory.stop().await;
    for (behind, skipped) in [
        (BEHIND_MAX - 1, 0),
        (BEHIND_MAX, 0),
        (BEHIND_MAX + 1, BEHIND_MAX / 2 + 1),
    ] {
        let before = memory.stats().skipped;
        let mut keeper = Keeper::new(Arc::clone(&memory.shared), place.settings());
        keeper.cursor = 7;
        keeper.skip(7 + behind);
        assert_eq!(keeper.cursor, 7 + skipped, "{behind}");
        assert_eq!(memory.stats().skipped - before, skipped, "{behind}");
    }
    hub.stop().await;
}

#[tokio::test]
async fn nothing_secret_reaches_a_row_or_a_file() {
    // agentbus.security.no_secrets
    let place = Place::new();
    let hub = place.hub().await;
    let memory = Memory::start(hub.clone(), place.settings()).await;
    let token = format!("ghp_{}", "a1B2".repeat(9));
    for n in 0..60 {
        let noted = NoteMemory {
            agent: "A".into(),
            event_type: "worker_error.v1".to_owned(),
            text: format!("number {n}: git clone https://{token}@example.org failed once more"),
        };
        hub.run(noted).await.unwrap();
    }
    let catalog = until(&memory, has(3)).await;
    memory.stop().await;
    for entry in &catalog.entries {
        let id = EngramId::from(entry.engram_id.as_str());
        let row = hub.read(move |reader| reader.engram(&id)).await.unwrap();
        let row = row.unwrap();
        assert!(row.body.contains("[redacted]"), "{}", row.body);
        for text in [&row.body, &row.words] {
            assert!(!text.contains("ghp_"), "{text}");
        }
    }
    let page = std::fs::read_to_string(place.file("memory/memory.md")).unwrap();
    assert!(!page.contains("ghp_"), "{page}");
    hub.stop().await;
}

#[test]
fn what_a_worker_tells_is_cleaned_and_cut_before_it_is_noted() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let event = serde_json::json!({"message_type": "worker_error.v1", "payload": {"message": format!("with {token}")}});
    let told = super::super::note("A".into(), "worker_error.v1", &event);
    assert_eq!(told.text, "with [redacted]");
    let bare = serde_json::json!({"password": "hunter2hunter2", "count": 3});
    let told = super::super::note("A".into(), "task_result.v1", &bare);
    assert!(told.text.contains("\"count\":3"), "{}", told.text);
    assert!(!told.text.contains("hunter2"), "{}", told.text);
    let long = serde_json::json!({"text": "word ".repeat(5000)});
    let told = super::super::note("A".into(), "task_result.v1", &long);
    assert!(told.text.len() <= switchboard_core::limits::MEMORY_NOTE_BYTES_MAX);
}
