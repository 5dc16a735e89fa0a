//! Frames as lines for a person.

use switchboard_client::bus::Frame;
use switchboard_wire::agentbus::message::{
    CatalogSnapshot, ErrorReport, Message as _, MessageType, Outbound, ProjectStateSnapshot,
    StepProgress,
};
use switchboard_wire::agentbus::{Role, Stage};

use crate::screen::{Tone, brief, clean, paint};
use crate::show::time;

/// Longest piece of a text that others wrote.
const TEXT_MAX: usize = 80;
/// Wide enough for most, so that lines can be read in columns.
const WHO_WIDTH: usize = 12;
const KIND_WIDTH: usize = 13;

/// One frame: when, who, what.
pub fn line(frame: &Frame) -> String {
    let kind = match frame.message.message_type() {
        MessageType::ProjectStateSnapshot => "snapshot",
        other => other.as_str().strip_suffix(".v1").unwrap_or(other.as_str()),
    };
    let who = match frame.from.role {
        Role::Director => "director",
        Role::Worker | Role::Operator => frame.from.id.as_str(),
    };
    let (tone, text) = said(&frame.message);
    format!(
        "{} {:<WHO_WIDTH$} {} {text}",
        time(),
        clean(who),
        paint(
            format_args!("{:<KIND_WIDTH$}", kind.replace('_', " ")),
            tone
        )
    )
}

fn said(message: &Outbound<'_>) -> (Tone, String) {
    match message {
        Outbound::Heartbeat(beat) => {
            let state = &beat.state;
            let text = step(state.stage, state.issue_number, state.progress.as_ref());
            (stage_tone(state.stage), text)
        }
        Outbound::TaskProgress(told) => {
            let mut text = step(told.stage, told.issue_number, Some(&told.progress));
            if let Some(note) = &told.note {
                text.push_str(&format!(" ({})", brief(note, TEXT_MAX)));
            }
            (Tone::Busy, text)
        }
        Outbound::WorkerError(told) => (Tone::Bad, error(&told.error)),
        Outbound::Snapshot(snapshot) => (Tone::Dim, summary(snapshot)),
        Outbound::EngramAnnounce(told) => (Tone::Good, clean(&told.path).into_owned()),
        Outbound::CatalogSnapshot(catalog) => (Tone::Dim, shelf(catalog)),
        Outbound::CatalogDelta(delta) => (
            Tone::Dim,
            format!(
                "{} engrams added, {} removed, now {}",
                delta.added.len(),
                delta.removed.len(),
                clean(&delta.to_version.to_text())
            ),
        ),
        Outbound::EngramContent(told) => (Tone::Dim, clean(&told.engram_id).into_owned()),
        Outbound::ReleasePublished(told) => (
            Tone::Good,
            format!("{} of main {}", clean(&told.tag), clean(&told.main_sha)),
        ),
        Outbound::OperatorAck(told) => (
            if told.ok { Tone::Good } else { Tone::Bad },
            brief(&told.message, TEXT_MAX),
        ),
        Outbound::Error(told) => (
            Tone::Bad,
            format!("{}: {}", told.code, brief(&told.message, TEXT_MAX)),
        ),
        Outbound::Welcome(told) => (Tone::Good, clean(&told.director.run_id).into_owned()),
        Outbound::TaskAccepted(told) => (
            Tone::Good,
            format!("#{} taken, claim {}", told.issue_number, told.epoch),
        ),
        Outbound::TaskDeclined(told) => {
            let reason = brief(&told.reason, TEXT_MAX);
            (
                Tone::Warn,
                format!("#{} declined: {reason}", told.issue_number),
            )
        }
        Outbound::TaskResult(told) => {
            let summary = brief(&told.result.summary, TEXT_MAX);
            (
                Tone::Good,
                format!("#{} done: {summary}", told.issue_number),
            )
        }
        Outbound::WorkerLeaving(told) => {
            let reason = brief(
                told.reason.as_deref().unwrap_or("no reason given"),
                TEXT_MAX,
            );
            (Tone::Warn, format!("leaves: {reason}"))
        }
        // For workers; an operator does not get them.
        Outbound::Incompatible(_)
        | Outbound::Probe(_)
        | Outbound::SyncRequired(_)
        | Outbound::OperatorCommand(_)
        | Outbound::BudgetGrant(_)
        | Outbound::TaskAssigned(_)
        | Outbound::TaskResultAck(_)
        | Outbound::TaskRevoked(_)
        | Outbound::AgentMessage(_)
        | Outbound::AgentMessageAck(_) => (Tone::Plain, String::new()),
    }
}

