//! The whole hub in this process, by way of its socket and of its files.
//!
//! Steps go out as real requests. The status of every answer is held against the table of routes and the codes of
//! errors; a file has none.

use switchboard_store::conformance::START;
use tokio::runtime::Runtime;

use super::act::Deed;
use super::engine::Kind;
use super::http::Transport;
use super::scene::Scene;
use super::stage::{Stage, can_pass};
use super::{Answer, Driver};

pub struct Socket {
    runtime: Runtime,
    transport: Transport,
    kind: Kind,
    stage: Option<Stage>,
}

impl Socket {
    pub fn new(transport: Transport) -> Self {
        Socket::on(Kind::Sqlite, transport)
    }

    pub fn on(kind: Kind, transport: Transport) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        Socket {
            runtime,
            transport,
            kind,
            stage: None,
        }
    }
}

impl Driver for Socket {
    fn name(&self) -> String {
        let way = match self.transport {
            Transport::Paths => "HTTP, each operation on its path",
            Transport::Envelopes => "HTTP, operations in envelopes",
            Transport::Files => "operations in files",
        };
        format!("{way}, over {}", self.kind.name())
    }

    fn can_run(&self, scene: &Scene) -> bool {
        can_pass(scene)
    }

    fn begin(&mut self, scene: &Scene) {
        self.stage = Some(Stage::open(&self.runtime, &self.kind, scene, START));
    }

    fn perform(&mut self, deed: &Deed) -> Answer {
        let stage = self.stage.as_mut().expect("a scene has begun");
        let body = self.runtime.block_on(async {
            let Deed::Call(call) = deed else {
                return stage.pass(deed).await;
            };
            stage.before().await;
            let body = stage.call(call, self.transport).await;
            stage.after();
            body
        });
        Answer { body }
    }

    fn end(&mut self) {
        if let Some(stage) = self.stage.take() {
            self.runtime.block_on(stage.hub.stop());
        }
    }
}
