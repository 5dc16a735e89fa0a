//! The connection breaks while a commit is under way: whatever the caller is told is true.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use switchboard_test_cluster::Cluster;
use switchboard_tests::{API, Answer, Hub, Project, Request, until};

use super::Team;
use super::cable::{Cable, Cut};
use super::troubles::Load;
use crate::crash::world::World;

const ROUNDS: usize = 5;

#[test]
fn a_commit_that_never_reached_the_database_is_told_as_not_made() {
    let Some(told) = cut_off(Cut::There) else {
        return;
    };
    // Now and then it is the caretaker's commit that is cut off instead.
    assert!(told.contains(&Told::NotMade), "{told:?}");
    assert!(!told.contains(&Told::MayBeMade), "{told:?}");
}

#[test]
fn a_commit_whose_answer_was_lost_is_found_and_acknowledged() {
    let told = cut_off(Cut::Back).unwrap_or_default();
    assert!(told.iter().all(|told| *told == Told::Made), "{told:?}");
}

#[test]
fn a_commit_whose_answer_a_pooler_lost_is_found_and_acknowledged() {
    let told = cut_off(Cut::BackWithWords).unwrap_or_default();
    assert!(told.iter().all(|told| *told == Told::Made), "{told:?}");
}

#[test]
fn connections_that_break_at_commits_under_load_lose_nothing_acknowledged() {
    const CUTS: usize = 60;
    const COORDINATORS: usize = 3;
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(missing) => return missing.skip("connections that break under load"),
    };
    let database = cluster.create_database();
    let cables: Vec<Cable> = (0..COORDINATORS)
        .map(|_| Cable::to(cluster.port()))
        .collect();
    let project = |cable: &Cable| Project::on(cable.url(&database.name));
    let team = Team::of(cables.iter().map(project).collect());
    let world = World::of(COORDINATORS).with_outages();
    let records = Load::of(team, &database).run(&world, |_, random| {
        for _ in 0..CUTS {
            world.wait_for_more(random.between(1, 100));
            let cable = random.choose(&cables);
            cable.cut(*random.choose(&[Cut::There, Cut::Back, Cut::BackWithWords]));
            until("a commit is cut off", || cable.has_cut().then_some(()));
        }
    });
    let not_done: u64 = records.iter().map(|record| record.not_done).sum();
    assert!(not_done > 0, "nobody noticed");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Made,
    NotMade,
    MayBeMade,
}

impl Told {
    fn by(answer: &Answer) -> Told {
        if answer.status == 201 {
            return Told::Made;
        }
        answer.expect_error(503, "db_unavailable");
        match answer.text().contains("the outcome is unknown") {
            true => Told::MayBeMade,
            false => Told::NotMade,
        }
    }
}

/// Creates tasks over a cable that is cut at each of their commits, and holds what was told against what is there.
fn cut_off(cut: Cut) -> Option<Vec<Told>> {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(missing) => {
            missing.skip("a connection that breaks");
            return None;
        }
    };
    let database = cluster.create_database();
    let cable = Cable::to(cluster.port());
    let project = Project::on(cable.url(&database.name));
    let hub = project.start();
    let project_beside = Project::on(&database.url);
    let beside = project_beside.start();
    let over = AtomicBool::new(false);
    let told = thread::scope(|scope| {
        let end = SetAtEnd(&over);
        // Somebody else writes all the time, so that the head alone does not tell whose commit it was.
        scope.spawn(|| {
            let mut client = beside.client();
            let mut tasks = (0..).map(|n| format!("beside-{n}"));
            while !over.load(Ordering::Relaxed) {
                client.create(&tasks.next().expect("there are always more"));
            }
        });
        let told = (0..ROUNDS).filter_map(|round| cut_once(&cable, cut, &hub, &beside, round));
        let told: Vec<Told> = told.collect();
        drop(end);
        told
    });
    let events = beside.client().events();
    for round in 0..ROUNDS {
        let made = |event: &&Value| {
            event["type"] == "task_created" && event["task"] == task(round).as_str()
        };
        assert_eq!(events.iter().filter(made).count(), 1, "{}", task(round));
    }
    assert!(!told.is_empty(), "nothing was cut off");
    hub.stop();
    beside.stop();
    Some(told)
}

/// `None` if somebody else's commit was cut off.
fn cut_once(cable: &Cable, cut: Cut, hub: &Hub, beside: &Hub, round: usize) -> Option<Told> {
    let task = task(round);
    let body = json!({"id": task, "title": "cut off"});
    let create = Request::post(format!("{API}/tasks"), &body).key(&task);
    let mut client = hub.client();
    cable.cut(cut);
    let answer = client.send(&create).expect("the hub answers");
    let was_cut = cable.has_cut();
    let is_there = beside.client().get(&format!("{API}/tasks/{task}")).status == 200;
    let told = Told::by(&answer);
    match told {
        Told::Made => assert!(is_there, "acknowledged, and not there"),
        Told::NotMade => assert!(!is_there, "refused, and there: {}", answer.text()),
        Told::MayBeMade => {}
    }
    // In any case the same may be asked again.
    client.send(&create).expect("the hub answers").expect(201);
    was_cut.then_some(told)
}

fn task(round: usize) -> String {
    format!("t-{round}")
}

/// Also if a round fails.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
