//! How things of the hub look on a screen: tones of states, ages, durations, lists.

use std::time::SystemTime;

use comfy_table::Cell;
use switchboard_client::jetpack::{
    AgentStatus, AttemptOutcome, DeliveryState, Priority, TaskStatus, Verdict,
};
use switchboard_wire::{IsoTime, Recipients};

use crate::screen::{Tone, cell, paint, toned};

pub fn task_status(status: TaskStatus) -> Cell {
    toned(status, task_tone(status))
}

pub fn task_tone(status: TaskStatus) -> Tone {
    match status {
        TaskStatus::Ready | TaskStatus::Pending => Tone::Plain,
        TaskStatus::Claimed | TaskStatus::InProgress => Tone::Busy,
        TaskStatus::Completed => Tone::Good,
        TaskStatus::Failed => Tone::Bad,
        TaskStatus::PendingRetry | TaskStatus::NeedsReview => Tone::Warn,
        TaskStatus::Blocked | TaskStatus::Canceled => Tone::Dim,
    }
}

pub fn verdict(verdict: Verdict) -> Cell {
    let tone = match verdict {
        Verdict::Verified => Tone::Good,
        Verdict::Gaps => Tone::Warn,
        Verdict::Unverified => Tone::Plain,
    };
    toned(verdict, tone)
}

pub fn agent_status(status: AgentStatus) -> Cell {
    let tone = match status {
        AgentStatus::Idle => Tone::Good,
        AgentStatus::Busy => Tone::Busy,
        AgentStatus::Error => Tone::Bad,
        AgentStatus::Offline => Tone::Dim,
        AgentStatus::ShuttingDown => Tone::Warn,
    };
    toned(status, tone)
}

pub fn priority(priority: Priority) -> Cell {
    let tone = match priority {
        Priority::Critical => Tone::Bad,
        Priority::High => Tone::Warn,
        Priority::Medium => Tone::Plain,
        Priority::Low => Tone::Dim,
    };
    toned(priority, tone)
}

pub fn outcome(outcome: Option<AttemptOutcome>) -> Cell {
    let Some(outcome) = outcome else {
        return toned("going on", Tone::Busy);
    };
    let tone = match outcome {
        AttemptOutcome::Completed => Tone::Good,
        AttemptOutcome::NeedsReview => Tone::Warn,
        AttemptOutcome::Failed | AttemptOutcome::Crashed => Tone::Bad,
        AttemptOutcome::Released | AttemptOutcome::Canceled | AttemptOutcome::HandedOver => {
            Tone::Dim
        }
    };
    toned(outcome, tone)
}

pub fn delivery(state: DeliveryState) -> Cell {
    let tone = match state {
        DeliveryState::Queued => Tone::Plain,
        DeliveryState::Delivered => Tone::Busy,
        DeliveryState::Acknowledged => Tone::Good,
        DeliveryState::Expired => Tone::Dim,
        DeliveryState::Failed => Tone::Bad,
    };
    toned(state, tone)
}

/// Whom a message is for.
pub fn recipients(to: Option<&Recipients>) -> String {
    to.map_or_else(|| "all".to_owned(), ToString::to_string)
}

/// The clock of this machine.
pub fn now() -> IsoTime {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    IsoTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The time of day at which something was seen here, in UTC.
pub fn time() -> String {
    let now = now().to_string();
    paint(now.get(11..23).unwrap_or(&now), Tone::Dim)
}

/// How long ago, in one unit: `now`, `40s`, `12m`, `5h`, `3d`.
pub fn age(at: IsoTime, now: IsoTime) -> String {
    span((now.0 - at.0).max(0))
}

/// How long something took, in one unit: `5ms`, `40s`, `12m`.
pub fn lasted(from: IsoTime, to: IsoTime) -> String {
    match (to.0 - from.0).max(0) {
        ms @ ..1000 => format!("{ms}ms"),
        ms => span(ms),
    }
}

/// A distance in time to either side: `12m ago`, `in 40s`.
pub fn relative(at: IsoTime, now: IsoTime) -> String {
    let distance = at.0 - now.0;
    match distance.abs() {
        0..1000 => "now".to_owned(),
        _ if distance < 0 => format!("{} ago", span(-distance)),
        _ => format!("in {}", span(distance)),
    }
}

/// An instant with its distance from now.
pub fn instant(at: IsoTime, now: IsoTime) -> Cell {
    cell(format!("{at} ({})", relative(at, now)))
}

fn span(ms: i64) -> String {
    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    match ms {
        ..1000 => "now".to_owned(),
        1000..MINUTE => format!("{}s", ms / 1000),
        MINUTE..HOUR => format!("{}m", ms / MINUTE),
        HOUR..DAY => format!("{}h", ms / HOUR),
        DAY.. => format!("{}d", ms / DAY),
    }
}

/// What is there, or a dash.
pub fn maybe<T: std::fmt::Display>(value: Option<T>) -> Cell {
    match value {
        Some(value) => cell(value),
        None => toned("-", Tone::Dim),
    }
}

/// A list for one line; nothing if it is empty.
pub fn listed(items: &[String]) -> Option<Cell> {
    (!items.is_empty()).then(|| cell(items.join(", ")))
}

/// A size for a person.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        let now = IsoTime(1_000_000_000);
        for (ms, text) in [
            (0, "now"),
            (999, "now"),
            (1000, "1s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (3_599_999, "59m"),
            (3_600_000, "1h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(age(IsoTime(now.0 - ms), now), text);
        }
        assert_eq!(age(IsoTime(now.0 + 5000), now), "now");
        assert_eq!(relative(IsoTime(now.0 - 5000), now), "5s ago");
        assert_eq!(relative(IsoTime(now.0 + 5000), now), "in 5s");
        assert_eq!(relative(now, now), "now");
        assert_eq!(lasted(now, IsoTime(now.0 + 5)), "5ms");
        assert_eq!(lasted(now, IsoTime(now.0 + 61_000)), "1m");
    }

    #[test]
    fn sizes_have_a_fitting_unit() {
        for (count, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1 << 20, "1.0 MiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
