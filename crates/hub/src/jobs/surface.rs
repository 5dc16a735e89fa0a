//! Jobs in the table of doors.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::time::timeout;

use super::pack::Packer;
use super::{Jobs, files, queue, runner};
use crate::config::{Config, LOGIST_SETTINGS};
use crate::http::App;
use crate::metrics::gauge;
use crate::serve::GRACE;
use crate::surface::{Open, Opener, Surface};

pub(crate) const SURFACE: Surface = Surface {
    settings: &[LOGIST_SETTINGS],
    resolve: |config| config.logist.resolve(&config.project, &config.data_dir),
    doubts: |config| {
        let wrong = Packer::new(&config.logist.key).err();
        wrong.iter().map(ToString::to_string).collect()
    },
    ..Surface::new("logist", |_, _| {
        let opener: Opener = Box::new(|app, _: &Config| std::future::ready(Ok(open(app))).boxed());
        Ok(Some(opener))
    })
};

fn open(app: &Arc<App>) -> Open {
    let jobs = Arc::clone(&app.jobs);
    let kept = tokio::spawn(Arc::clone(&jobs.duty).keep(jobs.stopping.clone()));
    let written = tokio::spawn(files::follow(Arc::clone(&jobs)));
    let run = tokio::spawn(runner::run(Arc::clone(&jobs)));
    let queued = tokio::spawn(queue::run(Arc::clone(&jobs)));
    Open {
        addr: None,
        card: Vec::new(),
        line: None,
        figures: Some(Arc::new(move |out| figures(&jobs, out))),
        close: Box::new(|| {
            let all = async { drop(tokio::join!(run, queued, written, kept)) };
            // What is cut off is ended and recovered at the next start.
            timeout(GRACE, all).map(drop).boxed()
        }),
    }
}

fn figures(jobs: &Jobs, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let running = jobs.runs.lock().len();
    gauge(
        out,
        "job_runs",
        "Agents of jobs that run here now",
        running as u64,
    )
}
