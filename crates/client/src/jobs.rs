//! Jobs: made, looked at, and decided on by a person; and whether a response would be taken.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::json;
use switchboard_wire::Query;
use switchboard_wire::jetpack::Done;
use switchboard_wire::logist::http::{
    ActivateJobRequest, ChangeJobRequest, CorrectJobRequest, CreateJobRequest, JobChangedResponse,
    JobHistoryPage, JobHistoryQuery, JobPage, JobQuery, JobResponse, JobVersionQuery,
    RejectJobRequest, RerunJobRequest, ResubmitJobRequest, ResumeJobRequest, SteerJobRequest,
    StewardQuery, StewardResponse,
};
use switchboard_wire::logist::{Terms, Workspace, validate};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Calls about jobs.
#[derive(Debug, Clone, Copy)]
pub struct Jobs<'a> {
    client: &'a Client,
}

impl Client {
    /// What waits for a person, the longest first.
    pub async fn for_steward(&self, query: &StewardQuery) -> Result<StewardResponse, Error> {
        let call = Call::get(&["steward"]).query(query.to_query());
        self.transport.send(call).await
    }

    /// Calls about jobs.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs { client: self }
    }
}

/// Whether a hub would take a response; if it is strict, all of its evidence must exist in the workspace.
pub fn is_valid_response(response: &str, workspace: Option<&Path>, is_strict: bool) -> bool {
    check_response(response, workspace, is_strict).is_ok()
}

/// The same, with all that is wrong.
pub fn check_response(
    response: &str,
    workspace: Option<&Path>,
    is_strict: bool,
) -> Result<(), Vec<String>> {
    let leads = |path: &Path| fs::canonicalize(path).ok();
    let root = workspace.map(|root| {
        leads(root).ok_or_else(|| vec![format!("there is no directory {}", root.display())])
    });
    let root = root.transpose()?;
    let workspace = root.as_deref().map(|root| Workspace {
        root,
        leads: &leads,
    });
    let terms = Terms {
        workspace: workspace.as_ref(),
        ..Terms::default()
    };
    validate(response, &terms, is_strict)
}

impl Jobs<'_> {
    pub async fn create(self, request: &CreateJobRequest) -> Result<JobChangedResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["jobs"], request)?)
            .await
    }

    /// One page of them.
    pub async fn list(self, query: &JobQuery) -> Result<JobPage, Error> {
        let call = Call::get(&["jobs"]).query(query.to_query());
        self.client.transport.send(call).await
    }

    pub async fn get(self, id: &str, query: &JobVersionQuery) -> Result<JobResponse, Error> {
        let call = Call::get(&["jobs", id]).query(query.to_query());
        self.client.transport.send(call).await
    }

    pub async fn change(
        self,
        id: &str,
        request: &ChangeJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.client
            .transport
            .send(Call::patch(&["jobs", id], request)?)
            .await
    }

    /// Commands that name no job mean this one.
    pub async fn select(self, id: &str) -> Result<Done, Error> {
        self.client
            .transport
            .send(Call::post(&["jobs", id, "select"], &json!({}))?)
            .await
    }

    /// One page of its exchanges with agents.
    pub async fn history(self, id: &str, query: &JobHistoryQuery) -> Result<JobHistoryPage, Error> {
        let call = Call::get(&["jobs", id, "history"]).query(query.to_query());
        self.client.transport.send(call).await
    }

    pub async fn activate(
        self,
        id: &str,
        request: &ActivateJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "activate", request).await
    }

    pub async fn approve(
        self,
        id: &str,
        request: &SteerJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "approve", request).await
    }

    pub async fn reject(
        self,
        id: &str,
        request: &RejectJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "reject", request).await
    }

    pub async fn resubmit(
        self,
        id: &str,
        request: &ResubmitJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "resubmit", request).await
    }

    pub async fn correct(
        self,
        id: &str,
        request: &CorrectJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "correct", request).await
    }

    pub async fn cancel(
        self,
        id: &str,
        request: &SteerJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "cancel", request).await
    }

    pub async fn suspend(
        self,
        id: &str,
        request: &SteerJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "suspend", request).await
    }

    pub async fn resume(
        self,
        id: &str,
        request: &ResumeJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "resume", request).await
    }

    /// Back to the last recovery point.
    pub async fn restep(
        self,
        id: &str,
        request: &SteerJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "restep", request).await
    }

    pub async fn rerun(
        self,
        id: &str,
        request: &RerunJobRequest,
    ) -> Result<JobChangedResponse, Error> {
        self.step(id, "rerun", request).await
    }

    async fn step<T: Serialize>(
        self,
        id: &str,
        step: &str,
        request: &T,
    ) -> Result<JobChangedResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["jobs", id, step], request)?)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &str =
        r#"{"action":"COMPLETED","evidence_files":["a.txt"],"summary_for_supervisor":"Done."}"#;

    #[test]
    fn a_response_is_valid_or_not_and_evidence_is_looked_for() {
        // logist.testing.validator, logist.testing.validator_files
        let workspace = tempfile::tempdir().unwrap();
        let root = Some(workspace.path());
        assert!(is_valid_response(RESPONSE, None, true));
        assert!(is_valid_response(RESPONSE, root, false));
        assert!(!is_valid_response(RESPONSE, root, true));
        fs::write(workspace.path().join("a.txt"), "x").unwrap();
        assert!(is_valid_response(RESPONSE, root, true));
        assert!(!is_valid_response("{", root, false));
        let gone = workspace.path().join("gone");
        assert!(!is_valid_response(RESPONSE, Some(&gone), false));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_of_the_workspace_is_no_evidence() {
        let workspace = tempfile::tempdir().unwrap();
        let link = workspace.path().join("a.txt");
        std::os::unix::fs::symlink("/etc/passwd", link).unwrap();
        let why = check_response(RESPONSE, Some(workspace.path()), false).unwrap_err();
        assert!(why[0].contains("leads out of the workspace"), "{why:?}");
    }
}
