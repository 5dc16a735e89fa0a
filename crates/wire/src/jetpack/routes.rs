//! The table of all HTTP routes. The hub serves it, the OpenAPI document prints it, tests hold both to it.

use schemars::JsonSchema;
use switchboard_core::rights::Right;

use super::ErrorCode as E;
use super::route::{Answer, Method, RequestBody, Route, of};
use super::*;
use crate::Query;
use crate::hrana::{CursorRequest, PipelineRequest, PipelineResponse};

const fn json<T: JsonSchema>() -> Answer {
    Answer::Json(of::<T>)
}

const fn get(
    path: &'static str,
    operation_id: &'static str,
    summary: &'static str,
    answer: Answer,
) -> Route {
    Route::new(Method::Get, path, operation_id, summary, answer)
}

const fn post(
    path: &'static str,
    operation_id: &'static str,
    summary: &'static str,
    answer: Answer,
) -> Route {
    Route::new(Method::Post, path, operation_id, summary, answer)
}

const HELD: &[ErrorCode] = &[
    E::TaskNotFound,
    E::AgentNotRegistered,
    E::TaskAlreadyClaimed,
];
const NO_AGENT: &[ErrorCode] = &[E::AgentNotRegistered];
const NO_TASK: &[ErrorCode] = &[E::TaskNotFound];

