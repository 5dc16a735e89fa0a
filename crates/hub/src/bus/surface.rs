//! The bus in the table of doors.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use serde_json::json;

use super::interfaces::{Surroundings, choose};
use super::server::{Bus, BusState};
use crate::call::Calls;
use crate::config::{CATALOG, Config, DEV_SETTINGS, OWN_SETTINGS};
use crate::memory::Memory;
use crate::metrics::{counter, gauge};
use crate::serve::ServeError;
use crate::surface::{Open, Opener, Surface};

pub(crate) const SURFACE: Surface = Surface {
    settings: &[DEV_SETTINGS, OWN_SETTINGS],
    resolve: |config| config.bus.resolve(&config.project, &config.data_dir),
    doubts: |config| config.bus.doubts(),
    check: |config| match config.bus.enabled {
        true => choose(&config.bus, &Surroundings::look()).map(drop),
        false => Ok(()),
    },
    leaves,
    ..Surface::new("bus", |config, _| {
        let opener: Opener = Box::new(|app, config| open(&app.calls, config).boxed());
        Ok(config.bus.enabled.then_some(opener))
    })
};

async fn open(calls: &Arc<Calls>, config: &Config) -> Result<Open, ServeError> {
    let bus = Bus::open(calls, config).await?;
    let (addr, shared) = (bus.addrs[0], Arc::clone(&bus.shared));
    let is_tls = shared.authority.is_some();
    Ok(Open {
        addr: Some(addr),
        card: vec![("bus", json!(addr)), ("busTls", json!(is_tls))],
        line: Some(format!("the bus is at {addr}")),
        figures: Some(Arc::new(move |out| figures(&shared, out))),
        close: Box::new(|| bus.close().boxed()),
    })
}

/// Engrams from before they were kept in the data directory; those that a setting names are meant to be committed.
fn leaves(config: &Config) -> Vec<PathBuf> {
    let before = config.bus.memory.before(&config.project);
    let old = before.filter(|dir| dir.join(CATALOG).is_file());
    old.into_iter().collect()
}

#[rustfmt::skip]
fn figures(bus: &BusState, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let memory = bus.memory.as_ref().map(Memory::stats).unwrap_or_default();
    gauge(out, "bus_connections", "Open connections of the bus", bus.connections.load(Ordering::Relaxed) as u64)?;
    gauge(out, "bus_workers", "Workers connected to this hub", bus.registry.workers() as u64)?;
    gauge(out, "bus_operators", "Operators connected to this hub", bus.registry.operators() as u64)?;
    counter(out, "bus_frames", "Lines received over the bus", bus.tally.frames.load(Ordering::Relaxed))?;
    counter(out, "bus_slow", "Connections dropped because they read too slowly", bus.tally.slow.load(Ordering::Relaxed))?;
    counter(out, "memory_skipped", "Events skipped by the memory because it fell behind", memory.skipped)?;
    gauge(out, "engrams", "Engrams in the catalog", memory.engrams as u64)?;
    let about = "Faults in received lines, by kind";
    let mut encoder = out.encode_descriptor("bus_flags", about, None, MetricType::Counter)?;
    for (flag, count) in bus.tally.flags.lock().iter() {
        ConstCounter::new(*count).encode(encoder.encode_family(&[("flag", flag.as_str())])?)?;
    }
    Ok(())
}
