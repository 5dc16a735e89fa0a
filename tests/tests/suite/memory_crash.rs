//! The hub is killed while it writes its memory; afterwards the catalog and the files agree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_tests::{API, Client, Project, Random, until};
use switchboard_wire::agentbus::catalog::Catalog;
use switchboard_wire::agentbus::engram::Engram;

const SEED: &str = "SWITCHBOARD_CRASH_SEED";
/// More rounds than in the suite: `SWITCHBOARD_MEMORY_ROUNDS=500`.
const ROUNDS: &str = "SWITCHBOARD_MEMORY_ROUNDS";
const ROUNDS_IN_THE_SUITE: u64 = 24;
/// A kill comes so long after an engram was kept, at most, in microseconds: files are written in this time.
const WHILE_IT_WRITES: u64 = 5_000;

/// So little room that every engram pushes others out.
const SMALL: &str = "[memory]
buffer_max_bytes = 2000
compact_when_over_bytes = 2000
engram_max_bytes = 4096
st_max_files = 3
lt_max_files = 2
";

#[test]
fn killed_at_any_moment_the_catalog_and_the_files_agree_after_a_restart() {
    let rounds = std::env::var(ROUNDS).map_or(ROUNDS_IN_THE_SUITE, |text| {
        text.parse().expect("the number of rounds is a number")
    });
    let seed = Random::seed_from(SEED);
    println!("memory crash test: {SEED}={seed} {ROUNDS}={rounds}");
    let mut random = Random::seeded(seed);
    let project = Project::new().with_bus();
    fs::create_dir(project.root().join("config")).expect("the project is empty");
    fs::write(project.root().join("config/dev.toml"), SMALL).expect("it can be written");
    let memory = Memory(project.data_dir().to_owned());
    let mut after = json!(0);
    let (mut task, mut cut_off) = (0, 0);
    for round in 0..rounds {
        let mut hub = project.start();
        let mut client = hub.client();
        if round == 0 {
            client.register("builder");
        }
        let kept = until("an engram is kept", || {
            work(&mut client, &mut task);
            next_engram(&mut client, &mut after)
        });
        thread::sleep(Duration::from_micros(random.below(WHILE_IT_WRITES)));
        hub.kill();
        // Also before anybody mends anything.
        memory.holds_what_it_names();
        let is_named = |catalog: &Catalog| ids(catalog).contains(&kept);
        cut_off += u64::from(memory.is_busy() || !memory.catalog().is_some_and(|it| is_named(&it)));
    }
    println!("{cut_off} of {rounds} kills came before the files were written");
    // Otherwise all of this proves nothing.
    assert!(cut_off > 0, "no kill hit anything");
    let hub = project.start();
    let mut client = hub.client();
    until("the catalog is that of the ledger", || {
        let catalog = memory.catalog()?;
        (ids(&catalog) == engrams(&mut client)).then_some(())
    });
    // What it began meanwhile, it finishes.
    hub.stop();
    let catalog = memory.catalog().expect("it was there before");
    assert!(!memory.is_busy());
    memory.holds_what_it_names();
    assert_eq!(
        memory.files(),
        catalog.entries.iter().map(|it| it.path.clone()).collect()
    );
    let scopes: BTreeSet<&str> = catalog.entries.iter().map(|it| it.scope.as_str()).collect();
    assert_eq!(
        scopes,
        BTreeSet::from(["lt", "st"]),
        "both tiers were written"
    );
}

/// One more task, done, with enough to say about it.
pub fn work(client: &mut Client, task: &mut u64) {
    *task += 1;
    let id = format!("work-{task}");
    client.create(&id);
    let claimed = client.claim("builder").expect("it is the only one");
    let summary = format!("{id} {}", "and what came of it ".repeat(20));
    let result =
        json!({"filesCreated": [], "filesModified": [], "filesDeleted": [], "summary": summary});
    let body = json!({"agentId": "builder", "epoch": claimed["epoch"], "result": result});
    client
        .post(&format!("{API}/tasks/{id}/complete"), &body)
        .expect(200);
}

/// The last engram that was kept after this event; goes on to the last event.
fn next_engram(client: &mut Client, after: &mut Value) -> Option<String> {
    let mut found = None;
    loop {
        let page = client
            .get(&format!("{API}/events?after={after}&limit=1000"))
            .expect(200);
        let events = page["events"].as_array().expect("a page has events");
        let Some(last) = events.last() else {
            return found;
        };
        *after = last["seq"].clone();
        let mut kept = events.iter().filter(|event| event["type"] == "engram_kept");
        let kept = kept.next_back().and_then(|event| event["engram"].as_str());
        found = kept.map(str::to_owned).or(found);
    }
}

/// The engrams that the ledger has, by its log.
fn engrams(client: &mut Client) -> BTreeSet<String> {
    let mut kept = BTreeSet::new();
    for event in client.events() {
        let id = event["engram"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("engram_kept") => kept.insert(id),
            Some("engram_evicted") => kept.remove(&id),
            Some(_) | None => continue,
        };
    }
    kept
}

fn ids(catalog: &Catalog) -> BTreeSet<String> {
    let entries = catalog.entries.iter();
    entries.map(|entry| entry.engram_id.clone()).collect()
}

/// The directory that a memory lies in.
struct Memory(PathBuf);

impl Memory {
    fn catalog(&self) -> Option<Catalog> {
        let text = fs::read(self.0.join("memory/catalog.json")).ok()?;
        Some(Catalog::from_text(&text).expect("a catalog is whole, or not there"))
    }

    /// Files are being written or removed.
    fn is_busy(&self) -> bool {
        let noted = fs::read_to_string(self.0.join("memory.written.json"));
        noted.is_ok_and(|noted| noted.contains(":null"))
    }

    /// Every file that the catalog names is there, whole, with the hash that it says.
    #[track_caller]
    fn holds_what_it_names(&self) {
        for entry in self
            .catalog()
            .map(|catalog| catalog.entries)
            .unwrap_or_default()
        {
            let text = fs::read(self.0.join(&entry.path));
            let text = text.unwrap_or_else(|error| panic!("{}: {error}", entry.path));
            let engram = Engram::from_text(&text).expect("an engram is whole");
            assert_eq!(engram.hash, entry.hash, "{}", entry.path);
        }
    }

    /// All files in the tiers, half-written ones too.
    fn files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for tier in ["st", "lt"] {
            for batch in names(&self.0.join("memory").join(tier)) {
                let folder = format!("memory/{tier}/{batch}");
                let files = names(&self.0.join(&folder));
                assert!(!files.is_empty(), "{folder} is empty");
                found.extend(files.iter().map(|file| format!("{folder}/{file}")));
            }
        }
        found
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.expect("a directory can be read").file_name());
    names
        .map(|name| name.into_string().expect("we write plain names"))
        .collect()
}
