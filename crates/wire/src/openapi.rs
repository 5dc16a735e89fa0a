//! The OpenAPI 3.1 document, made from the table of routes and the message types.

use std::collections::BTreeMap;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use switchboard_core::token::Scope;

use crate::Query as _;
use crate::hrana::Refused;
use crate::jetpack::{
    Answer, Envelope, ErrorBody, ErrorCode, Operation, ROUTES, ReceiveMessagesRequest,
    ReceiveMessagesResponse, RequestBody, Route, SchemaOf, VersionQuery,
};
use bounds::Bound;

mod bounds;

/// Headers of calls, by component name.
const HEADERS: &[(&str, &str, Bound, &str)] = &[
    (
        "IdempotencyKey",
        "Idempotency-Key",
        Bound::Key,
        "The same key with the same body returns the first response.",
    ),
    (
        "ProtocolVersion",
        "Switchboard-Protocol-Version",
        Bound::Version,
        "The protocol version, if it is not in the body.",
    ),
];

/// Families of calls.
const TAGS: &[(&str, &str)] = &[
    (
        "agents",
        "Agents register, stay alive, are commanded, and leave.",
    ),
    (
        "tasks",
        "Tasks are created, claimed, reported on, and steered by people.",
    ),
    ("messages", "Messages between agents."),
    (
        "jobs",
        "Work in phases: done, reviewed, and decided on by a person.",
    ),
    ("leases", "Who may write which file, until when."),
    (
        "quality",
        "The baseline that completed tasks are compared with.",
    ),
    ("memory", "What agents learned."),
    (
        "hub",
        "The hub as a whole: status, events, incidents, pause; several operations in one call.",
    ),
    ("tokens", "Credentials of people and programs."),
    ("nodes", "Hubs that are gateways of one swarm."),
    ("external", "Agents that live elsewhere."),
    (
        "capabilities",
        "What tasks can ask for by name, on any node; reviews of what went wrong.",
    ),
    ("sql", "SQL on the public tables, for libSQL clients."),
    ("probes", "For machines that look after the hub."),
];

/// What any call may be refused with.
const ANYWHERE: &[ErrorCode] = &[ErrorCode::InvalidOperation, ErrorCode::WrongHost];

/// What a call that takes a credential may also be refused with.
const WITH_CREDENTIAL: &[ErrorCode] = &[
    ErrorCode::Unauthenticated,
    ErrorCode::NotYou,
    ErrorCode::Forbidden,
    ErrorCode::RateLimited,
    ErrorCode::DbUnavailable,
    ErrorCode::Overloaded,
];

/// What a change may also be refused with.
const CHANGING: &[ErrorCode] = &[ErrorCode::TooLarge, ErrorCode::IdempotencyKeyReused];

/// The hub that a document is of.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// Where it is reached.
    pub url: &'a str,
    /// It takes calls without a credential.
    pub is_open: bool,
}

impl Served<'_> {
    /// As it is started without any settings.
    pub const DEFAULT: Served<'static> = Served {
        url: "http://127.0.0.1:7373",
        is_open: true,
    };
}

/// The whole document.
pub fn document(hub: Served<'_>) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let operation = operation(route, &mut schemas);
        paths
            .entry(route.path)
            .or_default()
            .insert(route.method.as_str().to_lowercase(), operation);
    }
    let headers = HEADERS.iter().map(|(name, header, bound, about)| {
        let mut schema = json!({ "type": "string" });
        bound.put(&mut schema);
        let header =
            json!({ "name": header, "in": "header", "description": about, "schema": schema });
        ((*name).to_owned(), header)
    });
    let tags = TAGS.iter();
    let tags: Vec<Value> = tags
        .map(|(name, about)| json!({ "name": name, "description": about }))
        .collect();
    let mut security = vec![json!({ "token": [] }), json!({ "signature": [] })];
    security.extend(hub.is_open.then(|| json!({})));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Switchboard",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "A coordination hub for swarms of coding agents; the Jetpack agent protocol 1.0 over HTTP.",
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": hub.url, "description": "This hub." }],
        "security": security,
        "tags": tags,
        "paths": paths,
        "components": {
            "responses": std::mem::take(&mut schemas.errors),
            "parameters": headers.collect::<Map<String, Value>>(),
            "schemas": schemas.finish(),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "For people and programs: a token with a scope." },
                "signature": {
                    "type": "apiKey", "in": "header", "name": "Switchboard-Signature",
                    "description": "For agents: HMAC-SHA256, with Switchboard-Agent, Switchboard-Timestamp and Switchboard-Nonce; or the same in the body.",
                },
            },
        },
    })
}

