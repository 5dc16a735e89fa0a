//! The hub itself: does it run, does it answer, is it the same version, does its clock agree.

use switchboard_client::Client;
use switchboard_client::jetpack::StatusResponse;
use switchboard_wire::IsoTime;

use super::{Check, Scene, tasks};
use crate::context::Context;
use crate::discover::Found;
use crate::failure::Failure;
use crate::show::now;

/// From here on a clock is off; signatures are refused from five minutes on.
const SKEW_WARN_MS: i64 = 5_000;
const SKEW_FAIL_MS: i64 = 5 * 60_000;
/// A hub's clock that differs by more from its ledger's was set.
const STEP_WARN_MS: i64 = 2_000;

pub async fn checks(context: &Context, scene: &Scene) -> Vec<Check> {
    let (url, found) = match &context.options.url {
        Some(url) => (url.clone(), None),
        None => match &scene.found {
            Found::Running { data_dir, hub } => (hub.url(), Some((&**data_dir, hub))),
            found @ Found::Unreadable { .. } => {
                return vec![Check::fail("hub", context.no_hub(found))];
            }
            found => return vec![Check::warn("hub", context.no_hub(found))],
        },
    };
    match context.client_for(&url, found) {
        Ok(client) => ask(&client).await,
        Err(failure) => vec![Check::fail("hub", failure.to_string())],
    }
}

async fn ask(client: &Client) -> Vec<Check> {
    let address = client.address();
    if let Err(error) = client.admin().healthy().await {
        return vec![Check::fail("hub", Failure::from(error).to_string())];
    }
    let mut checks = vec![Check::ok("hub", format!("{address} answers"))];
    checks.push(match client.admin().ready().await {
        Ok(()) => Check::ok("store", "the ledger answers"),
        Err(error) => Check::fail(
            "store",
            format!("the ledger does not answer: {}", Failure::from(error)),
        ),
    });
    let before = now();
    match client.admin().status().await {
        Ok(status) => {
            checks.push(version(&status));
            let wall = IsoTime(status.now.0.saturating_add(status.clock_ahead_ms));
            checks.push(clock(wall, before, now()));
            checks.extend(ledger_time(status.clock_ahead_ms));
            checks.push(pause(&status));
            checks.push(incidents(&status));
            let warnings = status.warnings.into_iter();
            checks.extend(warnings.map(|text| Check::warn("store", text)));
        }
        Err(error) => checks.push(Check::fail("status", Failure::from(error).to_string())),
    }
    checks.push(tasks::check(client).await);
    checks
}

fn version(status: &StatusResponse) -> Check {
    let own = env!("CARGO_PKG_VERSION");
    if status.version == own {
        Check::ok("version", own)
    } else {
        let text = format!(
            "the hub is {}, this program is {own}; restart the hub with the same version",
            status.version
        );
        Check::warn("version", text)
    }
}

/// Whether agents get new work.
fn pause(status: &StatusResponse) -> Check {
    match &status.paused {
        None => Check::ok("work", "is handed out"),
        Some(paused) => {
            let words = crate::command::pause::words(paused);
            Check::warn("work", format!("{words}; 'switchboard resume' ends it"))
        }
    }
}

/// What a person should look after.
fn incidents(status: &StatusResponse) -> Check {
    match status.incidents {
        0 => Check::ok("incidents", "none is open"),
        open => Check::warn(
            "incidents",
            format!(
                "{open} open; see 'switchboard incident list', then 'switchboard incident resolve'"
            ),
        ),
    }
}

/// Compares the hub's clock with ours, which was read before and after asking.
fn clock(hub: IsoTime, before: IsoTime, after: IsoTime) -> Check {
    let off = if hub.0 < before.0 {
        hub.0 - before.0
    } else {
        (hub.0 - after.0).max(0)
    };
    let seconds = off as f64 / 1000.0;
    match off.abs() {
        ..SKEW_WARN_MS => Check::ok("clock", "agrees with the hub's"),
        SKEW_WARN_MS..SKEW_FAIL_MS => Check::warn(
            "clock",
            format!("the hub's clock is {seconds:+.1} s off; synchronize both clocks with NTP"),
        ),
        SKEW_FAIL_MS.. => Check::fail(
            "clock",
            format!(
                "the hub's clock is {seconds:+.0} s off, so signatures are refused; synchronize both clocks with NTP"
            ),
        ),
    }
}

/// A clock that was set: the ledger's time does not follow at once.
fn ledger_time(ahead_ms: i64) -> Option<Check> {
    if ahead_ms.abs() <= STEP_WARN_MS {
        return None;
    }
    let direction = if ahead_ms > 0 { "forward" } else { "back" };
    let seconds = ahead_ms.abs() as f64 / 1000.0;
    Some(Check::warn(
        "ledger time",
        format!(
            "the hub's clock was set {direction}: it differs from the ledger's time by {seconds:.1} s, and the ledger's time follows by 1 s \
             every 10 s; correct the clock, or restart the hub with --clock-is-right if it is right now"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_with_its_direction() {
        for (ahead, said) in [
            (2_000, None),
            (-2_000, None),
            (2_001, Some("forward")),
            (-2_001, Some("back")),
        ] {
            let check = ledger_time(ahead);
            let found = check.as_ref().map(|check| &*check.text);
            assert_eq!(found.is_some(), said.is_some(), "{ahead}");
            assert!(found.is_none_or(|text| text.contains(said.unwrap_or_default())));
        }
    }

    #[test]
    fn a_clock_may_be_off_a_little_and_not_much() {
        let (before, after) = (IsoTime(1_000_000), IsoTime(1_000_100));
        for (hub, state) in [
            (1_000_050, State::Ok),
            (1_000_100 + SKEW_WARN_MS - 1, State::Ok),
            (1_000_100 + SKEW_WARN_MS, State::Warn),
            (1_000_000 - SKEW_WARN_MS, State::Warn),
            (1_000_100 + SKEW_FAIL_MS - 1, State::Warn),
            (1_000_100 + SKEW_FAIL_MS, State::Fail),
            (1_000_000 - SKEW_FAIL_MS, State::Fail),
        ] {
            assert_eq!(clock(IsoTime(hub), before, after).state, state, "{hub}");
        }
    }
}
