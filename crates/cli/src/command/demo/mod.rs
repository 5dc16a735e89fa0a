//! `switchboard demo`: a hub, a dozen agents by every door and two workers, for less than a minute.
//!
//! `stage` is what it stands on and takes down again; `plan` what there is to do; `cast` the agents, by their doors;
//! `steward` what a person does and the books that are kept; `show` what is seen of it.

mod bus;
mod cast;
mod hand;
mod line;
mod plan;
mod role;
mod show;
mod sql;
mod stage;
mod steward;
mod world;

use std::collections::BTreeSet;
use std::fs;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args as ClapArgs;
use futures_util::StreamExt as _;
use switchboard_client::Client;
use switchboard_client::jetpack::Task;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Tone};
use cast::{Agents, Cast, Door};
use plan::{Fate, Plan};
use show::Summary;
use stage::{Doors, Stage};
use steward::Books;
use world::{Told, World};

/// How often the picture is drawn.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The silent agent has a task by then.
const HANGS_WITHIN: Duration = Duration::from_secs(15);
/// If nothing happens for so long, nothing will.
const STALLED_AFTER: Duration = Duration::from_secs(45);
/// What agents tell, on its way.
const TOLD_MAX: usize = 256;
/// Real workers.
const WORKERS: [&str; 2] = ["worker-1", "worker-2"];

/// See a swarm at work: a hub, agents by every protocol, and all that can go wrong, for less than a minute
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Starts a hub of its own on free ports, in a temporary directory with a scratch git repository. Agents that pretend come by
HTTP (long poll and event stream), the bus, the broker, SQL on the file, libSQL, request files and runtime events; two
'switchboard worker' run a stand-in for an agent program in git worktrees, which a gate sends back once. Some tasks fail and are tried again, one agent falls silent and loses its
task, two want to edit the same file, a quality gate is red, one result waits for approval.

It needs no network, no keys, and git; nothing outside its directory is touched, and that is removed at the end, after
Ctrl-C and SIGTERM too. At the end the figures of the agents are compared with those of the hub: exit code 1 if they
differ.

Examples:
  switchboard demo
  switchboard demo --speed 4 --tasks 200 --agents 40
  switchboard demo --keep
  switchboard demo --json | jq .figures")]
pub struct Args {
    /// Agents that pretend; two workers come on top
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(i64::from(cast::AGENTS_MIN)..=i64::from(cast::AGENTS_MAX)))]
    agents: u16,
    /// Tasks to be done
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(i64::from(plan::TASKS_MIN)..=i64::from(plan::TASKS_MAX)))]
    tasks: u16,
    /// How much faster agents pretend, from 0.1 to 100
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Decides tasks, delays and mishaps
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep the directory, with the ledger and the repository
    #[arg(long)]
    keep: bool,
}

fn speed(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok();
    let number = number.filter(|number| (0.1..=100.0).contains(number));
    number.ok_or("expected a number from 0.1 to 100")
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let began = Instant::now();
    let mut stop = Stop::new()?;
    let mut stage = Stage::new(args.keep)?;
    let played = tokio::select! {
        biased;
        () = stop.wanted() => Err(Failure::Ended {
            code: 130,
            what: "the demo was stopped".to_owned(),
        }),
        played = play(&args, &mut stage, &mut context.screen, began) => played,
    };
    let project = stage.project();
    let kept = args.keep.then(|| stage.dir().display().to_string());
    // The hub is gone before anything is said of its end.
    drop(stage);
    if let (Err(_), Some(dir)) = (&played, &kept) {
        anstream::eprintln!("kept: {dir}");
    }
    let mut summary = played?;
    summary.dir = kept;
    summary.print(&mut context.screen, &project)?;
    context.screen.flush()?;
    match summary.success {
        true => Ok(()),
        false => Err(Failure::Failed(
            "the demo's figures differ from the hub's; --keep keeps the ledger for a look"
                .to_owned(),
        )),
    }
}

/// Ctrl-C, a polite kill, or a terminal that is closed.
struct Stop([Signal; 3]);

