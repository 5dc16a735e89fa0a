//! Jobs whose agents are real programs in real workspaces.

mod files;
mod queue;
mod runs;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use switchboard_core::JobId;
use switchboard_core::job::{Job, JobLimits, JobPhase, JobRole, JobSpec, JobState, RunBy};
use switchboard_core::job_history::Interaction;
use switchboard_core::query::Readable;
use switchboard_core::verb::job::{CreateJob, DecideJob, Decision, JobActor};
use switchboard_hub::config::{Agent, Config};
use switchboard_store::Error as StoreError;

use crate::harness::{SOON, TestHub, start_as};

/// What an agent prints when all is well.
pub const DONE: &str = r#"{"action":"COMPLETED","evidence_files":["made.txt"],"summary_for_supervisor":"It is done."}"#;

pub struct Kit {
    pub hub: TestHub,
}

fn agent(script: &Path) -> Agent {
    Agent {
        command: Some(format!("sh {}", script.display())),
        ..Agent::default()
    }
}

/// A hub whose worker and supervisor are these scripts; `$KIT` in them is its project.
pub async fn kit(worker: &str, supervisor: &str, change: impl FnOnce(&mut Config)) -> Kit {
    let (worker, supervisor) = (worker.to_owned(), supervisor.to_owned());
    let hub = start_as(move |config| {
        for (role, script) in [("worker", worker), ("supervisor", supervisor)] {
            let file = config.project.join(format!("{role}.sh"));
            let home = config.project.display().to_string();
            fs::write(&file, script.replace("$KIT", &home)).unwrap();
            config.logist.agents.insert(role.to_owned(), agent(&file));
        }
        change(config);
    });
    Kit { hub: hub.await }
}

pub fn says(response: &str) -> String {
    format!("cat > /dev/null\necho made > made.txt\ncat <<'END'\n{response}\nEND\n")
}

pub fn spec(id: &str) -> JobSpec {
    JobSpec {
        id: id.into(),
        description: "about it".to_owned(),
        objective: String::new(),
        roles: Vec::new(),
        phases: vec![JobPhase {
            name: "build".to_owned(),
            description: "build it".to_owned(),
            worker_instructions: String::new(),
        }],
        success_criteria: Vec::new(),
        max_retries: 2,
        reset_on_retry: false,
        run_by: RunBy::Agents,
        needs_approval: false,
        is_sensitive: false,
        repository: None,
        other: None,
    }
}

impl Kit {
    pub fn directory(&self, id: &str) -> PathBuf {
        let home = self.hub.home.path().canonicalize().unwrap();
        home.join(".switchboard/jobs").join(id)
    }

    pub async fn run(&self, spec: JobSpec) {
        self.run_within(spec, JobLimits::default()).await;
    }

    pub async fn run_within(&self, spec: JobSpec, limits: JobLimits) {
        let hub = &self.hub.running.hub;
        let job = spec.id.clone();
        let create = CreateJob {
            directory: self.directory(job.as_str()).display().to_string(),
            spec,
            limits,
            corr_id: "corr".into(),
        };
        hub.run(create).await.unwrap();
        self.decide(job.as_str(), Decision::Activate { rank: None })
            .await;
    }

    pub async fn decide(&self, id: &str, decision: Decision) -> Job {
        let decide = DecideJob {
            job: id.into(),
            actor: JobActor {
                role: JobRole::Steward,
                by: "test".to_owned(),
                why: None,
            },
            decision,
        };
        self.hub.running.hub.run(decide).await.unwrap()
    }

    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn Readable<Error = StoreError>) -> Result<T, StoreError> + Send + 'static,
    ) -> T {
        self.hub.running.hub.read(query).await.unwrap()
    }

    pub async fn job(&self, id: &str) -> Job {
        let id = id.to_owned();
        self.read(move |ledger| ledger.private::<Job>(id))
            .await
            .unwrap()
    }

    pub async fn interactions(&self, id: &str) -> Vec<Interaction> {
        let range = Interaction::of_job(&JobId::from(id), 100);
        self.read(move |ledger| ledger.privates(&range)).await
    }

    /// Until it is in that state.
    pub async fn is(&self, id: &str, state: JobState) -> Job {
        self.until(id, |job| job.state == state).await
    }

    pub async fn until(&self, id: &str, is_so: impl Fn(&Job) -> bool) -> Job {
        let began = std::time::Instant::now();
        loop {
            let job = self.job(id).await;
            if is_so(&job) {
                return job;
            }
            let interactions = self.interactions(id).await;
            assert!(began.elapsed() < 2 * SOON, "{job:?}\n{interactions:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A file of the job, once it shows what is asked for.
    pub async fn file(&self, id: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let path = self.directory(id).join(name);
        let began = std::time::Instant::now();
        loop {
            let text = fs::read(&path).unwrap_or_default();
            let value: Value = serde_json::from_slice(&text).unwrap_or_default();
            if is_so(&value) {
                return value;
            }
            assert!(began.elapsed() < SOON, "{}: {value:#}", path.display());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
