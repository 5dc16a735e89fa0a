//! The suite: everything that needs more than one crate, most of it with the real binary.

mod bad_input;
mod bad_world;
mod bus;
mod cert;
mod clauses;
mod clock;
mod coordinators;
mod crash;
mod direct_sql;
mod disk;
mod doctor;
mod doors;
mod files;
mod libsql;
mod libsql_hostile;
mod long_poll;
mod memory_crash;
mod migrate;
mod moves;
mod outage;
mod power;
mod race;
mod random;
mod scenarios;
mod shutdown;
mod swarm_db;
