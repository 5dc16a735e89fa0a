//! Several coordinators on one PostgreSQL: none is special, any may die, and all of them see one ledger.

use switchboard_tests::{Client, Hub, Project};

mod away;
mod cable;
mod caretakers;
mod clocks;
mod cut;
mod duties;
mod pooler;
mod skew;
mod standby;
mod tls;
mod troubles;
mod upgrade;
mod wakeups;

/// Coordinators on one database, each with a directory of its own.
struct Team {
    projects: Vec<Project>,
    hubs: Vec<Hub>,
}

impl Team {
    /// So many coordinators that serve this ledger.
    #[track_caller]
    fn on(url: &str, hubs: usize) -> Team {
        Team::of((0..hubs).map(|_| Project::on(url)).collect())
    }

    #[track_caller]
    fn of(projects: Vec<Project>) -> Team {
        let hubs = projects.iter().map(Project::start).collect();
        Team { projects, hubs }
    }

    /// A connection to one of them.
    fn client(&self, hub: usize) -> Client {
        self.hubs[hub].client()
    }

    fn clients(&self) -> Vec<Client> {
        self.hubs.iter().map(Hub::client).collect()
    }

    /// All leave in good order.
    #[track_caller]
    fn stop(self) {
        self.hubs.into_iter().for_each(|hub| {
            hub.stop();
        });
    }
}
