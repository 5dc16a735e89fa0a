//! The power goes at any moment of a recorded run; on the disk that is left the real hub starts, and everything
//! acknowledged until then is there, once.
//!
//! One run is recorded, with kills and restarts in it, and cut in many places. Rerun a failure with its seed; what is
//! recorded differs from run to run, since threads do, so that a rare failure may need more cuts as well.

use std::fs;

use switchboard_tests::power::{Disk, Left, Log, Recorder};
use switchboard_tests::{Project, Random};

use crate::crash::check::{Seen, is_as_expected, lost};
use crate::crash::facts::Record;
use crate::crash::ledger::{self, Books};
use crate::crash::world::World;
use crate::crash::{WITHIN_A_BATCH, linger, start, tell, under_load};

mod replay;

const SEED: &str = "SWITCHBOARD_POWER_SEED";
/// More than in the suite: `SWITCHBOARD_POWER_CUTS=1000`.
const CUTS: &str = "SWITCHBOARD_POWER_CUTS";
const CUTS_IN_THE_SUITE: usize = 60;
const CLIENTS: usize = 6;
/// Lives of the hub within the recording, and answers in each of them.
const LIVES: usize = 3;
const ANSWERS: u64 = 400;
/// Records of a first start among which all files come into being; pages of the ledger follow.
const WHILE_IT_IS_MADE: usize = 48;

#[test]
fn whatever_was_acknowledged_survives_a_power_cut_and_nothing_happens_twice() {
    let seed = Random::seed_from(SEED);
    let cuts = std::env::var(CUTS).map_or(CUTS_IN_THE_SUITE, |text| {
        text.parse().expect("the number of cuts is a number")
    });
    println!("power cuts: {SEED}={seed} {CUTS}={cuts}");
    let mut random = Random::seeded(seed);
    let run = Run::recorded(&mut random);
    let log = run.log();
    run.is_whole(&log);
    let mut disk = Disk::before(&log, run.project.data_dir());
    for (n, at) in run.moments(cuts, &log, &mut random).into_iter().enumerate() {
        let left = *random.choose(&Left::EACH);
        println!(
            "cut {n} at {at} of {}, of what was on its way: {left:?}",
            log.end()
        );
        disk.advance(at);
        let (lost, project) = run.survivors(&disk, at, left, &mut random);
        assert!(lost.is_empty(), "acknowledged and gone: {lost:#?}");
        if at >= run.served_at {
            let key = |project: &Project| {
                fs::read(project.data_dir().join("key")).expect("a hub has a key")
            };
            assert!(
                key(&project) == key(&run.project),
                "agents' tokens are void"
            );
        }
    }
    // Otherwise the test could not fail: the same without its syncs must lose something.
    let log = run.log().without_syncs();
    let mut disk = Disk::before(&log, run.project.data_dir());
    disk.advance(log.end());
    let (lost, _) = run.survivors(&disk, log.end(), Left::Nothing, &mut random);
    assert!(!lost.is_empty(), "nothing is lost without a sync");
}

#[test]
fn a_hub_whose_power_went_while_it_made_its_ledger_starts_all_the_same() {
    let seed = Random::seed_from(SEED);
    println!("power cuts: {SEED}={seed}");
    let mut random = Random::seeded(seed);
    let (project, recorder) = Recorder::project();
    recorder.kill(&mut project.start());
    let log = recorder.log();
    let mut disk = Disk::before(&log, project.data_dir());
    for (at, record) in log.records.iter().take(WHILE_IT_IS_MADE) {
        let left = *random.choose(&Left::EACH);
        println!("cut at {at} after {record:?}, of what was on its way: {left:?}");
        disk.advance(*at);
        let project = image(&disk, left, &mut random);
        let hub = project.start();
        hub.client().create("first");
        hub.stop();
    }
}

/// One run under load, and what its clients were told.
struct Run {
    project: Project,
    world: World,
    records: Vec<Record>,
    /// When the first hub was ready.
    served_at: u64,
}

impl Run {
    fn recorded(random: &mut Random) -> Run {
        let (project, recorder) = Recorder::project();
        let world = World::of(1).recorded_by(recorder);
        let agents: Vec<String> = (0..CLIENTS).map(|n| format!("agent-{n}")).collect();
        let mut hub = project.start();
        let served_at = world.disk();
        agents.iter().for_each(|agent| hub.client().register(agent));
        let worker = random.fork();
        let records = under_load(&world, &agents, worker, || {
            world.hub_serves(0, hub.addr());
            for _ in 1..LIVES {
                world.wait_for_more(random.between(ANSWERS / 2, ANSWERS));
                if world.is_over() {
                    break;
                }
                linger(random, WITHIN_A_BATCH);
                world.hub_ends(0);
                world.recorder().kill(&mut hub);
                hub = start(&project);
                world.hub_serves(0, hub.addr());
            }
            world.wait_for_more(ANSWERS);
        });
        let seen = Seen::now(&mut hub.client());
        tell(&records, &seen.history);
        is_as_expected(&records);
        world.recorder().kill(&mut hub);
        Run {
            project,
            world,
            records,
            served_at,
        }
    }

    fn log(&self) -> Log {
        self.world.recorder().log()
    }

    /// The record misses nothing: replayed without a cut it gives the files that are there.
    fn is_whole(&self, log: &Log) {
        let mut disk = Disk::before(log, self.project.data_dir());
        disk.advance(log.end());
        let image = image(&disk, Left::All, &mut Random::seeded(0));
        for name in ["switchboard.db", "switchboard.db-wal", "key"] {
            let read =
                |project: &Project| fs::read(project.data_dir().join(name)).expect("it is there");
            let (replayed, real) = (read(&image), read(&self.project));
            assert_eq!(replayed.len(), real.len(), "{name}");
            assert!(replayed == real, "{name} was written past the record");
        }
    }

    /// Positions of the record, ascending: half of them just after an answer.
    fn moments(&self, cuts: usize, log: &Log, random: &mut Random) -> Vec<u64> {
        let learnt: Vec<u64> = self
            .records
            .iter()
            .flat_map(|record| &record.facts)
            .map(|learnt| learnt.disk)
            .collect();
        let moment = |n: usize| match n % 2 {
            0 => *random.choose(&learnt),
            _ => random.choose(&log.records).0,
        };
        let mut moments: Vec<u64> = (0..cuts).map(moment).collect();
        moments.sort_unstable();
        moments
    }

    /// Starts the hub on what a cut leaves, and tells what is lost.
    fn survivors(
        &self,
        disk: &Disk<'_>,
        at: u64,
        left: Left,
        random: &mut Random,
    ) -> (Vec<String>, Project) {
        let project = image(disk, left, random);
        let hub = project.start();
        let mut client = hub.client();
        let seen = Seen::now(&mut client);
        let lost = lost(&self.records, at, &seen);
        client.create("after-the-cut");
        drop(client);
        hub.stop();
        ledger::is_whole(&Books::File(project.database()), &seen.history);
        (lost, project)
    }
}

/// A project on the disk that a cut leaves.
fn image(disk: &Disk<'_>, left: Left, random: &mut Random) -> Project {
    let project = Project::new();
    fs::create_dir(project.data_dir()).expect("a directory can be made");
    disk.cut(left, random, project.data_dir());
    project
}