impl Stop {
    fn new() -> Result<Stop, Failure> {
        Ok(Stop([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn wanted(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

async fn play(
    args: &Args,
    stage: &mut Stage,
    screen: &mut Screen,
    began: Instant,
) -> Result<Summary, Failure> {
    let doors = stage.hub().await?;
    let client = doors.context.client()?;
    steward::set_baseline(&client).await?;
    let cast = cast::cast(args.agents);
    let plan = Plan::new(args.tasks, args.seed);
    let expected = plan.count();
    let (new, fates): (Vec<_>, Vec<_>) = plan.tasks.into_iter().unzip();
    let added = client.tasks().create_many(new).await?.tasks;
    let fated = || {
        let pairs = added.iter().zip(&fates);
        pairs.filter_map(|(task, fate)| Some((task.number, (*fate)?)))
    };
    let red = fated().filter(|(_, fate)| *fate == Fate::Red);
    let red: BTreeSet<u64> = red.map(|(number, _)| number).collect();
    let readers = cast.iter().filter(|(_, door)| door.reads());
    let ring: Vec<String> = readers.map(|(id, _)| id.clone()).collect();
    let (told, mut heard) = mpsc::channel(TOLD_MAX);
    let world = Arc::new(World {
        client: client.clone(),
        seed: args.seed,
        speed: args.speed,
        ring: ring.clone(),
        delegated: plan.delegated,
        published: plan.published,
        fates: Mutex::new(fated().collect()),
        refused: watch::Sender::new(false),
        told,
    });
    let mut books = Books::new(began, expected, red, ring);
    books.note(Tone::Plain, format!("a hub runs at {}", client.address()));
    let mut agents = Agents::new();
    enter(
        &mut agents,
        &cast,
        &world,
        &doors,
        stage,
        (&mut books, &mut heard),
    )
    .await?;
    let mut scene = Scene {
        screen,
        cast: &cast,
        client: &client,
        added: &added,
        agents,
        heard,
    };
    scene.run(&mut books, stage).await?;
    let end = began.elapsed();
    scene.agents.abort_all();
    stage.stop("worker");
    Summary::draw(&books, end, &cast, &client).await
}

/// Starts everybody; the one that will fall silent first, so that it gets a task.
async fn enter(
    agents: &mut Agents,
    cast: &Cast,
    world: &Arc<World>,
    doors: &Doors,
    stage: &mut Stage,
    (books, heard): (&mut Books, &mut mpsc::Receiver<Told>),
) -> Result<(), Failure> {
    let is_first = |door: &Door| *door == Door::Hang;
    for (id, door) in cast.iter().filter(|(_, door)| is_first(door)) {
        door.start(agents, id, world, doors, stage).await?;
    }
    match timeout(HANGS_WITHIN, heard.recv()).await {
        Ok(Some(told)) => books.tell(told),
        Ok(None) | Err(_) => return Err(stage.failed("hub", "gave an agent of the bus no task")),
    }
    for (id, door) in cast.iter().filter(|(_, door)| !is_first(door)) {
        door.start(agents, id, world, doors, stage).await?;
    }
    for name in WORKERS {
        worker(stage, name, world.speed)?;
    }
    Ok(())
}

struct Scene<'a> {
    screen: &'a mut Screen,
    cast: &'a Cast,
    client: &'a Client,
    added: &'a [Task],
    agents: Agents,
    heard: mpsc::Receiver<Told>,
}

impl Scene<'_> {
    /// Until everything is done.
    async fn run(&mut self, books: &mut Books, stage: &mut Stage) -> Result<(), Failure> {
        let is_live = std::io::stdout().is_terminal();
        let mut events = Box::pin(self.client.events().follow(Some(0)));
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        while !books.is_over() {
            tokio::select! {
                event = events.next() => {
                    let event = event.transpose()?;
                    if let Some(ask) = event.and_then(|event| books.hear(&event)) {
                        steward::act(self.client, ask).await?;
                    }
                }
                Some(told) = self.heard.recv() => books.tell(told),
                Some(ended) = self.agents.join_next() => match ended {
                    Ok(ended) => ended?,
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => {}
                },
                _ = ticks.tick() => {
                    stage.check()?;
                    books.ours.done.extend(worked(stage, self.added));
                    if books.moved.elapsed() > STALLED_AFTER {
                        return Err(stage.failed("hub", "has nothing more to do, and tasks are left"));
                    }
                    self.look(books, is_live)?;
                }
            }
        }
        self.look(books, is_live)
    }

    fn look(&mut self, books: &mut Books, is_live: bool) -> Result<(), Failure> {
        match self.screen.json() {
            true => Ok(()),
            false => show::look(self.screen, books, self.cast, is_live),
        }
    }
}

/// What the stand-in for an agent program does: it thinks, leaves a file, and notes the task. At first it leaves nonsense
/// that its gate does not accept.
const STAND_IN: &str = r#"#!/bin/sh
sleep "$1"
if [ -e result.txt ]; then
  echo "did $SWITCHBOARD_TASK" >result.txt
  echo "$SWITCHBOARD_TASK" >>"$2"
else
  echo nonsense >result.txt
fi
"#;
/// What counts as done.
const GATE: &str = "grep -q ^did result.txt";

/// Starts a real worker, with the stand-in.
fn worker(stage: &mut Stage, name: &'static str, speed: f64) -> Result<(), Failure> {
    let program = stage.file("stand-in.sh");
    fs::write(&program, STAND_IN)?;
    let seconds = format!("{:.2}", 0.4 / speed);
    let worked = stage.file("worked");
    let line = format!(
        "sh '{}' {seconds} '{}' {{prompt_file}}",
        program.display(),
        worked.display()
    );
    stage.start(
        name,
        ["worker", "--exec", &line, "--gate", GATE, "--skill", "real"],
    )
}

/// The tasks that the stand-in noted, by their numbers.
fn worked(stage: &Stage, added: &[Task]) -> Vec<u64> {
    let noted = fs::read_to_string(stage.file("worked")).unwrap_or_default();
    let number = |id: &str| {
        added
            .iter()
            .find(|task| task.id == id)
            .map(|task| task.number)
    };
    noted.lines().filter_map(number).collect()
}