/// `CODE #21 40% writing tests`.
pub fn step(stage: Stage, issue_number: u64, progress: Option<&StepProgress<'_>>) -> String {
    let mut text = match issue_number {
        0 => format!("{stage} idle"),
        number => format!("{stage} #{number}"),
    };
    if let Some(progress) = progress {
        text.push_str(&format!(" {}%", progress.points()));
        if !progress.step.is_empty() {
            text.push_str(&format!(" {}", brief(&progress.step, TEXT_MAX)));
        }
    }
    text
}

pub fn stage_tone(stage: Stage) -> Tone {
    match stage {
        Stage::Start
        | Stage::UpgradeCheckpoint
        | Stage::SyncMain
        | Stage::ContextLoad
        | Stage::Code
        | Stage::Validate
        | Stage::Commit
        | Stage::PrCreate
        | Stage::ReviewRequest => Tone::Busy,
        Stage::Done => Tone::Good,
        Stage::RetryWait => Tone::Warn,
        Stage::Blocked => Tone::Bad,
    }
}

fn error(error: &ErrorReport) -> String {
    let after = if error.escalate_to_human {
        "needs a person"
    } else if error.should_retry {
        "to be retried"
    } else {
        "not to be retried"
    };
    format!(
        "{} #{} {} in {}, attempt {}, {after}: {}",
        error.stage,
        error.issue_number,
        clean(&error.error_type),
        clean(&error.error_id),
        error.attempt,
        brief(&error.message, TEXT_MAX)
    )
}

/// A snapshot in one line.
pub fn summary(snapshot: &ProjectStateSnapshot) -> String {
    let state = match &snapshot.director {
        Some(director) if director.paused => "paused",
        Some(director) => director.state.as_str(),
        None => "director",
    };
    let connected = snapshot.workers.iter().filter(|one| one.connected).count();
    let queue = &snapshot.queue;
    format!(
        "{state}, {} ({connected} connected), {} eligible, {} claimed",
        match snapshot.workers.len() {
            1 => "1 worker".to_owned(),
            count => format!("{count} workers"),
        },
        queue.eligible_total,
        queue.claimed_total
    )
}

fn shelf(catalog: &CatalogSnapshot) -> String {
    format!(
        "{} engrams, version {}",
        catalog.entries.len(),
        clean(&catalog.catalog_version.to_text())
    )
}

#[cfg(test)]
mod tests {
    use switchboard_wire::agentbus::UtcTime;
    use switchboard_wire::agentbus::envelope::Sender;
    use switchboard_wire::agentbus::message::{Heartbeat, Queue, WorkerEntry, WorkerState};

    use super::*;

    fn text(role: Role, id: &str, message: impl Into<Outbound<'static>>) -> String {
        let frame = Frame {
            from: Sender {
                role,
                id: id.to_owned().into(),
                run_id: None,
            },
            sent_at: UtcTime(0),
            message: message.into(),
        };
        let line = anstream::adapter::strip_str(&line(&frame)).to_string();
        let (time, rest) = line.split_once(' ').unwrap();
        assert_eq!(time.len(), "10:00:00.000".len(), "{time}");
        rest.to_owned()
    }

    #[test]
    fn a_heartbeat_shows_worker_stage_issue_and_percent_and_steers_no_terminal() {
        let state = WorkerState {
            stage: Stage::Code,
            issue_number: 21,
            attempt: 1,
            progress: Some(StepProgress {
                step: "writing\u{1b}[2J tests".into(),
                percent: 39.6,
            }),
            repo: None,
            last_error_id: None,
            last_update_at: Some(UtcTime(0)),
        };
        let beat = Heartbeat { state };
        assert_eq!(
            text(Role::Worker, "worker-3", beat),
            "worker-3     heartbeat     CODE #21 40% writing\u{fffd}[2J tests"
        );
    }

    #[test]
    fn a_snapshot_is_a_summary() {
        let mut one = WorkerEntry::unheard("worker-1".to_owned());
        one.connected = true;
        let workers = vec![one, WorkerEntry::unheard("worker-2".to_owned())];
        let queue = Queue {
            eligible_total: 12,
            claimed_total: 3,
            ..Queue::default()
        };
        let snapshot = ProjectStateSnapshot::new("s".to_owned(), workers, queue);
        assert_eq!(
            text(Role::Director, "director-1", snapshot),
            "director     snapshot      director, 2 workers (1 connected), 12 eligible, 3 claimed"
        );
    }
}
