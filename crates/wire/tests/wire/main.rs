//! The protocol seen from outside: golden messages, refusals by table, noise, and the OpenAPI document.

mod golden;
mod noise;
mod openapi;
mod refusals;
