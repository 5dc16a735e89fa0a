//! The table of all routes. A test holds it to the one in `switchboard_wire`, which the OpenAPI document prints.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{MethodFilter, on};

use switchboard_core::rights::Right;
use switchboard_wire::jetpack::{Operation as Op, ROUTES};

use super::call::Call;
use super::error::Failure;
use super::operation::{on_path, protocol};
use super::reply::{Reply, may_come_again};
use super::{
    AppState, admin, agents, audit, batch, capabilities, claims, events, external, incidents,
    invoke, jobs, leases, memory, messages, nodes, outbox, pause, pipeline, quality, release_gate,
    roles, status, tasks,
};

/// Every call and who answers it.
#[rustfmt::skip]
pub fn router(app: AppState) -> Router {
    Table::new(app)
        .post("/api/v1/agents/register", "register", |app, call| on_path(app, call, Op::Register))
        .post("/api/v1/agents/{id}/heartbeat", "heartbeat", |app, call| on_path(app, call, Op::Heartbeat))
        .get("/api/v1/agents", "listAgents", agents::list)
        .get("/api/v1/agents/{id}", "getAgent", agents::show)
        .delete("/api/v1/agents/{id}", "deregister", agents::deregister)
        .post("/api/v1/agents/{id}/commands", "commandAgent", agents::command)
        .post("/api/v1/agents/{id}/keys", "makeKey", admin::make_key)
        .delete("/api/v1/agents/{id}/keys", "revokeKey", admin::revoke_key)
        .post("/api/v1/tasks/claim", "claim", |app, call| on_path(app, call, Op::Claim))
        .post("/api/v1/tasks/{id}/progress", "progress", |app, call| on_path(app, call, Op::Progress))
        .post("/api/v1/tasks/{id}/complete", "complete", |app, call| on_path(app, call, Op::Complete))
        .post("/api/v1/tasks/{id}/fail", "fail", |app, call| on_path(app, call, Op::Fail))
        .post("/api/v1/tasks", "createTasks", tasks::create)
        .get("/api/v1/tasks", "listTasks", tasks::list)
        .get("/api/v1/tasks/{id}", "getTask", tasks::show)
        .patch("/api/v1/tasks/{id}", "changeTask", tasks::change)
        .post("/api/v1/tasks/{id}/release", "releaseTask", tasks::release)
        .post("/api/v1/tasks/{id}/cancel", "cancelTask", tasks::cancel)
        .post("/api/v1/tasks/{id}/retry", "retryTask", tasks::retry)
        .post("/api/v1/tasks/{id}/approve", "approveTask", tasks::approve)
        .post("/api/v1/tasks/{id}/reject", "rejectTask", tasks::reject)
        .get("/api/v1/tasks/{id}/why", "whyTask", tasks::why)
        .post("/api/v1/messages", "sendMessage", |app, call| on_path(app, call, Op::SendMessage))
        .get("/api/v1/messages", "receiveMessages", messages::receive)
        .get("/api/v1/messages/{id}", "getMessage", messages::show)
        .post("/api/v1/messages/{id}/ack", "ackMessage", messages::acknowledge)
        .post("/api/v1/leases/acquire", "acquireLease", |app, call| on_path(app, call, Op::AcquireLease))
        .post("/api/v1/leases/release", "releaseLease", |app, call| on_path(app, call, Op::ReleaseLease))
        .post("/api/v1/leases/extend", "extendLease", leases::extend)
        .get("/api/v1/leases", "listLeases", leases::list)
        .get("/api/v1/leases/check", "checkLease", leases::check)
        .get("/api/v1/quality/baseline", "getBaseline", quality::baseline)
        .put("/api/v1/quality/baseline", "setBaseline", quality::set_baseline)
        .with(of_jobs)
        .get("/api/v1/steward", "listForSteward", jobs::for_steward)
        .get("/api/v1/quality/history", "listSnapshots", quality::history)
        .get("/api/v1/memory/search", "searchMemory", memory::search)
        .post("/api/v1/pause", "pause", pause::pause)
        .post("/api/v1/resume", "resume", pause::resume)
        .get("/api/v1/incidents", "listIncidents", incidents::list)
        .get("/api/v1/roles", "listRoles", roles::list)
        .get("/api/v1/claims", "listClaims", claims::list)
        .post("/api/v1/claims/{id}/status", "judgeClaim", claims::judge)
        .get("/api/v1/journal", "readJournal", claims::journal)
        .get("/api/v1/gate", "getGate", release_gate::show)
        .post("/api/v1/gate/open", "openGate", release_gate::open)
        .post("/api/v1/gate/sign", "signGate", release_gate::sign)
        .post("/api/v1/incidents/{id}/resolve", "resolveIncident", incidents::resolve)
        .get("/api/v1/status", "status", status::status)
        .get("/api/v1/events", "events", events::events)
        .post("/api/v1/protocol", "protocol", protocol)
        .post("/api/v1/batch", "batch", batch::batch)
        .get("/api/v1/tokens", "listTokens", admin::tokens)
        .post("/api/v1/tokens", "makeToken", admin::make_token)
        .delete("/api/v1/tokens/{id}", "revokeToken", admin::revoke_token)
        .with(between_machines)
        .get("/v2", "sqlV2", pipeline::version)
        .get("/v3", "sqlV3", pipeline::version)
        .post("/v2/pipeline", "sqlPipelineV2", pipeline::pipeline)
        .post("/v3/pipeline", "sqlPipelineV3", pipeline::pipeline)
        .post("/v3/cursor", "sqlCursorV3", pipeline::cursor)
        .get("/healthz", "healthz", status::healthz)
        .get("/readyz", "readyz", status::readyz)
        .get("/proof", "proof", status::proof)
        .get("/metrics", "metrics", status::metrics)
        .get("/openapi.json", "openapi", status::openapi)
        .finish()
}

