//! Figures for Prometheus. Counting a request is one addition; everything else is looked up when somebody asks.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use axum::http::StatusCode;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use switchboard_core::job::JobGroup;
use switchboard_core::query::AgentCounts;
use switchboard_core::{Head, TaskStatus};

use crate::hub::Stats;
use crate::surface::Figures;

/// Counters of one route, by class of status.
#[derive(Clone, Debug)]
pub struct Tally(Arc<[AtomicU64; CLASSES.len()]>);

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

#[derive(Default)]
pub struct Metrics {
    routes: Mutex<Vec<(&'static str, Tally)>>,
    /// Of the doors, once they are open.
    pub doors: OnceLock<Vec<Figures>>,
}

impl Tally {
    pub fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        self.0[class].fetch_add(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// The counters of a route, made when the table of routes is.
    pub fn tally(&self, operation: &'static str) -> Tally {
        let tally = Tally(Arc::default());
        self.routes.lock().push((operation, tally.clone()));
        tally
    }

    /// All figures as text; those of the ledger only if it could be read.
    pub fn print(&self, ledger: Option<Ledger>, stats: Stats, unknown_body_bytes: usize) -> String {
        let mut registry = Registry::with_prefix("switchboard");
        registry.register_collector(Box::new(Collected {
            routes: self.routes.lock().clone(),
            doors: self.doors.get().cloned().unwrap_or_default(),
            ledger,
            stats,
            unknown_body_bytes: unknown_body_bytes as u64,
        }));
        let mut text = String::with_capacity(8 * 1024);
        encode(&mut text, &registry).expect("a String takes any text");
        text
    }
}

/// What the ledger knows.
pub struct Ledger {
    pub head: Head,
    pub agents: AgentCounts,
    /// Jobs by group.
    pub jobs: Vec<(String, u64)>,
}

/// One look at everything.
struct Collected {
    routes: Vec<(&'static str, Tally)>,
    doors: Vec<Figures>,
    ledger: Option<Ledger>,
    stats: Stats,
    unknown_body_bytes: u64,
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collected")
    }
}

impl Collector for Collected {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        self.requests(&mut out)?;
        for door in &self.doors {
            door(&mut out)?;
        }
        self.process(&mut out)?;
        match &self.ledger {
            Some(figures) => ledger(&mut out, figures),
            None => Ok(()),
        }
    }
}

impl Collected {
    #[rustfmt::skip]
    fn process(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats = &self.stats;
        gauge(out, "unknown_body_bytes", "Memory for bodies of unauthenticated callers", self.unknown_body_bytes)?;
        counter(out, "verbs", "Verbs that were decided", stats.verbs)?;
        counter(out, "batches", "Batches of the writer", stats.batches)?;
        counter(out, "batch_failures", "Batches that were not written, or whose outcome is unknown", stats.failures)?;
        counter(out, "commits", "Commits of the ledger", stats.commits)?;
        counter(out, "commit_seconds", "Time spent in commits", stats.commit_micros as f64 / 1e6)?;
        gauge(out, "ledger_writes", "Whether the last batch with something to write was written", u64::from(stats.writes))?;
        gauge(out, "queue_waiting", "Verbs that wait for the writer", stats.waiting as u64)?;
        gauge(out, "queue_capacity", "Capacity of the writer's queue", stats.capacity as u64)
    }

    fn requests(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let about = "Requests by operation and class of status";
        let mut encoder = out.encode_descriptor("requests", about, None, MetricType::Counter)?;
        for (operation, tally) in &self.routes {
            for (class, count) in CLASSES.iter().zip(tally.0.iter()) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = [("operation", *operation), ("status", *class)];
                    ConstCounter::new(count).encode(encoder.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

#[rustfmt::skip]
fn ledger(out: &mut DescriptorEncoder<'_>, figures: &Ledger) -> fmt::Result {
    let Ledger { head, agents, jobs } = figures;
    counter(out, "events", "Events in the log since it began", head.seq)?;
    gauge(out, "leases", "Live leases", head.leases)?;
    gauge(out, "messages_queued", "Queued deliveries of messages", head.queued_deliveries)?;
    gauge(out, "idempotency_rows", "Stored idempotency keys", head.idempotency_rows)?;
    gauge(out, "idempotency_bytes", "Size of the responses stored for idempotency keys", head.idempotency_bytes)?;
    let by_status = TaskStatus::ALL.iter().map(|status| (status.as_str(), head.count(*status)));
    family(out, "tasks", "Tasks by status", by_status)?;
    family(out, "agents", "Agents by status", [
        ("idle", agents.idle),
        ("busy", agents.busy),
        ("error", agents.error),
        ("offline", agents.offline),
        ("shutting_down", agents.shutting_down),
    ])?;
    let in_group = |group: &JobGroup| jobs.iter().find(|(name, _)| name == group.as_str()).map_or(0, |found| found.1);
    let by_group = JobGroup::ALL.iter().map(|group| (group.as_str(), in_group(group)));
    family(out, "jobs", "Jobs by what they wait for", by_group)
}

pub fn counter<N: EncodeCounterValue>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    about: &str,
    value: N,
) -> fmt::Result {
    ConstCounter::new(value).encode(out.encode_descriptor(
        name,
        about,
        None,
        MetricType::Counter,
    )?)
}

pub fn gauge(out: &mut DescriptorEncoder<'_>, name: &str, about: &str, value: u64) -> fmt::Result {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    ConstGauge::new(value).encode(out.encode_descriptor(name, about, None, MetricType::Gauge)?)
}

fn family<'a>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    about: &str,
    by_status: impl IntoIterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut encoder = out.encode_descriptor(name, about, None, MetricType::Gauge)?;
    for (status, count) in by_status {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        ConstGauge::new(count).encode(encoder.encode_family(&[("status", status)])?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_and_labelled() {
        let metrics = Metrics::default();
        let tally = metrics.tally("claim");
        for status in [StatusCode::OK, StatusCode::OK, StatusCode::CONFLICT] {
            tally.count(status);
        }
        let stats = Stats {
            verbs: 7,
            commit_micros: 1_500_000,
            ..Stats::default()
        };
        let agents = AgentCounts {
            idle: 3,
            ..AgentCounts::default()
        };
        let ledger = Ledger {
            head: Head::default(),
            agents,
            jobs: vec![("steward".to_owned(), 2)],
        };
        let text = metrics.print(Some(ledger), stats, 0);
        for line in [
            "switchboard_requests_total{operation=\"claim\",status=\"2xx\"} 2",
            "switchboard_requests_total{operation=\"claim\",status=\"4xx\"} 1",
            "switchboard_verbs_total 7",
            "switchboard_ledger_writes 0",
            "switchboard_commit_seconds_total 1.5",
            "switchboard_tasks{status=\"needs_review\"} 0",
            "switchboard_agents{status=\"idle\"} 3",
            "switchboard_jobs{status=\"steward\"} 2",
            "switchboard_jobs{status=\"ready\"} 0",
            "# EOF",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing in\n{text}"
            );
        }
    }
    #[test]
    fn without_the_ledger_the_process_still_has_figures() {
        let text = Metrics::default().print(None, Stats::default(), 0);
        assert!(
            text.contains("switchboard_batch_failures_total 0"),
            "{text}"
        );
        assert!(!text.contains("switchboard_tasks"), "{text}");
    }
}
