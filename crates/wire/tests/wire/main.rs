//! The protocols seen from outside: golden messages, refusals by table, noise, and the OpenAPI document.

mod agentbus;
mod bounds;
mod errors;
mod from_wire;
mod golden;
mod noise;
mod openapi;
mod refusals;
mod to_wire;
