//! The table of all HTTP routes. The hub serves it, the OpenAPI document prints it, tests hold both to it.

use schemars::JsonSchema;
use switchboard_core::rights::Right;

use super::ErrorCode as E;
use super::route::{Answer, Method, RequestBody, Route, of};
use super::*;
use crate::Query;
use crate::hrana::{CursorRequest, PipelineRequest, PipelineResponse};
use crate::logist::http::{
    ActivateJobRequest, ChangeJobRequest, CorrectJobRequest, CreateJobRequest, JobChangedResponse,
    JobHistoryPage, JobHistoryQuery, JobPage, JobQuery, JobResponse, JobVersionQuery,
    RejectJobRequest, RerunJobRequest, ResubmitJobRequest, ResumeJobRequest, SteerJobRequest,
    StewardQuery, StewardResponse,
};
use crate::runtime::{
    AgentExchangeRequest, AgentRefreshRequest, AgentTokens, AuditQuery, AuditResponse,
    ContextTokenRequest, ContextTokenResponse, InviteAgentRequest, InviteAgentResponse,
    InvokeRequest, InvokeResponse, RevokeSessionsRequest, RevokeSessionsResponse, SessionQuery,
    SessionsResponse,
};
use crate::runtime::{
    CapabilitiesResponse, CapabilityRecord, CapabilityResponse, CapabilityShown, ControlResponse,
    CursorRecord, CursorsResponse, DeadLetterQuery, DeadLettersResponse, ExchangeRequest,
    ExchangeResponse, InviteNodeRequest, InviteNodeResponse, JoinNodeRequest, LeaveNodeResponse,
    NodeResponse, NodesResponse, OrderQuery, OrderRecord, OrdersResponse, OutboxPage, OutboxQuery,
    PublishRequest, PublishResponse, PushRequest, PushResponse, ResetCursorRequest,
    ResolveReviewRequest, ReviewQuery, ReviewResponse, ReviewsResponse, TicketRequest,
    TicketResponse, UnpublishQuery,
};

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
const NO_JOB: &[ErrorCode] = &[E::NotFound];

const NODE_AUTH: &[ErrorCode] = &[
    E::InvalidInvite,
    E::ExpiredInvite,
    E::NodeProofInvalid,
    E::NodeMismatch,
    E::InviteUsed,
    E::ReplayDetected,
    E::RateLimited,
    E::DbUnavailable,
    E::Overloaded,
];

/// What anybody is told who shows a token of an external agent, or wants one.
const EXTERNAL: &[ErrorCode] = &[
    E::InvalidAccessToken,
    E::ExpiredAccessToken,
    E::InvalidProof,
    E::NodeMismatch,
    E::ScopeDenied,
    E::ReplayDetected,
    E::RateLimited,
    E::DbUnavailable,
    E::Overloaded,
];
const AGENT_AUTH: &[ErrorCode] = &[
    E::InvalidInvite,
    E::ExpiredInvite,
    E::InvalidProof,
    E::InvalidRefreshToken,
    E::ScopeDenied,
    E::InviteUsed,
    E::ReplayDetected,
    E::RateLimited,
    E::DbUnavailable,
    E::Overloaded,
];
const INVOKE: &[ErrorCode] = &[
    E::InvalidAccessToken,
    E::ExpiredAccessToken,
    E::InvalidProof,
    E::NodeMismatch,
    E::ScopeDenied,
    E::ReplayDetected,
    E::NoRoute,
    E::EventExists,
    E::TaskNotFound,
    E::AgentNotRegistered,
    E::RecipientNotFound,
    E::MessageNotFound,
    E::TaskAlreadyClaimed,
    E::TaskAlreadyExists,
    E::RateLimited,
    E::DbUnavailable,
    E::Overloaded,
];

