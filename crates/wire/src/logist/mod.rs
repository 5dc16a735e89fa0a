//! Logist: jobs that a worker does, a supervisor judges and a steward is asked about.
//!
//! Pure: [`response`] judges what an agent printed, [`call`] tells errors of its call from a response, [`request`] is what
//! it is given. [`manifest`], [`history`], [`spec`] and [`files`] are the files of a job, both ways, [`schemas`] what is
//! published of them, [`http`] the messages of `/api/v1/jobs`. Directories, children and git are elsewhere. Start with
//! [`response`].

pub mod call;
pub mod files;
pub mod from_wire;
pub mod history;
pub mod http;
pub mod manifest;
pub mod metrics;
pub mod queued;
pub mod request;
pub mod response;
pub mod schemas;
pub mod spec;
pub mod words;

pub use files::{Index, Outcome};
pub use history::History;
pub use manifest::Manifest;
pub use request::Request;
pub use response::{Judgement, Terms, Workspace, judge, sanitized, validate};
pub use spec::Spec;
