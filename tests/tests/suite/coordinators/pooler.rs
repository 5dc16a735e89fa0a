//! A pooler in transaction mode between the coordinators and the database.

use switchboard_test_cluster::{Cluster, PgBouncer, PoolMode};

use super::Team;
use super::troubles::Load;
use super::wakeups::all_are_woken;
use crate::crash::world::World;

const COORDINATORS: usize = 2;
/// Changes of the history.
const CHANGES: u64 = 600;

#[test]
fn through_a_pooler_in_transaction_mode_coordinators_serve_and_wake_each_others_clients() {
    let what = "a pooler before the database";
    let Some(server) = Cluster::shared(what) else {
        return;
    };
    let pooler = match PgBouncer::start(server, PoolMode::Transaction) {
        Ok(pooler) => pooler,
        Err(missing) => return missing.skip(what),
    };
    let database = server.create_database();
    let team = Team::on(&pooler.url(&database.name), COORDINATORS);
    all_are_woken(&team);
    team.stop();

    let database = server.create_database();
    let team = Team::on(&pooler.url(&database.name), COORDINATORS);
    let world = World::of(COORDINATORS);
    Load::of(team, &database).run(&world, |_, _| world.wait_for_more(CHANGES));
}