/// Every route, by family.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    post("/api/v1/agents/register", "register", "Register an agent.", json::<RegisterResponse>())
        .tag("agents").takes(of::<RegisterRequest>).errors(&[E::AgentAlreadyRegistered]),
    post("/api/v1/agents/{id}/heartbeat", "heartbeat", "Send a heartbeat.", json::<HeartbeatResponse>())
        .tag("agents").takes(of::<HeartbeatRequest>).errors(NO_AGENT),
    get("/api/v1/agents", "listAgents", "All agents.", json::<AgentPage>())
        .tag("agents").query(AgentQuery::PARAMETERS),
    get("/api/v1/agents/{id}", "getAgent", "One agent with its tasks, leases and commands.", json::<AgentResponse>())
        .tag("agents").errors(NO_AGENT),
    Route::new(Method::Delete, "/api/v1/agents/{id}", "deregister", "Deregister an agent; its tasks return to the queue, its leases end.", json::<Done>())
        .tag("agents").errors(NO_AGENT),
    post("/api/v1/agents/{id}/commands", "commandAgent", "Send an agent a command, repeated until it obeys.", json::<CommandResponse>())
        .right(Right::Steer).tag("agents").takes(of::<CommandRequest>).creates().errors(NO_AGENT),
    post("/api/v1/agents/{id}/keys", "makeKey", "Create a signing key; older ones stop working.", json::<KeyResponse>())
        .right(Right::Steer).tag("agents").creates(),
    Route::new(Method::Delete, "/api/v1/agents/{id}/keys", "revokeKey", "Revoke an agent's signing keys.", json::<KeyRevokedResponse>())
        .right(Right::Steer).tag("agents"),
    post("/api/v1/tasks/claim", "claim", "Claim a task.", json::<ClaimResponse>())
        .tag("tasks").takes(of::<ClaimRequest>).query(WaitQuery::PARAMETERS).errors(HELD),
    post("/api/v1/tasks/{id}/progress", "progress", "Report progress on a task.", json::<ProgressResponse>())
        .tag("tasks").takes(of::<ProgressRequest>).errors(&[E::TaskNotFound, E::AgentNotRegistered]),
    post("/api/v1/tasks/{id}/complete", "complete", "Complete a task.", json::<CompleteResponse>())
        .tag("tasks").takes(of::<CompleteRequest>).errors(HELD),
    post("/api/v1/tasks/{id}/fail", "fail", "Fail a task.", json::<FailResponse>())
        .tag("tasks").takes(of::<FailRequest>).errors(HELD),
    post("/api/v1/tasks", "createTasks", "Create one task, or several at once.", Answer::Either(of::<TaskResponse>, of::<TasksResponse>))
        .right(Right::Create).tag("tasks").takes(of::<CreateTasksRequest>).creates().errors(&[E::TaskAlreadyExists]),
    get("/api/v1/tasks", "listTasks", "All tasks, filtered.", json::<TaskPage>())
        .tag("tasks").query(TaskQuery::PARAMETERS),
    get("/api/v1/tasks/{id}", "getTask", "One task, by id or number, with its attempts.", json::<TaskDetails>())
        .tag("tasks").errors(NO_TASK),
    Route::new(Method::Patch, "/api/v1/tasks/{id}", "changeTask", "Change a task.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").takes(of::<PatchTaskRequest>).errors(NO_TASK),
    post("/api/v1/tasks/{id}/release", "releaseTask", "Release a task: it is ready again, no retry is spent.", json::<TaskResponse>())
        .tag("tasks").may_take(of::<ReleaseTaskRequest>).errors(HELD),
    post("/api/v1/tasks/{id}/cancel", "cancelTask", "Cancel a task.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").may_take(of::<SteerTaskRequest>).errors(NO_TASK),
    post("/api/v1/tasks/{id}/retry", "retryTask", "Retry a task: it is ready now, with its retry count reset.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").may_take(of::<SteerTaskRequest>).errors(NO_TASK),
    post("/api/v1/tasks/{id}/approve", "approveTask", "Approve a task in review.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").may_take(of::<SteerTaskRequest>).errors(NO_TASK),
    post("/api/v1/tasks/{id}/reject", "rejectTask", "Reject a task in review.", json::<TaskResponse>())
        .right(Right::Steer).tag("tasks").may_take(of::<RejectTaskRequest>).errors(NO_TASK),
    get("/api/v1/tasks/{id}/why", "whyTask", "Why nobody, or an agent, can claim a task.", json::<WhyResponse>())
        .tag("tasks").query(WhyQuery::PARAMETERS).errors(NO_TASK),
    post("/api/v1/messages", "sendMessage", "Send a message to one agent or to all.", json::<SendMessageResponse>())
        .tag("messages").takes(of::<SendMessageRequest>).errors(&[E::AgentNotRegistered, E::RecipientNotFound, E::MessageAlreadyExists]),
    get("/api/v1/messages", "receiveMessages", "An agent's messages; with `all`, everyone's.", Answer::Either(of::<ReceiveMessagesResponse>, of::<MessagePage>))
        .right(Right::Messages).tag("messages").query(MessageQuery::PARAMETERS).errors(NO_AGENT),
    get("/api/v1/messages/{id}", "getMessage", "One message and its deliveries.", json::<MessageResponse>())
        .right(Right::Messages).tag("messages").errors(&[E::MessageNotFound]),
    post("/api/v1/messages/{id}/ack", "ackMessage", "Acknowledge a message; accepts a handoff.", json::<AckResponse>())
        .tag("messages").takes(of::<AckRequest>).errors(&[E::MessageNotFound, E::AgentNotRegistered, E::TaskAlreadyClaimed]),
    post("/api/v1/leases/acquire", "acquireLease", "Acquire a lease on a file.", json::<AcquireLeaseResponse>())
        .tag("leases").takes(of::<AcquireLeaseRequest>).errors(HELD),
    post("/api/v1/leases/release", "releaseLease", "Release a lease.", json::<ReleaseLeaseResponse>())
        .tag("leases").takes(of::<ReleaseLeaseRequest>).errors(&[E::AgentNotRegistered, E::LeaseNotYours]),
    post("/api/v1/leases/extend", "extendLease", "Extend a lease.", json::<AcquireLeaseResponse>())
        .tag("leases").takes(of::<ExtendLeaseRequest>).errors(&[E::AgentNotRegistered, E::LeaseNotFound, E::LeaseNotYours]),
    get("/api/v1/leases", "listLeases", "All leases.", json::<LeasePage>())
        .tag("leases").query(LeaseQuery::PARAMETERS),
    get("/api/v1/leases/check", "checkLease", "Check whether a file is free.", json::<CheckLeaseResponse>())
        .tag("leases").query(CheckLeaseQuery::PARAMETERS),
    post("/api/v1/jobs", "createJob", "Create a job, or change the one of this id.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").takes(of::<CreateJobRequest>).creates(),
    get("/api/v1/jobs", "listJobs", "All jobs, filtered: those that run first, then the queue, then the others.", json::<JobPage>())
        .tag("jobs").query(JobQuery::PARAMETERS),
    get("/api/v1/jobs/{id}", "getJob", "One job with all that happened to it: its manifest.", json::<JobResponse>())
        .tag("jobs").query(JobVersionQuery::PARAMETERS).errors(NO_JOB),
    Route::new(Method::Patch, "/api/v1/jobs/{id}", "changeJob", "Change a job, or move it in the queue.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").takes(of::<ChangeJobRequest>).errors(NO_JOB),
    get("/api/v1/steward", "listForSteward", "What waits for a person, the longest first: jobs, tasks in review, open incidents.", json::<StewardResponse>())
        .tag("hub").query(StewardQuery::PARAMETERS),
    post("/api/v1/jobs/{id}/select", "selectJob", "Select a job: commands that name none mean it.", json::<Done>())
        .right(Right::Steer).tag("jobs").errors(NO_JOB),
    get("/api/v1/jobs/{id}/history", "jobHistory", "Every exchange with an agent, and the recovery points.", json::<JobHistoryPage>())
        .right(Right::Steer).tag("jobs").query(JobHistoryQuery::PARAMETERS).errors(NO_JOB),
    post("/api/v1/jobs/{id}/activate", "activateJob", "Activate a draft: its first run may begin.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").may_take(of::<ActivateJobRequest>).errors(NO_JOB),
    post("/api/v1/jobs/{id}/approve", "approveJob", "Approve the work of a job: it is done.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").may_take(of::<SteerJobRequest>).errors(NO_JOB),
    post("/api/v1/jobs/{id}/reject", "rejectJob", "Reject the work of a job: its last phase is done again.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").may_take(of::<RejectJobRequest>).errors(NO_JOB),
    post("/api/v1/jobs/{id}/resubmit", "resubmitJob", "Resubmit a job that is stuck or halted, with guidance and higher limits.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").may_take(of::<ResubmitJobRequest>).errors(NO_JOB),
    post("/api/v1/jobs/{id}/correct", "correctJob", "Correct the action of a response that is not valid.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").takes(of::<CorrectJobRequest>).errors(NO_JOB),
    post("/api/v1/jobs/{id}/cancel", "cancelJob", "Cancel a job, and end what is running of it.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").may_take(of::<SteerJobRequest>).errors(NO_JOB),
    post("/api/v1/jobs/{id}/suspend", "suspendJob", "Suspend a job, and end what is running of it.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").may_take(of::<SteerJobRequest>).errors(NO_JOB),
    post("/api/v1/jobs/{id}/resume", "resumeJob", "Resume a suspended job; or any, from a recovery point.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").may_take(of::<ResumeJobRequest>).errors(NO_JOB),
    post("/api/v1/jobs/{id}/restep", "restepJob", "Go back to the last recovery point; what was used up counts.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").may_take(of::<SteerJobRequest>).errors(NO_JOB),
    post("/api/v1/jobs/{id}/rerun", "rerunJob", "Run a job again from a phase on, as if nothing had been used up.", json::<JobChangedResponse>())
        .right(Right::Steer).tag("jobs").may_take(of::<RerunJobRequest>).errors(NO_JOB),
    get("/api/v1/quality/baseline", "getBaseline", "The quality baseline.", json::<BaselineResponse>())
        .tag("quality"),
    Route::new(Method::Put, "/api/v1/quality/baseline", "setBaseline", "Set the quality baseline.", json::<BaselineResponse>())
        .right(Right::Steer).tag("quality").takes(of::<BaselineRequest>).errors(NO_TASK),
    get("/api/v1/quality/history", "listSnapshots", "Quality snapshots of completed tasks.", json::<SnapshotPage>())
        .tag("quality").query(SnapshotQuery::PARAMETERS),
    get("/api/v1/memory/search", "searchMemory", "Search what agents learned, what engrams tell and what was claimed.", json::<LearningsResponse>())
        .tag("memory").query(MemoryQuery::PARAMETERS),
    post("/api/v1/pause", "pause", "Pause: hand out no new work, in any protocol.", json::<PauseResponse>())
        .right(Right::Operate).tag("hub").may_take(of::<PauseRequest>),
    post("/api/v1/resume", "resume", "Resume: hand out work again.", json::<PauseResponse>())
        .right(Right::Operate).tag("hub").may_take(of::<ResumeRequest>),
    get("/api/v1/incidents", "listIncidents", "List incidents.", json::<IncidentPage>())
        .tag("hub").query(IncidentQuery::PARAMETERS),
    post("/api/v1/incidents/{id}/resolve", "resolveIncident", "Resolve an incident.", json::<IncidentResponse>())
        .right(Right::Operate).tag("hub").may_take(of::<ResolveIncidentRequest>).errors(&[E::NotFound]),
    get("/api/v1/roles", "listRoles", "All roles of SquidRun, and who is online.", json::<RolesResponse>())
        .tag("messages"),
    get("/api/v1/claims", "listClaims", "Claims of messages between roles: decisions, tasks, findings, blockers.", json::<ClaimPage>())
        .tag("memory").query(ClaimQuery::PARAMETERS),
    post("/api/v1/claims/{id}/status", "judgeClaim", "Set the status of a claim.", json::<ClaimJudgedResponse>())
        .tag("memory").takes(of::<ClaimStatusRequest>).errors(&[E::NotFound]),
    get("/api/v1/journal", "readJournal", "The journal of what roles said, newest first.", json::<JournalResponse>())
        .right(Right::AllMessages).tag("messages").query(JournalQuery::PARAMETERS),
    get("/api/v1/gate", "getGate", "The gate before a restart: what is signed, what comes next.", json::<GateResponse>())
        .tag("hub"),
    post("/api/v1/gate/open", "openGate", "Open the gate for a commit; earlier sign-offs are cleared.", json::<GateResponse>())
        .right(Right::Operate).tag("hub").takes(of::<OpenGateRequest>),
    post("/api/v1/gate/sign", "signGate", "Sign the next step, as the role that signs it.", json::<GateResponse>())
        .tag("hub").takes(of::<SignGateRequest>),
    get("/api/v1/status", "status", "A summary of the hub.", json::<StatusResponse>()).tag("hub"),
    get("/api/v1/events", "events", "The event log: a page, or a stream.", Answer::JsonOrStream(of::<EventPage>))
        .tag("hub").query(EventQuery::PARAMETERS),
    Route { request: RequestBody::Operation,..post("/api/v1/protocol", "protocol", "Any of the ten operations, in an envelope.", Answer::Operation) }
        .tag("hub").errors(&[E::TaskNotFound, E::AgentNotRegistered, E::RecipientNotFound, E::LeaseNotYours, E::TaskAlreadyClaimed, E::AgentAlreadyRegistered, E::MessageAlreadyExists]),
    post("/api/v1/batch", "batch", "Several operations in one call, each with its own result.", json::<BatchResponse>())
        .tag("hub").takes(of::<BatchRequest>),
    get("/api/v1/tokens", "listTokens", "All tokens, without their secrets.", json::<TokensResponse>())
        .right(Right::Steer).tag("tokens"),
    post("/api/v1/tokens", "makeToken", "Create a token; its secret is shown once.", json::<TokenResponse>())
        .right(Right::Steer).tag("tokens").takes(of::<NewTokenRequest>).creates(),
    Route::new(Method::Delete, "/api/v1/tokens/{id}", "revokeToken", "Revoke a token.", json::<Done>())
        .right(Right::Steer).tag("tokens").errors(&[E::NotFound]),
    post("/runtime/v1/invites", "inviteNode", "Invite a node; the invite is shown once.", json::<InviteNodeResponse>())
        .right(Right::Steer).tag("nodes").may_take(of::<InviteNodeRequest>).creates(),
    post("/runtime/v1/nodes/join", "joinNode", "Join the node that sent an invite.", json::<NodeResponse>())
        .right(Right::Steer).tag("nodes").takes(of::<JoinNodeRequest>).errors(&[E::JoinFailed, E::NodeMismatch]),
    get("/runtime/v1/nodes", "listNodes", "This node, and those that are joined.", json::<NodesResponse>())
        .tag("nodes"),
    get("/runtime/v1/nodes/{id}", "getNode", "One node.", json::<NodeResponse>())
        .tag("nodes").errors(&[E::NotFound]),
    post("/runtime/v1/nodes/{id}/leave", "leaveNode", "Remove a node; with the id of this one, leave all.", json::<LeaveNodeResponse>())
        .right(Right::Exchange).tag("nodes").errors(&[E::NotFound, E::NodeMismatch]),
    post("/runtime/v1/events", "publishEvent", "Publish a message or a task to agents of any node, or what an agent does.", json::<PublishResponse>())
        .tag("nodes").takes(of::<PublishRequest>).creates().errors(&[E::NoRoute, E::EventExists, E::AgentNotRegistered, E::TaskAlreadyExists, E::RecipientNotFound, E::TaskNotFound, E::TaskAlreadyClaimed, E::MessageNotFound, E::NotYou]),
    get("/runtime/v1/outbox", "readOutbox", "Events of this node, in order: a page, or a stream; a node that asks says how far it is.", Answer::JsonOrStream(of::<OutboxPage>))
        .right(Right::Exchange).tag("nodes").query(OutboxQuery::PARAMETERS).errors(&[E::EpochMismatch, E::CursorExpired, E::NotFound]),
    post("/runtime/v1/nodes/{id}/outbox", "pushOutbox", "Events of a node that cannot be reached, brought by itself.", json::<PushResponse>())
        .right(Right::Exchange).tag("nodes").takes(of::<PushRequest>).errors(&[E::NodeMismatch, E::NotFound]),
    get("/runtime/v1/cursors", "listCursors", "How far this node is in other outboxes, and others in its own.", json::<CursorsResponse>())
        .tag("nodes"),
    post("/runtime/v1/cursors/{id}/reset", "resetCursor", "Go on in a node's outbox after a number, whatever was read before.", json::<CursorRecord>())
        .right(Right::Steer).tag("nodes").takes(of::<ResetCursorRequest>).errors(&[E::NotFound]),
    get("/runtime/v1/orders", "listOrders", "What other nodes were sent, and what they answered.", json::<OrdersResponse>())
        .right(Right::AllMessages).tag("nodes").query(OrderQuery::PARAMETERS),
    get("/runtime/v1/dead-letters", "listDeadLetters", "What other nodes were sent and was given up, newest first.", json::<DeadLettersResponse>())
        .right(Right::AllMessages).tag("nodes").query(DeadLetterQuery::PARAMETERS),
    post("/runtime/v1/dead-letters/{id}/resend", "resendDeadLetter", "Send once more what was given up.", json::<OrderRecord>())
        .right(Right::Steer).tag("nodes").errors(&[E::NotFound]),
    get("/runtime/v1/control", "readControl", "What all nodes are to know: nodes and agents, as this one has them.", json::<ControlResponse>())
        .right(Right::Exchange).tag("nodes"),
    post("/runtime/v1/capabilities", "publishCapability", "Publish a version of a capability, through ten gates.", json::<CapabilityResponse>())
        .right(Right::Steer).tag("capabilities").takes(of::<CapabilityRecord>).creates().errors(&[E::VersionExists, E::WrongNode, E::PublishFailed]),
    get("/runtime/v1/capabilities", "listCapabilities", "All capabilities that this node knows of.", json::<CapabilitiesResponse>())
        .tag("capabilities"),
    get("/runtime/v1/capabilities/{id}", "getCapability", "One capability, and its versions that were published here.", json::<CapabilityShown>())
        .tag("capabilities").errors(&[E::NotFound]),
    Route::new(Method::Delete, "/runtime/v1/capabilities/{id}", "unpublishCapability", "Take a capability back, or disable it.", json::<CapabilityResponse>())
        .right(Right::Steer).tag("capabilities").query(UnpublishQuery::PARAMETERS).errors(&[E::NotFound, E::WrongNode]),
    get("/runtime/v1/reviews", "listReviews", "Capabilities whose tasks went wrong, for review.", json::<ReviewsResponse>())
        .tag("capabilities").query(ReviewQuery::PARAMETERS),
    post("/runtime/v1/reviews/{id}/resolve", "resolveReview", "Resolve a review.", json::<ReviewResponse>())
        .right(Right::Operate).tag("capabilities").may_take(of::<ResolveReviewRequest>).errors(&[E::NotFound]),
    post("/ansible/auth/exchange", "exchangeInvite", "Exchange an invite for the first ticket of a node.", json::<ExchangeResponse>())
        .open().tag("nodes").takes(of::<ExchangeRequest>).errors(NODE_AUTH),
    post("/ansible/auth/ticket", "askTicket", "Another ticket, for a node that is joined.", json::<TicketResponse>())
        .open().tag("nodes").takes(of::<TicketRequest>).errors(NODE_AUTH),
    post("/ansible/agent/invites", "inviteAgent", "Invite an external agent; the invite is shown once.", json::<InviteAgentResponse>())
        .right(Right::Steer).tag("external").takes(of::<InviteAgentRequest>).creates(),
    get("/ansible/agent/sessions", "listSessions", "Sessions of external agents.", json::<SessionsResponse>())
        .right(Right::Steer).tag("external").query(SessionQuery::PARAMETERS),
    post("/ansible/agent/revoke", "revokeSessions", "End a session, or all of an agent.", json::<RevokeSessionsResponse>())
        .right(Right::Steer).tag("external").takes(of::<RevokeSessionsRequest>),
    post("/ansible/agent/auth/exchange", "exchangeAgentInvite", "Exchange an invite for the tokens of a session.", json::<AgentTokens>())
        .open().tag("external").takes(of::<AgentExchangeRequest>).errors(AGENT_AUTH),
    post("/ansible/agent/auth/refresh", "refreshSession", "The next tokens of a session.", json::<AgentTokens>())
        .open().tag("external").takes(of::<AgentRefreshRequest>).errors(AGENT_AUTH),
    post("/ansible/agent/invoke", "invoke", "An operation, as the agent that the access token is for.", json::<InvokeResponse>())
        .open().tag("external").takes(of::<InvokeRequest>).errors(INVOKE),
    post("/ansible/agent/context-token", "makeContextToken", "A token for one context, with some of the scopes.", json::<ContextTokenResponse>())
        .open().tag("external").takes(of::<ContextTokenRequest>).errors(EXTERNAL),
    get("/runtime/v1/audit", "readAudit", "Who did what from outside, and what was refused, over all nodes.", json::<AuditResponse>())
        .right(Right::Exchange).tag("external").query(AuditQuery::PARAMETERS),
    get("/v2", "sqlV2", "Whether Hrana 2 is supported.", Answer::Object).open().tag("sql"),
    get("/v3", "sqlV3", "Whether Hrana 3 is supported.", Answer::Object).open().tag("sql"),
    post("/v2/pipeline", "sqlPipelineV2", "SQL on the public tables, for libSQL's clients.", json::<PipelineResponse>())
        .right(Right::Sql).tag("sql").takes(of::<PipelineRequest>),
    post("/v3/pipeline", "sqlPipelineV3", "The same in version 3.", json::<PipelineResponse>())
        .right(Right::Sql).tag("sql").takes(of::<PipelineRequest>),
    post("/v3/cursor", "sqlCursorV3", "One batch, with a response per line.", Answer::Text("text/plain"))
        .right(Right::Sql).tag("sql").takes(of::<CursorRequest>),
    get("/healthz", "healthz", "Liveness: the process answers.", Answer::Text("text/plain")).open().tag("probes"),
    get("/readyz", "readyz", "Readiness: the ledger is readable and writable.", Answer::Text("text/plain")).open().tag("probes"),
    get("/proof", "proof", "Proof that the hub has the master key.", json::<ProofResponse>())
        .open().tag("probes").query(ProofQuery::PARAMETERS),
    get("/metrics", "metrics", "Metrics for Prometheus.", Answer::Text("application/openmetrics-text")).open().tag("probes"),
    get("/openapi.json", "openapi", "This document.", Answer::Object).open().tag("probes"),
];
