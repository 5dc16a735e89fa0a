//! From the rename that makes a trigger file appear to its frame at a client.

use std::time::Instant;

use anyhow::Context as _;

use super::socket::Socket;
use crate::doors::pause;
use crate::ground::Ground;
use crate::histogram::Histogram;
use crate::report::{BrokerReport, WaitRow};

pub fn measure(ground: &Ground<'_>, report: &mut BrokerReport) -> anyhow::Result<()> {
    crate::progress(format_args!("broker: trigger files"));
    let place = ground.new_hub()?;
    let broker = place.hub.broker.context("the hub has no broker")?;
    let dir = place.squidrun().join("triggers");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut took = Histogram::default();
    runtime.block_on(async {
        let mut builder = Socket::register(broker, "builder").await?;
        for round in 0..ground.settings.wakeups {
            pause(round);
            let id = format!("by-file-{round}");
            let (half, whole) = (dir.join(".half"), dir.join(format!("builder~{id}.txt")));
            std::fs::write(
                &half,
                format!("[HM-MESSAGE-ID:{id}]\n(ARCH #{round}): a file\n"),
            )?;
            let put_at = Instant::now();
            std::fs::rename(&half, whole)?;
            builder.hear(&format!(r#""traceId":"{id}""#)).await?;
            took.record(put_at.elapsed());
        }
        anyhow::Ok(())
    })?;
    report.triggers = vec![WaitRow::new("trigger file to frame", &took)];
    Ok(())
}
