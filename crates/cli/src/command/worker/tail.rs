//! `switchboard worker --tail` without a program: what the programs of workers say that run already.

use std::time::Duration;

use switchboard_client::worker::Logs;
use tokio::time::{MissedTickBehavior, interval};

use super::{reach, show};
use crate::context::Context;
use crate::failure::Failure;
use crate::screen::{Tone, paint};
use crate::terminal::stopped;

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Until it is told to end: workers come and go.
pub async fn run(context: &mut Context) -> Result<(), Failure> {
    let state_dir = match context.options.url {
        // A worker goes on while its hub is away, and so does this.
        None => context.data_dir(),
        Some(_) => reach(context)?.1,
    };
    let screen = &mut context.screen;
    let mut logs = Logs::of(&state_dir);
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked = std::pin::pin!(stopped());
    let mut is_first = true;
    loop {
        tokio::select! {
            biased;
            () = &mut asked => return Ok(()),
            _ = looks.tick() => {}
        }
        let said = logs.look();
        let said = said.map_err(|error| {
            let dir = state_dir.display();
            Failure::Failed(format!("the logs in {dir} cannot be read: {error}"))
        })?;
        if std::mem::take(&mut is_first) && logs.is_idle() && !screen.json() {
            let text = "no worker is at work here; waiting for the next task";
            screen.line(paint(text, Tone::Dim))?;
            screen.flush()?;
        }
        for notice in said {
            show(&notice, true, screen)?;
        }
    }
}
