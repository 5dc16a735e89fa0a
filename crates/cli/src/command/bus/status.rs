//! `switchboard bus status`: the director, its workers and its queue at this moment.

use std::io;
use std::time::Duration;

use clap::Args as ClapArgs;
use comfy_table::Cell;
use switchboard_client::bus::OperatorEvent;
use switchboard_wire::IsoTime;
use switchboard_wire::agentbus::message::{
    DirectorStatus, OperatorCommand, Outbound, ProjectStateSnapshot, WorkerEntry,
};
use switchboard_wire::agentbus::{DirectorState, OperatorOrder};

use super::call::Call;
use super::failed::{failed, trying_again};
use super::reach::Door;
use super::show::stage_tone;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, Tone, brief, cell, clean, paint, toned};
use crate::show::{age, maybe, now};

/// Between two pictures of a watched bus.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Longest reason that is shown.
const REASON_MAX: usize = 120;

/// Show the director, its workers and its queue
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard bus status
  switchboard bus status --watch
  switchboard bus status --json | jq .director.state")]
pub struct Args {
    /// Refresh every second until Ctrl-C
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    door: Door,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let mut call = Call::begin(&args.door, context).await?;
    let screen = &mut context.screen;
    let ended = match args.watch {
        true => tokio::select! {
            _ = tokio::signal::ctrl_c() => Ok(()),
            ended = watch(&mut call, screen) => ended,
        },
        // A director shows everything to whoever comes.
        false => match next(&mut call).await {
            Ok(snapshot) if screen.json() => Ok(screen.value(&snapshot)?),
            Ok(snapshot) => Ok(print(&snapshot, &call.reach.addr, screen)?),
            Err(failure) => Err(failure),
        },
    };
    call.operator.close().await;
    ended
}

/// The next snapshot.
async fn next(call: &mut Call) -> Result<ProjectStateSnapshot, Failure> {
    loop {
        match call.next().await? {
            OperatorEvent::Frame(frame) => {
                if let Outbound::Snapshot(snapshot) = frame.message {
                    return Ok(snapshot);
                }
            }
            OperatorEvent::Disconnected { error, .. } | OperatorEvent::Ended(error) => {
                return Err(failed(&error, &call.reach));
            }
            OperatorEvent::Connected(_) | OperatorEvent::Line { .. } => {}
        }
    }
}

/// Asks again and again; a director that is away for a moment is waited for.
async fn watch(call: &mut Call, screen: &mut Screen) -> Result<(), Failure> {
    loop {
        call.wait_anew();
        match call.next().await? {
            OperatorEvent::Frame(frame) => {
                let Outbound::Snapshot(snapshot) = frame.message else {
                    continue;
                };
                show(&snapshot, &call.reach.addr, screen)?;
                tokio::time::sleep(WATCH_EVERY).await;
                let again = OperatorCommand::plain(OperatorOrder::Snapshot, "");
                // If that fails, the events say why; the next connection begins with a snapshot.
                let _ = call.operator.command(again).await;
            }
            OperatorEvent::Disconnected { error, .. } if !screen.json() => {
                screen.clear()?;
                screen.line(paint(trying_again(&error, &call.reach), Tone::Warn))?;
                screen.flush()?;
            }
            OperatorEvent::Ended(error) => return Err(failed(&error, &call.reach)),
            OperatorEvent::Disconnected { .. }
            | OperatorEvent::Connected(_)
            | OperatorEvent::Line { .. } => {}
        }
    }
}

/// One picture of a watched bus.
fn show(snapshot: &ProjectStateSnapshot, addr: &str, screen: &mut Screen) -> io::Result<()> {
    if screen.json() {
        return screen.value_line(snapshot);
    }
    screen.clear()?;
    print(snapshot, addr, screen)?;
    screen.flush()
}