/// Every route, by family.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    post("/api/v1/agents/register", "register", "An agent announces itself.", json::<RegisterResponse>())
        .tag("agents").takes(of::<RegisterRequest>).errors(&[E::AgentAlreadyRegistered]),
    post("/api/v1/agents/{id}/heartbeat", "heartbeat", "An agent is alive.", json::<HeartbeatResponse>())
        .tag("agents").takes(of::<HeartbeatRequest>).errors(NO_AGENT),
    get("/api/v1/agents", "listAgents", "All agents.", json::<AgentPage>())
        .tag("agents").query(AgentQuery::PARAMETERS),
    get("/api/v1/agents/{id}", "getAgent", "One agent with what it holds.", json::<AgentResponse>())
        .tag("agents").errors(NO_AGENT),
    Route::new(Method::Delete, "/api/v1/agents/{id}", "deregister", "An agent leaves; its tasks go back, its leases end.", json::<Done>())
        .tag("agents").errors(NO_AGENT),
    post("/api/v1/agents/{id}/commands", "commandAgent", "Ask something of an agent, until it obeys.", json::<CommandResponse>())
        .right(Right::Steer).tag("agents").takes(of::<CommandRequest>).creates().errors(NO_AGENT),
    post("/api/v1/agents/{id}/keys", "makeKey", "A new signing key; older ones stop working.", json::<KeyResponse>())
        .right(Right::Steer).tag("agents").creates(),
    Route::new(Method::Delete, "/api/v1/agents/{id}/keys", "revokeKey", "Older signing keys stop working.", json::<KeyRevokedResponse>())
        .right(Right::Steer).tag("agents"),
    post("/api/v1/tasks/claim", "claim", "An agent takes one task that fits.", json::<ClaimResponse>())
        .tag("tasks").takes(of::<ClaimRequest>).query(WaitQuery::PARAMETERS).errors(HELD),
    post("/api/v1/tasks/{id}/progress", "progress", "The holder reports how far it is.", json::<ProgressResponse>())
        .tag("tasks").takes(of::<ProgressRequest>).errors(&[E::TaskNotFound, E::AgentNotRegistered]),
    post("/api/v1/tasks/{id}/complete", "complete", "The holder is done.", json::<CompleteResponse>())
        .tag("tasks").takes(of::<CompleteRequest>).errors(HELD),
    post("/api/v1/tasks/{id}/fail", "fail", "The holder gives up.", json::<FailResponse>())
        .tag("tasks").takes(of::<FailRequest>).errors(HELD),
    post("/api/v1/tasks", "createTasks", "Make one task, or several at once.", Answer::Either(of::<TaskResponse>, of::<TasksResponse>))
        .right(Right::Create).tag("tasks").takes(of::<CreateTasksRequest>).creates().errors(&[E::TaskAlreadyExists]),
    get("/api/v1/tasks", "listTasks", "All tasks, filtered.", json::<TaskPage>())
        .tag("tasks").query(TaskQuery::PARAMETERS),
    get("/api/v1/tasks/{id}", "getTask", "One task, by id or number, with its attempts.", json::<TaskDetails>())
        .tag("tasks").errors(NO_TASK),
    Route::new(Method::Patch, "/api/v1/tasks/{id}", "changeTask", "Change a task.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").takes(of::<PatchTaskRequest>).errors(NO_TASK),
    post("/api/v1/tasks/{id}/release", "releaseTask", "Back to ready; no retry is spent.", json::<TaskResponse>())
        .tag("tasks").may_take(of::<ReleaseTaskRequest>).errors(HELD),
    post("/api/v1/tasks/{id}/cancel", "cancelTask", "Nobody shall do it any more.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").may_take(of::<SteerTaskRequest>).errors(NO_TASK),
    post("/api/v1/tasks/{id}/retry", "retryTask", "Ready now, with a new budget of retries.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").may_take(of::<SteerTaskRequest>).errors(NO_TASK),
    post("/api/v1/tasks/{id}/approve", "approveTask", "A person accepts a completion.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").may_take(of::<SteerTaskRequest>).errors(NO_TASK),
    post("/api/v1/tasks/{id}/reject", "rejectTask", "A person sends a completion back.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").may_take(of::<RejectTaskRequest>).errors(NO_TASK),
    get("/api/v1/tasks/{id}/why", "whyTask", "Why an agent cannot claim a task.", json::<WhyResponse>())
        .tag("tasks").query(WhyQuery::PARAMETERS).errors(NO_TASK),
    post("/api/v1/messages", "sendMessage", "Send to one agent or to all.", json::<SendMessageResponse>())
        .tag("messages").takes(of::<SendMessageRequest>).errors(&[E::AgentNotRegistered, E::RecipientNotFound, E::MessageAlreadyExists]),
    get("/api/v1/messages", "receiveMessages", "An agent's messages; with `all`, everyone's.", Answer::Either(of::<ReceiveMessagesResponse>, of::<MessagePage>))
        .right(Right::Messages).tag("messages").query(MessageQuery::PARAMETERS).errors(NO_AGENT),
    get("/api/v1/messages/{id}", "getMessage", "One message and its deliveries.", json::<MessageResponse>())
        .right(Right::Messages).tag("messages").errors(&[E::MessageNotFound]),
    post("/api/v1/messages/{id}/ack", "ackMessage", "A recipient acknowledges; accepts a handoff.", json::<AckResponse>())
        .tag("messages").takes(of::<AckRequest>).errors(&[E::MessageNotFound, E::AgentNotRegistered, E::TaskAlreadyClaimed]),
    post("/api/v1/leases/acquire", "acquireLease", "Ask for exclusive use of a file.", json::<AcquireLeaseResponse>())
        .tag("leases").takes(of::<AcquireLeaseRequest>).errors(HELD),
    post("/api/v1/leases/release", "releaseLease", "Give a file back.", json::<ReleaseLeaseResponse>())
        .tag("leases").takes(of::<ReleaseLeaseRequest>).errors(&[E::AgentNotRegistered, E::LeaseNotYours]),
    post("/api/v1/leases/extend", "extendLease", "Keep a file for longer.", json::<AcquireLeaseResponse>())
        .tag("leases").takes(of::<ExtendLeaseRequest>).errors(&[E::AgentNotRegistered, E::LeaseNotFound, E::LeaseNotYours]),
    get("/api/v1/leases", "listLeases", "All leases.", json::<LeasePage>())
        .tag("leases").query(LeaseQuery::PARAMETERS),
    get("/api/v1/leases/check", "checkLease", "Whether a file is free.", json::<CheckLeaseResponse>())
        .tag("leases").query(CheckLeaseQuery::PARAMETERS),
    get("/api/v1/quality/baseline", "getBaseline", "What completions are measured against.", json::<BaselineResponse>())
        .tag("quality"),
    Route::new(Method::Put, "/api/v1/quality/baseline", "setBaseline", "Set the baseline.", json::<BaselineResponse>())
        .right(Right::Steer).tag("quality").takes(of::<BaselineRequest>).errors(NO_TASK),
    get("/api/v1/quality/history", "listSnapshots", "What completions measured.", json::<SnapshotPage>())
        .tag("quality").query(SnapshotQuery::PARAMETERS),
    get("/api/v1/memory/search", "searchMemory", "What agents learned.", json::<LearningsResponse>())
        .tag("memory").query(MemoryQuery::PARAMETERS),
    post("/api/v1/pause", "pause", "No new work for anybody, through whatever door.", json::<PauseResponse>())
        .right(Right::Operate).tag("hub").may_take(of::<PauseRequest>),
    post("/api/v1/resume", "resume", "New work is handed out again.", json::<PauseResponse>())
        .right(Right::Operate).tag("hub").may_take(of::<ResumeRequest>),
    get("/api/v1/incidents", "listIncidents", "What a person should look after.", json::<IncidentPage>())
        .tag("hub").query(IncidentQuery::PARAMETERS),
    post("/api/v1/incidents/{id}/resolve", "resolveIncident", "Somebody has looked after it.", json::<IncidentResponse>())
        .right(Right::Operate).tag("hub").may_take(of::<ResolveIncidentRequest>).errors(&[E::NotFound]),
    get("/api/v1/status", "status", "The hub at a glance.", json::<StatusResponse>()).tag("hub"),
    get("/api/v1/events", "events", "The event log: a page, or a stream.", Answer::JsonOrStream(of::<EventPage>))
        .tag("hub").query(EventQuery::PARAMETERS),
    Route { request: RequestBody::Operation,..post("/api/v1/protocol", "protocol", "Any of the ten operations, in an envelope.", Answer::Operation) }
        .tag("hub").errors(&[E::TaskNotFound, E::AgentNotRegistered, E::RecipientNotFound, E::LeaseNotYours, E::TaskAlreadyClaimed, E::AgentAlreadyRegistered, E::MessageAlreadyExists]),
    post("/api/v1/batch", "batch", "Many operations, each answered by itself.", json::<BatchResponse>())
        .tag("hub").takes(of::<BatchRequest>),
    get("/api/v1/tokens", "listTokens", "All tokens, without their secrets.", json::<TokensResponse>())
        .right(Right::Steer).tag("tokens"),
    post("/api/v1/tokens", "makeToken", "A new token; its secret is shown once.", json::<TokenResponse>())
        .right(Right::Steer).tag("tokens").takes(of::<NewTokenRequest>).creates(),
    Route::new(Method::Delete, "/api/v1/tokens/{id}", "revokeToken", "A token stops working.", json::<Done>())
        .right(Right::Steer).tag("tokens").errors(&[E::NotFound]),
    get("/v2", "sqlV2", "Whether Hrana 2 is spoken.", Answer::Object).open().tag("sql"),
    get("/v3", "sqlV3", "Whether Hrana 3 is spoken.", Answer::Object).open().tag("sql"),
    post("/v2/pipeline", "sqlPipelineV2", "SQL on the public tables, for libSQL's clients.", json::<PipelineResponse>())
        .right(Right::Sql).tag("sql").takes(of::<PipelineRequest>),
    post("/v3/pipeline", "sqlPipelineV3", "The same in the third version.", json::<PipelineResponse>())
        .right(Right::Sql).tag("sql").takes(of::<PipelineRequest>),
    post("/v3/cursor", "sqlCursorV3", "One batch, answered line by line.", Answer::Text)
        .right(Right::Sql).tag("sql").takes(of::<CursorRequest>),
    get("/healthz", "healthz", "The process answers.", Answer::Text).open().tag("probes"),
    get("/readyz", "readyz", "The ledger answers.", Answer::Text).open().tag("probes"),
    get("/proof", "proof", "The hub shows that it has the master key.", json::<ProofResponse>())
        .open().tag("probes").query(ProofQuery::PARAMETERS),
    get("/metrics", "metrics", "Figures for Prometheus.", Answer::Text).open().tag("probes"),
    get("/openapi.json", "openapi", "This document.", Answer::Object).open().tag("probes"),
];
