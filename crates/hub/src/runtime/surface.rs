//! The exchange with other nodes in the table of doors.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::work::{self, Work};
use crate::config::{Config, RUNTIME_SETTINGS};
use crate::data_dir::DataDir;
use crate::duty::Duty;
use crate::serve::{GRACE, ServeError};
use crate::surface::{Open, Opener, Surface};

pub(crate) const SURFACE: Surface = Surface {
    settings: &[RUNTIME_SETTINGS],
    ..Surface::new("runtime", bind)
};

fn bind(_: &Config, _: &DataDir) -> Result<Option<Opener>, ServeError> {
    Ok(Some(Box::new(move |app, _| {
        let serving = tokio::spawn(work::run(Arc::new(Work {
            duty: Duty::new(&app.hub, "runtime"),
            stopping: app.stopping.clone(),
            app: Arc::clone(app),
        })));
        let open = Open {
            addr: None,
            card: Vec::new(),
            line: None,
            figures: None,
            close: Box::new(|| tokio::time::timeout(GRACE, serving).map(drop).boxed()),
        };
        std::future::ready(Ok(open)).boxed()
    })))
}
