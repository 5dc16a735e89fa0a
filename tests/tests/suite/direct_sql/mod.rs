//! Direct SQL as `docs/direct-sql.md` tells it: the tests run that page, with the programs that people have.

mod beginning;
mod day;
mod lock;
mod page;
mod programs;
mod story;
mod swarm;
mod tables;
