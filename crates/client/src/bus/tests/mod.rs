//! The clients against a director that does what each test tells it, over sockets and, where time matters, over
//! pipes in a time that stands still until everybody waits.

mod director;
mod operator;
mod reconnect;
mod telemetry;
mod tls;
mod work;
