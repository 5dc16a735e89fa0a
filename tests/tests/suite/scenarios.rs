//! Scenes: short histories, one line per step with its expected outcome, run on every driver that can express them.
//!
//! A scene is a file `tests/scenarios/<name>.scene`; `tests/scenarios/README.md` describes the language. Each step becomes
//! one request of `docs/http-api.md` ([`act`]), is run by a [`Driver`], and its JSON answer is told in the words of
//! the language ([`said`]). So a scene does not know whether it runs on the rules alone or over a socket.

mod act;
mod broker;
mod bus;
mod engine;
mod golden;
mod http;
mod ledger;
mod line;
mod said;
mod scene;
mod socket;
pub mod sql;
mod stage;

use serde_json::Value;
use switchboard_store::conformance::Cache;

use act::Deed;
use broker::ByBroker;
use bus::{ByBus, Workers};
use engine::Kind;
use http::Transport;
use ledger::Rules;
use scene::{Expected, Scene, Step};
use socket::Socket;
use sql::{BySql, Way};

/// Something that scenes can be run on.
trait Driver {
    fn name(&self) -> String;

    /// Whether it has what the scene needs, such as a clock that can be moved.
    fn can_run(&self, scene: &Scene) -> bool;

    /// An empty hub for this scene.
    fn begin(&mut self, scene: &Scene);

    fn perform(&mut self, deed: &Deed) -> Answer;

    /// What the answer to the step that was just performed has to say: all of it, unless this driver's way in has no
    /// words for a part.
    fn awaits(&self, step: &Step) -> Vec<Expected> {
        step.expected.clone()
    }

    fn end(&mut self) {}
}

/// What came back, in the shape of `docs/http-api.md`.
struct Answer {
    body: Value,
}

/// Scenes that each kind of driver must at least be able to express.
const RUNS_MIN: usize = 15;

fn run_all(driver: &mut dyn Driver) {
    let scenes = scene::all();
    let mut failures = Vec::new();
    let mut ran = 0;
    for scene in &scenes {
        if !driver.can_run(scene) {
            continue;
        }
        driver.begin(scene);
        failures.extend(run(driver, scene));
        driver.end();
        ran += 1;
    }
    println!("{}: {ran} of {} scenes", driver.name(), scenes.len());
    assert!(
        failures.is_empty(),
        "on {}:\n{}",
        driver.name(),
        failures.join("\n")
    );
    assert!(
        ran >= RUNS_MIN,
        "{} ran only {ran} scenes; at least {RUNS_MIN} are meant to run on it",
        driver.name()
    );
}

/// The first step that went otherwise than expected; what follows it would be noise.
fn run(driver: &mut dyn Driver, scene: &Scene) -> Option<String> {
    for step in &scene.steps {
        let answer = driver.perform(&step.deed);
        let told = said::tell(&step.deed, &answer.body);
        if let Err(difference) = said::compare(&driver.awaits(step), &told) {
            return Some(format!(
                "{}: {}\n    {difference}\n    the whole answer: {}",
                step.place, step.text, answer.body
            ));
        }
    }
    None
}

#[test]
fn scenes_hold_on_the_rules_over_memory() {
    run_all(&mut Rules::new(Kind::Memory, Cache::Kept));
}

#[test]
fn scenes_hold_on_the_rules_over_memory_when_nothing_is_remembered_between_batches() {
    run_all(&mut Rules::new(Kind::Memory, Cache::Forgotten));
}

#[test]
fn scenes_hold_on_the_rules_over_sqlite() {
    run_all(&mut Rules::new(Kind::Sqlite, Cache::Kept));
}

#[test]
fn scenes_hold_on_the_rules_over_sqlite_when_nothing_is_remembered_between_batches() {
    run_all(&mut Rules::new(Kind::Sqlite, Cache::Forgotten));
}

#[test]
fn scenes_hold_on_the_rules_over_postgres() {
    if let Some(kind) = Kind::postgres("the rules over PostgreSQL") {
        run_all(&mut Rules::new(kind, Cache::Kept));
    }
}

#[test]
fn scenes_hold_on_the_rules_over_postgres_when_nothing_is_remembered_between_batches() {
    if let Some(kind) = Kind::postgres("the rules over PostgreSQL") {
        run_all(&mut Rules::new(kind, Cache::Forgotten));
    }
}

