//! Telegram in the table of doors.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use prometheus_client::encoding::DescriptorEncoder;

use super::bot::Bot;
use super::work::{self, Tally, Work};
use crate::config::{Config, TELEGRAM_SETTINGS};
use crate::data_dir::DataDir;
use crate::duty::Duty;
use crate::metrics::counter;
use crate::serve::{GRACE, ServeError};
use crate::surface::{Open, Opener, Surface};

pub(crate) const SURFACE: Surface = Surface {
    settings: &[TELEGRAM_SETTINGS],
    doubts: |config| config.telegram.account().err().into_iter().collect(),
    ..Surface::new("telegram", bind)
};

fn bind(config: &Config, _: &DataDir) -> Result<Option<Opener>, ServeError> {
    let Ok(Some((token, chat))) = config.telegram.account() else {
        return Ok(None);
    };
    let bot = match Bot::new(&config.telegram.base_url, token, chat) {
        Ok(bot) => bot,
        Err(why) => {
            tracing::warn!("Telegram is off: {why}");
            return Ok(None);
        }
    };
    Ok(Some(Box::new(move |app, _| {
        let broker = Arc::clone(&app.broker);
        let tally = Arc::new(Tally::default());
        let serving = tokio::spawn(work::run(Work {
            bot,
            duty: Duty::new(&broker.hub, "telegram"),
            stream: broker.hub.stream_name(&broker.ids.fresh("str")),
            stopping: broker.stopping.clone(),
            tally: Arc::clone(&tally),
            broker,
        }));
        let open = Open {
            addr: None,
            card: Vec::new(),
            line: Some(format!("Telegram's chat {chat} speaks to the architect")),
            figures: Some(Arc::new(move |out| figures(&tally, out))),
            close: Box::new(|| tokio::time::timeout(GRACE, serving).map(drop).boxed()),
        };
        std::future::ready(Ok(open)).boxed()
    })))
}

#[rustfmt::skip]
fn figures(tally: &Tally, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    counter(out, "telegram_received", "Messages of the person that came by Telegram", tally.received.load(Ordering::Relaxed))?;
    counter(out, "telegram_sent", "Messages that Telegram took", tally.sent.load(Ordering::Relaxed))?;
    counter(out, "telegram_failed", "Messages that could not be sent to Telegram", tally.failed.load(Ordering::Relaxed))
}