#[rustfmt::skip]
fn of_jobs(table: Table) -> Table {
    table
        .post("/api/v1/jobs", "createJob", jobs::create)
        .get("/api/v1/jobs", "listJobs", jobs::list)
        .get("/api/v1/jobs/{id}", "getJob", jobs::show)
        .patch("/api/v1/jobs/{id}", "changeJob", jobs::change)
        .post("/api/v1/jobs/{id}/select", "selectJob", jobs::select)
        .get("/api/v1/jobs/{id}/history", "jobHistory", jobs::history)
        .post("/api/v1/jobs/{id}/activate", "activateJob", jobs::activate)
        .post("/api/v1/jobs/{id}/approve", "approveJob", jobs::approve)
        .post("/api/v1/jobs/{id}/reject", "rejectJob", jobs::reject)
        .post("/api/v1/jobs/{id}/resubmit", "resubmitJob", jobs::resubmit)
        .post("/api/v1/jobs/{id}/correct", "correctJob", jobs::correct)
        .post("/api/v1/jobs/{id}/cancel", "cancelJob", jobs::cancel)
        .post("/api/v1/jobs/{id}/suspend", "suspendJob", jobs::suspend)
        .post("/api/v1/jobs/{id}/resume", "resumeJob", jobs::resume)
        .post("/api/v1/jobs/{id}/restep", "restepJob", jobs::restep)
        .post("/api/v1/jobs/{id}/rerun", "rerunJob", jobs::rerun)
}

