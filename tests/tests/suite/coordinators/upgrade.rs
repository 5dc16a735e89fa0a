//! Coordinators of two builds on one ledger, and several that begin it at once.

use std::thread;

use switchboard_test_cluster::{Cluster, Database};
use switchboard_tests::Project;

use super::Team;
use super::troubles::Load;
use crate::crash::world::World;

/// Makes the binary know one more step of the schema.
const SCHEMA: (&str, &str) = ("SWITCHBOARD_TEST_SCHEMA", "next");
const COORDINATORS: usize = 3;
/// Changes between the steps of the upgrade.
const CHANGES: u64 = 150;

#[test]
fn coordinators_are_upgraded_one_by_one_under_load_with_a_schema_step_between_the_builds() {
    let Some(server) = Cluster::shared("a rolling upgrade") else {
        return;
    };
    let database = server.create_database();
    let old = || Project::on(&database.url);
    let new = || old().with_variable(SCHEMA.0, SCHEMA.1);
    let team = Team::of((0..COORDINATORS).map(|_| old()).collect());
    let before = steps(&database);
    // Who leaves in good order may tell its last callers to come back.
    let world = World::of(COORDINATORS).with_outages();
    Load::of(team, &database).run(&world, |load, _| {
        for hub in 0..COORDINATORS {
            world.wait_for_more(CHANGES);
            load.replace(&world, hub, new());
            assert_eq!(steps(&database), before + 1);
        }
        world.wait_for_more(CHANGES);
        // One of the build before may still come back, and serves beside the new ones.
        load.replace(&world, 0, old());
        world.wait_for_more(CHANGES);
    });
    assert_eq!(steps(&database), before + 1);
}

#[test]
fn two_builds_see_each_others_work() {
    let Some(server) = Cluster::shared("two builds on one ledger") else {
        return;
    };
    let database = server.create_database();
    let new = Project::on(&database.url).with_variable(SCHEMA.0, SCHEMA.1);
    let team = Team::of(vec![Project::on(&database.url), new]);
    let [mut old, mut new] = [team.client(0), team.client(1)];
    old.register("a");
    for (makes, takes, name) in [(0, 1, "made-by-old"), (1, 0, "made-by-new")] {
        let clients = [&mut old, &mut new];
        clients[makes].create(name);
        let taken = clients[takes].claim("a").expect("there is a task");
        assert_eq!(taken["id"], name);
        clients[makes].complete("a", name, 1);
        assert_eq!(clients[takes].task(name)["status"], "completed");
    }
    assert_eq!(old.events(), new.events());
    drop((old, new));
    team.stop();
}

#[test]
fn coordinators_that_begin_an_empty_database_at_the_same_moment_all_come_up() {
    const AT_ONCE: usize = 4;
    let Some(server) = Cluster::shared("starting at once") else {
        return;
    };
    let database = server.create_database();
    let projects: Vec<Project> = (0..AT_ONCE).map(|_| Project::on(&database.url)).collect();
    let hubs: Vec<_> = thread::scope(|scope| {
        let starts: Vec<_> = projects
            .iter()
            .map(|project| scope.spawn(|| project.start()))
            .collect();
        starts
            .into_iter()
            .map(|start| start.join().expect("it comes up"))
            .collect()
    });
    for (n, hub) in hubs.iter().enumerate() {
        hub.client().create(&format!("t-{n}"));
    }
    for hub in &hubs {
        assert_eq!(hub.client().status()["tasks"]["ready"], AT_ONCE);
    }
    Team { projects, hubs }.stop();
}

fn steps(database: &Database) -> u64 {
    let steps = database.sql("SELECT count(*) FROM sb_migration");
    steps.parse().expect("it is a number")
}
