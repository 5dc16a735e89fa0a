//! The protocols seen from outside: golden messages, refusals by table, and the OpenAPI document. Noise is in `tests/fuzz`.

mod agentbus;
mod bounds;
mod errors;
mod events;
mod from_wire;
mod golden;
mod jose;
mod logist;
mod openapi;
mod refusals;
mod runtime_events;
mod squidrun;
mod to_wire;