/// Nodes of one swarm, and agents that live behind none.
#[rustfmt::skip]
fn between_machines(table: Table) -> Table {
    table
        .post("/runtime/v1/invites", "inviteNode", nodes::invite)
        .post("/runtime/v1/nodes/join", "joinNode", nodes::join)
        .get("/runtime/v1/nodes", "listNodes", nodes::list)
        .get("/runtime/v1/nodes/{id}", "getNode", nodes::show)
        .post("/runtime/v1/nodes/{id}/leave", "leaveNode", nodes::leave)
        .post("/runtime/v1/events", "publishEvent", outbox::publish)
        .get("/runtime/v1/outbox", "readOutbox", outbox::read)
        .post("/runtime/v1/nodes/{id}/outbox", "pushOutbox", outbox::push)
        .get("/runtime/v1/cursors", "listCursors", outbox::cursors)
        .post("/runtime/v1/cursors/{id}/reset", "resetCursor", outbox::reset)
        .get("/runtime/v1/orders", "listOrders", outbox::orders)
        .get("/runtime/v1/dead-letters", "listDeadLetters", outbox::dead_letters)
        .post("/runtime/v1/dead-letters/{id}/resend", "resendDeadLetter", outbox::resend)
        .get("/runtime/v1/control", "readControl", nodes::control)
        .post("/runtime/v1/capabilities", "publishCapability", capabilities::publish)
        .get("/runtime/v1/capabilities", "listCapabilities", capabilities::list)
        .get("/runtime/v1/capabilities/{id}", "getCapability", capabilities::show)
        .delete("/runtime/v1/capabilities/{id}", "unpublishCapability", capabilities::unpublish)
        .get("/runtime/v1/reviews", "listReviews", capabilities::reviews)
        .post("/runtime/v1/reviews/{id}/resolve", "resolveReview", capabilities::resolve)
        .post("/ansible/auth/exchange", "exchangeInvite", nodes::exchange)
        .post("/ansible/auth/ticket", "askTicket", nodes::ticket)
        .post("/ansible/agent/invites", "inviteAgent", external::invite)
        .get("/ansible/agent/sessions", "listSessions", external::sessions)
        .post("/ansible/agent/revoke", "revokeSessions", external::revoke)
        .post("/ansible/agent/auth/exchange", "exchangeAgentInvite", external::exchange)
        .post("/ansible/agent/auth/refresh", "refreshSession", external::refresh)
        .post("/ansible/agent/invoke", "invoke", invoke::invoke)
        .post("/ansible/agent/context-token", "makeContextToken", invoke::context_token)
        .get("/runtime/v1/audit", "readAudit", audit::read)
}

struct Table {
    app: AppState,
    router: Router,
}

/// What a route answers with: most with a [`Reply`], streams and texts with a response of their own.
trait Answer {
    fn into_response(self) -> Response;
}

impl Answer for Reply {
    fn into_response(self) -> Response {
        Reply::into_response(self)
    }
}

impl Answer for Response {
    fn into_response(self) -> Response {
        self
    }
}

macro_rules! methods {
    ($($name:ident = $filter:ident),+) => {$(
        fn $name<F, Fut, A>(self, path: &'static str, operation: &'static str, f: F) -> Self
        where
            F: Fn(AppState, Call) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = Result<A, Failure>> + Send + 'static,
            A: Answer + 'static,
        {
            self.route(MethodFilter::$filter, path, operation, f)
        }
    )+};
}

impl Table {
    fn new(app: AppState) -> Self {
        Table {
            app,
            router: Router::new(),
        }
    }

    fn with(self, more: fn(Table) -> Table) -> Self {
        more(self)
    }

    methods!(
        get = GET,
        post = POST,
        put = PUT,
        patch = PATCH,
        delete = DELETE
    );

    fn route<F, Fut, A>(
        mut self,
        method: MethodFilter,
        path: &'static str,
        operation: &'static str,
        f: F,
    ) -> Self
    where
        F: Fn(AppState, Call) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<A, Failure>> + Send + 'static,
        A: Answer + 'static,
    {
        let app = Arc::clone(&self.app);
        let tally = app.metrics.tally(operation);
        let is_sql = operation.starts_with("sql");
        let route = ROUTES.iter().find(|route| route.operation_id == operation);
        // A test holds both tables to each other; what is in none of them is the steward's.
        let right = route.map_or(Some(Right::Steer), |route| route.right);
        let answer = move |request: Request| async move {
            let call = match Call::receive(&app, request, operation, right).await {
                Ok(call) => call,
                Err(failure) => {
                    let mut reply = match is_sql {
                        true => pipeline::refused(&failure),
                        false => failure.into_reply(),
                    };
                    // What follows of the body is not read.
                    reply.closes = true;
                    let response = reply.into_response();
                    tally.count(response.status());
                    return response;
                }
            };
            let spent = Arc::clone(&call.peer.spent);
            let response = match f(Arc::clone(&app), call).await {
                Ok(answer) => answer.into_response(),
                Err(failure) => failure.into_response(),
            };
            if let Some(mark) = spent.take()
                && may_come_again(response.status().as_u16())
            {
                app.auth.forgive(mark);
            }
            tally.count(response.status());
            response
        };
        self.router = self.router.route(path, on(method, answer));
        self
    }

    fn finish(self) -> Router {
        self.router
            .fallback(async || Failure::NoSuchPath.into_response())
            .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response())
    }
}