const ABOUT: &str = "Unknown members and parameters are ignored. `maxLength` of a text counts bytes of UTF-8. \
    The example of a worker, how to sign, and what to do about errors are in docs/http-api.md.";

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = json!({
        "operationId": route.operation_id,
        "summary": route.summary.trim_end_matches('.'),
        "description": format!("{} {}", route.summary, who_may(route)),
        "tags": [route.tag],
        "responses": responses(route, schemas),
    });
    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = request_body(route, schemas) {
        operation["requestBody"] = body;
    }
    if takes_sql(route) {
        operation["security"] = json!([{ "token": [] }]);
    } else if !route.takes_credential() && route.path != "/metrics" {
        operation["security"] = json!([]);
    }
    operation
}

fn who_may(route: &Route) -> String {
    let Some(right) = route.right else {
        return "Anybody may call it.".to_owned();
    };
    let scopes = Scope::ALL.iter().filter(|scope| scope.may(right));
    let scopes: Vec<String> = scopes.map(|scope| format!("`{scope}`")).collect();
    format!("For callers of scope {}.", scopes.join(", "))
}

/// Raw SQL, which always takes a token and never a key: it is not done again by itself.
fn takes_sql(route: &Route) -> bool {
    route.tag == "sql" && route.method.is_mutating()
}

fn parameters(route: &Route) -> Vec<Value> {
    let ids = route.path.split('/').zip(route.path.split('/').skip(1));
    let in_path = ids.filter(|(_, part)| *part == "{id}").map(|(family, _)| {
        let mut schema = json!({ "type": "string" });
        let about = match family {
            "tasks" => "The id of the task, or its number as `42` or `#42`.",
            "agents" => "The id of the agent.",
            "messages" => "The id of the message.",
            "tokens" => "The id of the token.",
            "nodes" => "The id of the node.",
            "capabilities" => "The id of the capability.",
            "reviews" => "The id of the review.",
            "jobs" => "The id of the job.",
            _ => "The id of the incident.",
        };
        let bound = if family == "jobs" { Bound::Job } else { Bound::Id };
        bound.put(&mut schema);
        json!({ "name": "id", "in": "path", "required": true, "description": about, "schema": schema })
    });
    let is_get = route.is_api() && !route.method.is_mutating();
    let version = VersionQuery::PARAMETERS.iter().filter(|_| is_get);
    let in_query = route.query.iter().chain(version).map(|parameter| {
        let mut schema = (parameter.schema)();
        if let Some(bound) = Bound::of(route.operation_id, parameter.name) {
            bound.put(&mut schema);
        }
        let mut described =
            json!({ "name": parameter.name, "in": "query", "description": parameter.about });
        if NEEDED.contains(&(route.operation_id, parameter.name)) {
            described["required"] = true.into();
        }
        if schema["type"] == "array" {
            described["style"] = "form".into();
            described["explode"] = false.into();
        }
        described["schema"] = schema;
        described
    });
    let in_headers = HEADERS
        .iter()
        .filter(|(name, ..)| {
            let is_key = *name == "IdempotencyKey";
            match route.method.is_mutating() {
                true => route.is_api() || (is_key && route.takes_credential()),
                false => route.is_api() && !is_key,
            }
        })
        .map(|(name, ..)| json!({ "$ref": format!("#/components/parameters/{name}") }));
    in_path.chain(in_query).chain(in_headers).collect()
}

/// Parameters that may not be left out.
const NEEDED: [(&str, &str); 3] = [
    ("checkLease", "filePath"),
    ("searchMemory", "q"),
    ("proof", "nonce"),
];

