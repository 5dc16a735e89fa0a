//! The OpenAPI 3.1 document, made from the table of routes and the message types.

use std::collections::BTreeMap;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::jetpack::{
    Answer, Envelope, ErrorBody, ErrorCode, ROUTES, RequestBody, Route, SchemaOf,
};

/// Headers that any mutating call may carry, by component name.
const HEADERS: &[(&str, &str, &str)] = &[
    (
        "IdempotencyKey",
        "Idempotency-Key",
        "1 to 128 visible ASCII characters; the same key with the same body returns the first response.",
    ),
    (
        "ProtocolVersion",
        "Switchboard-Protocol-Version",
        "The protocol version, if it is not in the body.",
    ),
];

/// What any call below `/api/v1` may be refused with.
const ANYWHERE: &[ErrorCode] = &[
    ErrorCode::InvalidOperation,
    ErrorCode::Unauthenticated,
    ErrorCode::NotYou,
    ErrorCode::Forbidden,
    ErrorCode::WrongHost,
    ErrorCode::RateLimited,
    ErrorCode::DbUnavailable,
    ErrorCode::Overloaded,
];

/// What a call with a body may also be refused with.
const WITH_BODY: &[ErrorCode] = &[ErrorCode::TooLarge, ErrorCode::IdempotencyKeyReused];

/// The whole document.
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let operation = operation(route, &mut schemas);
        paths
            .entry(route.path)
            .or_default()
            .insert(route.method.as_str().to_lowercase(), operation);
    }
    let parameters: Map<String, Value> = HEADERS
        .iter()
        .map(|(name, header, about)| {
            let schema = json!({ "type": "string", "maxLength": 128 });
            (
                (*name).to_owned(),
                json!({ "name": header, "in": "header", "description": about, "schema": schema }),
            )
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Switchboard",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "A coordination hub for swarms of coding agents; the Jetpack agent protocol 1.0 over HTTP.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:7373" }],
        "security": [{}, { "token": [] }, { "signature": [] }],
        "paths": paths,
        "components": {
            "responses": std::mem::take(&mut schemas.errors),
            "schemas": schemas.finish(),
            "parameters": parameters,
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

fn operation(route: &Route, schemas: &mut Schemas) -> Value {
    let mut operation = json!({
        "operationId": route.operation_id,
        "summary": route.summary,
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
    } else if !route.is_api() && route.path != "/metrics" {
        operation["security"] = json!([{}]);
    }
    operation
}

/// Raw SQL, which always takes a token and never a key: it is not done again by itself.
fn takes_sql(route: &Route) -> bool {
    route.tag == "sql" && route.method.is_mutating()
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).map(
        |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }),
    );
    let in_query = route.query.iter().map(|parameter| {
        let schema = (parameter.schema)();
        let mut described =
            json!({ "name": parameter.name, "in": "query", "description": parameter.about });
        if schema["type"] == "array" {
            described["style"] = "form".into();
            described["explode"] = false.into();
        }
        described["schema"] = schema;
        described
    });
    let in_headers = HEADERS
        .iter()
        .filter(|_| route.method.is_mutating() && route.is_api())
        .map(|(name, ..)| json!({ "$ref": format!("#/components/parameters/{name}") }));
    in_path.chain(in_query).chain(in_headers).collect()
}

fn request_body(route: &Route, schemas: &mut Schemas) -> Option<Value> {
    let (schema, required) = match route.request {
        RequestBody::None => return None,
        RequestBody::Optional(schema) => (schemas.enveloped(schema), false),
        RequestBody::Required(schema) => (schemas.enveloped(schema), true),
        RequestBody::Operation => {
            let operations: Vec<Value> = operations()
                .map(|(schema, _)| schemas.enveloped(schema))
                .collect();
            (json!({ "anyOf": operations }), true)
        }
    };
    Some(json!({ "required": required, "content": { "application/json": { "schema": schema } } }))
}

fn responses(route: &Route, schemas: &mut Schemas) -> Map<String, Value> {
    let success = json!({ "description": "Success.", "content": content(route, schemas) });
    let mut responses = Map::from_iter([(route.status.to_string(), success)]);
    let mut codes: Vec<ErrorCode> = route.errors.to_vec();
    if route.is_api() || takes_sql(route) {
        codes.extend(ANYWHERE);
    }
    if takes_sql(route) {
        codes.push(ErrorCode::TooLarge);
    } else if !matches!(route.request, RequestBody::None) {
        codes.extend(WITH_BODY);
    }
    if route.path == "/readyz" {
        codes.push(ErrorCode::DbUnavailable);
    }
    if route.path == "/metrics" {
        codes.extend([ErrorCode::Unauthenticated, ErrorCode::Forbidden]);
    }
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status()).or_default().push(code);
    }
    for (status, codes) in by_status {
        responses.insert(status.to_string(), schemas.error(status, &codes));
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
                .map(|(_, answer)| schemas.answer(answer))
                .collect();
            json!({ "anyOf": answers })
        }
        Answer::Object => json!({ "type": "object" }),
        Answer::Text => return json!({ "text/plain": { "schema": { "type": "string" } } }),
    };
    let mut content = json!({ "application/json": { "schema": schema } });
    if let Answer::JsonOrStream(_) = route.answer {
        content["text/event-stream"] = json!({ "schema": { "type": "string" } });
    }
    content
}

/// Requests and answers of the ten operations, which all have a route of their own.
fn operations() -> impl Iterator<Item = (SchemaOf, SchemaOf)> {
    use crate::jetpack::Operation as Op;
    Op::ALL.iter().map(|operation| {
        let receive: SchemaOf =
            |generator| generator.subschema_for::<crate::jetpack::ReceiveMessagesRequest>();
        let received: SchemaOf =
            |generator| generator.subschema_for::<crate::jetpack::ReceiveMessagesResponse>();
        let id = match operation {
            Op::ReceiveMessages => return (receive, received),
            Op::Register => "register",
            Op::Heartbeat => "heartbeat",
            Op::Claim => "claim",
            Op::Progress => "progress",
            Op::Complete => "complete",
            Op::Fail => "fail",
            Op::SendMessage => "sendMessage",
            Op::AcquireLease => "acquireLease",
            Op::ReleaseLease => "releaseLease",
        };
        let route = ROUTES
            .iter()
            .find(|route| route.operation_id == id)
            .expect("every operation has a route");
        match (route.request, route.answer) {
            (RequestBody::Required(request), Answer::Json(answer)) => (request, answer),
            _ => unreachable!("the routes of operations take and answer one message"),
        }
    })
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
        for (name, schema) in self.answers.take_definitions(true) {
            all.insert(name, schema);
        }
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
