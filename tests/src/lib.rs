//! What the suite shares: the real binary in a project of its own, a plain HTTP client, waiting with deadlines.
//!
//! Nothing here knows a rule of the hub. The tests are in `tests/suite`, one module per subject.

mod binary;
mod calls;
pub mod faults;
pub mod http;
pub mod page;
pub mod power;
mod preload;
mod process;
mod random;
mod wait;

pub use binary::switchboard;
pub use calls::{API, completion, registration};
pub use http::{Answer, Client, Request};
pub use process::{Ended, Hub, Project, with_parameter};
pub use random::Random;
pub use rustix::process::Signal;
pub use wait::{PATIENCE, until};