fn request_body(route: &Route, schemas: &mut Schemas) -> Option<Value> {
    let (schema, required) = match route.request {
        RequestBody::None => return None,
        RequestBody::Required(schema) if !route.takes_credential() => {
            (schema(&mut schemas.requests).to_value(), true)
        }
        RequestBody::Optional(schema) => (schemas.enveloped(schema), false),
        RequestBody::Required(schema) => {
            let mut body = schemas.enveloped(schema);
            let named = OPERATIONS.iter().find(|(_, id)| *id == route.operation_id);
            if let Some((operation, _)) = named {
                may_be_signed(&mut body, *operation);
            }
            (body, true)
        }
        RequestBody::Operation => {
            let operations: Vec<Value> = operations()
                .map(|(operation, schema, _)| {
                    let mut body = schemas.enveloped(schema);
                    if let (Some(body), Value::Object(named)) =
                        (body.as_object_mut(), names_itself(operation))
                    {
                        body.extend(named);
                    }
                    body
                })
                .collect();
            (json!({ "anyOf": operations }), true)
        }
    };
    Some(json!({ "required": required, "content": { "application/json": { "schema": schema } } }))
}

/// A body that says itself what it asks for, without a path.
fn names_itself(operation: Operation) -> Value {
    let mut named = json!({
        "properties": { "operation": { "const": operation.as_str() } },
        "required": ["operation"],
    });
    let member = match operation {
        Operation::Heartbeat => "agentId",
        Operation::Progress | Operation::Complete | Operation::Fail => "taskId",
        Operation::Register
        | Operation::Claim
        | Operation::SendMessage
        | Operation::ReceiveMessages
        | Operation::AcquireLease
        | Operation::ReleaseLease => return named,
    };
    named["properties"][member] = json!({ "type": "string" });
    named["required"] = json!(["operation", member]);
    named
}

/// On the path of an operation a body need not name it, unless it is signed.
fn may_be_signed(body: &mut Value, operation: Operation) {
    body["properties"] = json!({ "operation": { "enum": [operation.as_str(), null] } });
    let unsigned = json!({ "properties": { "signature": { "type": "null" } } });
    body["anyOf"] = json!([unsigned, names_itself(operation)]);
}

fn responses(route: &Route, schemas: &mut Schemas) -> Map<String, Value> {
    let success = json!({ "description": "Success.", "content": content(route, schemas) });
    let mut responses = Map::from_iter([(route.status.to_string(), success)]);
    let mut codes: Vec<ErrorCode> = route.errors.to_vec();
    codes.extend(ANYWHERE);
    if route.takes_credential() || takes_sql(route) || route.path == "/metrics" {
        codes.extend(WITH_CREDENTIAL);
    }
    if takes_sql(route) {
        codes.push(ErrorCode::TooLarge);
    } else if route.method.is_mutating() {
        codes.extend(CHANGING);
    }
    if route.path == "/readyz" {
        codes.push(ErrorCode::DbUnavailable);
    }
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status()).or_default().push(code);
    }
    for (status, codes) in by_status {
        responses.insert(status.to_string(), schemas.error(status, &codes));
    }
    if route.tag == "sql" {
        let refused = schemas.answer(|generator| generator.subschema_for::<Refused>());
        let content = json!({ "application/json": { "schema": refused } });
        let elsewhere =
            json!({ "description": "The ledger is in PostgreSQL.", "content": content });
        responses.insert("501".to_owned(), elsewhere);
    }
    responses
}

fn content(route: &Route, schemas: &mut Schemas) -> Value {
    let schema = match route.answer {
        Answer::Json(schema) | Answer::JsonOrStream(schema) => schemas.answer(schema),
        Answer::Either(one, other) => {
            json!({ "anyOf": [schemas.answer(one), schemas.answer(other)] })
        }
        Answer::Operation => {
            let answers: Vec<Value> = operations()
                .map(|(_, _, answer)| schemas.answer(answer))
                .collect();
            json!({ "anyOf": answers })
        }
        Answer::Object => json!({ "type": "object" }),
        Answer::Text(kind) => return json!({ kind: { "schema": { "type": "string" } } }),
    };
    let mut content = json!({ "application/json": { "schema": schema } });
    if let Answer::JsonOrStream(_) = route.answer {
        content["text/event-stream"] = json!({ "schema": { "type": "string" } });
    }
    content
}