#[test]
fn scenes_hold_over_http_on_a_hub_over_postgres() {
    if let Some(kind) = Kind::postgres("a hub over PostgreSQL") {
        run_all(&mut Socket::on(kind, Transport::Paths));
    }
}

#[test]
fn scenes_hold_over_http_on_their_own_paths() {
    run_all(&mut Socket::new(Transport::Paths));
}

#[test]
fn scenes_hold_over_http_in_envelopes() {
    run_all(&mut Socket::new(Transport::Envelopes));
}

#[test]
fn scenes_hold_in_request_files() {
    run_all(&mut Socket::new(Transport::Files));
}

#[test]
fn scenes_hold_by_direct_sql() {
    let mut driver = BySql::new(Way::File);
    run_all(&mut driver);
    // The document's own claim compares texts, and so needs an agent that binds them accordingly.
    assert_eq!(driver.unused(), ["claim_of_the_document"]);
}

#[test]
fn scenes_hold_by_sql_through_the_libsql_endpoint() {
    let mut driver = BySql::new(Way::Pipeline);
    run_all(&mut driver);
    assert_eq!(driver.unused(), ["claim_of_the_document"]);
}

#[test]
fn scenes_hold_for_agents_that_are_workers_of_the_bus() {
    let mut driver = ByBus::new(Kind::Sqlite, Workers::All);
    run_all(&mut driver);
    // Each step that the bus has words for was said there at least once.
    let said: Vec<&str> = driver.said.keys().copied().collect();
    assert_eq!(said, bus::STEPS, "{:?}", driver.said);
}

#[test]
fn scenes_hold_between_workers_of_the_bus_and_agents_of_http() {
    std::thread::scope(|scope| {
        for workers in [Workers::First, Workers::Second] {
            scope.spawn(move || run_all(&mut ByBus::new(Kind::Sqlite, workers)));
        }
    });
}

#[test]
fn scenes_hold_between_workers_of_the_bus_and_agents_of_http_over_postgres() {
    if let Some(kind) = Kind::postgres("workers of the bus over PostgreSQL") {
        run_all(&mut ByBus::new(kind, Workers::First));
    }
}

#[test]
fn scenes_hold_for_agents_that_are_roles_of_the_broker() {
    let mut driver = ByBroker::new(Kind::Sqlite);
    run_all(&mut driver);
    // Each step that the broker has words for was said there at least once.
    let said: Vec<&str> = driver.said.keys().copied().collect();
    assert_eq!(said, broker::STEPS, "{:?}", driver.said);
}

#[test]
fn scenes_hold_for_agents_that_are_roles_of_the_broker_over_postgres() {
    if let Some(kind) = Kind::postgres("roles of the broker over PostgreSQL") {
        run_all(&mut ByBroker::new(kind));
    }
}

/// jetpack.principle.horizontal_scaling
#[test]
fn agents_join_without_a_cap_and_each_finds_work_of_its_own() {
    const AGENTS: usize = 300;
    let mut text = String::from("# A crowd.\n");
    for at in 1..=AGENTS {
        text += &format!("agent A{at} -> registered\ntask T{at} -> ready\n");
    }
    for at in 1..=AGENTS {
        text += &format!("claim A{at} -> T{at} epoch 1\n");
    }
    text += "agent LATE -> registered\nclaim LATE -> none all_tasks_claimed\n";
    let crowd = scene::parse("crowd", &text).expect("well formed");
    let mut driver = Rules::new(Kind::Memory, Cache::Kept);
    driver.begin(&crowd);
    assert_eq!(run(&mut driver, &crowd), None);
}

#[test]
fn every_scene_runs_somewhere_and_says_what_it_is_about() {
    let drivers: [&dyn Driver; 2] = [
        &Rules::new(Kind::Memory, Cache::Kept),
        &Socket::new(Transport::Paths),
    ];
    for scene in scene::all() {
        let runs = drivers.iter().any(|driver| driver.can_run(&scene));
        assert!(runs, "{} can be run nowhere", scene.name);
        assert!(
            !scene.about.is_empty(),
            "{} must open with a comment that says what it is about",
            scene.name
        );
        assert!(!scene.steps.is_empty(), "{} has no step", scene.name);
    }
}
