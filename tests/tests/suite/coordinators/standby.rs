//! The database is replicated, and a standby takes over: whatever was acknowledged is there.

use std::thread;
use std::time::Duration;

use switchboard_test_cluster::{Cluster, Database};
use switchboard_tests::{Project, until};

use super::Team;
use super::troubles::Load;
use crate::crash::world::World;

const COORDINATORS: usize = 3;
/// Longer than it takes to make sure of a commit whose wait for the standby was ended.
const PATIENCE: Duration = Duration::from_secs(15);

/// Server processes whose commit waits for the standby.
const WAITING: &str = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

/// A primary, and a standby that its commits wait for.
struct Pair {
    primary: Cluster,
    standby: Cluster,
}

impl Pair {
    fn on(primary: Cluster) -> Pair {
        let standby = primary.standby("second");
        let pair = Pair { primary, standby };
        pair.wait_for_standby("second");
        pair.until_replicated("sync");
        pair
    }

    fn wait_for_standby(&self, names: &str) {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        self.primary.sql("postgres", &set);
        self.primary.sql("postgres", "SELECT pg_reload_conf()");
    }

    fn until_replicated(&self, state: &str) {
        let states = "SELECT sync_state FROM pg_stat_replication";
        until("the standby follows, or no longer does", || {
            (self.primary.sql("postgres", states) == state).then_some(())
        });
    }

    /// From here on commits reach the primary only, and wait.
    fn cut_off(&self) {
        self.standby.follow(None);
        self.until_replicated("");
        self.until_a_commit_waits();
    }

    fn until_a_commit_waits(&self) {
        let waits = format!("SELECT count(*) > 0 {WAITING}");
        until("a commit waits for the standby", || {
            (self.primary.sql("postgres", &waits) == "t").then_some(())
        });
    }

    /// Ends waits with this function, in vain if there is none any more.
    fn end_waits(&self, function: &str) {
        let end = format!("SELECT {function}(pid) {WAITING}");
        let _ = self.primary.try_sql("postgres", &end);
    }

    /// An address with both of them.
    fn url(&self, database: &Database) -> String {
        let (primary, standby) = (self.primary.port(), self.standby.port());
        let name = &database.name;
        format!("postgres://switchboard@127.0.0.1:{primary},127.0.0.1:{standby}/{name}")
    }
}

#[test]
fn a_standby_that_takes_over_has_all_that_was_acknowledged_however_waits_for_it_ended() {
    let primary = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(missing) => return missing.skip("a standby that takes over"),
    };
    let database = primary.create_database();
    let pair = Pair::on(primary);
    let copy = pair.standby.database(&database.name);
    let url = pair.url(&database);
    let team = Team::of((0..COORDINATORS).map(|_| Project::on(&url)).collect());
    let world = World::of(COORDINATORS)
        .with_patience(PATIENCE)
        .with_outages();
    let load = Load::of(team, &copy).that_may_rewind();
    load.run(&world, |_, random| {
        let ends: [&dyn Fn(); 3] = [
            &|| pair.end_waits("pg_cancel_backend"),
            &|| pair.end_waits("pg_terminate_backend"),
            &|| {
                pair.primary.stop_immediate();
                pair.primary.start_again();
            },
        ];
        for end in ends {
            world.wait_for_more(random.between(1, 300));
            pair.cut_off();
            end();
            pair.until_a_commit_waits();
            pair.standby.follow(Some(&pair.primary));
            pair.until_replicated("sync");
        }
        world.wait_for_more(random.between(1, 300));
        pair.cut_off();
        // Changes that only the primary has, and then it is gone.
        for _ in 0..5 {
            pair.end_waits("pg_cancel_backend");
            thread::sleep(Duration::from_millis(20));
        }
        pair.primary.stop_immediate();
        pair.standby.promote();
        world.wait_for_more(100);
    });
}