fn print(snapshot: &ProjectStateSnapshot, addr: &str, screen: &mut Screen) -> io::Result<()> {
    if let Some(director) = &snapshot.director {
        screen.line(headline(director, addr))?;
    }
    let mut facts = Table::facts();
    if let Some(director) = &snapshot.director {
        facts.fact("work", work(director));
    }
    let release = snapshot.release.as_ref().map(|release| {
        let pr = release.release_pr_number;
        let pr = pr.map(|pr| format!(" (#{pr})")).unwrap_or_default();
        cell(format!(
            "{} on {}{pr}",
            release.release_id, release.release_branch
        ))
    });
    facts.fact("release", release);
    let queue = &snapshot.queue;
    facts.fact(
        "queue",
        cell(format!(
            "{} eligible, {} claimed",
            queue.eligible_total, queue.claimed_total
        )),
    );
    screen.table(&facts)?;
    screen.line("")?;
    screen.table(&workers(&snapshot.workers))
}

fn headline(director: &DirectorStatus, addr: &str) -> String {
    let since = age(IsoTime(director.since.0), now());
    let since = match since.as_str() {
        "now" => "since just now".to_owned(),
        span => format!("for {span}"),
    };
    format!(
        "director at {} in {} {since}, {}",
        clean(addr),
        paint(director.state, director_tone(director.state)),
        clean(&director.run_id)
    )
}

/// Whether work is handed out, and why not.
fn work(director: &DirectorStatus) -> Cell {
    let because = director.reason.as_deref().unwrap_or_default();
    let because = match brief(because, REASON_MAX) {
        none if none.is_empty() => String::new(),
        reason => format!(": {reason}"),
    };
    if director.paused {
        return toned(format!("paused{because}"), Tone::Warn);
    }
    match director.state {
        DirectorState::Cooldown => toned(format!("cooling down{because}"), Tone::Warn),
        DirectorState::Shutdown => toned(format!("shutting down{because}"), Tone::Warn),
        DirectorState::Boot
        | DirectorState::ReleasePlan
        | DirectorState::Discover
        | DirectorState::Dispatch
        | DirectorState::Monitor
        | DirectorState::ReleaseFinalize
        | DirectorState::Broadcast
        | DirectorState::SelfReview => toned("handed out", Tone::Good),
    }
}

fn director_tone(state: DirectorState) -> Tone {
    match state {
        DirectorState::Cooldown | DirectorState::Shutdown => Tone::Warn,
        DirectorState::Boot
        | DirectorState::ReleasePlan
        | DirectorState::Discover
        | DirectorState::Dispatch
        | DirectorState::Monitor
        | DirectorState::ReleaseFinalize
        | DirectorState::Broadcast
        | DirectorState::SelfReview => Tone::Good,
    }
}

fn workers(workers: &[WorkerEntry]) -> Table {
    let headings = [
        "WORKER",
        "STAGE",
        "ISSUE",
        "ATTEMPT",
        "PROGRESS",
        "HEARTBEAT",
        "CONNECTED",
        "DOORS",
    ];
    let mut table = Table::new(headings, "no workers");
    let now = now();
    for worker in workers {
        let issue = match (&worker.external, worker.issue_number) {
            (Some(external), _) => Some(external.clone()),
            (None, 0) => worker.holds.last().map(|number| format!("#{number}")),
            (None, number) => Some(format!("#{number}")),
        };
        let attempt = Some(worker.attempt).filter(|attempt| *attempt > 0);
        let heard = worker.last_heartbeat_age_seconds.map(|seconds| {
            let ago = (seconds.clamp(0.0, 1e12) * 1000.0) as i64;
            age(IsoTime(now.0.saturating_sub(ago)), now)
        });
        table.row([
            cell(&worker.worker_id),
            worker.stage.map_or_else(
                || maybe(None::<&str>),
                |stage| toned(stage, stage_tone(stage)),
            ),
            maybe(issue),
            maybe(attempt),
            maybe(worker.progress.as_ref().map(|progress| {
                let step = brief(&progress.step, 40);
                format!("{}% {step}", progress.points())
                    .trim_end()
                    .to_owned()
            })),
            maybe(heard),
            if worker.connected {
                toned("yes", Tone::Good)
            } else {
                toned("no", Tone::Dim)
            },
            maybe(Some(worker.doors.join(", ")).filter(|doors| !doors.is_empty())),
        ]);
    }
    table
}
