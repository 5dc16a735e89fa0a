//! The broker: roles that talk in frames over WebSocket.
//!
//! `wire::squidrun` knows the frames; here are sockets ([`connection`]), what a client asks for ([`session`]), and one
//! [`desk`] for each role that is connected, which hands its mail to all its sockets. What anybody says, over whatever
//! path, goes through [`say`].

mod acks;
mod background;
mod bot;
mod check;
mod connection;
mod desk;
mod health;
mod listen;
mod news;
mod proof;
mod restart;
mod say;
mod session;
mod socket;
mod state;
mod surface;
mod tasks;
pub(crate) mod terminal;

pub(crate) use state::Broker;
pub(crate) use surface::SURFACE;