/// The operations that have a path of their own with a body, by the id of their route.
const OPERATIONS: [(Operation, &str); 9] = [
    (Operation::Register, "register"),
    (Operation::Heartbeat, "heartbeat"),
    (Operation::Claim, "claim"),
    (Operation::Progress, "progress"),
    (Operation::Complete, "complete"),
    (Operation::Fail, "fail"),
    (Operation::SendMessage, "sendMessage"),
    (Operation::AcquireLease, "acquireLease"),
    (Operation::ReleaseLease, "releaseLease"),
];

/// Requests and answers of the ten operations.
fn operations() -> impl Iterator<Item = (Operation, SchemaOf, SchemaOf)> {
    let receive: SchemaOf = |generator| generator.subschema_for::<ReceiveMessagesRequest>();
    let received: SchemaOf = |generator| generator.subschema_for::<ReceiveMessagesResponse>();
    let others = OPERATIONS.iter().map(|(operation, id)| {
        let mut routes = ROUTES.iter();
        let route = routes.find(|route| route.operation_id == *id);
        let route = route.expect("every operation has a route");
        match (route.request, route.answer) {
            (RequestBody::Required(request), Answer::Json(answer)) => (*operation, request, answer),
            _ => unreachable!("the routes of operations take and answer one message"),
        }
    });
    others.chain([(Operation::ReceiveMessages, receive, received)])
}

/// Two generators, because what must be sent and what will be answered differ in what may be absent.
struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
    /// Refusals, each once.
    errors: Map<String, Value>,
}

impl Schemas {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12()
                .with(|settings| settings.definitions_path = "/components/schemas".into())
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            answers: settings().for_serialize().into_generator(),
            errors: Map::new(),
        }
    }

    /// The request together with the members that any body may carry.
    fn enveloped(&mut self, schema: SchemaOf) -> Value {
        let envelope = self.requests.subschema_for::<Envelope>();
        json!({ "allOf": [envelope, schema(&mut self.requests)] })
    }

    fn answer(&mut self, schema: impl FnOnce(&mut SchemaGenerator) -> schemars::Schema) -> Value {
        schema(&mut self.answers).to_value()
    }

    /// Refers to the response for a status with these codes.
    fn error(&mut self, status: u16, codes: &[ErrorCode]) -> Value {
        let names: Vec<String> = codes.iter().map(|code| format!("{code:?}")).collect();
        let words: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
        let schema = self.answer(|generator| generator.subschema_for::<ErrorBody>());
        let mut error = json!({
            "description": format!("`error` is {}.", words.join(" or ")),
            "content": { "application/json": { "schema": schema } },
        });
        if matches!(status, 429 | 503) {
            let schema = json!({ "type": "integer" });
            error["headers"] =
                json!({ "Retry-After": { "description": "Seconds.", "schema": schema } });
        }
        let name = names.join("Or");
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        self.errors.insert(name, error);
        reference
    }

    /// All components. A type that travels both ways has to look the same both ways.
    fn finish(mut self) -> Map<String, Value> {
        let mut all = self.requests.take_definitions(true);
        for (name, member, bound) in bounds::MEMBERS {
            let pointer = match member.starts_with('/') {
                true => (*member).to_owned(),
                false => format!("/properties/{member}"),
            };
            let schema = all
                .get_mut(*name)
                .and_then(|schema| schema.pointer_mut(&pointer));
            bound.put(schema.unwrap_or_else(|| panic!("no {member} in {name}")));
        }
        for (name, schema) in self.answers.take_definitions(true) {
            all.entry(name).or_insert(schema);
        }
        all.values_mut().for_each(bounds::whole_numbers);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_travels_both_ways_looks_the_same_both_ways() {
        let mut schemas = Schemas::new();
        for route in ROUTES {
            operation(route, &mut schemas);
        }
        let requests = schemas.requests.take_definitions(true);
        let answers = schemas.answers.take_definitions(true);
        let shared: Vec<&String> = requests
            .keys()
            .filter(|name| answers.contains_key(*name))
            .collect();
        assert!(shared.len() > 5, "{shared:?}");
        for name in shared {
            assert_eq!(requests[name], answers[name], "{name}");
        }
    }
}
