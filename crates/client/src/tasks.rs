//! Tasks: claiming, reporting, and steering by a person.

use switchboard_wire::Query;
use switchboard_wire::jetpack::{
    ClaimRequest, ClaimResponse, CompleteRequest, CompleteResponse, CreateTasksRequest,
    FailRequest, FailResponse, NewTask, PatchTaskRequest, ProgressRequest, ProgressResponse,
    RejectTaskRequest, ReleaseTaskRequest, SteerTaskRequest, TaskDetails, TaskPage, TaskQuery,
    TaskResponse, TasksResponse, WhyQuery, WhyResponse,
};

use crate::call::Call;
use crate::client::Client;
use crate::error::Error;

/// Calls about tasks.
#[derive(Debug, Clone, Copy)]
pub struct Tasks<'a> {
    client: &'a Client,
}

impl Client {
    /// Calls about tasks.
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks { client: self }
    }
}

impl Tasks<'_> {
    /// CLAIM; with `wait` the answer may take that long.
    pub async fn claim(self, request: &ClaimRequest) -> Result<ClaimResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks", "claim"], request)?.wait(request.wait))
            .await
    }

    /// PROGRESS.
    pub async fn progress(
        self,
        id: &str,
        request: &ProgressRequest,
    ) -> Result<ProgressResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks", id, "progress"], request)?)
            .await
    }

    /// COMPLETE.
    pub async fn complete(
        self,
        id: &str,
        request: &CompleteRequest,
    ) -> Result<CompleteResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks", id, "complete"], request)?)
            .await
    }

    /// FAIL.
    pub async fn fail(self, id: &str, request: &FailRequest) -> Result<FailResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks", id, "fail"], request)?)
            .await
    }

    /// Makes one task.
    pub async fn create(self, task: &NewTask) -> Result<TaskResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks"], task)?)
            .await
    }

    /// Makes several tasks, all or none; they may depend on each other by id.
    pub async fn create_many(self, tasks: Vec<NewTask>) -> Result<TasksResponse, Error> {
        self.send_many(tasks, false).await
    }

    /// The same, but for those whose ids exist already; the answer has only the new ones.
    pub async fn create_missing(self, tasks: Vec<NewTask>) -> Result<TasksResponse, Error> {
        self.send_many(tasks, true).await
    }

    async fn send_many(
        self,
        tasks: Vec<NewTask>,
        skip_existing: bool,
    ) -> Result<TasksResponse, Error> {
        let request = CreateTasksRequest::Many {
            tasks,
            skip_existing,
        };
        self.client
            .transport
            .send(Call::post(&["tasks"], &request)?)
            .await
    }

    /// One page of tasks.
    pub async fn list(self, query: &TaskQuery) -> Result<TaskPage, Error> {
        self.client
            .transport
            .send(Call::get(&["tasks"]).query(query.to_query()))
            .await
    }

    /// One task, by id or number, with its attempts.
    pub async fn get(self, id: &str) -> Result<TaskDetails, Error> {
        self.client.transport.send(Call::get(&["tasks", id])).await
    }

    /// Changes what is given.
    pub async fn patch(self, id: &str, request: &PatchTaskRequest) -> Result<TaskResponse, Error> {
        self.client
            .transport
            .send(Call::patch(&["tasks", id], request)?)
            .await
    }

    /// Puts a held task back, without a retry spent.
    pub async fn release(
        self,
        id: &str,
        request: &ReleaseTaskRequest,
    ) -> Result<TaskResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks", id, "release"], request)?)
            .await
    }

    /// Takes a task off the list for good.
    pub async fn cancel(self, id: &str, request: &SteerTaskRequest) -> Result<TaskResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks", id, "cancel"], request)?)
            .await
    }

    /// Makes a failed, canceled or waiting task ready now, with its budget anew.
    pub async fn retry(self, id: &str, request: &SteerTaskRequest) -> Result<TaskResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks", id, "retry"], request)?)
            .await
    }

    /// Accepts a task that needs review.
    pub async fn approve(
        self,
        id: &str,
        request: &SteerTaskRequest,
    ) -> Result<TaskResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks", id, "approve"], request)?)
            .await
    }

    /// Sends a task that needs review back, or fails it.
    pub async fn reject(
        self,
        id: &str,
        request: &RejectTaskRequest,
    ) -> Result<TaskResponse, Error> {
        self.client
            .transport
            .send(Call::post(&["tasks", id, "reject"], request)?)
            .await
    }

    /// Why nobody, or an agent, would get this task now.
    pub async fn why(self, id: &str, query: &WhyQuery) -> Result<WhyResponse, Error> {
        self.client
            .transport
            .send(Call::get(&["tasks", id, "why"]).query(query.to_query()))
            .await
    }
}
