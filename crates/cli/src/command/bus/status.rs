//! `switchboard bus status`: the director, its workers and its queue at this moment.

use std::io;

use clap::Args as ClapArgs;
use comfy_table::Cell;
use switchboard_client::bus::OperatorEvent;
use switchboard_wire::IsoTime;
use switchboard_wire::agentbus::DirectorState;
use switchboard_wire::agentbus::message::{
    DirectorStatus, Outbound, ProjectStateSnapshot, WorkerEntry,
};

use super::call::Call;
use super::failed::failed;
use super::reach::Door;
use super::show::stage_tone;
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Screen, Table, Tone, brief, cell, clean, paint, toned};
use crate::show::{age, maybe, now};

/// Longest reason that is shown.
const REASON_MAX: usize = 120;

/// Show the director, its workers and its queue
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  switchboard bus status
  switchboard bus status --json | jq .director.state")]
pub struct Args {
    #[command(flatten)]
    door: Door,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let mut call = Call::begin(&args.door, context).await?;
    // A director shows everything to whoever comes.
    let snapshot = loop {
        match call.next().await? {
            OperatorEvent::Frame(frame) => {
                if let Outbound::Snapshot(snapshot) = frame.message {
                    break snapshot;
                }
            }
            OperatorEvent::Disconnected { error, .. } | OperatorEvent::Ended(error) => {
                return Err(failed(&error, &call.reach));
            }
            OperatorEvent::Connected(_) | OperatorEvent::Line { .. } => {}
        }
    };
    call.operator.close().await;
    let screen = &mut context.screen;
    if screen.json() {
        return Ok(screen.value(&snapshot)?);
    }
    Ok(print(&snapshot, &call.reach.addr, screen)?)
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
        let issue = match (worker.issue_number, &worker.external) {
            (0, external) => external.clone(),
            (number, _) => Some(format!("#{number}")),
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
